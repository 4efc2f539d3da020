"""One step of an estimator is one step of gradient descent on the public loss."""

import copy
import inspect
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch.callbacks import Callback
from torch import nn

import sktopk
from sktopk import AUCClassifier, FScoreClassifier, RecallAtPrecisionClassifier, TopKClassifier
from sktopk import losses as L
from sktopk.losses._cross_entropy import cross_entropy_loss
from sktopk.losses._loss import reduce
from sktopk.losses._mixtures import topk_distribution_loss
from sktopk.modules import MLP, TabularMLP
from tests.losses.cases import function_called
from tests.named_losses import NAMED_LOSSES

RATE, K = 0.1, 2
SET = {"k": K, "tau": 0.7, "sigma": 0.0}
rng = np.random.default_rng(0)
X = rng.standard_normal((90, 4))
Y = (X @ rng.standard_normal((4, 5)) + rng.standard_normal((90, 5))).argmax(1)
POSITIVE = (X[:, 0] + rng.standard_normal(90) > 0.8).astype(int)
WEIGHT = rng.uniform(0.2, 3.0, 90)


class Start(Callback):
    def on_train_begin(self, net, **kwargs):
        self.module = copy.deepcopy(net.module_)


class Gradients(Start):
    """Copies the network before the training, and sums the gradients of all minibatches."""

    def on_grad_computed(self, net, named_parameters, **kwargs):
        for own, (_, parameter) in zip(self.module.parameters(), named_parameters, strict=True):
            own.grad = parameter.grad + (0 if own.grad is None else own.grad)


def assert_step(clf, loss, y=Y, weight=None, share=0.0, **given):
    """Check that each network takes one step of SGD on `loss(scores, target, weight)`."""
    start = Start()
    clf = clone(clf).set_params(
        log_loss_share=share, learning_rate=RATE, batch_size=len(y), random_state=0,
        callbacks=[start], net_params={"optimizer": torch.optim.SGD}, calibration=None,
        n_iter_no_change=None, hidden_layer_sizes=(5,),
    )  # fmt: skip
    # `partial_fit` trains at a constant learning rate, unlike `fit`.
    clf.partial_fit(X, y, sample_weight=weight, **given)
    scores = start.module(torch.from_numpy(X))
    scores = scores.unsqueeze(1) if clf.n_estimators == 1 else scores
    target = torch.from_numpy(y)
    weight = None if weight is None else torch.from_numpy(weight)
    values = torch.stack([loss(scores[:, m], target, weight) for m in range(scores.shape[1])])
    values.sum().backward()
    assert clf.history_[0]["train_loss"] == pytest.approx(values.mean().item(), rel=1e-9)
    moved = 0.0
    for before, after in zip(start.module.parameters(), clf.net_.module_.parameters(), strict=True):
        torch.testing.assert_close(after, before - RATE * before.grad, rtol=1e-9, atol=1e-12)
        moved += float(before.grad.abs().sum())
    assert moved > 0


def assert_steps(clf, loss, y=Y, share=0.0):
    """Check steps of a single network and of an ensemble, without and with weights."""
    for network, weight in product(NETWORKS, (None, WEIGHT)):
        assert_step(clone(clf).set_params(**network), loss, y, weight, share)


def named(name, **params):
    def loss(scores, target, weight):
        function = function_called(f"{name}_loss")
        takes = inspect.signature(function).parameters
        # Only in losses with k, `tau` is a temperature. Other losses keep their default.
        more = {p: v for p, v in SET.items() if p in takes and (p != "tau" or "k" in takes)}
        if "class_counts" in takes:
            # Weights need no mean of 1 here, because only the ratios of class counts matter.
            more["class_counts"] = torch.bincount(target, weight)
        return function(scores, target, sample_weight=weight, **more | params)

    return loss


NETWORKS = [{"module": MLP, "n_estimators": 1}, {"module": TabularMLP, "n_estimators": 3}]
SCALES = {"ldam": 30.0, "noised_topk_imbalanced": 50.0}


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", NAMED_LOSSES)
def test_steps_mix_the_loss_with_a_share_of_cross_entropy_of_the_same_scores(name, share):
    def loss(scores, target, weight):
        logits = SCALES.get(name, 1.0) * scores
        if name in {"logit_adjusted", "smooth_topk_adjusted"}:
            counts = torch.bincount(target, weight).double()
            logits = logits + (counts / counts.sum()).log()
        other = cross_entropy_loss(logits, target, label_smoothing=0.1, sample_weight=weight)
        return (1 - share) * named(name)(scores, target, weight) + share * other

    assert_steps(TopKClassifier(name, **SET), loss, share=share)


@pytest.mark.parametrize("name", ["smooth_topk", "topk_hinge"])
def test_gradients_of_the_minibatches_average_to_the_gradient_of_all_samples(name):
    start = Gradients()
    clf = TopKClassifier(
        name, k=K, tau=0.7, module=MLP, n_estimators=1, batch_size=45,
        callbacks=[start], learning_rate=1e-12, log_loss_share=0, hidden_layer_sizes=(5,),
        net_params={"optimizer": torch.optim.SGD}, calibration=None, random_state=0,
    ).partial_fit(X, Y, sample_weight=WEIGHT)  # fmt: skip
    module = copy.deepcopy(start.module).double()
    module.zero_grad()
    scores, weight = module(torch.from_numpy(X)), torch.from_numpy(WEIGHT)
    value = named(name)(scores, torch.from_numpy(Y), weight)
    value.backward()
    assert clf.history_[0]["train_loss"] == pytest.approx(value.item(), rel=1e-5)
    for found, expected in zip(start.module.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(found.grad.double(), 2 * expected.grad, rtol=1e-4, atol=1e-6)


def test_a_step_with_a_class_weight_of_0_is_a_step_on_the_mean_loss_of_the_other_samples():
    def loss(scores, target, weight):
        return named("smooth_topk")(scores, target, (target != 0).double())

    clf = TopKClassifier("smooth_topk", **SET, module=MLP, n_estimators=1)
    assert_step(clf.set_params(class_weight={c: min(c, 1) for c in np.unique(Y).tolist()}), loss)


def test_a_step_with_several_k_is_a_step_on_their_weighted_loss():
    def loss(scores, target, weight):
        return topk_distribution_loss(scores, target, loss=L.smooth_topk_loss, **params)

    params = {"k": {1: 0.3, 3: 0.7}, "tau": 0.7}
    assert_step(TopKClassifier(**params, module=MLP, n_estimators=1), loss)


OWN = {
    "cross_entropy": {"label_smoothing": 0.2}, "smooth_topk": {"margin": 3.0},
    "topk_hinge": {"scaled": False}, "noised_topk_imbalanced": {"max_margin": 0.7, "scale": 9.0},
    "focal": {"gamma": 0.5}, "ldam": {"max_margin": 0.7, "scale": 9.0},
    "logit_adjusted": {"tau": 2.0}, "topk_transition": {"detach_weight": True},
}  # fmt: skip


def test_parameters_that_the_estimator_lacks_are_passed_to_the_loss():
    for name, own in OWN.items():
        clf = TopKClassifier(name, **SET, module=MLP, n_estimators=1)
        clf.set_params(**{f"loss__{key}": value for key, value in own.items()})
        assert clf.loss_params == own
        assert_step(clf, named(name, **own))


class Squares(nn.Module):
    def forward(self, scores, target, sample_weight=None):
        each = (scores.softmax(1) - nn.functional.one_hot(target, 5)).square().sum(1)
        return each.mean() if sample_weight is None else (each * sample_weight).mean()


OF_CLASS = torch.tensor([0.1, 5.0, 1.0, 2.0, 0.7], dtype=torch.float64)


def with_class_weights(scores, target, weight):
    of_sample = OF_CLASS[target] * (1 if weight is None else torch.as_tensor(weight))
    return cross_entropy_loss(scores, target, sample_weight=of_sample)


MODULES = {
    "torch's": (nn.CrossEntropyLoss(), named("cross_entropy")),
    "torch's with class weights": (nn.CrossEntropyLoss(OF_CLASS), with_class_weights),
    "torch's with a margin": (nn.MultiMarginLoss(),
        lambda s, y, w: reduce(nn.functional.multi_margin_loss(s, y, reduction="none"), w)),
    "the user's": (Squares(), lambda s, y, w: Squares()(s, y, None if w is None else w / w.mean())),
    "ours": (L.SmoothTopKLoss(k=K, tau=0.7), named("smooth_topk")),
    "ours of the batch": (L.PairwiseAUCLoss(),
        lambda s, y, w: L.pairwise_auc_loss(s, y, sample_weight=w)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_steps_with_a_module_as_loss_are_steps_on_its_function(name):
    module, loss = MODULES[name]
    assert_steps(TopKClassifier(module, k=K), loss)


def top(function, **params):
    def loss(scores, target, weight, **more):
        return function(scores.flatten(), target, sample_weight=weight, **params, **more)

    return loss


def middle(scores, positive, weight=None):
    return scores.mean() if weight is None else (scores * weight).sum() / weight.sum()


ALARMS, BOTH = "false_positives", {"false_positives": 0.2, "false_negatives": 0.8}
FIFTH = L.KthLargest("all", k=5)
RANKERS = {
    "DeepTopPush": (sktopk.DeepTopPushClassifier(), top(L.top_push_loss)),
    "DeepTopPush hinge": (
        sktopk.DeepTopPushClassifier(surrogate="hinge", buffer_size=0),
        top(L.top_push_loss, surrogate="hinge")),
    "TopPushK": (sktopk.TopPushKClassifier(k=4), top(L.top_push_k_loss, k=4)),
    "RecallAtK": (sktopk.RecallAtKClassifier(k=9), top(L.recall_at_k_loss, k=9)),
    "RecallAtK share": (sktopk.RecallAtKClassifier(k=0.1), top(L.pat_mat_loss, tau=0.1)),
    "PatMat": (sktopk.PatMatClassifier(tau=0.1), top(L.pat_mat_loss, tau=0.1)),
    "PatMat logistic": (
        sktopk.PatMatClassifier(tau=0.1, surrogate="logistic"),
        top(L.pat_mat_loss, tau=0.1, surrogate="logistic")),
    "PatMatNP": (sktopk.PatMatNPClassifier(tau=0.1), top(L.pat_mat_np_loss, tau=0.1)),
    "RecallAtFPR": (sktopk.RecallAtFPRClassifier(fpr=0.1), top(L.recall_at_fpr_loss, fpr=0.1)),
    "PrecisionAtRecall": (
        sktopk.PrecisionAtRecallClassifier(recall=0.7),
        top(L.precision_at_recall_loss, recall=0.7)),
    "Threshold": (
        sktopk.ThresholdClassifier(L.TopMean("negatives", k=4), ALARMS),
        top(L.accuracy_at_top_loss, threshold=L.TopMean("negatives", k=4), errors=ALARMS)),
    "Threshold, both errors": (
        sktopk.ThresholdClassifier(FIFTH, BOTH),
        top(L.accuracy_at_top_loss, threshold=FIFTH, errors=BOTH)),
    "Threshold of the user": (
        sktopk.ThresholdClassifier(middle), top(L.accuracy_at_top_loss, threshold=middle)),
    "AUC hinge": (AUCClassifier("hinge"), top(L.pairwise_auc_loss, surrogate="hinge")),
    "AUC ramp": (AUCClassifier("ramp"), top(L.pairwise_auc_loss, surrogate="ramp")),
    "FScore": (FScoreClassifier(beta=2.0, margin=0.5), top(L.fbeta_loss, beta=2.0, margin=0.5)),
    "RecallAtPrecision": (
        RecallAtPrecisionClassifier(precision=0.6), top(L.recall_at_precision_loss, precision=0.6)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "logits"),
    [
        (L.LDAMLoss(np.bincount(Y), scale=9.0), lambda scores, prior: 9 * scores),
        (L.LogitAdjustedLoss(np.bincount(Y), tau=2.0), lambda scores, prior: scores + 2 * prior),
    ],
    ids=["ldam", "logit_adjusted"],
)
def test_the_mixed_in_cross_entropy_uses_the_parameters_of_the_loss_module(module, logits):
    prior = torch.from_numpy(np.bincount(Y) / len(Y)).log()

    def loss(scores, target, weight):
        other = cross_entropy_loss(logits(scores, prior), target, label_smoothing=0.1)
        return 0.7 * module(scores, target) + 0.3 * other

    assert_step(TopKClassifier(module, k=K, module=MLP, n_estimators=1), loss, share=0.3)


def test_the_loss_of_a_ranker_with_groups_is_the_mean_over_the_groups():
    groups = np.arange(90) % 4
    for name in RANKERS.keys() - {"Threshold of the user"}:
        clf, loss = RANKERS[name]
        grouped = partial(loss, groups=torch.from_numpy(groups))
        clf = clone(clf).set_params(n_estimators=1, module=MLP)
        assert_step(clf, grouped, POSITIVE, groups=groups)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("name", RANKERS)
def test_steps_of_a_ranker_mix_its_loss_with_a_share_of_cross_entropy(name, share):
    clf, named_loss = RANKERS[name]

    def loss(scores, target, weight):
        own = torch.ones(len(target)).double() if weight is None else weight
        other = nn.functional.binary_cross_entropy_with_logits(
            scores.flatten(), target.to(scores.dtype), own / own.sum(), reduction="sum"
        )
        return (1 - share) * named_loss(scores, target, weight) + share * other

    assert_steps(clf, loss, POSITIVE, share)


def test_the_default_network_is_tabular_mlp():
    clf = TopKClassifier(k=K, max_epochs=1, n_estimators=2, hidden_layer_sizes=(6, 4)).fit(X, Y)
    assert type(clf.net_.module_) is TabularMLP
    sizes = [tuple(layer.weight.shape[::2]) for layer in clf.net_.module_.layers[1:]]
    assert sizes == [(2, 6), (2, 4)]
