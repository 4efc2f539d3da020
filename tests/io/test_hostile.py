"""Files with a right checksum that were made to do harm: when they are loaded, or after that."""

import json
import os
import pickle
import stat
import time

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, SetClassifier, TopKClassifier
from sktopk.io import dump, load
from sktopk.modules import MLP, TabularMLP
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


# What the optimizer remembers.

OPTIMIZERS = {
    "adam": {"optimizer": "adam"},
    "adamw, amsgrad": {"optimizer": "adamw", "net_params": {"optimizer__amsgrad": True}},
    "sgd, momentum": {"optimizer": "sgd", "net_params": {"optimizer__momentum": 0.9}},
} | {
    name: {"optimizer": getattr(torch.optim, name)}
    for name in (
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "Adamax",
        "LBFGS",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
    )
    if hasattr(torch.optim, name)
}
# It remembers a hundred steps, a file is read again for each.
OPTIMIZERS["LBFGS"]["net_params"] = {"optimizer__history_size": 3}


def moments(content):
    """Names and array keys of all that the optimizer remembers."""
    names, values = content["model"]["fitted"]["net_"]["dict"]
    names, (states, _) = values[names.index("optimizer")]["dict"]

    def walk(name, node):
        if isinstance(node, dict) and "array" in node:
            yield name, node["array"]
        elif isinstance(node, dict) and "dict" in node:
            for key, item in zip(*node["dict"], strict=True):
                yield from walk(key, item)
        elif isinstance(node, list):
            for item in node:
                yield from walk(name, item)

    return list(walk("", states))


@pytest.mark.parametrize("params", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_optimizer_remembers_what_fits_its_weights(blobs, path, params):
    X, y = blobs
    clf = quick(warm_start=True, **params).fit(X, y)
    dump(clf, path)
    # What was not forged trains on as before.
    np.testing.assert_array_equal(
        load(path).partial_fit(X, y).decision_function(X),
        clf.partial_fit(X, y).decision_function(X),
    )
    original = path.read_bytes()
    header, content, _ = parts(path)
    found = moments(content)
    assert found or params["optimizer"] == "sgd"
    for name, key in found:
        shape = header[key]["shape"]
        dtype = {"F32": np.float32, "F64": np.float64}[header[key]["dtype"]]
        if not shape and params["optimizer"] in ("adam", "adamw"):
            replace_array(path, key, np.ones((), np.int64))
            with pytest.raises(ValueError, match=f"{name} of the optimizer has shape"):
                load(path)
            path.write_bytes(original)
        wrong = [np.zeros([n + 1 for n in shape] or [1], dtype), np.zeros([*shape, 1], dtype)]
        if shape:
            wrong += [np.zeros((), dtype), np.zeros(1, dtype), np.zeros(shape, np.int8)]
        for array in wrong:
            replace_array(path, key, array)
            with pytest.raises(ValueError, match=f"{name} of the optimizer has shape"):
                load(path)
            path.write_bytes(original)


def in_optimizer(change):
    def changed(header, content):
        names, values = content["model"]["fitted"]["net_"]["dict"]
        names, (states, groups) = values[names.index("optimizer")]["dict"]
        change(states["dict"], groups)

    return changed


def set_setting(name, value):
    def change(states, groups):
        names, values = groups[0]["dict"]
        values[names.index(name)] = value

    return in_optimizer(change)


SETTINGS = {
    "kind": (set_setting("lr", "fast"), "lr of the optimizer is 'fast'"),
    "betas": (set_setting("betas", [1.0, 1.0]), "fails with its settings .*not finite"),
    "weights": (set_setting("params", [0, 1, 2, 10**9]), "weights that there are not"),
    "flag": (set_setting("amsgrad", True), "remembers no max_exp_avg_sq"),
    "groups": (in_optimizer(lambda states, groups: groups.append(groups[0])), "other groups"),
    "of none": (
        in_optimizer(lambda states, groups: states[0].__setitem__(0, 77)),
        "weights that there are not",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_an_optimizer_are_those_of_its_kind(blobs, path, name):
    dump(quick().fit(*blobs), path)
    change, message = SETTINGS[name]
    edit(path, change)
    with pytest.raises(ValueError, match=message):
        load(path)


# Generators.


def state_arrays(content, *names):
    node = content["model"]["fitted"]["net_"]
    for name in names:
        keys, values = node["dict"]
        node = values[keys.index(name)]
    return (node[0] if isinstance(node, list) else node)["array"]


@pytest.mark.parametrize("name", ["generator", "rng_state"])
@pytest.mark.parametrize(("left", "after"), [(624, 624), (0, 0), (1, 10**9), (2**31, 1)])
def test_a_generator_reads_nothing_but_its_numbers(blobs, path, name, left, after):
    dump(quick(net_params={"module__dropout": 0.5}).fit(*blobs), path)
    load(path)
    _, content, _ = parts(path)
    forged = torch.Generator().manual_seed(0).get_state().numpy().copy()
    forged[8:12] = np.frombuffer(left.to_bytes(4, "little"), np.uint8)
    forged[16:24] = np.frombuffer(after.to_bytes(8, "little"), np.uint8)
    replace_array(path, state_arrays(content, name), forged)
    with pytest.raises(ValueError, match="a generator is at no possible position"):
        load(path)


@pytest.mark.parametrize("n_drawn", [0, 1, 2, 623, 624, 625, 1250])
def test_a_generator_may_be_anywhere_it_gets_to(n_drawn):
    from sktopk._training._state import _check_generators

    generator = torch.Generator().manual_seed(1)
    torch.rand(n_drawn, generator=generator)
    _check_generators([{"a": generator.get_state().numpy()}])


# Small files that take long, or much memory.


def seconds_to_refuse(path):
    start = time.perf_counter()
    with pytest.raises(ValueError, match="cannot be loaded"):
        load(path)
    return time.perf_counter() - start


def replaced(path, model):
    edit(path, lambda header, content: content.__setitem__("model", model))


def pipeline(*steps):
    steps = [{"tuple": [f"s{i}", step]} for i, step in enumerate(steps)]
    return {"estimator": "Pipeline", "params": {"steps": steps}, "fitted": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fitted": {"k_": 3}}, r"Pipeline has no attributes \['k_'\]"),
        ({"params": {"steps": [["a", 1]]}}, "steps of a Pipeline must be pairs"),
        ({"params": {"steps": [], "memory": "folder"}}, "memory of a Pipeline must be None"),
    ],
)
def test_a_pipeline_of_ours_holds_no_more_than_steps(path, change, message):
    dump(quick(), path)
    replaced(path, pipeline() | {"estimator": "sktopk.Pipeline"} | change)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_estimators_that_refer_to_each_other_do_not_multiply(path):
    dump(quick(), path)
    # Each level is there twice; what walks through them, as repr and clone do, doubles its time.
    node = pipeline("passthrough", "passthrough")
    for level in range(15):
        node = pipeline(node, {"same": 15 - level})
    replaced(path, node)
    assert seconds_to_refuse(path) < 5
    # Estimators are numbered as they are begun, from the outside: the last one is the innermost.
    replaced(path, pipeline(pipeline("passthrough"), *[{"same": 1}] * 1500))
    assert seconds_to_refuse(path) < 5
    with pytest.raises(ValueError, match="refer to each other more than"):
        load(path)


def test_estimators_within_estimators_end_somewhere(path):
    dump(quick(), path)
    node = pipeline("passthrough")
    for _ in range(100):
        node = pipeline(node)
    replaced(path, node)
    with pytest.raises(ValueError, match="deep"):
        load(path)
    replaced(path, json.loads("[" * 900 + "]" * 900))
    assert seconds_to_refuse(path) < 5


@pytest.mark.parametrize("kind", ["numbers", "scalars", "array", "objects", "bytes"])
@pytest.mark.parametrize("shape", [[20_000_000, 0], [0, 20_000_000], [2**40, 0, 1]])
def test_arrays_of_nothing_are_not_large(blobs, path, kind, shape):
    dump(quick().fit(*blobs), path)

    def change(header, content):
        header["999"] = {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}
        node = {kind: "999"}
        if kind == "objects":
            del header["999"]
            node = {"objects": [], "shape": shape}
        if kind == "bytes":
            header["999"]["dtype"], node["dtype"] = "U8", "<U4"
        content["model"]["params"]["net_params"] = node

    edit(path, change)
    with pytest.raises(ValueError, match="holds nothing, and is large"):
        load(path)


@pytest.mark.parametrize("part", ["[],", "{},", "[[]],"])
def test_a_description_takes_little_more_memory_than_it_is_long(path, part):
    dump(quick(), path)
    replaced(path, json.loads("[" + part * (7_000_000 // len(part)) + "0]"))
    assert seconds_to_refuse(path) < 5
    with pytest.raises(ValueError, match="more than 524288 parts"):
        load(path)


def test_rows_of_tables_are_counted(path):
    dump(quick(), path)
    column = json.loads("[" + "0," * 300_000 + "0]")
    replaced(path, [{"rows": [["a"], [column]]}, {"rows": [["a"], [column]]}])
    with pytest.raises(ValueError, match="tables of more than"):
        load(path)


# Attributes that no fit leaves.


def fitted(blobs, kind):
    X, y = blobs
    if kind == "set":
        return SetClassifier(quick(), method="pas", max_size=3, random_state=0).fit(X, y)
    if kind == "mean":
        return SetClassifier(quick(), method="average_k", k=1.5, random_state=0).fit(X, y)
    if kind == "budget":
        frozen = FrozenEstimator(quick(k=1).fit(X, y > 2))
        return BudgetClassifier(frozen, budget=0.2, constraint="fpr").fit(X, y > 2)
    return quick(calibration="sigmoid").fit(X, y)


def share(n, count):
    fields = {"count": count, "n": n, "value": 0.5, "low": 0.1, "high": 0.9}
    return {"dict": [["flagged"], [{"record": "Rate", "fields": fields}]]}


def rows(scores, positive):
    fields = {"scores": scores, "positive": positive, "weight": None, "key": None}
    return {"record": "CalibrationRows", "fields": fields}


RANGES = [
    ("labels", "k_", [2.5, 1e30, 0, -1, 5, None, {"float": "nan"}, True, "2"]),
    ("labels", "n_iter_", [-1, 1.5]),
    ("labels", "_exponent_unit_", [0, -1.0, {"float": "inf"}, {"float": "nan"}]),
    ("labels", "classes_", [{"objects": [1, "a", "b", "c", "d"], "shape": [5]}, [0, 1, 2, 3, 4]]),
    ("labels", "calibration_", [{"tuple": ["sigmoid", 1, 2]}, {"tuple": ["none", 1, 2]}]),
    ("labels", "history_", [[1], [{"dict": [[1], [2]]}], None]),
    ("labels", "loss_", [[], {"dict": [[], []]}, "eval"]),
    ("set", "k_", [2.5, 1e30, 0]),
    ("set", "prevalence_", [[0.5, 0.5], 0.2]),
    ("set", "_seed", [-1, 0.5, "0"]),
    ("set", "threshold_", [{"float": "nan"}, "0", None]),
    ("set", "groups_", [[], ["a", "b"], [1.0, 2.0]]),
    ("set", "clusters_", [[1], [0, 0, 0, 0, 9], "0"]),
    ("mean", "k_", [0, 5.5, 1e30]),
    ("budget", "rates_", [{"dict": [[], []]}, share(0, 0), share(5, 9), share(5, -1)]),
    (
        "budget",
        "_calibration_rows",
        [None, rows([[1.0, 2.0]], [True]), rows([], []), rows("a", "b")],
    ),
    ("budget", "threshold_", [{"float": "nan"}, 1, None]),
]


@pytest.mark.parametrize(
    ("kind", "name", "values"), RANGES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_fitted_attributes_are_in_their_range(blobs, path, kind, name, values):
    dump(fitted(blobs, kind), path)
    load(path)
    original = path.read_bytes()
    for value in values:
        edit(path, lambda header, content, v=value: content["model"]["fitted"].update({name: v}))
        with pytest.raises(ValueError, match=f"{name}|do not belong"):
            load(path)
        path.write_bytes(original)


PARAMETERS = [
    ("set", "max_size", -3),
    ("set", "empty", "x"),
    ("budget", "delta", 7),
    ("budget", "per", "x"),
    ("labels", "batch_size", -1),
    ("labels", "tau", "x"),
]


@pytest.mark.parametrize(("kind", "name", "value"), PARAMETERS)
def test_parameters_of_a_fit_are_in_their_range(blobs, path, kind, name, value):
    estimator = fitted(blobs, kind)
    dump(estimator, path)
    edit(path, lambda header, content: content["model"]["params"].update({name: value}))
    with pytest.raises(ValueError, match=name):
        load(path)
    # What could not be loaded is not dumped either; without a fit, `fit` will say it.
    with pytest.raises((TypeError, ValueError), match=name):
        dump(estimator.set_params(**{name: value}), path)
    assert getattr(load(dump(clone(estimator), path)), name) == value


@pytest.mark.parametrize(
    "name", ["threshold_", "rates_", "estimator_", "classes_", "n_samples_fit_"]
)
def test_attributes_that_predict_needs_are_there(blobs, path, name):
    dump(fitted(blobs, "budget"), path)
    edit(path, lambda header, content: content["model"]["fitted"].pop(name))
    with pytest.raises(ValueError, match=f"{name}.* missing|arrays do not belong"):
        load(path)


# Files that are none, and places where there are none.


def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_any(path):
    other = path.with_name("other")
    dump(quick(), path)
    other.write_bytes(b"")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        dump(quick(tau=2.0), path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_not_replaced(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="no regular file"):
        dump(quick(), path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(path.parent) == [path.name]
    with pytest.raises(IsADirectoryError):
        dump(quick(), path.parent)


def test_a_missing_folder_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"no such folder.*none") as error:
        dump(quick(), path.parent / "none" / "model")
    assert error.value.filename == str(path.parent / "none")


def test_a_temporary_name_cannot_be_foreseen_or_be_a_link(path, monkeypatch):
    target = path.with_name("target")
    target.write_bytes(b"mine")
    names = []
    opened = os.open

    def noted(name, flags, *args):
        if flags & os.O_CREAT:
            names.append(name)
            if len(names) == 3:
                # Whoever has guessed it all the same.
                os.symlink(target, name)
        return opened(name, flags, *args)

    monkeypatch.setattr(os, "open", noted)
    dump(quick(), path)
    dump(quick(), path)
    with pytest.raises(FileExistsError):
        dump(quick(), path)
    assert len(set(names)) == 3
    assert target.read_bytes() == b"mine"


def test_other_files_are_called_what_they_are(blobs, path):
    clf = quick()
    path.write_bytes(pickle.dumps(clf))
    with pytest.raises(ValueError, match="it is a pickle, or a file of joblib"):
        load(path)
    path.write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(ValueError, match="it is a zip archive, such as skops and torch write"):
        load(path)
    with pytest.raises(TypeError, match=r"dump takes an estimator, then a path; got 'model\.pkl'"):
        dump("model.pkl", clf)
    with pytest.raises(TypeError, match="dump takes an estimator, then a path; got <class"):
        dump(TopKClassifier, path)
    with pytest.raises(TypeError, match="load takes the path of a file; got TopKClassifier"):
        load(clf)


def test_a_checkpoint_is_no_model(blobs, path):
    from sktopk._training.checkpoint._file import write_state

    write_state(path, {})
    with pytest.raises(ValueError, match="it is no model but holds a 'sktopk checkpoint'"):
        load(path)


def test_a_shared_step_is_one_object_again(blobs, path):
    X, y = blobs
    pipe = make_pipeline(quick()).fit(X, y)
    sets = SetClassifier(FrozenEstimator(pipe), method="lac", random_state=0).fit(X, y)
    loaded = load(dump(sets, path))
    assert loaded.estimator.estimator is loaded.estimator_.estimator


PARAMETERS_OF_STEPS = [
    (["memory"], "folder"),
    (["memory"], {"same": 1}),
    (["steps"], [1]),
    (["steps", 0, "tuple", 1, "with_mean"], False),
]


@pytest.mark.parametrize(("names", "value"), PARAMETERS_OF_STEPS)
def test_a_parameter_is_no_fitted_attribute(blobs, path, names, value):
    # It would come after the checks of parameters: a Pipeline with a `memory` runs the pickles
    # in that folder when it is fitted again.
    dump(make_pipeline(StandardScaler(), quick()).fit(*blobs), path)
    *place, name = names

    def change(header, content):
        node = content["model"]
        for key in place:
            node = node["params"][key] if key == "steps" else node[key]
        node["fitted"][name] = value

    edit(path, change)
    with pytest.raises(ValueError, match=f"has no attributes .*'{name}'"):
        load(path)


@pytest.mark.parametrize("n_members", [1, 3])
def test_a_given_module_takes_no_memory_that_the_file_does_not_have(n_members, tmp_path):
    X, y = np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 4
    clf = TopKClassifier(
        k=2,
        module=TabularMLP,
        n_members=n_members,
        net_params={"module__hidden_layer_sizes": (6,)},
        max_epochs=1,
        random_state=0,
    ).fit(X, y)
    path = tmp_path / "model"
    dump(clf, path)
    np.testing.assert_array_equal(load(path).predict(X), clf.predict(X))

    def grow(header, content):
        text = json.dumps(content)
        assert text.count('"tuple": [6]') > 0
        content.clear()
        content.update(json.loads(text.replace('"tuple": [6]', '"tuple": [200000, 200000]')))

    edit(path, grow)
    # 160 GB, of which not a byte is asked for.
    with pytest.raises(ValueError, match=r"size mismatch.*parameters describe"):
        load(path)
