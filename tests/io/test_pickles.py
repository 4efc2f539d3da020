"""Pickle, joblib and skops take our estimators too, and find no code inside them."""

import io
import json
import pickle
import pickletools
import zipfile

import joblib
import numpy as np
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, RecallAtKClassifier, SetClassifier, TopKClassifier
from sktopk.io import TRUSTED_TYPES

skops_io = pytest.importorskip("skops.io")

SMALL = {"hidden_layer_sizes": (4,), "max_epochs": 2, "batch_size": 64, "random_state": 0}


def skops_copy(model, path):
    skops_io.dump(model, path)
    # Nothing but our own classes asks for trust.
    assert set(skops_io.get_untrusted_types(file=path)) <= set(TRUSTED_TYPES)
    return skops_io.load(path, trusted=list(TRUSTED_TYPES))


def joblib_copy(model, path):
    joblib.dump(model, path)
    return joblib.load(path)


def pickle_copy(model, path):
    path.write_bytes(pickle.dumps(model))
    return pickle.loads(path.read_bytes())


@pytest.fixture(scope="module")
def models(cancer):
    X, y = cancer
    names = np.array(["no", "yes"], dtype=object)[y]
    frozen = FrozenEstimator(RecallAtKClassifier(k=50, **SMALL).fit(X, names))
    many = TopKClassifier("noised_topk", k=1, calibration="sigmoid", **SMALL)
    return [
        make_pipeline(StandardScaler(), many).fit(X, names),
        BudgetClassifier(frozen, constraint="fpr", budget=0.1).fit(X, names),
        SetClassifier(frozen, method="lac", random_state=0).fit(X, names),
    ]


@pytest.mark.parametrize("copied", [pickle_copy, joblib_copy, skops_copy])
def test_copies_predict_as_before(cancer, models, path, copied):
    X, _ = cancer
    for model in models:
        copy = copied(model, path)
        np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_a_pickle_names_only_what_it_is_made_of(models):
    for model in models:
        names = set()
        for code, argument, _ in pickletools.genops(pickle.dumps(model, protocol=2)):
            if code.name == "GLOBAL":
                names.add(argument.split()[0].split(".")[0])
            # No pickle within the pickle.
            assert not (isinstance(argument, bytes) and argument[:1] == b"\x80")
        assert names <= {
            "sktopk",
            "sklearn",
            "numpy",
            "copyreg",
            "builtins",
            "__builtin__",
            "_codecs",
        }


def test_a_pickle_for_a_gpu_loads_without(cancer, path):
    X, y = cancer
    clf = RecallAtKClassifier(k=50, **SMALL).fit(X, y)
    expected = clf.decision_function(X)
    if not torch.cuda.is_available():
        clf.net_.params_of_net["device"] = clf.device = "cuda"
    for copied in (pickle_copy, joblib_copy, skops_copy):
        np.testing.assert_array_equal(copied(clf, path).decision_function(X), expected)


def test_a_generator_of_a_gpu_starts_again_on_the_cpu(cancer):
    X, y = cancer
    clf = TopKClassifier("noised_topk", k=1, warm_start=True, **SMALL).fit(X, y)
    state = clf.__getstate__()
    # What torch.Generator("cuda").get_state() holds: seed and offset.
    state["net_"]["noise"] = np.zeros(16, np.uint8)
    state["net_"]["rng_state"].append(np.zeros(16, np.uint8))
    other = TopKClassifier()
    other.__setstate__(state)
    np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))
    assert np.isfinite(other.fit(X, y).decision_function(X)).all()


def test_a_state_that_is_no_net_s_is_refused_by_every_door(cancer):
    """Also by skops.io.load, which knows our classes and not what they hold."""
    clf = RecallAtKClassifier(k=50, **SMALL).fit(*cancer)
    for name, value in [("exp_avg", np.zeros(())), ("exp_avg_sq", np.zeros(1)), ("step", "x")]:
        state = clf.__getstate__()
        state["net_"]["optimizer"]["state"][0][name] = value
        with pytest.raises(ValueError, match=f"{name} of the optimizer"):
            RecallAtKClassifier().__setstate__(state)
    state = clf.__getstate__()
    state["net_"]["generator"][8:24] = 255
    with pytest.raises(ValueError, match="a generator is at no possible position"):
        RecallAtKClassifier().__setstate__(state)


def tampered(model, change):
    """A skops archive of a model after `change` of its description."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(skops_io.dumps(model))) as old,
        zipfile.ZipFile(out, "w") as new,
    ):
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json":
                schema = json.loads(data)
                change(schema)
                data = json.dumps(schema)
            new.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("name", ["posix.system", "builtins.eval", "pickle.loads"])
@pytest.mark.parametrize("place", ["net_", "module", "history_"])
def test_a_skops_file_cannot_smuggle_code_past_the_list(models, name, place):
    module, function = name.split(".")
    evil = {"__class__": function, "__module__": module, "__loader__": "FunctionNode", "__id__": 7}

    def change(schema):
        clf = schema["content"]["content"]["steps"]["content"][1]["content"][1]
        assert place in clf["content"]["content"]
        clf["content"]["content"][place] = evil

    blob = tampered(models[0], change)
    assert name in skops_io.get_untrusted_types(data=blob)
    with pytest.raises(Exception, match=name):
        skops_io.loads(blob, trusted=list(TRUSTED_TYPES))


def test_the_state_of_a_net_is_arrays_and_plain_values(models):
    """A skorch net would put a pickle, as bytes, into the file of skops."""
    for model in models:
        with zipfile.ZipFile(io.BytesIO(skops_io.dumps(model))) as archive:
            assert {name.rsplit(".", 1)[1] for name in archive.namelist()} == {"npy", "json"}
