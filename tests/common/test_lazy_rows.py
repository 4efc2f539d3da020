"""Rows that are not in memory as an array: what they are told from, their labels, their index."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from sktopk._common._dataset_rows import DatasetRows
from sktopk._common._input import is_stream, own_labels
from tests.test_datasets_as_input import TENSORS, Items, X, Y


class Rows(Dataset):
    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return X[index]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (X, False),
        (X.tolist(), False),
        (pd.DataFrame(X), False),
        (csr_array(X), False),
        (torch.from_numpy(X), False),
        (Rows(), False),
        (5, False),
        (None, False),
        ("ab", False),
        ({"a": 1}, False),
        (iter([X]), True),
        (DataLoader(Rows()), True),
        (zip(X, Y, strict=True), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_a_stream(table, expected):
    assert is_stream(table) is expected


@pytest.mark.parametrize(
    ("dataset", "n_asked"),
    [
        (TensorDataset(*TENSORS), 0),
        (Subset(TensorDataset(*TENSORS), [3, 1, 2, 7]), 0),
        (Items(X, Y), 3),
        (Items(X, Y), None),
    ],
    ids=["tensors", "subset", "true targets", "false targets"],
)
def test_labels_are_read_at_once_where_that_is_right(dataset, n_asked):
    expected = [int(dataset[i][1]) for i in range(len(dataset))]
    if isinstance(dataset, Items):
        # A Dataset may have labels of its own beside those before a transformation.
        dataset.targets = Y if n_asked else Y + 1
        dataset.asked = 0
    assert own_labels(dataset, None).tolist() == expected
    if n_asked:
        assert dataset.asked == n_asked + 1


@pytest.mark.parametrize("targets", [8, {"a": 1}, [[1], [2, 3]], Y[:5], None], ids=str)
@pytest.mark.parametrize("within", [False, True])
def test_targets_that_are_no_labels_are_not_asked(targets, within):
    dataset = Items(X, Y)
    dataset.targets = targets
    dataset = Subset(dataset, range(len(X))) if within else dataset
    np.testing.assert_array_equal(own_labels(dataset, None), Y)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8])
def test_rows_of_any_number_are_read(dtype):
    rows = torch.arange(12).reshape(4, 3).to(dtype)
    for name in ("auto", "float32"):
        found = DatasetRows(Items(rows, Y), name)[:]
        assert found.dtype == ("float64" if name == "auto" else name)
        np.testing.assert_array_equal(found, np.arange(12).reshape(4, 3))


def test_rows_of_a_dataset_index_like_an_array():
    rows = DatasetRows(Items(X, Y))
    assert (rows.shape, rows.ndim, rows.dtype, len(rows)) == (X.shape, 2, X.dtype, len(X))
    for index in (3, slice(5, 9), slice(None, None, -50), np.array([7, 1, 7]), slice(4, 4)):
        np.testing.assert_array_equal(rows[index], X[index])
    np.testing.assert_array_equal(np.asarray(rows), X)
    assert DatasetRows(Items(X, Y), "float64")[:2].dtype == np.float64
