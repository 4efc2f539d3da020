"""Files that are damaged, forged or foreign are refused, and run nothing."""

import hashlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.io import STEPS, TRUSTED_TYPES, dump, load
from tests.io.forged import edit, parts, replace_array


def quick(**params):
    params = {"k": 2, "hidden_layer_sizes": (4,), "max_epochs": 2, "random_state": 0, **params}
    return TopKClassifier(**params)


@pytest.fixture(scope="module")
def original(named, tmp_path_factory):
    X, y = named
    path = tmp_path_factory.mktemp("original") / "model"
    dump(quick().fit(X, y), path)
    return path.read_bytes()


@pytest.fixture
def saved(original, path):
    path.write_bytes(original)
    return path


def test_every_flipped_byte_and_every_length_is_noticed(original, path):
    places = {*range(0, len(original), 61), *range(8), len(original) - 1}
    for place in places:
        data = bytearray(original)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{path.name} cannot be loaded: "):
            load(path)
        path.write_bytes(original[:place])
        with pytest.raises(ValueError, match="truncated"):
            load(path)
    path.write_bytes(original + b"\0")
    with pytest.raises(ValueError, match="altered: its checksum does not fit"):
        load(path)


def test_a_missing_file_is_an_oserror(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80\x04K\x01.", pickle.dumps(3), b"\x08" + bytes(15), b"\x02" + bytes(7) + b"[]"],
)
def test_other_files_are_no_models(path, data):
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"truncated|header|not written by sktopk"):
        load(path)


def test_other_safetensors_files_are_no_models(path):
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match=r"not written by sktopk\.io\.dump"):
        load(path)


def test_an_oversized_header_is_refused_before_it_is_read(saved):
    data = saved.read_bytes()
    saved.write_bytes((2**24 + 1).to_bytes(8, "little") + data[8:])
    with pytest.raises(
        ValueError, match="header must have at most 16777216 bytes; it claims 16777"
    ):
        load(saved)


def test_a_newer_format_is_refused_politely(saved):
    def newer(header, content):
        header["__metadata__"]["format_version"] = "2"
        content["model"] = {"of": "another kind"}

    edit(saved, newer)
    with pytest.raises(ValueError, match=r"format 2 is newer .*\(1\).*sktopk.*upgrade sktopk"):
        load(saved)


def model(content):
    return content["model"]


def set_in(*path, value):
    def change(header, content):
        owner = content["model"]
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = value

    return change


FORGED = {
    "class": (set_in("estimator", value="Popen"), "unknown class 'Popen'"),
    "dunder": (set_in("estimator", value="__loader__"), "unknown class '__loader__'"),
    "parameter": (set_in("params", "shell", value=True), r"no parameters \['shell'\]: upgrade"),
    "attribute": (set_in("fitted", "__class__", value=1), "no attributes \\['__class__'\\]"),
    "shadow": (set_in("fitted", "predict", value=1), "no attributes \\['predict'\\]"),
    "kind": (set_in("params", "loss", value={"pickle": "gASVAA=="}), "unknown kind 'pickle'"),
    "record": (set_in("params", "scoring", value={"record": "x", "fields": []}), "unknown class"),
    "optimizer": (
        set_in("params", "optimizer", value={"optimizer": "__loader__"}),
        "unknown optimizer '__loader__'",
    ),
    "module": (set_in("params_of_net", "module", value="os.system"), "module must be an nn.Module"),
    "layers": (
        set_in("params_of_net", "hidden_layer_sizes", value={"tuple": [10**9, 10**9]}),
        r"weights of wrong shape: \[\(4, 4\), \(5, 4\)\] do not belong",
    ),
    "features": (
        set_in("fitted", "n_features_in_", value=10**9),
        "weights of wrong shape: .*10000",
    ),
    "columns": (
        set_in("fitted", "input_shape_", value={"tuple": [5]}),
        "input_shape_ of TopKClass",
    ),
    "threshold": (set_in("fitted", "k_", value="many"), "k_ of TopKClassifier has a wrong type"),
    "missing": (
        lambda header, content: model(content)["fitted"].pop("classes_"),
        "classes_ .*missing",
    ),
    "omitted": (set_in("params", "module", value={"omitted": "module"}), "KeyError"),
    "itself": (set_in("params", "scoring", value={"same": 0}), "refers to an estimator 0"),
    "used twice": (
        lambda header, content: model(content)["fitted"].update(
            class_count_=model(content)["fitted"]["net_"]["dict"][1][1]["dict"][0][1]
        ),
        "missing or used twice",
    ),
    "objects": (
        set_in("fitted", "classes_", value={"objects": ["a"], "shape": [2**40]}),
        "cannot reshape",
    ),
    "random": (
        set_in("params", "random_state", value={"random_state": {"dict": [["state", 1]]}}),
        "TypeError",
    ),
    "offsets": (
        lambda header, content: header["0"].update(data_offsets=[0, 2**60]),
        "arrays cannot be read",
    ),
    "shape": (lambda header, content: header["0"].update(shape=[2**60]), "arrays cannot be read"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_forged_file_says_is_checked(saved, name):
    change, message = FORGED[name]
    edit(saved, change)
    with pytest.raises(ValueError, match=f"(?s){saved.name} cannot be loaded: .*{message}"):
        load(saved)


def test_arrays_of_wrong_shape_are_refused(saved):
    header, _, _ = parts(saved)
    original = saved.read_bytes()
    shapes = {key: entry["shape"] for key, entry in header.items() if key != "__metadata__"}
    for key, shape in shapes.items():
        kind = {"F64": np.float64, "F32": np.float32, "U8": np.uint8, "I64": np.int64}
        wrong = np.zeros([n + 1 for n in shape] or [2], kind[header[key]["dtype"]])
        replace_array(saved, key, wrong)
        with pytest.raises(ValueError, match=r"(?i)shape|size|state|invalid"):
            load(saved)
        saved.write_bytes(original)


def test_a_random_state_beyond_its_end_is_refused(path):
    dump(quick(random_state=np.random.RandomState(0)), path)

    def beyond(header, content):
        state = dict(model(content)["params"]["random_state"]["random_state"]["dict"])
        state["state"]["dict"] = [
            [key, 10**6 if key == "pos" else value] for key, value in state["state"]["dict"]
        ]

    edit(path, beyond)
    with pytest.raises(ValueError, match="RandomState is at no possible position"):
        load(path)


class Sentinel:
    """Pickles into a call that leaves a trace."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (open, (str(self.place), "w"))


def rewritten(blob, schema=None, parts=None, compression=zipfile.ZIP_STORED):
    """A skops archive with another schema or other parts."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(blob)) as old,
        zipfile.ZipFile(out, "w", compression) as new,
    ):
        for name in old.namelist():
            data = (parts or {}).get(name, old.read(name))
            if name == "schema.json" and schema is not None:
                changed = json.loads(data)
                schema(changed)
                data = json.dumps(changed)
            new.writestr(name, data)
    return out.getvalue()


def node(loader, name, **more):
    module, cls = name.rsplit(".", 1)
    return {"__loader__": loader, "__module__": module, "__class__": cls, "__id__": 1, **more}


def smuggle(evil):
    def change(schema):
        schema["content"]["content"]["copy"] = evil

    return change


SYSTEM = node("FunctionNode", "posix.system")
ARGS = node("TupleNode", "builtins.tuple", content=[])
SMUGGLED = {
    "function": smuggle(SYSTEM),
    "partial": smuggle(
        node("PartialNode", "functools.partial", content=dict.fromkeys(["func", "args"], ARGS))
    ),
    "operator": smuggle(node("OperatorFuncNode", "operator.methodcaller", attrs=ARGS)),
    "other operator": smuggle(node("OperatorFuncNode", "builtins.eval", attrs=ARGS)),
    "method": smuggle(node("MethodNode", "builtins.dict", content={"func": "pop", "obj": ARGS})),
    "constructor": smuggle(node("ConstructorFromReduceNode", "subprocess.Popen", content=ARGS)),
    "object": smuggle(node("ObjectNode", "subprocess.Popen", content=None)),
    "forest": smuggle(node("ObjectNode", "sklearn.ensemble._forest.RandomForestClassifier")),
    "type": smuggle(node("TypeNode", "builtins.eval")),
    "dict": smuggle(node("DictNode", "subprocess.Popen", content={}, key_types=ARGS)),
    "class of array": smuggle(
        node("NdArrayNode", "os.system", type="json", content=[], shape=ARGS)
    ),
    "loader": smuggle(node("SomethingNew", "builtins.str")),
}


@pytest.fixture(scope="module")
def pipe(named):
    X, y = named
    return make_pipeline(StandardScaler(), quick()).fit(X, y)


def step_of(path):
    """Key and bytes of the step in a file."""
    header, content, body = parts(path)
    key = content["model"]["params"]["steps"][0]["tuple"][1]["step"]
    first, last = header[key]["data_offsets"]
    return key, body[first:last]


@pytest.mark.parametrize("name", SMUGGLED)
def test_steps_bring_nothing_but_themselves(pipe, path, name):
    dump(pipe, path)
    key, blob = step_of(path)
    replace_array(path, key, np.frombuffer(rewritten(blob, SMUGGLED[name]), np.uint8))
    with pytest.raises(ValueError, match="not among what a file may hold"):
        load(path)


@pytest.mark.parametrize("change", ["pickle", "shape", "compressed", "memory", "shared"])
def test_parts_of_steps_are_what_they_say(named, path, tmp_path, change):
    X, y = named
    inner = make_pipeline(StandardScaler(), PCA(3))
    dump(make_pipeline(inner, quick()).fit(X, y), path)
    _, content, _ = parts(path)
    # Through an archive of the whole inner pipeline, as a ColumnTransformer would have it.
    blob, out = skops.io.dumps(inner), io.BytesIO()
    name = next(n for n in zipfile.ZipFile(io.BytesIO(blob)).namelist() if n.endswith(".npy"))
    arrays, schema = {}, None
    if change == "pickle":
        np.save(out, np.array([Sentinel(tmp_path / "trace")]), allow_pickle=True)
        arrays = {name: out.getvalue()}
    elif change == "shape":
        np.save(out, np.zeros(4))
        arrays = {name: out.getvalue().replace(b"(4,)", b"(10000000000,)")}
    elif change == "memory":

        def schema(tree):
            tree["content"]["content"]["memory"]["content"] = json.dumps(str(tmp_path))
    elif change == "shared":

        def schema(tree):
            first, second = tree["content"]["content"]["steps"]["content"]
            mean = second["content"][1]["content"]["content"]["mean_"]
            mean["file"] = first["content"][1]["content"]["content"]["mean_"]["file"]

    blob = rewritten(blob, schema, arrays, 8 if change == "compressed" else 0)
    steps = content["model"]["params"]["steps"][0]["tuple"][1]["params"]["steps"]
    key = steps[0]["tuple"][1]["step"]
    replace_array(path, key, np.frombuffer(blob, np.uint8))
    with pytest.raises(ValueError, match=r"not have its shape|compressed|memory of a Pipe|twice"):
        load(path)
    assert not (tmp_path / "trace").exists()


def test_steps_on_the_list_hold_no_code():
    from importlib import import_module

    from sklearn.base import BaseEstimator

    for module, names in STEPS.items():
        for name in names:
            assert issubclass(getattr(import_module(module), name), BaseEstimator)
    assert all(name.startswith("sktopk.") for name in TRUSTED_TYPES)


def test_the_checksum_is_of_the_whole_file(original):
    digest = json.loads(original[8 : 8 + int.from_bytes(original[:8], "little")])
    digest = digest["__metadata__"]["sha256"].encode()
    assert original.count(digest) == 1
    blank = original.replace(digest, b"0" * 64)
    assert hashlib.sha256(blank).hexdigest().encode() == digest
