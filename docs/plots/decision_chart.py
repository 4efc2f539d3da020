"""From what is reviewed to an estimator: a chart."""

import matplotlib.pyplot as plt

QUESTION = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f1f8", "edgecolor": "#00589c"}
ANSWER = {"boxstyle": "round,pad=0.5", "facecolor": "#fbe9dd", "edgecolor": "#b34700"}

figure, ax = plt.subplots(figsize=(12.6, 6))
ax.set(xlim=(0, 12.6), ylim=(0, 6.4))
ax.axis("off")


def box(x, y, text, style):
    ax.text(x, y, text, ha="center", va="center", fontsize=10, bbox=style, zorder=3)


def arrow(start, end, text=None):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.45"}, zorder=1)
    if text:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        ax.text(
            x,
            y,
            text,
            fontsize=9.5,
            ha="center",
            va="center",
            color="0.25",
            bbox={"facecolor": "w", "edgecolor": "none", "pad": 1},
            zorder=2,
        )


box(5.3, 6.0, "What do you need?", QUESTION)
box(2.1, 4.7, "Large model and\nclean data?", QUESTION)
box(5.55, 4.7, "Samples or labels?", QUESTION)
box(10.9, 4.7, "Where is the threshold?", QUESTION)
arrow((4.3, 5.9), (2.4, 5.15), "k labels\nof each sample")
arrow((5.35, 5.7), (5.5, 5.0), "decisions\non scores")
arrow((6.3, 5.9), (10.4, 5.0), "the best samples")

box(0.9, 3.3, 'TopKClassifier\nloss="cross_entropy"', ANSWER)
box(3.2, 3.3, "Do rare classes\ncount the same?", QUESTION)
arrow((1.8, 4.3), (1.05, 3.7), "yes")
arrow((2.4, 4.3), (3.05, 3.7), "no")
box(1.05, 1.75, 'loss="logit_adjusted",\n"smooth_topk_adjusted"\nor "ldam"', ANSWER)
box(4.4, 1.75, 'loss="smooth_topk"\nor "topk_transition"', ANSWER)
box(2.6, 0.35, "compare_losses", ANSWER)
arrow((2.9, 2.9), (1.5, 2.3), "yes")
arrow((3.5, 2.9), (4.2, 2.3), "no")
arrow((3.0, 2.9), (2.7, 0.65), "not sure")

box(5.05, 3.5, "BudgetClassifier", ANSWER)
box(6.5, 2.75, "SetClassifier", ANSWER)
arrow((5.4, 4.4), (5.15, 3.8), "samples")
arrow((6.2, 4.4), (6.5, 3.05), "labels")

CUTS = [
    ("at k samples of each day", "RecallAtKClassifier"),
    ("at a share of the samples", "PatMatClassifier"),
    ("at 1 % false positives", "RecallAtFPRClassifier"),
    ("at a share of the negatives", "PatMatNPClassifier"),
    ("at the highest negative", "DeepTopPushClassifier"),
    ("at the k-th negative", "TopPushKClassifier"),
    ("at a recall", "PrecisionAtRecallClassifier"),
    ("at a precision", "RecallAtPrecisionClassifier"),
    ("at the best F-score", "FScoreClassifier"),
    ("none: the whole ranking", "AUCClassifier"),
]
for i, (cut, name) in enumerate(CUTS):
    y = 3.75 - 0.41 * i
    ax.text(10.0, y, cut, fontsize=10, ha="right", va="center", color="0.25")
    ax.text(
        10.15,
        y,
        name,
        fontsize=10,
        ha="left",
        va="center",
        bbox=ANSWER | {"boxstyle": "round,pad=0.3"},
    )
arrow((10.9, 4.4), (10.9, 4.0))
