"""Points on a circle whose classes have one or two modes."""

import numpy as np

from sktopk._common._scalars import check_number, check_random


def make_circle_modes(
    n_samples: int = 1800,
    *,
    n_classes: int = 6,
    sigma: float = 10.0,
    distance: float | None = None,
    minor_share: float = 1 / 3,
    shuffle: bool = True,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Generate points on a circle, with overlapping classes of one or two modes.

    .. math::
        x = (\cos\theta, \sin\theta), \qquad
        \theta \sim \mathcal{N}\bigl(360^\circ\, y / C + d\, b,\ \sigma^2\bigr), \quad
        b \sim \mathrm{Bernoulli}(\pi)

    with C = `n_classes`, d = `distance` and π = `minor_share`. With one mode, a linear model
    without intercept can reach the best top-k accuracy for every k. With a second mode beyond the
    next class, such a model cannot have both the best top-1 and the best top-2 accuracy. The
    experiments 1 (one mode), 2 and 3 (two modes) of [1]_, section IV, use such data.

    Parameters
    ----------
    n_samples : int, default=1800
        Number of samples, divided equally among the classes. If there is a remainder, the first
        classes get one more sample each.
    n_classes : int, default=6
        Number of classes, at least 2, at equal angles.
    sigma : float, default=10.0
        Standard deviation of each mode in degrees. Experiment 1 of the paper uses 10 to 30.
    distance : float, default=None
        Angle in degrees from the major to the minor mode of a class. None means one mode per class.
        Experiment 2 of the paper uses 30 to 90.
    minor_share : float, default=1/3
        Expected share of a class's samples that are in its minor mode, in [0, 1]. The paper uses
        1/3.
    shuffle : bool, default=True
        Whether to shuffle the samples. If False, they are sorted by class.
    random_state : int, RandomState or None, default=None
        Seed of the random generator.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points of length 1, float64.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1, int64.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or out of range.

    See Also
    --------
    sklearn.datasets.make_blobs : Blobs in the plane.

    References
    ----------
    .. [1] Sawada, Kaneko, Sagi. "Trade-offs in Top-k Classification Accuracies on Losses for
       Deep Learning", 2020, section IV.

    Examples
    --------
    >>> from sktopk.datasets import make_circle_modes
    >>> X, y = make_circle_modes(600, distance=90, random_state=0)
    >>> X.shape, y.tolist().count(5)
    ((600, 2), 100)
    """
    check_number(n_samples, "n_samples", 1, integer=True)
    check_number(n_classes, "n_classes", 2, integer=True)
    check_number(sigma, "sigma", 0, bounds="left")
    check_number(minor_share, "minor_share", 0, 1)
    rng = check_random(random_state)
    y = np.sort(np.arange(n_samples, dtype=np.int64) % n_classes)
    angle = 360.0 * y / n_classes
    if distance is not None:
        check_number(distance, "distance")
        angle += distance * (rng.random_sample(n_samples) < minor_share)
    angle = np.deg2rad(angle + sigma * rng.standard_normal(n_samples))
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    if shuffle:
        order = rng.permutation(n_samples)
        X, y = X[order], y[order]
    return X, y
