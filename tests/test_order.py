"""The loss says which k labels are in front, cross-entropy in which order."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from sktopk import TopKClassifier
from sktopk.losses._smooth_topk import topk_inclusion_proba
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP
from sktopk.modules._members import Answer, ordered_sets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = {"module": MLP, "k": 2, "hidden_layer_sizes": (6,), "max_epochs": 5, "random_state": 0}
SCORES = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6, width=32))


def slow_order(s, o, k):
    """Columns in order: the k largest of s by o, then the others by o; ties in their order."""
    inside = sorted(range(len(s)), key=lambda j: (-s[j], j))[:k]
    outside = [j for j in range(len(s)) if j not in inside]
    return sorted(inside, key=lambda j: (-o[j], j)) + sorted(outside, key=lambda j: (-o[j], j))


@given(st.data(), st.integers(2, 7), st.sampled_from([torch.float32, torch.float64]))
def test_ordered_sets_are_those_of_a_slow_loop(data, n_classes, dtype):
    k = data.draw(st.integers(1, n_classes - 1))
    row = st.lists(SCORES, min_size=n_classes, max_size=n_classes)
    s, o = torch.tensor([data.draw(row), data.draw(row)], dtype=dtype)
    (found,) = ordered_sets(s[None], o[None], k)
    expected = slow_order(s.tolist(), o.tolist(), k)
    assert found.isfinite().all()
    inside, outside = expected[:k], expected[k:]
    low, high = o[inside].min(), o[outside].max()
    raised = found[inside] - o[inside]
    assert torch.equal(found[outside], o[outside])
    # One number for all of the set, but for rounding: the order inside is that of o.
    scale = float(found.abs().max() + o.abs().max())
    assert float(raised.max() - raised.min()) <= 8 * torch.finfo(dtype).eps * scale
    assert all(found[a] >= found[b] for a, b in pairwise(inside))
    if low > high:
        assert torch.equal(found, o)
    else:
        assert found[inside].min() > found[outside].max()
        # No more than it takes.
        assert float(raised.max()) <= float(high - low) + scale / 256 + 1e-2


def test_scores_of_members_are_averaged_head_by_head():
    scores = torch.randn(6, 3, 8, generator=torch.Generator().manual_seed(0))
    mean = scores.mean(1)
    answer = Answer(2)
    torch.testing.assert_close(answer(scores), ordered_sets(mean[:, :4], mean[:, 4:], 2))
    torch.testing.assert_close(answer.in_order(scores), mean[:, 4:])
    torch.testing.assert_close(Answer()(scores), mean)


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("warm_up", [0, 2])
def test_all_answers_are_those_of_the_two_heads(blobs, n_members, warm_up):
    X, y = blobs
    params = QUICK | {"n_members": n_members, "warm_up": warm_up, "order": "cross_entropy"}
    clf = TopKClassifier(learning_rate=0.01, **params).fit(X, y)
    with torch.no_grad():
        heads = clf.net_.module_(torch.from_numpy(X))
    heads = heads.mean(1).numpy() if n_members > 1 else heads.numpy()
    assert heads.shape == (len(X), 10)
    s, o = heads[:, :5], heads[:, 5:]
    expected = np.array([slow_order(*each, 2) for each in zip(s, o, strict=True)])
    order = np.argsort(-clf.decision_function(X), axis=1, kind="stable")
    np.testing.assert_array_equal(order, expected)
    for k in (1, 2, 3, 4):
        np.testing.assert_array_equal(clf.predict_topk(X, k), expected[:, :k])
        assert topk_accuracy_score(y, clf.decision_function(X), k=k) == pytest.approx(
            (expected[:, :k] == y[:, None]).any(1).mean()
        )
    np.testing.assert_array_equal(clf.predict(X), expected[:, 0])
    np.testing.assert_allclose(clf.predict_proba(X), softmax(o, axis=1))
    sets = topk_inclusion_proba(torch.from_numpy(o), k=2)
    np.testing.assert_allclose(clf.predict_topk_proba(X), sets)
    # The question is asked: the heads disagree somewhere.
    assert (np.argsort(-o, axis=1)[:, :2] != expected[:, :2]).any()


@pytest.mark.parametrize("more", [{}, {"n_members": 3, "cross_fit": True}, {"module": None}])
def test_probabilities_are_calibrated_on_the_scores_of_cross_entropy(blobs, more):
    X, y = blobs
    params = QUICK | more | {"order": "cross_entropy", "learning_rate": 0.01}
    clf = TopKClassifier(calibration="temperature", **params).fit(X, y)
    _, slope, intercept = clf.calibration_
    with torch.no_grad():
        heads = clf.net_.module_(torch.from_numpy(X))
    o = (heads.mean(1) if more else heads)[:, 5:].numpy()
    np.testing.assert_allclose(clf.predict_proba(X), softmax(slope * o + intercept, axis=1))
    if more:
        raw = TopKClassifier(**params).fit(X, y)
        np.testing.assert_array_equal(raw.decision_function(X), clf.decision_function(X))
        assert clf.oob_decision_function_.shape == (len(X), 5)


@pytest.mark.parametrize(("loss", "k"), [("cross_entropy", 3), ("smooth_topk", 1)])
def test_where_the_order_is_that_of_the_loss_there_is_one_head(blobs, loss, k):
    X, y = blobs
    params = QUICK | {"k": k}
    alone = TopKClassifier(loss, **params).fit(X, y)
    ordered = TopKClassifier(loss, order="cross_entropy", **params).fit(X, y)
    np.testing.assert_array_equal(ordered.decision_function(X), alone.decision_function(X))
    assert hasattr(ordered, "predict_proba") == (loss == "cross_entropy")


def test_two_classes_have_one_score(blobs):
    X, y = blobs[0], blobs[1] > 2
    with pytest.warns(UserWarning, match="k_=1 is used"):
        clf = TopKClassifier(order="cross_entropy", **QUICK).fit(X, y)
    assert clf.decision_function(X).shape == (len(X),)
