"""A user's network that gets the training samples before the training."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from torch import nn

from sktopk import PatMatClassifier, TopKClassifier
from sktopk.modules import TableEncoder
from sktopk.modules._tabular_mlp import Members

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((200, 3)) * [1.0, 50.0, 0.1] + [0.0, 7.0, 0.0]).astype(np.float32)
Y = (X[:, 0] + 10 * X[:, 2] > 0.5).astype(int)
CLASSIFIERS = {
    "labels": TopKClassifier(k=1, calibration=None),
    "ranker": PatMatClassifier(tau=0.1, calibration=None),
}


class Standardized(nn.Module):
    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.last = nn.Linear(n_features, n_outputs)
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("std", torch.ones(n_features))
        self.shown = []

    def from_data(self, X):
        self.shown.append(X)
        self.mean, self.std = X.mean(0), X.std(0)

    def forward(self, x):
        return self.last((x - self.mean) / self.std)


def fitted(name, X=X, y=Y, **params):
    own = {"module": Standardized, "max_epochs": 2, "random_state": 0, "n_estimators": 1}
    return clone(CLASSIFIERS[name]).set_params(**own | params).fit(X, y)


def networks(clf):
    network = clf.net_.module_
    return [*network] if isinstance(network, Members) else [network]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("name", "n_estimators"), [("labels", 1), ("ranker", 3)])
def test_from_data_of_each_network_gets_the_samples_once_and_dense(name, n_estimators, make):
    each = networks(fitted(name, make(X), n_estimators=n_estimators))
    assert len(each) == n_estimators
    for network in each:
        (shown,) = network.shown
        np.testing.assert_array_equal(shown.numpy(), X)
        assert shown.dtype == network.last.weight.dtype


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_network_trains_and_predicts_with_what_it_computed_from_the_samples(name):
    # The steps equal the steps of a linear model on standardized samples.
    plain = fitted(name, (X - X.mean(0)) / X.std(0, ddof=1), module=nn.Linear)
    own = fitted(name)
    expected = plain.decision_function((X - X.mean(0)) / X.std(0, ddof=1))
    np.testing.assert_allclose(own.decision_function(X), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_from_data_gets_no_held_out_samples(name):
    (shown,) = networks(fitted(name, n_iter_no_change=1))[0].shown
    assert len(shown) == 180
    assert {*map(tuple, shown.numpy())} < {*map(tuple, X)}


def test_from_data_gets_the_samples_of_the_first_call_of_partial_fit():
    clf = TopKClassifier(k=1, module=Standardized, n_estimators=1, random_state=0)
    clf.partial_fit(X[:80], Y[:80]).partial_fit(X[80:], Y[80:])
    (shown,) = networks(clf)[0].shown
    np.testing.assert_array_equal(shown.numpy(), X[:80])


def test_from_data_gets_a_subset_of_many_samples():
    numbers = np.arange(65_535, dtype=np.float32)
    rows = np.column_stack([numbers, numbers, numbers])
    (shown,) = networks(fitted("labels", rows, numbers > 2e4, max_epochs=1))[0].shown
    shown = shown[:, 0].numpy()
    assert len(shown) == 32_768
    assert set(np.diff(shown)) == {1.0, 2.0, 3.0}
    assert abs(np.sum(shown % 2) - 16_384) < 200


class OfTables(nn.Sequential):
    """A user's network that takes the input of the default network."""

    takes_tables = True

    def __init__(self, n_features, n_outputs, **columns):
        encoder = TableEncoder(n_features, **columns)
        super().__init__(encoder, nn.Linear(encoder.n_outputs, n_outputs))


@pytest.mark.parametrize("n_estimators", [1, 3])
def test_an_encoder_inside_a_user_network_is_fitted_to_the_samples(n_estimators):
    for network in networks(fitted("labels", module=OfTables, n_estimators=n_estimators)):
        np.testing.assert_allclose(network[0].center, np.median(X, axis=0), rtol=1e-6)


def test_a_network_with_an_encoder_takes_frames_with_categories_and_missing_values():
    table = pd.DataFrame({"shop": np.where(Y == 1, "a", "b"), "size": X[:, 0]})
    table.loc[::5, "size"] = np.nan
    clf = fitted("labels", table, module=OfTables, max_epochs=30, n_estimators=2)
    assert clf.score(table, Y) == 1
    assert np.isfinite(clf.decision_function(table.assign(shop="new"))).all()


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_with_one_other_value_in_many_samples_are_used(kind):
    X, y = np.zeros((40_000, 20)), np.arange(40_000) % 2
    X[np.arange(20) * 1999, np.arange(20)] = 1
    clf = TopKClassifier(k=1, n_estimators=1, max_epochs=1, calibration=None, random_state=0)
    assert (clf.fit(kind(X), y).net_.module_.encoder.scale == 1).all()
