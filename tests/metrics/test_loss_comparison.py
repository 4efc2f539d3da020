import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk.metrics import LossComparisonDisplay
from tests.model_selection.test_loss_comparison import SCORES, comparison


@pytest.mark.parametrize(("overlap", "confidence"), [(0.2, 0.95), (0.5, 0.8), (0, 0.99)])
def test_intervals_of_the_display_equal_those_of_the_summary(overlap, confidence):
    options = {"overlap": overlap, "baseline": "focal"}
    display = comparison(SCORES).plot(confidence=confidence, **options)
    assert display.names == ["cross_entropy", "smooth_topk", "ldam"]
    summary = comparison(SCORES, **options).summary(confidence=confidence).loc[display.names]
    np.testing.assert_allclose(display.difference, summary["difference"])
    np.testing.assert_allclose(display.difference - display.half_width, summary["low"])
    np.testing.assert_allclose(display.difference + display.half_width, summary["high"])


@pytest.mark.parametrize(
    ("difference", "half_width", "verdict"),
    [
        (0.5, 0.25, "better"),
        (-0.5, 0.25, "worse"),
        # Next: intervals that end at zero or at an end of the margin.
        (0.25, 0.25, "equivalent"),
        (0.0, 0.5, "equivalent"),
        (0.125, 0.375, "equivalent"),
        (-0.125, 0.375, "equivalent"),
        (0.125, 0.5, "inconclusive"),
        (-0.25, 0.5, "inconclusive"),
        (0.0, 0.625, "inconclusive"),
        # A significant difference is reported, even within the margin.
        (0.125, 0.0625, "better"),
        (0.0, 0.0, "equivalent"),
    ],
)
def test_the_verdict_follows_from_the_interval(difference, half_width, verdict):
    display = LossComparisonDisplay(["a"], [difference], [half_width], margin=0.5).plot()
    assert [text.get_text().partition(": ")[2] for text in display.texts_] == [verdict]


LOSSES, PARAM = ["hinge", "log_loss", "modified_huber"], "param_sgdclassifier__loss"
ALPHAS = [1e-3, 1e-2]  # with log_loss, both have the same mean accuracy: the first is taken


@pytest.fixture(scope="module")
def search(request):
    X, y = request.getfixturevalue("digits")[:2]
    X, y = X[:200], y[:200] % 2
    pipe = make_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    grid = {"sgdclassifier__loss": LOSSES, "sgdclassifier__alpha": ALPHAS}
    # The second grid has no parameter with the name of a loss.
    grids, scoring = [grid, {"sgdclassifier__alpha": [1e-3]}], ["accuracy", "roc_auc"]
    return GridSearchCV(pipe, grids, scoring=scoring, refit=False, cv=4).fit(X, y), X, y


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
def test_from_cv_results_compares_the_best_of_each_loss_fold_by_fold(metric, search):
    search, X, y = search
    options = {"metric": metric, "baseline": "log_loss", "overlap": 0.25, "param": PARAM}
    display = LossComparisonDisplay.from_cv_results(search.cv_results_, name="grid", **options)
    best = {}
    for loss in LOSSES:
        folds = []
        for alpha in ALPHAS:
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
    # A fit with alpha=0 fails with the learning rate "optimal".
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


def test_unknown_columns_of_cv_results_raise(search):
    results = {"cv_results": search[0].cv_results_, "overlap": 0.25}
    with pytest.raises(ValueError, match=r"param must be one of \['param_sgdc.*got 'param_loss'"):
        LossComparisonDisplay.from_cv_results(**results)
    with pytest.raises(ValueError, match=r"metric must .* \['accuracy', 'roc_auc'\]; got 'score'"):
        LossComparisonDisplay.from_cv_results(**results, param=PARAM)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"baseline": "hinge"}, ValueError, "scores must have the key 'hinge' .*; got"),
        ({"scores": {"cross_entropy": [1, 2]}}, ValueError, "and another; got"),
        ({"overlap": 1}, ValueError, "overlap == 1, must be < 1"),
        ({"confidence": 95}, ValueError, "confidence == 95, must be < 1"),
        ({"margin": -0.01}, ValueError, "margin == -0.01, must be >= 0"),
        ({"focal": [1, 2, 3]}, ValueError, "same length for each loss; got.*'focal': 3"),
        ({"focal": [1.0]}, ValueError, r"scores\['focal'\] .* two numbers; got .* \(1,\)"),
        ({"focal": [0.5, np.nan]}, ValueError, r"scores\['focal'\] .* got nan in run 1"),
    ],
)
def test_results_that_cannot_be_compared_raise(change, error, message):
    scores = {"cross_entropy": [0.5, 0.6], "focal": change.get("focal", [0.4, 0.7])}
    options = {"scores": scores, "overlap": 0.2} | change
    options.pop("focal", None)
    with pytest.raises(error, match=message):
        LossComparisonDisplay.from_scores(**options)
