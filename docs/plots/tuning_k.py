"""Models trained for different k, each judged at every k."""

import matplotlib.pyplot as plt
import numpy as np
from small_digits import accuracies

KS = np.arange(1, 8)
# Differences are small compared with the curves: draw them relative to cross-entropy.
baseline = accuracies(KS, loss="cross_entropy")

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
colors = plt.cm.viridis(np.linspace(0, 0.85, 4))
for k, color, marker in zip((1, 2, 3, 5), colors, "osD^", strict=True):
    ax.plot(
        KS,
        100 * (accuracies(KS, k=k, tau=0.3) - baseline),
        marker=marker,
        color=color,
        label=f"k = {k}",
    )
ax.plot(
    KS,
    100 * (accuracies(KS, k={1: 0.1, 3: 0.9}, tau=0.3) - baseline),
    "k*--",
    label="k = {1: .1, 3: .9}",
)
ax.axhline(0, color="0.5", linestyle=":", label="cross-entropy")
ax.set(xlabel="Labels shown", ylabel="Points of accuracy\nmore than cross-entropy")
ax.legend(title="smooth loss, tau = 0.3", fontsize="small", loc="lower right")
