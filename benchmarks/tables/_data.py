"""The datasets: how each is loaded, split, and which of them chose the defaults."""

from dataclasses import dataclass
from functools import cache, lru_cache
from zipfile import ZipFile

import numpy as np
import pandas as pd
from _datasets import (
    data_file,
    load_adbench,
    load_clinc150,
    load_leaves100,
    load_merck_cyp3a4,
    load_pmlb,
)
from real_data import clinc150, digits, leaves100, letter, trec, word_counts
from reproduce._image_files import load_cifar100, load_fashion_mnist, load_mnist
from scipy.sparse import csr_matrix, vstack
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from sktopk.datasets import inject_label_noise, make_long_tail

MAX_TRAIN = MAX_TEST = 8000
TRAIN_SHARE = 2 / 3
HALVES = ("choosing", "reporting")
# The families of `benchmarks/label_tasks.py`, which chose the defaults of TopKClassifier.
CHOSE_LABELS = ("clinc150", "digits", "leaves100", "letter")
# Digits and clothes with similar shapes.
SIMILAR_DIGITS = [0, 1, 2, 2, 1, 2, 0, 1, 2, 0]
SIMILAR_CLOTHES = [0, 1, 0, 0, 0, 2, 0, 2, 1, 2]


@dataclass(frozen=True)
class Table:
    """A dataset of two classes or of several.

    Parameters
    ----------
    name : str
    family : str
        Datasets of a family have common or similar samples, and are in the same half.
    n_classes : int
    load : callable
        Returns X and y, or X, y and the group of each class.
    components : int, default=None
        Number of components, computed from the training samples, for sparse X.
    noise : float, default=0.0
        Share of training labels that are replaced within their group. Test labels are correct.
    tail : float, default=1.0
        Ratio of the sizes of the largest and the smallest class in the training set.
    """

    name: str
    family: str
    n_classes: int
    load: object
    components: int | None = None
    noise: float = 0.0
    tail: float = 1.0

    @property
    def kind(self):
        if self.n_classes == 2:
            return "binary"
        return "wrong labels" if self.noise else "long tail" if self.tail > 1 else "multiclass"


@dataclass(frozen=True)
class Split:
    """Training and test samples of a dataset, float32, with labels 0 to n_classes - 1."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def merck_cyp(assay, threshold=5.5):
    """6 194 molecules, 9 491 counts of substructures (CSR); active: pIC50 above the threshold."""
    parts = [load_merck_cyp3a4(s, assay=assay, return_X_y=True) for s in ("train", "test")]
    return vstack([X for X, _ in parts], "csr"), np.concatenate([y for _, y in parts]) > threshold


def merck_metab():
    """2 092 molecules, 4 505 counts of substructures (CSR); 15.6 % have an activity of 90."""
    with ZipFile(data_file(None, "merck_metab", "data_sparse_single.zip")) as parts:
        frames = [pd.read_csv(parts.open(f"METAB_{part}.csv")) for part in ("training", "test")]
    # The files have different columns. Missing counts are 0.
    frame = pd.concat(frames).fillna(0)
    X = frame.drop(columns=["MOLECULE", "Act"]).to_numpy(np.float32)
    return csr_matrix(X), frame["Act"].to_numpy() >= 90


def hiv():
    """41 127 molecules, 3.5 % active: tf-idf of 1 to 4 consecutive characters of SMILES."""
    frame = pd.read_csv(data_file(None, "molecules_smiles", "HIV.csv"))
    signs = TfidfVectorizer(
        analyzer="char", ngram_range=(1, 4), lowercase=False, min_df=20, sublinear_tf=True
    )
    return signs.fit_transform(frame["smiles"]), frame["HIV_active"].to_numpy()


def questions():
    """13 083 questions to a bank: a frame with the columns text and category."""
    parts = [pd.read_csv(data_file(None, "banking77", f"{s}.csv")) for s in ("train", "test")]
    return pd.concat(parts)


def banking77():
    """13 083 questions to a bank as tf-idf (CSR), 77 classes, 227 to 75 rows each."""
    frame = questions()
    return word_counts(frame["text"], frame["category"].to_numpy())


def requests():
    """22 500 requests to an assistant as tf-idf (CSR), 150 classes in 10 domains."""
    parts = [load_clinc150(subset) for subset in ("train", "val", "test")]
    texts = [text for part in parts for text in part.data]
    domains = [domain for _, domain in sorted(parts[0].groups.items())]
    return *word_counts(texts, np.concatenate([part.target for part in parts])), domains


def kddcup(most=2000):
    """14 787 connections, 41 features, 23 classes with 2 to `most` samples each."""
    X, y = load_pmlb("kddcup", return_X_y=True)
    rng = np.random.default_rng(0)
    rows = [rng.permutation(np.flatnonzero(y == label))[:most] for label in np.unique(y)]
    rows = np.sort(np.concatenate(rows))
    return X[rows], y[rows]


def long_tail_of_letters():
    """5 400 letters, 26 classes: the first has 50 times as many samples as the last."""
    return make_long_tail(*letter(), factor=50, random_state=0)


def small_images(load):
    """70 000 images of 14 x 14 means of 2 x 2 pixels, 10 classes."""
    parts = [load(subset) for subset in ("train", "test")]
    images = np.concatenate([part.data for part in parts])
    X = images.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(len(images), -1)
    return X, np.concatenate([part.target for part in parts])


@cache
def cifar100():
    """26 667 images, 100 classes in 20 groups: 192 features of cells of 8 x 8 pixels.

    Each of the 16 cells has its mean colour and a histogram of nine directions of edges, weighted
    by their strength. The dataset has all test images and every third training image.
    """
    train, test = (load_cifar100(subset) for subset in ("train", "test"))
    X = np.concatenate([cells_of(train.data[::3]), cells_of(test.data)])
    return X, np.concatenate([train.target[::3], test.target]), train.groups


def cells_of(images, side=8, n_directions=9):
    n, _, height, width = images.shape
    rows, columns = height // side, width // side

    def mean_of_cells(values):
        return values.reshape(*values.shape[:-2], rows, side, columns, side).mean((-3, -1))

    down, right = np.gradient(images.mean(1), axis=(1, 2))
    strength = np.hypot(down, right)
    # Opposite directions of a gradient belong to the same edge.
    direction = np.arctan2(down, right) % np.pi * (n_directions / np.pi)
    edges = [
        mean_of_cells(np.where(np.floor(direction) % n_directions == d, strength, 0))
        for d in range(n_directions)
    ]
    cells = np.concatenate([mean_of_cells(images), np.stack(edges, 1)], axis=1)
    return cells.reshape(n, -1)


def adbench(number, name, family=None):
    return Table(
        name,
        family or name,
        2,
        lambda: load_adbench(f"{number}_{name}", return_X_y=True),
    )


def binary(name, load, family=None, **settings):
    return Table(name, family or name, 2, load, **settings)


def multiclass(name, n_classes, load, family=None, **settings):
    return Table(name, family or name, n_classes, load, **settings)


def pmlb(name):
    return lambda: load_pmlb(name, return_X_y=True)


def grouped(load, groups):
    """Return a function that also returns the groups of the classes."""
    return lambda: (*load(), groups)


def fashion_mnist():
    return small_images(load_fashion_mnist)


def mnist():
    return small_images(load_mnist)


TABLES = [
    adbench(1, "ALOI"),
    adbench(2, "annthyroid", "thyroid"),
    adbench(5, "campaign"),
    adbench(7, "Cardiotocography"),
    adbench(10, "cover"),
    adbench(11, "donors"),
    adbench(12, "fault"),
    adbench(17, "InternetAds"),
    adbench(19, "landsat"),
    adbench(22, "magic.gamma"),
    adbench(24, "mnist"),
    adbench(26, "optdigits"),
    adbench(27, "PageBlocks"),
    adbench(28, "pendigits"),
    adbench(30, "satellite", "landsat"),
    adbench(38, "thyroid"),
    adbench(41, "Waveform"),
    adbench(47, "yeast"),
    binary("churn", pmlb("churn")),
    binary("coil2000", pmlb("coil2000")),
    binary("spambase", pmlb("spambase")),
    binary("merck CYP 3A4", lambda: merck_cyp("3A4"), "merck CYP", components=100),
    binary("merck CYP 2C9", lambda: merck_cyp("2C9"), "merck CYP", components=100),
    binary("merck CYP 2D6", lambda: merck_cyp("2D6"), "merck CYP", components=100),
    binary("merck METAB", merck_metab, components=100),
    binary("HIV", hiv, components=100),
    multiclass("banking77", 77, banking77, components=200),
    multiclass("CIFAR-100", 100, cifar100),
    multiclass("CIFAR-100, half of the labels redrawn", 100, cifar100, "CIFAR-100", noise=0.5),
    multiclass("clinc150", 150, requests, components=200),
    multiclass(
        "clinc150, labels redrawn with p = 0.8",
        150,
        requests,
        "clinc150",
        components=200,
        noise=0.8,
    ),
    multiclass("clinc150, long tail", 150, clinc150, "clinc150", components=200),
    multiclass("digits", 10, digits),
    multiclass("Fashion-MNIST", 10, fashion_mnist),
    multiclass("kddcup, at most 2 000 of a class", 23, kddcup),
    multiclass(
        "leaves100, margin", 100, lambda: load_leaves100("margin", return_X_y=True), "leaves100"
    ),
    multiclass("leaves100, shape", 100, leaves100, "leaves100"),
    multiclass("letter", 26, letter),
    multiclass("letter, long tail", 26, long_tail_of_letters, "letter"),
    multiclass("MNIST", 10, mnist),
    multiclass("shuttle", 7, pmlb("shuttle")),
    multiclass("trec", 50, trec, components=200),
    *(
        multiclass(f"{name}, {noise:.0%} redrawn", n_classes, load, name, noise=noise, **more)
        for name, n_classes, load, noise, more in (
            # Eleven groups of seven neighbours in the alphabet.
            ("banking77", 77, grouped(banking77, np.arange(77) // 7), 0.5, {"components": 200}),
            ("digits", 10, grouped(digits, SIMILAR_DIGITS), 0.6, {}),
            ("Fashion-MNIST", 10, grouped(fashion_mnist, SIMILAR_CLOTHES), 0.6, {}),
            ("letter", 26, grouped(letter, np.arange(26) % 5), 0.2, {}),
            ("letter", 26, grouped(letter, np.arange(26) % 5), 0.6, {}),
            ("MNIST", 10, grouped(mnist, SIMILAR_DIGITS), 0.6, {}),
        )
    ),
    *(
        multiclass(f"{name}, tail of {tail}", n_classes, load, name, tail=tail, **more)
        for name, n_classes, load, tail, more in (
            ("banking77", 77, banking77, 20, {"components": 200}),
            ("CIFAR-100", 100, cifar100, 20, {}),
            ("clinc150", 150, requests, 20, {"components": 200}),
            ("digits", 10, digits, 50, {}),
            ("Fashion-MNIST", 10, fashion_mnist, 50, {}),
            ("letter", 26, letter, 50, {}),
            ("MNIST", 10, mnist, 50, {}),
        )
    ),
]
TABLES = {table.name: table for table in sorted(TABLES, key=lambda t: (t.kind, t.name.lower()))}


def halves():
    """Return the half of each dataset.

    Families take turns, in alphabetical order, for two classes and for several. For wrong labels
    and the long tail, "choosing" are the families that chose the defaults of TopKClassifier.
    """
    half = {t.name: HALVES[t.family not in CHOSE_LABELS] for t in TABLES.values()}
    for kind in ("binary", "multiclass"):
        tables = [table for table in TABLES.values() if table.kind == kind]
        families = sorted({table.family for table in tables}, key=str.lower)
        turn = {family: HALVES[i % 2] for i, family in enumerate(families)}
        half |= {table.name: turn[table.family] for table in tables}
    return half


HALF = halves()


def chose_defaults(table):
    """Return whether defaults of the compared estimator were chosen on this dataset."""
    chose_labels = table.kind != "binary" and table.family in CHOSE_LABELS
    return chose_labels or HALF[table.name] == "choosing"


@cache
def loaded(name):
    """Return X, labels from 0 to n_classes - 1, and the group of each class (or None)."""
    X, y, *groups = TABLES[name].load()
    classes, y = np.unique(y, return_inverse=True)
    if len(classes) != TABLES[name].n_classes:
        raise ValueError(f"{name} has {len(classes)} classes, not {TABLES[name].n_classes}")
    groups = np.asarray(groups[0]) if groups else None
    return X, y, groups


def n_train_of(name, max_train=MAX_TRAIN):
    """Return the number of training samples of a dataset."""
    return min(max_train, int(TRAIN_SHARE * len(loaded(name)[1])))


def long_tailed(rows, y, factor, seed):
    """Return the rows of a long tail. The seed draws which classes are frequent."""
    place = np.random.default_rng(seed).permutation(y.max() + 1)
    return make_long_tail(rows, place[y[rows]], factor, random_state=seed)[0]


@lru_cache(maxsize=128)
def split_of(name, split, max_train=MAX_TRAIN):
    """Return the samples of a split, which are the same for all methods."""
    table = TABLES[name]
    X, y, groups = loaded(name)
    n_train = n_train_of(name, max_train)
    n_test = min(MAX_TEST, len(y) - n_train)
    train, test = train_test_split(
        np.arange(len(y)), train_size=n_train, test_size=n_test, stratify=y, random_state=split
    )
    if table.tail > 1:
        train = long_tailed(train, y, table.tail, split)
    X, X_test, y_train = X[train], X[test], y[train]
    if table.components is not None:
        svd = TruncatedSVD(table.components, random_state=0).fit(X)
        X, X_test = svd.transform(X), svd.transform(X_test)
    if table.noise:
        y_train = inject_label_noise(y_train, groups, table.noise, random_state=split)
    X, X_test = (np.ascontiguousarray(part, dtype=np.float32) for part in (X, X_test))
    return Split(X, y_train, X_test, y[test])
