"""Do equal rows have equal keys, different ones different keys, and do these fall evenly?"""

import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array
from scipy.stats import kstest

from sktopk._common import _row_keys
from sktopk._common._row_keys import row_keys

TABLE = np.array([[0, 1.5, -2, 0], [0, 0, 0, 0], [np.nan, 3, np.inf, 0.1], [1.5, 0, -2, 0]])
SAME = {
    "column-major": np.asfortranarray(TABLE),
    "every other": np.repeat(TABLE, 2, axis=0)[::2],
    "minus zero": np.where(TABLE == 0, -0.0, TABLE),
    "another NaN": np.where(np.isnan(TABLE), -np.float64("nan"), TABLE),
    "images": TABLE.reshape(4, 1, 2, 2),
    "lists": TABLE.tolist(),
    "tuples": tuple(map(tuple, TABLE)),
    "list of arrays": list(TABLE),
    "objects": TABLE.astype(object),
    "None for NaN": np.where(np.isnan(TABLE), None, TABLE),
    "frame": pd.DataFrame(TABLE, columns=list("abcd"), index=range(5, 9)),
    "frame of objects": pd.DataFrame(TABLE.astype(object)),
    "sparse frame": pd.DataFrame(TABLE).astype(pd.SparseDtype(float, 0)),
    "polars": pl.DataFrame(TABLE),
    "csr": csr_array(TABLE),
    "csc": csc_array(TABLE),
    "coo": coo_array(TABLE),
    "bsr": bsr_array(TABLE),
}


@pytest.mark.parametrize("rows", SAME.values(), ids=SAME)
def test_equal_rows_have_equal_keys_in_every_container(rows):
    np.testing.assert_array_equal(row_keys(rows, 3), row_keys(TABLE, 3))


def test_stored_zeros_duplicates_and_their_order_do_not_count():
    stored = csr_array((np.array([-2, 0.0, 1, 0.5]), [2, 3, 1, 1], [0, 4]), shape=(1, 4))
    before = stored.copy()
    assert row_keys(stored, 3) == row_keys(TABLE[:1], 3)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(before, name))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint64", "bool"])
def test_type_of_a_number_does_not_count(dtype, rng):
    rows = rng.normal(scale=3, size=(50, 4)).astype(dtype)
    for same in (rows.astype(np.float64), rows.tolist(), list(rows), pl.DataFrame(rows)):
        np.testing.assert_array_equal(row_keys(same, 0), row_keys(rows, 0))


def test_rounding_to_float32_does_count():
    assert row_keys([[0.1]], 0) != row_keys(np.float32([[0.1]]), 0)


FRUIT = ["fig", "", "a\0b", "Äpfel\n", "fig "]


def test_texts_count_by_their_characters():
    expected = row_keys(FRUIT, 0)
    assert len(set(expected.tolist())) == 5
    for same in (np.array(FRUIT), pd.Series(FRUIT), pl.Series(FRUIT), np.array(FRUIT, object)):
        np.testing.assert_array_equal(row_keys(same, 0), expected)
    column = pd.DataFrame({"f": pd.Categorical(FRUIT)})
    np.testing.assert_array_equal(row_keys(column, 0), expected)


def test_mixed_columns_are_the_same_whatever_the_other_rows_hold():
    frame = pd.DataFrame({"f": FRUIT, "n": range(5), "b": [True, False] * 2 + [True]})
    frame["missing"] = [1.0, None, 2.0, np.nan, 0.0]
    expected = row_keys(frame, 0)
    records = [list(row.values()) for row in frame.to_dict("records")]
    for same in (records, pl.DataFrame(frame), frame.to_numpy(), frame.astype(object)):
        np.testing.assert_array_equal(row_keys(same, 0), expected)
    for i in range(5):
        assert row_keys(frame[i : i + 1], 0) == row_keys([records[i]], 0) == expected[i]
        alone = pd.DataFrame([frame.iloc[i].to_dict()])
        assert row_keys(alone, 0) == expected[i]


DIFFERENT = {
    "position": ([[1, 0]], [[0, 1]]),
    "number and text": ([[1.0, "a"]], [["1.0", "a"]]),
    "position of a text": ([["a", 0]], [[0, "a"]]),
    "where texts end": ([["ab", "c"]], [["a", "bc"]]),
    "sign": ([[1.0]], [[-1.0]]),
    "last digit": ([[1.0]], [[1 + 2**-52]]),
    "infinities": ([[np.inf]], [[-np.inf]]),
    "NaN and zero": ([[np.nan]], [[0.0]]),
    "dicts": ([{"a": 1}], [{"a": 2}]),
    "tokens": ([["a", "b"]], [["a", "b", "c"]]),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_different_rows_have_different_keys(one, other):
    assert row_keys(one, 0) != row_keys(other, 0)


def test_keys_of_rows_are_independent_of_the_chunks(monkeypatch):
    rows = [TABLE, csr_array(TABLE), pd.DataFrame(TABLE), pl.DataFrame(TABLE), np.array(FRUIT)]
    whole = [row_keys(each, 1) for each in rows]
    monkeypatch.setattr(_row_keys, "_CHUNK_SIZE", 4)
    for each, expected in zip(rows, whole, strict=True):
        np.testing.assert_array_equal(row_keys(each, 1), expected)


def test_no_rows_and_no_columns():
    for none in (np.empty((0, 3)), [], csr_array((0, 3)), pd.DataFrame({"a": []})):
        assert row_keys(none, 0).shape == (0,)
    assert len(set(row_keys(np.empty((3, 0)), 0).tolist())) == 1


def test_keys_fall_evenly_and_seeds_tell_them_apart():
    rows = np.arange(20_000)[:, None]
    one, other = row_keys(rows, 0) / 2.0**64, row_keys(rows, 1) / 2.0**64
    assert kstest(one, "uniform").pvalue > 1e-3
    # Four standard deviations.
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / 20_000**0.5
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 4 / 20_000**0.5
    assert len(np.unique(one)) == 20_000


def test_many_rows_take_less_than_a_second(rng):
    rows = rng.normal(size=(100_000, 10))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        row_keys(rows, 0)
        times.append(time.perf_counter() - start)
    assert min(times) < 1
