import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sktopk import SetClassifier
from sktopk.metrics import (
    SetSizeDisplay,
    ShotAccuracyDisplay,
    set_coverage_score,
    shot_accuracy_score,
)

matplotlib = pytest.importorskip("matplotlib")
BINS = [*map(str, range(11)), "11–20", "21–50", "51–100", "101–200"]


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600], X[600:], y[600:]


def of_sizes(sizes, n_classes=200):
    return np.arange(n_classes) < np.array(sizes)[:, None]


def texts(artists):
    return [each.get_text() for each in artists]


def spans(bars):
    return [(round(bar.get_x(), 9), round(bar.get_x() + bar.get_width(), 9)) for bar in bars]


def test_bins_hold_every_size_once():
    sizes = np.arange(201)
    display = SetSizeDisplay.from_predictions(
        np.zeros(201, int), of_sizes(sizes), labels=range(200)
    )
    assert display.lower.tolist() == [*range(12), 21, 51, 101]
    assert display.upper.tolist() == [*range(11), 20, 50, 100, 200]
    counts = [1] * 11 + [10, 30, 50, 100]
    np.testing.assert_allclose(display.proportion, np.array(counts) / 201)
    assert texts(display.ax_.get_xticklabels()) == BINS


@pytest.mark.parametrize("largest", [0, 1, 10, 11, 20, 21, 1000, 1001])
def test_bins_end_with_the_largest_size(largest):
    y_set = of_sizes([0, largest], max(largest, 1))
    display = SetSizeDisplay.from_predictions([0, 0], y_set, labels=range(y_set.shape[1]))
    assert display.lower[-1] <= largest <= display.upper[-1]
    assert (display.lower[1:] == display.upper[:-1] + 1).all()


def test_arrays_are_shares_and_coverage_by_size():
    rng = np.random.default_rng(0)
    y_true, y_set = rng.integers(0, 5, 300), rng.random((300, 5)) < 0.4
    y_set[y_set.sum(axis=1) == 3] = False
    weight = rng.random(300)
    display = SetSizeDisplay.from_predictions(
        y_true, y_set, labels=range(5), sample_weight=weight, target=0.9
    )
    for size, share, coverage in zip(
        display.lower, display.proportion, display.coverage, strict=True
    ):
        rows = y_set.sum(axis=1) == size
        assert share == pytest.approx(weight[rows].sum() / weight.sum())
        if size == 3:
            assert np.isnan(coverage)
        else:
            expected = set_coverage_score(
                y_true[rows], y_set[rows], labels=range(5), sample_weight=weight[rows]
            )
            assert coverage == pytest.approx(expected)


def test_rows_without_weight_are_absent():
    y_set = of_sizes([1, 2, 5], 5)
    display = SetSizeDisplay.from_predictions(
        [0, 0, 0], y_set, labels=range(5), sample_weight=[1, 1, 0]
    )
    assert display.proportion.tolist() == [0, 0.5, 0.5]
    with pytest.raises(ValueError, match="y_set must have a row of positive weight"):
        SetSizeDisplay.from_predictions([0] * 3, y_set, labels=range(5), sample_weight=[0, 0, 0])


def test_sets_of_an_estimator(digits):
    X, y, X_test, y_test = digits
    clf = SetClassifier(GaussianNB(), method="aps", coverage=0.8, random_state=0).fit(X, y)
    one = SetSizeDisplay.from_estimator(clf, X_test, y_test)
    other = SetSizeDisplay.from_predictions(y_test, clf.predict_set(X_test), labels=clf.classes_)
    np.testing.assert_array_equal(one.proportion, other.proportion)
    np.testing.assert_array_equal(one.coverage, other.coverage)
    assert (one.name, one.target) == ("SetClassifier (aps)", 0.8)
    assert (other.name, other.target) == ("Sets", None)
    top = SetClassifier(GaussianNB(), k=3).fit(X, y)
    assert SetSizeDisplay.from_estimator(top, X_test, y_test).target is None
    with pytest.raises(TypeError, match="must have predict_set"):
        SetSizeDisplay.from_estimator(clf.estimator_, X_test, y_test)


def test_set_sizes_are_drawn_as_held():
    display = SetSizeDisplay(
        [0, 1, 2], [0, 1, 2], [0.25, 0.5, 0.25], [0, 0.8, np.nan], name="mine", target=0.9
    )
    assert display.plot(edgecolor="red") is display
    assert [bar.get_height() for bar in display.bars_] == [0.25, 0.5, 0.25]
    np.testing.assert_array_equal(display.line_.get_ydata(), [0, 0.8, np.nan])
    np.testing.assert_array_equal(display.line_.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(display.points_.get_offsets()[:2], [[0, 0], [1, 0.8]])
    few, many, as_few = display.points_.get_sizes()
    assert few == as_few < many
    assert set(display.target_line_.get_ydata()) == {0.9}
    assert matplotlib.colors.to_hex(display.bars_[0].get_edgecolor()) == "#ff0000"
    assert display.figure_ is display.ax_.figure
    assert texts(display.ax_.get_legend().get_texts()) == ["mine", "Target 0.9"]
    assert display.ax_.get_xlabel() == "Labels in the set"


def test_set_sizes_side_by_side():
    small = SetSizeDisplay([0, 1], [0, 1], [0.5, 0.5], [0, 1], name="a", target=0.9).plot()
    large = SetSizeDisplay(
        [0, 1, 2], [0, 1, 2], [0.2, 0.3, 0.5], [0, 1, 1], name="b", target=0.9
    ).plot(small.ax_)
    third = SetSizeDisplay([0], [0], [1.0], [0.0], name="c", target=0.8).plot(small.ax_)
    assert third.ax_ is large.ax_ is small.ax_
    edges = [spans(each.bars_)[0] for each in (small, large, third)]
    assert edges[0][1] == edges[1][0]
    assert edges[1][1] == edges[2][0]
    assert edges[0][0] == -edges[2][1]
    assert len({each.line_.get_color() for each in (small, large, third)}) == 3
    assert len({each.line_.get_marker() for each in (small, large, third)}) == 3
    assert small.target_line_ is large.target_line_ is not third.target_line_
    labels = texts(small.ax_.get_legend().get_texts())
    assert labels == ["a", "b", "c", "Target 0.9", "Target 0.8"]
    assert texts(small.ax_.get_xticklabels()) == ["0", "1", "2"]


def test_name_and_target_are_optional():
    display = SetSizeDisplay([0, 1], [0, 1], [0.5, 0.5], [0, 1]).plot()
    assert display.target_line_ is None
    assert display.ax_.get_legend() is None


def test_bars_are_the_shot_accuracy(digits):
    X, y, X_test, y_test = digits
    fitted = GaussianNB().fit(X, y)
    counts = np.array([500, 400, 300, 60, 50, 40, 30, 5, 5, 5])
    options = dict(k=2, few=10, many=100, ties="optimistic")
    weight = np.random.default_rng(0).random(len(y_test))
    display = ShotAccuracyDisplay.from_estimator(
        fitted, X_test, y_test, class_counts=counts, sample_weight=weight, **options
    )
    expected = shot_accuracy_score(
        y_test,
        fitted.predict_proba(X_test),
        class_counts=counts,
        labels=fitted.classes_,
        sample_weight=weight,
        **options,
    )
    assert display.accuracy == list(expected.values())
    assert [bar.get_height() for bar in display.bars_] == display.accuracy
    names = ["many\n(> 100)", "medium\n(10 to 100)", "few\n(< 10)"]
    assert texts(display.ax_.get_xticklabels()) == names
    assert display.ax_.get_ylabel().startswith("Top-2 accuracy")
    assert display.name == "GaussianNB"
    other = ShotAccuracyDisplay.from_predictions(
        y_test, fitted.predict_proba(X_test), class_counts=counts
    )
    assert other.name == "Classifier"
    # Two guesses among ten classes, the same in each group, and one line for all displays.
    assert display.chance == 0.2
    np.testing.assert_array_equal(display.chance_level_.get_ydata(), [0.2, 0.2])
    again = display.plot(display.ax_, name="again")
    assert again.chance_level_ is display.chance_level_
    legend = texts(display.ax_.get_legend().get_texts())
    assert legend == ["GaussianNB", "again", "Chance"]
    assert other.chance == 0.5
    everything = {"class_counts": counts, "plot_chance_level": False}
    for k in (0.25, 12):
        each = ShotAccuracyDisplay.from_estimator(fitted, X_test, y_test, k=k, **everything)
        assert each.chance == {0.25: 0.3, 12: 1.0}[k]  # a fraction is rounded up
        assert each.chance_level_ is None


def test_class_counts_of_the_estimator(digits):
    X, y, X_test, y_test = digits
    fitted = GaussianNB().fit(X, y)
    with pytest.warns(UndefinedMetricWarning):
        display = ShotAccuracyDisplay.from_estimator(fitted, X_test, y_test)
    assert np.isnan(display.accuracy[0])
    assert np.isnan(display.accuracy[2])
    assert display.accuracy[1] > 0.9
    names = [each.partition("\n")[2] for each in texts(display.ax_.get_xticklabels())]
    assert names == ["(> 100)\nno class tested", "(20 to 100)", "(< 20)\nno class tested"]
    # One display without a bar does not speak for all.
    again = ShotAccuracyDisplay([np.nan, 0.5, 0.6]).plot(display.ax_)
    assert texts(again.ax_.get_xticklabels())[2] == "few\n(< 20)"
    neighbors = KNeighborsClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"class_counts must be given.*KNeighborsClassifier"):
        ShotAccuracyDisplay.from_estimator(neighbors, X_test, y_test)


def test_shot_accuracy_side_by_side(digits):
    X, y, X_test, y_test = digits
    ax, displays = None, []
    counts = np.array([500, 400, 300, 60, 50, 40, 30, 5, 5, 5])
    for estimator in (GaussianNB(), BernoulliNB(), KNeighborsClassifier()):
        displays.append(
            ShotAccuracyDisplay.from_estimator(
                estimator.fit(X, y), X_test, y_test, class_counts=counts, ax=ax
            )
        )
        ax = displays[0].ax_
    for group in range(3):
        edges = [spans(each.bars_)[group] for each in displays]
        assert edges[0][1] == edges[1][0]
        assert edges[1][1] == edges[2][0]
        assert edges[0][0] + edges[2][1] == pytest.approx(2 * group)
    assert len({each.bars_[0].get_facecolor() for each in displays}) == 3
    labels = texts(ax.get_legend().get_texts())
    assert labels == ["GaussianNB", "BernoulliNB", "KNeighborsClassifier", "Chance"]


def test_shot_accuracy_is_drawn_as_held():
    display = ShotAccuracyDisplay([0.9, 0.5, np.nan], k=3, name="mine")
    assert display.plot(hatch="/") is display
    assert display.bars_[0].get_hatch() == "/"
    assert [bar.get_height() for bar in display.bars_][:2] == [0.9, 0.5]
    assert display.figure_ is display.ax_.figure
    assert ShotAccuracyDisplay([1, 1, 1]).plot().ax_.get_legend() is None


@pytest.mark.parametrize(
    "display",
    [
        ShotAccuracyDisplay([0.9, 0.5, np.nan], name="mine", chance=0.1),
        SetSizeDisplay(np.arange(15), np.arange(15), np.ones(15) / 15, np.ones(15), name="mine"),
    ],
)
def test_nothing_is_cut_from_a_new_figure(display):
    figure = display.plot().figure_
    figure.canvas.draw()
    inside = figure.bbox.padded(1)
    shown = figure.axes[0].get_tightbbox()
    assert inside.x0 <= shown.x0 <= shown.x1 <= inside.x1
    assert inside.y0 <= shown.y0 <= shown.y1 <= inside.y1


def test_chance_is_seen_in_front_of_bars():
    display = ShotAccuracyDisplay([0.9, 0.5, 0.4], chance=0.3).plot()
    assert display.chance_level_.get_zorder() > max(bar.get_zorder() for bar in display.bars_)
