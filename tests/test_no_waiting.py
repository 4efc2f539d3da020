"""No step of training waits for the device: values of its tensors are never looked at.

The device "meta" has tensors of shape and dtype without values. What a GPU would have to be
waited for (a number, a shape that depends on numbers, a copy to the CPU) fails on it by itself;
what it lets pass, copies of CPU tensors to the device, is refused here. A number of Python made
into a tensor of the device would go unnoticed: tests/gpu asks a real one.
"""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import sktopk
from sktopk import losses
from sktopk._training._batches import make_batches
from sktopk._training._folds import Folds
from sktopk.modules import MLP
from tests.losses.cases import CLASSES
from tests.named_losses import NAMED_LOSSES

META = torch.device("meta")
N_ROWS, N_FEATURES, BATCH = 150, 4, 32
RANKERS = {
    "DeepTopPush": sktopk.DeepTopPushClassifier(module=MLP),
    "DeepTopPush, no buffer": sktopk.DeepTopPushClassifier(buffer_size=0, module=MLP),
    "DeepTopPush, 10 hard rows": sktopk.DeepTopPushClassifier(
        buffer_size=10, surrogate="hinge", module=MLP
    ),
    "TopPushK": sktopk.TopPushKClassifier(k=3, surrogate="logistic", module=MLP),
    "RecallAtK": sktopk.RecallAtKClassifier(k=10, buffer_size=40, module=MLP),
    "PatMat": sktopk.PatMatClassifier(tau=0.1, module=MLP),
    "PatMatNP": sktopk.PatMatNPClassifier(tau=0.1, buffer_size=3, module=MLP),
    "RecallAtFPR": sktopk.RecallAtFPRClassifier(fpr=0.1, module=MLP),
    "PrecisionAtRecall": sktopk.PrecisionAtRecallClassifier(module=MLP),
    "PrecisionAtRecall, program": sktopk.PrecisionAtRecallProgramClassifier(module=MLP),
    "FScore": sktopk.FScoreClassifier(module=MLP),
    "RecallAtPrecision": sktopk.RecallAtPrecisionClassifier(module=MLP),
    **{
        f"AUC, {s}": sktopk.AUCClassifier(surrogate=s, module=MLP)
        for s in ("hinge", "logistic", "ramp")
    },
}
MEMBERS = {"n_members": 3, "cross_fit": True, "warm_up": 1}
RANKERS |= {
    "DeepTopPush, members": sktopk.DeepTopPushClassifier(**MEMBERS),
    "PatMat, members, 5 hard rows": sktopk.PatMatClassifier(buffer_size=5, **MEMBERS),
    "members that see all rows": sktopk.PatMatClassifier(n_members=2, cross_fit=False),
    "default": sktopk.DeepTopPushClassifier(),
    "AUC, members": sktopk.AUCClassifier(**MEMBERS),
}
OF_CLASSES = {
    **{name: sktopk.TopKClassifier(name, k=3, module=MLP) for name in NAMED_LOSSES},
    **{
        f"{name}, members": sktopk.TopKClassifier(name, k=3, **MEMBERS)
        for name in ("cross_entropy", "smooth_topk", "logit_adjusted")
    },
    "default": sktopk.TopKClassifier(k=3),
    "two heads": sktopk.TopKClassifier(k=3, order="cross_entropy", **MEMBERS),
    "several k": sktopk.TopKClassifier(k={1: 0.5, 3: 0.5}, module=MLP),
    "class_weight": sktopk.TopKClassifier(k=3, class_weight="balanced", module=MLP),
    **{f"AUC, {m}": sktopk.AUCClassifier(multi_class=m, module=MLP) for m in ("ovr", "ovo", "mu")},
}


class NoWaiting(TorchDispatchMode):
    """Refuse operations that take numbers from the CPU to the device or back."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        result = func(*args, **kwargs)
        tensors += [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        copied = "copy" in str(func)  # a number by itself is an argument of a kernel
        places = {x.device.type for x in tensors if x.numel() and (x.ndim or copied)}
        if len(places) > 1:
            raise RuntimeError(f"{func} takes numbers from one device to the other")
        return result


@pytest.fixture
def on_meta(monkeypatch):
    """Let a classifier that was fitted on the CPU go on training on the device without values."""
    # It has no such thing; a GPU has.
    monkeypatch.setattr(torch, "autocast", lambda *args, **kwargs: nullcontext())

    def batches_on_meta(clf, X, y):
        clf.set_params(max_epochs=1, batch_size=BATCH, hidden_layer_sizes=(5,), random_state=0)
        clf.set_params(optimizer="sgd")
        net = clf.fit(X, y).net_
        for part in (net.module_, net.criterion_):
            part.to_empty(device=META)
        for loss in net.criterion_.modules():
            if hasattr(loss, "generator"):
                loss.generator = None
        net.set_params(optimizer__fused=False)
        net.device = "meta"
        target = np.searchsorted(clf.classes_, y)
        n_positives = None if len(clf.classes_) > 2 else 5
        count = np.bincount(target).astype(float)
        weight, folds = np.ones(len(y)), None
        if getattr(clf, "class_weight", None) is not None:
            weight += target
        settings = clf._settings()
        if settings.cross_fit:
            n = settings.n_members
            folds = Folds(np.arange(len(y)) % n, n, n)
            weight = folds.own_weights(target, weight, lambda target, weight: weight)
        return net, make_batches(
            net, X, target, weight, count, batch_size=BATCH, min_positives=n_positives, folds=folds
        )

    return batches_on_meta


def table(n_classes):
    rng = np.random.default_rng(0)
    return rng.standard_normal((N_ROWS, N_FEATURES)), np.arange(N_ROWS) % n_classes


def train_one_epoch(net, batches):
    steps = list(batches._fetched())
    with NoWaiting():
        batches._fetched = lambda: steps
        results = [net.step(batch) for batch in batches]
    assert len(results) == len(batches) > 1
    assert all(loss.device == scores.device == META for loss, scores in results)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", RANKERS)
def test_rankers_do_not_wait(on_meta, name):
    X, y = table(10)
    net, batches = on_meta(RANKERS[name], X, (y == 0).astype(int))
    train_one_epoch(net, batches)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", OF_CLASSES)
def test_classifiers_of_many_classes_do_not_wait(on_meta, name):
    train_one_epoch(*on_meta(OF_CLASSES[name], *table(6)))


@pytest.mark.parametrize("case", [c for c in CLASSES if not c.noised], ids=str)
def test_losses_do_not_wait(on_meta, case):
    counts = (
        {"class_counts": torch.empty(7, device=META)} if "class_counts" in case.parameters else {}
    )
    assert_does_not_wait(case, 7, **counts)


@pytest.mark.parametrize(
    ("loss", "n_classes", "parameters"),
    [
        (losses.noised_topk_loss, 400, {"k": 3, "sigma": 0.5}),
        (losses.noised_topk_loss, 9, {"k": 3, "sigma": 0.5, "n_noise": "exact"}),
        (losses.smooth_topk_loss, 5000, {"k": 3}),
        (losses.smooth_topk_loss, 8, {"k": 6}),
    ],
)
def test_losses_of_other_sizes_do_not_wait(on_meta, loss, n_classes, parameters):
    assert_does_not_wait(loss, n_classes, **parameters)


def assert_does_not_wait(loss, n_classes, **parameters):
    scores = torch.empty(16, n_classes, device=META, requires_grad=True)
    target = torch.empty(16, dtype=torch.long, device=META)
    weight = torch.empty(16, device=META)
    with NoWaiting():
        loss(scores, target, sample_weight=weight, **parameters).backward()
    assert scores.grad.device == META


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x[torch.arange(2)],
        lambda x: bool((x > 0).all()),
        lambda x: x.unique(),
        lambda x: x.repeat_interleave(x.long()),
    ],
)
def test_what_waits_is_refused(wait):
    with NoWaiting(), pytest.raises((RuntimeError, NotImplementedError, ValueError)):
        wait(torch.empty(3, device=META))
