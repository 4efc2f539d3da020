"""The pictures look as they did when somebody looked at them.

After a wanted change look at the new ones, which this writes:

    pytest tests/metrics/test_images.py --mpl-generate-path=tests/metrics/baseline
"""

import numpy as np
import pytest

from sktopk.metrics import (
    BudgetCurveDisplay,
    BudgetTableDisplay,
    EnrichmentDisplay,
    LossComparisonDisplay,
    PrecisionQuantileDisplay,
    SetSizeDisplay,
    ShotAccuracyDisplay,
    ThresholdTraceDisplay,
    TopKCurveDisplay,
)

pytest.importorskip("matplotlib")
pytest.importorskip("pytest_mpl")

rng = np.random.default_rng(0)
POSITIVE = rng.random(400) < 0.1
AMOUNT = 10 + 90 * rng.random(400)
GOOD, POOR = (strength * POSITIVE + rng.normal(size=400) for strength in (2.5, 1.0))
LABEL = rng.integers(12, size=500)
SURE, UNSURE = (c * np.eye(12)[LABEL] + rng.normal(size=(500, 12)) for c in (2.0, 1.0))
FOLDS = np.array_split(np.arange(400), 4)


def topk_curves():
    first = TopKCurveDisplay.from_predictions(LABEL, SURE, name="sure")
    return TopKCurveDisplay.from_predictions(LABEL, UNSURE, name="unsure", ax=first.ax_)


def topk_curves_of_folds():
    k = np.arange(1, 6)
    accuracy = [1 - (0.5 + 0.02 * fold) ** k for fold in range(4)]
    display = TopKCurveDisplay([k] * 4, accuracy, name="mine (4 folds)", chance=k / 12).plot()
    accuracy = [1 - (0.7 - 0.02 * fold) ** k for fold in range(4)]
    return TopKCurveDisplay([k] * 4, accuracy, name="other (4 folds)").plot(display.ax_)


def precision_quantile_curves():
    first = PrecisionQuantileDisplay.from_predictions(POSITIVE, GOOD, name="good")
    return PrecisionQuantileDisplay.from_predictions(POSITIVE, POOR, name="poor", ax=first.ax_)


def precision_quantile_curve_at_the_top():
    return PrecisionQuantileDisplay.from_predictions(POSITIVE, GOOD, xscale="log")


def enrichment_curves():
    first = EnrichmentDisplay.from_predictions(POSITIVE, GOOD, name="good")
    return EnrichmentDisplay.from_predictions(POSITIVE, POOR, name="poor", ax=first.ax_)


def enrichment_curves_of_folds():
    folds = [EnrichmentDisplay.from_predictions(POSITIVE[i], GOOD[i]) for i in FOLDS]
    display = EnrichmentDisplay(
        [each.fraction for each in folds],
        [each.recall for each in folds],
        prevalence=0.1,
        name="mine (4 folds)",
    )
    return display.plot()


def budget_curves():
    options = {"value": AMOUNT, "budget": 40}
    first = BudgetCurveDisplay.from_predictions(POSITIVE, GOOD, name="good", **options)
    return BudgetCurveDisplay.from_predictions(POSITIVE, POOR, name="poor", ax=first.ax_, **options)


def budget_curve_of_precision():
    return BudgetCurveDisplay.from_predictions(
        POSITIVE, GOOD, metric="precision", budget=20, max_k=80
    )


def budget_curves_of_folds():
    folds = [BudgetCurveDisplay.from_predictions(POSITIVE[i], GOOD[i]) for i in FOLDS]
    display = BudgetCurveDisplay(
        [each.k for each in folds],
        [each.score for each in folds],
        chance=np.mean([each.chance for each in folds], axis=0),
        ideal=np.mean([each.ideal for each in folds], axis=0),
        budget=10,
        name="mine (4 folds)",
    )
    return display.plot()


def budget_tables():
    budget = np.arange(1, 61)
    hits = 30 * (1 - np.exp(-budget / 30))
    curve = {"budget": budget, "hits": hits, "hits_low": 0.8 * hits, "hits_high": 1.15 * hits}
    curve |= {"precision": hits / budget, "recall": hits / 40}
    marked = {name: column[[9, 24, 49]] for name, column in curve.items()}
    first = BudgetTableDisplay(marked, curve, chance=0.1, name="mine").plot()
    lower = {name: 0.6 * column for name, column in curve.items()} | {"budget": budget}
    marked = {name: column[24:25] for name, column in lower.items()}
    return BudgetTableDisplay(marked, lower, name="other").plot(first.ax_)


def budget_curves_of_many_rows():
    rng = np.random.default_rng(0)
    y_true = rng.random(1000) < 0.1
    y_score = rng.normal(size=1000) + y_true
    options = {"budget": 60, "name": "mine"}
    first = BudgetCurveDisplay.from_predictions(y_true, y_score, **options)
    return BudgetCurveDisplay.from_predictions(y_true, -y_score, name="other", ax=first.ax_)


def set_sizes():
    share = np.array([0.02, 0.4, 0.3, 0.2, 0.07, 0.01])
    coverage = np.array([0.0, 0.93, 0.91, 0.88, 0.9, 0.5])
    size = np.arange(6)
    first = SetSizeDisplay(size, size, share, coverage, name="lac", target=0.9).plot()
    share, coverage = share[[0, 2, 1, 3, 4, 5]], np.minimum(1, coverage + 0.03)
    return SetSizeDisplay(size, size, share, coverage, name="aps", target=0.9).plot(first.ax_)


def large_set_sizes():
    lower = np.array([*range(11), 11, 21, 51, 101])
    upper = np.array([*range(11), 20, 50, 100, 200])
    share = np.array([0, *[0.02] * 10, 0.3, 0.3, 0.15, 0.05])
    coverage = np.where(share > 0, 0.85 + 0.01 * np.arange(15), np.nan)
    return SetSizeDisplay(lower, upper, share, coverage, name="Sets", target=0.9).plot()


def shot_accuracies():
    first = ShotAccuracyDisplay([0.9, 0.7, 0.3], name="cross_entropy", chance=0.05).plot()
    ShotAccuracyDisplay([0.88, 0.74, 0.45], name="noised_topk_imbalanced").plot(first.ax_)
    return ShotAccuracyDisplay([0.85, 0.7, np.nan], name="ldam").plot(first.ax_)


def threshold_traces():
    step = np.arange(1, 31)
    true = 1 + np.exp(-step / 10)
    first = ThresholdTraceDisplay(
        step, true - 0.1 * (step % 4), true_threshold=true, name="buffer_size=1"
    ).plot()
    return ThresholdTraceDisplay(
        step, true - 0.2 - 0.2 * (step % 3), true_threshold=true - 0.1, name="buffer_size=0"
    ).plot(first.ax_)


def threshold_traces_of_many_steps():
    step = np.arange(1, 501)
    true = 1 + np.exp(-step / 100)
    noisy = true - 0.3 * np.random.default_rng(0).random(500)
    return ThresholdTraceDisplay(step, noisy, true_threshold=true, name="mine").plot()


def loss_comparison():
    names = ["smooth_topk", "noised_topk_imbalanced", "focal", "ldam"]
    gain, half_width = [0.021, 0.015, 0.001, -0.024], [0.006, 0.007, 0.008, 0.011]
    return LossComparisonDisplay(names, gain, half_width, metric="top-5 accuracy").plot()


def loss_comparisons():
    names = ["smooth_topk", "focal", "ldam"]
    first = LossComparisonDisplay(
        names, [0.021, 0.001, -0.024], [0.006, 0.008, 0.011], metric="accuracy", name="k=5"
    ).plot()
    return LossComparisonDisplay(
        names, [0.004, 0.008, -0.03], [0.009, 0.006, 0.014], metric="accuracy", name="k=1"
    ).plot(first.ax_)


PICTURES = [
    topk_curves,
    topk_curves_of_folds,
    precision_quantile_curves,
    precision_quantile_curve_at_the_top,
    enrichment_curves,
    enrichment_curves_of_folds,
    budget_curves,
    budget_curve_of_precision,
    budget_curves_of_folds,
    budget_curves_of_many_rows,
    budget_tables,
    set_sizes,
    large_set_sizes,
    shot_accuracies,
    threshold_traces,
    threshold_traces_of_many_steps,
    loss_comparison,
    loss_comparisons,
]


@pytest.mark.mpl_image_compare(style="default", savefig_kwargs={"dpi": 40}, tolerance=0.5)
@pytest.mark.parametrize("draw", PICTURES, ids=[draw.__name__ for draw in PICTURES])
def test_looks_as_before(draw):
    figure = draw().figure_
    # Letters differ between versions of FreeType; what they say is tested elsewhere.
    for ax in figure.axes:
        ax.set(xlabel="", ylabel="")
        ax.tick_params(which="both", labelbottom=False, labelleft=False)
        for artist in [*ax.texts, ax.get_legend()]:
            if artist is not None:
                artist.remove()
    return figure
