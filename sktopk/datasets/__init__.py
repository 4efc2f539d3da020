"""Data: generators, ways to make a problem harder, loaders and fetchers."""

from ._circle_modes import make_circle_modes
from ._label_noise import inject_label_noise
from ._long_tail import make_long_tail
from ._openml import fetch_cifar100, fetch_fashion_mnist, fetch_letter
from ._parquet import parquet_batches
from ._tables import load_adbench, load_leaves100, load_merck_cyp3a4, load_pmlb
from ._texts import load_clinc150, load_trec

__all__ = [
    "fetch_cifar100",
    "fetch_fashion_mnist",
    "fetch_letter",
    "inject_label_noise",
    "load_adbench",
    "load_clinc150",
    "load_leaves100",
    "load_merck_cyp3a4",
    "load_pmlb",
    "load_trec",
    "make_circle_modes",
    "make_long_tail",
    "parquet_batches",
]
