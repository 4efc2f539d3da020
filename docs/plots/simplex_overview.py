"""Ten losses over the simplex, in the order of figure 1 of Garcin et al. 2022."""

import matplotlib.pyplot as plt
from simplex import draw_on

PANELS = {
    "top-2 error": ("topk_error", {}),
    "cross-entropy": ("cross_entropy", {}),
    "hinge": ("topk_hinge_loss", {"k": 2, "scaled": False}),
    "calibrated hinge": ("topk_hinge_calibrated_loss", {"k": 2}),
    "convex hinge": ("topk_hinge_convex_loss", {"k": 2}),
    "smooth, tau = 1": ("smooth_topk_loss", {"k": 2, "tau": 1.0}),
    "smooth, tau = 0.1": ("smooth_topk_loss", {"k": 2, "tau": 0.1}),
    "noised, sigma = 0.3": ("noised_topk_loss", {"k": 2, "sigma": 0.3}),
    "noised, sigma = 1": ("noised_topk_loss", {"k": 2, "sigma": 1.0}),
    "imbalanced, rarest label": (
        "noised_topk_imbalanced_loss",
        {"k": 2, "sigma": 0.3, "max_margin": 2.0, "scale": 1.0, "class_counts": [500, 500, 1]},
    ),
}

figure, axes = plt.subplots(2, 5, figsize=(10.5, 4.6), layout="constrained")
for ax, (title, (name, params)) in zip(axes.flat, PANELS.items(), strict=True):
    draw_on(ax, name, title, **params)
