"""Does a randomized set depend on its row alone, and still cover as often as promised?"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import coo_array, csr_array
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from torch.utils.data import TensorDataset

from sktopk import SetClassifier, TopKClassifier
from tests.given import Given, draw, frozen

DRAWN = ["aps", "raps"]


def sure(n_samples, seed):
    """Probabilities of rows whose label is nearly always the first, and the labels."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([60, 2, 1, 1], size=n_samples)
    return proba, (proba.cumsum(axis=1) > rng.random((n_samples, 1))).argmax(axis=1)


def one_by_one(clf, X):
    return np.concatenate([clf.predict_set(X[i : i + 1]).toarray() for i in range(len(X))])


@pytest.mark.parametrize("method", DRAWN)
def test_set_of_a_row_is_the_same_alone_and_in_any_batch(method, rng):
    X, y = draw(600)
    clf = SetClassifier(frozen(), method=method, coverage=0.7, randomized=True, random_state=0)
    whole = clf.fit(X[:300], y[:300]).predict_set(X[300:]).toarray()
    np.testing.assert_array_equal(one_by_one(clf, X[300:]), whole)
    order = rng.integers(300, size=500)
    np.testing.assert_array_equal(clf.predict_set(X[300:][order]).toarray(), whole[order])
    assert (whole != clf.set_params(randomized=False).predict_set(X[300:]).toarray()).any()


def test_threshold_does_not_depend_on_the_order_of_the_rows(rng):
    X, y = draw(300)
    order = rng.permutation(300)
    one, other = (
        SetClassifier(frozen(), method="aps", random_state=0).fit(X[rows], y[rows]).threshold_
        for rows in (np.arange(300), order)
    )
    assert one == other


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


def test_every_model_covers_rows_of_which_few_are_different():
    # Equal rows share their draw, whatever it is: a model of few rows must not depend on luck.
    for seed in range(60):
        kinds, _ = sure(5, seed)
        rng = np.random.default_rng(seed)
        X = kinds[rng.integers(5, size=2400)]
        y = (X.cumsum(axis=1) > rng.random((2400, 1))).argmax(axis=1)
        clf = SetClassifier(frozen(4), method="aps", randomized=True, random_state=seed)
        inside = clf.fit(X[:400], y[:400]).predict_set(X[400:]).toarray()
        rate = inside[np.arange(2000), y[400:]].mean()
        assert rate > 0.9 - 4 * np.sqrt(0.09 / 400 + 0.09 / 2000)


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
    expected = clf.predict_set(X).toarray()
    np.testing.assert_array_equal(clf.predict_set(container(X)).toarray(), expected)
    again = clf.fit(container(X), y)
    np.testing.assert_array_equal(again.predict_set(X).toarray(), expected)


def test_texts_and_mixed_columns_have_sets_of_their_own(rng):
    fruit, n = rng.choice(["apple", "pear", "plum"], 300), rng.integers(10**6, size=300)
    y = np.where(rng.random(300) < 0.7, fruit, "quince")
    texts = [f"{name} {word}" for name, word in zip(fruit, n, strict=True)]
    frame = pd.DataFrame({"fruit": fruit, "n": n})
    words = CountVectorizer(vocabulary=["apple", "pear", "plum"])
    counts = make_pipeline(words, MultinomialNB())
    for rows, inner in [
        (texts, counts),
        (np.array(texts), counts),
        (pd.Series(texts), counts),
        (frame, _Joined(counts)),
        (pl.DataFrame(frame), _Joined(counts)),
    ]:
        clf = SetClassifier(inner, method="aps", coverage=0.5, randomized=True, random_state=0)
        whole = clf.fit(rows, y).predict_set(rows).toarray()
        alone = [getattr(rows, "iloc", rows)[i : i + 1] for i in range(100)]
        alone = np.concatenate([clf.predict_set(row).toarray() for row in alone])
        np.testing.assert_array_equal(alone, whole[:100])
        # Not one draw for all.
        assert len(np.unique(whole[fruit == "plum"], axis=0)) > 1


class _Joined(Given):
    """Reads the cells of a row as one text."""

    def fit(self, X, y):
        self.classes_ = self.labels.fit(self._texts(X), y).classes_
        return self

    def predict_proba(self, X):
        return self.labels.predict_proba(self._texts(X))

    def _texts(self, X):
        return [" ".join(map(str, row)) for row in np.asarray(X).tolist()]


def test_items_of_a_dataset_count_by_their_row(blobs):
    X, y = blobs[0].astype(np.float32), blobs[1]
    net = FrozenEstimator(TopKClassifier(k=2, max_epochs=1, random_state=0).fit(X, y))
    clf = SetClassifier(net, method="aps", coverage=0.6, randomized=True, random_state=0).fit(X, y)
    items = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_array_equal(clf.predict_set(items).toarray(), clf.predict_set(X).toarray())
