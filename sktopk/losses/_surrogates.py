"""Convex nondecreasing upper bounds of the step from 0 to 1 at 0: all equal 1 there."""

import math

from torch.nn import functional as F

from ._checks import check_name


def quadratic(z):
    """Return max(0, 1 + z)^2, the truncated quadratic of Adam, Macha, Smidl (2020)."""
    return F.relu(1 + z).square()


def hinge(z):
    """Return max(0, 1 + z)."""
    return F.relu(1 + z)


def logistic(z):
    """Return log2(1 + exp z)."""
    # Beyond its threshold softplus(z) is z; the default of 20 is a step of 2e-9 down.
    return F.softplus(z, threshold=40) / math.log(2)


SURROGATES = {"quadratic": quadratic, "hinge": hinge, "logistic": logistic}


def get_surrogate(name):
    """Return the function that `name` stands for."""
    check_name(name, "surrogate", tuple(SURROGATES))
    return SURROGATES[name]
