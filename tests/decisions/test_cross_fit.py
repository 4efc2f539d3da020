"""Decisions that calibrate with rows that parts of their classifier have not seen."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import sktopk.io
from sktopk import (
    BudgetClassifier,
    PatMatClassifier,
    SetClassifier,
    TopKClassifier,
    TopVotingClassifier,
    make_pipeline,
)
from sktopk._estimators.decisions._any_classifier import (
    out_of_fold_proba,
    out_of_fold_scores,
    predict_class_proba,
)

SMALL = {"n_members": 3, "max_epochs": 2, "hidden_layer_sizes": (8,), "random_state": 0}
# Two epochs are enough for a promise, and no sign of anything else.
pytestmark = pytest.mark.filterwarnings("ignore:max_epochs=2 ended the training")


class MeanMembers(ClassifierMixin, BaseEstimator):
    """Four nearest-mean classifiers of two classes, each without a fourth of the rows."""

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
def test_rates_are_kept_in_simulations(constraint, budget):
    rng, delta, n_draws = np.random.default_rng(0), 0.1, 300
    X_new, y_new = overlapping(5000, rng, n_columns=20)
    kept = 0
    for _ in range(n_draws):
        desk = BudgetClassifier(
            MeanMembers(), constraint=constraint, budget=budget, delta=delta, cross_fit=True
        )
        flagged = desk.fit(*overlapping(120, rng, n_columns=20)).predict(X_new) == 1
        of = 0 if constraint == "fpr" else 1
        rate = flagged[y_new == of].mean()
        kept += rate <= budget if of == 0 else rate >= budget
    slack = 3 * (delta * (1 - delta) / n_draws) ** 0.5
    assert kept / n_draws >= 1 - delta - slack


def test_sets_cover_in_simulations():
    rng, covered = np.random.default_rng(0), []
    X_new, y_new = overlapping(5000, rng)
    for _ in range(200):
        clf = SetClassifier(MeanMembers(), method="lac", coverage=0.8, cross_fit=True)
        y_set = clf.fit(*overlapping(60, rng)).predict_set(X_new).toarray()
        covered.append(y_set[np.arange(len(y_new)), y_new].mean())
    assert np.mean(covered) >= 0.8 - 3 * np.std(covered) / len(covered) ** 0.5
    assert np.mean(covered) < 0.85


def test_all_rows_train_and_those_left_out_set_the_threshold():
    X, y = overlapping(90, np.random.default_rng(0))
    desk = BudgetClassifier(PatMatClassifier(tau=0.1, **SMALL), budget=0.2, cross_fit=True)
    desk.fit(X, y)
    alone = PatMatClassifier(tau=0.1, **SMALL).fit(X, y)
    assert np.array_equal(alone.decision_function(X), desk.estimator_.decision_function(X))
    flagged = alone.oob_decision_function_ > desk.threshold_
    assert desk.rates_["flagged"][:2] == (flagged.sum(), 90)
    assert flagged.sum() == 18


@pytest.mark.parametrize(
    ("classifier", "step"),
    [
        (PatMatClassifier(tau=0.1, **SMALL), ""),
        (TopVotingClassifier(PatMatClassifier(tau=0.1, **SMALL), n_folds=2, random_state=0), ""),
        (
            make_pipeline(StandardScaler(), PatMatClassifier(tau=0.1, **SMALL)),
            "patmatclassifier__",
        ),
    ],
    ids=["network", "vote", "pipeline"],
)
def test_rows_of_weight_zero_do_not_calibrate(classifier, step):
    X, y = overlapping(90, np.random.default_rng(0))
    weight = (np.arange(90) % 3 > 0).astype(float)
    desk = BudgetClassifier(classifier, budget=0.2, cross_fit=True)
    desk.fit(X, y, **{f"{step}sample_weight": weight})
    y_score = out_of_fold_scores(desk.estimator_)
    assert np.array_equal(np.isfinite(y_score), weight > 0)
    assert desk.rates_["flagged"][:2] == ((y_score > desk.threshold_).sum(), 60)


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
def test_rows_that_no_tree_left_out_do_not_calibrate():
    X, y = overlapping(200, np.random.default_rng(0), 3)
    forest = RandomForestClassifier(5, oob_score=True, random_state=0)
    sets = SetClassifier(forest, method="aps", cross_fit=True).fit(X, y)
    left_out = sets.estimator_.oob_decision_function_.any(axis=1)
    assert 0 < left_out.sum() < 200
    assert sets.n_calibration_ == left_out.sum()


def test_rows_of_a_log_are_thinned_with_their_scores():
    rng = np.random.default_rng(0)
    X, y = overlapping(400, rng)
    chance = np.where(X[:, 0] > 0.5, 0.9, 0.3)
    known = rng.uniform(size=400) < chance
    labels, propensity = np.where(known, y, np.nan), np.where(known, chance, np.nan)
    desk = BudgetClassifier(
        PatMatClassifier(tau=0.1, **SMALL), budget=0.2, cross_fit=True, random_state=0
    ).fit(X, labels, propensity=propensity)
    y_score = desk.estimator_.oob_decision_function_
    assert len(y_score) == known.sum()
    # What is left is a sample of all rows: of each .3, and among them the budget's share.
    above, n_rows, *_ = desk.rates_["flagged"]
    assert n_rows == pytest.approx(0.3 * 400, rel=0.2)
    assert above == round(0.2 * n_rows)


def test_first_label_is_the_positive_one():
    X, y = overlapping(90, np.random.default_rng(0))
    names = np.array(["fraud", "ok"])[1 - y]
    params = {"budget": 0.2, "cross_fit": True, "pos_label": "fraud"}
    clf = PatMatClassifier(tau=0.1, pos_label="fraud", **SMALL)
    desk = BudgetClassifier(clf, **params).fit(X, names)
    turned = -desk.estimator_.oob_decision_function_
    assert desk.rates_["flagged"].count == (turned > desk.threshold_).sum() == 18


@pytest.mark.parametrize(
    "classifier",
    [
        TopKClassifier(k=2, **SMALL),
        TopKClassifier("cross_entropy", k=2, calibration=None, **SMALL),
        PatMatClassifier(tau=0.1, calibration="auto", **SMALL),
        PatMatClassifier(tau=0.1, **SMALL),
        TopVotingClassifier(PatMatClassifier(tau=0.1, **SMALL), others=[LogisticRegression()]),
        RandomForestClassifier(20, oob_score=True, random_state=0),
        make_pipeline(StandardScaler(), PatMatClassifier(tau=0.1, **SMALL)),
    ],
)
def test_probabilities_are_made_of_scores_left_out_as_of_new_ones(classifier):
    """Where no member has left a row out, its score would be that of a new row."""
    n_classes = 3 if isinstance(classifier, TopKClassifier) else 2
    X, y = overlapping(90, np.random.default_rng(0), n_classes)
    clf = SetClassifier(classifier, method="lac", cross_fit=True).fit(X, y)
    last = clf.estimator_.steps[-1][1] if hasattr(clf.estimator_, "steps") else clf.estimator_
    scores = clf.estimator_.decision_function(X) if hasattr(last, "decision_function") else None
    if scores is None:
        scores = clf.estimator_.predict_proba(X)
    last.oob_decision_function_ = scores
    proba = out_of_fold_proba(clf.estimator_, out_of_fold_scores(clf.estimator_))
    expected = predict_class_proba(clf.estimator_, X)[1]
    assert proba == pytest.approx(expected, abs=1e-6)
    assert clf.n_calibration_ == 90


def test_file_has_it(tmp_path):
    X, y = overlapping(90, np.random.default_rng(0), 3)
    clf = SetClassifier(TopKClassifier(k=2, **SMALL), method="lac", cross_fit=True).fit(X, y)
    sktopk.io.dump(clf, tmp_path / "sets")
    again = sktopk.io.load(tmp_path / "sets")
    assert again.cross_fit
    assert np.array_equal(again.predict_set(X).toarray(), clf.predict_set(X).toarray())
    desk = BudgetClassifier(PatMatClassifier(tau=0.1, **SMALL), budget=0.2, cross_fit=True)
    sktopk.io.dump(desk.fit(X, y > 0), tmp_path / "desk")
    assert np.array_equal(sktopk.io.load(tmp_path / "desk").predict(X), desk.predict(X))


def test_no_proof_is_watched():
    X, y = overlapping(90, np.random.default_rng(0), 3)
    clf = SetClassifier(TopKClassifier(k=2, **SMALL), method="lac", cross_fit=True).fit(X, y)
    with pytest.raises(ValueError, match="pass reference"):
        clf.monitor()
    assert not clf._promises()
    desk = BudgetClassifier(
        PatMatClassifier(tau=0.1, **SMALL), budget=0.2, constraint="fpr", cross_fit=True
    ).fit(X, y > 0)
    with pytest.raises(ValueError, match="cross_fit=False"):
        desk.monitor()
    with pytest.raises(ValueError, match="cross_fit=False"):
        desk.hits_interval(X, 5)
    assert not desk._promises()


def test_what_has_no_such_rows_is_refused_by_name():
    X, y = overlapping(90, np.random.default_rng(0))

    def refused(decision, message):
        with pytest.raises((ValueError, TypeError), match=message):
            decision.fit(X, y)

    refused(BudgetClassifier(LogisticRegression(), cross_fit=True), "oob_decision_function_")
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    refused(BudgetClassifier(frozen, cross_fit=True), "FrozenEstimator is not trained")
    refused(SetClassifier(MeanMembers(), method="lac", cross_fit="yes"), "cross_fit")
    refused(BudgetClassifier(MeanMembers(), budget=5, cross_fit=True), 'per="fit"')
    fdr = BudgetClassifier(MeanMembers(), constraint="fdr", cross_fit=True)
    refused(fdr, "cross_fit=True finds a fixed threshold")
    bags = BaggingClassifier(LogisticRegression(), 20, oob_score=True, random_state=0)
    refused(BudgetClassifier(bags, cross_fit=True), "of BaggingClassifier are probabilities")
    X, y = overlapping(90, np.random.default_rng(0), 4)
    heads = TopKClassifier(k=2, order="cross_entropy", **SMALL)
    refused(SetClassifier(heads, method="lac", cross_fit=True), "order=None")
