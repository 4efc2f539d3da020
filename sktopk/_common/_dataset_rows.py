"""Samples of torch Datasets. Import this module only if X is a Dataset: it imports torch."""

import math

import numpy as np
import torch

from ._samples import LazyRows, chunks
from ._scalars import on_host

_LABEL_ITEMS = 256  # number of items per batch when reading labels


class DatasetRows(LazyRows):
    """Array-like view of a map-style Dataset, whose items are samples or tuples (sample, ...)."""

    def __init__(self, dataset):
        if not hasattr(dataset, "__len__"):
            raise TypeError(f"X must be a Dataset with a length; got {type(dataset).__name__}")
        if len(dataset) == 0:
            raise ValueError("X must have at least 1 sample; found a Dataset with 0 sample(s)")
        self.dataset = dataset
        (item,) = self._items([0])
        first = self._row(item, 0)
        # Images of 8 or 16 bits become float32, as images in arrays do.
        kinds = ("float32", "8", "16", "bool") if first.ndim > 1 else "float32"
        self.dtype = np.dtype("float32" if str(first.dtype).endswith(kinds) else "float64")
        self.shape = (len(dataset), *first.shape)

    def __getitem__(self, index):
        if isinstance(index, slice):
            index = np.arange(len(self))[index]
        elif np.ndim(index) == 0:
            return self[[index]][0]
        index = np.asarray(index)
        if not len(index):
            return np.empty((0, *self.shape[1:]), self.dtype)
        rows = []
        for item, number in zip(self._items(index.tolist()), index, strict=True):
            row = self._row(item, number)
            if tuple(row.shape) != self.shape[1:]:
                raise ValueError(
                    f"X must have samples of equal shape; got {tuple(row.shape)} for item {number} "
                    f"of the Dataset and {self.shape[1:]} for item 0"
                )
            rows.append(row)
        # Convert with torch, because NumPy has no bfloat16.
        rows = torch.stack(rows).to(getattr(torch, self.dtype.name)).numpy()
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            refused = np.argmin(finite)
            what = "NaN" if np.isnan(rows[refused]).any() else "infinity"
            raise ValueError(f"Input X contains {what}: row {index[refused]} of the Dataset")
        return rows

    def labels(self):
        labels = []
        for part in chunks(len(self), 1, _LABEL_ITEMS):
            index = [*range(len(self))[part]]
            for item, number in zip(self._items(index), index, strict=True):
                if not isinstance(item, tuple | list) or len(item) < 2:
                    raise ValueError(
                        "y must be passed if the items of the Dataset are not (sample, label); got "
                        f"a {type(item).__name__} without a label in item {number}"
                    )
                label = item[1]
                is_array = isinstance(label, torch.Tensor | np.ndarray | np.generic)
                single = is_array and math.prod(label.shape) == 1
                labels.append(label.item() if single else label)
        return np.asarray(on_host(labels, "y"))

    def _items(self, index):
        if callable(fetch := getattr(self.dataset, "__getitems__", None)):
            return fetch(index)
        return [self.dataset[number] for number in index]

    def _row(self, item, number):
        row = item[0] if isinstance(item, tuple | list) and len(item) else item
        if isinstance(row, np.ndarray) and row.dtype.kind in "fiub" and row.ndim:
            # torch takes no negative strides, other byte orders or read-only arrays.
            return torch.from_numpy(np.array(row, row.dtype.newbyteorder("="), order="C"))
        if isinstance(row, torch.Tensor) and not row.is_complex() and row.ndim:
            return row.detach().cpu()
        shown = type(row).__name__
        if isinstance(row, np.ndarray | torch.Tensor):
            shown += f" of {row.dtype} and shape {tuple(row.shape)}"
        raise TypeError(
            "X must be a Dataset whose items are samples or tuples (sample, label, ...). A sample "
            f"is a tensor or array of numbers with ndim >= 1; got a {shown} in item {number}"
        )
