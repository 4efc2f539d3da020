import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_validate
from sklearn.tree import DecisionTreeClassifier

from sktopk import BudgetClassifier
from sktopk.metrics import BudgetCurveDisplay

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(600, weights=[0.8], flip_y=0.1, random_state=0)
    return X[:300], y[:300], X[300:], y[300:]


def expected_gain(gain, scores, k):
    """Gain of the k best rows, as the mean over the orders of the rows that tie with the k-th."""
    cut = sorted(scores, reverse=True)[k - 1]
    above = [g for g, s in zip(gain, scores, strict=True) if s > cut]
    tied = [g for g, s in zip(gain, scores, strict=True) if s == cut]
    return sum(above) + (k - len(above)) * sum(tied) / len(tied)


@pytest.mark.parametrize("metric", ["precision", "recall", "value"])
def test_each_point_is_what_k_rows_bring(metric, rng):
    y, scores = rng.random(40) < 0.3, rng.integers(0, 12, size=40)
    value = rng.random(40) * 100
    given = {"value": value} if metric == "value" else {}
    display = BudgetCurveDisplay.from_predictions(y, scores, metric=metric, **given)
    gain = [float(label) * (v if given else 1) for label, v in zip(y, value, strict=True)]
    best = sorted(gain, reverse=True)
    assert display.k.tolist() == list(range(1, 41))
    for k, score, chance, ideal in zip(
        display.k, display.score, display.chance, display.ideal, strict=True
    ):
        by = {"precision": k, "recall": sum(y), "value": 1}[metric]
        assert score == pytest.approx(expected_gain(gain, scores, k) / by)
        assert chance == pytest.approx(sum(gain) * k / 40 / by)
        assert ideal == pytest.approx(sum(best[:k]) / by)


def test_value_is_drawn_if_given_and_recall_if_not():
    y, scores = [0, 1, 1], [1, 2, 3]
    assert BudgetCurveDisplay.from_predictions(y, scores).metric == "recall"
    display = BudgetCurveDisplay.from_predictions(y, scores, value=[7, 5, 3])
    assert display.metric == "value"
    assert display.score.tolist() == [3, 8, 8]
    assert display.ax_.get_ylabel() == "Value of the positives found"


@pytest.mark.parametrize("pos_label", ["spam", "ham"])
def test_from_estimator_is_from_predictions_of_the_positive_class(pos_label, data):
    X, y, X_test, y_test = data
    labels = np.array(["spam", "ham"])[1 - y_test]
    clf = LogisticRegression().fit(X, np.array(["spam", "ham"])[1 - y])
    params = {"metric": "precision"}
    one = BudgetCurveDisplay.from_estimator(clf, X_test, labels, pos_label=pos_label, **params)
    score = clf.decision_function(X_test) * (1 if pos_label == "spam" else -1)
    other = BudgetCurveDisplay.from_predictions(labels == pos_label, score, **params)
    np.testing.assert_array_equal(one.score, other.score)
    assert (one.name, other.name) == ("LogisticRegression", "Classifier")
    assert one.budget is None
    assert one.budget_ is None
    with pytest.raises(ValueError, match="'ham' and 'spam' do not tell which is positive"):
        BudgetCurveDisplay.from_estimator(clf, X_test, labels)
    results = {"estimator": [clf], "indices": {"test": [np.arange(len(labels))]}}
    folds = BudgetCurveDisplay.from_cv_results(
        results, X_test, labels, pos_label=pos_label, **params
    )
    np.testing.assert_array_equal(folds.score[0], other.score)


def test_a_budget_classifier_is_drawn_for_what_it_flags(data):
    X, y, X_test, y_test = data
    labels, labels_test = (np.where(each == 1, "ham", "spam") for each in (y, y_test))
    inner = FrozenEstimator(LogisticRegression().fit(X, labels))
    for pos_label in ("ham", "spam"):
        clf = BudgetClassifier(inner, budget=0.1, pos_label=pos_label).fit(X, labels)
        one = BudgetCurveDisplay.from_estimator(clf, X_test, labels_test)
        other = BudgetCurveDisplay.from_estimator(inner, X_test, labels_test, pos_label=pos_label)
        np.testing.assert_array_equal(one.score, other.score)
        assert one.budget == np.sum(clf.predict(X_test) == pos_label)


def test_classifiers_with_probabilities_only_are_drawn(data):
    X, y, X_test, y_test = data
    clf = DecisionTreeClassifier(max_depth=3).fit(X, y)
    one = BudgetCurveDisplay.from_estimator(clf, X_test, y_test)
    other = BudgetCurveDisplay.from_predictions(y_test, clf.predict_proba(X_test)[:, 1])
    np.testing.assert_array_equal(one.score, other.score)


@pytest.mark.parametrize(("per", "budget"), [("batch", 25), ("fit", 0.1), ("group", 5)])
def test_budget_of_a_budget_classifier_is_marked(per, budget, data):
    X, y, X_test, y_test = data
    inner = LogisticRegression().fit(X, y)
    clf = BudgetClassifier(FrozenEstimator(inner), budget=budget, per=per).fit(X, y)
    display = BudgetCurveDisplay.from_estimator(clf, X_test, y_test, name="mine")
    plain = BudgetCurveDisplay.from_estimator(inner, X_test, y_test)
    np.testing.assert_array_equal(display.score, plain.score)
    if per == "group":
        assert display.budget_ is None
        return
    n_flagged = int(np.sum(clf.predict(X_test) == 1))
    assert display.budget == n_flagged
    np.testing.assert_array_equal(
        display.budget_.get_xydata(), [[n_flagged, display.score[n_flagged - 1]]]
    )
    assert display.budget_.get_color() == display.line_.get_color()
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["mine", f"Budget: {n_flagged} rows", "Chance", "Ideal"]


@pytest.mark.filterwarnings("ignore:fpr <= 0.001")
def test_ranking_is_drawn_where_nothing_may_be_flagged(data):
    X, y, X_test, y_test = data
    inner = LogisticRegression().fit(X, y)
    clf = BudgetClassifier(FrozenEstimator(inner), budget=0.001, constraint="fpr").fit(X, y)
    display = BudgetCurveDisplay.from_estimator(clf, X_test, y_test)
    plain = BudgetCurveDisplay.from_estimator(inner, X_test, y_test)
    np.testing.assert_array_equal(display.score, plain.score)
    assert display.budget_ is None


@pytest.mark.parametrize("metric", ["precision", "recall", "value"])
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame])
def test_curves_of_folds_are_those_of_their_test_rows(make, metric, data):
    X, y, _, _ = data
    X, y = X[:200], y[:200]  # folds of 67, 67 and 66 rows
    value = np.arange(200.0) if metric == "value" else None
    clf = BudgetClassifier(LogisticRegression(), budget=9, per="batch")
    results = cross_validate(clf, make(X), y, cv=3, return_estimator=True, return_indices=True)
    display = BudgetCurveDisplay.from_cv_results(
        results, make(X), y, metric=metric, value=value, budget=9
    )
    assert display.name == "BudgetClassifier (3 folds)"
    folds = []
    for i, test in enumerate(results["indices"]["test"]):
        inner = results["estimator"][i].estimator_
        fold = BudgetCurveDisplay.from_estimator(
            inner,
            make(X[test]),
            y[test],
            metric=metric,
            value=None if value is None else value[test],
        )
        np.testing.assert_array_equal(display.k[i], fold.k)
        np.testing.assert_array_equal(display.score[i], fold.score)
        np.testing.assert_array_equal(display.line_[i].get_xydata().T, [fold.k, fold.score])
        folds.append(fold)
    for name in ("chance", "ideal"):
        expected = np.mean([getattr(fold, name)[:66] for fold in folds], axis=0)
        np.testing.assert_allclose(getattr(display, name), expected)
    assert len({line.get_color() for line in display.line_}) == 1
    stars = [[9, fold.score[8]] for fold in folds]
    np.testing.assert_array_equal(display.budget_.get_xydata(), stars)
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == [display.name, "Budget: 9 rows", "Chance", "Ideal"]
    second = BudgetCurveDisplay.from_cv_results(
        results, make(X), y, metric=metric, value=value, name="b", max_k=5, ax=display.ax_
    )
    assert second.line_[0].get_color() != display.line_[0].get_color()
    assert second.name == "b (3 folds)"
    assert second.budget_ is None
    assert [len(k) for k in second.k] == [5, 5, 5] == [len(second.ideal)] * 3


def test_a_fold_without_positives_leaves_the_lines_of_the_others(data):
    X, y, *_ = data
    y = np.where(np.arange(300) < 100, 0, y)
    results = cross_validate(
        LogisticRegression(), X, y, cv=KFold(3), return_estimator=True, return_indices=True
    )
    with pytest.warns(UndefinedMetricWarning, match="no positives, recall is NaN"):
        display = BudgetCurveDisplay.from_cv_results(results, X, y)
    assert np.isnan(display.score[0]).all()
    np.testing.assert_allclose(display.chance, np.arange(1, 101) / 100)
    assert display.ideal[-1] == 1


def test_values_must_be_those_of_all_rows_of_the_folds(data):
    X, y, *_ = data
    results = cross_validate(
        LogisticRegression(), X, y, cv=3, return_estimator=True, return_indices=True
    )
    with pytest.raises(ValueError, match="value must be 300 numbers, one per row of X"):
        BudgetCurveDisplay.from_cv_results(results, X, y, value=np.ones(301))
    with pytest.raises(ValueError, match=r"value must be passed with metric=.*no value"):
        BudgetCurveDisplay.from_cv_results(results, X, y, metric="value")
    with pytest.raises(ValueError, match="return_estimator=True and return_indices=True; got"):
        BudgetCurveDisplay.from_cv_results({"test_score": [1.0]}, X, y)


def test_draws_what_it_holds():
    display = BudgetCurveDisplay(
        [1, 2, 5], [0.2, 0.7, 0.9], chance=[0.1, 0.2, 0.5], ideal=[0.5, 1, 1], budget=2, name="a"
    )
    assert display.plot(linewidth=3) is display
    np.testing.assert_array_equal(display.line_.get_xydata(), [[1, 0.2], [2, 0.7], [5, 0.9]])
    np.testing.assert_array_equal(display.chance_level_.get_ydata(), [0.1, 0.2, 0.5])
    np.testing.assert_array_equal(display.ideal_.get_ydata(), [0.5, 1, 1])
    np.testing.assert_array_equal(display.budget_.get_xydata(), [[2, 0.7]])
    assert display.line_.get_linewidth() == 3
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "k (rows looked at, best first)"
    assert display.ax_.get_ylabel() == "Share of the positives found"


def test_curves_on_one_axes_differ_and_share_the_lines():
    y, value = [0, 1, 0, 1, 0], [9, 8, 7, 6, 5]
    first = BudgetCurveDisplay.from_predictions(y, [1, 2, 3, 4, 5], value=value, budget=2, name="a")
    second = BudgetCurveDisplay.from_predictions(
        y, [1, 5, 4, 3, 2], value=value, budget=2, name="b", ax=first.ax_
    )
    third = BudgetCurveDisplay.from_predictions(
        y, [5, 4, 3, 2, 1], value=value, budget=3, name="c", ax=first.ax_
    )
    curves = [first.line_, second.line_, third.line_]
    assert [line.get_color() for line in curves] == ["#0072B2", "#D55E00", "#009E73"]
    assert len({line.get_marker() for line in curves}) == 3
    assert second.chance_level_ is third.chance_level_ is first.chance_level_
    assert second.ideal_ is third.ideal_ is first.ideal_
    names = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert names == ["a", "Budget: 2 rows", "b", "c", "Budget: 3 rows", "Chance", "Ideal"]


def test_lines_are_optional():
    display = BudgetCurveDisplay([1, 2], [0.5, 0.7]).plot()
    assert display.chance_level_ is display.ideal_ is display.budget_ is None
    assert display.ax_.get_legend() is None
    display = BudgetCurveDisplay.from_predictions(
        [0, 1], [1, 2], plot_chance_level=False, plot_ideal=False
    )
    assert display.chance_level_ is display.ideal_ is None
    assert display.plot(name="other").line_.get_label() == "other"
    assert display.name == "Classifier"


def test_largest_k_cuts_the_curve_and_not_what_it_is_made_of():
    y, scores = [1, 0, 1, 1, 0, 0], [6, 5, 4, 3, 2, 1]
    whole = BudgetCurveDisplay.from_predictions(y, scores)
    part = BudgetCurveDisplay.from_predictions(y, scores, max_k=2, budget=4)
    for name in ("k", "score", "chance", "ideal"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:2])
    assert part.budget_ is None
    assert len(BudgetCurveDisplay.from_predictions(y, scores, max_k=99).k) == 6


def test_recall_without_positives_is_nan_with_a_warning():
    with pytest.warns(UndefinedMetricWarning, match="no positives, recall is NaN"):
        display = BudgetCurveDisplay.from_predictions([0, 0], [1, 2])
    assert np.isnan(display.score).all()
    assert BudgetCurveDisplay.from_predictions([0, 0], [1, 2], metric="precision").score.sum() == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"metric": "money"}, ValueError, "metric must be one of .* got 'money'"),
        ({"metric": "value"}, ValueError, "value must be passed with metric=.*no value"),
        ({"metric": "recall", "value": [1, 2]}, ValueError, "value must be .* got a value"),
        ({"value": [1, -2]}, ValueError, "value must be finite and nonnegative; got -2"),
        ({"value": [1, np.nan]}, ValueError, "value must be finite and nonnegative; got nan"),
        ({"value": [1, 2, 3]}, ValueError, "value must be 2 numbers"),
        ({"max_k": 0}, ValueError, "max_k must be at least 1; got 0"),
        ({"budget": 0.5}, TypeError, r"budget must be an integer; got 0\.5"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        BudgetCurveDisplay.from_predictions([0, 1], [1, 2], **options)


def test_classifiers_of_one_or_three_classes_are_refused(data):
    X, y, *_ = data
    for labels, number in ((np.zeros(300), "one"), (np.arange(300) % 3, "3")):
        clf = DecisionTreeClassifier().fit(X, labels)
        with pytest.raises(ValueError, match=f"estimator must know two classes; got {number}"):
            BudgetCurveDisplay.from_estimator(clf, X, y)


def test_inputs_stay_as_they_are(rng):
    arrays = {"y_true": np.arange(9) % 2, "y_score": rng.random(9), "value": rng.random(9)}
    before = {name: array.copy() for name, array in arrays.items()}
    BudgetCurveDisplay.from_predictions(**arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_a_marked_budget_shows_a_few_budgets_and_the_rest_on_demand():
    y_true, y_score = np.arange(2000) % 20 == 0, np.random.default_rng(0).normal(size=2000)
    display = BudgetCurveDisplay.from_predictions(y_true, y_score, budget=100)
    left, right = display.ax_.get_xlim()
    assert right == 400
    assert -20 < left < 0
    # As high as what is shown: here the ideal, which finds all from the hundredth row on.
    assert 1 < display.ax_.get_ylim()[1] < 1.1
    assert len(display.k) == 2000
    worse = BudgetCurveDisplay.from_predictions(y_true, -y_score, ax=display.ax_, plot_ideal=False)
    assert worse.ax_.get_xlim()[1] == 400
    for params, shown in (
        ({"budget": 100, "n_budgets": 10}, 1000),
        ({"budget": 100, "n_budgets": None}, 2000),
        ({"budget": 100, "max_k": 1500}, 1500),
        ({}, 2000),
        ({"budget": 900}, 2000),
    ):
        right = BudgetCurveDisplay.from_predictions(y_true, y_score, **params).ax_.get_xlim()[1]
        assert shown <= right <= 1.06 * shown
    high = BudgetCurveDisplay.from_predictions(y_true, y_score, budget=10, plot_ideal=False)
    reached = max(high.score[:40].max(), high.chance[:40].max())
    assert reached <= high.ax_.get_ylim()[1] <= 1.1 * reached


@pytest.mark.parametrize("metric", ["recall", "value"])
def test_each_point_is_what_is_found_for_what_was_spent(metric, rng):
    y, scores = rng.random(40) < 0.3, rng.integers(0, 12, size=40)
    value, cost = rng.random(40) * 100, rng.integers(1, 30, size=40)
    given = {"value": value} if metric == "value" else {}
    display = BudgetCurveDisplay.from_predictions(y, scores, metric=metric, cost=cost, **given)
    gain = y * (value if given else 1.0)
    by = 1 if metric == "value" else sum(y)
    assert display.by == "cost"
    assert display.ax_.get_xlabel() == "Cost of the rows looked at, best first"
    assert display.k[-1] == cost.sum()
    for k in range(1, 41):
        assert display.k[k - 1] == pytest.approx(expected_gain(cost, scores, k))
        assert display.score[k - 1] == pytest.approx(expected_gain(gain, scores, k) / by)
    np.testing.assert_allclose(display.chance, display.k / cost.sum() * gain.sum() / by)
    for spent, ideal in zip(display.k, display.ideal, strict=True):
        left, found = spent, 0.0
        for i in sorted(range(40), key=lambda i: -gain[i] / cost[i]):
            found += gain[i] * min(1, left / cost[i])
            left -= min(left, cost[i])
        assert ideal == pytest.approx(found / by)


def test_rows_that_cost_nothing_come_for_nothing():
    given = {"value": [5, 7, 1], "cost": [0, 0, 2]}
    display = BudgetCurveDisplay.from_predictions([1, 1, 1], [3, 2, 1], **given)
    assert display.k.tolist() == [0, 0, 2]
    assert display.score.tolist() == [5, 12, 13]
    assert display.ideal.tolist() == [12, 12, 13]


def test_a_budget_of_money_is_marked_where_it_ends():
    given = {"value": [20, 10, 500], "cost": [10, 10, 20]}
    display = BudgetCurveDisplay.from_predictions([1, 0, 1], [3, 2, 1], budget=30.0, **given)
    assert display.budget_.get_xydata().tolist() == [[30, 270]]
    assert display.budget_.get_label() == "Budget: 30"
    display = BudgetCurveDisplay.from_predictions([1, 0, 1], [3, 2, 1], budget=41, **given)
    assert display.budget_ is None
    display = BudgetCurveDisplay.from_predictions([1, 0, 1], [3, 2, 1], max_k=25, **given)
    assert display.k.tolist() == [10, 20]


def test_desk_that_spends_is_drawn_in_its_order(data):
    X, y, X_test, y_test = data
    rng = np.random.default_rng(3)
    value, cost = rng.exponential(100, 300), rng.integers(5, 60, 300)
    clf = BudgetClassifier(LogisticRegression(), budget=480, constraint="cost", random_state=0)
    clf.fit(X, y)
    given = {"value": value, "cost": cost}
    display = BudgetCurveDisplay.from_estimator(clf, X_test, y_test, **given)
    per_cost = clf.expected_value(X_test, value) / cost
    expected = BudgetCurveDisplay.from_predictions(y_test, per_cost, **given, budget=480)
    np.testing.assert_array_equal(display.score, expected.score)
    flagged = clf.predict_top(X_test, **given)
    found = (y_test * value)[flagged].sum()
    assert display.budget_.get_ydata()[0] == pytest.approx(found, abs=2 * value.max())
    # The classifier alone ranks rows by probability, which brings less.
    alone = BudgetCurveDisplay.from_estimator(clf.estimator_, X_test, y_test, **given)
    assert np.interp(480, alone.k, alone.score) < display.budget_.get_ydata()[0]
    # Without costs the number of rows is what is drawn.
    assert BudgetCurveDisplay.from_estimator(clf, X_test, y_test).by == "rows"


def test_folds_spend_money(data):
    X, y, *_ = data
    rng = np.random.default_rng(3)
    given = {"value": rng.exponential(100, 300), "cost": rng.integers(5, 60, 300)}
    results = cross_validate(
        LogisticRegression(), X, y, cv=KFold(3), return_estimator=True, return_indices=True
    )
    display = BudgetCurveDisplay.from_cv_results(results, X, y, budget=100, **given)
    for i, test in enumerate(results["indices"]["test"]):
        own = {name: each[test] for name, each in given.items()}
        one = BudgetCurveDisplay.from_estimator(results["estimator"][i], X[test], y[test], **own)
        np.testing.assert_array_equal(display.k[i], one.k)
        np.testing.assert_array_equal(display.score[i], one.score)
    assert display.chance is None
    assert len(display.budget_.get_xdata()) == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"metric": "precision"}, ValueError, "cost must be passed with metric='recall' or 'value"),
        ({"cost": [1, -1]}, ValueError, "cost must be finite and nonnegative; got -1"),
        ({"cost": [1]}, ValueError, "cost must be 2 numbers"),
        ({"cost": [0, 0]}, ValueError, "cost must be positive for at least one row"),
        ({"budget": 0}, ValueError, "budget == 0, must be > 0"),
        ({"max_k": np.nan}, ValueError, "max_k must be finite"),
    ],
)
def test_bad_costs_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        BudgetCurveDisplay.from_predictions([0, 1], [1, 2], **{"cost": [1, 2]} | options)


@pytest.mark.parametrize("metric", ["precision", "recall", "value"])
def test_with_groups_it_is_the_mean_over_the_curves_of_each(metric, rng):
    day = rng.permutation(np.repeat(list("abcd"), [12, 30, 21, 5]))
    y, scores = rng.random(68) < 0.4, rng.integers(0, 12, 68)
    y[day == "d"] = False
    y[np.flatnonzero(day == "a")[:2]] = True
    value = {"value": rng.random(68)} if metric == "value" else {}
    display = BudgetCurveDisplay.from_predictions(
        y, scores, groups=day, metric=metric, share_of_groups=0.5, **value
    )
    curves = []
    for name in "abcd":
        rows = day == name
        if metric == "recall" and name == "d":
            continue
        own = {"value": value["value"][rows]} if value else {}
        one = BudgetCurveDisplay.from_predictions(y[rows], scores[rows], metric=metric, **own)
        curves.append(
            [[each[min(k, len(each) - 1)] for k in range(30)]
             for each in (one.score, one.chance, one.ideal)]
        )  # fmt: skip
    score, chance, ideal = np.mean(curves, 0)
    np.testing.assert_array_equal(display.k, np.arange(1, 31))
    np.testing.assert_allclose(display.score, score)
    np.testing.assert_allclose(display.chance, chance)
    np.testing.assert_allclose(display.ideal, ideal)
    of_each = np.array(curves)[:, 0]
    np.testing.assert_allclose(display.low, np.quantile(of_each, 0.25, axis=0))
    np.testing.assert_allclose(display.high, np.quantile(of_each, 0.75, axis=0))


def test_the_band_is_drawn_around_the_curve_and_one_group_has_none_to_speak_of(rng):
    y, scores = rng.random(60) < 0.4, rng.normal(size=60)
    day = np.repeat([1, 2, 3], 20)
    display = BudgetCurveDisplay.from_predictions(y, scores, groups=day, max_k=10, budget=5)
    (path,) = display.band_.get_paths()
    drawn = {tuple(point) for point in path.vertices.round(9)}
    assert {*zip(display.k, display.low.round(9), strict=True)} <= drawn
    assert {*zip(display.k, display.high.round(9), strict=True)} <= drawn
    assert display.ax_.get_xlabel() == "k (rows of each group looked at, best first)"
    assert display.budget_.get_xdata().tolist() == [5]
    alone = BudgetCurveDisplay.from_predictions(y, scores, groups=np.ones(60))
    plain = BudgetCurveDisplay.from_predictions(y, scores)
    np.testing.assert_allclose(alone.score, plain.score)
    np.testing.assert_array_equal(alone.low, alone.high)
    assert plain.band_ is None


def test_groups_of_a_fitted_classifier_and_what_does_not_go_with_them(data):
    X, y, X_test, y_test = data
    day = np.arange(len(y_test)) % 7
    clf = LogisticRegression().fit(X, y)
    display = BudgetCurveDisplay.from_estimator(clf, X_test, y_test, groups=day)
    assert display.by == "group"
    desk = BudgetClassifier(clf, budget=20).fit(X, y)
    # 20 of all rows are none of each day.
    assert BudgetCurveDisplay.from_estimator(desk, X_test, y_test, groups=day).budget is None
    scores = clf.decision_function(X_test)
    for other in ({"cost": np.ones(len(day))}, {"propensity": np.ones(len(day))}):
        with pytest.raises(ValueError, match=f"do not go with {next(iter(other))}"):
            BudgetCurveDisplay.from_predictions(y_test, scores, groups=day, **other)
    with pytest.raises(ValueError, match="share_of_groups"):
        BudgetCurveDisplay.from_predictions(y_test, scores, groups=day, share_of_groups=1)
    with pytest.warns(UndefinedMetricWarning, match="no positives, recall is NaN"):
        nothing = BudgetCurveDisplay.from_predictions(
            y_test == 9, scores, pos_label=True, groups=day
        )
    assert np.isnan(nothing.score).all()
