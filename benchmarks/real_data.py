"""Real datasets for the benchmarks. scikit-learn has digits, the others are read from files.

``_datasets.py`` reads the files. SKTOPK_DATA names their folder; the default is ``../shared/data``.
"""

from _datasets import (
    load_clinc150,
    load_leaves100,
    load_merck_cyp3a4,
    load_pmlb,
    load_trec,
)
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer


def digits():
    """1 797 images of digits, 64 pixels, 10 classes."""
    return load_digits(return_X_y=True)


def letter():
    """20 000 letters, 16 features, 26 classes."""
    return load_pmlb("letter", return_X_y=True)


def word_counts(texts, y):
    """Texts as tf-idf of words and word pairs (CSR)."""
    return TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts), y


def trec():
    """5 452 questions as tf-idf of words and word pairs (CSR), 50 classes, 962 to 4 rows each."""
    return word_counts(*load_trec(return_X_y=True))


def leaves100():
    """1 600 outlines of leaves, 64 numbers, 100 species."""
    return load_leaves100(return_X_y=True)


def clinc150():
    """10 525 requests to an assistant as tf-idf (CSR), 150 classes, 100 to 25 rows each."""
    return word_counts(*load_clinc150(version="imbalanced", return_X_y=True))


def molecules():
    """Training and test molecules: 9 491 counts of substructures (CSR), 3.5 % nonzero.

    Also returns the activity on the enzyme CYP 3A4 (pIC50) of 4 652 and 1 542 molecules. 11 % are
    above 5.5.
    """
    train, test = (load_merck_cyp3a4(subset, return_X_y=True) for subset in ("train", "test"))
    return *train, *test
