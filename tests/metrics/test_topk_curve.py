import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_validate
from sklearn.naive_bayes import GaussianNB

from sktopk.metrics import TopKCurveDisplay, topk_accuracy_score

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    X, y = load_digits(return_X_y=True)
    train = y[:300] != 3
    return GaussianNB().fit(X[:300][train], y[:300][train]), X[300:600], y[300:600]


def test_each_point_is_the_score_at_that_k(fitted):
    estimator, X, y = fitted
    weight = np.random.default_rng(0).random(len(y))
    options = dict(average="macro", ties="optimistic", sample_weight=weight)
    display = TopKCurveDisplay.from_estimator(estimator, X, y, max_k=4, **options)
    assert display.k.tolist() == [1, 2, 3, 4]
    for k, accuracy in zip(display.k, display.accuracy, strict=True):
        assert accuracy == topk_accuracy_score(
            y, estimator.predict_proba(X), labels=estimator.classes_, k=int(k), **options
        )
    np.testing.assert_array_equal(display.chance, display.k / 9)


def test_from_estimator_is_from_predictions_with_the_estimators_classes(fitted):
    estimator, X, y = fitted
    one = TopKCurveDisplay.from_estimator(estimator, X, y)
    other = TopKCurveDisplay.from_predictions(
        y, estimator.predict_proba(X), labels=estimator.classes_
    )
    np.testing.assert_array_equal(one.accuracy, other.accuracy)
    assert (one.name, other.name) == ("GaussianNB", "Classifier")
    assert len(one.k) == 9  # max_k is cut to the number of classes


def test_draws_what_it_holds():
    display = TopKCurveDisplay([1, 2, 5], [0.5, 0.7, 0.9], name="mine", chance=[0.1, 0.2, 0.5])
    assert display.plot(linewidth=3) is display
    np.testing.assert_array_equal(display.line_.get_xydata(), [[1, 0.5], [2, 0.7], [5, 0.9]])
    np.testing.assert_array_equal(display.chance_level_.get_ydata(), [0.1, 0.2, 0.5])
    assert display.line_.get_linewidth() == 3
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel().startswith("k")
    assert display.ax_.get_ylabel() == "Top-k accuracy"
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["mine", "Chance"]


def test_k_ticks_are_whole_numbers():
    for n in (2, 3, 10, 40):
        display = TopKCurveDisplay(np.arange(1, n + 1), np.linspace(0, 1, n)).plot()
        ticks = display.ax_.get_xticks()
        np.testing.assert_array_equal(ticks, ticks.round())


def test_curves_on_one_axes_differ_in_colour_and_marker_and_share_the_chance_line():
    first = TopKCurveDisplay([1, 2], [0.5, 0.7], name="a", chance=[0.1, 0.2]).plot()
    second = TopKCurveDisplay([1, 2], [0.6, 0.8], name="b", chance=[0.1, 0.2]).plot(first.ax_)
    assert second.ax_ is first.ax_
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_marker() != second.line_.get_marker()
    assert second.chance_level_ is first.chance_level_
    assert [t.get_text() for t in first.ax_.get_legend().get_texts()] == ["a", "b", "Chance"]


def test_name_and_chance_are_optional():
    display = TopKCurveDisplay([1, 2], [0.5, 0.7]).plot()
    assert display.chance_level_ is None
    assert display.ax_.get_legend() is None
    display = TopKCurveDisplay([1, 2], [0.5, 0.7], chance=[0.1, 0.2])
    assert display.plot(name="named", plot_chance_level=False).chance_level_ is None
    assert display.line_.get_label() == "named"
    assert display.name is None


def cross_validated(estimator, X, y, cv=3):
    return cross_validate(estimator, X, y, cv=cv, return_estimator=True, return_indices=True)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, csr_array, np.ndarray.tolist])
def test_curves_of_folds_are_those_of_their_test_rows(make, fitted):
    _, X, y = fitted
    weight = np.random.default_rng(0).random(len(y))
    results = cross_validated(LogisticRegression(C=1e-3, max_iter=1000), make(X), y)
    options = dict(average="macro", ties="pessimistic", max_k=4)
    display = TopKCurveDisplay.from_cv_results(
        results, make(X), y.tolist(), sample_weight=weight, **options
    )
    assert len(display.k) == len(display.accuracy) == len(display.line_) == 3
    for i, test in enumerate(results["indices"]["test"]):
        fold = TopKCurveDisplay.from_estimator(
            results["estimator"][i], X[test], y[test], sample_weight=weight[test], **options
        )
        np.testing.assert_array_equal(display.k[i], [1, 2, 3, 4])
        np.testing.assert_allclose(display.accuracy[i], fold.accuracy)
        np.testing.assert_array_equal(display.line_[i].get_ydata(), display.accuracy[i])
        np.testing.assert_allclose(display.chance, fold.chance)
    assert len({line.get_color() for line in display.line_}) == 1
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == [
        "LogisticRegression (3 folds)",
        "Chance",
    ]
    second = TopKCurveDisplay.from_cv_results(results, make(X), y, name="b", ax=display.ax_)
    assert second.line_[0].get_color() != display.line_[0].get_color()
    assert second.name == "b (3 folds)"
    third = TopKCurveDisplay.from_predictions(y, np.eye(10)[y], ax=display.ax_)
    assert third.chance_level_ is second.chance_level_


def test_a_fold_that_knows_fewer_classes_has_a_shorter_curve(fitted):
    _, X, y = fitted
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    # Without shuffling the last of two folds holds all rows of the greatest labels.
    results = cross_validated(GaussianNB(), X, y, cv=KFold(2))
    display = TopKCurveDisplay.from_cv_results(results, X, y)
    n_classes = [len(each.classes_) for each in results["estimator"]]
    assert [len(k) for k in display.k] == n_classes
    assert max(n_classes) < 10
    for k, chance in enumerate(display.chance, start=1):
        assert chance == pytest.approx(np.mean([min(1, k / n) for n in n_classes]))


def test_cv_results_without_estimators_or_indices_are_refused(fitted):
    _, X, y = fitted
    for results in ({"test_score": [1.0]}, cross_validate(GaussianNB(), X, y, cv=2)):
        with pytest.raises(ValueError, match="return_estimator=True and return_indices=True; got"):
            TopKCurveDisplay.from_cv_results(results, X, y)


@pytest.mark.parametrize("option", ["average", "ties"])
def test_bad_options_are_refused(option):
    with pytest.raises(ValueError, match=f"{option} must be one of .* got 'some'"):
        TopKCurveDisplay.from_predictions([0, 1], np.eye(2), **{option: "some"})


@pytest.mark.parametrize(("max_k", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_max_k_is_refused(max_k, error):
    with pytest.raises(error, match=f"max_k must be .* got {max_k}"):
        TopKCurveDisplay.from_predictions([0, 1], np.eye(2), max_k=max_k)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_with_groups_it_is_the_mean_over_the_curves_of_each(average):
    rng = np.random.default_rng(0)
    place = rng.permutation(np.repeat(["sea", "hill", "town"], [30, 12, 8]))
    y, scores, weight = rng.integers(0, 4, 50), rng.random((50, 5)), rng.random(50)
    weight[place == "town"] = 0
    params = {"labels": np.arange(5), "average": average}
    display = TopKCurveDisplay.from_predictions(
        y, scores, groups=place, sample_weight=weight, share_of_groups=0.5, **params
    )
    each = [
        [
            topk_accuracy_score(y[own], scores[own], k=k, sample_weight=weight[own], **params)
            for k in range(1, 6)
        ]
        for own in (place == "sea", place == "hill")
    ]
    np.testing.assert_allclose(display.accuracy, np.mean(each, 0))
    np.testing.assert_allclose(display.low, np.quantile(each, 0.25, axis=0))
    np.testing.assert_allclose(display.high, np.quantile(each, 0.75, axis=0))
    assert display.band_ in display.ax_.collections
    one = TopKCurveDisplay.from_predictions(y, scores, labels=np.arange(5))
    assert one.band_ is None
    with pytest.raises(ValueError, match="share_of_groups"):
        TopKCurveDisplay.from_predictions(y, scores, groups=place, share_of_groups=0, **params)
