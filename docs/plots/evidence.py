"""Draw benchmarks/results/evidence.png, the counts of the experiments by task and loss.

The runs behind the counts are in benchmarks/results/reproduce_*.csv and in the git history.
"""

from pathlib import Path

import matplotlib.pyplot as plt

KINDS = {
    "better": "#00589c",
    "equivalent": "#9dc3e0",
    "inconclusive": "#e4e4e4",
    "worse": "#d9722b",
}
COUNTS = {
    "k labels, a linear model": {
        "smooth_topk": (2, 1, 10, 1),
        "noised_topk": (0, 1, 8, 5),
        "topk_hinge_convex": (0, 2, 6, 6),
        "logit_adjusted": (0, 1, 2, 0),
    },
    "k labels, hidden units": {
        "topk_hinge_convex": (0, 1, 13, 2),
        "smooth_topk": (0, 1, 12, 3),
        "noised_topk": (0, 0, 10, 6),
        "logit_adjusted": (0, 0, 1, 1),
    },
    "k labels, classes with several clusters (modes)": {
        "smooth_topk": (5, 7, 3, 5),
        "topk_transition": (5, 6, 3, 6),
        "topk_grouping": (5, 4, 3, 8),
    },
    "k labels, labels wrong within groups of classes": {
        "smooth_topk": (3, 2, 0, 1),
        "noised_topk": (1, 3, 0, 2),
    },
    "k labels, few training samples": {"smooth_topk": (0, 0, 0, 5)},
    "k labels, images with Cutout and mixup (augmentations)": {
        "smooth_topk": (0, 0, 0, 2),
        "topk_grouping": (0, 0, 0, 2),
        "topk_transition": (0, 0, 0, 2),
        "topk_transition, detached": (0, 0, 0, 2),
    },
    "k labels, long tail (many rare classes), mean over classes": {
        "ldam": (3, 0, 0, 0),
        "logit_adjusted": (3, 0, 0, 0),
        "smooth_topk_adjusted": (3, 0, 0, 0),
        "noised_topk_imbalanced": (2, 0, 1, 0),
        "noised_topk": (1, 1, 0, 1),
        "smooth_topk": (1, 0, 0, 2),
        "focal": (0, 0, 1, 2),
    },
    "images of one class ranked first": {
        "DeepTopPush, buffer_size=0": (5, 6, 10, 6),
        "DeepTopPush": (9, 6, 16, 14),
        "Prec@Rec": (0, 6, 3, 9),
        "Pat&Mat": (0, 3, 5, 10),
    },
    "active molecules ranked first": {"DeepTopPush": (0, 0, 6, 0)},
    "AUC, F1, precision or recall": {
        "AUC, hinge": (2, 14, 15, 2),
        "AUC, quadratic": (1, 14, 17, 1),
        "F-score": (0, 8, 24, 1),
        "precision at recall, program": (1, 0, 22, 2),
        "precision at recall, threshold": (1, 0, 21, 3),
        "recall at precision": (0, 2, 19, 4),
    },
}


def draw():
    figure, ax = plt.subplots(figsize=(9, 14), layout="constrained")
    place, ticks = 0.0, {}
    for task, losses in COUNTS.items():
        ax.text(0, place, task, weight="bold", va="center")
        for loss, counts in losses.items():
            place += 1
            ticks[place] = loss
            left = 0.0
            for count, color in zip(counts, KINDS.values(), strict=True):
                width = count / sum(counts)
                ax.barh(place, width, left=left, height=0.8, color=color)
                if count:
                    dark = color in (KINDS["better"], KINDS["worse"])
                    text = {"color": "w" if dark else "0.2", "ha": "center", "va": "center"}
                    ax.text(left + width / 2, place, str(count), **text)
                left += width
        place += 1.5
    ax.set(xlim=(0, 1), ylim=(place - 1, -0.7), xticks=())
    ax.set_yticks(list(ticks), ticks.values())
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in KINDS.values()]
    figure.legend(handles, KINDS, loc="outside upper center", ncols=4, frameon=False)
    return figure


if __name__ == "__main__":
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    draw().savefig(results / "evidence.png", dpi=104)
