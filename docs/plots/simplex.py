"""Losses of three scores, drawn over the simplex, as figure 1 of Garcin et al. 2022."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.tri import Triangulation

from sktopk import losses

# Scores are stretched by this, so that margins of 1 have room.
SIZE = 2.0
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])  # the label is on top
LABEL = 2


def grid(n=80):
    """Return barycentric coordinates of a fine triangular grid."""
    points = [(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]
    return np.array(points) / n


def values(name, **params):
    """Return the loss at each point of the grid, rescaled to [0, 1]."""
    scores = torch.from_numpy(SIZE * grid())
    target = torch.full((len(scores),), LABEL)
    if name == "topk_error":
        # The label's own score is not the smallest.
        loss = (scores[:, LABEL] <= scores.amin(1)).double()
    else:
        if name.startswith("noised"):
            # Equal draws at every point, many of them: level sets, not noise.
            generator = torch.Generator().manual_seed(0)
            noise = torch.randn(1, 3, 500, generator=generator, dtype=torch.float64)
            params["noise"] = noise.expand(len(scores), -1, -1)
        function = getattr(losses, name, None) or getattr(torch.nn.functional, name)
        loss = function(scores, target, reduction="none", **params)
    loss = loss.numpy()
    return (loss - loss.min()) / (loss.max() - loss.min())


def draw_on(ax, name, title=None, **params):
    x, y = (grid() @ CORNERS).T
    loss = values(name, **params)
    # Level sets of a step would be noise on the grid.
    levels = [-0.5, 0.5, 1.5] if name == "topk_error" else np.linspace(0, 1 + 1e-9, 21)
    triangles = Triangulation(x, y)
    ax.tricontourf(triangles, loss, levels=levels, cmap="viridis", vmin=0, vmax=1)
    if name != "topk_error":
        ax.tricontour(triangles, loss, levels=levels[1:-1:2], colors="w", linewidths=0.4)
    ax.plot(*CORNERS[LABEL], "o", color="#d55e00", markersize=7, clip_on=False)
    shown = ", ".join(f"{k}={v}" for k, v in params.items() if k not in ("class_counts", "noise"))
    ax.set_title(title or shown or name.removesuffix("_loss"), fontsize=9)
    ax.set_aspect("equal")
    ax.axis("off")


def draw(name, *settings, **shared):
    """Draw one loss with one or several settings."""
    settings = settings or ({},)
    _, axes = plt.subplots(
        1, len(settings), figsize=(2.6 * len(settings), 2.5), squeeze=False, layout="constrained"
    )
    for ax, setting in zip(axes[0], settings, strict=True):
        params = {k: v for k, v in setting.items() if k != "_title"}
        draw_on(ax, name, setting.get("_title"), **shared | params)


def draw_several(named):
    """Draw several losses side by side."""
    _, axes = plt.subplots(1, len(named), figsize=(2.6 * len(named), 2.5), layout="constrained")
    for ax, (name, params) in zip(axes, named.items(), strict=True):
        draw_on(ax, name, name.removesuffix("_loss"), **params)
