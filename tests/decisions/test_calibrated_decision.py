"""Common behaviour of BudgetClassifier and SetClassifier: the classifier inside and its input."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

from sktopk import BudgetClassifier, SetClassifier


def sets(*args, **kwargs):
    return SetClassifier(*args, method="lac", **kwargs)


both = pytest.mark.parametrize("make", [BudgetClassifier, sets], ids=["budget", "sets"])


@pytest.fixture(scope="module")
def data():
    return make_classification(900, flip_y=0.2, random_state=0)


@pytest.mark.parametrize("method", ["decision_function", "predict", "predict_set"])
def test_a_fit_during_a_prediction_does_not_change_this_prediction(method, data):
    class Meddled(LogisticRegression):
        def decision_function(self, X):
            while fits:
                fits.pop()()
            return super().decision_function(X)

    fits, (X, y) = [], data
    clf = (sets if method == "predict_set" else BudgetClassifier)(Meddled(), random_state=0)
    before = getattr(clf.fit(X, y), method)(X)
    fits.append(lambda: clf.fit(X[::2], 1 - y[::2]))
    np.testing.assert_array_equal(getattr(clf, method)(X), before)


# A sample of weight 2 differs from two copies: copies change the random split and the number of
# calibration samples. TunedThresholdClassifierCV has the same exceptions.
REASON = "copies of samples change the random split, weights do not"
CHECK = "check_sample_weight_equivalence_on_{}_data"
EXPECTED = {CHECK.format(kind): REASON for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (BudgetClassifier(LogisticRegression()), EXPECTED),
        (BudgetClassifier(LinearSVC(), budget=0.8, constraint="recall"), EXPECTED),
        (SetClassifier(LogisticRegression()), EXPECTED),
        (SetClassifier(LogisticRegression(), method="topk"), {}),
        (SetClassifier(LinearSVC(), method="aps", randomized=True), EXPECTED),
    ],
    ids=str,
)
def test_decision_classifiers_pass_the_checks_of_scikit_learn(estimator, expected):
    check_estimator(estimator, expected_failed_checks=expected, on_skip=None)


forest = RandomForestClassifier(8, oob_score=True, random_state=0)
FPR, LAC = {"constraint": "fpr", "budget": 0.1}, {"method": "lac"}
SETTINGS = {
    BudgetClassifier: [FPR, FPR | {"cross_fit": True}, {"constraint": "fdr", "budget": 0.3}],
    SetClassifier: [LAC, {"method": "topk", "k": 1}, LAC | {"conditional": "class"}],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_new_fit_keeps_no_attribute_of_an_earlier_fit(kind, data):
    X, y = data
    for second in SETTINGS[kind]:
        fresh = kind(forest, **second).fit(X[:300, :5], y[:300])
        for first in SETTINGS[kind]:
            again = kind(forest, **first).fit(X, y)
            again.set_params(**kind(forest).get_params(deep=False) | second)
            again.fit(X[:300, :5], y[:300])
            assert vars(again).keys() == vars(fresh).keys()


class Interrupted(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        super().fit(X, y)
        raise KeyboardInterrupt


@both
def test_a_failed_or_interrupted_fit_does_not_change_the_earlier_fit(make, data):
    X, y = data
    clf = make(LogisticRegression(), random_state=0).fit(X, y)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(np.where(X > 1, np.nan, X), y)
    assert vars(clf) == before
    before |= {"estimator": clf.set_params(estimator=Interrupted()).estimator}
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X[:99], y[:99])
    assert vars(clf) == before


@both
def test_objects_that_are_no_classifiers_raise(make, data):
    for wrong in ([], None, "logistic", LogisticRegression):
        with pytest.raises(TypeError, match=r"estimator must be an instance of .*; got "):
            make(wrong).fit(*data)
    for wrong in (LinearRegression(), FrozenEstimator(LinearRegression().fit(*data))):
        with pytest.raises(TypeError, match="classifier with classes_ and decision_function or"):
            make(wrong).fit(*data)


@both
@pytest.mark.parametrize("inner", [ExtraTreesClassifier(), KNeighborsClassifier(1)], ids=str)
def test_calibration_with_training_samples_gives_a_warning(make, inner, data):
    X, y = data
    fitted, tied = (FrozenEstimator(clone(inner).fit(A, y[:400])) for A in (X[:400], 0 * X[:400]))
    with pytest.warns(UserWarning, match=r"^estimator .* 400 calib.* used for training"):
        make(fitted).fit(X[:400], y[:400])
    with warnings.catch_warnings(record=True, action="always") as caught:
        # No warning for held-out samples, few samples, tied scores, or a classifier without errors.
        for clf, A, b in ((fitted, X[400:], y[400:]), (fitted, X[:60], y[:60]), (tied, 0 * X, y)):
            make(clf).fit(A, b)
        make(inner, random_state=0).fit(X[:, :1] * 0 + 9 * y[:, None], y)
    assert not [w for w in caught if any(s in str(w.message) for s in ("no error", "be about"))]


@both
def test_sample_weight_is_a_parameter_of_fit_and_reaches_the_classifier_inside(make, data):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.1, 5, size=len(y))
    search = GridSearchCV(make_pipeline(StandardScaler(), GaussianNB()), {}, cv=2)
    clf = make(make_pipeline(StandardScaler(), search), random_state=0)
    last = clf.fit(X, y, weight).estimator_[-1].best_estimator_[-1]
    assert (last.var_ != clone(clf).fit(X, y).estimator_[-1].best_estimator_[-1].var_).any()
    with pytest.raises(ValueError, match=r"sample_weight must be None, .* KNeighborsClassifier"):
        make(KNeighborsClassifier()).fit(X, y, weight)


@both
def test_samples_of_weight_zero_are_ignored(make, data):
    X, y = data
    weight = (np.arange(900) % 3 > 0).astype(float)
    clf = make(LogisticRegression(), random_state=0).fit(X, y, weight)
    alone = make(LogisticRegression(), random_state=0).fit(X[weight > 0], y[weight > 0])
    assert clf.threshold_ == alone.threshold_


@both
@pytest.mark.filterwarnings("ignore:The following error was raised")  # by scikit-learn 1.7
def test_the_classifier_can_have_any_type(make, data):
    clf = GaussianNB().fit(*data)
    names = "fit", "predict", "predict_proba", "classes_"
    own = type("Own", (), {name: getattr(clf, name) for name in names})()
    ours, theirs = (make(FrozenEstimator(e)).fit(*data).predict(data[0]) for e in (own, clf))
    np.testing.assert_array_equal(ours, theirs)
