"""Graphs of decisions around classifiers of other packages, and of ours inside of those."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import sktopk
from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    ExpectedCostClassifier,
    PatMatClassifier,
    SetClassifier,
    TopKClassifier,
    TopVotingClassifier,
)
from sktopk.io import register_onnx_converters, to_onnx

pytest.importorskip("onnx")
skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

FOREST = RandomForestClassifier(10, max_depth=3, random_state=0)
CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=500),
    "steps": make_pipeline(SimpleImputer(), make_pipeline(StandardScaler(), LogisticRegression())),
    "boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "forest": FOREST,
    "calibrated": CalibratedClassifierCV(FOREST, cv=2),
    "scores alone": LinearSVC(random_state=0),
}


def twice(X, y):
    """Every row twice, in float32: half of them to calibrate with, of which each ties."""
    return np.repeat(X.astype(np.float32), 2, axis=0), np.repeat(y, 2)


def run(estimator, path, X):
    """The outputs by name, the same whatever the number of rows."""
    session = onnxruntime.InferenceSession(to_onnx(estimator, path))
    names = [output.name for output in session.get_outputs()]
    out = dict(zip(names, session.run(None, {"X": X}), strict=True))
    for n_rows in (0, 1, 3):
        for values, name in zip(session.run(None, {"X": X[:n_rows]}), names, strict=True):
            assert values.shape == out[name][:n_rows].shape
    return out


def close(values, expected):
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).mean())


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("pos_label", ["ill", "well"])
def test_a_desk_around_any_classifier(cancer, path, name, pos_label):
    X, y = twice(*cancer)
    desk = BudgetClassifier(
        CLASSIFIERS[name], budget=0.6, pos_label=pos_label, validation_fraction=0.5, random_state=0
    )
    desk.fit(X, np.where(y == 0, "ill", "well"))
    out = run(desk, path, X)
    assert [*out] == ["scores", "label"]
    expected = desk.decision_function(X)
    close(out["scores"], expected)
    np.testing.assert_array_equal(out["label"], desk.predict(X))
    # As everywhere, above 0 is the second label, to the last digit.
    np.testing.assert_array_equal(out["label"][out["scores"] > 0] == "well", True)
    assert 0 < np.mean(out["label"] == pos_label) < 1


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("method", ["lac", "aps"])
def test_sets_around_any_classifier(path, name, method):
    X, y = twice(*load_iris(return_X_y=True))
    sets = SetClassifier(CLASSIFIERS[name], method=method, validation_fraction=0.5, random_state=0)
    out = run(sets.fit(X, y), path, X)
    values = "scores" if name == "scores alone" else "proba"
    assert {*out} == {"set", values}
    close(out[values], sets.decision_function(X) if values == "scores" else sets.predict_proba(X))
    expected = sets.predict_set(X).toarray()
    # The row that the threshold was found with, and its copy: of scores the last digit decides.
    n_tied = 2 if values == "scores" else 0
    assert (out["set"] != expected).any(axis=1).sum() <= n_tied
    assert 0 < expected.mean() < 1


def test_costs_around_any_classifier(path):
    X, y = twice(*load_iris(return_X_y=True))
    for name in CLASSIFIERS:
        if name != "scores alone":
            cost = np.array([[0, 1, 1], [1, 0, 5], [1, 1, 0]])
            clf = ExpectedCostClassifier(FrozenEstimator(CLASSIFIERS[name].fit(X, y)))
            clf.set_params(cost_matrix=cost).fit(X, y)
            out = run(make_pipeline(clf), path, X)
            close(out["scores"], clf.decision_function(X))
            np.testing.assert_array_equal(out["label"], clf.predict(X))


@pytest.mark.parametrize("pos_label", [0, 1])
def test_scores_that_are_there(cancer, path, pos_label):
    X, y = cancer
    clf = GaussianNB().fit(X[::2], y[::2])
    proba = clf.predict_proba(X)
    for scores in (proba[:, [pos_label]], proba):
        desk = BudgetClassifier.from_scores(scores, y, budget=0.2, pos_label=pos_label)
        out = run(desk, path, scores)
        np.testing.assert_array_equal(out["scores"], desk.decision_function(scores))
        np.testing.assert_array_equal(out["label"], desk.predict(scores))
    for scores in (proba[:, [1]], proba):
        sets = SetClassifier.from_scores(scores, y, method="lac", coverage=0.95)
        np.testing.assert_array_equal(
            run(sets, path, scores)["set"], sets.predict_set(scores).toarray()
        )
    X, y = load_iris(return_X_y=True)
    proba = GaussianNB().fit(X[::2], y[::2]).predict_proba(X)
    sets = SetClassifier.from_scores(proba, y, method="lac", coverage=0.95)
    np.testing.assert_array_equal(run(sets, path, proba)["set"], sets.predict_set(proba).toarray())


VOTE = TopVotingClassifier(
    PatMatClassifier(tau=0.1, n_members=2, max_epochs=3), n_folds=2, random_state=0
)


@pytest.mark.filterwarnings("ignore:max_epochs=.* ended the training")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_vote_of_a_network_and_trees(cancer, path, dtype):
    X, y = cancer
    X, y = X.astype(dtype), np.where(y == 0, "ill", "well")
    vote = clone(VOTE).set_params(estimator__pos_label="ill").fit(X, y)
    assert len(vote.others_) == 2
    out = run(vote, path, X)
    assert [*out] == ["scores", "label", "proba"]
    assert out["proba"].dtype == dtype
    close(out["proba"], vote.predict_proba(X))
    close(out["scores"], vote.decision_function(X))
    np.testing.assert_array_equal(out["label"], vote.predict(X))
    # A desk around it, behind a scaler.
    desk = BudgetClassifier(FrozenEstimator(vote), pos_label="ill", budget=20, per="fit")
    desk.fit(X, y)
    out = run(make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), desk), path, X)
    assert [*out] == ["scores", "label"]
    np.testing.assert_array_equal(out["label"], desk.predict(X))


@pytest.mark.filterwarnings("ignore:max_epochs=.* ended the training")
def test_a_vote_on_labels_of_several_classes(path):
    X, y = load_iris(return_X_y=True)
    network = TopKClassifier(k=2, n_members=2, max_epochs=3)
    others = [LogisticRegression(max_iter=500), FOREST]
    vote = TopVotingClassifier(network, others, n_folds=3, random_state=0).fit(X, y)
    out = run(vote, path, X)
    for name, expected in (("scores", vote.decision_function(X)), ("proba", vote.predict_proba(X))):
        close(out[name], expected)
    np.testing.assert_array_equal(out["label"], vote.predict(X))


@pytest.mark.filterwarnings("ignore:max_epochs=.* ended the training")
def test_of_missing_values_a_vote_has_what_skl2onnx_has(cancer, path):
    X, y = cancer
    X = X.astype(np.float32)
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    vote = clone(VOTE).set_params(others=[HistGradientBoostingClassifier(max_iter=20)]).fit(X, y)
    error = np.abs(run(vote, path, X)["proba"] - vote.predict_proba(X)).max(axis=1)
    # Thresholds of trees are rounded to float32: two rows lie in between.
    assert np.mean(error < 1e-5) > 0.99
    vote = clone(VOTE).set_params(others=[ExtraTreesClassifier(10)]).fit(X, y)
    with pytest.raises(ValueError, match=r"ExtraTrees.* missing values as in fit: impute in front"):
        to_onnx(vote, path)
    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(y, "a", "b")})
    vote = clone(VOTE).set_params(others=[FOREST]).fit(frame.fillna(0), y)
    with pytest.raises(ValueError, match=r"frame with categories in columns .*encode them"):
        to_onnx(vote, path)


def test_a_graph_that_says_otherwise_is_refused(cancer, path):
    X, y = cancer
    clf = LogisticRegression().fit(X, y)
    desk = BudgetClassifier(FrozenEstimator(clf), budget=0.2).fit(X, y)
    # As if skl2onnx had another idea of these scores.
    inner = desk.estimator_.estimator
    inner.decision_function = lambda X: np.tanh(X @ clf.coef_[0])
    with pytest.raises(ValueError, match=r"LogisticRegression has other decision_function than it"):
        to_onnx(desk, path)
    assert not path.exists()


class Own(PatMatClassifier):
    """A subclass."""


@pytest.fixture(scope="module")
def registered():
    names = {"SktopkPatMatClassifier", "SktopkTopKClassifier", "SktopkBudgetClassifier"}
    assert not names & {*skl2onnx.supported_converters()}
    assert {PatMatClassifier, Own} <= {*register_onnx_converters(Own)}
    assert names | {"SktopkOwn"} <= {*skl2onnx.supported_converters()}


QUICK = {"max_epochs": 5, "hidden_layer_sizes": (5,), "random_state": 0}
NET = TopKClassifier(k=1, **QUICK)
WITH_NETS = {
    "ranker": make_pipeline(StandardScaler(), SelectKBest(k=5), Own(tau=0.3, **QUICK)),
    "our pipeline": sktopk.make_pipeline(StandardScaler(), AUCClassifier(**QUICK)),
    "calibrated ranker": make_pipeline(
        StandardScaler(), PatMatClassifier(tau=0.3, calibration="sigmoid", pos_label=0, **QUICK)
    ),
    "desk": make_pipeline(StandardScaler(), BudgetClassifier(NET, budget=0.2, random_state=0)),
    "costs": ExpectedCostClassifier(GaussianNB(), cost_matrix=[[0, 1], [5, 0]]),
    "inside of a calibration": CalibratedClassifierCV(NET, cv=2),
    "vote": VotingClassifier(
        [("net", sktopk.make_pipeline(StandardScaler(), NET)), ("forest", FOREST)],
        voting="soft",
        flatten_transform=False,
    ),
    "stack": StackingClassifier([("net", NET), ("forest", FOREST)], cv=2),
}


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", WITH_NETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_skl2onnx_converts_pipelines_with_our_classifiers(cancer, name, dtype):
    X, y = cancer[0][:, :8].astype(dtype), cancer[1]
    if dtype == np.float64 and name in ("vote", "stack"):
        pytest.skip("skl2onnx has forests for float32")
    labels = {np.float32: y == 1, np.float64: np.array(["ill", "well"])[y]}[dtype]
    if name == "calibrated ranker":
        labels = y
    clf = WITH_NETS[name].fit(X, labels)
    graph = skl2onnx.to_onnx(clf, X[:1], options={"zipmap": False}, target_opset=21)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    assert [each.name for each in session.get_outputs()] == ["label", "probabilities"]
    label, values = session.run(None, {"X": X})
    if hasattr(clf, "predict_proba"):
        expected = clf.predict_proba(X)
    else:
        scores = clf.decision_function(X)
        expected = np.column_stack([-scores, scores])
    assert values.dtype == dtype
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)
    expected = clf.predict(X)
    assert len(np.unique(expected)) == 2
    np.testing.assert_array_equal(label, expected)


@pytest.mark.usefixtures("registered")
def test_labels_of_several_classes_and_old_opsets(blobs):
    X, y = blobs
    clf = TopKClassifier(k=2, **QUICK).fit(X.astype(np.float32), y)
    graph = skl2onnx.to_onnx(clf, X[:1].astype(np.float32))
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    label, proba = session.run(None, {"X": X.astype(np.float32)})
    np.testing.assert_array_equal(label, clf.predict(X))
    np.testing.assert_allclose([proba[0][i] for i in range(5)], clf.predict_proba(X[:1])[0], 1e-5)
    with pytest.raises(ValueError, match="target_opset must be at least 18; got 17"):
        skl2onnx.to_onnx(clf, X[:1].astype(np.float32), target_opset=17)
