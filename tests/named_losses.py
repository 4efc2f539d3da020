"""The losses that TopKClassifier lists by name."""

import re

import numpy as np

from sktopk import TopKClassifier

try:
    TopKClassifier("?").fit(np.eye(2), [0, 1])
except ValueError as error:
    NAMED_LOSSES = re.findall(r"'(\w+)'", str(error).partition("; got")[0])


def without_address(value):
    """Return the name of a test case, without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
