"""`load` reads files of trusted types, resets some parameters and runs no other code."""

import inspect
import pickle
import sys
import zipfile
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from torch import nn

import sktopk
from sktopk import RecallAtKClassifier, TopKClassifier, losses, make_pipeline
from sktopk.io import dump, load, to_onnx
from sktopk.modules import MLP
from tests.io.archives import change_nodes, rewritten, with_node

pytest.importorskip("skops")
SMALL = {"hidden_layer_sizes": (8,), "max_epochs": 2, "random_state": 0}
LOADED = []
LOADERS = ("ObjectNode", "TypeNode", "FunctionNode")


class Recorder(BaseEstimator):
    def __setstate__(self, state):
        LOADED.append(state)


def test_a_type_that_is_not_trusted_raises_and_runs_no_code(path):
    dump(Pipeline([("step", Recorder()), ("clf", TopKClassifier())]), path)
    with pytest.raises(ValueError, match=rf"{path}.*{__name__}\.Recorder"):
        load(path)
    assert LOADED == []
    for trusted in ([Recorder], [f"{__name__}.Recorder"]):
        load(path, trusted=trusted)
        assert LOADED
        LOADED.clear()


@pytest.mark.parametrize("loader", LOADERS)
def test_no_module_is_imported_for_a_type_that_is_not_trusted(loader, tmp_path, path, monkeypatch):
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ntype_ = int")
    monkeypatch.syspath_prepend(tmp_path)
    dump(TopKClassifier(), path)

    def change(each):
        if each.get("__loader__") in LOADERS:
            each.update(__class__="type_", __module__="evil_module", __loader__=loader)

    rewritten(path, change_nodes(change))
    with pytest.raises(ValueError, match=r"evil_module\.type_"):
        load(path)
    assert not (tmp_path / "ran").exists()
    assert "evil_module" not in sys.modules


@pytest.mark.parametrize("parameter", ["module", "net_", "classes_", "loss"])
def test_a_file_with_a_function_in_place_of_a_value_raises(iris, path, parameter):
    clf = TopKClassifier(k=1, **SMALL).fit(*iris)
    for name in ("posix.system", "builtins.eval", "pickle.loads", "os.mkdir"):
        module, function = name.split(".")
        evil = {"__class__": function, "__module__": module, "__loader__": "FunctionNode"}
        rewritten(dump(clf, path), with_node(parameter, evil | {"__id__": -1}))
        with pytest.raises(ValueError, match=name):
            load(path)


def test_dump_of_a_function_that_cannot_be_imported_raises(path):
    def network(n_features, n_outputs):
        return nn.Linear(n_features, n_outputs)

    for module, name in [(network, "network"), (lambda n, m: network(n, m), "<lambda>")]:
        with pytest.raises(ValueError, match=rf"can be imported; got {__name__}\.{name}"):
            dump(TopKClassifier(k=1, module=module), path)
        assert not path.exists()


def test_a_truncated_file_and_a_pickle_raise(iris, path):
    dump(TopKClassifier(k=1, **SMALL).fit(*iris), path)
    data = path.read_bytes()
    truncated = [data[: int(share * len(data))] for share in (0.0, 0.1, 0.5, 0.9, 0.999)]
    for content in (*truncated, pickle.dumps(Recorder())):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path} cannot be loaded"):
            load(path)
    assert LOADED == []


@pytest.mark.parametrize("is_fitted", [False, True])
def test_load_resets_memory_n_jobs_verbose_and_net_params(cancer, tmp_path, path, is_fitted):
    ranker = RecallAtKClassifier(k=50, verbose=1, **SMALL)
    pipe = Pipeline([("clf", ranker)], memory=str(tmp_path), verbose=True)
    clf = sktopk.BudgetClassifier(pipe, constraint="count", budget=50)
    clf = clf.fit(*cancer) if is_fitted else clf
    clf.estimator.named_steps["clf"].set_params(net_params={"compile": True})
    loaded = load(dump(clf, path))
    pipes = [loaded.estimator, loaded.estimator_] if is_fitted else [loaded.estimator]
    for pipe in pipes:
        assert (pipe.memory, pipe.verbose) == (None, False)
        step = pipe.named_steps["clf"]
        assert (step.net_params, step.verbose, step.k) == (None, 0, 50)
    # The parameters of the original estimator are unchanged.
    assert clf.estimator.verbose is True
    assert load(dump(GridSearchCV(ranker, {}, n_jobs=2), path)).n_jobs is None


def test_load_ignores_a_forged_value_of_verbose(cancer, path, capsys):
    X, y = cancer
    clf = RecallAtKClassifier(k=50, module=MLP, random_state=0).partial_fit(X, y)
    expected = clf.decision_function(X)
    dump(clf, path)
    node = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    # Equal values of a file share one `__id__`. The new `__id__` -1 changes only `verbose`.
    node |= {"content": "5", "is_json": True, "__id__": -1}
    rewritten(path, with_node("verbose", node))
    loaded = load(path)
    np.testing.assert_array_equal(loaded.decision_function(X), expected)
    loaded.partial_fit(X, y)
    assert capsys.readouterr() == ("", "")


def test_weights_are_stored_as_arrays_and_the_rest_as_json(iris, path):
    dump(TopKClassifier(k=1, **SMALL).fit(*iris), path)
    with zipfile.ZipFile(path) as archive:
        assert {name.rsplit(".", 1)[1] for name in archive.namelist()} == {"npy", "json"}
        for name in archive.namelist():
            if name.endswith("npy"):
                np.load(archive.open(name), allow_pickle=False)


def test_wrong_paths_and_arguments_raise(path):
    pytest.importorskip("onnx")
    for call in (partial(dump, TopKClassifier()), load, lambda each: to_onnx(None, each, [[0]])):
        with pytest.raises(ValueError, match=r"NUL characters; got 'a\\x00b'"):
            call("a\0b")
        with pytest.raises(TypeError, match=r"path must be .* got 3"):
            call(3)
    with pytest.raises(TypeError, match="estimator must be an estimator; got "):
        dump(path, TopKClassifier())
    with pytest.raises(TypeError, match="trusted must be a collection"):
        load(path, trusted="sktopk.TopKClassifier")
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_missing_dependency_raises_an_error_with_the_extra_to_install(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (partial(dump, TopKClassifier(), path), partial(load, path)):
        with pytest.raises(ImportError, match=r"sktopk\[io\]"):
            call()


GIVEN = {"k": 2, "tau": 0.25, "recall": 0.5, "fpr": 0.1, "precision": 0.5}
GIVEN["class_counts"] = torch.tensor([50.0, 30.0, 20.0])
GIVEN["threshold"] = losses.TopMean("negatives", k=2)
MODULES = [name for name in losses.__all__ if name.endswith("Loss") and "LinearProgram" not in name]


@pytest.mark.parametrize("name", MODULES)
def test_every_loss_is_loaded_without_the_parameter_trusted(name, path):
    kind = getattr(losses, name)
    needed = [p.name for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    loss = kind(**{each: GIVEN[each] for each in needed})
    loaded = load(dump(TopKClassifier(loss=loss, k=1), path)).loss
    assert repr(loaded) == repr(loss)
    state = loss.state_dict()
    assert loaded.state_dict().keys() == state.keys()
    for key, value in loaded.state_dict().items():
        torch.testing.assert_close(value, state[key], rtol=0, atol=0)


def test_a_loss_function_of_sktopk_is_loaded_without_the_parameter_trusted(path):
    pytest.importorskip("lightgbm")
    loaded = load(dump(sktopk.TopBoostClassifier(losses.top_push_loss), path))
    assert loaded.loss is losses.top_push_loss


class Mine(nn.Linear):
    """A network that a user defines."""


class OldRanker(TopKClassifier):
    """An estimator that a user defines."""


UNTRUSTED = {
    f"{__name__}.Mine": TopKClassifier(module=Mine),
    f"{__name__}.OldRanker": make_pipeline(OldRanker()),
    "torch.nn.modules.loss.CrossEntropyLoss": TopKClassifier(loss=nn.CrossEntropyLoss()),
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_dump_warns_of_the_types_that_load_will_need(name, path):
    estimator, says = UNTRUSTED[name], rf"does not trust .*load\(path, trusted=\['{name}'\]\)"
    with pytest.warns(UserWarning, match=says):
        dump(estimator, path)
    with pytest.raises(ValueError, match=name):
        load(path)
    assert type(load(path, trusted=[name])) is type(estimator)


def test_dump_of_trusted_types_gives_no_warning(path, recwarn):
    dump(make_pipeline(GridSearchCV(TopKClassifier(), {"tau": [0.1, 1.0]})), path)
    assert list(recwarn) == []


# Names of functions of a private module, of another module, and of no module.
NOT_PUBLIC = ["sklearn.metrics._scorer.get_scorer", "sktopk.losses.os.system"]
NOT_PUBLIC.append(f"{losses.SmoothTopKLoss.__module__}.check_k")


@pytest.mark.parametrize("name", NOT_PUBLIC)
def test_functions_outside_of_the_public_names_are_not_trusted(name, path, monkeypatch):
    def another():
        """A function of the user."""

    another.__module__, _, another.__name__ = name.rpartition(".")
    monkeypatch.setattr(TopKClassifier, "__init__", lambda self, loss=None: None)
    clf = TopKClassifier()
    clf.loss = another
    with pytest.warns(UserWarning, match=name.rpartition(".")[2]):
        dump(clf, path)
