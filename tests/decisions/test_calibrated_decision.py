"""What BudgetClassifier and SetClassifier have in common: the classifier inside, and its rows."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from sktopk import BudgetClassifier, SetClassifier

KINDS = [BudgetClassifier, lambda *args, **kwargs: SetClassifier(*args, method="lac", **kwargs)]
FORGET_NOTHING = [RandomForestClassifier(random_state=0), KNeighborsClassifier(1)]
both = pytest.mark.parametrize("make", KINDS, ids=["budget", "sets"])


@pytest.fixture(scope="module")
def data():
    return make_classification(900, flip_y=0.2, random_state=0)


def messages(caught):
    return [str(each.message) for each in caught]


forest = RandomForestClassifier(8, oob_score=True, random_state=0)
SETTINGS = {
    BudgetClassifier: [
        {"constraint": "fpr", "budget": 0.1},
        {"constraint": "fpr", "budget": 0.1, "cross_fit": True},
        {"constraint": "fdr", "budget": 0.3},
        {"constraint": "cost", "budget": 50},
        {"budget": 10, "per": "batch"},
        {"budget": 0.1, "per": "fit"},
    ],
    SetClassifier: [
        {"method": "lac"},
        {"method": "lac", "cross_fit": True},
        {"method": "topk", "k": 1},
        {"method": "lac", "conditional": "class"},
    ],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", SETTINGS)
def test_nothing_of_an_earlier_fit_is_left(kind, data):
    X, y = data
    for first in SETTINGS[kind]:
        for second in SETTINGS[kind]:
            defaults = kind(forest).get_params()
            again = kind(forest, **first).fit(X, y).set_params(**{**defaults, **second})
            again.fit(X[:300, :5], y[:300])
            fresh = kind(forest, **second).fit(X[:300, :5], y[:300])
            assert vars(again).keys() == vars(fresh).keys()


@both
@pytest.mark.parametrize("method", ["predict", "score", "monitor"])
def test_before_fit_it_is_not_fitted(make, method, data):
    clf = make(LogisticRegression())
    with pytest.raises(NotFittedError):
        getattr(clf, method)(*data[: {"predict": 1, "score": 2, "monitor": 0}[method]])


@both
@pytest.mark.parametrize("estimator", [[], None, "logistic", LogisticRegression, {"C": 1}], ids=str)
def test_what_is_no_estimator_is_refused_by_name(make, estimator, data):
    with pytest.raises(TypeError, match=r"estimator must be a classifier .*; got ") as refused:
        make(estimator).fit(*data)
    assert repr(estimator) in str(refused.value)


@both
@pytest.mark.parametrize("inner", FORGET_NOTHING, ids=str)
def test_calibrating_with_the_rows_of_training_is_reported(make, inner, data):
    X, y = data
    fitted = FrozenEstimator(clone(inner).fit(X[:400], y[:400]))
    with pytest.warns(UserWarning, match=r"^estimator .* 400 calibration rows: .* trained on"):
        make(fitted).fit(X[:400], y[:400])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(fitted).fit(X[400:], y[400:])
        # Its own rows are held out, however few errors there are.
        make(KNeighborsClassifier(1), random_state=0).fit(X[:, :1] * 0 + 9 * y[:, None], y)
        # Without an error, but on few rows.
        make(fitted).fit(X[:60], y[:60])
    assert not [each for each in messages(caught) if "trained on" in each]


def test_few_positive_rows_on_top_are_no_sign_of_training():
    X = np.arange(400.0)[:, None]
    fitted = FrozenEstimator(LogisticRegression().fit(X, X[:, 0] > 200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BudgetClassifier(fitted, random_state=0).fit(X, X[:, 0] > 394)
    with pytest.warns(UserWarning, match="trained on"):
        BudgetClassifier(fitted, random_state=0).fit(X, X[:, 0] > 300)


@both
def test_a_fit_that_fails_leaves_the_earlier_one_whole(make, data):
    X, y = data
    clf = make(LogisticRegression(), random_state=0).fit(X, y)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(np.where(X > 1, np.nan, X), y)
    assert vars(clf) == before
    clf.set_params(**_too_few(clf))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The last thing that can fail, after the classifier inside was trained.
        with pytest.raises(UserWarning, match="needs at least"):
            clf.fit(X[:20], y[:20])
    for name in before:
        assert vars(clf)[name] is before[name] or name in _too_few(clf)


def _too_few(clf):
    """Parameters for which 20 rows are too few, so that there is a warning."""
    if isinstance(clf, BudgetClassifier):
        return {"constraint": "recall", "budget": 0.99}
    return {"coverage": 0.99}


@both
def test_nothing_of_an_earlier_fit_remains(make, data):
    X, y = data
    clf = make(LogisticRegression(), random_state=0).fit(X, y)
    clf.noted_ = "by an earlier version"
    fresh = make(LogisticRegression(), random_state=0).fit(X, y)
    assert set(vars(clf.fit(X, y))) == set(vars(fresh))
