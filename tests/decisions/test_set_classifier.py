import math
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from sktopk import SetClassifier
from sktopk._estimators.decisions._conformal import Conformity
from tests.given import Given, draw, frozen

# Tests that ask the same of all methods give each what some of them use.
pytestmark = pytest.mark.filterwarnings("ignore:.* is ignored by method")

METHODS = ["topk", "average_k", "lac", "aps", "raps", "pas"]
CONFORMAL = ["lac", "aps", "raps", "pas"]


def covered(clf, X, y):
    return clf.predict_set(X)[np.arange(len(y)), y]


@pytest.mark.parametrize("method", CONFORMAL)
@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("coverage", [0.9])
def test_coverage_is_exact(method, randomized, coverage):
    n, n_new, n_draws = 24, 20, 1000
    prevalence = np.geomspace(1, 0.1, 8)
    clf = SetClassifier(
        frozen(), method=method, coverage=coverage, randomized=randomized, prevalence=prevalence
    )
    X, y = draw(n_draws * (n + n_new))
    parts = X.reshape(n_draws, -1, 8), y.reshape(n_draws, -1)
    rank = math.ceil(round((n + 1) * coverage, 9))
    own = prevalence / prevalence.sum() if method == "pas" else None
    conformity = Conformity(method, 5, 0.1, own)
    u = np.random.default_rng(1).random(len(y)).reshape(n_draws, -1)
    new_u = u[:, n:] if randomized else np.ones((n_draws, n_new))

    def of_label(rows, u):
        X, y = parts[0][:, rows].reshape(-1, 8), parts[1][:, rows].ravel()
        return conformity(X, u.ravel())[np.arange(len(y)), y].reshape(n_draws, -1)

    threshold = -np.sort(-of_label(slice(n), u[:, :n]), axis=1)[:, rank - 1]
    rates = (of_label(slice(n, None), new_u) >= threshold[:, None]).mean(axis=1)
    slack = 4 * np.std(rates) / n_draws**0.5
    promised = rank / (n + 1)
    assert np.mean(rates) > promised - slack
    if randomized or method in ("lac", "pas"):
        assert np.mean(rates) < promised + slack
        assert promised <= coverage + 1 / (n + 1)
    # The classifier does what was simulated.
    for seed in range(3):
        X, y = (each[seed] for each in parts)
        clf.set_params(random_state=seed).fit(X[:n], y[:n])
        u = conformity.draw(X, n + n_new, clf._seed)
        of_rows = conformity(X, u)[np.arange(n + n_new), y]
        assert clf.threshold_ == np.sort(of_rows[:n])[::-1][rank - 1]
        of_rows = (
            of_rows if randomized else conformity(X, np.ones(n + n_new))[np.arange(n + n_new), y]
        )
        np.testing.assert_array_equal(covered(clf, X[n:], y[n:]), of_rows[n:] >= clf.threshold_)


@pytest.mark.parametrize("method", CONFORMAL)
def test_coverage_holds_with_rows_held_out_by_class(method):
    # Shares of classes are what they are among all rows; single rows are not calibrated with.
    n, n_new, rates = 120, 100, []
    for seed in range(100):
        X, y = draw(n + n_new, seed=seed)
        clf = SetClassifier(
            Given(np.arange(8)), method=method, validation_fraction=0.5, random_state=seed
        )
        rates.append(covered(clf.fit(X[:n], y[:n]), X[n:], y[n:]).mean())
    slack = 4 * np.std(rates) / 100**0.5
    assert np.mean(rates) > 0.9 - slack


@pytest.mark.parametrize("empty", ["allow", "top1"])
def test_sets_are_nested_in_coverage(empty):
    X, y = draw(400)
    for method in CONFORMAL:
        previous = np.zeros((200, 8), dtype=bool)
        for coverage in (0.5, 0.7, 0.8, 0.9, 0.99):
            clf = SetClassifier(
                frozen(), method=method, coverage=coverage, empty=empty, random_state=0
            )
            y_set = clf.fit(X[:200], y[:200]).predict_set(X[200:])
            assert (y_set >= previous).all()
            previous = y_set


def test_labels_are_those_of_the_matrix_best_first():
    X, y = draw(400)
    prevalence = np.bincount(y[:200], minlength=8) / 200
    names = np.array(list("stuvwxyz"))
    for method in METHODS:
        estimator = FrozenEstimator(Given(names).fit(None, None))
        clf = SetClassifier(estimator, method=method, k=3).fit(X[:200], names[y[:200]])
        y_set = clf.predict_set(X[200:])
        labels = clf.predict_set(X[200:], output="labels")
        assert (type(y_set), y_set.dtype, y_set.shape) == (np.ndarray, bool, (200, 8))
        score = X[200:] / prevalence if method == "pas" else X[200:]
        for row, s, found in zip(y_set, score, labels, strict=True):
            assert found.dtype == names.dtype
            assert found.tolist() == [names[j] for j in np.argsort(-s) if row[j]]


IGNORED = {
    "coverage": (0.99, {"lac", "aps", "raps", "pas"}),
    "k": (2, {"topk", "average_k", "raps"}),
    "penalty": (0.2, {"raps"}),
    "prevalence": (np.ones(8), {"pas"}),
    "randomized": (True, {"aps", "raps"}),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", IGNORED)
def test_a_parameter_that_the_method_does_not_use_warns(name, method):
    value, users = IGNORED[name]
    clf = SetClassifier(frozen(), method=method, **{name: value})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(*draw(200))
    said = [str(each.message) for each in caught if "ignored" in str(each.message)]
    assert len(said) == (method not in users)
    for message in said:
        assert message.startswith(f"{name}={value!r} is ignored by method={method!r}: it is a par")
        assert set(message.split("parameter of ")[1].split(" and ")) == {*map(repr, users)}


def test_rows_held_out_are_not_trained_on():
    X, y = draw(300)
    # Classes of one row and of two, which keep one in training.
    y[:3] = [8, 9, 9]
    X = np.column_stack([X, X[:, :2]])
    for method in METHODS[1:]:
        clf = SetClassifier(
            Given(np.arange(10)), method=method, validation_fraction=0.3, random_state=0
        ).fit(X, y)
        trained = {row.tobytes() for row in clf.estimator_.fit_X_}
        assert len(trained) + clf.n_calibration_ == 300
        assert clf.n_calibration_ == pytest.approx(90, abs=2)
        assert set(clf.estimator_.fit_y_) == set(y)
        assert not hasattr(clf.estimator, "classes_")


def test_frozen_estimators_are_kept_and_all_rows_calibrate(digits):
    X, y, X_test, _ = digits
    fitted = GaussianNB().fit(X[:400], y[:400])
    before = pickle.dumps(fitted)
    clf = SetClassifier(FrozenEstimator(fitted), method="lac").fit(X[400:], y[400:])
    assert pickle.dumps(fitted) == before
    assert clf.n_calibration_ == 500
    np.testing.assert_array_equal(clf.predict(X_test), fitted.predict(X_test))
    scores = np.sort(fitted.predict_proba(X[400:])[np.arange(500), y[400:]])
    assert clf.threshold_ == scores[500 - math.ceil(501 * 0.9)]


def test_prevalence_comes_from_the_best_source_there_is():
    X, y = draw(300)
    y[y == 7] = 6
    count = np.bincount(y, minlength=8)
    as_rarest = np.where(count > 0, count, count[count > 0].min())
    clf = SetClassifier(frozen(), method="pas").fit(X, y)
    np.testing.assert_allclose(clf.prevalence_, as_rarest / as_rarest.sum())
    given = np.arange(8)
    clf = SetClassifier(frozen(), method="pas", prevalence=given).fit(X, y)
    np.testing.assert_allclose(clf.prevalence_, np.array([1, 1, 2, 3, 4, 5, 6, 7]) / 29)
    clf = SetClassifier(Given(), method="pas", random_state=0).fit(X[:, :7], y)
    trained = np.bincount(clf.estimator_.fit_y_)
    np.testing.assert_allclose(clf.prevalence_, trained / trained.sum())
    fitted = GaussianNB().fit(X[:100], y[:100])
    clf = SetClassifier(FrozenEstimator(fitted), method="pas").fit(X[100:], y[100:])
    np.testing.assert_allclose(clf.prevalence_, fitted.class_count_ / 100)
    assert SetClassifier(frozen(), method="lac").fit(X, y).prevalence_ is None


def test_predictions_are_those_of_the_estimator(digits):
    X, y, X_test, y_test = digits
    clf = SetClassifier(LogisticRegression(max_iter=300), method="aps", random_state=0).fit(X, y)
    inner = clf.estimator_
    for name in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(clf, name)(X_test), getattr(inner, name)(X_test))
    assert clf.score(X_test, y_test) == inner.score(X_test, y_test)
    assert not hasattr(SetClassifier(LinearSVC()), "predict_proba")
    assert not hasattr(SetClassifier(GaussianNB()), "decision_function")


def test_fit_parameters_reach_the_rows_that_are_trained_on():
    X, y = draw(200)
    weight = np.arange(200.0)
    clf = SetClassifier(Given(np.arange(8)), method="lac", random_state=0)
    clf.fit(X, y, sample_weight=weight, tags="all")
    inner = clf.estimator_
    np.testing.assert_array_equal(X[inner.fit_weight_.astype(int)], inner.fit_X_)
    clf.fit(X, y, sample_weight=weight.tolist())
    np.testing.assert_array_equal(X[np.array(clf.estimator_.fit_weight_, int)], inner.fit_X_)


def test_metadata_routing(digits):
    X, y, *_ = digits
    weight = np.linspace(0.1, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        clf = SetClassifier(inner, method="lac", random_state=0).set_score_request(
            sample_weight=True
        )
        clf.fit(X, y, sample_weight=weight)
        search = GridSearchCV(clf, {"coverage": [0.8, 0.9]}, cv=2, error_score="raise")
        search.fit(X, y, sample_weight=weight)
    plain = SetClassifier(GaussianNB(), method="lac", random_state=0)
    plain.fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(plain.estimator_.var_, clf.estimator_.var_)
    assert plain.threshold_ == clf.threshold_
    assert (plain.estimator_.var_ != clone(plain).fit(X, y).estimator_.var_).any()
