"""The way of the data through a fit, with the file of each step."""

import matplotlib.pyplot as plt

STEPS = [
    ("checks", "_common/_input.py", "Samples:\nX, y, weight, groups"),
    ("task", "_estimators/_task.py", "target of shape\n(n_samples,)"),
    ("folds", "_estimators/_fit.py", "the samples that\na network holds out"),
    ("minibatch", "_training/_batches.py", "indices of shape\n(n_members, n)"),
    ("network", "_training/_net.py", "scores of shape\n(n_members, n,\nn_outputs)"),
    ("objective", "_training/_objectives.py", "losses of shape\n(n_members,)"),
    ("public loss", "losses/", "autograd: gradients"),
]

figure, ax = plt.subplots(figsize=(13, 2.6))
ax.set(xlim=(-0.5, len(STEPS) - 0.5), ylim=(0, 1))
ax.axis("off")
style = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f1f8", "edgecolor": "#00589c"}
for i, (name, place, result) in enumerate(STEPS):
    ax.text(i, 0.72, name, ha="center", va="center", weight="bold", fontsize=10, bbox=style)
    ax.text(i, 0.42, place, ha="center", va="center", fontsize=7, color="#00589c")
    ax.text(i, 0.18, result, ha="center", va="center", fontsize=8)
    if i:
        arrow = {"arrowstyle": "-|>", "color": "#00589c"}
        ax.annotate("", (i - 0.36, 0.72), (i - 0.64, 0.72), arrowprops=arrow)
