"""Displays of curves and bars: their arrays, and that they draw these arrays."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sktopk import BudgetClassifier, SetClassifier, metrics
from sktopk.metrics import BudgetCurveDisplay, EnrichmentDisplay, SetSizeDisplay, TopKCurveDisplay

CURVES = {
    TopKCurveDisplay: (("k", "accuracy"), {"max_k": 4, "average": "macro"}),
    EnrichmentDisplay: (("fraction", "recall"), {"pos_label": "yes"}),
    BudgetCurveDisplay: (("k", "score"), {"pos_label": "yes", "metric": "precision"}),
}
every_curve = pytest.mark.parametrize("display_class", CURVES)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(600, weights=[0.8], n_informative=4, flip_y=0.1, random_state=0)
    y = np.where(y == 1, "yes", "no")
    return X[:300], y[:300], X[300:], y[300:]


def curve(display):
    return [getattr(display, name) for name in CURVES[type(display)][0]]


def names_in_legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@every_curve
def test_from_estimator_equals_from_predictions_with_scores_of_the_estimator(display_class, data):
    X, y, X_test, y_test = data
    clf, options = GaussianNB().fit(X, y), CURVES[display_class][1]
    one = display_class.from_estimator(clf, X_test, y_test, **options)
    proba, of_labels = clf.predict_proba(X_test), display_class is TopKCurveDisplay
    given = options | ({"labels": clf.classes_} if of_labels else {})
    other = display_class.from_predictions(y_test, proba if of_labels else proba[:, 1], **given)
    np.testing.assert_equal(curve(one), curve(other))
    assert (one.name, other.name) == ("GaussianNB", "Classifier")


@pytest.mark.parametrize("display_class", [EnrichmentDisplay, BudgetCurveDisplay])
def test_from_estimator_scores_the_given_positive_label(display_class, data):
    X, y, X_test, y_test = data
    clf, options = GaussianNB().fit(X, y), CURVES[display_class][1]
    with pytest.raises(ValueError, match=r"pos_label must be given .* 'no' and 'yes'"):
        display_class.from_estimator(clf, X_test, y_test)
    turned = display_class.from_estimator(clf, X_test, y_test, **options | {"pos_label": "no"})
    y_score, no_label = clf.predict_proba(X_test)[:, 0], options | {"pos_label": None}
    other = display_class.from_predictions(y_test == "no", y_score, **no_label)
    np.testing.assert_array_equal(curve(turned)[1], curve(other)[1])
    one_class = DummyClassifier().fit(X, ["no"] * len(X))
    with pytest.raises(ValueError, match="two classes; got one class from DummyClassifier"):
        display_class.from_estimator(one_class, X_test, y_test, **options)


@every_curve
@pytest.mark.parametrize("make", [pd.DataFrame, coo_matrix, np.ndarray.tolist])
def test_the_curve_of_a_fold_uses_its_test_samples(display_class, make, data):
    X, y = data[0][:200], data[1][:200]
    value, weight = np.arange(200.0), np.random.default_rng(0).random(200)
    options, arrays = dict(CURVES[display_class][1]), {"sample_weight": weight}
    if display_class is BudgetCurveDisplay:
        options, arrays = {"pos_label": "yes", "budget": 9}, {"value": value}
    clf = LogisticRegression(max_iter=1000)
    results = cross_validate(clf, make(X), y, cv=3, return_estimator=True, return_indices=True)
    given = {**options, **{name: each.tolist() for name, each in arrays.items()}}
    display = display_class.from_cv_results(results, make(X), y.tolist(), **given)
    assert display.name == "LogisticRegression (3 folds)"
    for i, test in enumerate(results["indices"]["test"]):
        own = {name: each[test] for name, each in arrays.items()}
        of_fold = results["estimator"][i], X[test], y[test]
        fold = display_class.from_estimator(*of_fold, **options, **own)
        for left, right in zip(curve(display), curve(fold), strict=True):
            np.testing.assert_allclose(left[i], right)
        drawn = display.line_[i].get_xydata().T
        np.testing.assert_array_equal(drawn, [each[i] for each in curve(display)])
    assert len({line.get_color() for line in display.line_}) == 1
    second = display_class.from_cv_results(
        results, make(X), y, name="b", ax=display.ax_, plot_chance_level=False, **options
    )
    assert second.line_[0].get_color() != display.line_[0].get_color()
    assert (second.name, second.chance_level_) == ("b (3 folds)", None)
    for lacking in ({"test_score": [1.0]}, {"estimator": []}):
        with pytest.raises(ValueError, match="return_estimator=True and return_indices=True; got"):
            display_class.from_cv_results(lacking, X, y)


@every_curve
def test_the_figure_shows_the_arrays_of_the_display(display_class):
    chance = {"chance": [0.1, 0.2, 0.5]}
    chance = {"prevalence": 0.25} if display_class is EnrichmentDisplay else chance
    display = display_class([0.1, 0.5, 1], [0.2, 0.6, 0.7], name="mine", **chance)
    assert display.plot(linewidth=3) is display
    np.testing.assert_array_equal(display.line_.get_xydata(), [[0.1, 0.2], [0.5, 0.6], [1, 0.7]])
    assert display.line_.get_linewidth() == 3
    assert display.figure_ is display.ax_.figure
    assert {"mine", "Chance"} <= set(names_in_legend(display))
    second = display_class([0.1, 0.5, 1], [0.3, 0.6, 0.7], name="other", **chance)
    second.plot(display.ax_, name="second")
    assert second.chance_level_ is display.chance_level_
    assert second.line_.get_color() != display.line_.get_color()
    assert second.line_.get_marker() != display.line_.get_marker()
    assert names_in_legend(second)[:2] == ["mine", "second"]
    bare = display_class([0.1, 0.5, 1], [0.2, 0.6, 0.7]).plot()
    assert bare.chance_level_ is None
    assert bare.ax_.get_legend() is None


def test_topk_curve_has_the_accuracy_at_each_k():
    rng = np.random.default_rng(0)
    y, scores, weight = rng.integers(0, 7, 50), rng.integers(0, 9, (50, 6)), rng.random(50)
    options = {"average": "macro", "ties": "optimistic", "sample_weight": weight}
    options["labels"] = np.arange(6)
    display = TopKCurveDisplay.from_predictions(y, scores, max_k=4, **options)
    for k, accuracy in zip([1, 2, 3, 4], display.accuracy, strict=True):
        assert accuracy == metrics.topk_accuracy_score(y, scores, k=k, **options)
    np.testing.assert_array_equal(display.chance, display.k / 6)
    whole = TopKCurveDisplay.from_predictions(y, scores, labels=np.arange(6))
    assert len(whole.k) == 6  # max_k is cut to the number of classes
    with pytest.raises(ValueError, match="max_k must be at least 1; got 0"):
        TopKCurveDisplay.from_predictions(y, scores, max_k=0, **options)


@pytest.mark.parametrize("ties", ["expected", "pessimistic"])
def test_enrichment_curve_has_the_recall_at_each_k(ties, data):
    X, y, X_test, y_test = data
    y_score = GaussianNB().fit(X, y).predict_proba(X_test)[:, 1].round(1)
    options = {"pos_label": "yes", "ties": ties}
    display = EnrichmentDisplay.from_predictions(y_test, y_score, **options)
    np.testing.assert_allclose(display.fraction, np.arange(301) / 300)
    for k in range(1, 301):
        expected = metrics.recall_at_k_score(y_test, y_score, k=k, **options)
        assert display.recall[k] == pytest.approx(expected)
    assert display.prevalence == pytest.approx((y_test == "yes").mean())


def test_chance_and_ideal_lines_are_curves_of_a_random_and_a_perfect_order():
    perfect = np.arange(40) < 10
    display = EnrichmentDisplay.from_predictions(perfect, -np.arange(40))
    random = EnrichmentDisplay.from_predictions(perfect, np.zeros(40), ax=display.ax_)
    assert random.ideal_ is display.ideal_
    for line, expected in [(display.ideal_, display), (display.chance_level_, random)]:
        at = np.interp(expected.fraction[1:], *line.get_xydata().T)
        np.testing.assert_allclose(at, expected.recall[1:], atol=2e-3)
    assert display.ax_.get_xscale() == "log"
    assert display.plot(xscale="linear", plot_ideal=False).ideal_ is None
    with pytest.raises(ValueError, match="xscale must be one of 'linear', 'log'; got 'logit'"):
        display.plot(xscale="logit")
    with pytest.warns(UndefinedMetricWarning, match="no positives"):
        nothing = EnrichmentDisplay.from_predictions([0, 0], [1, 2])
    assert np.isnan(nothing.recall).all()
    assert nothing.chance_level_ is None


def expected_gain(gain, scores, k):
    """Gain of the k best samples, averaged over the orders of the samples tied with the k-th."""
    cut = sorted(scores, reverse=True)[k - 1]
    above = [g for g, s in zip(gain, scores, strict=True) if s > cut]
    tied = [g for g, s in zip(gain, scores, strict=True) if s == cut]
    return sum(above) + (k - len(above)) * sum(tied) / len(tied)


@pytest.mark.parametrize("metric", ["precision", "recall", "value"])
def test_each_point_of_a_budget_curve_is_the_gain_of_k_samples(metric, rng):
    y, scores = rng.random(40) < 0.3, rng.integers(0, 12, size=40)
    value = rng.random(40) * 100
    given = {"value": value} if metric == "value" else {"metric": metric}
    display = BudgetCurveDisplay.from_predictions(y, scores, **given)
    worth = value if metric == "value" else np.ones(40)
    gain = [float(label) * each for label, each in zip(y, worth, strict=True)]
    best = sorted(gain, reverse=True)
    assert display.metric == metric
    for k in range(1, 41):
        by = {"precision": k, "recall": sum(y), "value": 1}[metric]
        assert display.score[k - 1] == pytest.approx(expected_gain(gain, scores, k) / by)
        assert display.chance[k - 1] == pytest.approx(sum(gain) * k / 40 / by)
        assert display.ideal[k - 1] == pytest.approx(sum(best[:k]) / by)
    part = BudgetCurveDisplay.from_predictions(y, scores, max_k=7, budget=20, **given)
    with pytest.warns(UserWarning, match="budget=41 is not marked, because .* only 40 samples"):
        BudgetCurveDisplay.from_predictions(y, scores, budget=41, **given)
    for name in ("k", "score", "chance", "ideal"):
        np.testing.assert_array_equal(getattr(part, name), getattr(display, name)[:7])
    assert part.budget_ is None


@pytest.mark.parametrize("metric", ["precision", "recall", "value"])
def test_a_budget_curve_with_groups_is_the_mean_of_the_curves_of_the_groups(metric, rng):
    day = rng.permutation(np.repeat(list("abcd"), [12, 30, 21, 5]))
    y, scores, value = rng.random(68) < 0.4, rng.integers(0, 12, 68), rng.random(68)
    y[day == "d"], y[np.flatnonzero(day == "a")[:2]] = False, True

    def draw(rows, **options):
        given = {"value": value[rows]} if metric == "value" else {"metric": metric}
        options = {"pos_label": True} | given | options
        return BudgetCurveDisplay.from_predictions(y[rows], scores[rows], **options)

    display = draw(slice(None), groups=day, share_of_groups=0.5, budget=5)
    alone = [draw(day == name) for name in ("abc" if metric == "recall" else "abcd")]
    np.testing.assert_array_equal(display.k, np.arange(1, 31))
    for name in ("score", "chance", "ideal"):
        lines = [getattr(each, name) for each in alone]
        curves = np.array([[line[min(k, len(line) - 1)] for k in range(30)] for line in lines])
        if metric == "precision":  # small groups also divide by k
            curves *= [np.minimum(1, len(line) / display.k) for line in lines]
        np.testing.assert_allclose(getattr(display, name), np.mean(curves, 0))
        if name == "score":
            inside = (display.low <= curves + 1e-9) & (curves <= display.high + 1e-9)
            assert (inside.mean(0) >= 0.5).all()
    drawn = {tuple(point) for point in display.band_.get_paths()[0].vertices.round(9)}
    assert {*zip(display.k, display.low.round(9), strict=True)} <= drawn
    assert display.budget_.get_xdata().tolist() == [5]
    with pytest.raises(ValueError, match="share_of_groups"):
        draw(slice(None), groups=day, share_of_groups=1)


def test_recall_without_positives_is_nan_with_a_warning(data):
    for groups in (None, ["a", "b"]):
        with pytest.warns(UndefinedMetricWarning, match="no positives in y_true, so recall is NaN"):
            display = BudgetCurveDisplay.from_predictions([0, 0], [1, 2], groups=groups)
        assert np.isnan(display.score).all()
    X, y, *_ = data
    y = np.where(np.arange(300) < 100, 0, y == "yes")
    of_folds = {"return_estimator": True, "return_indices": True}
    results = cross_validate(GaussianNB(), X, y, cv=KFold(3), **of_folds)
    with pytest.warns(UndefinedMetricWarning, match="no positives in y_true, so recall is NaN"):
        display = BudgetCurveDisplay.from_cv_results(results, X, y)
    with pytest.warns(UndefinedMetricWarning, match="EnrichmentDisplay: no positives"):
        assert EnrichmentDisplay.from_cv_results(results, X, y).prevalence == y[100:].mean()
    # A fold without positives does not change the lines of the other folds.
    np.testing.assert_allclose(display.chance, np.arange(1, 101) / 100)
    assert display.ideal[-1] == 1


def test_the_curve_of_a_budget_classifier_marks_its_budget_and_uses_its_pos_label(data):
    X, y, X_test, y_test = data
    inner = FrozenEstimator(LogisticRegression().fit(X, y))
    for pos_label in ("yes", "no"):
        clf = BudgetClassifier(inner, budget=0.1, pos_label=pos_label).fit(X, y)
        one = BudgetCurveDisplay.from_estimator(clf, X_test, y_test)
        other = BudgetCurveDisplay.from_estimator(inner, X_test, y_test, pos_label=pos_label)
        np.testing.assert_array_equal(one.score, other.score)
        n_selected = np.sum(clf.predict(X_test) == pos_label)
        marked = [[n_selected, one.score[n_selected - 1]]]
        np.testing.assert_array_equal(one.budget_.get_xydata(), marked)
        assert other.budget_ is None
        reverse = {"yes": "no", "no": "yes"}[pos_label]
        one = BudgetCurveDisplay.from_estimator(clf, X_test, y_test, pos_label=reverse)
        assert one.budget == 300 - n_selected
    day = np.arange(300) % 7
    assert BudgetCurveDisplay.from_estimator(clf, X_test, y_test, groups=day).budget is None
    results = {"estimator": [clf], "indices": {"test": [np.arange(300)]}}
    folds = BudgetCurveDisplay.from_cv_results(results, X_test, y_test)
    assert folds.score[0][n_selected - 1] == marked[0][1]
    with pytest.raises(ValueError, match="groups must be None for from_cv_results"):
        BudgetCurveDisplay.from_cv_results(results, X_test, y_test, groups=day)


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"budget": 100}, 400), ({"budget": 100, "n_budgets": 10}, 1000), ({}, 2000),
        ({"budget": 100, "n_budgets": None}, 2000), ({"budget": 100, "max_k": 1500}, 1500),
        ({"budget": 900}, 2000),
    ],
)  # fmt: skip
def test_the_axis_ends_at_four_times_the_budget_unless_parameters_extend_it(params, shown, rng):
    rows = np.arange(2000) % 20 == 0, rng.normal(size=2000)
    display = BudgetCurveDisplay.from_predictions(*rows, **params)
    assert shown <= display.ax_.get_xlim()[1] <= 1.06 * shown
    high = BudgetCurveDisplay.from_predictions(*rows, budget=10, plot_ideal=False)
    reached = max(high.score[:40].max(), high.chance[:40].max())
    assert reached <= high.ax_.get_ylim()[1] <= 1.1 * reached
    again = BudgetCurveDisplay.from_predictions(*rows, budget=100, label="again", ax=high.ax_)
    assert (again.line_.get_label(), again.ax_.get_xlim()[1] > 399) == ("again", True)
    options = {"budget": 2, "plot_ideal": False, "groups": np.arange(2000) // 50}
    high = BudgetCurveDisplay.from_predictions(*rows, **options)
    assert high.high[:8].max() <= high.ax_.get_ylim()[1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"y_true": [], "y_score": []}, ValueError, "y_true must have at least one label; got 0"),
        ({"metric": "money"}, ValueError, "metric must be one of .* got 'money'"),
        ({"metric": "value"}, ValueError, "if and only if .* got no value"),
        ({"metric": "recall", "value": [1, 2]}, ValueError, "if and only if .* got a value"),
        ({"value": [1, -2]}, ValueError, "value must be finite and nonnegative; got -2"),
        ({"value": [1, 2, 3]}, ValueError, "value must be 2 numbers"),
        ({"max_k": 0}, ValueError, "max_k must be at least 1; got 0"),
        ({"budget": 0.5}, TypeError, r"budget must be an integer; got 0\.5"),
    ],
)
def test_wrong_arguments_of_budget_curves_raise(options, error, message):
    with pytest.raises(error, match=message):
        BudgetCurveDisplay.from_predictions(**{"y_true": [0, 1], "y_score": [1, 2]} | options)


@pytest.mark.parametrize("largest", [0, 10, 11, 20, 21, 1000, 1001])
def test_bins_of_set_sizes_are_adjacent_and_end_with_the_largest_size(largest):
    n_classes = max(largest, 1)
    y_set = np.arange(n_classes) < np.array([[0], [largest]])
    display = SetSizeDisplay.from_predictions([0, 0], y_set, labels=range(n_classes))
    ends = [*range(11), 20, 50, 100, 200, 500, 1000, 2000]
    np.testing.assert_array_equal(display.upper, ends[: len(display.upper)])
    assert display.lower[-1] <= largest <= display.upper[-1]
    assert (display.lower[1:] == display.upper[:-1] + 1).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_set_size_displays_have_the_share_and_coverage_of_each_size():
    rng = np.random.default_rng(0)
    y_true, y_set, weight = rng.integers(0, 5, 300), rng.random((300, 5)) < 0.4, rng.random(300)
    y_set[y_set.sum(axis=1) == 3] = False
    weight[y_set.sum(axis=1) == 5] = 0
    options, n_labels = {"labels": range(5), "sample_weight": weight}, y_set.sum(axis=1)
    display = SetSizeDisplay.from_predictions(y_true, y_set, target=0.9, **options)
    assert display.lower.tolist() == display.upper.tolist() == [0, 1, 2, 3, 4]
    shares = [weight[n_labels == size].sum() / weight.sum() for size in range(5)]
    np.testing.assert_allclose(display.proportion, shares)
    for size, coverage in enumerate(display.coverage):
        options["sample_weight"] = weight * (n_labels == size)
        expected = metrics.set_coverage_score(y_true, y_set, **options)
        assert coverage == pytest.approx(expected, nan_ok=True)
    np.testing.assert_allclose([bar.get_height() for bar in display.bars_], display.proportion)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.coverage)
    assert set(display.target_line_.get_ydata()) == {0.9}
    with pytest.raises(ValueError, match="sample_weight must have a positive value"):
        SetSizeDisplay.from_predictions([0], [[1]], labels=[0], sample_weight=[0])


def test_set_sizes_from_an_estimator_equal_those_of_its_sets(data):
    X, y, X_test, y_test = data
    clf = SetClassifier(GaussianNB(), method="aps", coverage=0.8, random_state=0).fit(X, y)
    one = SetSizeDisplay.from_estimator(clf, X_test, y_test)
    other = SetSizeDisplay.from_predictions(y_test, clf.predict_set(X_test), labels=clf.classes_)
    np.testing.assert_array_equal(one.coverage, other.coverage)
    assert (one.name, one.target, other.target) == ("SetClassifier (aps)", 0.8, None)
    with pytest.raises(ValueError, match="labels must be None or the classes"):
        SetSizeDisplay.from_estimator(clf, X_test, y_test, labels=["yes", "no"])
    top = SetClassifier(GaussianNB(), method="topk", k=1).fit(X, y)
    assert SetSizeDisplay.from_estimator(top, X_test, y_test).target is None
    with pytest.raises(TypeError, match="must have predict_set"):
        SetSizeDisplay.from_estimator(clf.estimator_, X_test, y_test)


COUNTS = {0: 500, 1: 300, 2: 60, 3: 50, 4: 5}  # a missing class has the count 0


def test_bars_show_the_values_of_shot_accuracy_score():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 6, 200)
    X[:, 0] += y
    fitted, weight = GaussianNB().fit(X, y), rng.random(200)
    options = {"class_counts": COUNTS, "k": 2, "few": 10, "many": 100, "sample_weight": weight}
    draw = metrics.ShotAccuracyDisplay.from_estimator
    display = draw(fitted, X, y, **options)
    expected = metrics.shot_accuracy_score(y, fitted.predict_proba(X), **options)
    assert display.accuracy == list(expected.values())
    assert [bar.get_height() for bar in display.bars_] == display.accuracy
    assert display.chance == 1 / 3
    np.testing.assert_array_equal(display.chance_level_.get_ydata(), [1 / 3, 1 / 3])
    again = display.plot(display.ax_, name="again")
    assert again.chance_level_ is display.chance_level_
    assert names_in_legend(again) == ["GaussianNB", "again", "Chance"]
    with pytest.warns(UndefinedMetricWarning):
        own = draw(fitted, X, y, k=0.25, plot_chance_level=False)
    assert (own.chance, own.chance_level_) == (1 / 3, None)  # a fraction is rounded up
    with pytest.raises(ValueError, match=r"class_counts must be given.*KNeighborsClassifier"):
        draw(KNeighborsClassifier().fit(X, y), X, y)
