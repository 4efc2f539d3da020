"""The images of the papers, from their files in the data folder.

All return a Bunch with `data` (n_samples, n_channels, height, width) float32 in [0, 1], `target`
(n_samples,) int64 and `target_names`, of the subset "train" or "test".
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
SIDE = 32  # of the tiles of a mosaic
FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker"]
FASHION += ["Bag", "Ankle boot"]


def load_mnist(subset="train"):
    """60 000 or 10 000 handwritten digits of 28 x 28 pixels, in the files as published."""
    return _idx("mnist", subset, [str(digit) for digit in range(10)])


def load_fashion_mnist(subset="train"):
    """60 000 or 10 000 clothes of 28 x 28 pixels, in the files as published."""
    return _idx("fashion_mnist", subset, FASHION)


def load_cifar100(subset="train"):
    """50 000 or 10 000 images of 32 x 32 pixels, class by class: 100, five in each of 20 groups.

    Reads ``cifar100/labels.json`` and a mosaic of each class, ``cifar100/train/CLASS.webp``,
    tiles row by row. Also returns `groups` (100,), the group of each class, and `group_names`.
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
    """Return the tiles (n, side, side, 3) of an image, uint8."""
    from PIL import Image  # MNIST needs no Pillow

    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    height, width = pixels.shape[0] // SIDE, pixels.shape[1] // SIDE
    tiles = pixels.reshape(height, SIDE, width, SIDE, 3).swapaxes(1, 2)
    return tiles.reshape(-1, SIDE, SIDE, 3)


def _idx(folder, subset, names):
    """Return images and labels of the format of MNIST: big-endian sizes, then bytes."""
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
