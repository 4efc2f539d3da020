"""Files in the layout of the data folder, read back; and the real ones where they are."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sktopk import datasets

LOADERS = [getattr(datasets, name) for name in datasets.__all__ if name.startswith("load_")]
NAMED = (datasets.load_pmlb, datasets.load_adbench)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path))
    return tmp_path


def folder(home, name):
    path = home / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def test_pmlb_tables(home, rng):
    table = pd.DataFrame(rng.normal(size=(4, 2)), columns=["b", "a"])
    table.insert(1, "target", [2, 0, 1, 0])
    table.to_csv(folder(home, "pmlb") / "small.tsv.gz", sep="\t", index=False)
    X, y = datasets.load_pmlb("small", return_X_y=True)
    np.testing.assert_allclose(X, table[["b", "a"]])
    assert y.tolist() == [2, 0, 1, 0]
    bunch = datasets.load_pmlb("small", as_frame=True)
    assert bunch.feature_names == ["b", "a"]
    assert bunch.frame.columns.tolist() == ["b", "a", "target"]
    assert isinstance(bunch.target, pd.Series)
    assert datasets.load_pmlb("small").frame is None


def test_adbench_tables(home):
    X, y = np.arange(6, dtype=np.int16).reshape(3, 2), np.array([0, 1, 0])
    np.savez(folder(home, "adbench") / "7_few.npz", X=X, y=y)
    bunch = datasets.load_adbench("7_few", as_frame=True)
    assert bunch.data.columns.tolist() == ["x0", "x1"]
    np.testing.assert_array_equal(bunch.data.to_numpy(), X)
    assert bunch.data.to_numpy().dtype == np.float64
    assert bunch.target.tolist() == [0, 1, 0]


def test_views_of_leaves(home, rng):
    numbers = rng.random((2, 64))
    for short, scale in [("Sha", 1), ("Mar", 2), ("Tex", 3)]:
        rows = [
            ",".join(["Acer Rubrum" if i else "Acer Opalus", *map(str, scale * row)])
            for i, row in enumerate(numbers)
        ]
        (folder(home, "leaves100") / f"data_{short}_64.txt").write_text("\n".join(rows))
    for view, scale in [("shape", 1), ("margin", 2), ("texture", 3)]:
        X, y = datasets.load_leaves100(view, return_X_y=True)
        np.testing.assert_allclose(X, scale * numbers)
        assert y.tolist() == ["Acer Opalus", "Acer Rubrum"]
    with pytest.raises(ValueError, match="view must be one of 'shape', 'margin', 'texture'"):
        datasets.load_leaves100("colour")


def test_molecules_are_sparse(home):
    dense = np.array([[0, 2, 0], [1, 0, 0]], dtype=np.uint8)
    arrays = {"feature": np.array(["a", "b", "c"])}
    for part, scale in [("train", 1), ("test", 3)]:
        arrays |= {
            f"{part}_data": np.array([2, 1], dtype=np.uint8) * scale,
            f"{part}_indices": np.array([1, 0], dtype=np.uint16),
            f"{part}_indptr": np.array([0, 1, 2], dtype=np.int32),
            f"{part}_Act_3A4": np.array([5.0, 6.0], dtype=np.float32) * scale,
        }
    np.savez(folder(home, "merck_cyp3a4") / "merck_cyp.npz", **arrays)
    for part, scale in [("train", 1), ("test", 3)]:
        bunch = datasets.load_merck_cyp3a4(part)
        np.testing.assert_array_equal(bunch.data.toarray(), scale * dense)
        assert bunch.target.tolist() == [5.0 * scale, 6.0 * scale]
        assert bunch.feature_names == ["a", "b", "c"]


def test_texts_keep_their_groups(home):
    clinc = folder(home, "clinc150")
    rows = {"train": [["pay it", "pay"], ["say hi", "greet"]], "test": [["hello", "greet"]]}
    (clinc / "data_full.json").write_text(json.dumps(rows))
    (clinc / "domains.json").write_text(json.dumps({"bank": ["pay"], "talk": ["greet"]}))
    bunch = datasets.load_clinc150()
    assert bunch.data == ["pay it", "say hi"]
    assert bunch.target.tolist() == ["pay", "greet"]
    assert bunch.groups == {"pay": "bank", "greet": "talk"}
    assert datasets.load_clinc150("test", return_X_y=True)[0] == ["hello"]
    noisy = datasets.inject_label_noise(bunch.target, bunch.groups, 1.0)
    np.testing.assert_array_equal(noisy, bunch.target)

    (folder(home, "trec") / "TREC_10.label").write_bytes(b"HUM:ind Who is Jos\xe9 ?\nLOC:city Wo ?")
    bunch = datasets.load_trec("test")
    assert bunch.data == ["Who is José ?", "Wo ?"]
    assert bunch.groups == {"HUM:ind": "HUM", "LOC:city": "LOC"}


@pytest.mark.parametrize("load", LOADERS, ids=lambda f: f.__name__)
def test_a_missing_file_says_where_it_was_looked_for(load, tmp_path, monkeypatch):
    name = ("letter",) if load in NAMED else ()
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path / "unused"))
    with pytest.raises(FileNotFoundError, match=f"is not in {tmp_path / 'here'}: data_home"):
        load(*name, data_home=tmp_path / "here")
    with pytest.raises(FileNotFoundError, match=f"is not in {tmp_path / 'unused'}: .*SKTOPK_DATA"):
        load(*name)
    monkeypatch.delenv("SKTOPK_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"is not in .*shared.*data: "):
        load(*name)


@pytest.mark.parametrize("load", [f for f in LOADERS if f not in (*NAMED, datasets.load_leaves100)])
def test_an_unknown_subset_is_named(load, home):
    with pytest.raises(ValueError, match=r"subset must be one of 'train', 'test'.*; got 'all'"):
        load("all")


@pytest.fixture
def real(request):
    """The folder of the real data, where it is."""
    path = os.environ.get("SKTOPK_DATA") or request.getfixturevalue("shared") / "data"
    if not Path(path, "trec").is_dir():
        pytest.skip(f"needs the data of SKTOPK_DATA, looked for in {path}")
    return path


def test_real_data_have_the_sizes_that_are_documented(real):
    y = datasets.load_pmlb("letter", data_home=real).target
    assert (len(y), len(np.unique(y))) == (20_000, 26)
    assert datasets.load_adbench("5_campaign", data_home=real).target.mean() == pytest.approx(
        0.113, abs=0.001
    )
    assert datasets.load_leaves100(data_home=real).data.shape == (1600, 64)
    assert datasets.load_leaves100("texture", data_home=real).data.shape == (1599, 64)
    for subset, n in [("train", 4652), ("test", 1542)]:
        molecules = datasets.load_merck_cyp3a4(subset, data_home=real)
        assert molecules.data.shape == (n, 9491)
    for subset, n in [("train", 15_000), ("test", 4_500), ("val", 3_000)]:
        clinc = datasets.load_clinc150(subset, data_home=real)
        assert (len(clinc.data), len(clinc.target_names)) == (n, 150)
    assert len(set(clinc.groups.values())) == 10
    tail = datasets.load_clinc150(version="imbalanced", data_home=real).target
    counts = np.unique(tail, return_counts=True)[1]
    assert (len(tail), counts.max(), counts.min()) == (10_525, 100, 25)
    trec = datasets.load_trec(data_home=real)
    counts = np.unique(trec.target, return_counts=True)[1]
    assert (len(counts), counts.max(), counts.min()) == (50, 962, 4)
    assert len(set(trec.groups.values())) == 6
    assert len(datasets.load_trec("test", data_home=real).data) == 500
