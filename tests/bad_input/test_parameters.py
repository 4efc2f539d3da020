"""Wrong parameters are refused before any training, by every estimator that has them."""

import numpy as np
import pytest
import torch
from skorch.callbacks import EpochScoring, LRScheduler
from torch import nn

from tests.bad_input.refusals import NETS, Row, X, assert_refused, fitted, labels, make

V, T = ValueError, TypeError
TOPK = ("TopKClassifier",)
FOCAL, NOISED = {"loss": "focal"}, {"loss": "noised_topk"}
# Where `precision` is a rate, the dtype is `autocast`.
WITH_PRECISION = tuple(name for name in NETS if name != "RecallAtPrecisionClassifier")

ROWS = {
    "k is 0": Row({"k": 0}, V, "k == 0, must be >= 1"),
    "k is negative": Row({"k": -3}, V, "k == -3, must be >= 1"),
    "k is a float": Row({"k": 2.5}, T, "k must be an instance of int"),
    "k is a bool": Row({"k": True}, T, "k must be an integer; got True"),
    "k is a string": Row({"k": "3"}, T, "k must be an instance of int"),
    "k is None": Row({"k": None}, T, "k must be an instance of int"),
    "k is a list": Row({"k": [1]}, T, "k must be an instance of int"),
    "k is NaN": Row({"k": np.nan}, T, "k must be an instance of int"),
    "k is an empty dict": Row({"k": {}}, V, "k must have at least one k", TOPK),
    "k has a weight of 0": Row({"k": {1: 0.0}}, V, "k must have.*positive weight", TOPK),
    "k has a fraction as key": Row({"k": {1.5: 1.0}}, T, "k must be an instance of int", TOPK),
    "tau is 0": Row({"tau": 0.0}, V, "tau == 0.0, must be > 0"),
    "tau is negative": Row({"tau": -1.0}, V, "tau == -1.0, must be > 0"),
    "tau is NaN": Row({"tau": np.nan}, V, "tau must be finite; got nan"),
    "tau is infinite": Row({"tau": np.inf}, V, "tau must be finite; got inf|tau == inf"),
    "tau is None": Row({"tau": None}, T, "tau must be an instance of float"),
    "tau is a bool": Row({"tau": True}, T, "tau must be a number; got True"),
    "tau is a share of 1": Row(
        {"tau": 1.0}, V, "tau == 1.0, must be < 1", ("PatMatClassifier", "PatMatNPClassifier")
    ),
    "tau is a number of rows": Row(
        {"tau": 200}, V, r"the k of RecallAtKClassifier\(k=200\)", ("PatMatClassifier",)
    ),
    "tau is a number of negatives": Row(
        {"tau": 5}, V, r"the k of TopPushKClassifier\(k=5\)", ("PatMatNPClassifier",)
    ),
    "sigma is negative": Row({"sigma": -0.1}, V, "sigma == -0.1, must be >= 0"),
    "margin is negative": Row({"margin": -1}, V, "margin == -1, must be >"),
    "margin is a string": Row({"margin": "1"}, T, "margin must be an instance of float"),
    "gamma is negative": Row({**FOCAL, "loss_params": {"gamma": -1}}, V, "gamma=-1 must be finite"),
    "n_noise is 0": Row({**NOISED, "loss_params": {"n_noise": 0}}, V, "n_noise=0 must be at least"),
    "n_noise is unknown": Row(
        {**NOISED, "loss_params": {"n_noise": "all"}},
        T,
        "n_noise must be an integer or .exact.; got 'all'",
    ),
    "max_margin is negative": Row(
        {"loss": "ldam", "loss_params": {"max_margin": -1}}, V, "max_margin=-1 must be finite"
    ),
    "scale is 0": Row({"loss": "ldam", "loss_params": {"scale": 0.0}}, V, "scale=0 must be finite"),
    "margin of a loss": Row({"loss_params": {"margin": -1}}, V, "margin=-1 must be finite"),
    "a parameter of another loss": Row(
        {**FOCAL, "loss_params": {"margin": 1.0}},
        V,
        r"loss_params must be parameters of loss='focal', which has 'gamma'; got \['margin'\]",
    ),
    "a parameter of a loss without": Row(
        {"loss": "topk_grouping", "loss_params": {"gamma": 1.0}}, V, "which has none; got"
    ),
    "loss_params for a choice": Row(
        {"loss": "auto", "loss_params": {"gamma": 1.0}}, V, "loss_params must be None for loss=auto"
    ),
    "loss_params for a module": Row(
        {"loss": nn.CrossEntropyLoss(), "loss_params": {"gamma": 1.0}},
        V,
        "loss_params must be None for loss=CrossEntropyLoss",
    ),
    "loss_params is a list": Row({"loss_params": ["gamma"]}, T, "loss_params must be a dict"),
    "fpr is 0": Row({"fpr": 0.0}, V, "fpr == 0.0, must be > 0"),
    "fpr is 1": Row({"fpr": 1.0}, V, "fpr == 1.0, must be < 1"),
    "recall is 0": Row({"recall": 0}, V, "recall == 0, must be > 0"),
    "recall above 1": Row({"recall": 1.1}, V, "recall == 1.1, must be <= 1"),
    "precision is 0": Row(
        {"precision": 0.0}, V, "precision == 0.0, must be > 0", ("RecallAtPrecisionClassifier",)
    ),
    "beta is 0": Row({"beta": 0}, V, "beta == 0, must be > 0"),
    "surrogate is unknown": Row({"surrogate": "step"}, V, "surrogate must be one of.*got 'step'"),
    "surrogate is a function": Row({"surrogate": len}, V, "surrogate must be one of.*got <built"),
    "buffer_size is negative": Row({"buffer_size": -1}, V, "buffer_size == -1, must be >= 0"),
    "buffer_size is a word": Row(
        {"buffer_size": "all"}, T, "buffer_size must be an instance of int.* may also be 'auto'"
    ),
    "buffer_size is a float": Row({"buffer_size": 1.0}, T, "buffer_size must be an instance"),
    "multi_class is unknown": Row({"multi_class": "ova"}, V, "multi_class must be one of.*'ova'"),
    "min_positives is negative": Row({"min_positives": -1}, V, "min_positives == -1, must be >="),
    "min_positives fill the batch": Row(
        {"min_positives": 8, "batch_size": 8}, V, "min_positives=8 must be smaller.*batch_size=8"
    ),
    "score_scale is unknown": Row(
        {"score_scale": "big"}, T, "score_scale must be an.*float.*; got 'big'. .* also be 'auto'"
    ),
    "score_scale is 0": Row({"score_scale": 0}, V, "score_scale == 0, must be > 0"),
    "loss is unknown": Row({"loss": "hinge"}, V, "loss.*'smooth_topk'.*got 'hinge'"),
    "loss is a number": Row({"loss": 3}, T, "loss.*nn.Module.*got 3"),
    "loss is an array": Row({"loss": np.array(["focal"])}, T, "loss.*nn.Module.*got array"),
    "loss is a class": Row({"loss": nn.CrossEntropyLoss}, T, "loss.*nn.Module.*got <class"),
    "learning_rate is 0": Row({"learning_rate": 0}, V, "learning_rate == 0, must be > 0"),
    "learning_rate is NaN": Row({"learning_rate": np.nan}, V, "learning_rate must be finite"),
    "learning_rate is a string": Row({"learning_rate": "1e-3"}, T, "learning_rate must be .*auto"),
    "weight_decay is negative": Row({"weight_decay": -1}, V, "weight_decay == -1"),
    "batch_size is 0": Row({"batch_size": 0}, V, "batch_size == 0, must be >= 1"),
    "batch_size is unknown": Row({"batch_size": "all"}, T, "batch_size.*'all'.*'auto'"),
    "batch_size is a float": Row({"batch_size": 8.0}, T, "batch_size must be an instance of int"),
    "max_epochs is 0": Row({"max_epochs": 0}, V, "max_epochs == 0, must be >= 1"),
    "max_epochs is infinite": Row({"max_epochs": np.inf}, T, "max_epochs must be an instance"),
    "tol is negative": Row({"tol": -1}, V, "tol == -1, must be >= 0"),
    "patience is 0": Row({"n_iter_no_change": 0}, V, "n_iter_no_change == 0"),
    "everything held out": Row({"validation_fraction": 1.0}, V, "validation_fraction == 1.0"),
    "early_stopping is a number": Row({"early_stopping": 3}, T, "early_stopping must be True"),
    "warm_start is a string": Row({"warm_start": "no"}, T, "warm_start must be True or False"),
    "compile is None": Row({"compile": None}, T, "compile must be True or False; got None"),
    "verbose is a string": Row({"verbose": "1"}, T, "verbose must be an integer; got '1'"),
    "random_state is a string": Row({"random_state": "0"}, V, "random_state must be.*got '0'"),
    "random_state is a generator": Row(
        {"random_state": np.random.default_rng(0)},
        V,
        r"random_state must be.*got Generator.*np.random.RandomState\(generator.bit_generator\)",
    ),
    "random_state is too large": Row({"random_state": 2**32}, V, "random_state.*got 4294967296"),
    "learning_rate is a huge integer": Row(
        {"learning_rate": 10**400}, V, "learning_rate must be finite as a float; got 1000"
    ),
    "optimizer is unknown": Row({"optimizer": "rprop"}, V, "optimizer.*'adam'.*'rprop'"),
    "optimizer is no optimizer": Row({"optimizer": 3}, T, "optimizer.*got 3"),
    "optimizer is an instance": Row(
        {"optimizer": torch.optim.SGD([torch.zeros(1)], lr=1.0)}, T, "optimizer must be one of.*SGD"
    ),
    "hidden_layer_sizes is a number": Row({"hidden_layer_sizes": 9}, T, "hidden_layer_sizes"),
    "hidden_layer_sizes without a dimension": Row(
        {"hidden_layer_sizes": np.array(1.5)}, T, r"hidden_layer_sizes.*got array\(1.5\)"
    ),
    "a layer of width 0": Row({"hidden_layer_sizes": (0,)}, V, "hidden_layer_sizes == 0"),
    "layers from a generator": Row(
        {"hidden_layer_sizes": map(int, "5")}, T, "hidden_layer_sizes must be a tuple"
    ),
    "device is unknown": Row({"device": "tpu9"}, V, "device.*'cpu'|device.*got 'tpu9'"),
    "device is a number": Row({"device": 1.5}, V, "device.*got 1.5"),
    "device is None": Row({"device": None}, V, "device.*got None"),
    "device without storage": Row({"device": "meta"}, V, "device='meta' cannot be used"),
    "dtype is unknown": Row({"dtype": "int8"}, V, "dtype.*'float32'.*got 'int8'"),
    "dtype is torch's": Row({"dtype": torch.float32}, V, "dtype.*'float32'.*got torch.float32"),
    "precision is unknown": Row(
        {"precision": "fp8"}, V, "precision.*'bfloat16'.*'fp8'", WITH_PRECISION
    ),
    "autocast is unknown": Row({"autocast": "fp8"}, V, "autocast.*'bfloat16'.*got 'fp8'"),
    "calibration is unknown": Row({"calibration": "beta"}, V, "calibration.*got 'beta'"),
    "callbacks is a string": Row({"callbacks": "bar"}, T, "callbacks must be a list"),
    "a callback is a number": Row({"callbacks": [3]}, T, "callbacks must be a list.*got 3"),
    "a callback is a class": Row(
        {"callbacks": [EpochScoring]}, T, "callbacks must be.*instances.*got <class.*EpochScoring"
    ),
    "a named callback is a class": Row(
        {"callbacks": [("a", LRScheduler)]}, T, "callbacks must be.*instances.*LRScheduler"
    ),
    "the name of a callback is a number": Row(
        {"callbacks": [(1, LRScheduler())]}, T, "callbacks must be.*got .1, "
    ),
    "two callbacks of a name": Row(
        {"callbacks": [("a", LRScheduler())] * 2}, V, "callbacks must have names.*got 'a'"
    ),
    "a callback named as one of ours": Row(
        {"callbacks": [("train_loss", LRScheduler())]}, V, "callbacks.*got 'train_loss'"
    ),
    "net_params is a list": Row({"net_params": [1]}, T, "net_params must be a dict"),
    "net_params sets lr": Row({"net_params": {"lr": 1}}, V, "'lr': use learning_rate"),
    "net_params sets a loader": Row(
        {"net_params": {"iterator_train__num_workers": 2}},
        V,
        "iterator_train__num_workers.*own batches",
    ),
    "net_params is misspelt": Row({"net_params": {"optimizer__beta": (0.9, 0.99)}}, T, "beta"),
    "net_params has a number as key": Row({"net_params": {1: 2}}, T, "strings as keys; got 1"),
    "net_params sets a layer size": Row(
        {"net_params": {"module__hidden_layer_sizes": (3,)}}, V, "use hidden_layer_sizes"
    ),
    "module with lazy layers": Row(
        {"module": lambda n, m: nn.LazyLinear(m)}, V, "module must not have lazy layers"
    ),
    "module is an instance": Row({"module": nn.Linear(3, 4)}, T, "module.*not an instance"),
    "module is a string": Row({"module": "mlp"}, T, "module must be.*got str"),
    "module of one argument": Row(
        {"module": lambda n: nn.Linear(n, 4)},
        T,
        r"module must take \(n_features, n_outputs\); got one that takes \(n\)",
    ),
    "module of a missing parameter": Row(
        {"module": lambda n, m: nn.Linear(n, m), "net_params": {"module__width": 3}},
        T,
        r"module must take \(n_features, n_outputs, width\); got one that takes \(n, m\)",
    ),
    "module builds no module": Row({"module": lambda n, m: 3}, T, "nn.Module; got int"),
    "module of the wrong width": Row(
        {"module": lambda n, m: nn.Linear(n, m + 1)},
        V,
        r"module must return scores of shape \(n_samples, [14]\).*got shape \(2, [25]\)",
    ),
    "module of the wrong input": Row(
        {"module": lambda n, m: nn.Linear(n + 1, m)}, V, r"module fails on rows of shape \(3,\)"
    ),
    "class_weight is unknown": Row({"class_weight": "even"}, V, "class_weight.*'even'"),
    "class_weight of no class": Row(
        {"class_weight": {9: 1.0}}, V, r"class_weight must have labels of y as keys.*got \[9\]"
    ),
    "class_weight is an array": Row({"class_weight": np.ones(4)}, V, "class_weight.*got array"),
    "class_weight of a word": Row({"class_weight": {0: "a"}}, V, "class_weight must be.*'a'"),
    "class_weight is negative": Row({"class_weight": {0: -1.0}}, V, "class_weight.*nonneg"),
    "scoring is unknown": Row(
        {"scoring": "recall_at_k", "early_stopping": True},
        V,
        r"scoring must be.*make_top_scorer\('recall_at_k', k=100\).*got 'recall_at_k'",
    ),
    "checkpoint is a number": Row({"checkpoint": 3}, T, "checkpoint must be the path.*got 3"),
    "checkpoint_every is 0": Row({"checkpoint_every": 0}, V, "checkpoint_every == 0, must be >="),
    "checkpoint in no folder": Row(
        {"checkpoint": "/no/such/folder/file"}, OSError, "checkpoint='/no/such/folder/file' must"
    ),
}


def concerned(row):
    """The estimators that have what the row passes."""
    if row.only is not None:
        return row.only
    return [name for name in NETS if set(row.passed) <= set(make(name).get_params(deep=False))]


@pytest.mark.parametrize("case", ROWS)
def test_wrong_parameter(case):
    row = ROWS[case]
    names = concerned(row)
    assert names
    for name in names:
        assert_refused(
            name, row, lambda clf, name=name: clf.set_params(**row.passed).fit(X, labels(name))
        )


@pytest.mark.parametrize("name", NETS)
def test_parameters_that_do_not_exist(name):
    estimator = fitted(name)[0]
    with pytest.raises(ValueError, match="Invalid parameter 'learning_speed'"):
        estimator.set_params(learning_speed=1)
    with pytest.raises(TypeError, match="learning_speed"):
        type(estimator)(learning_speed=1)


def test_device_without_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    row = Row({"device": "cuda"}, V, "device='cuda', but this torch sees no GPU")
    for name in NETS:
        assert_refused(
            name, row, lambda clf, name=name: clf.set_params(**row.passed).fit(X, labels(name))
        )
