"""Accuracy against the learning rate, with and without room for the scores."""

import matplotlib.pyplot as plt
from small_digits import accuracies

SETTINGS = {
    'smooth, score_scale="auto" (30)': ({"loss": "smooth_topk"}, "#d55e00", "o-"),
    "smooth, score_scale=1": ({"loss": "smooth_topk", "score_scale": 1}, "#d55e00", "o:"),
    "cross-entropy, score_scale=10": (
        {"loss": "cross_entropy", "score_scale": 10},
        "#0072b2",
        "s-",
    ),
    'cross-entropy, score_scale="auto" (1)': ({"loss": "cross_entropy"}, "#0072b2", "s:"),
}
rates = [1e-4, 1e-3, 3e-3, 1e-2, 3e-2]

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, (params, color, style) in SETTINGS.items():
    scores = [accuracies((3,), learning_rate=rate, **params)[0] for rate in rates]
    ax.plot(rates, scores, style, color=color, label=name)
ax.set(xscale="log", xlabel="learning_rate, 30 epochs", ylabel="Top-3 accuracy")
ax.legend()
