"""The scores of any binary classifier, and the rows that score best."""

import numpy as np

from sktopk._common._groups import encode_groups
from sktopk._common._input import encode_labels
from sktopk._common._scalars import n_kept, place_of
from sktopk._common._streams import parts
from sktopk._common._warnings import warn
from sktopk.metrics._top_scorer import positive_scores


class BestRows:
    """The `n` rows of highest score among all that were added, tied ones in their order.

    Parameters
    ----------
    n : int
        No more rows than these are kept.

    Attributes
    ----------
    index, scores : ndarray of shape (n_kept,)
        Their numbers in the order in which rows were added, and their scores, best first.
    n_rows : int
        How many rows were added.
    n_at_cut : int
        How many of them, kept or not, score as the last one that is kept.
    """

    def __init__(self, n):
        self.n, self.n_rows, self.n_at_cut = n, 0, 0
        self.index, self.scores = np.empty(0, dtype=np.intp), np.empty(0)

    def add_all(self, scores_of_parts):
        """Add the scores of rows that come one part after another; return self."""
        for scores in scores_of_parts:
            self.add(scores)
        return self

    def add(self, scores):
        """Add the scores of the rows that come next."""
        index = np.arange(self.n_rows, self.n_rows + len(scores))
        self.n_rows += len(scores)
        cut = self.scores[-1] if len(self.scores) == self.n else -np.inf
        if cut > -np.inf:
            self.n_at_cut += np.count_nonzero(scores == cut)
            # Of those tied at the cut, the ones that are kept came first.
            index, scores = index[scores > cut], scores[scores > cut]
        scores = np.concatenate([self.scores, scores])
        order = np.argsort(-scores, kind="stable")[: self.n]
        self.index = np.concatenate([self.index, index])[order]
        self.scores = scores[order]
        if len(order) and self.scores[-1] != cut:
            # Whatever was left out before scores lower.
            self.n_at_cut = np.count_nonzero(scores == self.scores[-1])

    def problems(self, name, budget):
        """What to warn of where the user calls n `budget`."""
        if self.n_rows < self.n:
            return [_too_few(name, budget, self.n_rows)]
        left_out = self.n_at_cut - np.count_nonzero(self.scores == self.scores[-1])
        return [_tied(self.n_at_cut, "the cut")] if left_out else []


def top_rows(scores_of_parts, n, groups=None):
    """Return the numbers of the `n` rows of highest score, best first, of each group if there are.

    `scores_of_parts` has the scores of rows that come one part after another; tied rows are in
    their order. Warns of groups of fewer rows, and raises where there are fewer in all.
    """
    if groups is None:
        best = BestRows(n).add_all(scores_of_parts)
        if n > best.n_rows:
            raise ValueError(f"n={n} must be at most the number of rows of X ({best.n_rows})")
        return best.index
    scores = np.concatenate([*scores_of_parts])
    kept, problems = best_rows(scores, encode_groups(groups, len(scores)), n, "n")
    for problem in problems:
        warn(problem)
    order = np.argsort(-scores, kind="stable")
    return order[kept[order]]


def rows_above(scores_of_parts, threshold):
    """Return the numbers of the rows that score above `threshold`, best first, ties in order.

    `scores_of_parts` has the scores of rows that come one part after another.
    """
    start, found = 0, [(np.empty(0, dtype=np.intp), np.empty(0))]
    for scores in scores_of_parts:
        above = np.flatnonzero(scores.astype(np.float64) > threshold)
        found.append((above + start, scores[above]))
        start += len(scores)
    index, scores = map(np.concatenate, zip(*found, strict=True))
    return index[np.argsort(-scores, kind="stable")]


def _too_few(name, budget, n_rows, where=""):
    return f"{name}={budget} but only {n_rows} rows{where}"


def _tied(n_rows, where):
    return f"{n_rows} rows tie at {where}; broken by row order"


def finite_scores(estimator, X, pos_label, start=0):
    """Return a fitted classifier's scores of a class, as floats; X begins at row `start`."""
    _, scores = positive_scores(estimator, X, pos_label)
    if scores is None:
        raise ValueError(f"estimator must know two classes; got one from {estimator!r}")
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    refused = np.flatnonzero(~np.isfinite(scores))
    if len(refused):
        raise ValueError(
            f"estimator must give finite scores; got {scores[refused[0]]} for row "
            f"{start + refused[0]} of X from {type(estimator).__name__}"
        )
    return scores


def score_parts(estimator, X, pos_label):
    """Yield the `finite_scores` of the parts of X, a table or a stream."""
    start = 0
    for part in parts(X):
        yield (scores := finite_scores(estimator, part, pos_label, start))
        start += len(scores)


def check_groups(groups, per):
    """Raise unless there are groups where, and only where, a budget is per group."""
    if (groups is None) == (per == "group"):
        raise ValueError(
            f'groups must be passed with per="group" and only then; got per={per!r} and '
            f"{'no groups' if groups is None else 'groups'}"
        )


def known_positives(y, classes, pos_label):
    """Return the mask of the labels that are `pos_label`; each must be one of two classes."""
    code = encode_labels(classes, y)
    if (code < 0).any():
        raise ValueError(
            f"y must hold labels that estimator knows, {classes.tolist()}; got {y[code < 0][0]!r}"
        )
    return code == place_of(pos_label, classes)


def best_rows(scores, group, budget, name, n_other=0):
    """Return the mask of the best rows of each group, ties by row order, and what to warn of.

    `group` numbers the groups from 0; `name` is what the user calls `budget`, a number of rows
    or a fraction of a group, rounded up, of which `n_other` places are kept free where some rows
    are left out.
    """
    order = np.lexsort((-scores, group))
    size = np.bincount(group)
    n_best = np.array([min(n_kept(budget, n), n + 1) for n in size], dtype=np.intp)
    n_best = np.where(n_best < size, np.maximum(n_best - n_other, 0), n_best)
    problems = []
    short = size[n_best > size]
    if len(short):
        where = "" if len(size) == 1 else f" in the smallest of {len(short)} groups that have fewer"
        problems.append(_too_few(name, budget, short.min(), where))
        n_best = np.minimum(n_best, size)
    end = np.cumsum(size) - size + n_best
    flagged = np.zeros(len(scores), dtype=bool)
    flagged[order] = np.arange(len(scores)) < np.repeat(end, size)
    # The last score that is in and, where one is left out, the first that is not.
    ranked = scores[order]
    cut = ranked[end - 1]
    tied = (0 < n_best) & (n_best < size) & (cut == ranked[np.minimum(end, len(scores) - 1)])
    if tied.any():
        n_tied = np.count_nonzero(tied[group] & (scores == cut[group]))
        where = "the cut" if len(size) == 1 else f"the cuts of {np.count_nonzero(tied)} groups"
        problems.append(_tied(n_tied, where))
    return flagged, problems
