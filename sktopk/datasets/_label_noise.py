"""Label noise within groups of classes."""

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
    r"""Replace each label with probability p by a random label of the same group of classes.

    .. math::
        \tilde y_i = \begin{cases} y_i & \text{with probability } 1 - p \\
        \text{uniform on } \{c : g(c) = g(y_i)\} & \text{with probability } p \end{cases}

    The new label can be the old one: in a group of g classes, a label stays the same with
    probability 1 - p + p / g. If no group has more than k classes, a classifier that ranks the
    classes of the correct group first keeps a top-k accuracy of 1.

    This is the protocol of [1]_, section 5.1. The groups of the paper are the 20 coarse classes of
    CIFAR-100 with five classes each. The code of the paper uses blocks of five classes in
    alphabetical order instead, ``groups=np.arange(100) // 5``.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels, numbers or strings.
    groups : array-like of shape (n_classes,) or dict
        Group of each class, in the order of the sorted labels. A dict maps labels to groups and
        may contain labels that are not in y.
    p : float
        Probability in [0, 1] that a label is replaced.
    random_state : int, RandomState or None, default=None
        Seed of the random generator. With the same int, a larger p changes the same labels in the
        same way, and further labels.

    Returns
    -------
    y_noisy : ndarray of shape (n_samples,)
        Copy of y with noise. Numbers keep their dtype.

    Raises
    ------
    TypeError, ValueError
        If p is not a number in [0, 1], or classes and groups do not match.

    See Also
    --------
    make_long_tail : Reduce the samples of each class to a long tail.

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
    # Sort the classes by group. Group g then has the classes order[first[g] : first[g] + size[g]].
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
    """Return the sorted classes, and the group of each class."""
    if not isinstance(groups, Mapping):
        classes, groups = np.unique(y), column_or_1d(groups)
        if len(groups) != len(classes):
            raise ValueError(
                f"groups must have one entry per class of y ({len(classes)}); got {len(groups)}. "
                "For classes that are not in y, pass a dict from label to group"
            )
        return classes, groups
    classes = np.unique(np.array(list(groups)))
    if len(unknown := np.setdiff1d(y, classes)):
        raise ValueError(f"groups must have every label of y; got none for {unknown.tolist()[0]!r}")
    return classes, np.array([groups[label] for label in classes.tolist()])
