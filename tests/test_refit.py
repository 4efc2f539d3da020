"""Changed parameters and copies keep the scores; losses and modules of a user are trained."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch import nn

from sktopk import losses
from sktopk.io import dump, load
from sktopk.losses import FocalLoss
from tests.crashing import small
from tests.named_losses import NAMED_LOSSES


def quick(loss="smooth_topk", **params):
    return small(loss=loss, **{"max_epochs": 2} | params)


def test_set_params_after_fit_changes_no_scores_and_predictions(blobs, tmp_path):
    pytest.importorskip("skops")
    X, y = blobs
    clf = quick(calibration="temperature", hidden_layer_sizes=(sizes := [8])).fit(X, y)
    sizes.append(3)
    before = clf.decision_function(X), clf.predict_proba(X), clf.predict_topk(X)
    changes = {"tau": 30.0, "hidden_layer_sizes": (3, 3), "loss": "cross_entropy", "k": 4}
    clf.set_params(**changes, log_loss_share=0, calibration=None, n_estimators=5, learning_rate=-1)
    for each in (clf, pickle.loads(pickle.dumps(clf)), load(dump(clf, tmp_path / "file"))):
        after = each.decision_function(X), each.predict_proba(X), each.predict_topk(X)
        np.testing.assert_equal(after, before)
        assert each.tau == 30.0


class Drawn(nn.Module):
    """Network with random constants, a parameter of indices, and a large temporary tensor."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.constants, self.last = torch.randn(n_features, 8), nn.Linear(8, n_outputs)
        self.order = nn.Parameter(torch.arange(len(torch.zeros(1 << 23)[:8])), requires_grad=False)

    def forward(self, x):
        return self.last((x.float() @ self.constants)[:, self.order].to(x.dtype))


def test_a_copy_of_an_estimator_draws_the_constants_of_its_network_again(blobs, tmp_path):
    X, y = blobs
    clf = quick(module=Drawn, n_estimators=2, random_state=3).fit(X, y)
    file = dump(clf, tmp_path / "file")
    for each in (pickle.loads(pickle.dumps(clf)), load(file, trusted=[Drawn])):
        np.testing.assert_array_equal(each.decision_function(X), clf.decision_function(X))


LOSSES = {
    "float32 weights": nn.CrossEntropyLoss(weight=torch.ones(5)),
    "sum": nn.CrossEntropyLoss(reduction="sum"),
    "none": FocalLoss(gamma=0.0, reduction="none"),  # cross-entropy
    "function": nn.functional.cross_entropy,
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", LOSSES)
def test_cross_entropy_with_any_reduction_gives_the_scores_of_the_named_loss(case, weighted, blobs):
    X, y = blobs
    # With one minibatch of all samples, the network trains in float64.
    whole = {"batch_size": len(y)}
    w = 1.0 + np.arange(len(y)) % 3 if weighted else None
    ours = quick("cross_entropy", **whole).fit(X, y, sample_weight=w).decision_function(X)
    own = quick(LOSSES[case], **whole).fit(X, y, sample_weight=w).decision_function(X)
    np.testing.assert_allclose(own, ours, atol=1e-9)


@pytest.mark.filterwarnings("ignore:(tau|sigma)=:UserWarning")
@pytest.mark.parametrize("name", [name for name in NAMED_LOSSES if hasattr(losses, f"{name}_loss")])
def test_a_loss_given_as_function_or_by_name_gives_the_same_scores(name, blobs):
    X, y = blobs
    kept = np.r_[np.flatnonzero(y < 4), np.flatnonzero(y == 4)[::2]]
    X, y = X[kept], y[kept]
    whole = {"batch_size": len(y), "max_epochs": 6, "tau": 0.5, "sigma": 0.3}
    expected = quick(name, **whole).fit(X, y).decision_function(X)
    found = quick(getattr(losses, f"{name}_loss"), **whole).fit(X, y).decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    other = quick("cross_entropy", **whole).fit(X, y).decision_function(X)
    assert np.abs(other - expected).max() > 1e-3


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, scores, target):
        return nn.functional.cross_entropy(self.log_scale.exp() * scores, target)


def test_a_pickled_copy_keeps_the_learned_parameter_of_the_loss(blobs):
    X, y = blobs
    clf = quick(Scaled()).fit(X, y)
    both = clf, pickle.loads(pickle.dumps(clf))
    one, other = (p.item() for c in both for p in c.net_.criterion_.parameters() if p.ndim == 0)
    assert one == other != 0


class WithExtraState(nn.Linear):
    def get_extra_state(self):
        return {"a": [1]}

    def set_extra_state(self, state):
        self.state = state


def test_a_module_whose_extra_state_is_no_tensor_can_be_pickled(blobs):
    X, y = blobs
    clf = quick(module=WithExtraState, n_iter_no_change=2).fit(X, y)
    loaded = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_validation_samples_give_no_warning(blobs, frame):
    X, y = blobs
    X = frame({f"x{i}": X[:, i] for i in range(4)})
    with warnings.catch_warnings(action="error"):
        quick(n_iter_no_change=2, calibration="temperature").fit(X, y).predict(X)
        quick(n_iter_no_change=2).fit(X, y, X_val=X[:50], y_val=y[:50]).score(X, y)
