"""Degenerate data, containers and wrong arguments of SetClassifier."""

import math
import re
import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

from sktopk import SetClassifier
from tests.decisions.test_set_classifier import CONFORMAL, METHODS
from tests.given import Given, GivenScores, draw, frozen

# Tests of all methods pass parameters that only some methods use, which gives a warning.
pytestmark = pytest.mark.filterwarnings("ignore:.* is ignored by method")


@pytest.mark.parametrize(("coverage", "n"), [(0.99, 99), (0.9999, 9999)])
def test_too_few_samples_give_full_sets_and_a_warning_with_the_needed_number(coverage, n):
    X, y = draw(n - 1)
    clf = SetClassifier(frozen(), method="lac", coverage=coverage)
    message = rf"={coverage} needs at least {n} calibration samples; got {n - 1}: every set holds"
    with pytest.warns(UserWarning, match=message):
        clf.fit(X, y)
    assert clf.threshold_ == -np.inf
    assert clf.predict_set(X).all()
    with warnings.catch_warnings(action="error"):
        clf.fit(*draw(n))


@pytest.mark.filterwarnings("ignore:30 of 200 calibration samples")
def test_samples_with_unknown_labels_count_as_not_covered():
    X, y = draw(200)
    y[:10] = 99
    clf = SetClassifier(frozen(), method="lac")
    with pytest.warns(UserWarning, match="10 of 200 calibration samples have labels that"):
        clf.fit(X, y)
    known = np.sort(X[np.arange(10, 200), y[10:]])
    assert clf.threshold_ == known[190 - math.ceil(201 * 0.9)]
    y[:30] = 99
    with pytest.warns(UserWarning, match="does not know the labels of 30 of 200"):
        clf.fit(X, y)
    assert clf.threshold_ == -np.inf


@pytest.mark.parametrize("method", METHODS)
def test_sets_of_a_single_class_contain_this_class(method):
    X, y = np.zeros((30, 2)), np.full(30, "only")
    with warnings.catch_warnings(action="ignore"):
        clf = SetClassifier(DummyClassifier(), method=method, random_state=0).fit(X, y)
    assert clf.predict_set(X, output="labels")[0].tolist() == ["only"]
    assert clf.predict_set(X).shape == (30, 1)
    assert clf.predict(X).tolist() == y.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_sets_of_tied_probabilities_or_with_a_large_k_have_k_or_all_tied_classes(method):
    X, y = np.tile([0.02, 0.08], (40, 10)), np.arange(40) % 20
    clf = SetClassifier(frozen(20), method=method, k=2, coverage=0.97, random_state=0).fit(X, y)
    labels = {*map(tuple, clf.predict_set(X, output="labels"))}
    ranking = (*range(1, 20, 2), *range(0, 20, 2))
    assert labels == {ranking[: {"topk": 2, "average_k": 10}.get(method)]}
    n_labels = clf.set_params(k=29).fit(X, y).predict_set(np.eye(20)[:1]).sum()
    assert (clf.k_, n_labels) == (20, 20 if method in ("topk", "average_k") else 1)


PAS = {"method": "pas"}
PARAMETERS = [
    ({"method": "APS"}, ValueError, "method must be one of 'topk', .* got 'APS'"),
    ({"k": 0}, ValueError, "k == 0, must be >= 1"),
    ({"k": 1.5}, TypeError, "k must be an instance of int"),
    ({"method": "average_k", "k": 0}, ValueError, "k == 0, must be > 0"),
    ({"coverage": 1.0}, ValueError, "coverage == 1.0, must be < 1"),
    ({"coverage": 0.0}, ValueError, "coverage == 0.0, must be > 0"),
    ({"coverage": np.nan}, ValueError, "coverage must be finite; got nan"),
    ({"coverage": "90%"}, TypeError, "coverage must be an instance"),
    ({"empty": "never"}, ValueError, "empty must be one of 'allow', 'top1'"),
    ({"randomized": "yes"}, TypeError, "randomized must be True or False"),
    ({"penalty": -1}, ValueError, "penalty == -1, must be >= 0"),
    ({"validation_fraction": 1.0}, ValueError, "validation_fraction == 1.0"),
    (PAS | {"prevalence": [1, 2]}, ValueError, r"must be 8 numbers, one per class.*\(2,\)"),
    (PAS | {"prevalence": [-1] * 8}, ValueError, "prevalence must be finite and non.*; got -1"),
    (PAS | {"prevalence": [0] * 8}, ValueError, "prevalence must be positive for at least one"),
]


@pytest.mark.parametrize(("params", "error", "message"), PARAMETERS, ids=str)
def test_wrong_parameters_of_set_classifier_raise(params, error, message):
    with pytest.raises(error, match=message):
        SetClassifier(frozen(), **params).fit(*draw(50))


def test_invalid_labels_groups_probabilities_and_outputs_raise():
    X, y = draw(50)
    with pytest.raises(ValueError, match=r"y must have more samples per class: .*n_samples=8"):
        SetClassifier(Given(), method="lac").fit(X[:8], np.arange(8))
    with pytest.raises(ValueError, match="groups must have more groups per class"):
        SetClassifier(Given()).fit(X, y, groups=np.zeros(50))
    with pytest.raises(ValueError, match=r"y must have .* such as 0; got 'a'"):
        SetClassifier(frozen(), method="lac").fit(X, np.full(50, "a"))
    with pytest.raises(ValueError, match=r"classes_ of .* must be sorted; got 8 \(7, 6, 5"):
        SetClassifier(Given(np.arange(8)[::-1])).fit(X, y)
    with pytest.raises(ValueError, match="output must be one of 'matrix', 'labels'; got"):
        SetClassifier(frozen()).fit(X, y).predict_set(X, output="list")
    with pytest.raises(ValueError, match="got probabilities that sum to 0 for sample 1"):
        SetClassifier(frozen(), method="lac").fit(X, y).predict_set(X[:2] * [[1], [0]])


@pytest.mark.parametrize("kind", [Given, GivenScores])
@pytest.mark.parametrize("method", METHODS)
def test_nan_probabilities_or_scores_raise_an_error_that_names_the_sample(kind, method):
    X, y = draw(50)
    clf = SetClassifier(frozen(kind=kind), method=method, k=2).fit(X, y)
    X[3, 2] = np.nan
    source = "predict_proba" if kind is Given else "decision_function"
    message = rf"{source} of estimator must return prob.*got NaN for sample 3 of X from Frozen"
    with pytest.raises(ValueError, match=message):
        clf.predict_set(X)
    if method != "topk":
        before = clf.threshold_
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y)
        assert clf.threshold_ == before


SHARE = 1 / np.arange(1, 201)
MESSAGE = (
    r"^the coverage will be about ([\d.]+\d) instead of 0\.9, because (\d+) of (\d+) classes have "
    r"only one sample\. No coverage above ([\d.]+\d) is possible\. Merge rare classes"
)


def draw_rare(centers, n, rng):
    """Samples around class centers; the share of a class is proportional to 1 / rank."""
    y = rng.choice(200, size=n, p=SHARE / SHARE.sum())
    return centers[y] + rng.normal(size=(n, 8)), y


def coverage(clf, X, y):
    labels = clf.predict_set(X, output="labels")
    return np.mean([label in found for label, found in zip(y, labels, strict=True)])


@pytest.mark.filterwarnings(
    "ignore:.* only one sample", "ignore:.* needs at least", "ignore:The number of unique classes"
)
@pytest.mark.parametrize("method", CONFORMAL)
def test_the_warning_has_the_expected_coverage(method):
    told, most, reached, after = [], [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        centers = rng.normal(scale=1.5, size=(200, 8))
        X, y = draw_rare(centers, 300, rng)
        clf = SetClassifier(GaussianNB(var_smoothing=0.3), method=method, random_state=seed)
        with pytest.warns(UserWarning, match=MESSAGE) as caught:
            clf.fit(X, y)
        (message,) = (str(each.message) for each in caught if "coverage" in str(each.message))
        about, n_single, n_classes, highest = re.search(MESSAGE, message).groups()
        counts = np.bincount(y)
        assert (int(n_single), int(n_classes)) == (sum(counts == 1), sum(counts > 0))
        assert float(highest) == pytest.approx(1 - sum(counts == 1) / 300, abs=0.005)
        told.append(float(about))
        most.append(float(highest))
        new = draw_rare(centers, 500, rng)
        reached.append(coverage(clf, *new))
        after.append(coverage(clf.set_params(coverage=0.999).fit(X, y), *new))
    slack = 4 * np.std(reached) / 12**0.5
    assert np.mean(reached) == pytest.approx(np.mean(told), abs=slack)
    # With too few samples for this coverage, every set has all classes.
    assert np.mean(after) == pytest.approx(np.mean(most), abs=0.03)
