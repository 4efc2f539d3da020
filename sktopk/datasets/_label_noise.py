"""Labels redrawn within groups of classes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from sktopk._common._scalars import check_number, check_random


def inject_label_noise(
    y: ArrayLike,
    groups: ArrayLike | dict,
    p: float,
    random_state: int | np.random.RandomState | None = None,
) -> np.ndarray:
    r"""Replace each label, with probability p, by a random label of the same group.

    .. math::
        \tilde y_i = \begin{cases} y_i & \text{with probability } 1 - p \\
        \text{uniform on } \{c : g(c) = g(y_i)\} & \text{with probability } p \end{cases}

    The new label may be the old one, so that labels stay with probability 1 - p + p / size of
    the group. A classifier that ranks the classes of the right group first keeps a top-k
    accuracy of 1 if no group has more than k classes. This is the protocol of [1]_, section
    5.1, where the groups are the 20 coarse classes of CIFAR-100, five classes each. (The code
    published with it redraws within blocks of five consecutive numbers of the alphabetically
    sorted classes instead: ``groups=np.arange(100) // 5``.)

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels, numbers or strings.
    groups : array-like of shape (n_classes,) or dict
        The group of each class, in the order of the sorted labels; or a dict from label to
        group, which may have classes that y lacks.
    p : float
        Probability in [0, 1] that a label is redrawn.
    random_state : int, RandomState or None, default=None
        Seed of the draws. With the same int the labels redrawn at p are also redrawn, and
        equally, at any larger p.

    Returns
    -------
    y_noisy : ndarray of shape (n_samples,)
        A new array; y stays as it is. Numbers keep their dtype.

    Raises
    ------
    TypeError, ValueError
        If p is not a number in [0, 1], or classes and groups do not match.

    See Also
    --------
    make_long_tail : Another way to make a problem harder.

    References
    ----------
    .. [1] Berrada, Zisserman, Kumar. "Smooth Loss Functions for Deep Top-k Classification",
       ICLR 2018, section 5.1.

    Examples
    --------
    >>> from sktopk.datasets import inject_label_noise
    >>> group = {"cat": "pet", "dog": "pet", "oak": "tree", "ash": "tree"}
    >>> y = ["cat", "cat", "cat", "oak", "oak", "oak"]
    >>> inject_label_noise(y, group, p=1.0, random_state=0).tolist()
    ['cat', 'dog', 'dog', 'ash', 'oak', 'oak']
    """
    check_number(p, "p", 0, 1)
    y = column_or_1d(y)
    classes, of_class = _groups_of_classes(y, groups)
    _, group = np.unique(of_class, return_inverse=True)
    code = np.searchsorted(classes, y)
    # Classes in the order of their groups: those of a group lie from first to first + size.
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    first = np.cumsum(size) - size
    rng = check_random(random_state)
    redrawn = rng.random_sample(len(y)) < p
    place = (rng.random_sample(len(y)) * size[group[code]]).astype(int)
    drawn = classes[order[first[group[code]] + place]]
    noisy = np.where(redrawn, drawn, y)
    return noisy.astype(y.dtype) if y.dtype.kind in "iuf" else noisy


def _groups_of_classes(y, groups):
    """Sorted classes and the group of each."""
    if not isinstance(groups, Mapping):
        classes, groups = np.unique(y), column_or_1d(groups)
        if len(groups) != len(classes):
            raise ValueError(
                f"groups must have one entry per class of y ({len(classes)}); got {len(groups)}. "
                "A dict from label to group may have more"
            )
        return classes, groups
    classes = np.unique(np.array(list(groups)))
    if len(unknown := np.setdiff1d(y, classes)):
        raise ValueError(f"groups must have every label of y; it lacks {unknown[0]!r}")
    return classes, np.array([groups[label] for label in classes.tolist()])
