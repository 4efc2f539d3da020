"""What is dumped and loaded again predicts as before and trains on as before."""

import json
import pickle
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from skorch.callbacks import EpochTimer
from torch import nn

import sktopk
from sktopk import BudgetClassifier, SetClassifier, TopKClassifier
from sktopk.io import dump, load
from sktopk.metrics import make_top_scorer, make_topk_scorer
from sktopk.modules import MLP

RANKERS = [
    name
    for name in sktopk.__all__
    if hasattr(getattr(sktopk, name), "partial_fit") and name != "TopKClassifier"
]


def quick(loss="smooth_topk", **params):
    params = {
        "k": 2,
        "module": MLP,
        "hidden_layer_sizes": (4,),
        "max_epochs": 3,
        "random_state": 0,
        **params,
    }
    return TopKClassifier(loss, **params)


def ranker(name, **params):
    params = {
        "module": MLP,
        "hidden_layer_sizes": (4,),
        "max_epochs": 2,
        "random_state": 0,
        **params,
    }
    return getattr(sktopk, name)(**params)


def again(estimator, path, **given):
    return load(dump(estimator, path, omit=list(given)), **given)


def assert_same(one, other, X):
    for method in ("decision_function", "predict", "predict_proba"):
        if hasattr(one, method):
            expected = getattr(one, method)(X)
            np.testing.assert_array_equal(getattr(other, method)(X), expected)
            assert getattr(other, method)(X).dtype == expected.dtype
        else:
            assert not hasattr(other, method)


LABELS = {
    "objects": lambda y: np.array(["ä", "äb", "c", "日本", ""], dtype=object)[y],
    "strings": lambda y: np.array(["ä", "äb", "c", "日本", ""])[y],
    "int8": lambda y: (y - 2).astype(np.int8),
    "floats": lambda y: y.astype(float),
    "booleans": lambda y: y > 1,
    "categories": lambda y: pd.Series(pd.Categorical.from_codes(y, list("vwxyz"))),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("calibration", [None, "temperature", "sigmoid"])
def test_labels_of_every_kind_come_back(blobs, path, labels, calibration):
    X, y = blobs
    clf = quick(calibration=calibration, scoring=make_topk_scorer(2), early_stopping=True)
    loaded = again(clf.fit(X, LABELS[labels](y)), path)
    assert_same(clf, loaded, X)
    np.testing.assert_array_equal(loaded.predict_topk(X), clf.predict_topk(X))
    np.testing.assert_array_equal(loaded.predict_topk_proba(X), clf.predict_topk_proba(X))
    assert loaded.classes_.dtype == clf.classes_.dtype
    assert repr(loaded) == repr(clf)
    assert loaded.history_ == clf.history_


@pytest.mark.parametrize("loss", ["noised_topk", "noised_topk_imbalanced", "ldam"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_goes_on_as_if_nothing_had_been_saved(blobs, path, loss, dtype):
    X, y = blobs
    X = X.astype(dtype)
    clf = quick(loss, warm_start=True, net_params={"module__dropout": 0.3, "optimizer__eps": 1e-6})
    loaded = again(clf.fit(X, y), path)
    assert_same(clf.fit(X, y), loaded.fit(X, y), X)
    assert loaded.n_iter_ == 6


def test_a_loss_that_was_chosen_stays_chosen(blobs, path):
    X, y = blobs
    clf = quick("auto", max_epochs=1).fit(X, y)
    loaded = again(clf, path)
    assert_same(clf, loaded, X)
    assert (loaded.loss_, loaded.comparison_) == (clf.loss_, clf.comparison_)


@pytest.mark.parametrize("name", RANKERS)
def test_rankers_and_what_is_built_on_them(cancer, path, name):
    X, y = cancer
    clf = ranker(name, batch_size=64, random_state=np.random.RandomState(3)).fit(X, y == 1)
    loaded = again(clf, path)
    assert_same(clf, loaded, X)
    # The hard rows that a stream carries along, and all generators.
    for piece in (slice(100), slice(100, 300)):
        clf.partial_fit(X[piece], y[piece] == 1)
        loaded = again(loaded.partial_fit(X[piece], y[piece] == 1), path)
        assert_same(clf, loaded, X)
    assert loaded.random_state.randint(1000) == clf.random_state.randint(1000)
    for inner in (FrozenEstimator(clf), make_pipeline(StandardScaler(), ranker(name))):
        budget = BudgetClassifier(inner, budget=0.2, constraint="fpr", random_state=0).fit(X, y)
        loaded = again(budget, path)
        assert_same(budget, loaded, X)
        assert loaded.rates_ == budget.rates_


@pytest.mark.parametrize("name", RANKERS)
def test_without_hard_rows_no_training_row_is_kept(cancer, path, name):
    X, y = cancer[0].astype(np.float32), cancer[1] == 1
    has_buffer = hasattr(getattr(sktopk, name)(), "buffer_size")

    def n_kept(**params):
        clf = ranker(name, **params).fit(X, y)
        dump(clf, path)
        files = pickle.dumps(clf), path.read_bytes()
        return sum(row.tobytes() in file for row in X for file in files)

    assert n_kept(**{"buffer_size": 0} if has_buffer else {}) == 0
    if has_buffer:
        # As SECURITY.md says.
        assert n_kept() > 0


def test_what_selects_from_batches(cancer, path):
    X, y = cancer
    names = np.where(y == 1, "yes", "no")
    params = {"budget": 0.2, "constraint": "fdr", "pos_label": "yes", "random_state": 0}
    clf = BudgetClassifier(LogisticRegression(), **params)
    for params, given in [
        ({}, {}),
        ({"randomized": True}, {}),
        ({"likelihood_ratio": LogisticRegression()}, {"X_new": X[400:]}),
    ]:
        budget = clone(clf).set_params(**params).fit(X[:400], names[:400], **given)
        loaded = load(dump(budget, path))
        flagged = budget.predict(X[400:])
        assert len(set(flagged)) == 2
        np.testing.assert_array_equal(loaded.predict(X[400:]), flagged)
        if not given:
            assert loaded.hits_interval(X[400:], 20) == budget.hits_interval(X[400:], 20)
    budget = clone(clf).set_params(likelihood_ratio=len)
    with pytest.raises(ValueError, match="likelihood_ratio"):
        dump(budget, path)


@pytest.mark.filterwarnings("ignore:k=2 is ignored by method")
@pytest.mark.parametrize("method", ["topk", "average_k", "lac", "aps", "raps", "pas"])
@pytest.mark.parametrize("frozen", [False, True])
def test_sets(named, path, method, frozen):
    X, y = named
    inner = FrozenEstimator(make_pipeline(PCA(3), quick()).fit(X, y)) if frozen else quick()
    sets = SetClassifier(inner, method=method, k=2, randomized=method == "aps", random_state=0)
    loaded = again(sets.fit(X, y), path)
    assert (loaded.predict_set(X) != sets.predict_set(X)).nnz == 0
    # What was one object is one object again, stored once.
    assert (loaded.estimator is loaded.estimator_) == frozen


@pytest.mark.parametrize("conditional", ["class", "cluster", "group"])
def test_sets_of_classes_and_groups(named, path, conditional):
    X, y = named
    groups = np.where(X[:, 0] > 0, "day", "night")
    given = {"groups": groups} if conditional == "group" else {}
    sets = SetClassifier(LogisticRegression(), method="lac", coverage=0.5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows
        sets.set_params(conditional=conditional).fit(X, y, **given)
    loaded = again(sets, path)
    np.testing.assert_array_equal(loaded.threshold_, sets.threshold_)
    assert (loaded.predict_set(X, **given) != sets.predict_set(X, **given)).nnz == 0


def test_pipelines_of_tables_and_texts(blobs, path):
    X, y = blobs
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "ü"]).assign(d=np.where(X[:, 3] > 0, "x", ""))
    frame.loc[3, "b"] = np.nan
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(handle_unknown="ignore"), ["d"]),
        remainder="passthrough",
    ).set_output(transform="default")
    pipe = Pipeline([("columns", columns), ("skip", "passthrough"), ("clf", quick())])
    search = GridSearchCV(pipe, {"clf__k": [1, 2]}, cv=2, scoring=make_topk_scorer(2))
    best = search.fit(frame, y).best_estimator_
    assert_same(best, again(best, path), frame)
    texts = ["one two", "two three", "three four", "four one"] * 10
    pipe = make_pipeline(TfidfVectorizer(dtype=np.float32), quick(k=1)).fit(
        texts, [0, 1, 2, 0] * 10
    )
    assert_same(pipe, again(pipe, path), texts)


class Network(nn.Sequential):
    def __init__(self, n_features, n_outputs, width=5):
        super().__init__(nn.Linear(n_features, width), nn.Tanh(), nn.Linear(width, n_outputs))


def test_code_is_left_out_and_given_back(blobs, path):
    X, y = blobs
    code = {"module": Network, "loss": nn.CrossEntropyLoss(), "callbacks": [EpochTimer()]}
    params = {"optimizer": torch.optim.RMSprop, "scoring": make_top_scorer("bedroc")}
    clf = quick(**code, **params).fit(X, y)
    for name in ("loss", "module", "callbacks"):
        rest = [other for other in code if other != name]
        with pytest.raises(ValueError, match=rf"{name}=.* is code.*omit=\['{name}'\].*load"):
            dump(clf, path, omit=rest)
    assert not path.exists()
    loaded = again(make_pipeline(PCA(4), clf).fit(X, y), path, **code)[-1]
    assert loaded.module is Network
    assert (loaded.optimizer, repr(loaded.scoring)) == (clf.optimizer, repr(clf.scoring))
    for missing in code:
        given = {name: value for name, value in code.items() if name != missing}
        with pytest.raises(ValueError, match=f"{missing} was left out of it: pass load"):
            load(path, **given)
    with pytest.raises(ValueError, match=r"tau was not left out of it"):
        load(path, **code, tau=1.0)
    with pytest.raises(ValueError, match="size mismatch"):
        load(path, **{**code, "module": lambda *sizes: Network(*sizes, width=6)})
    # What is no code stays in, whatever may be left out.
    assert again(quick(), path).module is MLP
    dump(quick(), path, omit=["module"])
    load(path)


def test_parameters_set_after_the_fit_change_nothing_of_it(blobs, path):
    X, y = blobs
    clf = quick().fit(X, y)
    before = clf.decision_function(X)
    clf.set_params(hidden_layer_sizes=(9, 9), tau=3.0, loss="focal")
    loaded = again(clf, path)
    np.testing.assert_array_equal(loaded.decision_function(X), before)
    assert (loaded.tau, loaded.hidden_layer_sizes) == (3.0, (9, 9))


def test_a_model_for_a_gpu_loads_without(blobs, path):
    X, y = blobs
    clf = quick().fit(X, y)
    before = clf.decision_function(X)
    clf.net_.params_of_net["device"] = clf.device = "cuda:3"
    dump(clf, path)
    if not torch.cuda.is_available():
        loaded = load(path)
        assert loaded.device == "cuda:3"
        np.testing.assert_array_equal(loaded.decision_function(X), before)
    loaded = load(path, device="cpu")
    assert loaded.device == "cpu"
    np.testing.assert_array_equal(loaded.decision_function(X), before)


def test_folders_of_another_machine_do_not_matter(blobs, path, tmp_path):
    X, y = blobs
    folder = tmp_path / "folder"
    folder.mkdir()
    pipe = Pipeline([("clf", quick(checkpoint=folder / "fit"))], memory=str(folder))
    dump(pipe.fit(X, y), path)
    shutil.rmtree(folder)
    loaded = load(path)
    assert_same(pipe, loaded, X)
    assert loaded.memory is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_from_a_gpu_predicts_on_the_cpu(blobs, path):
    X, y = blobs
    clf = quick(device="cuda", net_params={"module__batch_norm": True}).fit(X, y)
    dump(clf, path)
    assert_same(clf, load(path), X)
    loaded = load(path, device="cpu")
    np.testing.assert_allclose(loaded.decision_function(X), clf.decision_function(X), atol=1e-9)
    code = (
        "import numpy as np; from sktopk.io import load; "
        f"clf = load({str(path)!r}); print(clf.net_.device, clf.predict(np.zeros((1, 4))))"
    )
    env = {"CUDA_VISIBLE_DEVICES": "", "PATH": ""}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.stdout.startswith("cpu"), run.stderr


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (VotingClassifier([("a", quick())]), r"VotingClassifier cannot be kept.*sktopk\.io\.STEPS"),
        (GridSearchCV(quick(), {"k": [1]}), "GridSearchCV cannot be kept.*dump best_estimator_"),
        (
            make_pipeline(FunctionTransformer(np.sin), quick()),
            "func of FunctionTransformer: <ufunc 'sin'>",
        ),
        (BudgetClassifier(RandomForestClassifier()), "RandomForestClassifier cannot be kept"),
        (type("Own", (TopKClassifier,), {})(), "Own.* is not what a file can hold"),
        (nn.Linear(1, 1), "Linear.* is not what a file can hold"),
    ],
    ids=["voting", "search", "function", "forest", "subclass", "module"],
)
def test_what_no_file_can_hold_is_refused_by_name(blobs, path, estimator, message):
    X, y = blobs
    path.write_bytes(b"old")
    if hasattr(estimator, "fit"):
        estimator.fit(X, y > 1)
    with pytest.raises(ValueError, match=message):
        dump(estimator, path)
    assert path.read_bytes() == b"old"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_attributes_of_ones_own_are_not_lost_in_silence(blobs, path):
    clf = quick().fit(*blobs)
    clf.note = "mine"
    with pytest.raises(ValueError, match=r"attributes of its own, \['note'\]: delete them"):
        dump(clf, path)


def test_names_to_omit_are_checked(path):
    with pytest.raises(ValueError, match=r"omit must have parameters .*\['modul'\]"):
        dump(quick(), path, omit=["modul"])
    with pytest.raises(TypeError, match="omit must be a collection of names"):
        dump(quick(), path, omit="module")


def test_other_programs_can_read_arrays_and_versions(blobs, path):
    safe_open = pytest.importorskip("safetensors").safe_open
    clf = quick().fit(*blobs)
    with safe_open(dump(clf, path), "np") as file:
        versions = json.loads(file.metadata()["versions"])
        arrays = [file.get_tensor(key) for key in file.keys()]
    assert versions["sktopk"] == sktopk.__version__
    assert torch.__version__.startswith(versions["torch"])
    weights = [p.detach().numpy() for p in clf.net_.module_.parameters()]
    assert all(any(np.array_equal(array, w) for array in arrays) for w in weights)


def test_only_graphs_need_more_packages_than_training_does(tmp_path):
    code = """
import sys
sys.modules |= dict.fromkeys(["safetensors", "skops", "onnx"])
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sktopk import TopKClassifier
from sktopk.io import dump, load, to_onnx
print(load(dump(make_pipeline(PCA(2), TopKClassifier(tau=3.0)), "x"))[1].tau)
try:
    to_onnx(TopKClassifier(), "x")
except ImportError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    tau, message = run.stdout.splitlines()
    assert tau == "3.0"
    assert 'needs onnx: pip install "sktopk[onnx]"' in message
