"""Does a randomized set depend on its row alone, and still cover as often as promised?"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.naive_bayes import MultinomialNB

from sktopk import SetClassifier
from tests.given import draw, frozen

DRAWN = ["aps", "raps"]


def sure(n_samples, seed):
    """Probabilities of rows whose label is nearly always the first, and the labels."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([60, 2, 1, 1], size=n_samples)
    return proba, (proba.cumsum(axis=1) > rng.random((n_samples, 1))).argmax(axis=1)


def one_by_one(clf, X):
    return np.concatenate([clf.predict_set(X[i : i + 1]) for i in range(len(X))])


@pytest.mark.parametrize("method", DRAWN)
def test_set_of_a_row_is_the_same_alone_and_in_any_batch(method, rng):
    X, y = draw(600)
    clf = SetClassifier(frozen(), method=method, coverage=0.7, randomized=True, random_state=0)
    whole = clf.fit(X[:300], y[:300]).predict_set(X[300:])
    np.testing.assert_array_equal(one_by_one(clf, X[300:]), whole)
    order = rng.integers(300, size=500)
    np.testing.assert_array_equal(clf.predict_set(X[300:][order]), whole[order])
    assert (whole != clf.set_params(randomized=False).predict_set(X[300:])).any()


@pytest.mark.parametrize("method", DRAWN)
def test_every_model_covers_rows_that_come_one_by_one(method):
    n_models, n_new, rates = 60, 40, []
    for seed in range(n_models):
        X, y = sure(200 + n_new, seed)
        clf = SetClassifier(frozen(4), method=method, randomized=True, random_state=seed)
        clf.fit(X[:200], y[:200])
        rates.append(one_by_one(clf, X[200:])[np.arange(n_new), y[200:]].mean())
    # Of new rows and of the threshold, which 200 rows tell.
    deviation = np.sqrt(0.09 / n_new + 0.09 / 200)
    assert min(rates) > 0.9 - 4 * deviation
    assert np.mean(rates) == pytest.approx(0.9, abs=4 * deviation / n_models**0.5)


CONTAINERS = {
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int64),
    "column-major": np.asfortranarray,
    "minus zero": lambda X: np.where(X == 0, -0.0, X),
    "lists": lambda X: X.tolist(),
    "CSR": csr_array,
    "COO": coo_array,
    "frame": pd.DataFrame,
    "polars": pl.DataFrame,
}


@pytest.mark.filterwarnings("ignore:X .* feature names")
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_set_of_a_row_is_the_same_in_every_container(container, rng):
    X, y = rng.poisson(0.7, size=(400, 9)).astype(float), rng.integers(4, size=400)
    clf = SetClassifier(MultinomialNB(), method="aps", coverage=0.6, randomized=True)
    clf.set_params(random_state=0).fit(X, y)
    expected = clf.predict_set(X)
    np.testing.assert_array_equal(clf.predict_set(container(X)), expected)
    again = clf.fit(container(X), y)
    np.testing.assert_array_equal(again.predict_set(X), expected)
