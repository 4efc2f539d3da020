"""Types that are in public signatures but not in numpy.typing."""

from collections.abc import Iterable, Sized
from typing import TypeAlias

# Type of X: arrays, sparse matrices, data frames, lists, torch Datasets.
RowsLike: TypeAlias = Sized | Iterable
Label: TypeAlias = int | float | bool | str
