"""Names for what public signatures take; numpy.typing has the others."""

from collections.abc import Iterable, Sized
from typing import TypeAlias

# Arrays, sparse matrices, frames, lists, torch's Datasets and streams of batches: what the
# docstring says of a row is checked when rows come.
RowsLike: TypeAlias = Sized | Iterable
Label: TypeAlias = int | float | bool | str
