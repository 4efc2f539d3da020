"""Bands around a curve that is a mean over groups."""

import numpy as np

from sktopk._common._scalars import check_number


def band(curves, share_of_groups):
    """Return between which scores that share of the groups lies at each point.

    Parameters
    ----------
    curves : ndarray of shape (n_groups, n_points)
    share_of_groups : float
        In (0, 1): .8 is from the quantile .1 of the groups to that of .9.

    Returns
    -------
    low, high : ndarray of shape (n_points,)
    """
    check_number(share_of_groups, "share_of_groups", 0, 1, bounds="neither")
    tail = (1 - share_of_groups) / 2
    return np.quantile(curves, [tail, 1 - tail], axis=0)


def draw_band(ax, line, x, low, high):
    """Return the band in the colour of its curve; None where there is none."""
    if low is None:
        return None
    return ax.fill_between(x, low, high, color=line.get_color(), alpha=0.2, lw=0)
