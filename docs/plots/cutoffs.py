"""The cut-offs of five rankers in one ranked list of 40 samples, 10 of them positive."""

import matplotlib.pyplot as plt
import numpy as np

# Best first: 1 is a positive sample.
RANKED = np.zeros(40, dtype=int)
RANKED[[0, 1, 2, 4, 5, 8, 10, 14, 21, 30]] = 1

place = np.arange(1, len(RANKED) + 1)
found, wrong = np.cumsum(RANKED), np.cumsum(1 - RANKED)
recall = place <= place[found == 8][0]
precision = place <= place[found / place >= 0.6][-1]
kept = {
    "no negative above\nDeepTopPushClassifier()": wrong == 0,
    "8 samples: 20 % of all\nPatMatClassifier(tau=0.2)": place <= 8,
    "3 negatives above: 10 % of the negatives\nRecallAtFPRClassifier(fpr=0.1)": wrong <= 3,
    "8 positives above: recall of 80 %\nPrecisionAtRecallClassifier(recall=0.8)": recall,
    "7 positives of 11: precision of 60 %\nRecallAtPrecisionClassifier(precision=0.6)": precision,
}

figure, ax = plt.subplots(figsize=(10, 3.4), layout="constrained")
for row, above in enumerate(kept.values()):
    for positive, color in ((1, "#d55e00"), (0, "#8a9ba8")):
        for shown, alpha in ((above, 1.0), (~above, 0.25)):
            x = place[shown & (positive == RANKED)]
            ax.scatter(x, np.full(len(x), row), s=48, color=color, alpha=alpha, linewidth=0)
    cut = above.sum() + 0.5
    ax.plot([cut, cut], [row - 0.38, row + 0.38], color="k", linewidth=1.5)
for color, label in (("#d55e00", "positive"), ("#8a9ba8", "negative")):
    ax.scatter([], [], s=48, color=color, label=label)
ax.plot([], [], color="k", label="cut-off")
ax.set(xlim=(0, 41), ylim=(len(kept) - 0.4, -0.6), xlabel="Place in the ranking, best first")
ax.set_yticks(range(len(kept)), kept, fontsize=9)
ax.tick_params(left=False)
ax.spines[["left", "right", "top"]].set_visible(False)
figure.legend(loc="outside upper right", ncols=3, frameon=False)
