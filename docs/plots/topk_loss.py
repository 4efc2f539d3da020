"""What a top-k loss ignores: the rank of the label within the first k places."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import torch

from sktopk.losses import smooth_topk_loss

K = 3
OTHERS = torch.tensor([30.0, 20.0, 10.0, 0.0, -10.0], dtype=torch.float64)

label = torch.linspace(-20, 40, 601, dtype=torch.float64)
scores = torch.cat([label[:, None], OTHERS.expand(len(label), -1)], dim=1)
target = torch.zeros(len(label), dtype=torch.long)
curves = {
    "cross-entropy": torch.nn.functional.cross_entropy(scores, target, reduction="none"),
    "top-3 loss": smooth_topk_loss(scores, target, k=K, tau=0.2, reduction="none"),
}

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for (name, values), style in zip(curves.items(), ("--", "-"), strict=True):
    ax.plot(label, values, style, linewidth=2, label=name)
# The label moves up one place at each score of another class.
edges = np.array([label.min(), *OTHERS.flip(0), label.max()])
for rank, (low, high) in enumerate(pairwise(edges)):
    place = len(OTHERS) + 1 - rank
    if place <= K:
        ax.axvspan(low, high, color="#009e73", alpha=0.04 + 0.05 * (K - place + 1), linewidth=0)
    ax.text((low + high) / 2, 54, f"place {place}", ha="center", fontsize=8)
ax.set(xlabel="Score of the label", ylabel="Loss", xlim=(edges[0], edges[-1]), ylim=(-1, 59))
ax.legend(loc="center", bbox_to_anchor=(0.83, 0.6))
