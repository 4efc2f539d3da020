"""Predictions over blocks of classes: the answer of all classes at once, ties included."""

import numpy as np
import pytest
import torch
from torch import nn

from sktopk import TopKClassifier
from sktopk._training import _class_blocks
from sktopk._training._batches import Rows
from sktopk._training._class_blocks import cut, first_largest
from sktopk.modules import MLP
from tests.test_many_classes import LargestNewTensor, OwnNetwork, Tied, X, Y, quick

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_CLASSES = 60


def first_best(scores, k):
    """Columns by descending score, tied ones in their order: the definition."""
    return [sorted(range(len(row)), key=lambda j: (-row[j], j))[:k] for row in scores.tolist()]


def with_whole_weights(clf, seed=0):
    """Replace the weights by few different integers: sums are exact, ties are many."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in clf.net_.module_.parameters():
            parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=generator))
    for layer in clf.net_.module_.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.eps = 0.0
            layer.reset_running_stats()
    return clf


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(_class_blocks, "BLOCK_CLASSES", 7)


NETWORKS = {
    "linear": {"hidden_layer_sizes": ()},
    "hidden layer, scaled": {"hidden_layer_sizes": (5,), "score_scale": 10.0},
    "module": {"module": OwnNetwork},
    "normalised": {"net_params": {"module__normalize": True}, "hidden_layer_sizes": (5,)},
    "bfloat16": {"precision": "bfloat16"},
    "members": {"module": MLP, "n_members": 3},
    "packed members": {"n_members": 3, "hidden_layer_sizes": (5,), "warm_up": 0},
    # Of these all classes are scored at once.
    "tied": {"module": Tied, "n_candidates": None},
    "log_softmax": {
        "module": OwnNetwork,
        "net_params": {"module__end": "log_softmax"},
        "n_candidates": None,
    },
}


@pytest.mark.parametrize("k", [1, 3, 6, 7, 59])
@pytest.mark.parametrize("whole", [True, False], ids=["many ties", "as trained"])
@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_give_the_first_of_the_best(name, whole, k, small_blocks):
    clf = quick(max_epochs=1, dtype="float64", **NETWORKS[name]).fit(X, Y)
    rows = X
    if whole:
        clf, rows = with_whole_weights(clf), np.round(X)
    expected = clf.classes_[first_best(clf.decision_function(rows), k)]
    found = clf.predict_topk(rows, k)
    if name in ("normalised", "packed members"):
        # Scores of one block and of all classes may differ in the last digit.
        scores = clf.decision_function(rows)
        found, expected = (np.take_along_axis(scores, each, 1) for each in (found, expected))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        return
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(clf.predict(rows), expected[:, 0])


@pytest.mark.parametrize(
    ("params", "is_cut"),
    [(NETWORKS[name], name not in ("tied", "log_softmax")) for name in NETWORKS],
)
def test_only_a_network_that_ends_in_its_last_layer_is_cut(params, is_cut):
    clf = quick(max_epochs=1, **params).fit(X, Y)
    clf.net_.module_.train()
    rows = Rows(X, torch.device("cpu"), clf.net_.dtype)
    assert (cut(clf.net_, rows) is not None) == is_cut


@pytest.mark.parametrize("params", [NETWORKS["members"], NETWORKS["packed members"]])
def test_a_member_that_is_asked_alone_answers_alone(params, small_blocks):
    clf = quick(max_epochs=1, dtype="float64", **params).fit(X, Y)
    each = clf.net_.module_.eval()(torch.from_numpy(X)).detach()
    for m in range(3):
        with clf.net_.only(m):
            assert clf.predict_topk(X, 2).tolist() == first_best(each[:, m], 2)
    assert clf.predict_topk(X, 2).tolist() == first_best(each.mean(1), 2)


def test_a_constant_network_names_the_first_classes(small_blocks):
    clf = quick(max_epochs=1).fit(X, Y)
    with torch.no_grad():
        for parameter in clf.net_.module_.parameters():
            parameter.zero_()
    assert clf.predict_topk(X[:4], 9).tolist() == [list(range(9))] * 4


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@pytest.mark.parametrize("n", [8, 5000])
def test_first_largest_is_its_definition_with_every_kind_of_tie(n, k):
    generator = torch.Generator().manual_seed(n + k)
    scores = torch.randint(-2, 3, (6, n), generator=generator).double()
    scores[0] = -torch.inf
    scores[1, 3:] = -torch.inf
    scores[2, :4] = torch.inf
    values, columns = first_largest(scores, k)
    assert columns.tolist() == first_best(scores, k)
    assert torch.equal(values, scores.gather(1, columns))
    assert first_largest(scores[:0], k)[1].shape == (0, k)


def test_scores_that_are_not_numbers_do_no_harm():
    scores = torch.tensor([[1.0, torch.nan, 5.0, 5.0, torch.nan, 5.0]])
    assert first_largest(scores, 3)[1].tolist() == [[1, 4, 2]]


def test_no_tensor_of_a_prediction_has_all_rows_and_all_classes():
    n_rows, n_classes = 300, 40_000
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_rows, 4), dtype=np.float32)
    clf = TopKClassifier(k=3, n_candidates=50, hidden_layer_sizes=())
    clf.partial_fit(rows, rng.integers(n_classes, size=n_rows), classes=np.arange(n_classes))
    expected = clf.decision_function(rows).argsort(axis=1)[:, :-4:-1]
    with LargestNewTensor() as seen:
        found = clf.predict_topk(rows)
    np.testing.assert_array_equal(found, expected)
    assert seen.size <= n_rows * _class_blocks.BLOCK_CLASSES < n_rows * n_classes / 4


def test_prediction_leaves_the_network_alone(small_blocks):
    clf = quick(module=OwnNetwork, max_epochs=1).fit(X, Y)
    before = [
        (name, id(value), value.clone()) for name, value in clf.net_.module_.named_parameters()
    ]
    clf.predict_topk(X)
    after = clf.net_.module_.named_parameters()
    for (name, number, value), (name_now, now) in zip(before, after, strict=True):
        assert (name, number) == (name_now, id(now))
        assert torch.equal(value, now)


class Uncopyable(nn.Linear):
    def __deepcopy__(self, memo):
        raise TypeError("no copies")


def test_a_network_that_cannot_be_copied_is_scored_whole(small_blocks):
    clf = quick(
        module=lambda d, c: nn.Sequential(Uncopyable(d, 4), nn.Linear(4, c)), n_candidates=None
    )
    clf.fit(X, Y)
    expected = first_best(clf.decision_function(X), 5)
    assert clf.predict_topk(X, 5).tolist() == expected
