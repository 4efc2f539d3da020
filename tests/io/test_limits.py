"""The memory and time of loading a file are bounded by its size."""

import io
import json
import os
import time
import zipfile
from functools import partial

import numpy as np
import pytest

from sktopk import TopKClassifier
from sktopk.io import dump, load
from sktopk.modules import MLP, TabularMLP
from tests.io.archives import change_nodes, rewritten, with_node

pytest.importorskip("skops")
with_parameter = partial(with_node, "loss")


def node_of(loader, kind, **more):
    module, _, name = kind.rpartition(".")
    return {"__class__": name, "__module__": module, "__loader__": loader} | more


def list_of(*nodes, **more):
    return node_of("ListNode", "builtins.list", content=[*nodes], **more)


NUMBER = node_of("JsonNode", "builtins.str", content="1", is_json=True)


def nested(depth):
    """A list with two references to a list, which has two references to a list, and so on."""
    node = list_of(NUMBER, NUMBER, __id__=1)
    for number in range(2, depth + 1):
        stub = node_of("ListNode", "builtins.list", content=[], __id__=number - 1)
        node = list_of(node, stub, __id__=number)
    return node


def array_of(header, data=b""):
    text = repr({"descr": header[0], "fortran_order": False, "shape": header[1]}) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def with_array(data, kind="numpy.ndarray"):
    """Return a change that replaces the parameter `loss` by an array."""

    def change(members):
        members["a.npy"] = data
        node = node_of("NdArrayNode", kind, type="numpy", file="a.npy", __id__=-1)
        with_parameter(node)(members)

    return change


def read_twice(members, first, second):
    members["a.npy"] = array_of(("<f8", (100,)), bytes(800))
    array = node_of("NdArrayNode", "numpy.ndarray", type="numpy", file="a.npy")
    with_parameter(list_of(array | first, array | second))(members)


NETWORK = f"{MLP.__module__}.MLP"
TWO_NUMBERS = node_of("TupleNode", "builtins.tuple", content=[NUMBER, NUMBER])
FORGED = {
    "nested references": (with_parameter(nested(29)), "equal content"),
    "an array that two nodes read": (
        partial(read_twice, first={"__id__": -1}, second={"__id__": -2}), "no other object uses"),
    "an array without an id": (partial(read_twice, first={}, second={}), "no other object uses"),
    "a huge array": (with_array(array_of(("<f8", (2**40,)))), "has 0 bytes, which"),
    "a huge array without items": (with_array(array_of(("<f8", (2**40, 0)))), "has 0 bytes, which"),
    "items of size 0": (with_array(array_of(("|V0", (2**40,)))), "has 0 bytes, which"),
    "texts of size 0": (with_array(array_of(("<U0", (2**20,)))), "has 0 bytes, which"),
    "items of a huge size": (with_array(array_of(("<U99999999", (1,)))), "has 0 bytes, which"),
    "fewer bytes": (with_array(array_of(("<f8", (2,)), bytes(8))), "has 8 bytes, which"),
    "more bytes": (with_array(array_of(("<f8", (1,)), bytes(16))), "has 16 bytes, which"),
    "as many bytes as a number": (
        with_array(array_of(("<i8", ()), (2**33).to_bytes(8, "little")), "numpy.void"),
        "must not contain an object of type numpy.void"),
    "a huge network": (
        with_parameter(node_of("ConstructorFromReduceNode", NETWORK, content=TWO_NUMBERS)),
        f"must not call {NETWORK}"),
    "a file that does not exist": (
        with_parameter(node_of("NdArrayNode", "numpy.ndarray", type="numpy", file="b.npy")),
        "no other object uses"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_content_larger_than_its_file_raises_at_once(name, path):
    change, message = FORGED[name]
    dump(TopKClassifier(), path)
    rewritten(path, change)
    start = time.perf_counter()
    with pytest.raises(ValueError, match=f"cannot be loaded: .*{message}"):
        load(path)
    assert time.perf_counter() - start < 5


def test_compressed_members_of_the_archive_raise(path):
    dump(TopKClassifier(), path)
    change = with_array(array_of(("<f8", (10**6,)), bytes(8 * 10**6)))
    rewritten(path, change, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match="must be uncompressed, differ in name"):
        load(path)


def test_members_of_the_archive_that_share_bytes_raise(path):
    dump(TopKClassifier(), path)
    rewritten(path, with_array(array_of(("<f8", (10**4,)), bytes(8 * 10**4))))
    with zipfile.ZipFile(path, "a") as archive:
        info = archive.getinfo("a.npy")
        for i in range(9):
            other = zipfile.ZipInfo(f"{i}.npy")
            for name in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(other, name, getattr(info, name))
            archive.filelist.append(other)
        archive._didModify = True
    with pytest.raises(ValueError, match="differ in name and not overlap"):
        load(path)


def test_deeply_nested_content_raises(path):
    text = json.dumps(NUMBER)
    for _ in range(5000):
        text = json.dumps(list_of("x")).replace('"x"', text)
    dump(TopKClassifier(), path)

    def change(members):
        schema = json.loads(members["schema.json"])
        schema["content"]["content"]["loss"] = "x"
        members["schema.json"] = json.dumps(schema).replace('"x"', text).encode()

    rewritten(path, change)
    with pytest.raises(ValueError, match="cannot be loaded: RecursionError"):
        load(path)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 3), (1, 0, 5)])
@pytest.mark.parametrize("dtype", ["<f4", "<U3", "bool", "i8"])
def test_any_array_that_dump_writes_is_loaded(shape, dtype, path):
    values = np.zeros(shape, dtype)
    found = load(dump(TopKClassifier(loss=[values, values, np.str_("")]), path)).loss
    np.testing.assert_array_equal(found[0], values)
    assert (found[1].dtype, found[2]) == (values.dtype, "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_a_device_and_a_folder_raise_at_once(path):
    os.mkfifo(path)
    for each in (path, "/dev/zero"):
        with pytest.raises(OSError, match="path must be a regular file"):
            load(each)
    with pytest.raises(IsADirectoryError):
        load(path.parent)
    with pytest.raises(OSError, match=r"cannot be read \(path must be a regular file\)"):
        TopKClassifier().fit([[0.0], [1.0]], [0, 1], checkpoint=path)


def test_a_network_larger_than_the_file_raises(iris, path):
    params = {"hidden_layer_sizes": (4,), "n_estimators": 1, "max_epochs": 1, "random_state": 0}
    dump(TopKClassifier(k=1, **params).fit(*iris), path)
    width = node_of("JsonNode", "builtins.str", content=str(2**14), is_json=True)

    def widen(each):
        if "hidden_layer_sizes" in each:
            each["hidden_layer_sizes"]["content"] = [width, width, width]

    rewritten(path, change_nodes(widen))
    with pytest.raises(ValueError, match="damaged: the file must store all weights"):
        load(path)


def test_skops_reads_what_dump_writes(path):
    import skops.io

    dump(TopKClassifier(tau=3.0), path)
    trusted = ["sktopk.TopKClassifier", f"{TabularMLP.__module__}.TabularMLP"]
    assert skops.io.load(io.BytesIO(path.read_bytes()), trusted=trusted).tau == 3.0
