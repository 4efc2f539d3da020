"""The losses that TopKClassifier knows by name, as it lists them itself."""

import re

import numpy as np

from sktopk import TopKClassifier

try:
    TopKClassifier("?").fit(np.eye(2), [0, 1])
except ValueError as error:
    listed = re.search(r"one of (.*); got", str(error)).group(1)
NAMED_LOSSES = [name for name in re.findall(r"'(\w+)'", listed) if name != "auto"]
