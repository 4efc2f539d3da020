"""Parquet files as streams."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.datasets._parquet import parquet_batches

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "width": rng.standard_normal(50).astype(np.float32),
        "kind": rng.choice(["ant", "bee", "cat"], 50),
        "height": rng.standard_normal(50).astype(np.float32),
        "weight": rng.random(50),
        "legs": rng.integers(0, 9, 50),
    }
)


@pytest.fixture
def files(tmp_path):
    """The rows in two files of different sizes, the first in three row groups."""
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    FRAME[:33].to_parquet(paths[0], row_group_size=11)
    FRAME[33:].to_parquet(paths[1])
    return paths


def joined(batches):
    return [np.concatenate(each) for each in zip(*batches, strict=True)]


@pytest.mark.parametrize("batch_rows", [1, 7, 33, 65536])
def test_pieces_are_the_rows_in_order(files, batch_rows):
    batches = parquet_batches(files, target="kind", sample_weight="weight", batch_rows=batch_rows)
    # Two loops over the same files.
    for _ in range(2):
        X, y, weight = joined(batches)
        np.testing.assert_array_equal(X, FRAME[["width", "height", "legs"]].to_numpy(np.float64))
        assert X.dtype == np.float64
        assert y.tolist() == FRAME["kind"].tolist()
        np.testing.assert_array_equal(weight, FRAME["weight"])
    assert max(len(X) for X, _, _ in batches) == min(batch_rows, 33)


@pytest.mark.parametrize("path", [str, Path])
def test_columns_keep_their_order_and_type(files, path):
    (X,) = parquet_batches(path(files[1]), columns=["height", "width"])
    np.testing.assert_array_equal(X, FRAME[["height", "width"]].to_numpy()[33:])
    assert X.dtype == np.float32


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical(FRAME["kind"]),
        FRAME["legs"].to_numpy(),
        FRAME["legs"].to_numpy() > 4,
        FRAME["legs"].to_numpy(np.float64),
    ],
    ids=["dictionary", "integers", "booleans", "floats"],
)
def test_labels_of_other_types(tmp_path, labels):
    FRAME.assign(kind=labels).to_parquet(tmp_path / "a.parquet")
    _, y = joined(parquet_batches(tmp_path / "a.parquet", target="kind", columns=["width"]))
    assert y.tolist() == list(labels)
    assert y.dtype != object


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_long_labels_come_in_pieces_of_bounded_size(tmp_path, as_dictionary):
    # A file of a few kilobytes, whose labels are 160 MB as a NumPy array.
    labels = pa.array(["a" * 10_000, "b"] * 2000)
    labels = labels.dictionary_encode() if as_dictionary else labels
    pq.write_table(pa.table({"x": np.arange(4000.0), "y": labels}), tmp_path / "a.parquet")
    batches = list(parquet_batches(tmp_path / "a.parquet", target="y"))
    assert max(y.nbytes for _, y in batches) <= 64 * 2**20
    X, y = joined(batches)
    np.testing.assert_array_equal(X[:, 0], np.arange(4000))
    assert (np.char.str_len(y).reshape(-1, 2) == (10_000, 1)).all()


def test_folders_with_partitions_and_filters(tmp_path):
    days = np.repeat([2023, 2024, 2025], [10, 20, 20])
    for year in (2025, 2023, 2024):  # read by name, whatever was written first
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        FRAME[days == year].to_parquet(folder / "part.parquet", row_group_size=7)
    columns = ["width", "year"]
    X, y = joined(parquet_batches(tmp_path, target="kind", columns=columns))
    np.testing.assert_array_equal(X, np.column_stack([FRAME["width"], days]))
    assert y.tolist() == FRAME["kind"].tolist()
    late = [("year", ">", 2023), ("legs", "<", 5)]
    X, y = joined(parquet_batches(tmp_path, target="kind", columns=columns, filters=late))
    kept = (days > 2023) & (FRAME["legs"] < 5)
    np.testing.assert_array_equal(X, np.column_stack([FRAME["width"], days])[kept])
    assert y.tolist() == FRAME["kind"][kept].tolist()
    pieces = parquet_batches(tmp_path, target="year", columns=["width"], batch_rows=15)
    assert [len(y) for _, y in pieces] == [10, 15, 5, 15, 5]
    assert joined(pieces)[1].tolist() == days.tolist()


def test_training_and_the_best_rows_equal_those_of_the_table(files):
    columns = ["width", "height"]
    small = {"hidden_layer_sizes": (5,), "random_state": 0, "device": "cpu"}
    batches = parquet_batches(files, target="kind", columns=columns)
    found = TopKClassifier(k=1, **small).partial_fit(batches, classes=["ant", "bee", "cat"])
    expected = TopKClassifier(k=1, **small)
    X, y = FRAME[columns].to_numpy(), FRAME["kind"].to_numpy()
    for rows in (slice(33), slice(33, 50)):
        expected.partial_fit(X[rows], y[rows], ["ant", "bee", "cat"])
    np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))
    ranker = DeepTopPushClassifier(max_epochs=2, **small).fit(X, y == "bee")
    for stream in (batches, parquet_batches(files, columns=columns, batch_rows=4)):
        np.testing.assert_array_equal(ranker.predict_top(stream, 20), ranker.predict_top(X, 20))


@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        (
            {"target": "name", "columns": ["width"]},
            ValueError,
            "column 'name' must be there, once; .*a.parquet has",
        ),
        ({"columns": ["width", "depth"]}, ValueError, "column 'depth' must be there"),
        ({}, TypeError, "column 'kind' must hold numbers, or be left out of columns; .*has .*str"),
        ({"columns": "width"}, TypeError, "columns must be a list of names; got the string"),
        ({"columns": []}, ValueError, "columns must have a name"),
        ({"columns": ["kind"], "target": "kind"}, ValueError, "others than target.*got 'kind'"),
        ({"sample_weight": "weight"}, ValueError, "sample_weight='weight' needs a target"),
        (
            {"target": "legs", "columns": ["width"], "sample_weight": "kind"},
            TypeError,
            "column 'kind' must hold numbers",
        ),
        (
            {"columns": ["width"], "batch_rows": 0},
            ValueError,
            "batch_rows must be at least 1; got 0",
        ),
        ({"columns": ["width"], "batch_rows": 1.5}, TypeError, "an integer; got 1.5"),
    ],
)
def test_refused_before_anything_is_read(files, params, error, says):
    with pytest.raises(error, match=says):
        parquet_batches(files, **params)


def test_files_that_are_not_there_or_differ(files, tmp_path):
    with pytest.raises(ValueError, match="path must be a Parquet file or a list"):
        parquet_batches([])
    with pytest.raises(FileNotFoundError):
        parquet_batches(tmp_path / "c.parquet")
    FRAME.drop(columns="height").to_parquet(files[1])
    with pytest.raises(ValueError, match=r"column 'height' must be there, once; .*b\.parquet has"):
        parquet_batches(files, target="kind")
    nested = pa.table({"width": [1.0], "kind": [["a"]]})
    pq.write_table(nested, files[1])
    with pytest.raises(TypeError, match=r"column 'kind' must hold labels; .*has list"):
        parquet_batches(files[1], target="kind")


@pytest.mark.parametrize("column", ["width", "kind", "weight"])
def test_missing_values_are_refused_with_the_name_of_the_column(files, column):
    frame = FRAME[33:].copy()
    frame[column] = frame[column].where(np.arange(17) != 5, None)
    pq.write_table(pa.Table.from_pandas(frame), files[1])
    batches = iter(parquet_batches(files, target="kind", columns=["width"], sample_weight="weight"))
    for _ in range(3):
        if len(next(batches)[0]) == 33:
            break
    with pytest.raises(ValueError, match=f"column '{column}' must have no missing values; got 1"):
        list(batches)


def test_without_pyarrow(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'parquet_batches needs pyarrow: pip install "sktopk\[p'):
        parquet_batches(files)
