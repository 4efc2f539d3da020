"""The rankers: thresholds, metrics, labels, weights, probabilities, degenerate data."""

import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import fbeta_score, precision_score, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import sktopk
from sktopk import metrics
from sktopk.losses import KthLargest
from sktopk.metrics import positives_at_top_score, recall_at_k_score
from sktopk.metrics import true_positive_rate_at_fpr_score as tpr_at_fpr
from sktopk.modules import MLP
from tests.crashing import check_same
from tests.rankers import PROGRAMS, TOP, name

SMALL = {"n_estimators": 2, "max_epochs": 3, "random_state": 0}
some_rankers = pytest.mark.parametrize("classifier", [*TOP[::2], *PROGRAMS[::2]], ids=name)


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1200, 6))
    risk = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(1200)
    y = (risk > np.quantile(risk, 0.9)).astype(int)
    return X[:600], y[:600], X[600:], y[600:]


def quick(classifier, **params):
    defaults = {
        "module": MLP, "n_estimators": 1, "max_epochs": 3, "batch_size": 150,
        "n_iter_no_change": None, "random_state": 0,
    }  # fmt: skip
    return clone(classifier).set_params(**defaults | params)


@pytest.mark.parametrize("classifier", TOP, ids=name)
def test_the_threshold_is_halfway_from_the_score_at_its_rank_to_the_adjacent_one(classifier, rare):
    X = rare[0][:300].astype(np.float32 if classifier in TOP[::2] else np.float64)
    y = rare[1][:300]
    clf = quick(classifier, max_epochs=15).fit(X, y)
    n_positives, n_negatives = int(np.sum(y == 1)), int(np.sum(y == 0))
    # The ranked samples, and the rank of the threshold (table 1 of Adam, Mácha, Šmídl 2020).
    group, rank = {
        "DeepTopPush": (y == 0, 1),
        "TopPushK": (y == 0, 7),
        "RecallAtK": (y >= 0, 30),
        "PatMat": (y >= 0, math.ceil(Fraction(7, 100) * len(y))),
        "PatMatNP": (y == 0, math.ceil(Fraction(3, 100) * n_negatives)),
        # Flagging the negative at this rank raises the false positive rate above 0.07.
        "RecallAtFPR": (y == 0, math.floor(Fraction(7, 100) * n_negatives) + 1),
        "PrecisionAtRecall": (y == 1, math.ceil(Fraction(4, 5) * n_positives)),
    }[name(clf)]
    distance = clf.decision_function(X)
    above, below = distance[distance > 0].min(), distance[distance <= 0].max()
    assert above == pytest.approx(-below, rel=1e-3)
    at = sorted(distance[group], reverse=True)[rank - 1]
    # Two rankers do not flag the sample at this rank. All other rankers do.
    assert at == (below if name(clf) in ("DeepTopPush", "RecallAtFPR") else above)
    np.testing.assert_array_equal(clf.predict(X), distance > 0)
    top = clf.predict_top(X, n=len(X))
    assert (np.diff(distance[top]) <= 0).all()
    np.testing.assert_array_equal(np.sort(top), np.arange(len(X)))


def cut_value(clf, y, flagged):
    """The metric that `threshold_` of a ranker with a linear program maximizes."""
    if name(clf) == "AUC":
        return flagged[y == 1].mean() - flagged[y == 0].mean()
    if name(clf) == "FScore":
        return fbeta_score(y, flagged, beta=2.0)
    reached = precision_score(y, flagged, zero_division=1) >= 0.4
    return recall_score(y, flagged) * reached


@pytest.mark.parametrize("classifier", PROGRAMS, ids=name)
def test_the_threshold_of_rankers_with_a_linear_program_maximizes_the_metric(classifier, rare):
    X, y, times = rare[0][:90].round(1), rare[1][:90], np.arange(90) % 3  # some scores tie
    rows, clf = np.repeat(np.arange(90), times), quick(classifier, learning_rate=0.1)
    for train in (clf.fit, clf.partial_fit):
        train(X, y, sample_weight=times)
        scores, flagged = clf.decision_function(X)[rows], clf.predict(X)[rows] == 1
        assert 0 < flagged.sum() < len(flagged)
        best = max(cut_value(clf, y[rows], scores >= t) for t in np.unique(scores))
        assert cut_value(clf, y[rows], flagged) == pytest.approx(best, rel=1e-12)


def mid_ranks(scores):
    """Return the distinct scores, and for each the share below plus half the share of its ties."""
    values = np.unique(scores)
    return values, [(np.mean(scores < v) + np.mean(scores <= v)) / 2 for v in values]


def as_unseen_by_loops(scores, unseen, target):
    """Ensemble scores as if no network had trained on any sample. unseen[i, m]: m held out i."""
    moved = scores.copy()
    for i, m in np.ndindex(scores.shape):
        of_class = target == target[i]
        if unseen[of_class].sum(axis=0).min() < 3:
            moved[i] = scores[i][unseen[i]].mean()
        elif not unseen[i, m]:
            values, ranks = mid_ranks(scores[of_class & ~unseen[:, m], m])
            others, other_ranks = mid_ranks(scores[of_class & unseen[:, m], m])
            gaps = others - np.interp(other_ranks, ranks, values)
            moved[i, m] += np.interp(np.interp(scores[i, m], values, ranks), other_ranks, gaps)
    return moved.mean(axis=1)


@pytest.mark.parametrize(
    "classifier",
    [sktopk.DeepTopPushClassifier(), sktopk.FScoreClassifier(), sktopk.PatMatClassifier(0.05)],
    ids=name,
)
def test_the_threshold_of_an_ensemble_comes_from_out_of_fold_scores(classifier, rare):
    X, y = rare[0][:120], rare[1][:120]
    whole = {"batch_size": 120, "max_epochs": 12, "n_estimators": 3, "random_state": 0}
    clf = clone(classifier).set_params(**whole).fit(X, y)
    oob = clf.oob_decision_function_
    with torch.no_grad():
        by_network = clf.net_.module_(torch.from_numpy(X))[:, :, 0].double().numpy()
    # The out-of-fold score of a sample is the score of the network that held it out.
    unseen = np.abs(by_network - clf.threshold_ - oob[:, None]).argmin(1)[:, None] == np.arange(3)
    scores = as_unseen_by_loops(by_network, unseen, y)
    order = np.sort(scores)[::-1]
    if name(clf) == "DeepTopPush":
        last = scores[y == 0].max()
        expected = (last + min(scores[scores > last], default=last)) / 2
    elif name(clf) == "PatMat":
        expected = (order[5] + order[6]) / 2
    else:
        best = max(order, key=lambda t: fbeta_score(y, scores >= t, beta=1))
        expected = (best + max(scores[scores < best])) / 2
    assert clf.threshold_ == pytest.approx(expected, abs=1e-6)
    metric = {
        "DeepTopPush": lambda: positives_at_top_score(y, oob),
        "PatMat": lambda: recall_at_k_score(y, oob, k=0.05),
        "FScore": lambda: fbeta_score(y, oob > 0, beta=1),
    }[name(clf)]
    assert clf.oob_score_ == pytest.approx(metric())


def test_about_the_given_share_of_new_samples_is_predicted_positive():
    rng = np.random.default_rng(1)
    y = rng.random(6000) < 0.1
    X = rng.standard_normal((6000, 10)) + 0.3 * y[:, None]
    for n_estimators in (1, 4):
        clf = sktopk.PatMatClassifier(0.05, n_estimators=n_estimators, random_state=1, max_epochs=4)
        clf.fit(X[:1000], y[:1000])
        assert 0.6 < clf.predict(X[1000:]).mean() / 0.05 < 1.6


@pytest.mark.parametrize("classifier", [*TOP, *PROGRAMS], ids=name)
def test_the_method_score_returns_the_metric_of_the_estimator(classifier, rare):
    X, y, X_test, y_test = rare
    clf, weight = quick(classifier).fit(X, y), 1 + np.arange(600) % 3
    metric = {
        "DeepTopPush": positives_at_top_score,
        "TopPushK": partial(positives_at_top_score, k=7),
        "RecallAtK": partial(recall_at_k_score, k=30),
        "PatMat": partial(recall_at_k_score, k=0.07),
        "PatMatNP": partial(tpr_at_fpr, fpr=0.03),
        "RecallAtFPR": partial(tpr_at_fpr, fpr=0.07),
        "PrecisionAtRecall": partial(metrics.precision_at_recall_score, recall=0.8),
        "AUC": roc_auc_score,
        "FScore": lambda y, s, **weight: fbeta_score(y, s > 0, beta=2, **weight),
        "RecallAtPrecision": partial(metrics.recall_at_precision_score, precision=0.4),
    }[name(clf)]
    scores = clf.decision_function(X_test)
    assert clf.score(X_test, y_test) == pytest.approx(metric(y_test, scores))
    expected = metric(y_test, scores, sample_weight=weight)
    assert clf.score(X_test, y_test, weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"y must hold labels that the .* knows, \[.*\]; got 5"):
        clf.score(X_test, y_test + 5)


def test_predict_top_keeps_the_order_of_ties(rare):
    clf = quick(sktopk.DeepTopPushClassifier()).fit(*rare[:2])
    for groups in (None, [7] * 4):
        with pytest.warns(UserWarning, match="4 samples tie at rank 3"):
            assert clf.predict_top(np.zeros((4, 6)), n=3, groups=groups).tolist() == [0, 1, 2]
        with pytest.warns(UserWarning, match="n=5 exceeds the (number of samples|size)") as caught:
            assert clf.predict_top(np.zeros((4, 6)), n=5, groups=groups).tolist() == [0, 1, 2, 3]
        assert len(caught) == 1


def test_of_cuts_with_the_highest_precision_the_one_with_the_highest_recall_is_taken():
    X, y = np.repeat([[1.0], [2], [3]], 20, axis=0), np.repeat([0, 1, 0, 1], [20, 10, 20, 10])
    clf = quick(sktopk.RecallAtPrecisionClassifier(0.9), learning_rate=0.1, max_epochs=20)
    np.testing.assert_array_equal(clf.fit(X, y).predict(X), X[:, 0] > 1)
    X, y = np.repeat([[1.0], [2], [3]], [20, 21, 4], axis=0), np.repeat([0, 1], [38, 7])
    clf.set_params(precision=0.28)  # rounded, 0.28 * 25 is above 7
    np.testing.assert_array_equal(clf.fit(X, y).predict(X), X[:, 0] > 1)


ALARMS, BOTH = "false_positives", {"false_positives": 0.2, "false_negatives": 0.8}


def test_a_ranker_equals_threshold_classifier_with_its_threshold(rare):
    X, y, *_ = rare
    for named, threshold, *errors in [
        (sktopk.TopPushKClassifier(k=4), KthLargest("negatives", k=4)),
        (sktopk.RecallAtKClassifier(k=30), KthLargest("all", k=30)),
        (sktopk.RecallAtKClassifier(k=0.1), KthLargest("all", tau=0.1)),
        (sktopk.PatMatClassifier(tau=0.1), KthLargest("all", tau=0.1)),
        (sktopk.PatMatNPClassifier(tau=0.1), KthLargest("negatives", tau=0.1)),
        (sktopk.PrecisionAtRecallClassifier(0.6), KthLargest("positives", tau=0.6), ALARMS),
    ]:
        named = quick(named, buffer_size=3, max_epochs=3).fit(X, y)
        clf = sktopk.ThresholdClassifier(threshold, *errors, buffer_size=3)
        clf = quick(clf, max_epochs=3).fit(X, y)
        np.testing.assert_array_equal(clf.decision_function(X), named.decision_function(X))
        assert clf.threshold_ == named.threshold_
        if isinstance(named, sktopk.RecallAtKClassifier):
            assert clf.score(X[:99], y[:99]) == named.score(X[:99], y[:99])


@pytest.mark.parametrize("errors", ["false_negatives", ALARMS, BOTH], ids=str)
def test_the_method_score_is_the_accuracy_in_the_classes_whose_errors_count(rare, errors):
    X, y, *_ = rare
    clf = quick(sktopk.ThresholdClassifier(KthLargest("all", k=40), errors)).fit(X, y)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    scores = clf.decision_function(X)
    order = np.argsort(-scores)
    t = scores[order[np.searchsorted(np.cumsum(weight[order]), 40)]]
    right = {
        "false_negatives": np.average(scores[y == 1] >= t, weights=weight[y == 1]),
        "false_positives": np.average(scores[y == 0] < t, weights=weight[y == 0]),
    }
    shares = {errors: 1.0} if isinstance(errors, str) else errors
    expected = sum(share * right[kind] for kind, share in shares.items())
    assert clf.score(X, y, weight) == pytest.approx(expected)
    if errors == "false_negatives":
        with pytest.warns(UserWarning, match="y must have positives with a weight"):
            assert np.isnan(clf.score(X[y == 0], y[y == 0]))
        with pytest.warns(UserWarning, match="score is NaN: no sample"):
            assert np.isnan(quick(sktopk.FScoreClassifier()).fit(X, y).score(X, y, 0 * weight))


@some_rankers
def test_data_with_a_single_positive_or_equal_samples_can_be_trained(classifier, rng):
    X, y = rng.standard_normal((300, 3)), np.zeros(300, dtype=int)
    y[17] = 1
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for clf in (quick(classifier), clone(classifier).set_params(n_estimators=2, max_epochs=2)):
            assert np.isfinite(clf.fit(X, y).decision_function(X)).all()
            assert np.isfinite(clf.threshold_)
        constant = quick(classifier).fit(np.zeros((300, 3)), y)
    assert len(set(constant.predict(np.zeros((300, 3))))) == 1


@some_rankers
def test_partial_fit_with_one_class_gives_a_usable_estimator(classifier, rare):
    X, y, *_ = rare
    for label in (0, 1):
        one, clf = np.flatnonzero(y == label)[:50], quick(classifier, batch_size=16)
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            clf.partial_fit(X[one], y[one], classes=[0, 1])
            assert np.isfinite(clf.decision_function(X)).all()
            clf.partial_fit(X, y)
        assert np.isfinite(clf.history_[-1]["train_loss"])
        assert np.isfinite(clf.threshold_)


def test_no_more_negatives_are_flagged_than_allowed(rare):
    X, y = rare[0].round(), rare[1]  # many scores tie
    weight = np.random.default_rng(1).integers(0, 3, len(y))
    for fpr in (0.0004, 6 / 559, 0.3):  # 6 / 559 * 559 is below 6
        clf = quick(sktopk.RecallAtFPRClassifier(fpr), max_epochs=2).fit(X, y, sample_weight=weight)
        scores, flagged = clf.decision_function(X), clf.predict(X) == 1
        negatives = (y == 0) * weight
        assert negatives[flagged].sum() <= math.floor(fpr * negatives.sum() + 1e-9)
        below = (scores <= 0) & (negatives > 0)
        assert negatives[scores >= scores[below].max()].sum() > fpr * negatives.sum() + 1e-9


OF_LOSSES = [
    (sktopk.TopPushKClassifier, "k", 2, 6),
    (sktopk.RecallAtKClassifier, "k", 10, 0.2),
    (sktopk.PatMatClassifier, "tau", 0.05, 0.2),
    (sktopk.PatMatNPClassifier, "tau", 0.05, 0.2),
    (sktopk.RecallAtFPRClassifier, "fpr", 0.05, 0.2),
    (sktopk.PrecisionAtRecallClassifier, "recall", 0.5, 0.9),
    (sktopk.RecallAtPrecisionClassifier, "precision", 0.5, 0.9),
    (sktopk.FScoreClassifier, "beta", 0.5, 2.0),
]


@pytest.mark.parametrize(("cls", "param", "value", "of_loss"), OF_LOSSES)
def test_a_parameter_set_only_for_the_loss_changes_no_metric(cls, param, value, of_loss, rare):
    X, y = rare[0][:300], rare[1][:300]
    clf = cls(**{param: value}, **SMALL).set_params(**{f"loss__{param}": of_loss}).fit(X, y)
    assert clf.get_params()[f"loss__{param}"] == of_loss
    trained = cls(**{param: of_loss}, **SMALL).fit(X, y)
    check_same(*({**each.net_.module_.state_dict()} for each in (clf, trained)))
    # The scores depend on `of_loss`; the metric and the threshold depend on `value`.
    scores = clf.decision_function(X) + clf.threshold_
    np.testing.assert_allclose(scores, trained.decision_function(X) + trained.threshold_, atol=1e-6)
    plain = clone(trained).set_params(**{param: value}, log_loss_share=1.0).fit(X, y)
    as_metric = clone(clf).set_params(log_loss_share=1.0).fit(X, y)
    assert as_metric.threshold_ == plain.threshold_
    assert as_metric.score(X, y) == plain.score(X, y)
    assert clf.threshold_ != trained.threshold_


def test_a_search_over_fpr_compares_one_metric_if_a_scorer_is_given():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], np.where(y[:300] == 8, "fraud", "ok")
    clf = sktopk.RecallAtFPRClassifier(pos_label="fraud", hidden_layer_sizes=(16,), **SMALL)
    grid, folds = {"fpr": [0.01, 0.05, 0.3]}, StratifiedKFold(2)
    scorer = metrics.make_top_scorer("true_positive_rate_at_fpr", fpr=0.05, pos_label="fraud")
    found = GridSearchCV(clf, grid, scoring=scorer, cv=folds, refit=False).fit(X, y).cv_results_
    for fpr, score in zip(grid["fpr"], found["mean_test_score"], strict=True):
        expected = []
        for train, test in folds.split(X, y):
            # "fraud" is the first label, but decision_function scores the second label.
            scores = -clf.set_params(fpr=fpr).fit(X[train], y[train]).decision_function(X[test])
            expected.append(tpr_at_fpr(y[test] == "fraud", scores, fpr=0.05))
        assert score == pytest.approx(np.mean(expected))
    # Without a scorer, each candidate has its own metric, and the easiest metric wins.
    own = GridSearchCV(clf, grid, cv=folds, refit=False).fit(X, y)
    assert own.best_params_ == {"fpr": 0.3}
    assert np.ptp(found["mean_test_score"]) < np.ptp(own.cv_results_["mean_test_score"]) / 2
