"""Load the images of the papers from files in the data folder.

A loader returns a Bunch of the subset "train" or "test", with `data` (n_samples, n_channels,
height, width) float32 in [0, 1], `target` (n_samples,) int64, and `target_names`.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from sktopk._common._scalars import check_option

sys.path.append(str(Path(__file__).parents[1]))
from _datasets import SUBSETS, data_file

PARTS = {"train": "train", "test": "t10k"}
SIDE = 32  # pixels per side of a tile of a mosaic
FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker"]
FASHION += ["Bag", "Ankle boot"]


def load_mnist(subset="train"):
    """Load 60 000 or 10 000 handwritten digits of 28 x 28 pixels from the published files."""
    return _idx("mnist", subset, [str(digit) for digit in range(10)])


def load_fashion_mnist(subset="train"):
    """Load 60 000 or 10 000 images of clothes, 28 x 28 pixels, from the published files."""
    return _idx("fashion_mnist", subset, FASHION)


def load_cifar100(subset="train"):
    """Load 50 000 or 10 000 images of 32 x 32 pixels, sorted by their 100 classes.

    Reads ``cifar100/labels.json`` and a mosaic of each class, ``cifar100/train/CLASS.webp``, with
    tiles row by row. The Bunch also has `groups` (100,), the group of each class, and the
    `group_names`. There are 20 groups of five classes.
    """
    check_option(subset, "subset", SUBSETS)
    labels = json.loads(data_file(None, "cifar100", "labels.json").read_text())
    names = labels["fine"]
    images = [_mosaic(data_file(None, "cifar100", subset, f"{name}.webp")) for name in names]
    return Bunch(
        data=_share(np.concatenate(images).transpose(0, 3, 1, 2)),
        target=np.repeat(np.arange(len(names)), [len(tiles) for tiles in images]),
        target_names=names,
        groups=np.array(labels["coarse_of_fine"]),
        group_names=labels["coarse"],
    )


def _mosaic(path):
    """Return the tiles of a mosaic, uint8 of shape (n, side, side, 3)."""
    from PIL import Image  # MNIST needs no Pillow

    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    height, width = pixels.shape[0] // SIDE, pixels.shape[1] // SIDE
    tiles = pixels.reshape(height, SIDE, width, SIDE, 3).swapaxes(1, 2)
    return tiles.reshape(-1, SIDE, SIDE, 3)


def _idx(folder, subset, names):
    """Read images and labels in the format of MNIST: big-endian sizes, then bytes."""
    check_option(subset, "subset", SUBSETS)
    arrays = []
    for kind in ("images-idx3", "labels-idx1"):
        path = data_file(None, folder, f"{PARTS[subset]}-{kind}-ubyte.gz")
        content = gzip.decompress(path.read_bytes())
        n_dim = content[3]
        shape = np.frombuffer(content, ">i4", n_dim, offset=4)
        arrays.append(np.frombuffer(content, np.uint8, offset=4 + 4 * n_dim).reshape(shape))
    images, y = arrays
    return Bunch(data=_share(images[:, None]), target=y.astype(np.int64), target_names=names)


def _share(pixels):
    images = pixels.astype(np.float32)
    images /= 255
    return images
