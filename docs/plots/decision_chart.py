"""From the task to an estimator: a chart of recommendations.toml."""

import textwrap

import matplotlib.pyplot as plt
from recommended_tasks import estimator_of, read_tasks

QUESTION = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f1f8", "edgecolor": "#00589c"}
ANSWER = {"boxstyle": "round,pad=0.4", "facecolor": "#fbe9dd", "edgecolor": "#b34700"}
GROUPS = {
    "guarantees": "A limit, bounds or sets, with\nthe classifier that you have",
    "samples": "The best of many samples",
    "labels": "Labels for each sample",
}
LINE, GAP = 0.21, 0.36

figure, ax = plt.subplots(figsize=(12.6, 6.8))
figure.subplots_adjust(0, 0, 1, 1)
ax.set(xlim=(0, 12.6), ylim=(0, 7.4))
ax.axis("off")
lowest = 7.4


def box(x, y, text, style=None, **options):
    ax.text(x, y, text, ha="center", va="center", fontsize=10, bbox=style, zorder=3, **options)


box(6.3, 7.1, "What do you need?", QUESTION)
for i, (group, title) in enumerate(GROUPS.items()):
    x, y = 2.1 + 4.2 * i, 5.75
    arrow = {"arrowstyle": "->", "color": "0.45"}
    ax.annotate("", (x, 6.45), (6.3 + 0.6 * (i - 1), 6.9), arrowprops=arrow, zorder=1)
    box(x, 6.2, title, QUESTION)
    for task in read_tasks().values():
        if task["group"] != group:
            continue
        # The need, and below it the estimator in a box.
        need = task["need"].replace("`", "").replace(" %", "\N{NO-BREAK SPACE}%")
        need = textwrap.wrap(need, 42)
        answer = textwrap.wrap(estimator_of(task).replace("`", ""), 44)
        box(x, y - LINE * len(need) / 2, "\n".join(need), color="0.25")
        y -= LINE * (len(need) + len(answer) / 2) + 0.12
        box(x, y, "\n".join(answer), ANSWER)
        y -= LINE * len(answer) / 2 + GAP
    lowest = min(lowest, y)
ax.set_ylim(lowest, 7.4)
