"""Columns far apart in scale, which nothing brings together, are warned of."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback
from torch import nn

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


class AsinhFirst(nn.Module):
    """A network that scales in a way that no layer of it shows."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.last = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.last(x.asinh())


class FromData(nn.Linear):
    """A network that asks for the rows, and scales by them."""

    def from_data(self, X):
        self.register_buffer("scale", X.std(0))

    def forward(self, x):
        return super().forward(x / self.scale)


def layers(*first):
    """A callable that builds a network that begins with such layers."""

    def build(n_features, n_outputs):
        own = [layer(n_features) for layer in first]
        return nn.Sequential(*own, nn.Linear(n_features, 16), nn.ReLU(), nn.Linear(16, n_outputs))

    return build


# Networks of a user, and whether they take columns as they are.
OTHERS = {
    "linear": (nn.Linear, True),
    "perceptron": (layers(), True),
    "dropout": (layers(lambda n: nn.Dropout(0.5)), True),
    # Of each row: the narrow column is as small beside the wide one as it was.
    "layer norm": (layers(nn.LayerNorm), True),
    "batch norm": (layers(nn.BatchNorm1d), False),
    "asinh": (AsinhFirst, False),
    "from_data": (FromData, False),
    "by hand": (layers(lambda n: TabularMLP(n, n).from_data(torch.from_numpy(FAR))), False),
}


@pytest.mark.parametrize("clf", CLASSIFIERS, ids=lambda clf: type(clf).__name__)
@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("name", OTHERS)
def test_of_a_network_of_the_user_it_is_tried_what_it_sees(clf, n_members, name):
    module, takes_columns_as_they_are = OTHERS[name]
    params = {"module": module, "n_members": n_members, "max_epochs": 1, "random_state": 0}
    clf = clf.__class__(**params)
    found = warned(clf, pd.DataFrame(FAR, columns=["age", "income"]))
    assert [each[:16] for each in found] == ["Column 'income' "] * takes_columns_as_they_are
    assert not warned(clf, NEAR)
    assert not warned(make_pipeline(StandardScaler(), clf), FAR)
    # Of sparse rows, and of images, it is not said.
    assert not warned(clf, sparse.csr_array(FAR))


def test_trying_leaves_no_trace():
    seen = []

    def batch_norm(n_features, n_outputs):
        return nn.Sequential(nn.BatchNorm1d(n_features), nn.Linear(n_features, n_outputs))

    class Start(Callback):
        def on_train_begin(self, net, X=None, y=None, **kwargs):
            seen.append({name: each.clone() for name, each in net.module_.state_dict().items()})

    params = {"max_epochs": 1, "random_state": 0, "callbacks": [Start()]}
    assert not warned(TopKClassifier(k=1, module=batch_norm, **params), FAR)
    assert not warned(TopKClassifier(k=1, module=batch_norm, **params), NEAR)
    tried, untried = seen
    assert [int(each) for name, each in tried.items() if "num_batches" in name] == [0]
    for name, each in tried.items():
        assert torch.equal(each, untried[name])


def test_looks_at_the_largest_numbers_there_are():
    clf = TopKClassifier(k=1, max_epochs=1, hidden_layer_sizes=())
    with np.errstate(all="raise"):
        assert len(warned(clf, np.column_stack([Y, np.where(Y, 1.0, -1.0) * 1e15]))) == 1
