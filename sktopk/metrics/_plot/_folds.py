"""Curves of the test folds of a cross-validation."""

import numpy as np

from sktopk._common._scalars import check_nonnegative, on_host

from ._style import free_line_style

_MOST_MARKED_POINTS = 100


def split_folds(cv_results, X, y, sample_weight=None):
    """Yield the estimator of each fold with its test rows, their labels and their weights."""
    if not {"estimator", "indices"} <= set(cv_results):
        raise ValueError(
            "cv_results must come from cross_validate with return_estimator=True and "
            f"return_indices=True; got the keys {sorted(cv_results)}"
        )
    if sample_weight is not None:
        sample_weight = check_nonnegative(
            sample_weight, "sample_weight", len(y), "one per row of X"
        )
    X, y = on_host(X, "X"), np.asarray(on_host(y, "y"))
    rows = np.asarray(X) if isinstance(X, list) else getattr(X, "iloc", X)
    for estimator, test in zip(cv_results["estimator"], cv_results["indices"]["test"], strict=True):
        weight = None if sample_weight is None else sample_weight[test]
        yield estimator, rows[test], y[test], weight


def folds_name(cv_results, name):
    """Return the name of the curves of all folds; None stands for the estimators' class."""
    estimators = cv_results["estimator"]
    name = type(estimators[0]).__name__ if name is None else name
    return f"{name} ({len(estimators)} folds)"


def draw_curves(ax, x, y, kwargs, **single):
    """Draw a curve, `single` unless `kwargs` say otherwise, or those of folds; return the lines.

    Folds have thin curves of one colour, of which the first has the label. A curve of
    hundreds of points has a line style of its own in the place of markers.
    """
    if not np.ndim(x[0]):
        if len(x) > _MOST_MARKED_POINTS:
            single = {"marker": "", "markevery": 1, "linestyle": free_line_style(ax), **single}
        return ax.plot(x, y, **{**single, **kwargs})[0]
    lines = []
    style = {"linewidth": 1.0, "marker": "", "markevery": 1, "alpha": 0.7, **kwargs}
    for each_x, each_y in zip(x, y, strict=True):
        lines += ax.plot(each_x, each_y, **style)
        style = {**style, "color": lines[0].get_color(), "label": None}
    return lines
