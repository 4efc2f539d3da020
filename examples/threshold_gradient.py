"""
Why the threshold needs its gradient
====================================

Accuracy at the top moves positives above a threshold. The threshold is itself a score: the score of
the highest negative. It changes with the weights, so its gradient is part of the gradient of the
loss. If a loss treats the threshold as a constant, each step moves the threshold away again.

The data are from appendix E of *DeepTopPush: Simple and Scalable Method for Accuracy at the
Top* (Adam, Mácha, Šmídl, 2020). On these data, a constant threshold fails for every step size.

Result: with a constant threshold the weights grow without bound and the loss increases. With the
gradient of the threshold, the loss decreases.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import torch

from sktopk.losses import KthLargest, accuracy_at_top_loss

# %%
# Positives and negatives, and one outlier
# ----------------------------------------
# The classes fill two rectangles that touch, so the first coordinate separates them. The negative
# outlier at (3, 0) has a larger first coordinate than all positives.

generator = torch.Generator().manual_seed(0)
positives = torch.rand(100, 2, generator=generator) * torch.tensor([1.0, 2.0])
negatives = torch.rand(100, 2, generator=generator) * torch.tensor([-1.0, 2.0])
outlier = torch.tensor([[3.0, 1.0]])
X = torch.cat([positives, negatives, outlier]) - torch.tensor([0.0, 1.0])
y = torch.cat([torch.ones(100), torch.zeros(101)]).int()

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for label, name, style in ((0, "negative", "s"), (1, "positive", "o")):
    ax.plot(*X[y == label].T, style, markersize=4, label=name)
ax.set(xlabel="$x_1$", ylabel="$x_2$")
ax.legend(loc="lower right")
plt.show()

# %%
# Three thresholds
# ----------------
# The first two thresholds are the highest score of a negative, without and with its gradient. The
# third threshold is the second highest score of a negative, which allows one outlier above it.

largest_negative = KthLargest("negatives", k=1)


def fixed(scores, positive, weight):
    """The largest negative score without its gradient."""
    return largest_negative(scores, positive, weight).detach()


thresholds = {
    "largest negative, fixed": fixed,
    "largest negative": largest_negative,
    "second largest negative": KthLargest("negatives", k=2),
}


def loss_of(weights, threshold):
    """Hinge loss of the scores X @ weights."""
    return accuracy_at_top_loss(X @ weights, y, threshold=threshold, surrogate="hinge")


# %%
# At the weights (1, 0) the score of the outlier, 3, is the threshold. The constant threshold gives
# a step that increases the scores of the positives, whose mean is 1/2 (equation 13 of the paper).
# The gradient of the threshold, (3, 0), reverses the step.

for name, threshold in thresholds.items():
    weights = torch.tensor([1.0, 0.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(loss_of(weights, threshold), weights)
    print(f"{name:25s} gradient ({gradient[0]:+.2f}, {gradient[1]:+.2f})")

# %%
# Plain gradient descent
# ----------------------


def descend(threshold, learning_rate=0.05, n_steps=400):
    """Return the norm of the weights and the loss, before each step."""
    weights = torch.tensor([1.0, 0.0], requires_grad=True)
    norms, losses = [], []
    for _ in range(n_steps):
        loss = loss_of(weights, threshold)
        norms.append(weights.norm().item())
        losses.append(loss.item())
        (gradient,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            weights -= learning_rate * gradient
    return norms, losses


traces = {name: descend(threshold) for name, threshold in thresholds.items()}

# %%
# With a constant threshold the weights grow without bound, and the loss increases. A smaller step
# only delays this growth. With the gradient of the threshold, the weights become nearly zero, where
# all scores are equal and the loss is 1: no linear model ranks all positives above all negatives.
# The second highest negative as threshold ignores the outlier, so the classes are separated.

for name, (norms, losses) in traces.items():
    print(
        f"{name:25s} weights {norms[0]:.1f} -> {norms[-1]:4.1f}   "
        f"loss {losses[0]:.1f} -> {losses[-1]:4.1f}"
    )

# %%

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, (_, losses)), style in zip(traces.items(), ("-", "--", ":"), strict=True):
    ax.plot(losses, style, linewidth=2, label=name)
ax.set(xlabel="Step", ylabel="Loss")
ax.legend(title="Threshold")
plt.show()
