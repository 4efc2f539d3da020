"""Decisions that are calibrated with out-of-fold or out-of-bag scores of an ensemble."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, PatMatClassifier, SetClassifier, TopKClassifier, make_pipeline

SMALL = {"n_estimators": 3, "max_epochs": 2, "hidden_layer_sizes": (8,), "random_state": 0}
# Ignore this warning: a guarantee does not depend on the quality of the scores.
pytestmark = pytest.mark.filterwarnings("ignore:max_epochs=2 ended the training")


class MeanMembers(ClassifierMixin, BaseEstimator):
    """Four nearest-mean classifiers of two classes; each holds out a fourth of the samples."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        fold = np.arange(len(y)) % 4
        means = [[X[(fold != m) & (y == c)].mean(axis=0) for c in (0, 1)] for m in range(4)]
        self.direction_ = np.array([second - first for first, second in means])
        self.oob_decision_function_ = (X * self.direction_[fold]).sum(axis=1)
        return self

    def decision_function(self, X):
        return X @ self.direction_.mean(axis=0)

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def overlapping(n, rng, n_classes=2, n_columns=4):
    y = rng.integers(n_classes, size=n)
    X = rng.normal(size=(n, n_columns)).astype(np.float32)
    X[:, 0] += y
    return X, y


@pytest.mark.parametrize(("constraint", "budget"), [("fpr", 0.1), ("recall", 0.8)])
def test_guarantees_of_fpr_and_recall_hold_in_simulations(constraint, budget):
    rng, delta, n_draws = np.random.default_rng(0), 0.1, 200
    X_new, y_new = overlapping(5000, rng, n_columns=20)
    kept = 0
    for _ in range(n_draws):
        options = {"constraint": constraint, "budget": budget, "delta": delta}
        desk = BudgetClassifier(MeanMembers(), cross_fit=True, **options)
        flagged = desk.fit(*overlapping(120, rng, n_columns=20)).predict(X_new) == 1
        of = 0 if constraint == "fpr" else 1
        rate = flagged[y_new == of].mean()
        kept += rate <= budget if of == 0 else rate >= budget
    slack = 3 * (delta * (1 - delta) / n_draws) ** 0.5
    assert kept / n_draws >= 1 - delta - slack


def test_sets_have_the_guaranteed_mean_coverage_in_simulations():
    rng, covered = np.random.default_rng(0), []
    X_new, y_new = overlapping(5000, rng)
    for _ in range(200):
        clf = SetClassifier(MeanMembers(), method="lac", coverage=0.8, cross_fit=True)
        y_set = clf.fit(*overlapping(60, rng)).predict_set(X_new)
        covered.append(y_set[np.arange(len(y_new)), y_new].mean())
    assert np.mean(covered) >= 0.8 - 3 * np.std(covered) / len(covered) ** 0.5
    assert np.mean(covered) < 0.85


def test_all_samples_are_used_for_training_and_out_of_fold_scores_for_the_threshold():
    X, y = overlapping(90, np.random.default_rng(0))
    count = {"budget": 0.2, "constraint": "count", "cross_fit": True}
    desk = BudgetClassifier(PatMatClassifier(tau=0.1, **SMALL), **count).fit(X, y)
    alone = PatMatClassifier(tau=0.1, **SMALL).fit(X, y)
    assert np.array_equal(alone.decision_function(X), desk.estimator_.decision_function(X))
    flagged = alone.oob_decision_function_ > desk.threshold_
    assert desk.rates_["flagged"][:2] == (flagged.sum(), 90)
    assert flagged.sum() == 18


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
def test_samples_without_out_of_bag_scores_are_not_used_for_calibration():
    X, y = overlapping(200, np.random.default_rng(0), 3)
    forest = RandomForestClassifier(5, oob_score=True, random_state=0)
    sets = SetClassifier(forest, method="aps", cross_fit=True).fit(X, y)
    left_out = sets.estimator_.oob_decision_function_.any(axis=1)
    assert 0 < left_out.sum() < 200
    assert sets.n_calibration_ == left_out.sum()


def test_samples_of_weight_zero_are_ignored():
    X, y = overlapping(90, np.random.default_rng(0))
    weight = (np.arange(90) % 3 > 0).astype(float)
    clf = make_pipeline(StandardScaler(), PatMatClassifier(tau=0.1, **SMALL))
    desk = BudgetClassifier(clf, budget=0.2, cross_fit=True).fit(X, y, weight)
    alone = BudgetClassifier(clf, budget=0.2, cross_fit=True).fit(X[weight > 0], y[weight > 0])
    assert desk.threshold_ == alone.threshold_
    assert desk.rates_["flagged"].n == desk.n_samples_fit_ == 60


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["topk", "average_k", "lac", "aps", "raps", "pas"])
@pytest.mark.filterwarnings("ignore:k=2 must be smaller", "ignore:.*is ignored by method")
def test_sets_of_a_network_calibrate_on_its_out_of_fold_scores(method, n_classes):
    X, y = overlapping(120, np.random.default_rng(0), n_classes)
    net = TopKClassifier(k=1, **SMALL)
    sets = SetClassifier(net, method=method, k=1, cross_fit=True, random_state=0).fit(X, y)
    y_set = sets.predict_set(X)
    assert y_set.shape == (120, n_classes)
    if method != "lac":
        return
    both = sets.estimator_.oob_decision_function_, sets.estimator_.decision_function(X)
    both = [np.column_stack([0 * s, s]) if s.ndim == 1 else s for s in both]
    of_oob, proba = (softmax(scores.astype(float), axis=1) for scores in both)
    least = np.sort(of_oob[range(120), y])[120 - 109]  # ceil(121 * .9) = 109
    assert sets.threshold_ == pytest.approx(least)
    np.testing.assert_array_equal(y_set, proba >= sets.threshold_)


def test_classifiers_without_out_of_fold_scores_raise():
    X, y = overlapping(90, np.random.default_rng(0))
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    bags = BaggingClassifier(LogisticRegression(), 20, oob_score=True, random_state=0)
    own_bags = type("OwnBags", (BaggingClassifier,), {})(LogisticRegression(), 20, oob_score=True)
    fit_half = {"fit": lambda self, X, y: MeanMembers.fit(self, X[::2], y[::2])}
    half = type("Half", (MeanMembers,), fit_half)()
    for decision, message in [
        (BudgetClassifier(LogisticRegression(), cross_fit=True), "oob_decision_function_"),
        (BudgetClassifier(frozen, cross_fit=True), "cross_fit must be False for a FrozenEstimator"),
        (BudgetClassifier(MeanMembers(), constraint="fdr", cross_fit=True), "True; got 'fdr'"),
        (BudgetClassifier(bags, cross_fit=True), "oob_decision_function_ of Bagging.* has prob"),
        (BudgetClassifier(own_bags, cross_fit=True), "oob_decision_function_ of OwnBags has prob"),
        (SetClassifier(half, cross_fit=True), "each of the 90 samples; got 45 from Half"),
    ]:
        with pytest.raises(ValueError, match=message):
            decision.fit(X, y)
    for inner in (RandomForestClassifier(5, oob_score=True), PatMatClassifier(tau=0.1, **SMALL)):
        for kind in (BudgetClassifier, SetClassifier):
            with pytest.raises(ValueError, match="cross_fit=True with groups needs"):
                kind(inner, cross_fit=True).fit(X, y, groups=np.arange(90) // 3)
    desk = BudgetClassifier(MeanMembers(), budget=0.2, cross_fit=True).fit(X, y)
    with pytest.raises(ValueError, match="cross_fit=False"):
        desk.hits_interval(X, 5)
