"""The CPU never waits for the device in a training step, because it reads no values of tensors.

The device "meta" has tensors with shape and dtype, but without values. It raises an error where
the CPU would wait for a GPU: for a value, a shape that depends on values, or a copy to the CPU.
These tests also raise an error for copies of CPU tensors to the device.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import sktopk
from sktopk import losses
from sktopk._common._samples import Folds
from sktopk._training._batches import make_batches
from sktopk.modules import MLP
from tests import rankers
from tests.named_losses import NAMED_LOSSES
from tests.rankers import name as name_of

META = torch.device("meta")
ONE = {"module": MLP, "n_estimators": 1}
PARAMS = {"optimizer": torch.optim.SGD, "optimizer__fused": False}
RANKERS = {name_of(clf): clone(clf).set_params(**ONE) for clf in rankers.RANKERS} | {
    "no buffer": sktopk.DeepTopPushClassifier(buffer_size=0, **ONE),
    "hinge": sktopk.DeepTopPushClassifier(buffer_size=10, surrogate="hinge", **ONE),
    "logistic": sktopk.TopPushKClassifier(k=3, surrogate="logistic", **ONE),
    "an ensemble": sktopk.DeepTopPushClassifier(n_estimators=3),
    "an ensemble, 5 hard samples": sktopk.PatMatClassifier(n_estimators=3, buffer_size=5),
    "an ensemble on pairs": sktopk.AUCClassifier(n_estimators=3),
}
OF_CLASSES = {
    **{name: sktopk.TopKClassifier(name, k=3, **ONE) for name in NAMED_LOSSES},
    "cross_entropy, ensemble": sktopk.TopKClassifier("cross_entropy", k=3, n_estimators=3),
    "smooth_topk, ensemble": sktopk.TopKClassifier("smooth_topk", k=3, n_estimators=3),
    "logit_adjusted, ensemble": sktopk.TopKClassifier("logit_adjusted", k=3, n_estimators=3),
    "several k": sktopk.TopKClassifier(k={1: 0.5, 3: 0.5}, **ONE),
    "class_weight": sktopk.TopKClassifier(k=3, class_weight="balanced", **ONE),
}


class NoWaiting(TorchDispatchMode):
    """Raise an error for operations that copy values from the CPU to the device or back."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        result = func(*args, **kwargs)
        tensors += [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        copied = "copy" in str(func)  # a scalar is an argument of a kernel and needs no copy
        places = {x.device.type for x in tensors if x.numel() and (x.ndim or copied)}
        if len(places) > 1:
            raise RuntimeError(f"{func} takes numbers from one device to the other")
        return result


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch):
    monkeypatch.setattr(torch, "autocast", lambda *args, **kwargs: nullcontext())


def batches_of(clf, X, y, weight):
    """Minibatches of 32 samples, as a fitted classifier trains on them."""
    net, n, n_members = clf.net_, len(y), clf.n_estimators
    folds = Folds(np.arange(n) % n_members, np.arange(n), n_members, np.arange(n_members))
    batches = make_batches(
        net.rows(X, resident=True), y, weight, n_classes=len(clf.classes_), n_members=n_members,
        batch_size=32, min_positives=net.settings.task.training.min_positives,
        n_hard=net.criterion_.n_hard, generator=net.generator,
        folds=folds if n_members > 1 else None,
    )  # fmt: skip
    net.run = SimpleNamespace(batches=batches, forward=net.module_)
    return batches


@pytest.mark.parametrize("name", RANKERS | OF_CLASSES)
def test_training_steps_do_not_wait_for_the_device(name, rng):
    """Fit on the CPU, then train one epoch on the device "meta"."""
    clf, X = (RANKERS | OF_CLASSES)[name], rng.standard_normal((150, 4))
    y = (np.arange(150) % 10 == 0).astype(int) if name in RANKERS else np.arange(150) % 6
    clf.set_params(max_epochs=1, batch_size=32, hidden_layer_sizes=(5,), random_state=0)
    clf.set_params(net_params=PARAMS, calibration=None)
    net = clf.fit(X, y).net_
    for part in (net.module_, net.criterion_):
        part.to_empty(device=META)
    for loss in net.criterion_.modules():
        if hasattr(loss, "generator"):
            loss.generator = None
    net.device = "meta"
    net.initialize_optimizer()
    weight = 1.0 + y if getattr(clf, "class_weight", None) else np.ones(150)
    batches = batches_of(clf, X, y, weight)
    steps = list(batches.fetched())
    batches.fetched = lambda: steps
    with NoWaiting():
        results = [net.train_step(batch) for batch in batches]
    assert len(results) == len(batches) > 1
    assert all(loss.device == scores.device == META for loss, scores, _ in results)


# Settings that change how the loss is computed, but not its value.
OTHER_SIZES = [
    (losses.noised_topk_loss, 400, {"k": 3, "sigma": 0.5}),
    (losses.noised_topk_loss, 9, {"k": 3, "sigma": 0.5, "n_noise": "exact"}),
    (losses.smooth_topk_loss, 5000, {"k": 3}),
    (losses.smooth_topk_loss, 8, {"k": 6}),
]


@pytest.mark.parametrize(("loss", "n_classes", "parameters"), OTHER_SIZES)
def test_losses_do_not_wait_for_the_device(loss, n_classes, parameters):
    scores = torch.empty(16, n_classes, device=META, requires_grad=True)
    target = torch.empty(16, dtype=torch.long, device=META)
    weight = torch.empty(16, device=META)
    with NoWaiting():
        loss(scores, target, sample_weight=weight, **parameters).backward()
    assert scores.grad.device == META
