"""A graph has the outputs of the estimator; without a possible graph, an error is raised."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn import preprocessing
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from torch import nn

import sktopk
from sktopk import RecallAtKClassifier, TopKClassifier, make_pipeline
from sktopk.io import to_onnx
from sktopk.losses import TopMean
from sktopk.modules import MLP

for package in ("onnx", "onnxscript", "skl2onnx"):
    pytest.importorskip(package)
onnxruntime = pytest.importorskip("onnxruntime")

QUICK = {"max_epochs": 3, "random_state": 0}
SMALL = {"hidden_layer_sizes": (8,), "n_estimators": 2, **QUICK}
RANKER = RecallAtKClassifier(k=50, calibration="sigmoid", **SMALL)
CALIBRATED = {"calibration": "temperature", **SMALL}
# A linear network has a small graph. It is enough for tests that do not depend on the network.
LINEAR = {"module": nn.Linear, "n_estimators": 1}
# Each case has an estimator, labels, and the type of the samples.
CASES = {
    "default": (TopKClassifier(k=2, n_estimators=3, **QUICK), ["ä", "日本", ""], np.float32),
    "two members of an MLP": (TopKClassifier(k=2, module=MLP, **SMALL), [0, 1, 2], np.float32),
    "probabilities without calibration": (
        TopKClassifier("cross_entropy", k=1, **SMALL), [0.0, 2.0, 3.0], np.float64),
    "prior": (TopKClassifier("logit_adjusted", k=1, **CALIBRATED | LINEAR), [*"abc"], np.float32),
    "two classes": (TopKClassifier(k=1, **CALIBRATED | LINEAR), ["no", "yes"], np.float32),
    # With one minibatch of all samples, the network has the dtype of X.
    "two classes in float64": (
        TopKClassifier(k=1, batch_size=1000, **CALIBRATED), [False, True], np.float64),
    "ranker": (clone(RANKER).set_params(pos_label="yes"), ["no", "yes"], np.float64),
    "ranker of the first label": (
        clone(RANKER).set_params(pos_label="no", **LINEAR), ["no", "yes"], np.float32),
    "threshold": (
        sktopk.ThresholdClassifier(TopMean("negatives", k=5), pos_label="yes", **SMALL | LINEAR),
        ["no", "yes"], np.float32),
}  # fmt: skip
STEPS = [SimpleImputer(strategy="median"), preprocessing.StandardScaler(), PCA(5)]


@pytest.fixture(scope="module", autouse=True)
def _operators_once():
    """Keep the operators of torch and of ONNX, which torch would collect for each graph."""
    from torch._export import utils
    from torch.onnx._internal.exporter._registration import ONNXRegistry as Registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "_materialize_cpp_cia_ops", cache(utils._materialize_cpp_cia_ops))
        patch.setattr(Registry, "from_torchlib", staticmethod(cache(Registry.from_torchlib)))
        yield


def assert_same(graph, estimator, X):
    session = onnxruntime.InferenceSession(graph)
    names = [output.name for output in session.get_outputs()]
    dtype = estimator.decision_function(X[:1]).dtype
    for n_samples in (0, 1, 3):
        few = session.run(None, {"X": X[:n_samples]})
        assert [len(values) for values in few] == [n_samples] * len(names)
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    expected = {"scores": estimator.decision_function(X)}
    if hasattr(estimator, "predict_topk"):
        expected["topk_labels"] = estimator.predict_topk(X)
    else:
        expected["label"] = estimator.predict(X)
    if hasattr(estimator, "predict_proba"):
        expected["proba"] = estimator.predict_proba(X)
    assert found.keys() == expected.keys()
    for name in ("scores", "proba"):
        if name in expected:
            assert found[name].dtype == dtype
            assert found[name].shape == expected[name].shape
            size = np.abs(expected[name]).max()
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-5 * size)
    label = names[1]
    assert found[label].shape == expected[label].shape
    # Rounding can change a predicted label if scores nearly tie.
    assert (found[label] == expected[label]).mean() > 0.99


@pytest.mark.parametrize("name", CASES)
def test_a_graph_has_the_outputs_of_the_estimator(iris, cancer, path, name):
    clf, labels, dtype = CASES[name]
    X, y = iris if len(labels) == 3 else cancer
    X, y = X.astype(dtype), np.array(labels)[np.unique(y, return_inverse=True)[1]]
    clf = clone(clf).fit(X, y)
    assert_same(to_onnx(clf, path, X), clf, X)


@pytest.mark.parametrize("steps", [[], STEPS], ids=len)
def test_the_graph_contains_pipeline_steps_and_accepts_missing_values(cancer, path, rng, steps):
    X = cancer[0].astype(np.float32)
    absent = X.copy()
    absent[rng.random(X.shape) < 0.2] = np.nan
    # The default network accepts missing values itself.
    clf = clone(RANKER).set_params(**(LINEAR if steps else {}))
    clf = make_pipeline(*steps, clf).fit(absent, cancer[1])
    # The samples with which `to_onnx` checks the graph do not need missing values.
    assert_same(to_onnx(clf, path, X), clf, absent)


def test_a_graph_has_the_outputs_of_a_frozen_scikit_learn_pipeline(cancer, path):
    X, clf = cancer[0].astype(np.float32), clone(RANKER).set_params(**LINEAR)
    pipe = sklearn_pipeline(preprocessing.MinMaxScaler(), "passthrough", TruncatedSVD(5), clf)
    pipe = FrozenEstimator(pipe.fit(X, cancer[1]))
    assert_same(to_onnx(pipe, path, X), pipe, X)


def test_to_onnx_accepts_samples_in_a_frame(cancer, path):
    frame = pd.DataFrame(cancer[0][:, :3], columns=["a", "b", "c"], dtype=np.float32)
    clf = clone(RANKER).set_params(**LINEAR).fit(frame, cancer[1])
    assert_same(to_onnx(clf, path, frame[:50]), clf, frame.to_numpy())


class Convolution(nn.Sequential):
    def __init__(self, n_channels, n_outputs):
        layers = nn.Conv2d(n_channels, 3, 3), nn.ReLU(), nn.Flatten()
        super().__init__(*layers, nn.Linear(108, n_outputs))


def test_a_graph_has_the_outputs_of_a_user_network_for_images(digits, path):
    X, y = digits[0].reshape(-1, 1, 8, 8).astype(np.float32), digits[1]
    clf = TopKClassifier(k=3, module=Convolution, n_estimators=2, **QUICK).fit(X, y)
    before = clf.decision_function(X)
    assert_same(to_onnx(clf, path, X), clf, X)
    # The estimator is unchanged and can train on.
    np.testing.assert_array_equal(clf.decision_function(X), before)
    clf.partial_fit(X, y)


SPLINES, POWERS = preprocessing.SplineTransformer(), preprocessing.PowerTransformer()
WITHOUT_FIT = {"fit": lambda self, X, y=None: self}
OWN = type("OwnTransformer", (preprocessing.FunctionTransformer,), WITHOUT_FIT)
REFUSED = {
    "SimpleImputer in float64": ([SimpleImputer()], np.float64, "ONNX Runtime cannot run"),
    "indicators": ([SimpleImputer(add_indicator=True)], np.float32, "ONNX Runtime cannot run"),
    "no converter": ([SPLINES], np.float32, "skl2onnx cannot convert the steps Spline"),
    "own transformer": ([OWN()], np.float32, "skl2onnx cannot convert the steps OwnTransformer"),
    "other values": ([POWERS], np.float32, "differs from .* with NaN added"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_graph_that_onnx_runtime_cannot_run_is_never_written(cancer, path, name, capfd):
    steps, dtype, message = REFUSED[name]
    X = cancer[0][:, :5].astype(dtype)
    if "Imputer" in str(steps):
        X[::3, 1] = np.nan
    params = SMALL | LINEAR if name in ("indicators", "no converter") else SMALL
    pipe = make_pipeline(*steps, RecallAtKClassifier(k=50, **params)).fit(X, cancer[1])
    path.write_bytes(b"old")
    capfd.readouterr()
    with pytest.raises(ValueError, match=rf"(?s){message}.*outside the graph.*joblib\.dump"):
        to_onnx(pipe, path, X)
    assert capfd.readouterr() == ("", "")
    assert [each.read_bytes() for each in path.parent.iterdir()] == [b"old"]


@pytest.mark.parametrize("method", ["decision_function", "predict_proba"])
def test_a_graph_that_differs_from_the_estimator_is_not_written(cancer, path, method, monkeypatch):
    clf = clone(RANKER).set_params(**LINEAR).fit(*cancer)
    right = getattr(clf, method)

    def wrong(X):
        values = right(X)
        values[-1] += 0.01 * np.abs(values).max()
        return values

    monkeypatch.setattr(clf, method, wrong)
    with pytest.raises(ValueError, match=f"the graph differs from {method} for 1 of 569 samples"):
        to_onnx(clf, path, cancer[0])
    assert list(path.parent.iterdir()) == []


def test_to_onnx_raises_for_unfitted_estimators_other_classes_and_categories(cancer, iris, path):
    X, y = cancer
    for estimator in (LogisticRegression(), sktopk.BudgetClassifier(clone(RANKER))):
        with pytest.raises(TypeError, match=f"sktopk with a network.*{type(estimator).__name__}"):
            to_onnx(estimator, path, X)
    with pytest.raises(NotFittedError):
        to_onnx(RANKER, path, X)
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v")})
    clf = RecallAtKClassifier(k=50, **SMALL).fit(frame, y)
    with pytest.raises(ValueError, match=r"categories in columns \[1\]"):
        to_onnx(clf, path, frame)
    clf = TopKClassifier(k=1, **SMALL | LINEAR).fit(X, y)
    for samples, message in [
        (frame, "X must hold numbers"),
        (X[:0], r"X must have at least one sample; got shape \(0, 30\)"),
        (X[:, :3], "3 features"),
    ]:
        with pytest.raises(ValueError, match=message):
            to_onnx(clf, path, samples)
    clf.fit(X, np.array([1, 2**63], dtype=np.uint64)[y])
    with pytest.raises(ValueError, match=r"classes_ must be less than 2\*\*63 .*; got 9223372"):
        to_onnx(clf, path, X)
    assert not path.exists()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
def test_the_input_of_a_graph_is_float32_only_for_samples_of_this_type(iris, path, dtype):
    clf = TopKClassifier(k=1, hidden_layer_sizes=(), n_estimators=1, **QUICK)
    to_onnx(clf.fit(iris[0].astype(dtype), iris[1]), path, iris[0])
    (info,) = onnxruntime.InferenceSession(path).get_inputs()
    assert info.type == ("tensor(float)" if dtype == np.float32 else "tensor(double)")
