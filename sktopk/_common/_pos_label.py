"""Which of two labels is the positive one."""

from numbers import Real

import numpy as np

from ._warnings import warn

# Of labels that tell by themselves which is positive, so many positives for a negative warn.
_UPSIDE_DOWN = 2


def is_told(labels):
    """Tell whether 1 or True is the positive of at most two labels: beside 0, -1 or False."""
    return labels <= {-1, 0, 1} and labels != {-1, 0}


def check_pos_label(pos_label):
    """Raise unless `pos_label` is None or can be a label."""
    if pos_label is not None and not isinstance(pos_label, str | Real | np.bool_):
        raise TypeError(f"pos_label must be a label or None; got {pos_label!r}")


def place_of(pos_label, classes):
    """Return the index of `pos_label` among two classes."""
    labels = np.asarray(classes).tolist()
    if pos_label not in labels:
        raise ValueError(f"pos_label must be one of {labels}; got {pos_label!r}")
    return labels.index(pos_label)


def negative_first(classes, pos_label):
    """Return two classes, or a number of each, in the order negative, positive."""
    return classes[::-1] if place_of(pos_label, classes) == 0 else classes


def positive_label(pos_label, classes, count):
    """Return the positive one of two sorted classes, and warn where that may not be meant.

    Parameters
    ----------
    pos_label : label or None
        What the user says. None is 1 or True beside 0, -1 or False. Of any other labels it is
        the rarer one: what one looks for at the top is rare.
    classes, count : ndarray of shape (2,)
        The labels, and what their rows weigh.
    """
    labels = classes.tolist()
    if pos_label is not None:
        return labels[place_of(pos_label, classes)]
    if is_told(set(labels)):
        negative, positive = labels
        if count[1] >= _UPSIDE_DOWN * count[0] > 0:
            warn(
                f"{count[1] / count.sum():.0%} of the rows are positive, labelled {positive!r}: "
                f"if {negative!r} is what should come on top, set pos_label={negative!r}, else "
                f"pos_label={positive!r}"
            )
        return positive
    # Sums of weights that differ by rounding count as equal.
    if np.isclose(*count, rtol=1e-9, atol=0):
        place, reason = 1, "the second in sorted order, as both are equally frequent"
    else:
        place, reason = int(count[1] < count[0]), "the rarer one"
    warn(
        f"the labels {labels[0]!r} and {labels[1]!r} do not tell which is positive: "
        f"{labels[place]!r} is taken, {reason}. Set pos_label={labels[place]!r} or "
        f"pos_label={labels[1 - place]!r}"
    )
    return labels[place]
