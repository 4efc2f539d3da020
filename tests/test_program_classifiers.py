"""The classifiers on linear-program losses: thresholds, metrics, proportions, classes."""

import math
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import fbeta_score, precision_score, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from sktopk import (
    AUCClassifier,
    FScoreClassifier,
    PrecisionAtRecallClassifier,
    PrecisionAtRecallProgramClassifier,
    RecallAtPrecisionClassifier,
)
from sktopk.metrics import make_top_scorer, recall_at_precision_score
from sktopk.modules import MLP

QUICK = {"module": MLP, "max_epochs": 8, "batch_size": 64, "learning_rate": 0.01, "random_state": 0}


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1200, 6))
    risk = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(1200)
    y = (risk > np.quantile(risk, 0.9)).astype(int)
    return X[:600], y[:600], X[600:], y[600:]


def best_over_cuts(scores, y, value):
    """The best of `value(flagged)` over all thresholds, by trying each."""
    return max(value(scores >= t) for t in np.unique(scores))


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_threshold_has_the_largest_f_score_of_the_training_rows(beta, rare):
    X, y = rare[0][:200], rare[1][:200]
    clf = FScoreClassifier(beta=beta, **QUICK).fit(X, y)
    scores = clf.decision_function(X)
    expected = best_over_cuts(scores, y, lambda flagged: fbeta_score(y, flagged, beta=beta))
    assert fbeta_score(y, clf.predict(X), beta=beta) == pytest.approx(expected, rel=1e-12)
    assert clf.score(X, y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("precision", [0.5, 0.9])
def test_threshold_has_the_precision_and_the_largest_recall(precision, rare):
    X, y = rare[0][:200], rare[1][:200]
    clf = RecallAtPrecisionClassifier(precision, **QUICK).fit(X, y)
    assert precision_score(y, clf.predict(X)) >= precision
    expected = best_over_cuts(
        clf.decision_function(X),
        y,
        lambda flagged: recall_score(y, flagged) * (precision_score(y, flagged) >= precision),
    )
    assert recall_score(y, clf.predict(X)) == pytest.approx(expected)
    assert clf.score(X, y) == pytest.approx(expected)


def test_a_precision_out_of_reach_is_said():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 2)), rng.permutation(np.arange(400) % 20 == 0)
    X[:] = np.round(X)  # ties everywhere
    with pytest.warns(UserWarning, match=r"precision=1 is reached by no threshold"):
        RecallAtPrecisionClassifier(1.0, **QUICK).fit(X, y)


def test_auc_threshold_has_the_largest_sum_of_rates(rare):
    X, y, *_ = rare
    clf = AUCClassifier(**QUICK).fit(X, y)
    best = best_over_cuts(
        clf.decision_function(X), y, lambda flagged: flagged[y == 1].mean() - flagged[y == 0].mean()
    )
    flagged = clf.predict(X)
    assert flagged[y == 1].mean() - flagged[y == 0].mean() == pytest.approx(best)
    assert clf.score(X, y) == pytest.approx(roc_auc_score(y, clf.decision_function(X)))


@pytest.mark.parametrize("surrogate", ["hinge", "quadratic", "squared_hinge", "logistic"])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo", "mu"])
def test_auc_of_several_classes(multi_class, surrogate, blobs):
    X, y = blobs
    names = np.array(list("abcde"))
    clf = AUCClassifier(surrogate, multi_class, max_epochs=8, learning_rate=0.03, random_state=0)
    clf.fit(X, names[y])
    scores = clf.decision_function(X)
    assert scores.shape == (len(X), 5)
    areas = []
    for a, b in combinations(range(5), 2):
        rows = np.isin(y, (a, b))
        for c, score in [(a, scores[:, a]), (b, scores[:, b])]:
            if multi_class == "mu":
                score = scores[:, c] - scores[:, a + b - c]
            areas.append(roc_auc_score(y[rows] == c, score[rows]))
    if multi_class == "ovr":
        areas = [roc_auc_score(y == c, scores[:, c]) for c in range(5)]
    assert clf.score(X, names[y]) == pytest.approx(np.mean(areas))
    assert clf.score(X, names[y]) > 0.75
    np.testing.assert_array_equal(clf.predict(X), names[scores.argmax(axis=1)])
    assert not hasattr(clf, "predict_top")
    assert not hasattr(clf, "threshold_")


def test_probabilities_of_several_classes(blobs):
    X, y = blobs
    clf = AUCClassifier(calibration="sigmoid", max_epochs=20, random_state=0).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    "classifier",
    [
        AUCClassifier(),
        FScoreClassifier(),
        RecallAtPrecisionClassifier(),
        PrecisionAtRecallProgramClassifier(),
    ],
    ids=lambda c: type(c).__name__,
)
def test_ranks_positives_first_with_weights_early_stopping_and_a_grid(classifier, rare):
    X, y, X_test, y_test = rare
    clf = clone(classifier).set_params(**QUICK | {"max_epochs": 40, "early_stopping": True})
    clf.fit(X, y, sample_weight=np.full(len(y), 0.5))
    top = clf.predict_top(X_test, n=30)
    assert y_test[top].sum() >= 12  # by chance 3
    assert len(clf.history_) <= 40
    assert all(np.isfinite(row["valid_score"]) for row in clf.history_)
    search = GridSearchCV(
        clone(classifier).set_params(**QUICK | {"max_epochs": 1}),
        {"learning_rate": [1e-3, 1e-2]},
        scoring=make_top_scorer("precision_at_k", k=20),
        cv=2,
    )
    assert np.isfinite(search.fit(X, y).best_score_)


def test_batches_of_one_class_are_counted_and_said(rare):
    X, y, *_ = rare
    # A positive in every batch leaves few negatives to go round.
    X, y = np.r_[X[y == 1], X[y == 0][:4]], np.r_[np.ones((y == 1).sum()), np.zeros(4)]
    with pytest.warns(UserWarning, match=r"\d+ of \d+ batches had rows of one class") as caught:
        FScoreClassifier(**QUICK | {"batch_size": 11}).fit(X, y)
    assert sum("rows of one class only" in str(w.message) for w in caught) == 1


def rate_above(y, flagged, precision):
    """Recall where the precision is reached."""
    return recall_score(y, flagged) * (precision_score(y, flagged, zero_division=1) >= precision)


THRESHOLDS = [
    (AUCClassifier(), lambda y, flagged: flagged[y == 1].mean() - flagged[y == 0].mean()),
    (FScoreClassifier(beta=2.0), lambda y, flagged: fbeta_score(y, flagged, beta=2.0)),
    (RecallAtPrecisionClassifier(0.4), lambda y, flagged: rate_above(y, flagged, 0.4)),
    (
        PrecisionAtRecallProgramClassifier(),
        # The highest threshold that finds four fifths.
        lambda y, flagged: (flagged[y == 1].mean() >= 0.8) * (2 - flagged.mean()),
    ),
]


@pytest.mark.parametrize(("classifier", "value"), THRESHOLDS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("partial", [False, True])
def test_threshold_is_the_best_of_all_on_the_weighted_training_rows(
    classifier, value, partial, rare
):
    X, y = rare[0][:300], rare[1][:300]
    X = X.round(1)  # some scores tie
    repeats = np.arange(300) % 3
    clf = clone(classifier).set_params(**QUICK | {"max_epochs": 3})
    if partial:
        clf.partial_fit(X, y, classes=[0, 1], sample_weight=repeats)
    else:
        clf.fit(X, y, sample_weight=repeats)
    rows = np.repeat(np.arange(300), repeats)
    scores, flagged = clf.decision_function(X)[rows], clf.predict(X)[rows] == 1
    assert 0 < flagged.sum() < len(flagged)
    expected = best_over_cuts(scores, y[rows], lambda cut: value(y[rows], cut))
    assert value(y[rows], flagged) == pytest.approx(expected, rel=1e-12)


def test_the_program_has_another_threshold_than_a_score(rare):
    X, y, *_ = rare
    by_program = PrecisionAtRecallProgramClassifier(**QUICK).fit(X, y)
    by_score = PrecisionAtRecallClassifier(**QUICK).fit(X, y)
    n_found = math.ceil(0.8 * y.sum())
    assert by_program.predict(X)[y == 1].sum() == by_score.predict(X)[y == 1].sum() == n_found
    assert not np.array_equal(by_program.decision_function(X), by_score.decision_function(X))


@pytest.mark.parametrize(
    "classifier",
    [
        AUCClassifier("cubic"),
        AUCClassifier(multi_class="all"),
        AUCClassifier(margin=0),
        FScoreClassifier(beta=0),
        RecallAtPrecisionClassifier(1.5),
        RecallAtPrecisionClassifier(precision="bfloat16"),
        RecallAtPrecisionClassifier(autocast="float16"),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_refused(classifier, rare):
    X, y, *_ = rare
    names = "surrogate|multi_class|margin|beta|precision|autocast"
    with pytest.raises((ValueError, TypeError), match=names):
        classifier.fit(X, y)


def test_recall_at_precision_score_by_hand():
    y, scores = [1, 0, 1, 1, 0, 0], [6, 5, 4, 3, 2, 2]
    assert recall_at_precision_score(y, scores, precision=1.0) == pytest.approx(1 / 3)
    assert recall_at_precision_score(y, scores, precision=0.75) == 1.0
    assert recall_at_precision_score(y, [0] * 6, precision=0.5) == 1.0
    assert recall_at_precision_score(y, [0] * 6, precision=0.6) == 0.0
    assert recall_at_precision_score(
        y, scores, precision=0.7, sample_weight=[1, 3, 1, 1, 1, 1]
    ) == (pytest.approx(1 / 3))
    with pytest.warns(UserWarning, match="no positives"):
        assert np.isnan(recall_at_precision_score([0, 0], [1, 2], precision=0.5, pos_label=1))
    with pytest.raises(ValueError, match="precision"):
        recall_at_precision_score(y, scores, precision=0)


@pytest.mark.filterwarnings("ignore:max_epochs")
def test_rows_left_out_are_labelled_by_a_threshold_of_their_own_scores(rare):
    """`threshold_` is for scores of all members, which spread less than those of one."""
    X, y = rare[:2]
    clf = FScoreClassifier(n_members=4, max_epochs=5, random_state=0).fit(X, y)
    scores = clf.oob_decision_function_
    expected = best_over_cuts(scores, y, lambda flagged: fbeta_score(y, flagged, beta=1))
    assert clf.oob_score_ == pytest.approx(expected, rel=1e-12)
    assert fbeta_score(y, scores > 0, beta=1) < expected
