"""The surrogates of accuracy at the top, and the step that they bound."""

import matplotlib.pyplot as plt
import numpy as np
import torch

from sktopk.losses import KthLargest, accuracy_at_top_loss


def surrogate(name, z):
    """One positive at -z below a threshold of 0."""
    scores = torch.tensor([-z, 0.0], dtype=torch.float64)
    threshold = KthLargest("negatives", k=1)
    return accuracy_at_top_loss(
        scores, torch.tensor([1, 0]), threshold=threshold, surrogate=name
    ).item()


z = np.linspace(-3, 2, 201)
figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, style in (("quadratic", "-"), ("hinge", "--"), ("logistic", "-.")):
    ax.plot(z, [surrogate(name, each) for each in z], style, label=name)
ax.step(z, z >= 0, "k", linewidth=1, label="what is counted")
ax.set(xlabel="Threshold minus score of a positive", ylabel="l", ylim=(-0.1, 5))
ax.legend()
