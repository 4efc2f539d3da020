"""A graph says what the estimator says, whatever runs it."""

import doctest
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from torch import nn

import sktopk
from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    DeepTopPushClassifier,
    ExpectedCostClassifier,
    RecallAtKClassifier,
    SetClassifier,
    TopKClassifier,
)
from sktopk.io import to_onnx
from sktopk.io._onnx._network import _layers
from sktopk.modules import MLP, ScaledScores, TabularMLP

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

QUICK = {"max_epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def many_digits():
    """The digits, and 10 000 rows like them."""
    X, y = load_digits(return_X_y=True)
    noise = np.random.default_rng(0).normal(scale=0.5, size=(10_000, 64))
    return X, y, np.resize(X, (10_000, 64)) + noise


def run(estimator, path, X):
    """Names and values of the outputs, and what is declared about them."""
    session = onnxruntime.InferenceSession(to_onnx(estimator, path))
    dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    X = X.astype(dtype[session.get_inputs()[0].type])
    names = [output.name for output in session.get_outputs()]
    for n_rows in (0, 1, 3):
        few = session.run(None, {"X": X[:n_rows]})
        assert [len(values) for values in few] == [n_rows] * len(names)
    return X, dict(zip(names, session.run(None, {"X": X}), strict=True))


def close(X, estimator, scores):
    expected = estimator.decision_function(X)
    assert scores.dtype == expected.dtype
    assert scores.shape == expected.shape
    # 1e-5 of scores that may be in the hundreds.
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).mean())


def assert_same_topk(X, clf, labels, Z):
    """The same labels, but where scores are closer than float32 can tell."""
    expected, scores = clf.predict_topk(Z), np.sort(clf.decision_function(Z))[:, ::-1]
    n = labels.shape[1]
    gaps = (scores[:, :n] - scores[:, 1 : n + 1]).min(axis=1)
    different = (labels != expected).any(axis=1)
    assert gaps[different].max(initial=0) < 1e-5 * np.abs(scores).max()
    assert different.mean() < 1e-3
    assert labels.shape == expected.shape


NETWORKS = {
    "linear": {"hidden_layer_sizes": ()},
    "deep": {"hidden_layer_sizes": (20, 10)},
    "normalized": {"loss": "ldam", "net_params": {"module__normalize": True}},
    "normed": {"net_params": {"module__batch_norm": True, "module__dropout": 0.2}},
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_top_k_on_ten_thousand_rows(many_digits, path, network, dtype):
    X, y, rows = many_digits
    clf = TopKClassifier(k=3, **NETWORKS[network], **QUICK).fit(X.astype(dtype) / 16, y)
    rows, out = run(clf, path, rows / 16)
    assert rows.dtype == dtype
    close(rows, clf, out["scores"])
    assert_same_topk(rows, clf, out["topk_labels"], rows)
    assert out["topk_labels"].dtype == np.int64


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [MinMaxScaler(), "passthrough", PCA(20)],
        [TruncatedSVD(10), StandardScaler()],
    ],
    ids=["scaler", "pca", "svd"],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_of_a_pipeline_are_part_of_the_graph(many_digits, path, steps, dtype):
    pytest.importorskip("skl2onnx")
    X, y, rows = many_digits
    names = np.array([f"ä{i}" for i in range(10)], dtype=object)[y]
    pipe = make_pipeline(*steps, TopKClassifier(k=2, **QUICK)).fit(X.astype(dtype), names)
    rows, out = run(FrozenEstimator(pipe), path, rows)
    close(rows, pipe, out["scores"])
    assert_same_topk(rows, pipe[-1], out["topk_labels"], pipe[:-1].transform(rows))
    assert set(out["topk_labels"].ravel()) <= set(names)


@pytest.mark.parametrize(
    "name", [n for n in sktopk.__all__ if hasattr(getattr(sktopk, n), "partial_fit")]
)
def test_thresholds_are_part_of_the_graph(cancer, path, name):
    X, y = cancer
    clf = getattr(sktopk, name)(module=MLP, **QUICK).fit(X, y == 1)
    rows, out = run(clf, path, X)
    close(rows, clf, out["scores"])
    if name == "TopKClassifier":
        np.testing.assert_array_equal(out["topk_labels"], clf.predict_topk(X))
    else:
        np.testing.assert_array_equal(out["label"], clf.predict(X))
        assert 0 < out["label"].mean() < 1
    budget = BudgetClassifier(make_pipeline(StandardScaler(), clf), budget=0.05, random_state=0)
    rows, out = run(budget.fit(X, y), path, X)
    close(rows, budget, out["scores"])
    np.testing.assert_array_equal(out["label"], budget.predict(X))
    assert 0 < out["label"].mean() < 0.5


def test_several_classes_without_a_threshold(blobs, path):
    X, y = blobs
    clf = AUCClassifier(**QUICK).fit(X, y.astype(str))
    rows, out = run(clf, path, X)
    close(rows, clf, out["scores"])
    np.testing.assert_array_equal(out["label"], clf.predict(X))


LEFT_OUT = {"n_members": 2, "cross_fit": True, "calibration": "auto"}
WITH_PROBA = {
    "cross-entropy": (TopKClassifier("cross_entropy"), False),
    "logit-adjusted": (TopKClassifier("logit_adjusted", warm_up=0), False),
    "temperature": (TopKClassifier(k=2, calibration="temperature"), False),
    "sigmoid": (TopKClassifier(k=2, calibration="sigmoid"), False),
    "frequencies and temperature": (TopKClassifier("logit_adjusted", **LEFT_OUT), False),
    "two heads": (TopKClassifier(k=2, order="cross_entropy"), False),
    "several areas": (AUCClassifier(calibration="sigmoid"), False),
    "two classes": (TopKClassifier(k=1, **LEFT_OUT), True),
    "a ranking": (DeepTopPushClassifier(**LEFT_OUT), True),
    "the first class": (DeepTopPushClassifier(calibration="temperature", pos_label=0), True),
}


@pytest.mark.parametrize("case", WITH_PROBA)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_are_part_of_the_graph(blobs, path, case, dtype):
    pytest.importorskip("skl2onnx")
    X, y = blobs
    clf, binary = WITH_PROBA[case]
    y = (y > 2).astype(int) if binary else y
    pipe = make_pipeline(StandardScaler(), clone(clf).set_params(**QUICK)).fit(X.astype(dtype), y)
    rows, out = run(pipe, path, X)
    assert [*out] == ["scores", "label" if "label" in out else "topk_labels", "proba"]
    expected = pipe.predict_proba(rows)
    assert out["proba"].dtype == expected.dtype == dtype
    np.testing.assert_allclose(out["proba"], expected, atol=1e-5 if dtype == np.float32 else 1e-12)


def test_without_probabilities_there_is_no_such_output(blobs, path):
    X, y = blobs
    assert "proba" not in run(TopKClassifier(k=2, calibration=None, **QUICK).fit(X, y), path, X)[1]
    clf = DeepTopPushClassifier(calibration="sigmoid", **QUICK).fit(X, y > 2)
    budget = BudgetClassifier(FrozenEstimator(clf), budget=0.1, random_state=0).fit(X, y > 2)
    assert "proba" not in run(budget, path, X)[1]


class Own(MLP):
    """A network that is not the default one."""


class Images(nn.Module):
    def __init__(self, n_channels, n_outputs):
        super().__init__()
        self.convolution = nn.Conv2d(n_channels, 3, 3)
        self.last = nn.Linear(3 * 36, n_outputs)

    def forward(self, images):
        return self.last(self.convolution(images).relu().flatten(1))


def test_modules_of_ones_own(many_digits, path):
    pytest.importorskip("onnxscript")
    X, y, rows = many_digits
    params = {"module__hidden_layer_sizes": (9,), "module__batch_norm": True}
    clf = TopKClassifier(k=3, module=Own, net_params=params, **QUICK)
    pipe = make_pipeline(StandardScaler(), clf).fit(X, y)
    _, out = run(pipe, path, rows)
    close(rows, pipe, out["scores"])
    assert_same_topk(rows, clf, out["topk_labels"], pipe[:-1].transform(rows))
    # The exporter of torch and ours agree on the same weights.
    written = TopKClassifier(k=3, hidden_layer_sizes=(9,), net_params={"module__batch_norm": True})
    written.set_params(**QUICK).fit(pipe[:-1].transform(X), y)
    ours = run(make_pipeline(pipe[0], written), path, rows)[1]["scores"]
    np.testing.assert_allclose(out["scores"], ours, rtol=1e-9, atol=1e-9)
    images = X.reshape(-1, 1, 8, 8).astype(np.float32)
    clf = TopKClassifier(k=3, module=Images, **QUICK).fit(images, y)
    rows, out = run(clf, path, images)
    close(rows, clf, out["scores"])


def test_the_network_of_a_table(many_digits, path):
    X, y, rows = many_digits
    made = partial(_network_of_a_table, rows=X)
    clf = TopKClassifier(k=3, module=made, **QUICK).fit(X, y)
    rows, out = run(clf, path, rows)
    close(rows, clf, out["scores"])
    assert_same_topk(rows, clf, out["topk_labels"], rows)


def _network_of_a_table(n_features, n_outputs, rows):
    return TabularMLP(n_features, n_outputs, (9,)).from_data(torch.from_numpy(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize(
    "params",
    [
        {"missing_indicator": True},
        {"missing_indicator": [1]},
        {"n_bins": 0},
        {"n_categories": {3: 3}},
    ],
)
def test_members_missing_and_infinite_values(dtype, n_members, params):
    onnx = pytest.importorskip("onnx")
    torch.manual_seed(0)
    X = torch.randn(50, 4, dtype=dtype)
    X[::5, 1], X[0, 0], X[1, 0], X[:, 2] = torch.nan, torch.inf, -torch.inf, 1
    X[:, 3] = X[:, 3].round()
    network = TabularMLP(4, 3, n_members=n_members, **params).to(dtype).from_data(X).eval()
    # A constant column elsewhere.
    X[:, 2] = torch.inf
    kind = X.numpy().dtype.type
    model = _layers(onnx, ScaledScores(network, 3, 5.0), (4,), kind)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for rows in (X, X[:1], X[:0]):
        (scores,) = session.run(None, {"X": rows.numpy()})
        tolerance = 1e-6 if dtype == torch.float32 else 1e-12
        expected = 5 * network(rows).detach().numpy()
        if n_members > 1:
            expected = expected.mean(1)
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(scores, expected, atol=tolerance, strict=True)


def test_the_example_of_the_docstring(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = to_onnx.__doc__.replace("# doctest: +SKIP", "")
    names = {"onnxruntime": onnxruntime}
    example = doctest.DocTestParser().get_doctest(text, names, "to_onnx", None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_a_graph_does_not_change_the_estimator(blobs, path):
    X, y = blobs
    clf = TopKClassifier(k=2, warm_start=True, **QUICK).fit(X, y)
    other = TopKClassifier(k=2, warm_start=True, **QUICK).fit(X, y)
    to_onnx(clf, path)
    expected = other.fit(X, y).decision_function(X)
    np.testing.assert_array_equal(clf.fit(X, y).decision_function(X), expected)


@pytest.mark.parametrize("kind", [TopKClassifier, RecallAtKClassifier])
@pytest.mark.parametrize("names", ["several", "two", "two turned"])
def test_least_expected_costs_are_part_of_the_graph(blobs, path, kind, names):
    X, y = blobs
    if names != "several":
        y = np.where(y > 2, *(("ok", "zap") if names == "two" else ("zap", "ok")))
    elif kind is not TopKClassifier:
        pytest.skip("ranks two classes")
    of_two = {"pos_label": "zap"} if kind is not TopKClassifier else {}
    net = kind(
        k=1, calibration="temperature" if names == "several" else "sigmoid", **QUICK, **of_two
    )
    n_classes = len(np.unique(y))
    cost = np.random.default_rng(0).uniform(0, 9, (n_classes, n_classes)) * (1 - np.eye(n_classes))
    clf = ExpectedCostClassifier(make_pipeline(StandardScaler(), net), cost_matrix=cost).fit(X, y)
    rows, out = run(clf, path, X)
    close(rows, clf, out["scores"])
    assert list(out) == ["scores", "label"]
    np.testing.assert_array_equal(out["label"], clf.predict(rows))
    assert np.any(out["label"] != clf.estimator_.predict(rows))


SETS = {
    "topk": {"method": "topk", "k": 2},
    "average_k": {"method": "average_k", "k": 1.5},
    "lac": {"method": "lac"},
    "lac of each class": {"method": "lac", "conditional": "class"},
    "lac, never empty": {"method": "lac", "coverage": 0.3, "conditional": "class", "empty": "top1"},
    "lac, cut": {"method": "lac", "coverage": 0.5, "max_size": 3},
    "aps": {"method": "aps"},
    "raps, cut": {"method": "raps", "k": 2, "penalty": 0.01, "max_size": 3},
    "pas": {"method": "pas", "randomized": True},
}


@pytest.fixture(scope="module")
def inside_of_sets():
    """Networks for digits whose scores are the same in any order of sums, and rows of their own.

    Weights and features are few bits of integers. Every row is there twice, so that there are
    ties in every class; one network has no probabilities of its own.
    """
    X, y = load_digits(return_X_y=True)
    X, y = np.repeat(X.round(-1) / 10, 2, axis=0), np.repeat(y, 2)
    nets = []
    for dtype, calibration in ((np.float32, "temperature"), (np.float64, None)):
        net = TopKClassifier("topk_hinge", k=2, hidden_layer_sizes=(), **QUICK)
        net.set_params(warm_up=0, score_scale=1.0, calibration=calibration)
        net.fit(X[::3].astype(dtype), y[::3])
        with torch.no_grad():
            for values in net.net_.module_.parameters():
                values.copy_((values * 64).round() / 64)
        nets.append(FrozenEstimator(net))
    return nets, X, y


@pytest.mark.parametrize("case", SETS)
@pytest.mark.parametrize("has_proba", [True, False])
def test_sets_are_part_of_the_graph(inside_of_sets, path, case, has_proba):
    nets, X, y = inside_of_sets
    net = nets[0 if has_proba else 1]
    assert hasattr(net, "predict_proba") == has_proba
    sets = SetClassifier(net, random_state=0, **SETS[case]).fit(X[1::3], y[1::3])
    rows, out = run(sets, path, X[1::3])
    assert [*out] == ["scores", "set", "proba"][: 3 if has_proba else 2]
    np.testing.assert_array_equal(out["scores"], sets.decision_function(rows))
    expected = sets.predict_set(rows).toarray()
    assert out["set"].dtype == bool
    if has_proba:
        # In float32 most rows have the same probabilities to the bit: then sets are the same, where
        # the conformity is the threshold, too, as that of a calibration row is.
        same = (out["proba"] == sets.predict_proba(rows)).all(axis=1)
        assert same.mean() > 0.9
        np.testing.assert_array_equal(out["set"][same], expected[same])
    # Elsewhere a last digit may decide.
    assert (out["set"] != expected).any(axis=1).mean() < 0.002
    assert 0 < expected.mean() < 1


def test_sets_around_a_pipeline_and_of_two_classes(cancer, path):
    pytest.importorskip("skl2onnx")
    X, y = cancer
    ranker = DeepTopPushClassifier(calibration="sigmoid", pos_label=0, **QUICK)
    for net in (TopKClassifier(k=1, **QUICK), ranker):
        inner = make_pipeline(StandardScaler(), net)
        sets = SetClassifier(inner, method="lac", conditional="class", random_state=0).fit(X, y)
        rows, out = run(sets, path, X)
        close(rows, sets, out["scores"])
        assert np.mean(out["set"] != sets.predict_set(rows).toarray()) < 0.002
        assert len(np.unique(out["set"], axis=0)) > 1


def test_what_has_no_graph_is_refused_by_name(cancer, path):
    X, y = cancer
    clf = TopKClassifier(k=1, **QUICK).fit(X, y)
    frozen = FrozenEstimator(clf)
    with pytest.raises(NotFittedError):
        to_onnx(TopKClassifier(), path)
    for other in (RandomForestClassifier(), make_pipeline(PCA())):
        with pytest.raises(
            TypeError, match=f"got {type(other).__name__.replace('Pipeline', 'PCA')}"
        ):
            to_onnx(other, path)
    budget = BudgetClassifier(frozen, per="batch").fit(X, y)
    with pytest.raises(ValueError, match=r"per='batch' has no fixed threshold"):
        to_onnx(budget, path)
    budget = BudgetClassifier(frozen, constraint="fdr", budget=0.2).fit(X, y)
    with pytest.raises(ValueError, match=r"constraint='fdr' has no fixed threshold"):
        to_onnx(budget, path)
    budget = BudgetClassifier(frozen, constraint="cost", budget=20).fit(X, y)
    with pytest.raises(ValueError, match=r"constraint='cost' has no fixed threshold"):
        to_onnx(budget, path)
    lac = SetClassifier(frozen, method="lac")
    fits = {
        "randomized=True draws": (clone(lac).set_params(method="raps", randomized=True), {}),
        'conditional="group" has': (
            clone(lac).set_params(conditional="group"),
            {"groups": np.arange(len(y)) % 2},
        ),
        "hierarchy makes sets of nodes": (
            clone(lac).set_params(hierarchy={int(label): "any" for label in clf.classes_}),
            {},
        ),
    }
    for message, (sets, given) in fits.items():
        with pytest.raises(ValueError, match=message):
            to_onnx(sets.fit(X, y, **given), path)
    with pytest.raises(NotFittedError):
        to_onnx(lac, path)
    pipe = make_pipeline(FunctionTransformer(np.sin), clf).fit(X, y)
    with pytest.raises(ValueError, match="skl2onnx cannot convert the steps FunctionTransformer"):
        to_onnx(pipe, path)
    assert not path.exists()
