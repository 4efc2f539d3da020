"""A fitted estimator means what it was fitted for, whatever is set, copied or tried later."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback, Checkpoint, EarlyStopping
from torch import nn

from sktopk import TopKClassifier
from sktopk.losses import LDAMLoss
from sktopk.metrics import make_topk_scorer
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore:The training loss still fell")


def quick(loss="smooth_topk", **params):
    params = {
        "k": 2,
        "module": MLP,
        "hidden_layer_sizes": (8,),
        "max_epochs": 5,
        "batch_size": 32,
        **params,
    }
    return TopKClassifier(loss, **{"random_state": 0, **params})


@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0, 10.0])
def test_every_temperature_trains_with_defaults(digits, tau):
    X, y, X_test, y_test = digits
    pca = PCA(5, random_state=0).fit(X)
    clf = TopKClassifier(k=3, tau=tau, hidden_layer_sizes=(), random_state=0)
    clf.fit(pca.transform(X)[:450], y[:450])
    assert make_topk_scorer(3)(clf, pca.transform(X_test), y_test) > 0.94


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda clf: pickle.loads(pickle.dumps(clf))])
def test_a_copy_after_set_params_predicts_as_before(blobs, copied):
    X, y = blobs
    clf = quick().fit(X, y)
    before = clf.decision_function(X)
    clf.set_params(tau=30.0, hidden_layer_sizes=(3, 3), loss="cross_entropy")
    twin = copied(clf)
    np.testing.assert_array_equal(twin.decision_function(X), before)
    assert twin.tau == 30.0


def test_what_scores_mean_is_fixed_by_the_fit(blobs):
    X, y = blobs
    clf = quick().fit(X, y)
    before = clf.predict_topk_proba(X)
    clf.set_params(tau=100.0)
    np.testing.assert_array_equal(clf.predict_topk_proba(X), before)
    clf.set_params(loss="cross_entropy")
    assert not hasattr(clf, "predict_proba")
    clf.set_params(loss="smooth_topk", tau=1.0, calibration="temperature")
    assert not hasattr(clf, "predict_proba")
    proba = clf.fit(X, y).predict_proba(X)
    clf.set_params(calibration="sigmoid")
    np.testing.assert_array_equal(clf.predict_proba(X), proba)
    clf.set_params(calibration=None).fit(X, y)
    assert not hasattr(clf, "predict_proba")


def test_warm_start_takes_new_rates_and_refuses_new_shapes(blobs):
    X, y = blobs
    clf = quick(warm_start=True).fit(X, y)
    clf.set_params(learning_rate=0.05, weight_decay=0.0, batch_size=64).fit(X, y)
    group = clf.net_.optimizer_.param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.05, 0.0)
    for change in ({"k": 1}, {"tau": 2.0}, {"hidden_layer_sizes": (9,)}, {"loss": "focal"}):
        other = copy.deepcopy(clf).set_params(**change)
        with pytest.raises(ValueError, match=r"was started with .* cannot go on with"):
            other.fit(X, y)
    # Also for an optimizer made anew, as after a divergence.
    anew = clf.net_.initialize_optimizer().optimizer_.param_groups[0]
    assert (anew["lr"], anew["weight_decay"]) == (0.05, 0.0)


@pytest.mark.parametrize("labels", ["one class", "diverging", "callback"])
def test_a_failed_fit_leaves_nothing_fitted(blobs, labels):
    class Broken(Callback):
        def on_epoch_end(self, net, **kwargs):
            raise RuntimeError

    X, y = blobs
    clf = quick()
    if labels == "one class":
        with pytest.raises(ValueError, match="1 class"):
            clf.fit(X, np.zeros(len(y)))
    elif labels == "diverging":
        with pytest.raises(ValueError, match="diverged"):
            clf.set_params(learning_rate=1e300, optimizer="sgd").fit(X, y)
    else:
        with pytest.raises(RuntimeError):
            clf.set_params(callbacks=[Broken()]).fit(X, y)
    with pytest.raises(NotFittedError):
        clf.predict(X)
    assert not [name for name in vars(clf) if name.endswith("_")]


def test_a_refused_refit_leaves_the_old_fit(blobs):
    X, y = blobs
    clf = quick().fit(X, y)
    before = clf.decision_function(X)
    with pytest.raises(ValueError, match="1 class"):
        clf.fit(X[:, :3], np.zeros(len(y)))
    np.testing.assert_array_equal(clf.decision_function(X), before)


class NaNOnce(nn.Module):
    """Cross-entropy that is NaN in one batch."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, scores, target):
        self.calls += 1
        return nn.functional.cross_entropy(scores, target) * (np.nan if self.calls == 20 else 1.0)


def test_training_can_go_on_after_it_diverged(blobs):
    X, y = blobs
    clf = quick(NaNOnce(), warm_start=True)
    with pytest.raises(ValueError, match="nan in batch 4 of epoch 3"):
        clf.fit(X, y)
    clf.fit(X, y)
    assert clf.n_iter_ == 2 + 5
    assert np.isfinite(clf.decision_function(X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_validation_rows_warn_of_nothing(blobs, frame):
    X, y = blobs
    X = frame({f"x{i}": X[:, i] for i in range(4)})
    quick(early_stopping=True, calibration="temperature").fit(X, y)
    quick(early_stopping=True).fit(X, y, X_val=X[:50], y_val=y[:50])


@pytest.mark.parametrize("loss", ["logit_adjusted", "ldam", "noised_topk_imbalanced"])
def test_only_proportions_of_weights_matter(blobs, loss):
    X, y = blobs
    keep = (y > 1) | (np.arange(len(y)) % 5 == 0)
    X, y = X[keep], y[keep]
    scores = [
        quick(loss).fit(X, y, sample_weight=np.full(len(y), w)).decision_function(X)
        for w in (1.0, 2.0**-12)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_weights_near_the_end_of_the_floats(blobs):
    X, y = blobs
    huge = quick().fit(X, y, sample_weight=np.full(len(y), 1e308))
    np.testing.assert_allclose(huge.decision_function(X), quick().fit(X, y).decision_function(X))


def test_a_loss_of_ones_own_keeps_its_class_counts(blobs):
    X, y = blobs
    counts = torch.tensor([100.0, 50.0, 10.0, 5.0, 1.0])
    clf = quick(LDAMLoss(class_counts=counts)).fit(X, y)
    torch.testing.assert_close(clf.net_.criterion_.loss.class_counts, counts.double())


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(weight=torch.ones(5)),
        nn.CrossEntropyLoss(reduction="sum"),
        nn.CrossEntropyLoss(reduction="none"),
    ],
    ids=["float32 weight", "sum", "none"],
)
def test_losses_of_ones_own_are_averaged_like_ours(blobs, loss):
    X, y = blobs
    weight = 1.0 + np.arange(len(y)) % 3
    for w in (None, weight):
        ours = quick("cross_entropy").fit(X, y, sample_weight=w).decision_function(X)
        own = quick(loss).fit(X, y, sample_weight=w).decision_function(X)
        np.testing.assert_allclose(own, ours, atol=1e-9)


class Scaled(nn.Module):
    """A loss with a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, scores, target):
        return nn.functional.cross_entropy(self.log_scale.exp() * scores, target)


def test_a_copy_keeps_what_the_loss_learned(blobs):
    X, y = blobs
    clf = quick(Scaled()).fit(X, y)
    learned = clf.net_.criterion_.loss.log_scale.item()
    assert learned != 0
    assert pickle.loads(pickle.dumps(clf)).net_.criterion_.loss.log_scale.item() == learned


def test_skorch_callbacks_find_their_validation_loss(blobs, tmp_path):
    X, y = blobs
    callbacks = [EarlyStopping(patience=2), Checkpoint(dirname=tmp_path, f_pickle=None)]
    clf = quick(max_epochs=300, learning_rate=0.05, callbacks=callbacks)
    clf.fit(X[:120], y[:120], X_val=X[120:], y_val=y[120:])
    losses = [row["valid_loss"] for row in clf.history_]
    assert len(losses) < 300
    assert min(losses[-2:]) > min(losses)
    assert (tmp_path / "params.pt").exists()


def test_validation_loss_draws_no_noise_from_training(blobs):
    X, y = blobs
    with_val = quick("noised_topk").fit(X, y, X_val=X, y_val=y)
    np.testing.assert_array_equal(
        with_val.decision_function(X), quick("noised_topk").fit(X, y).decision_function(X)
    )


def test_polars_frames_are_views_too(blobs):
    X, y = blobs
    clf = quick().fit(X, y)
    frame = pl.DataFrame(X)
    clf_frame = quick().fit(frame, y)
    np.testing.assert_allclose(
        clf_frame.predict_topk_proba([frame, frame]), clf.predict_topk_proba(X)
    )


class WithExtraState(nn.Linear):
    def get_extra_state(self):
        return {"a": [1]}

    def set_extra_state(self, state):
        self.state = state


def test_the_extra_state_of_a_module_may_be_anything(blobs):
    X, y = blobs
    clf = quick(module=WithExtraState, hidden_layer_sizes="auto", early_stopping=True).fit(X, y)
    loaded = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(loaded.decision_function(X), clf.decision_function(X))


class Fails(nn.Linear):
    def forward(self, x):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "change", [{"module": Fails, "hidden_layer_sizes": "auto"}, {"net_params": {"module__foo": 1}}]
)
def test_a_fit_that_is_refused_leaves_the_earlier_one_whole(blobs, change):
    X, y = blobs
    clf = quick().fit(X, y)
    before, y_score = {**vars(clf)}, clf.decision_function(X)
    clf.set_params(**change)
    with pytest.raises((TypeError, ValueError)):
        clf.fit(X[:, :1], y)
    kept = {name: value for name, value in vars(clf).items() if name.endswith("_")}
    assert kept == {name: value for name, value in before.items() if name.endswith("_")}
    np.testing.assert_array_equal(clf.decision_function(X), y_score)
    unfitted = quick(**change)
    for train in (unfitted.fit, unfitted.partial_fit):
        with pytest.raises((TypeError, ValueError)):
            train(X, y)
        assert not [name for name in vars(unfitted) if name.endswith("_")]
