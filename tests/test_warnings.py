"""Do warnings point at the line of the user, however deep inside they arise?"""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning, UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from sklearn.preprocessing import StandardScaler

from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    SetClassifier,
    TopKClassifier,
    make_pipeline,
)
from sktopk.metrics import (
    BudgetCurveDisplay,
    EnrichmentDisplay,
    budget_table,
    make_top_scorer,
    precision_at_k_score,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2))
Y = (X[:, 0] > 0.5).astype(int)
MODEL = LogisticRegression().fit(X, Y)
LINEAR = TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=1)
LABELS = MODEL.predict(X)
ONE_FOLD = PredefinedSplit(np.where(np.arange(60) < 20, 0, -1))
DISPLAYS = (BudgetCurveDisplay, EnrichmentDisplay)


def at_this_file(call, category, says):
    """Call, and check that what it warns of in these words is at the caller's line, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    said = [each for each in caught if says in str(each.message)]
    assert [(each.category, each.filename) for each in said] == [(category, __file__)]


@pytest.mark.parametrize(
    "estimator",
    [LINEAR, SetClassifier(FrozenEstimator(MODEL)), BudgetClassifier(FrozenEstimator(MODEL))],
    ids=lambda estimator: type(estimator).__name__,
)
def test_labels_in_a_column(estimator):
    says = "A column-vector y was passed when a 1d array was expected: pass y.ravel()"
    at_this_file(lambda: estimator.fit(X, Y[:, None]), DataConversionWarning, says)


def test_nearly_as_many_labels_as_rows():
    says = "The number of unique classes (40) is greater than 50% of the number of samples (60)"
    at_this_file(lambda: LINEAR.fit(X, np.arange(60) % 40), UserWarning, says)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        LINEAR.fit(X, np.arange(60) % 30)
        LINEAR.fit(X[:20], np.arange(20) % 19)


@pytest.mark.parametrize("display", DISPLAYS, ids=lambda display: display.__name__)
def test_displays(display):
    pytest.importorskip("matplotlib")
    no_positives = np.zeros(60, dtype=int)
    for call in (
        lambda: display.from_predictions(no_positives, X[:, 0]),
        lambda: display.from_estimator(MODEL, X, no_positives),
    ):
        at_this_file(call, UndefinedMetricWarning, "no positives")
    says = "y_score holds the labels 0 and 1"
    at_this_file(lambda: display.from_predictions(Y, LABELS), UserWarning, says)


def test_scorers_and_tables():
    scorer = make_top_scorer("precision_at_k", k=100)
    at_this_file(lambda: scorer(MODEL, X, Y), UserWarning, "k=100 exceeds the number of rows")
    says = "y_score holds the labels 0 and 1"
    at_this_file(lambda: budget_table(Y, LABELS, budgets=[5]), UserWarning, says)


@pytest.mark.parametrize("around", ["pipeline", "search", "folds"])
def test_what_scikit_learn_calls_for_the_user(around):
    says = "k=9 must be smaller than n_classes=2"
    clf = TopKClassifier(k=9, hidden_layer_sizes=(), max_epochs=1)

    def call():
        if around == "pipeline":
            make_pipeline(StandardScaler(), clf).fit(X, Y)
        elif around == "search":
            search = GridSearchCV(clf, {"tau": [1.0]}, cv=ONE_FOLD, refit=False)
            search.fit(X, Y)
        else:
            cross_val_score(clf, X, Y, cv=ONE_FOLD)

    at_this_file(call, UserWarning, says)


def test_a_column_of_texts():
    texts = np.array(["when is it", "where"] * 30, dtype=object)
    for X_of_texts in (texts, texts[:, None]):
        with pytest.raises(ValueError, match="X must hold numbers; could not convert string"):
            LINEAR.fit(X_of_texts, Y)


def test_a_score_of_labels_in_two_columns_says_so():
    clf = AUCClassifier(hidden_layer_sizes=(), max_epochs=1).fit(X, Y)
    assert clf.score(X, Y[:, None]) == clf.score(X, Y)
    with pytest.raises(ValueError, match=r"y_true must have shape \(n_samples,\); got"):
        clf.score(X, np.c_[Y, Y])


NAMES = [("fraud", "ok"), (0, 1), (False, True), (1, 2)]


@pytest.mark.parametrize("labels", NAMES, ids=repr)
def test_scores_of_the_other_label(labels):
    # Positives are those of low X and the first label; a decision function is of the second.
    y = np.array(labels)[(X[:, 0] > -0.5).astype(int)]
    clf = LogisticRegression().fit(X, y)
    score, first = clf.decision_function(X), labels[0]
    known = {"pos_label": first}
    says = f"y_score ranks {first!r} below {labels[1]!r} (area under the ROC curve 0"
    for call in (
        lambda: precision_at_k_score(y, score, k=10, **known),
        lambda: precision_at_k_score(y, clf.predict_proba(X)[:, 1], k=10, **known),
        lambda: budget_table(y, score, budgets=[10], **known),
        lambda: BudgetCurveDisplay.from_predictions(y, score, **known),
        lambda: BudgetCurveDisplay.from_predictions(y, score, groups=np.arange(60) % 2, **known),
    ):
        at_this_file(call, UserWarning, says)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert precision_at_k_score(y, -score, k=10, **known) == 1
        assert precision_at_k_score(y, clf.predict_proba(X)[:, 0], k=10, **known) == 1
        assert make_top_scorer("precision_at_k", k=10, **known)(clf, X, y) == 1
        # Scores of the second label are as they should be, and bad ones are no scores of another.
        precision_at_k_score(y, score, k=10, pos_label=labels[1])
        precision_at_k_score(y, -score, k=10, pos_label=labels[1])


def test_a_scorer_knows_the_order_of_a_classifier_that_is_wrong():
    y = np.where(X[:, 0] > -0.5, "ok", "fraud")
    clf = LogisticRegression().fit(-X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer = make_top_scorer("precision_at_k", k=10, pos_label="fraud")
        assert scorer(clf, X, y) == 0


def test_scores_that_say_nothing_are_of_no_label():
    """4 standard deviations below a half: of 2 000 draws of no signal .06 are expected."""
    draws = np.random.default_rng(1)
    y = np.where(draws.random(40) < 0.3, "fraud", "ok")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(200):
            precision_at_k_score(y, draws.normal(size=40), k=5, pos_label="fraud")
        for constant in (np.zeros(40), np.full(40, -np.inf)):
            precision_at_k_score(y, constant, k=5, pos_label="fraud")
