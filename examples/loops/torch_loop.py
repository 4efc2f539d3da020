"""
A training loop in torch
========================

Each loss is available as a function of scores and targets, and as an ``nn.Module``. You choose the
model, the optimizer, the minibatches and the device.

Result: in a network that is too narrow, the smooth top-3 loss reaches the top-3 accuracy of
cross-entropy. Its top-1 accuracy is much lower, because it does not order the three labels. Choose
a top-k loss only if you use all k labels.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from sktopk.losses import SmoothTopKLoss, topk_transition_loss

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)
X = torch.tensor(X, dtype=torch.float32) / 16
y = torch.tensor(y)
order = torch.randperm(len(X))
train, test = order[:900], order[900:]

# %%
# The loop
# --------
# The network is too narrow for ten digits, so that the losses differ.


def fit(loss, soft=False, n_epochs=40, seed=0):
    """Return the network and its top-1 and top-3 accuracy on new samples after each epoch."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 3), nn.Tanh(), nn.Linear(3, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    curve = []
    for _ in range(n_epochs):
        for batch in train[torch.randperm(len(train))].split(64):
            x, target = X[batch], y[batch]
            if soft:
                x, target = mixup(x, target)
            optimizer.zero_grad()
            loss(SCALE * model(x), target).backward()
            optimizer.step()
        with torch.no_grad():
            ranked = model(X[test]).argsort(1, descending=True)
        hits = ranked == y[test].unsqueeze(1)
        curve.append([hits[:, :k].any(1).float().mean().item() for k in (1, 3)])
    return model, curve


def mixup(x, target, share=0.8):
    """Mix each sample and its one-hot target with those of another sample."""
    other = torch.randperm(len(x))
    one_hot = nn.functional.one_hot(target, 10).float()
    return share * x + (1 - share) * x[other], share * one_hot + (1 - share) * one_hot[other]


# A loss that divides scores by k tau needs larger scores. All losses get the same scale.
SCALE = 10.0
curves = {
    "nn.CrossEntropyLoss": fit(nn.CrossEntropyLoss()),
    "SmoothTopKLoss(k=3)": fit(SmoothTopKLoss(k=3)),
    "topk_transition_loss, mixup": fit(
        lambda scores, target: topk_transition_loss(scores, target, k=3), soft=True
    ),
}
for name, (_, curve) in curves.items():
    print(f"{name:30s} top-1 {curve[-1][0]:.3f}   top-3 {curve[-1][1]:.3f}")

# %%
# Weights and reductions
# ----------------------
# Every loss takes ``sample_weight`` and ``reduction``. A sample of weight 2 counts twice.

model, _ = curves["SmoothTopKLoss(k=3)"]
loss = SmoothTopKLoss(k=3, reduction="none")
each = loss(SCALE * model(X[test]), y[test])
hardest = test[each.argsort(descending=True)[:8]]
print(f"mean loss {each.mean():.3f}; loss of the hardest sample {each.max():.2f}")

# %%

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, (_, curve)), style in zip(curves.items(), ("--", "-", ":"), strict=True):
    ax.plot(range(1, len(curve) + 1), [row[1] for row in curve], style, label=name)
ax.set(xlabel="Epoch", ylabel="Top-3 accuracy on new samples")
ax.legend(loc="lower right")
plt.show()

# %%
# The samples with the largest loss:

figure, axes = plt.subplots(1, 8, figsize=(10, 1.6), layout="constrained")
for ax, row in zip(axes, hardest, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(str(y[row].item()))
    ax.axis("off")
plt.show()
