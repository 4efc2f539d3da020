"""Real tables for the benchmarks: digits ships with scikit-learn, the others are read from files.

See ``_datasets.py`` for the files; SKTOPK_DATA names their folder, its default is
``../shared/data`` beside the folder one works in.
"""

from _datasets import (
    load_adbench,
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
    """Molecules to train on and to test: 9 491 counts of substructures (CSR), 3.5 % not zero.

    With their activity on the enzyme CYP 3A4 (pIC50): 4 652 and 1 542 rows, 11 % above 5.5.
    """
    train, test = (load_merck_cyp3a4(subset, return_X_y=True) for subset in ("train", "test"))
    return *train, *test


def campaign():
    """41 188 telephone calls of a bank, 62 features, 11.3 % of them a success."""
    return load_adbench("5_campaign", return_X_y=True)


def coil2000():
    """9 822 customers of an insurance, 85 features, 6 % of whom insure a caravan."""
    return load_pmlb("coil2000", return_X_y=True)


def spambase():
    """4 601 letters, 57 shares of words and signs, 39 % of the letters unsolicited."""
    return load_pmlb("spambase", return_X_y=True)


def rare_mnist():
    """7 603 images of two digits, 100 of the pixels, 9.2 % of them the rare digit."""
    return load_adbench("24_mnist", return_X_y=True)


def churn():
    """5 000 customers of a telephone company, 20 features, 14 % of whom leave."""
    return load_pmlb("churn", return_X_y=True)


def annthyroid():
    """7 200 patients, 6 features, 7.4 % of them with an ill thyroid."""
    return load_adbench("2_annthyroid", return_X_y=True)
