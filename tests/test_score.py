"""score: what an estimator is there for, which a search without scoring chooses by."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sktopk
from sktopk import (
    BudgetClassifier,
    PatMatClassifier,
    SetClassifier,
    TopBoostClassifier,
    TopKClassifier,
    TopVotingClassifier,
)
from sktopk.metrics import make_topk_scorer
from sktopk.modules import MLP

QUICK = {"hidden_layer_sizes": (), "max_epochs": 15, "learning_rate": 0.03, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore:The training loss still fell")


def found_among(labels, y):
    """Share of the rows whose label is among those of the row, as a loop."""
    return sum(truth in row for truth, row in zip(y, labels, strict=True)) / len(y)


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X[:, 18:22] / 16  # too little to be right at once
    return X[:600], np.array(list("abcdefghij"))[y[:600]]


@pytest.mark.parametrize("k", [1, 3, {1: 0.5, 4: 0.5}])
def test_score_is_the_top_k_accuracy_at_k(k, digits):
    X, y = digits
    clf = TopKClassifier(k=k, **QUICK).fit(X[:400], y[:400])
    expected = found_among(clf.predict_topk(X[400:]), y[400:])
    assert clf.score(X[400:], y[400:]) == expected
    weight = np.arange(200) % 3
    doubled = np.repeat(np.arange(400, 600), weight)
    assert clf.score(X[400:], y[400:], weight) == pytest.approx(clf.score(X[doubled], y[doubled]))


def test_score_of_a_clipped_k_and_of_two_classes(digits):
    X, y = digits
    three = TopKClassifier(**QUICK).fit(X[y < "d"], y[y < "d"])
    two = TopKClassifier(**QUICK).fit(X[y < "c"], y[y < "c"])
    assert three.score(X[y < "d"], y[y < "d"]) == found_among(
        three.predict_topk(X[y < "d"]), y[y < "d"]
    )
    some = y < "c"
    assert two.score(X[some], y[some]) == accuracy_score(y[some], two.predict(X[some]))
    # A label that it never saw cannot be among those it gives.
    assert three.score(X, y) == pytest.approx(
        three.score(X[y < "d"], y[y < "d"]) * (y < "d").mean()
    )


@pytest.mark.parametrize(
    "classifier",
    [
        TopKClassifier(k=2, hidden_layer_sizes=(), max_epochs=2),
        TopVotingClassifier(TopKClassifier(k=2, hidden_layer_sizes=(), max_epochs=2), []),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_labels_may_be_a_column_wherever_they_may_be_in_fit(classifier, digits):
    X, y = digits
    column = pd.DataFrame({"digit": y})
    clf = classifier.set_params(random_state=0).fit(X, column)
    assert clf.score(X, column) == clf.score(X, y)
    assert make_topk_scorer(2)(clf, X, column) == make_topk_scorer(2)(clf, X, y)
    ranker = PatMatClassifier(module=MLP, tau=0.1, max_epochs=2, random_state=0)
    ranker.fit(X, column == "d")
    assert ranker.score(X, column == "d") == ranker.score(X, y == "d")


def test_a_default_k_beyond_the_classes_is_clipped_without_a_word(digits):
    X, y = digits
    few = y < "d"
    with warnings.catch_warnings(action="error", category=UserWarning):
        assert TopKClassifier(hidden_layer_sizes=(), max_epochs=5).fit(X[few], y[few]).k_ == 2
    with pytest.warns(UserWarning, match=r"k=4 must be smaller .* \(3\): k_=2 is used"):
        TopKClassifier(k=4, hidden_layer_sizes=(), max_epochs=5).fit(X[few], y[few])


@pytest.mark.parametrize("freeze", [False, True])
def test_a_budget_of_no_classifier_says_so(freeze, digits):
    X, y = digits
    regression = LinearRegression().fit(X, y == "d") if freeze else LinearRegression()
    with pytest.raises(TypeError, match="estimator must be a classifier with classes_ and"):
        BudgetClassifier(FrozenEstimator(regression) if freeze else regression).fit(X, y == "d")


def test_a_search_without_scoring_chooses_by_the_first_k(digits):
    X, y = digits
    losses = ["cross_entropy", "smooth_topk"]
    params = QUICK | {"k": 3, "max_epochs": 40}
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(TopKClassifier(**params), {"loss": losses}, cv=cv).fit(X, y)
    by_first, by_three = {}, {}
    for loss in losses:
        first, three = [], []
        for train, test in cv.split(X, y):
            clf = TopKClassifier(loss, **params).fit(X[train], y[train])
            first.append(np.mean(clf.predict(X[test]) == y[test]))
            three.append(found_among(clf.predict_topk(X[test]), y[test]))
        by_first[loss], by_three[loss] = np.mean(first), np.mean(three)
    # Which loss is the best depends on what is asked.
    assert max(by_first, key=by_first.get) == "cross_entropy"
    assert max(by_three, key=by_three.get) == "smooth_topk"
    assert search.best_params_ == {"loss": "smooth_topk"}
    assert search.best_score_ == pytest.approx(by_three["smooth_topk"])


@pytest.fixture(scope="module")
def rare():
    X, y = make_classification(1500, weights=[0.85], class_sep=0.7, random_state=1)
    return X, np.where(y == 1, "fraud", "all right")


def every_cut(y_score, positive):
    """False positive rate, precision and recall of every set of highest scores."""
    for threshold in np.unique(y_score):
        above = y_score >= threshold
        yield above[~positive].mean(), positive[above].mean(), above[positive].mean()


@pytest.mark.filterwarnings("ignore:precision >= 0.6 with probability")
@pytest.mark.parametrize("constraint", ["fpr", "precision", "recall"])
def test_budget_scores_what_its_constraint_leaves(constraint, rare):
    X, y = rare
    y = np.where(y == "fraud", 1, 0)
    budget = {"fpr": 0.05, "precision": 0.6, "recall": 0.5}[constraint]
    clf = BudgetClassifier(
        LogisticRegression(), budget=budget, constraint=constraint, random_state=0
    ).fit(X[:900], y[:900])
    y_score = clf.estimator_.decision_function(X[900:])
    cuts = list(every_cut(y_score, y[900:] == 1))
    expected = {
        "fpr": max(recall for fpr, _, recall in cuts if fpr <= budget),
        "precision": max(recall for _, precision, recall in cuts if precision >= budget),
        "recall": next(p for _, p, recall in reversed(cuts) if recall >= budget),
    }[constraint]
    assert clf.score(X[900:], y[900:]) == pytest.approx(expected)
    assert clf.score(X[900:], y[900:]) != accuracy_score(y[900:], clf.predict(X[900:]))
    # It ranks the rows, wherever the threshold came to lie.
    clf.threshold_ = np.inf
    assert clf.score(X[900:], y[900:]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("params", "n_flagged"),
    [
        ({"budget": 0.1}, 60),
        ({"budget": 90, "per": "fit"}, 60),  # of the 900 rows of fit, so a tenth
        ({"budget": 90, "per": "batch"}, 90),
        ({"budget": 0.1, "per": "batch"}, 60),
        ({"budget": 2000, "per": "batch"}, 600),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*k=2000 exceeds")
def test_budget_of_a_number_scores_the_share_of_positives_found(params, n_flagged, rare):
    X, y = rare
    positive = y == "fraud"
    clf = BudgetClassifier(LogisticRegression(), random_state=0, **params)
    clf.fit(X[:900], positive[:900])
    best = np.argsort(-clf.estimator_.decision_function(X[900:]))[:n_flagged]
    expected = positive[900:][best].sum() / positive[900:].sum()
    assert clf.score(X[900:], positive[900:]) == pytest.approx(expected)


def test_budget_of_each_group_scores_with_groups(rare):
    X, y = rare
    positive, day = y == "fraud", np.arange(1500) // 100
    clf = BudgetClassifier(LogisticRegression(), budget=7, per="group").fit(X[:900], positive[:900])
    new = slice(900, 1500)
    flagged = clf.predict(X[new], groups=day[new])
    expected = flagged[positive[new]].mean()
    assert clf.score(X[new], positive[new], groups=day[new]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="groups"):
        clf.score(X[new], positive[new])


def test_a_search_over_budgets_prefers_what_ranks_better(rare):
    X, y = rare
    # The first column alone; by accuracy the two hardly differ, since few rows are flagged.
    steps = [FunctionTransformer(lambda X: X[:, :1]), FunctionTransformer()]
    pipe = make_pipeline(FunctionTransformer(), LogisticRegression())
    clf = BudgetClassifier(pipe, budget=0.1, random_state=0)
    grid = {"estimator__functiontransformer": steps}
    search = GridSearchCV(clf, grid, cv=3, error_score="raise").fit(X, y == "fraud")
    assert search.best_params_ == {"estimator__functiontransformer": steps[1]}
    assert search.best_score_ > 0.2


def test_sets_score_the_first_label(digits):
    X, y = digits
    inner = FrozenEstimator(LogisticRegression().fit(X[:300], y[:300]))
    clf = SetClassifier(inner, coverage=0.9).fit(X[300:500], y[300:500])
    assert clf.score(X[500:], y[500:]) == accuracy_score(y[500:], inner.predict(X[500:]))
    assert "make_set_scorer" in SetClassifier.score.__doc__


SMALL = {"module": MLP, "hidden_layer_sizes": (3,), "max_epochs": 1, "random_state": 0}
EVERY = {
    name: getattr(sktopk, name)(**SMALL)
    for name in sktopk.__all__
    if hasattr(getattr(sktopk, name), "partial_fit")
}
EVERY |= {
    "TopBoostClassifier": TopBoostClassifier(n_estimators=2, n_members=1),
    "TopVotingClassifier": TopVotingClassifier(TopKClassifier(k=1, **SMALL), n_folds=2),
    "BudgetClassifier": BudgetClassifier(LogisticRegression(), budget=9),
    "SetClassifier": SetClassifier(LogisticRegression()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_labels_to_score_may_be_a_column_of_any_kind(name):
    X, y = make_classification(200, 4, n_informative=3, n_redundant=0, weights=[0.7])
    clf = EVERY[name].fit(X, y)
    column = pd.Series(y, index=np.arange(200) + 7)
    expected = clf.score(X, y)
    for given in (column, column.astype("Int64"), y.tolist(), column.to_frame(), y == 1):
        assert clf.score(X, given) == expected
