"""compare_losses: the samples of each fit, and the number of settings."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupKFold, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from sktopk import TopKClassifier
from sktopk.metrics import make_top_scorer, make_topk_scorer, topk_accuracy_score
from sktopk.model_selection import _baselines, compare_losses

pytestmark = pytest.mark.filterwarnings("ignore:.*must be smaller than the number of classes")

QUICK = {"hidden_layer_sizes": (), "max_epochs": 2, "learning_rate": 0.05, "n_estimators": 1}
BOOSTING = "hist_gradient_boosting"
NETWORKS = ["cross_entropy", "logit_adjusted", "weighted_cross_entropy"]
BASELINES = [*NETWORKS, "logistic_regression", "extra_trees", BOOSTING]
CLF, FITS = TopKClassifier(k=1, **QUICK), []


class Recorder(ClassifierMixin, BaseEstimator):
    def __init__(self, learning_rate=1.0, best_rate=1.0, fail=None, random_state=None):
        self.learning_rate = learning_rate
        self.best_rate = best_rate
        self.fail = fail
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        if self.fail is not None and len(FITS) >= self.fail[0]:
            raise self.fail[1]("stop here")
        self.classes_ = np.unique(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        FITS.append((self.learning_rate, self.random_state, X[:, 0].astype(int), weight))
        return self

    def decision_function(self, X):
        # The label is column 1; errors increase with the distance from the best learning rate.
        share = 1 / (1 + abs(np.log(self.learning_rate / self.best_rate)))
        right = np.arange(len(X)) < share * len(X)
        guess = np.where(right, X[:, 1], (X[:, 1] + 1) % len(self.classes_))
        return (guess[:, None] == np.arange(len(self.classes_))).astype(float)


@pytest.fixture(autouse=True)
def _forget_fits():
    FITS.clear()


@pytest.fixture
def rows(rng):
    """60 samples of three classes; column 0 is the sample number, column 1 the label."""
    y = np.arange(60) % 3
    return np.column_stack([np.arange(60), y, rng.normal(size=60) + y]), y


def compare(X, y, losses=(), estimator=CLF, **params):
    params = {"cv": 2, "n_seeds": 1, "grid": None, "progress": False} | params
    params = {"scoring": make_topk_scorer(1)} | params
    return compare_losses(estimator, losses, X, y, **params)


def test_scores_equal_a_loop_over_losses_repeats_and_folds(blobs):
    X, y = blobs
    clf = TopKClassifier(k=2, **QUICK)
    frame = compare(X, y, ["smooth_topk"], clf, n_seeds=2, scoring=None).frame
    assert set(frame["loss"]) == {*BASELINES, "smooth_topk"}
    assert len(frame) == 7 * 2 * 2
    rows = frame.set_index(["loss", "repeat", "fold"])
    for loss, repeat in product(("cross_entropy", "smooth_topk"), range(2)):
        start = int(rows.loc[(loss, repeat, 0), "seed"])
        folds = StratifiedKFold(2, shuffle=True, random_state=start)
        for fold, (train, test) in enumerate(folds.split(X, y)):
            model = TopKClassifier(loss, k=2, random_state=start + fold, **QUICK)
            scores = model.fit(X[train], y[train]).decision_function(X[test])
            expected = topk_accuracy_score(y[test], scores, k=2)
            assert rows.loc[(loss, repeat, fold), "score"] == pytest.approx(expected)


def test_the_weighted_baseline_of_two_classes_tunes_its_threshold(rng):
    y = (np.arange(120) % 5 == 0).astype(int)
    X = rng.normal(size=(120, 2)) + y[:, None]
    frame = compare(X, y, scoring="f1").frame
    for _, row in frame[frame["loss"] == "weighted_cross_entropy"].iterrows():
        folds = StratifiedKFold(2, shuffle=True, random_state=row["seed"] - row["fold"])
        train, test = list(folds.split(X, y))[row["fold"]]
        model = clone(CLF).set_params(loss="cross_entropy", class_weight="balanced")
        model = sklearn.model_selection.TunedThresholdClassifierCV(model, scoring="f1", cv=0.25)
        model.set_params(random_state=row["seed"], estimator__random_state=row["seed"])
        expected = f1_score(y[test], model.fit(X[train], y[train]).predict(X[test]))
        assert row["score"] == pytest.approx(expected)
    for metric, labels, weight in (("f1", y, 1.0 + y), ("roc_auc", y.astype(str), None)):
        found = compare(X, labels, scoring=metric, sample_weight=weight).scores
        assert np.isfinite(found["weighted_cross_entropy"]).all()


def test_losses_share_samples_and_seeds_and_never_choose_with_test_samples(rows):
    losses = {"one": Recorder(), "two": Recorder()}
    compare(*rows, losses, GaussianNB(), cv=3, n_seeds=2, grid="default")
    # Each loss has six runs, and each run fits four settings and then the best setting.
    runs = [FITS[start : start + 5] for start in range(0, 60, 5)]
    finals = []
    for first, second in zip(runs[::2], runs[1::2], strict=True):
        for one, two in zip(first, second, strict=True):
            assert one[1] == two[1]
            np.testing.assert_array_equal(one[2], two[2])
        *tuning, final = (set(fit[2]) for fit in first)
        assert all(each < final for each in tuning)
        assert ({len(each) for each in tuning}, len(final)) == ({30}, 40)
        finals.append(final)
    for repeat in (finals[:3], finals[3:]):
        tests = [set(range(60)) - final for final in repeat]
        assert set.union(*tests) == set(range(60))
        assert sum(map(len, tests)) == 60
    assert finals[0] != finals[3]


def test_the_setting_with_the_best_score_on_held_out_samples_is_used(rows):
    frame = compare(*rows, {"a": Recorder(best_rate=3.0)}, grid="default").frame
    chosen = frame[frame["loss"] == "a"]
    assert [each["learning_rate"] for each in chosen["params"]] == [3.0, 3.0]
    assert chosen["score"].eq(1.0).all()
    n_candidates = frame.groupby("loss")["n_candidates"].unique().map(list)
    untuned = {"logistic_regression", "extra_trees"}
    assert all(each == [1 if loss in untuned else 4] for loss, each in n_candidates.items())


def test_settings_that_diverge_are_reported_and_not_chosen(rows):
    X, y = rows
    trees = {BOOSTING: {"boosting__learning_rate": [0.1, 0.2]}}
    grid = {name: {"learning_rate": [0.05, 1e38]} for name in NETWORKS}
    frame = compare(X, y, grid=grid | trees).frame
    trained = frame[frame["loss"].isin(NETWORKS)]
    assert trained["n_diverged"].eq(1).all()
    assert all(each["learning_rate"] == 0.05 for each in trained["params"])
    grid = {name: {"learning_rate": [1e37, 1e38]} for name in NETWORKS}
    with pytest.raises(RuntimeError, match="every setting diverged: loss='cross_entropy' in fold"):
        compare(X, y, grid=grid | trees)


def test_an_error_names_the_run_that_failed(rows):
    X, y = rows
    with pytest.raises(RuntimeError, match=r"loss='a' in fold 1, repeat 0 \(seed \d+\).*OSError"):
        compare(X, y, {"a": Recorder(fail=(1, OSError))})
    with pytest.raises(RuntimeError, match=r"loss='cross_entropy' in fold 0.*finite number"):
        compare(X, y, scoring=lambda estimator, X, y: np.nan)


def test_groups_stay_together_in_folds_and_in_the_search_for_settings(rows):
    X, y = rows
    groups = np.arange(60) // 6
    for cv in (2, GroupKFold(2)):
        compare(X, y, {"a": Recorder()}, GaussianNB(), groups=groups, grid="default", cv=cv)
    for run in np.split(np.arange(20), 4):
        final = FITS[run[-1]][2]
        for i in run[:-1]:
            held = np.setdiff1d(final, FITS[i][2])
            assert len(held)
            assert not set(groups[held]) & set(groups[FITS[i][2]])
        assert not set(groups[np.setdiff1d(np.arange(60), final)]) & set(groups[final])


def test_a_setting_is_selected_on_positives_if_few_groups_have_positives(rng):
    groups = np.arange(300) // 5
    X, y = rng.normal(size=(300, 2)), (groups % 10 == 0).astype(int)
    scorer = make_top_scorer("recall_at_k", k=5)
    found = compare(X, y, (), GaussianNB(), groups=groups, grid="default", cv=3, scoring=scorer)
    assert found.frame["validation_score"].notna().any()


def test_a_scorer_ranks_each_group_if_it_asks_for_groups():
    X, day = np.random.default_rng(0).normal(size=(120, 1)), np.arange(120) % 12
    y, scorer = (X[:, 0] > 0.5).astype(int), make_top_scorer("recall_at_k", k=1)
    settings = {"groups": day, "cv": GroupKFold(3), "scoring": scorer, "sample_weight": day + 1.0}
    with pytest.warns(UserWarning, match="recall_at_k_1 ranks all samples of a test fold together"):
        pooled = compare(X, y, estimator=GaussianNB(), **settings).frame
    with sklearn.config_context(enable_metadata_routing=True):
        scorer.set_score_request(groups=True, sample_weight=True)
        clf = GaussianNB().set_fit_request(sample_weight=True)
        found = compare(X, y, estimator=clf, **settings).frame
    one, four = (each.score[each.loss == "GaussianNB"].to_numpy() for each in (pooled, found))
    np.testing.assert_allclose(four, 4 * one)


def test_seeds_on_the_same_samples_are_one_split(rows):
    data = *rows, {"a": Recorder()}, GaussianNB()
    fixed = compare(*data, n_seeds=3, cv=StratifiedKFold(2))
    assert fixed.frame["split"].nunique() == 2
    assert len(fixed.scores["a"]) == 2
    assert fixed.frame["seed"].nunique() == 6
    anew = compare(*data, n_seeds=3, cv=ShuffleSplit(2, random_state=None))
    assert anew.frame["split"].nunique() == 6
    assert len(anew.scores["a"]) == 6


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("sparse", "at most 0.00391 MiB; got 0.00977"),
        ("many classes", "at most 30 classes; got 35"),
        ("images", "2 dimensions; got 3"),
    ],
)
def test_omitted_boosting_is_reported_with_a_reason(kind, why, rng, monkeypatch):
    monkeypatch.setattr(_baselines, "MOST_BYTES_TO_BOOST", 4096)
    y = np.arange(320) % (35 if kind == "many classes" else 3)
    X = rng.normal(size=(320, 2, 2) if kind == "images" else (320, 8))
    X = csr_array(X) if kind == "sparse" else X
    flat = {"module": lambda *_: nn.Sequential(nn.Flatten(), nn.Linear(4, 3))}
    clf = TopKClassifier(k=1, **QUICK, **(flat if kind == "images" else {}))
    result = compare(X, y, estimator=clf, n_seeds=2)
    omitted = {*BASELINES[3:]} if kind == "images" else {BOOSTING}
    assert set(result.frame["loss"]) == {*BASELINES} - omitted
    assert set(result.omitted) == omitted
    assert why in repr(result)


def test_parallel_jobs_on_a_frame_and_a_pipeline_change_no_result(blobs):
    X, y = blobs
    frame, labels = pd.DataFrame(X, columns=list("abcd")), np.array(list("vwxyz"))[y]
    pipe = make_pipeline(StandardScaler(), TopKClassifier(k=2, **QUICK))
    one = compare(frame, labels, ["focal"], pipe, scoring=None)
    with parallel_config("threading", n_jobs=2):
        two = compare(frame, labels, ["focal"], pipe, scoring=None)
    drop = ["fit_seconds", "run_seconds"]
    pd.testing.assert_frame_equal(one.frame.drop(columns=drop), two.frame.drop(columns=drop))
    assert one.metric == "top-2 accuracy"


def test_a_warning_that_many_fits_give_is_shown_once(rows):
    with pytest.warns(UserWarning, match=r"logistic: lbfgs failed to converge") as caught:
        compare(*rows, {"logistic": LogisticRegression(max_iter=1)})
    assert len([each for each in caught if "lbfgs" in str(each.message)]) == 1


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"losses": ["crossentropy"]}, ValueError, "losses must be one of"),
        ({"losses": "focal"}, TypeError, "losses must be a list"),
        ({"losses": ["focal", "focal"]}, ValueError, "'focal' twice"),
        ({"losses": {"a": CLF}, "baselines": {"a": CLF}}, ValueError, "baselines must.* 'a' twice"),
        ({"losses": [("a", 3)]}, TypeError, "must be a classifier"),
        ({"losses": {"a": FrozenEstimator(CLF)}}, TypeError, "must be trained in each split; got"),
        ({"losses": np.eye(60)}, TypeError, r"losses must.*got array.*\(estimator, losses, X, y\)"),
        ({"scoring": "topk"}, ValueError, "scoring must be None.*make_topk_scorer.*got 'topk'"),
        ({"n_seeds": 0}, ValueError, "n_seeds must be at least 1"),
        ({"groups": [np.nan] * 60}, ValueError, "Input groups contains NaN"),
        ({"groups": [0] * 59}, ValueError, r"groups must have one entry per sample \(60\); got"),
        ({"grid": "small"}, ValueError, "grid must be"),
        ({"grid": {"other": {}}}, ValueError, "keys of grid must be in"),
        ({"grid": {"cross_entropy": {"rate": [1]}}}, ValueError, "Invalid parameter 'rate'"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"margin": -1}, ValueError, "margin == -1, must be >= 0"),
        ({"cv": [(np.arange(30), np.arange(30, 60))]}, ValueError, "at least two"),
        ({"cv": [(np.arange(30), np.arange(29, 60))] * 2}, ValueError, "disjoint train and test"),
    ],
)
def test_wrong_arguments_raise_before_any_classifier_is_trained(params, error, message, rows):
    with pytest.raises(error, match=message):
        compare(*rows, **params)


TWO = VotingClassifier([("a", TopKClassifier()), ("b", TopKClassifier())])
WRONG = [
    (TWO, [], TypeError, r"at most one TopK.*got VotingClassifier with 2"),
    (LinearRegression(), [], TypeError, r"estimator must be a classifier.* got LinearRegression"),
    (GaussianNB(), [], ValueError, r"no TopK.*, scoring must be a scorer.*top_scorer.*; got None"),
    (GaussianNB(), {"GaussianNB": CLF}, ValueError, r"losses must .*; got 'GaussianNB' twice"),
    (TopKClassifier, ["focal"], TypeError, "estimator must be an instance .*; got the class TopKC"),
]


@pytest.mark.parametrize(("estimator", "losses", "error", "message"), WRONG)
def test_estimator_must_be_a_classifier_with_a_scorer(estimator, losses, error, message, rows):
    with pytest.raises(error, match=message):
        compare_losses(estimator, losses, *rows)
    with pytest.raises(TypeError, match=r"losses must have \(name, estimator\) pairs; got 'focal'"):
        compare_losses(GaussianNB(), ["focal"], *rows, scoring="accuracy")
