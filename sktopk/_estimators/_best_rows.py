"""Selection of the samples with the highest scores."""

import numpy as np

from sktopk._common._samples import encode_groups
from sktopk._common._scalars import check_number
from sktopk._common._warnings import warn


def rows_on_top(scores, n, groups=None):
    """Return the indices of the n highest scores, overall or of each group, best score first."""
    check_number(n, "n", 1, integer=True)
    order = np.argsort(-scores, kind="stable")
    if groups is not None:
        kept = _best_of_groups(scores, encode_groups(groups, len(scores)), n)
        return order[kept[order]]
    if n > len(scores):
        warn(f"n={n} exceeds the number of samples of X ({len(scores)}): all are selected")
    elif n < len(scores) and (cut := scores[order[n - 1]]) == scores[order[n]]:
        warn(f"{np.count_nonzero(scores == cut)} samples tie at rank {n}: the first in X are taken")
    return order[:n]


def _best_of_groups(scores, group, n):
    order, size = np.lexsort((-scores, group)), np.bincount(group)
    n_best = np.minimum(n, size)
    if (short := size[size < n]).size:
        warn(
            f"n={n} exceeds the size of some groups: all samples of these {len(short)} groups are "
            f"selected (the smallest group has {short.min()})"
        )
    end = np.cumsum(size) - size + n_best
    kept = np.zeros(len(scores), dtype=bool)
    kept[order] = np.arange(len(scores)) < np.repeat(end, size)
    # A group has a tie if the last selected score equals the first score that is not selected.
    ranked = scores[order]
    cut = ranked[end - 1]
    tied = (n_best < size) & (cut == ranked[np.minimum(end, len(scores) - 1)])
    if tied.any():
        warn(
            f"{np.count_nonzero(tied[group] & (scores == cut[group]))} samples tie at rank {n} of "
            f"their groups ({np.count_nonzero(tied)} groups): the first in X are taken"
        )
    return kept
