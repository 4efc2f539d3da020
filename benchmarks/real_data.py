"""Real tables for the benchmarks: digits ships with scikit-learn, the others lie in SKTOPK_SHARED.

SKTOPK_SHARED names a folder with ``data/pmlb/letter.tsv.gz``, ``data/trec/train_5500.label``
and ``data/leaves100/data_Sha_64.txt``; its default is ``../shared`` beside the project.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
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
