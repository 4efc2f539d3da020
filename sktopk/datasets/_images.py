"""Small images in a data folder."""

import gzip
import json

import numpy as np

from ._folders import as_bunch, check_subset, data_file

PARTS = {"train": "train", "test": "t10k"}
SIDE = 32  # of the tiles of a mosaic
FASHION = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]


def load_mnist(subset="train", *, data_home=None, return_X_y=False):
    """Load the handwritten digits of MNIST.

    Reads ``mnist/train-images-idx3-ubyte.gz`` and its siblings, as published.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        60 000 or 10 000 images.
    data_home : str or path, default=None
        The folder that has ``mnist``; None is the environment variable SKTOPK_DATA, and
        without it ``../shared/data``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : Bunch or tuple
        With `data` (n_samples, 1, 28, 28) float32 in [0, 1], `target` (n_samples,) int64 and
        `target_names`.

    Raises
    ------
    ValueError
        If there is no such subset.
    FileNotFoundError
        If a file is not there; the message says where it was looked for.

    See Also
    --------
    load_fashion_mnist : Clothes in the same format.
    sktopk.modules.ConvNet : A network for such images.

    Examples
    --------
    >>> from sktopk.datasets import load_mnist
    >>> digits = load_mnist(data_home="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: mnist/train-images-idx3-ubyte.gz is not in nowhere: data_home, ...
    """
    return _idx("mnist", subset, data_home, return_X_y, [str(digit) for digit in range(10)])


def load_fashion_mnist(subset="train", *, data_home=None, return_X_y=False):
    """Load the images of clothes of Fashion-MNIST.

    Reads ``fashion_mnist/train-images-idx3-ubyte.gz`` and its siblings, as published.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        60 000 or 10 000 images.
    data_home : str or path, default=None
        The folder that has ``fashion_mnist``; None as in :func:`load_mnist`.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : Bunch or tuple
        With `data` (n_samples, 1, 28, 28) float32 in [0, 1], `target` (n_samples,) int64 and
        `target_names`.

    Raises
    ------
    ValueError
        If there is no such subset.
    FileNotFoundError
        If a file is not there; the message says where it was looked for.

    See Also
    --------
    fetch_fashion_mnist : Downloads them.

    Examples
    --------
    >>> from sktopk.datasets import load_fashion_mnist
    >>> clothes = load_fashion_mnist(data_home="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: fashion_mnist/train-images-idx3-ubyte.gz is not in nowhere: data_home, ...
    """
    return _idx("fashion_mnist", subset, data_home, return_X_y, FASHION)


def load_cifar100(subset="train", *, data_home=None, return_X_y=False):
    """Load the images of CIFAR-100: 100 classes, five in each of 20 coarse ones.

    Reads ``cifar100/labels.json`` and a mosaic of each class, ``cifar100/train/CLASS.webp``,
    tiles of 32 x 32 pixels row by row. Needs Pillow.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        50 000 or 10 000 images, equally many of each class.
    data_home : str or path, default=None
        The folder that has ``cifar100``; None as in :func:`load_mnist`.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : Bunch or tuple
        With `data` (n_samples, 3, 32, 32) float32 in [0, 1], class by class, `target`
        (n_samples,) int64, `target_names`, `groups` (100,) the coarse class of each class, and
        `group_names`.

    Raises
    ------
    ValueError
        If there is no such subset.
    FileNotFoundError
        If a file is not there; the message says where it was looked for.
    ImportError
        If Pillow is not installed.

    See Also
    --------
    fetch_cifar100 : Downloads them as a table.
    inject_label_noise : Takes the `groups`.

    Examples
    --------
    >>> from sktopk.datasets import load_cifar100
    >>> images = load_cifar100(data_home="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: cifar100/labels.json is not in nowhere: data_home, ...
    """
    check_subset(subset)
    labels = json.loads(data_file(data_home, "cifar100", "labels.json").read_text())
    names = labels["fine"]
    images = [_mosaic(data_file(data_home, "cifar100", subset, f"{name}.webp")) for name in names]
    y = np.repeat(np.arange(len(names)), [len(tiles) for tiles in images])
    X = np.concatenate(images).transpose(0, 3, 1, 2).astype(np.float32)
    X /= 255
    return as_bunch(
        X,
        y,
        return_X_y=return_X_y,
        target_names=names,
        groups=np.array(labels["coarse_of_fine"]),
        group_names=labels["coarse"],
    )


def _mosaic(path):
    """Return the tiles (n, side, side, 3) of an image, uint8."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("load_cifar100 needs Pillow: pip install pillow") from error
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    height, width = pixels.shape[0] // SIDE, pixels.shape[1] // SIDE
    tiles = pixels.reshape(height, SIDE, width, SIDE, 3).swapaxes(1, 2)
    return tiles.reshape(-1, SIDE, SIDE, 3)


def _idx(folder, subset, data_home, return_X_y, names):
    """Return images and labels of the format of MNIST: big-endian sizes, then bytes."""
    check_subset(subset)
    arrays = []
    for kind in ("images-idx3", "labels-idx1"):
        path = data_file(data_home, folder, f"{PARTS[subset]}-{kind}-ubyte.gz")
        content = gzip.decompress(path.read_bytes())
        n_dim = content[3]
        shape = np.frombuffer(content, ">i4", n_dim, offset=4)
        arrays.append(np.frombuffer(content, np.uint8, offset=4 + 4 * n_dim).reshape(shape))
    images, y = arrays
    X = images[:, None].astype(np.float32)
    X /= 255
    return as_bunch(X, y.astype(np.int64), return_X_y=return_X_y, target_names=names)
