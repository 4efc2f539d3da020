"""The datasets of the benchmarks, read from a data folder.

The environment variable SKTOPK_DATA names the folder. The default is ``../shared/data``. A loader
returns a Bunch with `data` and `target`, or ``(X, y)`` if ``return_X_y=True``.
"""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

SUBSETS = ("train", "test")
VIEWS = {"shape": "Sha", "margin": "Mar", "texture": "Tex"}
TREC_FILES = {"train": "train_5500.label", "test": "TREC_10.label"}


def data_file(data_home, *parts):
    """Return the path of a file in the data folder; `data_home` may be None."""
    home = Path(data_home or os.environ.get("SKTOPK_DATA") or Path("..", "shared", "data"))
    path = home.joinpath(*parts)
    if not path.is_file():
        raise FileNotFoundError(
            f"{'/'.join(parts)} is not in {home}: set the environment variable SKTOPK_DATA to the "
            "folder that has it"
        )
    return path


def as_bunch(X, y, *, return_X_y=False, **more):
    """Return ``(X, y)``, or a Bunch of X, y and additional items."""
    return (X, y) if return_X_y else Bunch(data=X, target=y, **more)


def load_pmlb(name, *, return_X_y=False, as_frame=False):
    """Load a dataset of the Penn Machine Learning Benchmarks, ``pmlb/NAME.tsv.gz``."""
    table = pd.read_csv(data_file(None, "pmlb", f"{name}.tsv.gz"), sep="\t")
    X, y = table.drop(columns="target").astype(np.float64), table["target"]
    if not as_frame:
        X, y = X.to_numpy(), y.to_numpy()
    return as_bunch(X, y, return_X_y=return_X_y)


def load_adbench(name, *, return_X_y=False):
    """Load a dataset of ADBench with few positives, ``adbench/NAME.npz``."""
    with np.load(data_file(None, "adbench", f"{name}.npz")) as arrays:
        return as_bunch(arrays["X"].astype(np.float64), arrays["y"], return_X_y=return_X_y)


def load_leaves100(view="shape", *, return_X_y=False):
    """Load the leaves of 100 species, 16 samples each. The texture of one leaf is missing."""
    path = data_file(None, "leaves100", f"data_{VIEWS[view]}_64.txt")
    table = pd.read_csv(path, header=None)
    X, y = table.iloc[:, 1:].to_numpy(), table[0].to_numpy(dtype=str)
    return as_bunch(X, y, return_X_y=return_X_y)


def load_merck_cyp3a4(subset="train", *, assay="3A4", return_X_y=False):
    """Load sparse counts of substructures and the activity (pIC50) of molecules.

    Subsets are "train" (4 652 molecules) and "test" (1 542). Assays are "3A4", "2C9" and "2D6".
    """
    with np.load(data_file(None, "merck_cyp3a4", "merck_cyp.npz")) as arrays:
        n_features = len(arrays["feature"])
        data, indices, indptr = (arrays[f"{subset}_{x}"] for x in ("data", "indices", "indptr"))
        y = arrays[f"{subset}_Act_{assay}"].astype(np.float64)
    parts = data.astype(np.float32), indices.astype(np.int32), indptr
    return as_bunch(csr_matrix(parts, (len(indptr) - 1, n_features)), y, return_X_y=return_X_y)


def load_clinc150(subset="train", *, version="full", return_X_y=False):
    """Load requests to an assistant with 150 intents. `groups` maps an intent to its domain.

    Subsets are "train", "test" and "val". Versions are "full" and "imbalanced".
    """
    rows = json.loads(data_file(None, "clinc150", f"data_{version}.json").read_text("utf-8"))
    domains = json.loads(data_file(None, "clinc150", "domains.json").read_text("utf-8"))
    groups = {intent: domain for domain, intents in domains.items() for intent in intents}
    return _texts(*zip(*rows[subset], strict=True), groups, return_X_y)


def load_trec(subset="train", *, return_X_y=False):
    """Load questions with the type of their answer: 50 classes in a long tail, e.g. "LOC:city"."""
    text = data_file(None, "trec", TREC_FILES[subset]).read_text(encoding="latin-1")
    labels, texts = zip(*(line.split(" ", 1) for line in text.splitlines()), strict=True)
    groups = {label: label.split(":")[0] for label in labels}
    return _texts(texts, labels, groups, return_X_y)


def _texts(texts, labels, groups, return_X_y):
    y = np.array(labels, dtype=str)
    more = {"groups": groups, "target_names": np.unique(y).tolist()}
    return as_bunch(list(texts), y, return_X_y=return_X_y, **more)
