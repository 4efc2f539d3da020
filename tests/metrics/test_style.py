"""Can curves be told apart, by anybody, and is the legend out of their way?"""

import warnings

import numpy as np
import pytest

from sktopk.metrics import (
    EnrichmentDisplay,
    PrecisionQuantileDisplay,
    ShotAccuracyDisplay,
    TopKCurveDisplay,
)

matplotlib = pytest.importorskip("matplotlib")

# What linear RGB looks like without one kind of cones (Machado, Oliveira, Fernandes, 2009).
VISION = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


def lab(colors, vision):
    """CIELAB of colours as somebody sees them."""
    rgb = np.array([matplotlib.colors.to_rgb(each) for each in colors])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.transpose(vision), 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(linear @ np.transpose(to_xyz) / [0.9505, 1.0, 1.089]).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def curves(n):
    ax, lines = None, []
    for i in range(n):
        display = TopKCurveDisplay([1, 2], [0.1, 0.2 + i / 100], name=f"{i}").plot(ax)
        ax = display.ax_
        lines.append(display.line_)
    return lines


@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_for_every_kind_of_eyes(vision):
    seen = lab([*[line.get_color() for line in curves(6)], "white"], VISION[vision])
    distance = np.linalg.norm(seen[:, None] - seen, axis=2)
    # About 2 can just be told apart side by side.
    assert distance[~np.eye(len(seen), dtype=bool)].min() > 12


def test_no_two_of_many_curves_look_the_same():
    lines = curves(30)
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 30
    assert len({line.get_marker() for line in lines[:6]}) == 6


@pytest.mark.parametrize("prevalence", [0.02, 0.5, 0.9])
@pytest.mark.parametrize("xscale", ["linear", "log"])
@pytest.mark.parametrize("display_class", [EnrichmentDisplay, PrecisionQuantileDisplay])
def test_legend_leaves_the_curve_in_sight(display_class, xscale, prevalence):
    rng = np.random.default_rng(0)
    y = rng.random(2000) < prevalence
    display = display_class.from_predictions(y, 2 * y + rng.normal(size=2000), xscale=xscale)
    display.figure_.canvas.draw()
    line, legend = display.line_, display.ax_.get_legend()
    points = line.get_xydata()
    points = line.get_transform().transform(points[points[:, 0] > 0])
    assert not legend.get_window_extent().count_contains(points)


@pytest.mark.parametrize("n_displays", [1, 2, 5])
def test_legend_leaves_the_bars_in_sight(n_displays):
    ax = None
    for i in range(n_displays):
        display = ShotAccuracyDisplay([1.0, 0.9, 1.0], name=f"TopKClassifier {i}", chance=0.1)
        ax = display.plot(ax).ax_
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    bars = [bar.get_window_extent() for each in ax.containers for bar in each]
    assert legend.count_overlaps(bars) == 0
    assert legend.y1 < ax.bbox.y1
    assert legend.x0 > ax.bbox.x0
    # Of an accuracy, which is at most 1.
    assert ax.get_yticks().max() == 1


def test_legend_of_very_many_points_is_not_searched_for():
    n = 400_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low = EnrichmentDisplay(np.arange(n) / n, np.full(n, 0.05), name="mine")
        display = low.plot(xscale="linear")
        display.figure_.canvas.draw()
    axes, legend = display.ax_.bbox, display.ax_.get_legend().get_window_extent()
    assert legend.y1 < axes.y0 + axes.height / 2  # where the curve of another would not be


def test_markers_of_long_curves_do_not_touch():
    line = TopKCurveDisplay(np.arange(1, 101), np.linspace(0, 1, 100)).plot().line_
    assert 100 / line.get_markevery() < 25
    assert TopKCurveDisplay([1, 2, 3], [0.1, 0.2, 0.3]).plot().line_.get_markevery() == 1


@pytest.mark.parametrize(
    ("n", "expected"), [(5, ["20%", "50%", "100%"]), (2000, ["0.1%", "1%", "10%", "100%"])]
)
def test_a_logarithmic_axis_has_several_numbers(n, expected):
    display = EnrichmentDisplay.from_predictions(np.arange(n) % 2, np.arange(n))
    low, high = display.ax_.get_xlim()
    ticks = [tick for tick in display.ax_.get_xticks() if low <= tick <= high]
    display.figure_.canvas.draw()
    assert display.ax_.xaxis.get_major_formatter().format_ticks(ticks) == expected


def test_curves_of_hundreds_of_points_have_line_styles_in_the_place_of_markers():
    rng = np.random.default_rng(0)
    y_true, ax, lines = np.arange(300) < 30, None, []
    for _ in range(30):
        display = EnrichmentDisplay.from_predictions(y_true, rng.normal(size=300), ax=ax)
        ax = display.ax_
        lines.append(display.line_)
    assert not any(line.get_marker() for line in lines)
    assert not lines[0].is_dashed()
    assert lines[1].is_dashed()
    few = EnrichmentDisplay.from_predictions(y_true[:50], rng.normal(size=50)).line_
    assert few.get_marker() == "o"
    mine = EnrichmentDisplay.from_predictions(y_true, rng.normal(size=300), marker="v").line_
    assert mine.get_marker() == "v"
