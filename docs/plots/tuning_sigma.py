"""Who gets the gradient of the noised loss, and what the noise does to accuracy."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from small_digits import accuracies

from sktopk.losses import noised_topk_loss

figure, (share_ax, accuracy_ax) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")

K = 3
scores = torch.linspace(1, -1, 10, dtype=torch.float64).repeat(1, 1).requires_grad_()
generator = torch.Generator().manual_seed(0)
noise = torch.randn(1, 10, 4000, generator=generator, dtype=torch.float64)
ranks = np.arange(1, 11)
for i, sigma in enumerate((0.01, 0.1, 0.3, 1.0)):
    loss = noised_topk_loss(scores, torch.tensor([9]), k=K, sigma=sigma, noise=noise)
    (gradient,) = torch.autograd.grad(loss, scores)
    share = gradient[0].clone()
    share[9] += 1.0  # the label's own part
    color = plt.cm.plasma(i / 4.5)
    share_ax.bar(ranks + 0.2 * (i - 1.5), share, width=0.2, color=color, label=f"sigma = {sigma}")
share_ax.set(xlabel="Rank of the class (the label is last)", ylabel="Share of the gradient")
share_ax.set_xticks(ranks)
share_ax.legend()

sigmas = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
rows = np.array([accuracies((1, 3), loss="noised_topk", sigma=sigma) for sigma in sigmas])
baseline = accuracies((1, 3), loss="cross_entropy")
for i, (k, color) in enumerate(((1, "#0072b2"), (3, "#d55e00"))):
    accuracy_ax.plot(sigmas, rows[:, i], "o-", color=color, label=f"top-{k}, noised loss, k = 3")
    accuracy_ax.axhline(baseline[i], color=color, linestyle=":", label=f"top-{k}, cross-entropy")
accuracy_ax.set(xscale="log", xlabel="sigma", ylabel="Accuracy on the held-out half")
accuracy_ax.legend(fontsize="small")
