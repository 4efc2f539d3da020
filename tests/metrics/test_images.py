"""Displays draw the same images as the baseline, which was checked by eye.

After a change, look at new images: pytest --mpl-generate-path=tests/metrics/baseline THIS_FILE
"""

from functools import partial

import numpy as np
import pytest

from sktopk import metrics

rng = np.random.default_rng(0)
POSITIVE = rng.random(400) < 0.1
AMOUNT = 10 + 90 * rng.random(400)
GOOD, POOR = (strength * POSITIVE + rng.normal(size=400) for strength in (2.5, 1.0))
LABEL = rng.integers(12, size=500)
SURE, UNSURE = (c * np.eye(12)[LABEL] + rng.normal(size=(500, 12)) for c in (2.0, 1.0))


def two_curves(display, truth, good, poor, **params):
    draw = partial(display.from_predictions, truth, **params)
    return draw(poor, name="poor", ax=draw(good, name="good").ax_)


def set_sizes():
    share, size = np.array([0.02, 0.4, 0.3, 0.2, 0.07, 0.01]), np.arange(6)
    coverage = np.array([0.0, 0.93, 0.91, 0.88, 0.9, 0.5])
    make = partial(metrics.SetSizeDisplay, size, size, target=0.9)
    first = make(share, coverage, name="lac").plot()
    coverage = np.minimum(1, coverage + 0.03)
    return make(share[[0, 2, 1, 3, 4, 5]], coverage, name="aps").plot(first.ax_)


def shot_accuracies():
    make = metrics.ShotAccuracyDisplay
    first = make([0.9, 0.7, 0.3], name="cross_entropy", chance=0.05).plot()
    make([0.88, 0.74, 0.45], name="noised_topk_imbalanced").plot(first.ax_)
    return make([0.85, 0.7, np.nan], name="ldam").plot(first.ax_)


def loss_comparisons():
    names = ["smooth_topk", "focal", "ldam"]
    make = partial(metrics.LossComparisonDisplay, names, metric="accuracy")
    first = make([0.021, 0.001, -0.024], [0.006, 0.008, 0.011], name="k=5").plot()
    return make([0.004, 0.008, -0.03], [0.009, 0.006, 0.014], name="k=1").plot(first.ax_)


PICTURES = {
    "topk_curves": partial(two_curves, metrics.TopKCurveDisplay, LABEL, SURE, UNSURE),
    "enrichment_curves": partial(two_curves, metrics.EnrichmentDisplay, POSITIVE, GOOD, POOR),
    "budget_curves": partial(
        two_curves, metrics.BudgetCurveDisplay, POSITIVE, GOOD, POOR, value=AMOUNT, budget=40
    ),
    "set_sizes": set_sizes,
    "shot_accuracies": shot_accuracies,
    "loss_comparisons": loss_comparisons,
}


@pytest.mark.mpl_image_compare(style="default", savefig_kwargs={"dpi": 40}, tolerance=0.5)
@pytest.mark.parametrize("name", PICTURES)
def test_a_display_equals_its_baseline_image(name):
    figure = PICTURES[name]().figure_
    # Text is removed because FreeType versions differ. Other tests check the text.
    for ax in figure.axes:
        ax.set(xlabel="", ylabel="")
        ax.tick_params(which="both", labelbottom=False, labelleft=False)
        for artist in [*ax.texts, ax.get_legend()]:
            if artist is not None:
                artist.remove()
    return figure
