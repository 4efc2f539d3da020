"""The network for tables and sparse samples, and labels whose scores tie."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from sktopk import TopKClassifier
from sktopk.modules import MLP


def test_the_molecule_network_has_its_layers():
    network = MLP(100, 1, hidden_layer_sizes=(50, 25), batch_norm=True)
    dense = (100 * 50 + 50) + (50 * 25 + 25) + (25 + 1)
    assert sum(p.numel() for p in network.parameters()) == dense + 2 * 50 + 2 * 25


def test_parameters_have_the_names_shapes_and_start_of_linear_layers():
    torch.manual_seed(0)
    network = MLP(4, 3, (5,))
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    assert network.state_dict().keys() == plain.state_dict().keys()
    for name, value in plain.state_dict().items():
        assert torch.equal(network.state_dict()[name], value)


@pytest.mark.parametrize("module", [{}, {"module": MLP}], ids=["default", "MLP"])
@pytest.mark.parametrize("hidden_layer_sizes", [(), (5,)])
def test_sparse_samples_with_entries_in_parts_are_dense_samples(module, hidden_layer_sizes, rng):
    X = rng.random((300, 1_000), dtype=np.float32)
    X = csr_array(np.where(X < 0.02, 50 * X, 0))
    halves, columns = np.repeat(X.data / 2, 2)[::-1], np.repeat(X.indices, 2)[::-1]
    parts = csr_array((halves, columns, 2 * X.indptr), shape=X.shape)
    y, dense = np.arange(300) % 3, parts.toarray()
    params = {"hidden_layer_sizes": hidden_layer_sizes, "max_epochs": 2, "random_state": 0}
    clf = TopKClassifier(k=1, n_estimators=1, **module, **params)
    expected = clf.fit(dense, y).decision_function(dense)
    tolerance = {"rtol": 1e-3, "atol": 2e-3 * np.abs(expected).max()}
    np.testing.assert_allclose(clf.decision_function(parts), expected, **tolerance)
    np.testing.assert_allclose(clf.fit(parts, y).decision_function(dense), expected, **tolerance)


class Rounded(nn.Linear):
    def forward(self, X):
        return (2 * super().forward(X)).round()


@pytest.mark.parametrize("k", range(1, 9))
def test_classes_whose_scores_tie_keep_their_order(k, rng):
    X, y = rng.normal(size=(300, 4)).astype(np.float32), np.arange(300) % 9
    clf = TopKClassifier("cross_entropy", k=k, module=Rounded, max_epochs=1, calibration=None)
    scores = clf.fit(X, y).decision_function(X)
    assert (np.sort(scores)[:, :-1] == np.sort(scores)[:, 1:]).any()
    order = np.argsort(-scores, axis=1, kind="stable")
    np.testing.assert_array_equal(clf.predict_topk(X), order[:, :k])
