"""With any value of a parameter, an estimator trains, or its error names the parameter."""

import contextlib
import copy
import io
import re
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch.callbacks import EpochScoring, LRScheduler
from torch import nn

import sktopk
from tests.rankers import RANKERS

X = np.random.default_rng(0).normal(size=(40, 3))
OF_FOUR = np.arange(40) % 4
OF_TWO = (OF_FOUR == 1).astype(int)
QUICK = {"n_estimators": 1, "hidden_layer_sizes": (), "max_epochs": 1, "device": "cpu"}
NETS = {type(clf).__name__: clf for clf in (sktopk.TopKClassifier(k=2), *RANKERS)}
# Two estimators stand for all networks in the tests of common parameters.
SHARED = sktopk.TopKClassifier().get_params().keys() & sktopk.AUCClassifier().get_params().keys()
ASKED_ALL = ("TopKClassifier", "DeepTopPushClassifier")
VALUES = {
    "a fraction": Fraction(1, 3), "a decimal": Decimal("0.3"), "a huge integer": 10**30,
    "beyond all floats": 10**400, "large": 1e30, "tiny": 1e-320, "zero": 0,
    "a negative fraction": -0.5, "NaN": np.nan, "complex": 1j, "float32": np.float32(0.5),
    "None": None, "True": True, "a word": "nonsense", "bytes": b"a", "an empty list": [],
    "a dict": {"a": 1}, "an array without dimensions": np.array(1.5),
    "an array of objects": np.array([None, 1], dtype=object),
    "a tensor with a gradient": torch.ones(3, requires_grad=True),
    "a class of callbacks": EpochScoring, "a function of one argument": lambda n: nn.Linear(n, 4),
}  # fmt: skip


def make(name, **params):
    return clone(NETS[name]).set_params(**QUICK | params)


def labels(name):
    return OF_FOUR if name == "TopKClassifier" else OF_TWO


def fit(estimator, y):
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        return estimator.fit(X, y)


def test_all_estimators_with_a_network_are_tested():
    trained = {name for name in sktopk.__all__ if hasattr(getattr(sktopk, name), "partial_fit")}
    assert trained == set(NETS)


def asked(name):
    parameters = make(name).get_params(deep=False).keys()
    return sorted(parameters if name in ASKED_ALL else parameters - SHARED)


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, parameter) for name in NETS for parameter in asked(name)]
)
def test_fit_with_any_value_of_a_parameter_works_or_the_error_names_the_parameter(
    name, parameter, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # some values are the names of files
    for case, value in VALUES.items():
        if parameter == "max_epochs" and isinstance(value, int) and value > 9:
            continue  # skip values that are allowed, but slow
        try:
            estimator = fit(make(name, **{parameter: value}), labels(name))
        except (OverflowError, TypeError, ValueError) as error:
            if parameter not in str(error):
                raise AssertionError(f"{parameter}={case}: {error!r}") from error
        else:
            # Scores may be infinite: a threshold that flags all samples or no sample is infinite.
            assert not np.isnan(estimator.decision_function(X)).any(), case


V, T = ValueError, TypeError
FOCAL, NOISED = {"loss": "focal"}, {"loss": "noised_topk"}
TOPK, PATMAT, PATMAT_NP = ("TopKClassifier",), ("PatMatClassifier",), ("PatMatNPClassifier",)
OF_FPR = ("RecallAtFPRClassifier",)
WRONG = {
    "k is a list": ({"k": [1, 3]}, T, r"or a dict {k: weight}; got \[1, 3\]", TOPK),
    "k is an empty dict": ({"k": {}}, V, "k must be a nonempty dict", TOPK),
    "k has a weight of 0": ({"k": {1: 0.0}}, V, "k must be.*positive weights", TOPK),
    "tau is a share of 1": ({"tau": 1.0}, V, "tau == 1.0, must be < 1", PATMAT + PATMAT_NP),
    "gamma is negative": ({**FOCAL, "loss_params": {"gamma": -1}}, V, "gamma=-1 must be finite"),
    "n_noise is 0": ({**NOISED, "loss_params": {"n_noise": 0}}, V, "n_noise=0 must be at least"),
    "a parameter of another loss": ({**FOCAL, "loss_params": {"margin": 1.0}}, V,
        r"loss_params must have keys from \['gamma'\] for loss='focal'; got \['margin'\]"),
    "a parameter of another ranker": ({"loss_params": {"tau": 0.1}}, V,
        "with the key 'fpr'.*got {'tau': 0.1}", OF_FPR),
    "fpr of the loss is 2": ({"loss_params": {"fpr": 2.0}}, V, "fpr == 2.0, must be < 1", OF_FPR),
    "loss_params is a number": ({"loss_params": 0.1}, V, "with the key 'tau'.*got 0.1", PATMAT),
    "pos_label is no label": ({"pos_label": "yes"}, V, r"one of \[0, 1\]; got 'yes'"),
    "pos_label is a list": ({"pos_label": [True]}, T, "pos_label must be a label or None; got"),
    "n_estimators is 1001": ({"n_estimators": 1001}, V, "n_estimators.* may also be 'auto'"),
    "n_estimators is a fraction": ({"n_estimators": 1.5}, T, "n_estimators.* may also be 'auto'"),
    "loss is unknown": ({"loss": "hinge"}, V, "loss must be one of.*'smooth_topk'.*got 'hinge'"),
    "loss of one argument": ({"loss": lambda scores: scores.sum()}, T,
        r"loss needs arguments \(scores, target\); got \(scores\)"),
    "module of three arguments as loss": ({"loss": nn.TripletMarginLoss()}, T,
        r"loss needs arguments \(scores, target\); got \(anchor: .*"),
    "weight decay of SGD": ({"weight_decay": 0.1, "net_params": {"optimizer": torch.optim.SGD}}, V,
        "weight_decay=0.1 is for AdamW only; .*=SGD: set net_params.'optimizer__weight_decay'"),
    "random_state is a generator": ({"random_state": np.random.default_rng(0)}, V,
        r"random_state must be.*got Generator.*np.random.RandomState\(generator.bit_generator\)"),
    "device is unknown": ({"device": "tpu9"}, V, "device.*'cpu'|device.*got 'tpu9'"),
    "device that is missing": ({"device": "xla"}, V, "^device='xla' cannot be used here .*: use"),
    "device without storage": ({"device": "meta"}, V, "device='meta' cannot be used"),
    "two callbacks of a name": ({"callbacks": [("a", LRScheduler())] * 2}, V,
        "callbacks must have unique names.*got 'a'"),
    "name of a callback of fit": ({"callbacks": [("validation", LRScheduler())]}, V,
        "callbacks must have unique names.*got 'validation'"),
    "misspelt callback": ({"net_params": {"callbacks__epoch_timr__x": 1}}, V, "got 'epoch_timr'"),
    "net_params sets lr": ({"net_params": {"lr": 1}}, V, "'lr': use learning_rate"),
    "net_params sets a loader": ({"net_params": {"iterator_train__shuffle": True}}, V,
        "iterator_train__shuffle.*sets minibatches.*num_workers"),
    "net_params is misspelt": ({"net_params": {"optimizer__beta": (0.9, 0.99)}}, T, "beta"),
    "an unknown precision": ({"net_params": {"precision": "fp8"}}, V, "precision must be.*'fp8'"),
    "module with lazy layers": ({"module": lambda n, m: nn.LazyLinear(m)}, V, "have lazy layers"),
    "module is an instance": ({"module": nn.Linear(3, 4)}, T, "module.*not an instance"),
    "module of one argument": ({"module": lambda n: nn.Linear(n, 4)}, T,
        r"module needs arguments \(n_features, n_outputs\); got \(n\)"),
    "module of a missing parameter": (
        {"module": lambda n, m: nn.Linear(n, m), "net_params": {"module__width": 3}}, T,
        r"module needs arguments \(n_features, n_outputs, width\); got \(n, m\)"),
    "module of the wrong width": ({"module": lambda n, m: nn.Linear(n, m + 1)}, V,
        r"module must return scores of shape \(n_samples, [148]\).*got shape \(2, [259]\)"),
    "module of the wrong input": ({"module": lambda n, m: nn.Linear(n + 1, m)}, V,
        r"module fails on samples of shape \(3,\)"),
}  # fmt: skip


@cache
def fitted(name):
    return fit(make(name), labels(name))


@pytest.mark.parametrize(
    ("name", "case"),
    [
        (name, case)
        for name in NETS
        for case, (params, _, _, *only) in WRONG.items()
        if params.keys() <= make(name).get_params(deep=False).keys()
        and (not only or name in only[0])
    ],
)
def test_a_wrong_parameter_raises_and_keeps_the_earlier_fit(name, case):
    params, error, says, *_ = WRONG[case]
    estimator = copy.deepcopy(fitted(name))
    with pytest.raises(error) as caught:
        fit(estimator.set_params(**params), labels(name))
    assert re.search(says, str(caught.value), re.DOTALL), caught.value
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(estimator.decision_function(X), fitted(name).decision_function(X))


def test_the_weight_decay_of_another_optimizer_is_set_in_net_params():
    sgd = {"optimizer": torch.optim.SGD, "optimizer__weight_decay": 0.1}
    clf = fit(make("TopKClassifier", net_params=sgd), OF_FOUR)
    assert [group["weight_decay"] for group in clf.net_.optimizer_.param_groups] == [0.1]


def test_parameters_that_do_not_exist_raise():
    with pytest.raises(ValueError, match="Invalid parameter 'learning_speed'"):
        make("TopKClassifier").set_params(learning_speed=1)
    with pytest.raises(ValueError, match=r"loss_params of AUCClassifier must be None or \{\}; got"):
        make("AUCClassifier").set_params(loss__tau=1).fit(X, labels("AUCClassifier"))
    make("AUCClassifier", loss_params={}).fit(X, labels("AUCClassifier"))


@pytest.mark.parametrize(
    ("name", "k"), [("TopKClassifier", 3), ("TopPushKClassifier", 30), ("RecallAtKClassifier", 40)]
)
def test_a_k_that_is_too_large_is_clipped_with_one_warning(name, k):
    with pytest.warns(UserWarning, match="k=1000000000000 must be") as record:
        clf = make(name, k=10**12).fit(X, labels(name))
    assert len([each for each in record if "k=1" in str(each.message)]) == 1
    assert clf.k_ == k
    if name == "TopKClassifier":
        with pytest.warns(UserWarning, match="loss__k=4 must be smaller than n_classes=4: 3 is"):
            make(name, loss_params={"k": 4}).fit(X, labels(name))


def test_a_logit_adjusted_loss_with_balanced_class_weight_gives_a_warning():
    with pytest.warns(UserWarning, match="both adjust for class frequencies"):
        make("TopKClassifier", loss="logit_adjusted", class_weight="balanced").fit(X, OF_FOUR)


IGNORED = {
    "sigma of a smooth loss": ("smooth_topk", {"sigma": 0.5}, "sigma=0.5"),
    "tau of a noised loss": ("noised_topk", {"tau": 0.5}, "tau=0.5"),
    "tau of a function": (sktopk.losses.topk_hinge_loss, {"tau": 0.5}, "tau=0.5"),
    "tau of a module": (sktopk.losses.SmoothTopKLoss(k=2), {"tau": 0.5}, "tau=0.5"),
    "own parameters": ("smooth_topk", {"tau": 0.5}, None),
    "defaults": ("focal", {}, None),
}


@pytest.mark.parametrize("case", IGNORED)
def test_a_parameter_that_the_loss_ignores_gives_one_warning_per_fit(case):
    loss, params, says = IGNORED[case]
    clf = make("TopKClassifier", loss=loss, n_estimators=2, **params)
    for _ in range(2):
        with warnings.catch_warnings(record=True, action="always") as record:
            clf.fit(X, OF_FOUR)
        said = [str(each.message) for each in record if "is ignored" in str(each.message)]
        assert len(said) == (says is not None)
        assert all(each.startswith(f"{says} is ignored: ") and "loss" in each for each in said)
