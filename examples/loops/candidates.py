"""
Thousands of classes: candidates
================================

With thousands of classes, the scores of all classes dominate the cost of a step.
`sample_candidates` draws a few classes (candidates) for each step.

Result: with the labels and 200 of 3 000 classes in each step, the top-5 accuracy is almost 1.
"""

import matplotlib.pyplot as plt
import torch

from sktopk.losses import sample_candidates

torch.manual_seed(0)
n_classes, n_columns = 3000, 32
centers = torch.randn(n_classes, n_columns)


def draw(n_samples):
    y = torch.randint(n_classes, (n_samples,))
    return centers[y] + 0.5 * torch.randn(n_samples, n_columns), y


# %%
# Each step computes the scores of the labels and of 200 classes drawn at random. `log_weight`
# corrects the scores for the classes that were not drawn.

weight = torch.nn.Parameter(0.01 * torch.randn(n_classes, n_columns))
bias = torch.nn.Parameter(torch.zeros(n_classes))
optimizer = torch.optim.Adam([weight, bias], lr=0.03)
losses = []
for _ in range(400):
    X, y = draw(256)
    classes, target, log_weight = sample_candidates(y, n_classes, 200)
    scores = X @ weight[classes].T + bias[classes]
    loss = torch.nn.functional.cross_entropy(scores + log_weight, target)
    losses.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# Predictions use all classes.

X, y = draw(2000)
top = (X @ weight.T + bias).topk(5).indices
for k in (1, 5):
    print(f"top-{k} accuracy {(top[:, :k] == y[:, None]).any(1).float().mean():.3f}")

figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.plot(losses)
ax.set(xlabel="Step", ylabel="Cross-entropy of the candidates", yscale="log")
plt.show()
