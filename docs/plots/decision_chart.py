"""From what is looked at to an estimator: a chart."""

import matplotlib.pyplot as plt

QUESTION = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f1f8", "edgecolor": "#00589c"}
ANSWER = {"boxstyle": "round,pad=0.5", "facecolor": "#fbe9dd", "edgecolor": "#b34700"}

figure, ax = plt.subplots(figsize=(11, 6.4))
ax.set(xlim=(0, 11), ylim=(0, 6.4))
ax.axis("off")


def box(x, y, text, style):
    ax.text(x, y, text, ha="center", va="center", fontsize=9, bbox=style, zorder=3)


def arrow(start, end, text=None):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "0.45"}, zorder=1)
    if text:
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        ax.text(
            x,
            y,
            text,
            fontsize=8,
            ha="center",
            va="center",
            color="0.25",
            bbox={"facecolor": "w", "edgecolor": "none", "pad": 1},
            zorder=2,
        )


box(5.5, 6.0, "What is looked at?", QUESTION)
box(2.0, 4.7, "Is the model ample,\nthe data clean?", QUESTION)
box(5.7, 4.7, "Rows or labels?", QUESTION)
box(9.2, 4.7, "Where is the cut?", QUESTION)
arrow((4.6, 5.9), (2.3, 5.1), "a few labels\nof each row")
arrow((5.55, 5.75), (5.65, 5.1), "I have scores")
arrow((6.4, 5.9), (8.9, 5.0), "a few rows of many")

box(0.95, 3.3, 'TopKClassifier\nloss="cross_entropy"', ANSWER)
box(3.05, 3.3, "Do rare classes\ncount as much?", QUESTION)
arrow((1.7, 4.35), (1.05, 3.65), "yes")
arrow((2.3, 4.35), (2.95, 3.65), "no")
box(1.15, 1.9, 'loss="logit_adjusted",\n"ldam" or\n"noised_topk_imbalanced"', ANSWER)
box(3.6, 1.9, 'loss="smooth_topk",\n"noised_topk" or\n"topk_transition"', ANSWER)
box(2.35, 0.6, 'not sure: loss="auto" or compare_losses', ANSWER)
arrow((2.8, 2.95), (1.5, 2.4), "yes")
arrow((3.2, 2.95), (3.5, 2.4), "no")

box(5.45, 3.3, "BudgetClassifier", ANSWER)
box(6.35, 2.55, "SetClassifier", ANSWER)
arrow((5.65, 4.35), (5.5, 3.55), "rows")
arrow((6.0, 4.35), (6.4, 2.8), "labels")

ROWS = [
    ("at the first false alarm", "DeepTopPushClassifier"),
    ("a few false alarms", "TopPushKClassifier"),
    ("k rows", "RecallAtKClassifier"),
    ("a share of the rows", "PatMatClassifier"),
    ("a false-positive rate", "PatMatNPClassifier"),
    ("a recall", "PrecisionAtRecallClassifier"),
    ("a precision", "RecallAtPrecisionClassifier"),
    ("where both balance", "FScoreClassifier"),
    ("nowhere", "AUCClassifier"),
]
for i, (cut, name) in enumerate(ROWS):
    y = 3.75 - 0.45 * i
    ax.text(8.7, y, cut, fontsize=8.5, ha="right", va="center", color="0.25")
    ax.text(
        8.85,
        y,
        name,
        fontsize=8.5,
        ha="left",
        va="center",
        bbox=ANSWER | {"boxstyle": "round,pad=0.3"},
    )
arrow((9.2, 4.4), (9.2, 3.98))
