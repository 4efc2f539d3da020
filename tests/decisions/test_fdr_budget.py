"""Does BudgetClassifier select from batches with any classifier, container and ratio?"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sktopk import BudgetClassifier
from sktopk._estimators.decisions._selection import CalibrationRows
from sktopk.metrics import recall_at_precision_score
from tests.scored import Column, column, frozen, labels

ANY = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), LinearSVC()),
    HistGradientBoostingClassifier(max_iter=10, random_state=0),
    RandomForestClassifier(10, random_state=0),
]


def fdr(estimator, **params):
    return BudgetClassifier(estimator, constraint="fdr", **{"budget": 0.2} | params)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(1600, weights=[0.8], random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


@pytest.fixture
def scored(rng):
    """Scores and labels of 300 rows to calibrate with, and scores of 100 new ones."""
    positive = rng.random(400) < 0.3
    scores = (rng.normal(size=400) + 2 * positive).round(1)
    return scores[:300], positive[:300], scores[300:]


@pytest.mark.parametrize("inner", ANY, ids=lambda inner: type(inner).__name__)
def test_any_classifier_selects_its_best_rows(inner, data):
    X, y, X_new, y_new = data
    clf = fdr(inner, random_state=0).fit(X, y)
    flagged = clf.predict(X_new) == 1
    assert 20 < flagged.sum() < 200
    assert np.mean(y_new[flagged] == 0) < 0.35
    scores = clf.decision_function(X_new)
    assert scores[flagged].min() > scores[~flagged].max()
    top = clf.predict_top(X_new)
    assert sorted(top) == np.flatnonzero(flagged).tolist()
    assert (np.diff(scores[top]) <= 0).all()
    # So many rows may be asked for as ever.
    np.testing.assert_array_equal(clf.predict_top(X_new, len(top)), top)
    assert not hasattr(clf, "threshold_")


def test_score_is_the_recall_within_the_budget(data):
    X, y, X_new, y_new = data
    clf = fdr(LogisticRegression(), budget=0.3, random_state=0).fit(X, y)
    scores = clf.decision_function(X_new)
    assert clf.score(X_new, y_new) == recall_at_precision_score(y_new, scores, precision=0.7)
    assert 0.2 < clf.score(X_new, y_new) < 1


def test_held_out_rows_calibrate(data):
    X, y, X_new, _ = data
    clf = fdr(Column(), validation_fraction=0.25, random_state=0).fit(X, y)
    assert len(clf.estimator_.fit_X_) == 750
    held_out = ~np.isin(X[:, 0], clf.estimator_.fit_X_[:, 0])
    expected = CalibrationRows(X[held_out, 0], y[held_out] == 1).select(X_new[:, 0], 0.2)
    np.testing.assert_array_equal(clf.predict(X_new) == 1, expected)


def test_share_of_false_rows_holds_with_rows_held_out_of_fit():
    rng, false = np.random.default_rng(0), []
    for seed in range(500):
        positive = rng.random(500) < 0.25
        X = column(rng.normal(size=500) + 2 * positive)
        clf = fdr(Column(), validation_fraction=0.5, random_state=seed).fit(X[:400], positive[:400])
        flagged = clf.predict(X[400:])
        false.append(np.count_nonzero(flagged & ~positive[400:]) / max(1, flagged.sum()))
    assert np.mean(false) <= 0.2 + 4 * np.std(false) / 500**0.5
    assert np.mean(false) >= 0.8 * 0.2


@pytest.mark.parametrize("per", ["fit", "batch"])
def test_frozen_classifier_is_calibrated_with_all_rows(per, scored):
    old, positive, new = scored
    clf = fdr(frozen(), per=per).fit(column(old), labels(positive))
    expected = CalibrationRows(old, positive).select(new, 0.2)
    assert 5 < expected.sum() < 50
    np.testing.assert_array_equal(clf.predict(column(new)) == "yes", expected)


def test_groups_are_batches_of_their_own(scored, rng):
    old, positive, new = scored
    groups = rng.choice(["Mon", "Tue"], size=100)
    clf = fdr(frozen(), per="group").fit(column(old), labels(positive))
    predicted = clf.predict(column(new), groups=groups)
    for name in ("Mon", "Tue"):
        alone = CalibrationRows(old, positive).select(new[groups == name], 0.2)
        np.testing.assert_array_equal(predicted[groups == name] == "yes", alone)
    top = clf.predict_top(column(new), groups=pd.Series(groups))
    assert sorted(top) == np.flatnonzero(predicted == "yes").tolist()
    with pytest.raises(ValueError, match=r'groups must be passed with per="group"'):
        clf.predict(column(new))
    with pytest.raises(ValueError, match=r"got per='fit' and groups"):
        fdr(frozen()).fit(column(old), labels(positive)).predict(column(new), groups=groups)


def test_ties_are_ranked_by_content_in_any_order_and_container(rng):
    positive = rng.random(500) < 0.3
    X = np.column_stack([(rng.normal(size=500) + 2 * positive).round(), rng.random(500)])
    clf = fdr(frozen(), randomized=True, random_state=0)
    careful = fdr(frozen()).fit(X[:300], labels(positive[:300])).predict(X[300:])
    whole = clf.fit(X[:300], labels(positive[:300])).predict(X[300:])
    # Of the rows that tie at the cut a part is flagged.
    cut = X[300:, 0][whole == "yes"].min()
    assert len(set(whole[X[300:, 0] == cut])) == 2
    assert np.sum(whole == "yes") > np.sum(careful == "yes")
    order = rng.permutation(200)
    np.testing.assert_array_equal(clf.predict(X[300:][order]), whole[order])
    np.testing.assert_array_equal(clf.predict(pd.DataFrame(X[300:])), whole)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict(X[300:]), whole)
    again = clone(clf).fit(X[:300], labels(positive[:300])).predict(X[300:])
    np.testing.assert_array_equal(again, whole)
    other = clone(clf).set_params(random_state=1).fit(X[:300], labels(positive[:300]))
    assert (other.predict(X[300:]) != whole).any()


def ratio(X):
    return np.exp(np.asarray(X)[:, 1])


@pytest.fixture
def shifted(rng):
    """Rows whose second column moves, labels of the first 400, and 150 new rows."""
    X = rng.normal(size=(550, 2))
    X[400:, 1] += 1
    y = labels(rng.random(400) < 1 / (1 + np.exp(X[:400, 1] - 3 * X[:400, 0])))
    return X[:400], y, X[400:]


def test_ratio_comes_as_an_array_a_function_or_a_classifier(shifted):
    X, y, X_new = shifted
    given = fdr(frozen(), random_state=0).fit(X, y, likelihood_ratio=ratio(X))
    expected = given.predict(X_new, likelihood_ratio=ratio(X_new))
    assert 5 < np.sum(expected == "yes") < 75
    plain = fdr(frozen()).fit(X, y).predict(X_new)
    assert np.sum(plain == "yes") > np.sum(expected == "yes")
    top = given.predict_top(X_new, likelihood_ratio=ratio(X_new).tolist())
    assert sorted(top) == np.flatnonzero(expected == "yes").tolist()
    function = fdr(frozen(), likelihood_ratio=ratio, random_state=0).fit(X, y)
    np.testing.assert_array_equal(function.predict(X_new), expected)
    rows = np.concatenate([X, X_new])
    odds = LogisticRegression(C=np.inf).fit(rows, np.arange(550) >= 400)
    # The odds are those of the ratio, but for a factor and how well the slope is known.
    odds.coef_[:], odds.intercept_[:] = [[0, 1]], 3.0
    fitted = fdr(frozen(), likelihood_ratio=FrozenEstimator(odds), random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X_new), expected)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, csr_array, lambda X: X.tolist()])
def test_classifier_learns_the_ratio_from_rows_that_do_not_calibrate(make, shifted):
    X, y, X_new = shifted
    learner = LogisticRegression()
    clf = fdr(Column() if make is np.asarray else GaussianNB(), likelihood_ratio=learner)
    if make is csr_array:
        clf.set_params(estimator=LogisticRegression())
    clf.set_params(random_state=0).fit(make(X), y, X_new=make(X_new))
    trained = clf.likelihood_ratio_
    assert not hasattr(learner, "coef_")
    assert trained.coef_[0, 1] == pytest.approx(1, abs=0.4)
    if make is np.asarray:
        rows = np.concatenate([clf.estimator_.fit_X_, X_new])
        expected = LogisticRegression().fit(rows, np.arange(len(rows)) >= 320)
        np.testing.assert_allclose(trained.coef_, expected.coef_)
    assert 0 < np.sum(clf.predict(make(X_new)) == "yes") < 150


def test_ratio_is_routed_with_its_rows(shifted):
    X, y, X_new = shifted
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), fdr(Column(), random_state=0))
        pipe.fit(X, y, likelihood_ratio=ratio(X))
        routed = pipe.predict(X_new, likelihood_ratio=ratio(X_new))
    scaler = StandardScaler().fit(X)
    bare = fdr(Column(), random_state=0)
    bare.fit(scaler.transform(X), y, likelihood_ratio=ratio(X))
    expected = bare.predict(scaler.transform(X_new), likelihood_ratio=ratio(X_new))
    np.testing.assert_array_equal(routed, expected)
    assert len(set(expected)) == 2


def test_what_is_not_asked_for_is_refused_before_the_training(shifted):
    X, y, X_new = shifted

    class Untrained(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError("trained")

    for given in ({"likelihood_ratio": ratio(X)}, {"X_new": X_new}):
        with pytest.raises(ValueError, match='is for constraint="fdr" only'):
            BudgetClassifier(Untrained()).fit(X, y, **given)
    with pytest.raises(ValueError, match="X_new must be passed"):
        fdr(Untrained(), likelihood_ratio=LogisticRegression()).fit(X, y)


def test_wrong_ratios_are_refused(shifted):
    X, y, X_new = shifted
    w = ratio(X)
    with pytest.raises(TypeError, match=r"likelihood_ratio must be None, a function .* got 3"):
        fdr(frozen(), likelihood_ratio=3).fit(X, y)
    with pytest.raises(TypeError, match=r"got <class .*LogisticRegression"):
        fdr(frozen(), likelihood_ratio=LogisticRegression).fit(X, y)
    with pytest.raises(TypeError, match=r"randomized must be True or False; got 1"):
        fdr(frozen(), randomized=1).fit(X, y)
    with pytest.raises(ValueError, match=r"X_new must be passed .* and no X_new"):
        fdr(frozen(), likelihood_ratio=LogisticRegression()).fit(X, y)
    for source in (None, ratio, FrozenEstimator(LogisticRegression())):
        with pytest.raises(ValueError, match=r"X_new must be passed .* and X_new"):
            fdr(frozen(), likelihood_ratio=source).fit(X, y, X_new=X_new)
    for name, value in (("likelihood_ratio", w), ("X_new", X_new)):
        with pytest.raises(ValueError, match=f'{name} is for constraint="fdr" only; got .count'):
            BudgetClassifier(frozen()).fit(X, y, **{name: value})
    for bad, says in [
        (w[:-1], r"400 numbers"),
        (-w, "nonnegative; got -"),
        (0 * w, "all are zero"),
    ]:
        with pytest.raises(ValueError, match=rf"^likelihood_ratio must be .*{says}"):
            fdr(frozen()).fit(X, y, likelihood_ratio=bad)
    with pytest.raises(ValueError, match=r"must be passed as an array or be a parameter; got both"):
        fdr(frozen(), likelihood_ratio=ratio).fit(X, y, likelihood_ratio=w)
    with pytest.raises(ValueError, match=r"150 numbers, one per row of X; got .*149"):
        fdr(frozen()).fit(X, y, likelihood_ratio=w).predict(X_new, likelihood_ratio=w[:149])
    with pytest.raises(ValueError, match=r"to fit and predict, or to neither; got one in fit only"):
        fdr(frozen()).fit(X, y, likelihood_ratio=w).predict(X_new)
    with pytest.raises(ValueError, match=r"to neither; got one in predict only"):
        fdr(frozen()).fit(X, y).predict(X_new, likelihood_ratio=w[:150])
    for call in (BudgetClassifier.predict, BudgetClassifier.predict_top):
        with pytest.raises(ValueError, match=r'is for constraint="fdr" without n; got .count'):
            call(BudgetClassifier(frozen()).fit(X, y), X_new, likelihood_ratio=w[:150])
    three = FrozenEstimator(GaussianNB().fit(X, np.arange(400) % 3))
    with pytest.raises(ValueError, match=r"a classifier of two classes.*shape \(400, 3\)"):
        fdr(frozen(), likelihood_ratio=three).fit(X, y)


def test_too_few_rows_to_flag_any_are_reported(rng):
    X, y = column(rng.normal(size=8)), labels(np.arange(8) > 3)
    message = r"fdr <= 0\.1 needs at least 9 calibration rows; there are 8\. No row will be flagged"
    with pytest.warns(UserWarning, match=message):
        clf = fdr(frozen(), budget=0.1).fit(X, y)
    assert (clf.predict(X + 100) == "no").all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fdr(frozen(), budget=0.12).fit(X, y)


def test_rows_of_training_are_reported():
    X = np.arange(400.0)[:, None]
    fitted = FrozenEstimator(LogisticRegression().fit(X, X[:, 0] > 200))
    with pytest.warns(UserWarning, match=r"^estimator .* 400 calibration rows: .* trained on"):
        fdr(fitted).fit(X, X[:, 0] > 200)


def test_streams_are_no_batches(scored):
    old, positive, new = scored
    clf = fdr(frozen()).fit(column(old), labels(positive))
    for call in (clf.predict, clf.predict_top, lambda X: clf.hits_interval(X, 3)):
        with pytest.raises(TypeError, match="X must be a table; got a stream"):
            call(iter([column(new)]))
    assert len(clf.predict_top(iter([column(new)]), 3)) == 3


@pytest.mark.parametrize(
    "params",
    [
        {"budget": 0.1},
        {"budget": 5, "per": "batch"},
        {"budget": 0.2, "constraint": "fdr"},
        {"budget": 0.1, "constraint": "fpr"},
    ],
)
def test_hits_are_bounded_whatever_the_budget(params, scored):
    old, positive, new = scored
    clf = BudgetClassifier(frozen(), delta=0.2, random_state=0, **params)
    clf.fit(column(old), labels(positive))
    low, high = clf.hits_interval(column(new), 30)
    assert 0 < low < high < 30
    assert (low, high) == clf.hits_interval(pd.DataFrame(column(new)), 30)
    # The rows that are counted are those of predict_top, the ones that tie at the cut drawn.
    random = np.random.default_rng(clf._seed)
    assert (low, high) == CalibrationRows(old, positive).hits_interval(new, 30, 0.2, random)
    lows, highs = clf.hits_interval(column(new), [10, 30])
    assert lows[1] <= low < high <= highs[1]
    assert lows[0] <= lows[1]


def test_hits_need_calibration_rows_like_the_new_ones(scored, shifted):
    old, positive, new = scored
    clf = BudgetClassifier(Column(), budget=5, per="batch").fit(column(old), labels(positive))
    with pytest.raises(ValueError, match=r"hits_interval needs .* fit kept none to calibrate"):
        clf.hits_interval(column(new), 5)
    X, y, X_new = shifted
    clf = fdr(frozen(), likelihood_ratio=ratio).fit(X, y)
    with pytest.raises(ValueError, match=r"hits_interval needs .* weights them by a likelihood"):
        clf.hits_interval(X_new, 5)
    clf = fdr(frozen()).fit(X, y)
    for bad, error in [(0, ValueError), (2.5, TypeError), ([3, 0], ValueError), ([], TypeError)]:
        with pytest.raises(error, match="n must be"):
            clf.hits_interval(X_new, bad)
    for n in (6, [2, 6]):
        with pytest.raises(ValueError, match=r"n=6 must be at most the number of rows of X \(5\)"):
            clf.hits_interval(X_new[:5], n)
    with pytest.raises(TypeError, match=r"^BudgetClassifier\.hits_interval\(\) got an unexpected"):
        clf.hits_interval(X_new, 5, groups=None)
