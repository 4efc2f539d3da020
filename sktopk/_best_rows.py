"""The scores of any binary classifier, and the rows that score best."""

import numpy as np

from ._any_classifier import encode_labels
from .metrics._checks import n_kept
from .metrics._top_scorer import positive_scores


def finite_scores(estimator, X):
    """Return a fitted classifier's scores of its second class, as floats."""
    _, scores = positive_scores(estimator, X)
    if scores is None:
        raise ValueError(f"estimator must know two classes; got one from {estimator!r}")
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    refused = np.flatnonzero(~np.isfinite(scores))
    if len(refused):
        raise ValueError(
            f"estimator must give finite scores; got {scores[refused[0]]} for row {refused[0]} "
            f"of X from {type(estimator).__name__}"
        )
    return scores


def known_positives(y, classes):
    """Return the mask of the labels that are the second class; each must be one of two."""
    code = encode_labels(classes, y)
    if (code < 0).any():
        raise ValueError(
            f"y must hold labels that estimator knows, {classes.tolist()}; got {y[code < 0][0]!r}"
        )
    return code == 1


def best_rows(scores, group, budget, name):
    """Return the mask of the best rows of each group, ties by row order, and what to warn of.

    `group` numbers the groups from 0; `name` is what the user calls `budget`, a number of rows
    or a fraction of a group, rounded up.
    """
    order = np.lexsort((-scores, group))
    size = np.bincount(group)
    n_best = np.array([n_kept(budget, n) for n in size], dtype=np.intp)
    problems = []
    short = size[n_best > size]
    if len(short):
        where = "" if len(size) == 1 else f" in the smallest of {len(short)} groups that have fewer"
        problems.append(f"{name}={budget} but only {short.min()} rows{where}")
        n_best = np.minimum(n_best, size)
    end = np.cumsum(size) - size + n_best
    flagged = np.zeros(len(scores), dtype=bool)
    flagged[order] = np.arange(len(scores)) < np.repeat(end, size)
    # The last score that is in and, where one is left out, the first that is not.
    ranked = scores[order]
    cut = ranked[end - 1]
    tied = (n_best < size) & (cut == ranked[np.minimum(end, len(scores) - 1)])
    if tied.any():
        n_tied = np.count_nonzero(tied[group] & (scores == cut[group]))
        where = "the cut" if len(size) == 1 else f"the cuts of {np.count_nonzero(tied)} groups"
        problems.append(f"{n_tied} rows tie at {where}; broken by row order")
    return flagged, problems
