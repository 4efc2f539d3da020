"""The images of the papers in the layout of the data folder, read back; and the real ones."""

import gzip
import json
import os
import struct
from pathlib import Path

import _image_files
import numpy as np
import pytest

LOADERS = [_image_files.load_mnist, _image_files.load_fashion_mnist, _image_files.load_cifar100]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path))
    return tmp_path


def folder(home, name):
    path = home / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}i", *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes()))


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_images(home, rng, name):
    images = rng.integers(0, 256, (3, 28, 28), dtype=np.uint8)
    write_idx(folder(home, name) / "t10k-images-idx3-ubyte.gz", images)
    write_idx(folder(home, name) / "t10k-labels-idx1-ubyte.gz", np.array([7, 0, 9], np.uint8))
    bunch = getattr(_image_files, f"load_{name}")("test")
    np.testing.assert_allclose(bunch.data[:, 0], images / 255, rtol=1e-6)
    assert bunch.data.dtype == np.float32
    assert bunch.target.tolist() == [7, 0, 9]
    assert len(bunch.target_names) == 10


def test_mosaics_are_cut_into_images(home, rng):
    Image = pytest.importorskip("PIL.Image")
    labels = {"fine": ["apple", "bee"], "coarse_of_fine": [1, 0], "coarse": ["insects", "fruit"]}
    (folder(home, "cifar100") / "labels.json").write_text(json.dumps(labels))
    tiles = rng.integers(0, 256, (2, 6, 32, 32, 3), dtype=np.uint8)
    for name, images in zip(labels["fine"], tiles, strict=True):
        mosaic = np.zeros((2 * 32, 3 * 32, 3), np.uint8)
        for i, image in enumerate(images):
            row, column = divmod(i, 3)
            mosaic[32 * row : 32 * (row + 1), 32 * column : 32 * (column + 1)] = image
        path = folder(home, "cifar100/train") / f"{name}.webp"
        Image.fromarray(mosaic).save(path, lossless=True)
    bunch = _image_files.load_cifar100()
    assert bunch.data.shape == (12, 3, 32, 32)
    expected = tiles.reshape(12, 32, 32, 3).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(bunch.data, expected, rtol=1e-6)
    assert bunch.target.tolist() == [0] * 6 + [1] * 6
    assert bunch.groups.tolist() == [1, 0]
    assert bunch.group_names == ["insects", "fruit"]


@pytest.mark.parametrize("load", LOADERS, ids=lambda f: f.__name__)
def test_a_missing_file_says_where_it_was_looked_for(load, tmp_path, monkeypatch):
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path / "unused"))
    with pytest.raises(FileNotFoundError, match=f"is not in {tmp_path / 'unused'}: .*SKTOPK_DATA"):
        load()
    monkeypatch.delenv("SKTOPK_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"is not in .*shared.*data: "):
        load()


@pytest.mark.parametrize("load", LOADERS, ids=lambda f: f.__name__)
def test_an_unknown_subset_is_named(load, home):
    with pytest.raises(ValueError, match=r"subset must be one of 'train', 'test'.*; got 'all'"):
        load("all")


@pytest.fixture
def real(request, monkeypatch):
    """Look for data where the real ones are."""
    path = os.environ.get("SKTOPK_DATA") or request.getfixturevalue("shared") / "data"
    if not Path(path, "cifar100").is_dir():
        pytest.skip(f"needs the data of SKTOPK_DATA, looked for in {path}")
    monkeypatch.setenv("SKTOPK_DATA", str(path))


@pytest.mark.usefixtures("real")
def test_real_images_have_the_sizes_that_are_documented():
    for load in (_image_files.load_mnist, _image_files.load_fashion_mnist):
        images = load("test")
        X, y = images.data, images.target
        assert X.shape == (10_000, 1, 28, 28)
        assert (X.min(), X.max()) == (0.0, 1.0)
        assert np.bincount(y).min() > 800
    cifar = _image_files.load_cifar100("test")
    assert cifar.data.shape == (10_000, 3, 32, 32)
    assert np.bincount(cifar.target).tolist() == [100] * 100
    assert np.bincount(cifar.groups).tolist() == [5] * 20
    people = [n for n, g in zip(cifar.target_names, cifar.groups, strict=True) if g == 14]
    assert cifar.group_names[14] == "people"
    assert people == ["baby", "boy", "girl", "man", "woman"]
