from math import sqrt

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk.metrics import LossComparisonDisplay

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture
def scores(rng):
    base = 0.8 + 0.02 * rng.random(6)
    gains = {"cross_entropy": 0.0, "focal": 0.0, "smooth_topk": 0.3, "ldam": -0.3}
    return {loss: base + gain + 0.02 * rng.random(6) for loss, gain in gains.items()}


def corrected_interval(first, second, overlap, confidence):
    """Nadeau and Bengio's interval of the mean difference, step by step."""
    runs = [a - b for a, b in zip(first, second, strict=True)]
    n = len(runs)
    mean = sum(runs) / n
    variance = sum((run - mean) ** 2 for run in runs) / (n - 1)
    n_test, n_train = overlap, 1 - overlap
    quantile = stats.t(n - 1).ppf(1 - (1 - confidence) / 2)
    half = quantile * sqrt((1 / n + n_test / n_train) * variance)
    return mean - half, mean + half


@pytest.mark.parametrize(("overlap", "confidence"), [(0.2, 0.95), (0.5, 0.8), (0, 0.99)])
def test_intervals_are_those_of_the_corrected_test(overlap, confidence, scores):
    display = LossComparisonDisplay.from_scores(
        scores, overlap=overlap, confidence=confidence, baseline="focal"
    )
    assert display.names == ["cross_entropy", "smooth_topk", "ldam"]
    for i, name in enumerate(display.names):
        low, high = corrected_interval(scores[name], scores["focal"], overlap, confidence)
        assert display.difference[i] - display.half_width[i] == pytest.approx(low)
        assert display.difference[i] + display.half_width[i] == pytest.approx(high)


@pytest.mark.parametrize(
    ("difference", "half_width", "verdict"),
    [
        (0.5, 0.25, "better"),
        (-0.5, 0.25, "worse"),
        # The interval touches zero, then both ends of the margin.
        (0.25, 0.25, "equivalent"),
        (0.0, 0.5, "equivalent"),
        (0.125, 0.375, "equivalent"),
        (-0.125, 0.375, "equivalent"),
        (0.125, 0.5, "inconclusive"),
        (-0.25, 0.5, "inconclusive"),
        (0.0, 0.625, "inconclusive"),
        # A clear difference is one, however little it matters.
        (0.125, 0.0625, "better"),
        (0.0, 0.0, "equivalent"),
    ],
)
def test_verdict_is_where_the_interval_lies(difference, half_width, verdict):
    display = LossComparisonDisplay(["a"], [difference], [half_width], margin=0.5).plot()
    assert [text.get_text().partition(": ")[2] for text in display.texts_] == [verdict]


LOSSES = ["hinge", "log_loss", "modified_huber"]


@pytest.fixture(scope="module")
def search(request):
    X, y = request.getfixturevalue("digits")[:2]
    X, y = X[:200], y[:200] % 2
    pipe = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    grid = {"sgdclassifier__loss": LOSSES, "sgdclassifier__alpha": [1e-4, 10.0]}
    # The last one speaks of no loss.
    grids = [grid, {"sgdclassifier__alpha": [1e-3]}]
    scoring = ["accuracy", "roc_auc"]
    return GridSearchCV(pipe, grids, scoring=scoring, refit=False, cv=4).fit(X, y), X, y


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
def test_from_cv_results_compares_the_best_of_each_loss_fold_by_fold(metric, search):
    search, X, y = search
    options = {"metric": metric, "baseline": "log_loss", "overlap": 0.25}
    display = LossComparisonDisplay.from_cv_results(
        search.cv_results_, param="param_sgdclassifier__loss", name="grid", **options
    )
    best = {}
    for loss in LOSSES:
        folds = []
        for alpha in (1e-4, 10.0):
            clf = search.estimator.set_params(sgdclassifier__loss=loss, sgdclassifier__alpha=alpha)
            folds.append(cross_val_score(clf, X, y, scoring=metric, cv=4))
        best[loss] = max(folds, key=np.mean)
    expected = LossComparisonDisplay.from_scores(best, baseline="log_loss", overlap=0.25)
    assert display.names == expected.names == ["hinge", "modified_huber"]
    np.testing.assert_allclose(display.difference, expected.difference)
    np.testing.assert_allclose(display.half_width, expected.half_width)
    assert (display.metric, display.name) == (metric, "grid")


def test_a_loss_that_failed_on_a_fold_is_not_the_best(digits):
    X, y = digits[0][:200], digits[1][:200]
    # alpha=0 fails with this schedule.
    grid = {"loss": ["hinge", "log_loss"], "alpha": [0.0, 1e-3]}
    clf = SGDClassifier(learning_rate="optimal", random_state=0)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        results = GridSearchCV(clf, grid, cv=3).fit(X, y).cv_results_
    display = LossComparisonDisplay.from_cv_results(results, baseline="hinge", overlap=1 / 3)
    assert np.isfinite(display.half_width).all()
    failed = {key: np.asarray(value)[:2] for key, value in results.items()}
    failed["param_loss"] = ["hinge", "log_loss"]
    with pytest.raises(ValueError, match=r"scores\['hinge'\] must be finite; got nan in run 0"):
        LossComparisonDisplay.from_cv_results(failed, baseline="hinge", overlap=1 / 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"param must be one of \['param_sgdc.*got 'param_loss'"),
        (
            {"param": "param_sgdclassifier__loss"},
            r"metric must be one of \['accuracy', 'roc_auc'\]; got 'score'",
        ),
    ],
)
def test_unknown_columns_of_cv_results_are_refused(search, options, message):
    with pytest.raises(ValueError, match=message):
        LossComparisonDisplay.from_cv_results(search[0].cv_results_, overlap=0.25, **options)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"baseline": "hinge"}, ValueError, "key baseline='hinge' and another loss; got"),
        ({"scores": {"cross_entropy": [1, 2]}}, ValueError, "and another loss; got"),
        ({"overlap": 1}, ValueError, "overlap == 1, must be < 1"),
        ({"confidence": 95}, ValueError, "confidence == 95, must be < 1"),
        ({"margin": -0.01}, ValueError, "margin == -0.01, must be >= 0"),
        ({"focal": [1, 2, 3]}, ValueError, "same length for each loss; got.*'focal': 3"),
        ({"focal": [1.0]}, ValueError, r"scores\['focal'\] .* two numbers; got .* \(1,\)"),
        ({"focal": [0.5, np.nan]}, ValueError, r"scores\['focal'\] .* got nan in run 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, error, message):
    scores = {"cross_entropy": [0.5, 0.6], "focal": change.get("focal", [0.4, 0.7])}
    options = {"scores": scores, "overlap": 0.2} | change
    options.pop("focal", None)
    with pytest.raises(error, match=message):
        LossComparisonDisplay.from_scores(**options)
