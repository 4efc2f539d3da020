"""
A loss of your own from a linear program
========================================

A missed fraud costs its amount, a review costs time, and the time for reviews is limited. A linear
program describes this loss. It finds the best threshold t for the scores s within the budget B.
Payment i has the amount a and the review cost r. The hinge z is at least 1 if payment i is missed,
and the hinge w is at least 1 if payment i is flagged:

.. math::

   \\min_{t, z, w} \\; \\frac{\\sum_i a_i z_i}{\\sum_i a_i} \\quad \\text{subject to} \\quad
   & z_i \\ge 1 - (s_i - t), \\quad w_i \\ge 1 + (s_i - t), \\\\
   & \\sum_i r_i w_i \\le B, \\quad z, w \\ge 0.

``LinearProgramLoss`` solves the program in each step and differentiates the optimum.

Result: the linear program saves more money within the budget than cross-entropy, with or without
the amounts as sample weights.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from sktopk.losses import LinearProgramLoss

# %%
# Payments
# --------
# The reviews of some payments take long (``cost``). The first feature shows frauds of small
# amounts, the second one frauds of large amounts. The easiest frauds are therefore not the most
# valuable ones.


def payments(n, seed):
    """Return features, amounts (zero where there is no fraud) and costs of review."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 3, generator=generator)
    fraud = torch.rand(n, generator=generator) < 0.3
    large = torch.rand(n, generator=generator) < 0.3
    X[:, 0] += 2.0 * (fraud & ~large)
    X[:, 1] += 2.0 * (fraud & large)
    X[:, 2] += 2.0 * (large & ~fraud)
    amount = torch.where(fraud, torch.where(large, 20.0, 1.0), 0.0)
    cost = torch.where(X[:, 2] > 1, 3.0, 1.0)
    return X, amount, cost


X, amount, cost = payments(600, seed=0)
X_test, amount_test, cost_test = payments(5000, seed=1)
BUDGET = 0.3  # share of the cost of all reviews

# %%
# The program
# -----------
# A function of scores and target returns the arrays of one program. The variables are t, z and w.
# The hinges overestimate the cost of the reviews. The loss therefore gets twice the budget.


def money_lost_within_budget(scores, target):
    """Return cost vector and inequalities of the program."""
    amount, cost = target.T
    n = len(scores)
    one, eye, zero = scores.new_ones(n, 1), torch.eye(n), torch.zeros(n, n)
    A = torch.cat(
        [
            torch.cat([one, -eye, zero], 1),  # t - z <= s - 1
            torch.cat([-one, zero, -eye], 1),  # -t - w <= -s - 1
            -torch.eye(1 + 2 * n)[1:],  # z, w >= 0
            torch.cat([torch.zeros(1 + n), cost]).unsqueeze(0),
        ]
    )
    budget = (2 * BUDGET * cost.sum()).reshape(1)
    b = torch.cat([scores - 1, -scores - 1, torch.zeros(2 * n), budget])
    c = torch.cat([torch.zeros(1), amount / amount.sum(), torch.zeros(n)])
    return {"c": c, "A_ub": A, "b_ub": b}


# %%
# Training
# --------
# Three models have the same training: the linear program, cross-entropy, and cross-entropy with
# amounts as sample weights.


def fit(loss, n_steps=80, batch_size=48):
    """Return a linear model that is trained with a loss."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(n_steps):
        rows = torch.randperm(len(X))[:batch_size]
        optimizer.zero_grad()
        value = loss(model(X[rows]).squeeze(1), torch.stack([amount[rows], cost[rows]], 1))
        value.backward()
        optimizer.step()
    return model


def cross_entropy(scores, target):
    """Cross-entropy of the two classes, fraud and not fraud."""
    return nn.functional.binary_cross_entropy_with_logits(scores, (target[:, 0] > 0).float())


def weighted_cross_entropy(scores, target):
    """Cross-entropy with the amount as the weight of a fraud."""
    weight = target[:, 0].clamp(min=1.0)
    return nn.functional.binary_cross_entropy_with_logits(
        scores, (target[:, 0] > 0).float(), weight=weight
    )


models = {
    "linear program": fit(LinearProgramLoss(money_lost_within_budget)),
    "cross-entropy": fit(cross_entropy),
    "cross-entropy, weighted": fit(weighted_cross_entropy),
}

# %%
# Money saved
# -----------
# New payments are reviewed by decreasing score until the budget is spent.

figure, money_ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, model), style in zip(models.items(), ("-", "--", ":"), strict=True):
    with torch.no_grad():
        order = model(X_test).squeeze(1).argsort(descending=True)
    spent = np.cumsum(cost_test[order].numpy()) / cost_test.sum().item()
    saved = np.cumsum(amount_test[order].numpy()) / amount_test.sum().item()
    print(f"{name:24s} saves {np.interp(BUDGET, spent, saved):.1%} of the money lost to fraud")
    money_ax.plot(spent, saved, style, label=name)
money_ax.axvline(BUDGET, color="0.5", linewidth=1)
money_ax.set(xlabel="Share of the cost of all reviews", ylabel="Share of the money saved")
money_ax.legend(loc="lower right")
plt.show()
