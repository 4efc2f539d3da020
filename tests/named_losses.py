"""The losses that TopKClassifier lists by name."""

import re

from sktopk._estimators.topk import OF_LABELS

NAMED_LOSSES = [*OF_LABELS]


def without_address(value):
    """Return the name of a test case, without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
