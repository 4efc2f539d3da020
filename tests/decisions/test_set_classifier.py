"""Sets have the guaranteed coverage, and the labels of their definition."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
import torch
from scipy.sparse import coo_array, csr_array
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.svm import LinearSVC

from sktopk import SetClassifier
from tests.given import Given, draw, frozen

# Tests of all methods pass parameters that only some methods use, which gives a warning.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).* is ignored by method")

CONFORMAL = ["lac", "aps", "raps", "pas"]
METHODS = ["topk", "average_k", *CONFORMAL]


def covered(clf, X, y):
    return clf.predict_set(X)[np.arange(len(y)), y]


@pytest.mark.parametrize(
    ("method", "randomized"), [*((m, True) for m in CONFORMAL), ("aps", False), ("raps", False)]
)
def test_mean_coverage_is_at_least_the_guarantee_and_equals_it_if_randomized(method, randomized):
    n, n_new, rates = 24, 100, []
    clf = SetClassifier(frozen(), method=method, randomized=randomized)
    clf.set_params(prevalence=np.geomspace(1, 0.1, 8))
    for seed in range(225):
        X, y = draw(n + n_new, seed=seed)
        clf.set_params(random_state=seed).fit(X[:n], y[:n])
        rates.append(covered(clf, X[n:], y[n:]).mean())
    slack = 3 * np.std(rates) / len(rates) ** 0.5
    guaranteed = math.ceil(round((n + 1) * 0.9, 9)) / (n + 1)
    assert np.mean(rates) > guaranteed - slack
    if randomized or method in ("lac", "pas"):
        assert np.mean(rates) < guaranteed + slack


PREVALENCE = np.array([0.4, 0.3, 0.1, 0.1, 0.05, 0.05])


def conformity_of(method, p):
    """Return the conformity score of each label. Labels with high scores are in the set."""
    if method == "pas":
        return p / PREVALENCE
    if method not in ("aps", "raps"):
        return p
    ranking, scores = sorted(range(len(p)), key=lambda j: (-p[j], j)), np.empty(len(p))
    for rank, label in enumerate(ranking, 1):
        mass_above = sum(p[j] for j in ranking[: rank - 1])
        penalty = 0.07 * max(0, rank - 2) if method == "raps" else 0
        scores[label] = 1 - mass_above - penalty
    return scores


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("empty", ["allow", "top1"])
def test_sets_equal_their_definition(method, empty, rng):
    proba, n_empty = rng.dirichlet(np.full(6, 0.5), size=100), 0
    X = 3 * proba if "aps" in method else proba  # these methods divide by the sum
    params = {"k": 2, "penalty": 0.07, "prevalence": PREVALENCE, "empty": empty}
    names = np.array(list("uvwxyz"))
    clf = SetClassifier(FrozenEstimator(Given([*names]).fit(None, None)), method=method, **params)
    # Correct labels give high thresholds and empty sets; random labels give large sets.
    for y, k in ((proba.argmax(axis=1), 1.1), (np.arange(100) % 6, 1.096)):
        clf.set_params(coverage=0.5, k=k if method == "average_k" else 2)
        y_set = clf.fit(X, names[y]).predict_set(X)
        assert y_set.sum() == 110 or (method, empty) != ("average_k", "allow")
        assert (type(y_set), y_set.dtype, y_set.shape) == (np.ndarray, bool, (100, 6))
        found = clf.predict_set(X, output="labels")
        for p, labels, inside in zip(proba, found, y_set, strict=True):
            scores = conformity_of(method, p)
            ranking = sorted(range(6), key=lambda j: (-scores[j], j))
            # The tolerance 1e-12 allows for rounding of cumulative sums.
            expected = [j for j in ranking if scores[j] >= clf.threshold_ - 1e-12]
            if method == "topk":
                expected = ranking[:2]
            n_empty += not expected
            if not expected and empty == "top1":
                expected = ranking[:1]
            assert labels.dtype == names.dtype
            assert labels.tolist() == names[expected].tolist()
            assert np.flatnonzero(inside).tolist() == sorted(expected)
        assert (clf.set_params(coverage=0.9).fit(X, names[y]).predict_set(X) >= y_set).all()
    assert n_empty > 0 or method not in ("lac", "pas")


def test_a_randomized_set_has_a_label_with_the_probability_of_the_definition():
    X, y = draw(4000)
    clf = SetClassifier(frozen(), method="aps", coverage=0.8, randomized=True, random_state=0)
    y_set = clf.fit(X[:1000], y[:1000]).predict_set(X[1000:])
    # The set contains a label of probability p if below + u * p >= threshold, for a uniform u.
    below = (X[1000:, None] * (X[1000:, None] < X[1000:, :, None])).sum(axis=2)
    share = np.clip(1 - (clf.threshold_ - below) / X[1000:], 0, 1)
    slack = 4 * np.sqrt((share * (1 - share)).sum())
    assert abs(y_set.sum() - share.sum()) < slack
    assert y_set[share == 1].all()
    assert not y_set[share == 0].any()


@pytest.mark.parametrize("coverage", ["0.5", "0.7", "0.8", "0.9", "0.95", "0.99"])
@pytest.mark.filterwarnings("ignore:coverage=")
def test_the_threshold_is_an_order_statistic_of_the_probabilities_of_the_true_labels(coverage):
    for n in (1, 2, 4, 9, 10, 19, 20, 39, 98, 99, 100):
        X, y = draw(n)
        scores = np.sort(X[np.arange(n), y])[::-1]
        rank = math.ceil((n + 1) * Fraction(coverage))
        clf = SetClassifier(frozen(), method="lac", coverage=float(coverage)).fit(X, y)
        assert clf.threshold_ == (scores[rank - 1] if rank <= n else -np.inf)
        assert clf.n_calibration_ == n


def test_sets_do_not_depend_on_how_the_samples_are_split():
    X, y = draw(200_000)  # more probabilities than one chunk
    clf = SetClassifier(frozen(), method="aps", random_state=0).fit(X[:300], y[:300])
    assert clf.predict_set(X[:0], output="labels") == []
    parts = [clf.predict_set(part) for part in np.array_split(X, 7)]
    np.testing.assert_array_equal(clf.predict_set(X), np.concatenate(parts))


@pytest.mark.parametrize("method", CONFORMAL)
def test_coverage_holds_with_a_stratified_calibration_split(method):
    # The split is stratified. If a class has one sample, this sample is only used for training.
    n, n_new, rates = 120, 100, []
    for seed in range(100):
        X, y = draw(n + n_new, seed=seed)
        clf = SetClassifier(Given(np.arange(8)), method=method, validation_fraction=0.5)
        clf.set_params(random_state=seed).fit(X[:n], y[:n])
        rates.append(covered(clf, X[n:], y[n:]).mean())
    assert np.mean(rates) > 0.9 - 4 * np.std(rates) / 100**0.5


IGNORED = {
    "coverage": (0.99, {"lac", "aps", "raps", "pas"}),
    "k": (2, {"topk", "average_k", "raps"}),
    "penalty": (0.2, {"raps"}),
    "prevalence": (np.ones(8), {"pas"}),
    "randomized": (True, {"aps", "raps"}),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", IGNORED)
def test_a_parameter_that_the_method_ignores_gives_a_warning(name, method):
    value, users = IGNORED[name]
    clf = SetClassifier(frozen(), method=method, **{name: value})
    with warnings.catch_warnings(record=True, action="always") as caught:
        clf.fit(*draw(200))
    said = [str(each.message) for each in caught if "ignored" in str(each.message)]
    assert len(said) == (method not in users)
    for message in said:
        assert message.startswith(f"{name}={value!r} is ignored by method={method!r}: it is a par")
        assert set(message.split("parameter of ")[1].split(" and ")) == {*map(repr, users)}


def test_held_out_samples_are_not_used_for_training():
    X, y = draw(300)
    # Class 8 has one sample, class 9 has two. One sample of each class is used for training.
    y[:3] = [8, 9, 9]
    X = np.column_stack([X, X[:, :2]])
    for method in METHODS[:0:-1]:
        clf = SetClassifier(Given(np.arange(10)), method=method, validation_fraction=0.3)
        clf.set_params(random_state=0).fit(X, y)
        assert len({row.tobytes() for row in clf.estimator_.fit_X_}) + clf.n_calibration_ == 300
        assert clf.n_calibration_ == pytest.approx(90, abs=2)
        assert set(clf.estimator_.fit_y_) == set(y)
        assert not hasattr(clf.estimator, "classes_")
    assert clf.set_params(validation_fraction=0.1).fit(X[:4], 0 * y[:4]).n_calibration_ == 1


def test_prevalence_is_given_or_counted_in_training_or_calibration_samples():
    X, y = draw(300)
    y[y == 7] = 6
    count = np.bincount(y, minlength=8)
    as_rarest = np.where(count > 0, count, count[count > 0].min())
    clf = SetClassifier(frozen(), method="pas").fit(X, y)
    np.testing.assert_allclose(clf.prevalence_, as_rarest / as_rarest.sum())
    clf = SetClassifier(frozen(), method="pas", prevalence=np.arange(8)).fit(X, y)
    np.testing.assert_allclose(clf.prevalence_, np.array([1, 1, 2, 3, 4, 5, 6, 7]) / 29)
    clf = SetClassifier(Given(), method="pas", random_state=0).fit(X[:, :7], y)
    trained = np.bincount(clf.estimator_.fit_y_)
    np.testing.assert_allclose(clf.prevalence_, trained / trained.sum())
    fitted = GaussianNB().fit(X[:100], y[:100])
    clf = SetClassifier(FrozenEstimator(fitted), method="pas").fit(X[100:], y[100:])
    np.testing.assert_allclose(clf.prevalence_, fitted.class_count_ / 100)
    assert SetClassifier(frozen(), method="lac").fit(X, y).prevalence_ is None


def test_predictions_and_score_equal_those_of_the_classifier_inside(digits):
    X, y, X_test, y_test = digits
    clf = SetClassifier(LogisticRegression(max_iter=300), method="aps", random_state=0).fit(X, y)
    inner = clf.estimator_
    for name in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(clf, name)(X_test), getattr(inner, name)(X_test))
    assert clf.score(X_test, y_test) == inner.score(X_test, y_test)
    assert not hasattr(SetClassifier(LinearSVC()), "predict_proba")
    assert not hasattr(SetClassifier(GaussianNB()), "decision_function")


def test_fit_parameters_are_split_like_the_samples():
    X, y = draw(200)
    weight = np.arange(200.0)
    clf = SetClassifier(Given(np.arange(8)), method="lac", random_state=0)
    clf.fit(X, y, sample_weight=weight, tags="all")
    inner = clf.estimator_
    np.testing.assert_array_equal(X[inner.fit_weight_.astype(int)], inner.fit_X_)
    with pytest.raises(TypeError, match=r"fit_params must be empty for a Frozen.*; got tags"):
        SetClassifier(frozen()).fit(X, y, tags="all")
    clf.fit(X, y, sample_weight=weight.tolist())
    np.testing.assert_array_equal(X[np.array(clf.estimator_.fit_weight_, int)], inner.fit_X_)


def test_metadata_routing_passes_weights_to_the_classifier_inside(digits):
    X, y, *_ = digits
    weight = {"sample_weight": np.linspace(0.1, 2, len(y))}
    plain = SetClassifier(GaussianNB(), method="lac", random_state=0).fit(X, y, **weight)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        clf = SetClassifier(inner, method="lac", random_state=0)
        clf.set_score_request(sample_weight=True).fit(X, y, **weight)
        search = GridSearchCV(clf, {"coverage": [0.8, 0.9]}, cv=2, error_score="raise")
        search.fit(X, y, **weight)
        with pytest.raises(ValueError, match=r"\[groups\] are passed but .* SetClassifier.fit"):
            search.fit(X, y, groups=y)
    np.testing.assert_array_equal(plain.estimator_.var_, clf.estimator_.var_)
    assert plain.threshold_ == clf.threshold_


@pytest.mark.parametrize("method", ["aps", "raps"])
def test_the_set_of_a_sample_is_the_same_alone_and_in_any_batch(method, rng):
    X, y = draw(600)
    clf = SetClassifier(frozen(), method=method, coverage=0.7, randomized=True, random_state=0)
    whole = clf.fit(X[:300], y[:300]).predict_set(X[300:])
    np.testing.assert_array_equal([clf.predict_set(row[None])[0] for row in X[300:]], whole)
    order = rng.integers(300, size=500)
    np.testing.assert_array_equal(clf.predict_set(X[300:][order]), whole[order])
    assert (whole != clf.set_params(randomized=False).predict_set(X[300:])).any()


CONTAINERS = {
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int64),
    "column-major": np.asfortranarray,
    "minus zero": lambda X: np.where(X == 0, -0.0, X),
    "lists": lambda X: X.tolist(),
    "CSR": csr_array,
    "COO": coo_array,
    "frame": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda X: pa.Table.from_pandas(pd.DataFrame(X)),
    "list of tensors": lambda X: list(torch.from_numpy(X)),
    "list of Series": lambda X: list(map(pd.Series, X)),
}


@pytest.mark.filterwarnings("ignore:X .* feature names")
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_the_set_of_a_sample_is_the_same_in_every_container(container, rng):
    X, y = rng.poisson(0.7, size=(400, 9)).astype(float), rng.integers(4, size=400)
    clf = SetClassifier(MultinomialNB(), method="aps", coverage=0.6, randomized=True)
    clf.set_params(random_state=0).fit(X, y)
    expected = clf.predict_set(X)
    np.testing.assert_array_equal(clf.predict_set(container(X)), expected)
    np.testing.assert_array_equal(clf.fit(container(X), y).predict_set(X), expected)


def test_missing_values_and_times_of_all_libraries_give_the_same_set(rng):
    visits = pd.Series(rng.integers(0, 5, 400), dtype="Int64").mask(rng.random(400) < 0.3)
    X = pd.DataFrame({"visits": visits, "day": pd.date_range("2024-01-01", periods=400)})
    X["line"] = rng.choice(["a", "b"], size=400)
    y = rng.integers(4, size=400)
    clf = SetClassifier(DummyClassifier(), method="aps", randomized=True, random_state=0)
    expected = clf.fit(X, y).predict_set(X)
    assert len(np.unique(expected, axis=0)) > 1
    for other in (X.astype({"visits": float}), X.astype(object), pl.from_pandas(X)):
        np.testing.assert_array_equal(clf.predict_set(other), expected)


def test_samples_for_early_stopping_are_not_split():
    class Stopping(GaussianNB):
        def fit(self, X, y, eval_X=None, y_val=None):
            self.n_held_out_ = len(eval_X), len(y_val)
            return super().fit(X, y)

    X, y = draw(200)
    clf = SetClassifier(Stopping(), random_state=0).fit(X, y, eval_X=X, y_val=y)
    assert clf.estimator_.n_held_out_ == (200, 200)
