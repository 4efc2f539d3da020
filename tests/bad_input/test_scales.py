"""Columns far apart in scale, which nothing brings together, are warned of."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from sktopk import DeepTopPushClassifier, TopKClassifier, make_pipeline
from sktopk.modules import MLP, TabularMLP

RNG = np.random.default_rng(0)
Y = np.tile([0, 1, 1], 20)
# A table, and the ratio of the ranges of its second and its first column.
FAR = np.column_stack([RNG.uniform(size=60), 1e6 * RNG.uniform(size=60)])
NEAR = FAR * [1.0, 1e-3]
CLASSIFIERS = (
    TopKClassifier(k=1, module=MLP, max_epochs=1),
    DeepTopPushClassifier(module=MLP, max_epochs=1),
)


def warned(clf, X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, Y)
    return [str(each.message) for each in caught if "StandardScaler" in str(each.message)]


@pytest.mark.parametrize("clf", CLASSIFIERS, ids=lambda clf: type(clf).__name__)
def test_names_the_columns(clf):
    (message,) = warned(clf, FAR)
    assert message.startswith("Column 1 of X spreads over 9.8e+05, column 0 over 0.9")
    (message,) = warned(clf, pd.DataFrame(FAR, columns=["age", "income"]))
    assert message.startswith("Column 'income' of X spreads over 9.8e+05, column 'age' over 0.9")
    (message,) = warned(clf, sparse.csr_array(FAR))
    assert message.startswith("Column 1")
    (message,) = warned(clf.__class__(module=MLP, max_epochs=1, n_members=2), FAR)
    assert message.startswith("Column 1")


@pytest.mark.parametrize("clf", CLASSIFIERS, ids=lambda clf: type(clf).__name__)
def test_is_silent_where_the_columns_agree_or_something_scales_them(clf):
    assert not warned(clf, NEAR)
    assert not warned(clf, sparse.csr_array(NEAR))
    assert not warned(make_pipeline(StandardScaler(), clf), FAR)
    assert not warned(clf.__class__(max_epochs=1, module=TabularMLP), FAR)
    # A constant column has no scale, whatever its number.
    assert not warned(clf, np.column_stack([NEAR, np.full(60, 1e9)]))


def test_looks_at_the_largest_numbers_there_are():
    clf = TopKClassifier(k=1, max_epochs=1, hidden_layer_sizes=())
    with np.errstate(all="raise"):
        assert len(warned(clf, np.column_stack([Y, np.where(Y, 1.0, -1.0) * 1e15]))) == 1
