"""Wrong networks, losses and callbacks of a user raise errors or give warnings."""

import warnings

import joblib
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from skorch.callbacks import Callback
from torch import nn

from sktopk import DeepTopPushClassifier, FScoreClassifier, TopKClassifier
from sktopk.modules import NormalizedLinear
from tests.test_parameters import OF_FOUR, OF_TWO, X

QUICK = {"n_estimators": 1, "hidden_layer_sizes": (), "max_epochs": 1, "random_state": 0}
ESTIMATORS = {"labels": (TopKClassifier, OF_FOUR), "rankings": (DeepTopPushClassifier, OF_TWO)}


class Failed(Exception):
    pass


def fail(*args, **kwargs):
    raise Failed("on purpose")


class Wrong(nn.Module):
    def __init__(self, n_features, n_outputs, what):
        super().__init__()
        self.layer, self.what = nn.Linear(n_features, n_outputs), what

    def forward(self, x):
        return self.what(self, x, self.layer(x))


def fit(kind, **params):
    cls, y = ESTIMATORS[kind]
    k = {"k": 2} if kind == "labels" else {}
    with warnings.catch_warnings(action="ignore"):
        return cls(**QUICK | k | params).fit(X, y)


def of(what, **params):
    return {"module": Wrong, "net_params": {"module__what": what}} | params


MODULES = {
    "a tuple": (lambda net, x, s: (s, s), TypeError, "module must return a Tensor.*got tuple"),
    "whole numbers": (lambda net, x, s: s.long(), TypeError, "module must.*Tensor of torch.int64"),
    "no gradient": (lambda net, x, s: s.detach(), ValueError, "module must return.*a gradient"),
    "one axis more": (lambda net, x, s: s.unsqueeze(2), ValueError, "module must return scores of"),
    "a sample less": (lambda net, x, s: s[1:], ValueError, r"module must return.*got shape \(1, "),
    "a sample less in training": (lambda net, x, s: s[net.training * 1 :], ValueError,
        r"module must return \d scores per sample also in train mode; got shape"),
    "NaN": (lambda net, x, s: s * torch.nan, ValueError, "Training diverged.*epoch 1"),
    "NaN in training": (lambda net, x, s: s * (torch.nan if net.training else 1), ValueError,
        "Training diverged.*epoch 1"),
    "an error": (fail, Failed, "on purpose"),
    "an error in training": (lambda net, x, s: fail() if net.training else s, Failed, "on purpose"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("case", MODULES)
def test_an_invalid_output_or_an_error_of_the_network_raises(kind, case):
    what, error, says = MODULES[case]
    with pytest.raises(error, match=says):
        fit(kind, **of(what))


IN_PLACE = {
    "its input": lambda net, x, s: net.layer(x.mul_(0.5).add_(1)),
    "a first layer": lambda net, x, s: net.layer(x.relu_()),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_modules_that_work_in_place_do_not_change_the_samples(case):
    for cls, y in (*ESTIMATORS.values(), (FScoreClassifier, OF_TWO)):
        for batch_size in (16, 40):
            clf = cls(**QUICK | of(IN_PLACE[case], batch_size=batch_size, max_epochs=2))
            before = joblib.hash(X)
            with warnings.catch_warnings(action="ignore"):
                clf.fit(X, y, X_val=X, y_val=y)
            scores = clf.decision_function(csr_array(X))
            np.testing.assert_array_equal(clf.decision_function(X), scores)
            assert joblib.hash(X) == before


class WrongLoss(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, scores, target, sample_weight=None):
        return self.value(nn.functional.cross_entropy(scores, target))


LOSSES = {
    "None": (lambda loss: None, TypeError, "loss must return a Tensor.*got NoneType from Wrong"),
    "a number": (lambda loss: 1.0, TypeError, "loss must return a Tensor.*got float from Wrong"),
    "no gradient": (torch.detach, TypeError, "loss must return a Tensor with gradient"),
    "NaN": (lambda loss: loss * torch.nan, ValueError, "Training diverged: the loss is nan in min"),
    "an error": (fail, Failed, "on purpose"),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSSES)
def test_an_invalid_return_value_or_an_error_of_the_loss_raises(case):
    value, error, says = LOSSES[case]
    with pytest.raises(error, match=says):
        fit("labels", loss=WrongLoss(value), calibration=None)


def unweighted(scores, target):
    return scores.mean()


def test_a_loss_that_takes_no_weights_raises_only_if_weights_are_given():
    clf = TopKClassifier(unweighted, k=2, **QUICK | {"calibration": None})
    with pytest.raises(TypeError, match=r"sample_weight.*need a loss.*unweighted"):
        clf.fit(X, OF_FOUR, sample_weight=np.arange(40) + 1.0)
    # Minibatches contain no held-out samples, so these need no weight of 0.
    clf.set_params(n_estimators=2, calibration="temperature").fit(X, OF_FOUR)
    assert clf.oob_decision_function_.shape == (40, 4)


HOOKS = "train_begin epoch_begin batch_begin grad_computed batch_end epoch_end train_end".split()


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("hook", HOOKS)
def test_callbacks_that_raise_do_not_change_the_earlier_fit(kind, hook):
    cls, y = ESTIMATORS[kind]
    callback, clf = type("Raising", (Callback,), {f"on_{hook}": fail})(), cls(**QUICK)
    with pytest.raises(Failed):
        clf.set_params(callbacks=[callback]).fit(X, y)
    assert not [name for name in vars(clf) if name.endswith("_")]
    scores = clf.set_params(callbacks=None).fit(X, y).decision_function(X)
    with pytest.raises(Failed):
        clf.set_params(callbacks=[callback]).fit(X[:, :2], y)
    np.testing.assert_array_equal(clf.decision_function(X), scores)


DIVERGING = {
    "a learning rate": ({"learning_rate": 1e30}, r"lower learning_rate \(now 1e\+30\)"),
    "a weight decay": ({"weight_decay": 1e30, "hidden_layer_sizes": (4,)},
        r"lower weight_decay \(now 1e\+30\)"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("case", DIVERGING)
def test_the_error_after_a_diverged_training_names_what_is_too_large(case, kind, dtype):
    (params, says), (cls, y) = DIVERGING[case], ESTIMATORS[kind]
    with pytest.raises(ValueError, match=f"Training diverged: .*epoch [123].*{says}"):
        cls(**QUICK | {"max_epochs": 3} | params).fit(X.astype(dtype), y)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_output_layer_has_no_weight_decay(kind):
    (cls, y), scores = ESTIMATORS[kind], []
    for weight_decay in (0.0, 1e3):
        clf = cls(**QUICK | {"max_epochs": 3, "weight_decay": weight_decay}).fit(X, y)
        scores.append(clf.decision_function(X))
    np.testing.assert_array_equal(*scores)


ENDS = {
    "a softmax": (nn.Softmax(1), "smooth_topk", True),
    "a softmax in an ensemble": (nn.Softmax(1), nn.CrossEntropyLoss(), True),
    "a log-softmax": (nn.LogSoftmax(1), "smooth_topk", False),
    "nothing": (nn.Identity(), "cross_entropy", False),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_network_that_ends_in_a_softmax_gives_a_warning(case):
    last, loss, is_said = ENDS[case]
    params = {"k": 2, "loss": loss, "calibration": None}
    params["n_estimators"] = 2 if "ensemble" in case else 1
    with warnings.catch_warnings(record=True, action="always") as record:
        clf = TopKClassifier(**QUICK | params)
        clf.set_params(module=lambda n, m: nn.Sequential(nn.Linear(n, m), last))
        clf.fit(X, OF_FOUR)
    said = [each for each in record if "seems to return probabilities" in str(each.message)]
    assert len(said) == is_said
    assert all(each.filename == __file__ for each in said)


def small_linear(n_features, n_outputs):
    layer = nn.Linear(n_features, n_outputs)
    layer.weight.data.mul_(0.01)
    return layer


BOUNDED = {
    "a linear output": (nn.Linear, False),
    "NormalizedLinear": (NormalizedLinear, True),
    "a hidden layer and NormalizedLinear": (
        lambda n, m: nn.Sequential(nn.Linear(n, 5), nn.ReLU(), NormalizedLinear(5, m)), True),
    # Scores are in [-1, 1] at first, but can leave this range in the training.
    "a small linear output": (small_linear, False),
}  # fmt: skip


@pytest.mark.parametrize("case", BOUNDED)
@pytest.mark.parametrize("loss", ["ldam", "noised_topk_imbalanced"])
def test_losses_of_cosines_raise_for_networks_that_do_not_return_cosines(loss, case):
    module, is_bounded = BOUNDED[case]
    if is_bounded:
        scores = fit("labels", loss=loss, module=module).decision_function(X)
        assert np.abs(scores).max() <= 1 + 1e-6
        return
    with pytest.raises(ValueError, match=f"module must return cosines for loss='{loss}'"):
        fit("labels", loss=loss, module=module)
    fit("labels", loss="focal", module=module)


N_CLASSES = 5


class Masked(nn.Linear):
    def forward(self, x):
        scores = super().forward(x)
        first = torch.arange(scores.shape[1]) % N_CLASSES == 0
        return scores.masked_fill(first & (x[:, :1] <= 0), -torch.inf)


@pytest.mark.parametrize(
    "loss",
    ["cross_entropy", "smooth_topk", "topk_hinge_convex", "topk_grouping", "focal", "noised_topk"],
)
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_network_that_masks_classes_is_trained(loss, share, rng):
    X = rng.standard_normal((300, 4)).astype(np.float32)
    X[:, 0] = np.repeat([-1, 1], 150)
    utility = X @ rng.standard_normal((4, N_CLASSES))
    utility[:150, 0] = -np.inf
    y = utility.argmax(1)
    clf = TopKClassifier(loss, k=2, log_loss_share=share, module=Masked, random_state=0)
    clf.set_params(max_epochs=10, n_estimators=2).fit(X, y)
    proba = clf.predict_proba(X)
    assert (proba[:150, 0] == 0).all()
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert (clf.predict_topk(X[:150]) != 0).all()
    assert clf.score(X, y) > 0.8


def test_a_loss_of_weighted_samples_has_to_return_their_mean():
    def each(scores, target, sample_weight=None):
        values = nn.functional.cross_entropy(scores, target, reduction="none")
        return values if sample_weight is None else values * sample_weight

    clf = TopKClassifier(each, k=1, **QUICK).fit(X, OF_FOUR)
    with pytest.raises(TypeError, match=r"the weighted mean, a scalar.* shape \(\d+,\)"):
        clf.fit(X, OF_FOUR, sample_weight=1.0 + OF_FOUR)


@pytest.mark.parametrize("kind", ["class", "function"])
def test_copies_are_trained_if_the_built_networks_share_a_layer(kind):
    shared = nn.Linear(3, 4)
    shared.register_buffer("angle", torch.tensor(1j))
    before = shared.weight.detach().clone()

    class Network(nn.Sequential):
        def __init__(self, n_features, n_outputs):
            super().__init__(shared)

    module = Network if kind == "class" else lambda *sizes: nn.Sequential(shared)
    members = fit("labels", module=module, n_estimators=2).net_.module_
    assert torch.equal(shared.weight, before)
    assert not torch.equal(members[0][0].weight, members[1][0].weight)
    assert members[0][0].angle == 1j


def test_accuracy_no_better_than_random_gives_a_warning():
    params = {"log_loss_share": 0, "n_estimators": 1, "calibration": None, "learning_rate": 1e-9}
    with pytest.warns(UserWarning, match=r"top-2 accuracy in training .* random labels"):
        TopKClassifier("topk_hinge_calibrated", k=2, **QUICK | params).fit(X, OF_FOUR)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_network_that_ends_in_a_sigmoid_gives_a_warning(kind):
    cls, y = ESTIMATORS[kind]
    with pytest.warns(UserWarning, match=r"scores in \[0, 1\], as after a sigmoid: remove this"):
        cls(**QUICK | of(lambda net, x, s: s.sigmoid())).fit(X, y)
