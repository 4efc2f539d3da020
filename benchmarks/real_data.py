"""Real tables for the benchmarks: digits ships with scikit-learn, the others lie in SKTOPK_SHARED.

SKTOPK_SHARED names a folder with ``data/pmlb/letter.tsv.gz``, ``data/pmlb/coil2000.tsv.gz``,
``data/pmlb/spambase.tsv.gz``, ``data/trec/train_5500.label``, ``data/leaves100/data_Sha_64.txt``,
``data/clinc150/data_imbalanced.json``, ``data/merck_cyp3a4/merck_cyp.npz``,
``data/adbench/5_campaign.npz`` and ``data/adbench/24_mnist.npz``; its default is
``../shared`` beside the project.
"""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer

DATA = Path(os.environ.get("SKTOPK_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def digits():
    """1 797 images of digits, 64 pixels, 10 classes."""
    return load_digits(return_X_y=True)


def letter():
    """20 000 letters, 16 features, 26 classes."""
    table = pd.read_csv(DATA / "pmlb" / "letter.tsv.gz", sep="\t")
    return table.drop(columns="target").to_numpy(), table["target"].to_numpy()


def trec():
    """5 452 questions as tf-idf of words and word pairs (CSR), 50 classes, 962 to 4 rows each."""
    lines = (DATA / "trec" / "train_5500.label").read_text(encoding="latin-1").splitlines()
    labels, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    X = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts)
    return X, np.array(labels)


def leaves100():
    """1 600 outlines of leaves, 64 numbers, 100 species."""
    table = pd.read_csv(DATA / "leaves100" / "data_Sha_64.txt", header=None)
    return table.iloc[:, 1:].to_numpy(), table[0].to_numpy(dtype=str)


def clinc150():
    """10 525 requests to an assistant as tf-idf (CSR), 150 classes, 100 to 25 rows each."""
    rows = json.loads((DATA / "clinc150" / "data_imbalanced.json").read_text())["train"]
    texts, labels = zip(*rows, strict=True)
    X = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts)
    return X, np.array(labels)


def molecules():
    """Molecules to train on and to test: 9 491 counts of substructures (CSR), 3.5 % not zero.

    With their activity on the enzyme CYP 3A4 (pIC50): 4 652 and 1 542 rows, 11 % above 5.5.
    """
    parts = []
    with np.load(DATA / "merck_cyp3a4" / "merck_cyp.npz") as arrays:
        n_columns = len(arrays["feature"])
        for part in ("train", "test"):
            data, indices, indptr = (arrays[f"{part}_{x}"] for x in ("data", "indices", "indptr"))
            shape = len(indptr) - 1, n_columns
            X = csr_matrix((data.astype(np.float32), indices.astype(np.int32), indptr), shape)
            parts += [X, arrays[f"{part}_Act_3A4"].astype(np.float64)]
    return tuple(parts)


def campaign():
    """41 188 telephone calls of a bank, 62 features, 11.3 % of them a success."""
    with np.load(DATA / "adbench" / "5_campaign.npz") as arrays:
        return arrays["X"], arrays["y"]


def coil2000():
    """9 822 customers of an insurance, 85 features, 6 % of whom insure a caravan."""
    table = pd.read_csv(DATA / "pmlb" / "coil2000.tsv.gz", sep="\t")
    return table.drop(columns="target").to_numpy(dtype=np.float64), table["target"].to_numpy()


def spambase():
    """4 601 letters, 57 shares of words and signs, 39 % of the letters unsolicited."""
    table = pd.read_csv(DATA / "pmlb" / "spambase.tsv.gz", sep="\t")
    return table.drop(columns="target").to_numpy(dtype=np.float64), table["target"].to_numpy()


def rare_mnist():
    """7 603 images of two digits, 100 of the pixels, 9.2 % of them the rare digit."""
    with np.load(DATA / "adbench" / "24_mnist.npz") as arrays:
        return arrays["X"], arrays["y"]
