"""Members on other tables, in other precisions, after crashes, with other parameters."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn
from torch.utils.data import TensorDataset

from sktopk import AUCClassifier, DeepTopPushClassifier, PatMatClassifier, TopKClassifier
from sktopk.io import dump, load
from sktopk.modules import MLP, TabularMLP
from tests.crashing import (
    POSITIVE,
    WithDropout,
    X,
    Y,
    check_same,
    crash_and_resume,
    fitted_state,
    quick,
    target,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MEMBERS = {"n_members": 3, "cross_fit": True, "warm_up": 3, "max_epochs": 5}


def packed(n_features, n_outputs, n_members=1):
    return TabularMLP(n_features, n_outputs, (5,), n_members)


CRASHING = {
    "labels": lambda **p: quick(early_stopping=True, **MEMBERS | p),
    "stopped in the warm-up": lambda **p: quick(
        early_stopping=True, n_iter_no_change=1, **MEMBERS | {"learning_rate": 0.1} | p
    ),
    "two heads, dropout": lambda **p: quick(
        order="cross_entropy", module=WithDropout, **MEMBERS | p
    ),
    "noise": lambda **p: quick(loss="noised_topk_imbalanced", **MEMBERS | p),
    "hard rows": lambda **p: quick(
        PatMatClassifier, buffer_size=5, early_stopping=True, **MEMBERS | p
    ),
    "packed": lambda **p: quick(
        DeepTopPushClassifier, module=packed, early_stopping=True, **MEMBERS | p
    ),
}


@pytest.mark.parametrize("after", [1, 3, 4])
@pytest.mark.parametrize("name", CRASHING)
def test_a_fit_that_crashed_ends_as_if_it_never_had(name, after, tmp_path):
    make = CRASHING[name]
    y = target(make())
    expected = make().fit(X, y)
    if expected.n_iter_ <= after:
        after = 1
    clf, first, then = crash_and_resume(
        lambda: make(checkpoint=tmp_path / "checkpoint"), after, X=X, y=y
    )
    assert first + then == expected.n_iter_ + 1
    check_same(fitted_state(clf), fitted_state(expected))


TABLES = {
    "CSR": lambda X: csr_array(X),
    "float32": lambda X: X.astype(np.float32),
    "Dataset": lambda X: TensorDataset(torch.from_numpy(X)),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
def test_any_table_is_as_good(cls, kind, monkeypatch):
    monkeypatch.setattr("sktopk._training._batches.SPARSE_COLUMNS", 1)
    monkeypatch.setattr("sktopk._training._batches.SPARSE_SHARE", 1)
    # Folds are dealt by content, which is the same in float32.
    rows = np.round(4 * X) / 4
    clf = quick(cls, early_stopping=True, **MEMBERS)
    y = target(clf)
    expected = clf.fit(rows, y)
    found = quick(cls, early_stopping=True, **MEMBERS).fit(TABLES[kind](rows), y)
    scores = found.oob_decision_function_
    tolerance = 1e-2 if kind == "float32" else 1e-6
    if kind == "float32":
        assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected.oob_decision_function_, tolerance, tolerance)


@pytest.mark.parametrize("module", [None, packed])
@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
def test_bfloat16_is_about_the_same(cls, module):
    params = MEMBERS | {"module": module, "cross_fit": True}
    clf = quick(cls, **params)
    rows = X.astype(np.float32)
    expected = clf.fit(rows, target(clf)).decision_function(rows)
    clf.set_params(precision="bfloat16")
    found = clf.fit(rows, target(clf)).decision_function(rows)
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max() + 0.02
    assert np.abs(found - expected).max() > 0


# Of torch's compiler, about torch.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
def test_compiled_members_learn_the_same(cls):
    params = MEMBERS | {"max_epochs": 2, "warm_up": 1}
    clf = quick(cls, **params)
    expected = clf.fit(X, target(clf)).decision_function(X)
    found = quick(cls, compile=True, **params).fit(X, target(clf)).decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# What is refused, before any training.


class Shared(nn.Module):
    """Members that share a layer."""

    def __init__(self, n_features, n_outputs, n_members):
        super().__init__()
        self.shared, self.n_members = nn.Linear(n_features, 4), n_members
        self.last = nn.Linear(4, n_outputs * n_members)

    def forward(self, x):
        return self.last(self.shared(x).relu()).unflatten(1, (self.n_members, -1))


class Flat(Shared):
    def forward(self, x):
        return super().forward(x).mean(1)


class Flattened(nn.Module):
    """Members whose last layer is none of members."""

    def __init__(self, n_features, n_outputs, n_members):
        super().__init__()
        self.shape = n_members, n_outputs
        self.last = nn.Linear(n_features, n_members * n_outputs)

    def forward(self, x):
        return self.last(x).unflatten(1, self.shape)


class NoWeights(nn.Module):
    def forward(self, scores, target):
        return nn.functional.cross_entropy(scores, target)


REFUSED = {
    "one member": ({"n_members": 1}, ValueError, "n_members must be at least 2; got 1"),
    "shared": ({"module": Shared, "early_stopping": True}, TypeError, "may share weights"),
    "flat": ({"module": Flat}, ValueError, r"scores of shape \(n_samples, 3, 3\)"),
    "candidates": (
        {"n_candidates": 2, "loss": "cross_entropy", "module": Flattened},
        ValueError,
        "of members in one, MemberLinear.*got Flattened",
    ),
    "no weights": (
        {"loss": NoWeights()},
        TypeError,
        "cross_fit=True weighs .* and needs a loss that takes sample_w",
    ),
    "half a member": ({"n_members": 2.5}, TypeError, "n_members must be"),
    "all cross-entropy": (
        {"cross_entropy_share": 1.0},
        ValueError,
        "cross_entropy_share == 1.0, must be < 1",
    ),
    "order": ({"order": "loss"}, ValueError, "order must be one of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_members_cannot_do_is_said_before_training(name, monkeypatch):
    params, error, message = REFUSED[name]
    monkeypatch.setattr("sktopk._training._net.Net.train", None)
    with pytest.raises(error, match=message):
        quick(**MEMBERS | params).fit(X, Y)


def test_members_that_share_weights_are_trained_where_none_is_stopped_alone():
    clf = quick(module=Shared, n_members=3, early_stopping=True, max_epochs=2).fit(X, Y)
    assert clf.decision_function(X).shape == (300, 3)


def test_rows_to_leave_out_are_needed():
    rows = np.repeat(X[:1], 20, axis=0)
    with pytest.warns(UserWarning, match="at least 2 different ones of a class, which X does not"):
        quick(k=1, **MEMBERS).fit(rows, np.arange(20) % 2)
    rows, y = np.r_[X[:20], X[:2]], np.r_[1, np.zeros(19), 1, 0]
    with pytest.warns(UserWarning, match="at least 2 different ones of each class"):
        clf = quick(DeepTopPushClassifier, early_stopping=True, **MEMBERS).fit(rows, y)
    assert clf.n_iter_ == MEMBERS["max_epochs"] + MEMBERS["warm_up"]
    assert not hasattr(clf, "oob_score_")
    with pytest.raises(ValueError, match="calibration need rows to hold out"):
        quick(DeepTopPushClassifier, calibration="sigmoid", **MEMBERS).fit(X[:20], y[:20])
    rows = X[:20]
    # Two positives make two folds, whatever there are of members.
    clf = quick(DeepTopPushClassifier, **MEMBERS).fit(rows, np.arange(20) < 2)
    assert np.isfinite(clf.oob_decision_function_).all()


@pytest.mark.parametrize("params", [{"cross_fit": True}, {"early_stopping": True}])
def test_a_piece_of_a_stream_has_no_rows_to_spare(params):
    clf = quick(n_members=2, **params)
    assert not hasattr(clf, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        clf.partial_fit(X, Y)
    assert "=True, which needs all data at once" in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [{"hidden_layer_sizes": ()}, {"module": MLP, "early_stopping": True}, {"n_candidates": 2}],
    ids=str,
)
def test_one_network_by_default_has_none_to_leave_rows_out(params):
    with pytest.raises(ValueError, match="n_members must be at least 2; got 'auto', which is 1"):
        TopKClassifier(k=1, cross_fit=True, **params).fit(X, Y)


def test_members_that_went_on_with_other_rows_have_none_left_out(tmp_path):
    rng = np.random.default_rng(0)
    noise = rng.integers(3, size=len(Y))
    clf = quick(warm_start=True, calibration="auto", **MEMBERS).set_params(callbacks=None)
    clf.fit(X, noise)
    order = rng.permutation(len(X))
    assert hasattr(clf.fit(X[order], noise[order]), "oob_score_")
    # As is a copy from a file.
    dump(clf, tmp_path / "clf")
    other = load(tmp_path / "clf").fit(X, noise)
    np.testing.assert_array_equal(
        clf.fit(X, noise).oob_decision_function_, other.oob_decision_function_
    )
    with pytest.warns(UserWarning, match="goes on with other rows .* no oob_score_"):
        clf.fit(X[1:], noise[1:])
    for name in ("oob_score_", "oob_decision_function_", "calibration_"):
        assert not hasattr(clf, name)
    with pytest.raises(AttributeError, match=r"left out no rows for calibration='auto'.*and fit"):
        clf.predict_proba(X)
    # They have seen all by now.
    with pytest.warns(UserWarning, match="goes on with other rows"):
        assert not hasattr(clf.fit(X, noise), "oob_score_")
    assert hasattr(clf.set_params(warm_start=False).fit(X, noise), "oob_score_")


def test_members_that_saw_a_piece_of_a_stream_have_none_left_out():
    clf = quick(DeepTopPushClassifier, warm_start=True, **MEMBERS | {"cross_fit": "auto"})
    clf.set_params(module=None).fit(X, POSITIVE)
    assert hasattr(clf, "oob_score_")
    clf.partial_fit(X, POSITIVE)
    assert not hasattr(clf, "oob_score_")
    with pytest.warns(UserWarning, match="goes on with other rows"):
        assert not hasattr(clf.fit(X, POSITIVE), "oob_score_")


def test_the_only_row_of_a_class_keeps_no_other_from_being_left_out():
    y = np.r_[3, Y[1:]]
    clf = quick(AUCClassifier, calibration="auto", **MEMBERS).fit(X, y)
    alone = np.isnan(clf.oob_decision_function_).any(axis=1)
    assert alone.tolist() == [True] + [False] * (len(y) - 1)
    assert clf.predict_proba(X).shape == (len(y), 4)


def test_partial_fit_of_members():
    """Without a warm-up, which has no end in a stream."""
    clf = quick(DeepTopPushClassifier, n_members=2, warm_up=2, buffer_size=5)
    for part in (slice(150), slice(150, 300)):
        clf.partial_fit(X[part], POSITIVE[part], classes=[0, 1])
    assert clf.net_.criterion_.warm
    assert clf.n_iter_ == 2
