"""Accuracy against the learning rate, with and without cross-entropy in the loss."""

import matplotlib.pyplot as plt
from small_digits import accuracies

SETTINGS = {
    "default mixture": ({"loss": "smooth_topk", "log_loss_share": 0.6}, "#d55e00", "o-"),
    "smooth loss only": ({"loss": "smooth_topk"}, "#d55e00", "o:"),
    "cross-entropy": ({"loss": "cross_entropy"}, "#0072b2", "s-"),
}
rates = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, (params, color, style) in SETTINGS.items():
    scores = [accuracies((3,), learning_rate=rate, **params)[0] for rate in rates]
    ax.plot(rates, scores, style, color=color, label=name)
ax.set(xscale="log", xlabel="learning_rate", ylabel="Top-3 accuracy")
ax.legend()
