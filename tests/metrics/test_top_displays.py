import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB

from sktopk.metrics import (
    EnrichmentDisplay,
    PrecisionQuantileDisplay,
    precision_at_k_score,
    recall_at_k_score,
)

matplotlib = pytest.importorskip("matplotlib")

DISPLAYS = [
    (PrecisionQuantileDisplay, ("quantile", "precision"), precision_at_k_score),
    (EnrichmentDisplay, ("fraction", "recall"), recall_at_k_score),
]
every_display = pytest.mark.parametrize(("display_class", "arrays", "score"), DISPLAYS)


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    X, y = make_classification(240, weights=[0.8], n_informative=4, random_state=0)
    y = np.where(y == 1, "yes", "no")
    return GaussianNB().fit(X[:120], y[:120]), X[120:], y[120:]


def curve(display, arrays):
    return tuple(getattr(display, name) for name in arrays)


def names_in_legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@every_display
@pytest.mark.parametrize("ties", ["expected", "pessimistic"])
def test_each_point_is_the_score_at_that_number_of_rows(display_class, arrays, score, ties, fitted):
    estimator, X, y = fitted
    y_score = estimator.predict_proba(X)[:, 1].round(1)
    display = display_class.from_predictions(y, y_score, pos_label="yes", ties=ties)
    x, values = curve(display, arrays)
    np.testing.assert_allclose(x, np.arange(121) / 120)
    for k in range(1, 121):
        assert values[k] == pytest.approx(score(y, y_score, k=k, pos_label="yes", ties=ties))
    assert display.prevalence == pytest.approx((y == "yes").mean())
    assert display.name == "Classifier"


@every_display
def test_from_estimator_is_from_predictions_of_the_positive_class(
    display_class, arrays, score, fitted
):
    estimator, X, y = fitted
    weight = np.random.default_rng(0).random(len(y))
    for column, pos_label in enumerate(["no", "yes"]):
        options = {"pos_label": pos_label, "sample_weight": weight}
        one = display_class.from_estimator(estimator, X, y, **options)
        other = display_class.from_predictions(y, estimator.predict_proba(X)[:, column], **options)
        np.testing.assert_array_equal(curve(one, arrays), curve(other, arrays))
    with pytest.raises(ValueError, match="'no' and 'yes' do not tell which is positive"):
        display_class.from_estimator(estimator, X, y)
    assert one.name == "GaussianNB"
    one = display_class.from_estimator(estimator, X, y, pos_label="yes", name="mine")
    assert one.name == "mine"


@every_display
def test_draws_what_it_holds(display_class, arrays, score):
    display = display_class([0, 0.5, 1], [0.0, 0.6, 0.7], name="mine", prevalence=0.25)
    assert display.plot(linewidth=3) is display
    np.testing.assert_array_equal(display.line_.get_xydata(), [[0, 0], [0.5, 0.6], [1, 0.7]])
    assert display.line_.get_linewidth() == 3
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "Rows looked at, best first"
    assert names_in_legend(display) == ["mine", "Chance", "Ideal"]
    assert display.name == "mine"


@every_display
def test_chance_and_ideal_lines_are_those_of_a_random_and_a_perfect_order(
    display_class, arrays, score
):
    n, n_positive = 40, 10
    perfect = np.arange(n) < n_positive
    display = display_class.from_predictions(perfect, -np.arange(n))
    random = display_class.from_predictions(perfect, np.zeros(n))
    for line, expected in [(display.ideal_, display), (display.chance_level_, random)]:
        x, y = curve(expected, arrays)
        np.testing.assert_allclose(np.interp(x[1:], *line.get_xydata().T), y[1:], atol=2e-3)
    # Nothing exceeds the ideal.
    at, ideal = display.ideal_.get_xydata().T
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = curve(display_class.from_predictions(perfect, rng.normal(size=n)), arrays)
        assert (y[1:] <= np.interp(x[1:], at, ideal) + 2e-3).all()
        matplotlib.pyplot.close("all")


@every_display
def test_curves_on_one_axes_take_the_colours_in_turn_and_share_the_lines(
    display_class, arrays, score, fitted
):
    estimator, X, y = fitted
    y = y == "yes"
    estimator = GaussianNB().fit(X, y)
    first = display_class.from_estimator(estimator, X, y, name="a")
    second = display_class.from_predictions(y, X[:, 0], name="b", ax=first.ax_)
    third = display_class.from_predictions(y[:60], X[:60, 0], name="c", ax=first.ax_)
    assert second.ax_ is first.ax_
    colours = [each.line_.get_color() for each in (first, second, third)]
    assert colours == ["#0072B2", "#D55E00", "#009E73"]
    looks = {(each.line_.get_marker(), each.line_.is_dashed()) for each in (first, second, third)}
    assert len(looks) == 3
    assert second.chance_level_ is first.chance_level_
    assert second.ideal_ is first.ideal_
    assert third.ideal_ is not first.ideal_  # of fewer rows
    assert names_in_legend(third) == ["a", "b", "c", "Chance", "Ideal"]


@every_display
def test_name_and_lines_are_optional(display_class, arrays, score):
    display = display_class([0.5, 1], [0.6, 0.7]).plot()
    assert display.chance_level_ is display.ideal_ is None
    assert display.ax_.get_legend() is None
    display = display_class([0.5, 1], [0.6, 0.7], prevalence=0.2)
    display.plot(name="named", plot_chance_level=False)
    assert display.chance_level_ is None
    assert names_in_legend(display) == ["named", "Ideal"]
    assert display.plot(plot_ideal=False).ideal_ is None
    assert display.name is None


def test_scale_of_the_rows():
    y_true, y_score = np.arange(1000) < 30, np.random.default_rng(0).normal(size=1000)
    enrichment = EnrichmentDisplay.from_predictions(y_true, y_score)
    assert enrichment.ax_.get_xscale() == "log"
    assert enrichment.ax_.get_xlim()[0] > 1e-4
    # No line comes in from the left, where the share 0 would be.
    assert not np.isfinite(enrichment.ax_.xaxis.get_transform().transform([0.0]))
    precision = PrecisionQuantileDisplay.from_predictions(y_true, y_score)
    assert precision.ax_.get_xscale() == "log"
    for display, other in [(enrichment, "linear"), (precision, "linear")]:
        assert display.plot(xscale=other).ax_.get_xscale() == other
    labels = [enrichment.ax_.xaxis.get_major_formatter()(share) for share in (1e-4, 0.01, 1)]
    assert labels == ["0.01%", "1%", "100%"]
    with pytest.raises(ValueError, match="xscale must be one of 'linear', 'log'; got 'logit'"):
        enrichment.plot(xscale="logit")


@every_display
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, csr_array, np.ndarray.tolist])
def test_curves_of_folds(display_class, arrays, score, make, fitted):
    _, X, y = fitted
    estimator = LogisticRegression()
    weight = np.random.default_rng(0).random(len(y))
    results = cross_validate(
        estimator, make(X), y, cv=3, return_estimator=True, return_indices=True
    )
    options = {"pos_label": "yes"}
    display = display_class.from_cv_results(
        results, make(X), y.tolist(), sample_weight=weight, **options
    )
    assert display.name == "LogisticRegression (3 folds)"
    assert len(display.line_) == 3
    prevalence = []
    for i, test in enumerate(results["indices"]["test"]):
        fold = display_class.from_predictions(
            y[test],
            results["estimator"][i].decision_function(X[test]),
            sample_weight=weight[test],
            **options,
        )
        prevalence.append(fold.prevalence)
        np.testing.assert_allclose(
            [each[i] for each in curve(display, arrays)], curve(fold, arrays)
        )
        np.testing.assert_array_equal(
            display.line_[i].get_xydata().T, [each[i] for each in curve(display, arrays)]
        )
    assert display.prevalence == pytest.approx(np.mean(prevalence))
    assert len({line.get_color() for line in display.line_}) == 1
    assert names_in_legend(display) == [display.name, "Chance", "Ideal"]
    second = display_class.from_cv_results(results, make(X), y, name="b", ax=display.ax_, **options)
    assert second.line_[0].get_color() != display.line_[0].get_color()
    assert second.name == "b (3 folds)"


@every_display
def test_without_positives_nothing_is_drawn_and_a_warning_says_so(display_class, arrays, score):
    with pytest.warns(UndefinedMetricWarning, match="no positives"):
        display = display_class.from_predictions([0, 0], [1, 2])
    assert np.isnan(curve(display, arrays)[1]).all()
    assert display.chance_level_ is None


@every_display
def test_what_cannot_be_drawn_is_refused(display_class, arrays, score, fitted):
    estimator, X, y = fitted
    with pytest.raises(ValueError, match="return_estimator=True and return_indices=True; got"):
        display_class.from_cv_results({"test_score": [1.0]}, X, y)
    with pytest.raises(ValueError, match=r"ties must be one of .* got 'some'"):
        display_class.from_estimator(estimator, X, y, pos_label="yes", ties="some")
    one = DummyClassifier().fit(X, ["no"] * len(X))
    with pytest.raises(ValueError, match="two classes; got one from DummyClassifier"):
        display_class.from_estimator(one, X, y)


# Groups of rows.


def share_found(positive, scores, share):
    """Share of the positives in the best rows of a group, one row after the other."""
    left, found = share * len(scores), 0.0
    for row in sorted(range(len(scores)), key=lambda i: -scores[i]):
        found += positive[row] * max(0.0, min(1.0, left))
        left -= 1
    return found / sum(positive)


@every_display
def test_with_groups_it_is_the_mean_over_their_curves(display_class, arrays, score):
    rng = np.random.default_rng(0)
    day = rng.permutation(np.repeat(list("abcd"), [12, 30, 21, 5]))
    y, scores = rng.random(68) < 0.4, rng.permutation(68) / 68
    y[day == "d"] = False
    y[np.flatnonzero(day == "a")[:2]] = True
    display = display_class.from_predictions(y, scores, groups=day, share_of_groups=0.5)
    x, drawn = (getattr(display, name) for name in arrays)
    np.testing.assert_allclose(x, np.arange(31) / 30)
    curves, chances, ideals = [], [], []
    for name in "abc":
        own = day == name
        found = np.array([share_found(y[own], scores[own], share) for share in x[1:]])
        is_recall = arrays[1] == "recall"
        per_row = 1 if is_recall else y[own].mean() / x[1:]
        curves.append(found * per_row)
        chances.append(x[1:] * per_row)
        ideals.append(np.minimum(1, x[1:] / y[own].mean()) * per_row)
    np.testing.assert_allclose(drawn[1:], np.mean(curves, 0))
    np.testing.assert_allclose(display.low[1:], np.quantile(curves, 0.25, axis=0))
    np.testing.assert_allclose(display.high[1:], np.quantile(curves, 0.75, axis=0))
    (path,) = display.band_.get_paths()
    points = {tuple(point) for point in path.vertices.round(9)}
    assert {*zip(x.round(9)[1:], display.low.round(9)[1:], strict=True)} <= points
    for line, each in ((display.chance_level_, chances), (display.ideal_, ideals)):
        at = np.interp(line.get_xdata(), x[1:], np.mean(each, 0))
        np.testing.assert_allclose(line.get_ydata(), at, atol=0.02)


@every_display
def test_equal_groups_have_the_curve_of_one(display_class, arrays, score):
    rng = np.random.default_rng(1)
    y, scores = rng.random(40) < 0.3, rng.integers(0, 9, 40)
    weight = rng.random(40)
    for own in (None, weight):
        twice = None if own is None else np.tile(own, 2)
        display = display_class.from_predictions(
            np.tile(y, 2), np.tile(scores, 2), sample_weight=twice, groups=np.repeat([3, 1], 40)
        )
        one = display_class.from_predictions(y, scores, sample_weight=own)
        x, found = (getattr(one, name) for name in arrays)
        of_part = x if arrays[1] == "precision" else 1.0
        grid, drawn = (getattr(display, name) for name in arrays)
        at = np.interp(grid[1:], x, found * of_part)
        at = at / grid[1:] if arrays[1] == "precision" else at
        np.testing.assert_allclose(drawn[1:], at)
        np.testing.assert_array_equal(display.low, display.high)
        assert one.band_ is None


@every_display
def test_groups_without_positives_and_bad_ones(display_class, arrays, score, fitted):
    clf, X, y = fitted
    day = np.arange(len(y)) % 4
    display = display_class.from_estimator(clf, X, y, pos_label="yes", groups=day)
    assert len(display.prevalence) == 4
    with pytest.raises(ValueError, match="groups must name the group of each of the 120 rows"):
        display_class.from_estimator(clf, X, y, pos_label="yes", groups=day[1:])
    with pytest.raises(ValueError, match="share_of_groups"):
        display_class.from_predictions(y == "yes", X[:, 0], groups=day, share_of_groups=1)
    with pytest.warns(UndefinedMetricWarning, match="no positives"):
        display = display_class.from_predictions([0, 0], [1, 2], pos_label=1, groups=[0, 1])
    assert np.isnan(getattr(display, arrays[1])).all()
    assert display.ideal_ is None
