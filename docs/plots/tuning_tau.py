"""The smooth loss at several temperatures, and what they do to accuracy."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from small_digits import accuracies

from sktopk.losses import smooth_topk_loss, topk_hinge_loss

figure, (loss_ax, accuracy_ax) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")

lead = torch.linspace(-6, 10, 200, dtype=torch.float64)
scores = torch.zeros(200, 10, dtype=torch.float64)
scores[:, 1:4] = torch.tensor([0.5, 0.0, -0.5])
scores[:, 4:] = -3.0
scores[:, 0] = lead
label = torch.zeros(200, dtype=torch.long)
for tau, color in zip((0.1, 0.3, 1.0, 3.0), plt.cm.plasma(np.linspace(0, 0.8, 4)), strict=True):
    loss = smooth_topk_loss(scores, label, k=3, tau=tau, reduction="none")
    loss_ax.plot(lead, loss, color=color, label=f"tau = {tau}")
hinge = topk_hinge_loss(scores, label, k=3, reduction="none")
loss_ax.plot(lead, hinge, "k--", linewidth=1, label="hinge: tau = 0")
loss_ax.set(xlabel="Score of the label; the three best others near 0", ylabel="Smooth top-3 loss")
loss_ax.legend()

taus = [0.03, 0.1, 0.3, 1.0, 3.0]
rows = np.array([accuracies((1, 3), loss="smooth_topk", tau=tau) for tau in taus])
baseline = accuracies((1, 3), loss="cross_entropy")
for i, (k, color) in enumerate(((1, "#0072b2"), (3, "#d55e00"))):
    accuracy_ax.plot(taus, rows[:, i], "o-", color=color, label=f"top-{k}, smooth loss, k = 3")
    accuracy_ax.axhline(baseline[i], color=color, linestyle=":", label=f"top-{k}, cross-entropy")
accuracy_ax.set(xscale="log", xlabel="tau", ylabel="Accuracy on the held-out half")
accuracy_ax.legend(fontsize="small")
