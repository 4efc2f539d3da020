"""Features of CIFAR-100: how well patches of an image match patches of training images."""

import functools
from itertools import product

import numpy as np
import torch
from _image_files import load_cifar100
from torch.nn import functional as F

SIDE, N_FILTERS = 6, 100
# Images of each class, for training and for validation.
TRAINED, CHOSEN_ON = 200, 50
# Where crops begin.
CENTRE_AT = 2
PLACES = [(CENTRE_AT, CENTRE_AT), *product((0, 2 * CENTRE_AT), repeat=2)]
CENTRE = 0


@functools.cache
def patch_features(trained=TRAINED):
    """Return features and classes of training, validation and test set, and the coarse classes.

    The filters are whitened patches of training images (Coates, Lee, Ng 2011, with random patches
    instead of k-means). An image has 27 x 27 matches with a filter. Positive matches are averaged
    in each quarter of the image, and columns are standardised. The validation set has 50 images of
    each class, the test set all 10 000 test images.
    """
    return _features(trained, _matched)


@functools.cache
def crop_features(trained):
    """Like `patch_features`, for ten crops per image: features (n_images, 10, n_features).

    The crops are the four corners and the centre, 28 x 28 of 32 x 32 pixels, and their mirror
    images (Krizhevsky, Sutskever, Hinton 2012). `CENTRE` is the index of the centre.
    """
    return _features(trained, _crops)


def _features(trained, of_images):
    bunches = [load_cifar100(subset) for subset in ("train", "test")]
    rng = np.random.default_rng(0)
    place = np.stack([rng.permutation(500) for _ in range(100)]) + 500 * np.arange(100)[:, None]
    train = place[:, :trained].ravel()
    valid = place[:, trained : trained + CHOSEN_ON].ravel()
    images = [bunches[0].data[train], bunches[0].data[valid], bunches[1].data]
    labels = [bunches[0].target[train], bunches[0].target[valid], bunches[1].target]
    images = [torch.from_numpy(part) - 0.5 for part in images]
    weight, bias = _filters(images[0], torch.Generator().manual_seed(0))
    X = [torch.cat([of_images(part, weight, bias) for part in x.split(500)]) for x in images]
    every = X[0].flatten(0, -2)
    mean, spread = every.mean(0), every.std(0)
    X = [((part - mean) / spread).numpy() for part in X]
    return list(zip(X, labels, strict=True)), bunches[0].groups


def _filters(images, generator):
    """Return weights and biases that whiten a patch and match it with whitened patches."""
    n = 20_000
    which = torch.randint(len(images), (n,), generator=generator)
    top, left = torch.randint(images.shape[-1] - SIDE + 1, (2, n), generator=generator)
    inside = torch.arange(SIDE)
    rows, columns = top[:, None, None] + inside[:, None], left[:, None, None] + inside
    patches = images[which[:, None, None], :, rows, columns].permute(0, 3, 1, 2).flatten(1)
    mean = patches.mean(0)
    values, vectors = torch.linalg.eigh((patches - mean).T @ (patches - mean) / n)
    whiten = vectors @ torch.diag((values + 1e-3).rsqrt()) @ vectors.T
    chosen = F.normalize((patches[:N_FILTERS] - mean) @ whiten)
    weight = chosen @ whiten
    return weight.reshape(N_FILTERS, *images.shape[1:2], SIDE, SIDE), -weight @ mean


def _matched(images, weight, bias):
    return F.adaptive_avg_pool2d(F.conv2d(images, weight, bias).relu_(), 2).flatten(1)


def _crops(images, weight, bias):
    # A match depends on its patch only: matches of a crop are a window of the image's matches.
    found = []
    for whole in (images, images.flip(3)):
        matches = F.conv2d(whole, weight, bias).relu_()
        side = matches.shape[-1] - 2 * CENTRE_AT
        for top, left in PLACES:
            window = matches[:, :, top : top + side, left : left + side]
            found.append(F.adaptive_avg_pool2d(window, 2).flatten(1))
    return torch.stack(found, 1)
