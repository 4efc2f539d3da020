"""Draw figures 2 to 5 of paper 002 from our runs."""

import numpy as np
from matplotlib.figure import Figure

COLORS = ["tab:blue", "tab:orange", "tab:red", "tab:purple"]


def draw_accuracies(runs, experiments, losses, best):
    """Plot top-1 (above) and top-2 accuracy by setting: mean, lowest and highest run."""
    figure = Figure(figsize=(14, 6.5), layout="constrained")
    axes = figure.subplots(2, len(experiments), sharey="row")
    labels = {"sigma": "width σ (degrees)", "d": "distance d (degrees)", "m": "hidden nodes m"}
    for column, (experiment, (name, values, *_)) in enumerate(experiments.items()):
        found = runs[runs.experiment == experiment]
        for row, k in enumerate((1, 2)):
            ax = axes[row, column]
            places = np.arange(len(values))
            for shift, (loss, color) in enumerate(zip(losses, COLORS, strict=True)):
                each = found[found.loss == loss].groupby("value")[f"top{k}"]
                mean, low, high = each.mean(), each.min(), each.max()
                x = places + 0.08 * (shift - 1.5)
                error = np.array([mean - low, high - mean])
                ax.errorbar(x, mean, error, marker="o", ms=4, capsize=2, color=color, label=loss)
            possible = [best[experiment, value][k - 1] for value in values]
            ax.plot(places, possible, "k--", lw=1, label="best possible")
            ax.set_xticks(places, values)
            ax.set_ylabel(f"top-{k} accuracy" if column == 0 else "")
            ax.set_xlabel(labels[name] if row == 1 else "")
            ax.set_title(
                f"Experiment {experiment} (figure {int(experiment[0]) + 1})" if row == 0 else ""
            )
    axes[0, 0].legend(fontsize=8)
    return figure


def draw_predictions(angle, density, ranks, losses, target=2):
    """Plot where each loss predicts class `target` first or second, above the densities."""
    titles = list(dict.fromkeys(title for title, _ in ranks))
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    for ax, title in zip(figure.subplots(1, len(titles)), titles, strict=True):
        for c, curve in enumerate(density):
            color = "tab:green" if c == target else "0.7"
            ax.plot(angle, curve, color=color, lw=2 if c == target else 1)
        most = density.argmax(0) == target
        ax.fill_between(angle, 0, density.max(), where=most, color="tab:green", alpha=0.15, lw=0)
        for i, (loss, color) in enumerate(zip(losses, COLORS, strict=True)):
            y = density.max() * (1.15 + 0.15 * i)
            for k, width in ((2, 2), (1, 7)):
                inside = np.where(ranks[title, loss] < k, y, np.nan)
                ax.plot(angle, inside, color=color, lw=width, solid_capstyle="butt")
            ax.text(363, y, loss, color=color, va="center", fontsize=8)
        ax.set(title=title, xlabel="angle θ (degrees)", xlim=(0, 360), yticks=[])
        ax.set_xticks(range(0, 361, 60))
    return figure
