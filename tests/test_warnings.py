"""Warnings have the file and line of the call by the user, also if they arise deep inside."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, SetClassifier, TopKClassifier, make_pipeline, metrics
from sktopk.metrics import make_top_scorer, make_topk_scorer, precision_at_k_score

X = np.random.default_rng(0).normal(size=(60, 2))
Y = (X[:, 0] > 0.5).astype(int)
MODEL = LogisticRegression().fit(X, Y)
QUICK = {"hidden_layer_sizes": (), "n_estimators": 1, "max_epochs": 1}
LINEAR = TopKClassifier(k=1, **QUICK)
LABELS = MODEL.predict(X)
ONE_FOLD = PredefinedSplit(np.where(np.arange(60) < 20, 0, -1))
DISPLAYS = (metrics.BudgetCurveDisplay, metrics.EnrichmentDisplay)


def at_this_file(call, category, says):
    """Call, and check that there is one warning with these words, at the line of the caller."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    said = [each for each in caught if says in str(each.message)]
    assert [(each.category, each.filename) for each in said] == [(category, __file__)]


def test_labels_of_shape_n_samples_by_1_give_a_warning():
    frozen = FrozenEstimator(MODEL)
    says = "A column-vector y was passed when a 1d array was expected: pass y.ravel()"
    for estimator in (LINEAR, SetClassifier(frozen), BudgetClassifier(frozen, budget=0.1)):
        at_this_file(lambda e=estimator: e.fit(X, Y[:, None]), DataConversionWarning, says)


def test_nearly_as_many_labels_as_samples_give_a_warning():
    says = "The number of unique classes (40) is greater than 50% of the number of samples (60)"
    at_this_file(lambda: LINEAR.fit(X, np.arange(60) % 40), UserWarning, says)
    with warnings.catch_warnings(action="error", category=UserWarning):
        LINEAR.fit(X, np.arange(60) % 30)
        LINEAR.fit(X[:20], np.arange(20) % 19)
        clone(LINEAR).partial_fit(X, np.arange(60) % 30, classes=range(40))


@pytest.mark.parametrize("display", DISPLAYS, ids=lambda display: display.__name__)
def test_warnings_of_displays_point_to_the_calling_line(display):
    pytest.importorskip("matplotlib")
    no_positives = np.zeros(60, dtype=int)
    for call in (
        lambda: display.from_predictions(no_positives, X[:, 0]),
        lambda: display.from_estimator(MODEL, X, no_positives),
    ):
        at_this_file(call, UndefinedMetricWarning, "no positives")
    says = "y_score must hold scores; got only the labels 0 and 1"
    at_this_file(lambda: display.from_predictions(Y, LABELS), UserWarning, says)


def test_warnings_of_scorers_and_tables_point_to_the_calling_line():
    with warnings.catch_warnings(action="error"):
        scorer = make_top_scorer("precision_at_k", k=100)
    at_this_file(lambda: scorer(MODEL, X, Y), UserWarning, "k=100 exceeds the size of")
    says = "y_score must hold scores; got only the labels 0 and 1"
    at_this_file(lambda: metrics.budget_table(Y, LABELS, budgets=[5]), UserWarning, says)


def test_warnings_inside_pipelines_and_searches_point_to_the_calling_line():
    clf = TopKClassifier(k=9, **QUICK)
    search = GridSearchCV(clf, {"tau": [1.0]}, cv=ONE_FOLD, refit=False)
    for call in (
        lambda: make_pipeline(StandardScaler(), clf).fit(X, Y),
        lambda: search.fit(X, Y),
        lambda: cross_val_score(clf, X, Y, cv=ONE_FOLD),
    ):
        at_this_file(call, UserWarning, "k=9 must be smaller than n_classes=2: k_=1 is used")


@pytest.mark.parametrize("labels", [("fraud", "ok"), (0, 1), (False, True), (1, 2)], ids=repr)
def test_scores_that_rank_the_positive_label_below_the_other_give_a_warning(labels):
    # The positive label is the first class and has low X; the scores belong to the second class.
    y = np.array(labels)[(X[:, 0] > -0.5).astype(int)]
    clf = LogisticRegression().fit(X, y)
    score, first = clf.decision_function(X), labels[0]
    known = {"pos_label": first}
    says = f"y_score ranks {first!r} below {labels[1]!r} (ROC AUC 0"
    for call in (
        lambda: precision_at_k_score(y, score, k=10, **known),
        lambda: precision_at_k_score(y, clf.predict_proba(X)[:, 1], k=10, **known),
        lambda: metrics.budget_table(y, score, budgets=[10], **known),
        lambda: metrics.BudgetCurveDisplay.from_predictions(y, score, **known),
    ):
        at_this_file(call, UserWarning, says)
    with warnings.catch_warnings(action="error"):
        assert precision_at_k_score(y, -score, k=10, **known) == 1
        assert make_top_scorer("precision_at_k", k=10, **known)(clf, X, y) == 1
        # Reversed scores give no warning if the second label is positive.
        precision_at_k_score(y, -score, k=10, pos_label=labels[1])


def test_random_scores_are_not_reported_as_reversed():
    """An AUC 4 standard errors below 1/2 gives a warning, in 3 of 100 000 random rankings."""
    draws = np.random.default_rng(1)
    y = np.where(draws.random(40) < 0.3, "fraud", "ok")
    with warnings.catch_warnings(action="error"):
        for _ in range(200):
            precision_at_k_score(y, draws.normal(size=40), k=5, pos_label="fraud")
        for constant in (np.zeros(40), np.full(40, -np.inf)):
            precision_at_k_score(y, constant, k=5, pos_label="fraud")


C = {"C": [0.1, 1.0, 9.0]}
OF_SCORES = "covers all 2 classes"
SAID_OFTEN = {
    "scorer of a search": (
        lambda: GridSearchCV(LogisticRegression(), C, scoring=make_topk_scorer(2)).fit(X, Y),
        f"k=2 {OF_SCORES}"),
    "scorer in a loop": (
        lambda: [make_topk_scorer(3)(MODEL, X, Y) for _ in range(3)], f"k=3 {OF_SCORES}"),
    "fits of one-vs-rest": (
        lambda: OneVsRestClassifier(TopKClassifier(k=3, **QUICK)).fit(X, np.arange(60) % 4),
        "k=3 must be smaller than n_classes=2"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID_OFTEN)
def test_a_warning_that_is_repeated_within_one_call_is_shown_once(case):
    call, says = SAID_OFTEN[case]
    with warnings.catch_warnings(record=True, action="default") as caught:
        call()
    assert len([each for each in caught if says in str(each.message)]) == 1


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_warning_that_was_shown_before_can_be_turned_into_an_error():
    for _ in range(2):
        with pytest.raises(UserWarning, match="k=2 covers all 2 classes"):
            make_topk_scorer(2)(MODEL, X, Y)
