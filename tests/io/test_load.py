"""Files that are damaged, forged or foreign are refused, and run nothing."""

import hashlib
import io
import json
import pickle

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from sktopk import TopKClassifier
from sktopk.io import STEPS, TRUSTED_TYPES, dump, load
from sktopk.modules import MLP
from tests.io.forged import edit, parts, replace_array


def quick(**params):
    params = {
        "k": 2,
        "module": MLP,
        "hidden_layer_sizes": (4,),
        "max_epochs": 2,
        "random_state": 0,
        **params,
    }
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
    ids=str,
)
def test_other_files_are_no_models(path, data):
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"truncated|header|not written by sktopk"):
        load(path)


def test_other_safetensors_files_are_no_models(path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="not written by sktopk: it is a safetensors file"):
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
        header["__metadata__"]["format_version"] = "3"
        content["model"] = {"of": "another kind"}

    edit(saved, newer)
    with pytest.raises(ValueError, match=r"format '3' is newer .*\(2\).*sktopk.*upgrade sktopk"):
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
        r"size mismatch: weights .* shape \(4, 4\), .*describe \(1000000000, 4\)",
    ),
    "features": (
        lambda header, content: model(content)["fitted"].update(
            n_features_in_=10**9, input_shape_={"tuple": [10**9]}
        ),
        r"size mismatch: weights .*describe \(4, 1000000000\)",
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
            class_count_=model(content)["fitted"]["net_"]["dict"][1][1]["dict"][1][0]
        ),
        "missing or used twice",
    ),
    "objects": (
        set_in("fitted", "classes_", value={"objects": ["a"], "shape": [2**40]}),
        "cannot reshape",
    ),
    "random": (
        set_in("params", "random_state", value={"random_state": {"dict": [["state"], [1]]}}),
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
        keys, values = model(content)["params"]["random_state"]["random_state"]["dict"]
        names, parts = values[keys.index("state")]["dict"]
        parts[names.index("pos")] = 10**6

    edit(path, beyond)
    with pytest.raises(ValueError, match="RandomState is at no possible position"):
        load(path)


@pytest.fixture(scope="module")
def pipe(named):
    X, y = named
    return make_pipeline(make_pipeline(StandardScaler(), PCA(3)), quick()).fit(X, y)


def first_step(content):
    """The StandardScaler in the Pipeline in a Pipeline."""
    inner = content["model"]["params"]["steps"][0]["tuple"][1]
    return inner, inner["params"]["steps"][0]["tuple"][1]


def in_step(**attributes):
    def change(header, content):
        first_step(content)[1]["fitted"].update(attributes)

    return change


def as_step(name, **params):
    def change(header, content):
        scaler = first_step(content)[1]
        scaler |= {"estimator": name, "params": params, "fitted": {}}

    return change


SMUGGLED = {
    "class": (as_step("Popen"), "unknown class 'Popen'"),
    "forest": (as_step("RandomForestClassifier"), "unknown class 'RandomForestClassifier'"),
    "path of a class": (as_step("os.system"), r"unknown class 'os\.system'"),
    "function": (as_step("FunctionTransformer", func={"type": "eval"}), "KeyError: 'eval'"),
    "parameter": (as_step("StandardScaler", shell=True), r"no parameters \['shell'\]"),
    "method": (in_step(transform=1), r"StandardScaler has no attributes \['transform'\]"),
    "dunder": (in_step(__class__="x"), r"no attributes \['__class__'\]"),
    "dtype": (in_step(mean_={"dtype": "O,O"}), "unknown dtype 'O,O'"),
    "threads": (as_step("LogisticRegression", n_jobs=10**6), "n_jobs of LogisticRegression must"),
    "memory": (
        lambda header, content: first_step(content)[0]["params"].update(memory="/tmp"),
        "memory of a Pipeline must be None",
    ),
    "memory of one that is referred to": (
        lambda header, content: content["model"]["params"]["steps"].insert(
            1, {"tuple": ["again", {"same": 0}]}
        ),
        "refers to an estimator 0 that it does not hold",
    ),
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_steps_bring_nothing_but_themselves(pipe, path, name):
    dump(pipe, path)
    change, message = SMUGGLED[name]
    edit(path, change)
    with pytest.raises(ValueError, match=message):
        load(path)


def stand_in(**attributes):
    """What `dump` takes for a fitted step with these attributes."""
    return lambda step: vars(step).update(attributes)


def fitted_steps():
    words, names = ["one two", "two three"], np.array([["a", "b"], ["c", "b"], ["a", "a"]])
    wild = OneHotEncoder().fit(names)
    rare = OneHotEncoder(min_frequency=2).fit(np.array([["a"], ["a"], ["b"], ["c"]]))
    far = {"one": 0, "two": 1, "three": 2**30}
    columns = "attributes of {} do not belong together"
    return {
        "word": (CountVectorizer().fit(words), stand_in(vocabulary_=far), columns),
        "tfidf": (TfidfVectorizer().fit(words), stand_in(vocabulary_=far), columns),
        "field": (DictVectorizer().fit([{"a": 1, "b": 2}]), stand_in(vocabulary_=far), columns),
        "category": (wild, stand_in(_n_features_outs=[1, 1]), columns),
        "rare": (
            rare,
            stand_in(_default_to_infrequent_mappings=[np.array([0, 2**30, 1])]),
            columns,
        ),
        "buckets": (FeatureHasher(8), stand_in(n_features=0), columns),
        "degree": (PolynomialFeatures(2).fit(np.ones((1, 3))), stand_in(degree=10**9), columns),
        "powers": (
            PolynomialFeatures(2).fit(np.ones((1, 3))),
            stand_in(_max_degree=10**9),
            columns,
        ),
        "files": (CountVectorizer().fit(words), stand_in(input="filename"), "would read files"),
        "pattern": (TfidfVectorizer().fit(words), stand_in(token_pattern="(a+)+$"), "for ever"),
        "hashed": (HashingVectorizer(), stand_in(token_pattern="(a+)+$"), "trusted=True"),
    }


@pytest.mark.parametrize("name", fitted_steps())
def test_attributes_of_steps_are_what_a_fit_could_have_left(path, name):
    step, change, message = fitted_steps()[name]
    load(dump(make_pipeline(step, quick()), path))
    change(step)
    dump(make_pipeline(step, quick()), path)
    with pytest.raises(ValueError, match=message.format(type(step).__name__)):
        load(path)


def test_patterns_and_files_come_with_trust_alone(path):
    step = CountVectorizer(input="file", token_pattern=r"\w").fit([io.StringIO("a b")])
    dump(make_pipeline(step, quick()), path)
    loaded = load(path, trusted=True)[0]
    assert (loaded.input, loaded.token_pattern, loaded.vocabulary_) == (
        "file",
        r"\w",
        step.vocabulary_,
    )


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
