"""Where the thresholds of six losses lie among the scores of a batch."""

import matplotlib.pyplot as plt
import torch

from sktopk.losses import KthLargest

generator = torch.Generator().manual_seed(3)
positives = 1.0 + torch.randn(10, generator=generator)
negatives = -0.7 + torch.randn(30, generator=generator)
scores = torch.cat([positives, negatives])
positive = torch.arange(40) < 10

THRESHOLDS = {
    "DeepTopPush: largest negative": KthLargest("negatives", k=1),
    "TopPushK: third largest negative": KthLargest("negatives", k=3),
    "RecallAtK: fifth largest of all": KthLargest("all", k=5),
    "PatMat: top 20 % of all": KthLargest("all", tau=0.2),
    "PatMatNP: top 20 % of negatives": KthLargest("negatives", tau=0.2),
    "PrecisionAtRecall: top 80 % of positives": KthLargest("positives", tau=0.8),
}
figure, ax = plt.subplots(figsize=(8.5, 3.6), layout="constrained")
for row, threshold in enumerate(THRESHOLDS.values()):
    y = -row
    ax.plot(negatives, [y] * 30, "s", color="#8a9ba8", markersize=4)
    ax.plot(positives, [y] * 10, "o", color="#d55e00", markersize=5)
    t = threshold(scores, positive).item()
    ax.plot([t, t], [y - 0.4, y + 0.4], "k", linewidth=2)
ax.set_yticks([-row for row in range(len(THRESHOLDS))], list(THRESHOLDS))
ax.set_xlabel("Score: positives round, negatives square, threshold black")
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(left=False)
