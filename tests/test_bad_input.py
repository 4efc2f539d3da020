"""Wrong arguments are refused before any training, by name, with what is allowed and what came."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 4
NAN, INF = X.copy(), X.copy()
NAN[1, 1], INF[1, 1] = np.nan, np.inf


class Convolution(nn.Module):
    def __init__(self, n_channels, n_outputs):
        super().__init__()
        self.layer = nn.Conv2d(n_channels, n_outputs, 3)

    def forward(self, x):
        return self.layer(x).mean((2, 3))


class Plain(nn.Module):
    """A loss that knows no weights."""

    def forward(self, scores, target):
        return scores.mean()


PARAMETERS = {
    "k is 0": ({"k": 0}, ValueError, "k == 0, must be >= 1"),
    "k is negative": ({"k": -3}, ValueError, "k == -3, must be >= 1"),
    "k is a float": ({"k": 2.5}, TypeError, "k must be an instance of int"),
    "k is a bool": ({"k": True}, TypeError, "k must be an integer; got True"),
    "k is a string": ({"k": "3"}, TypeError, "k must be an instance of int"),
    "tau is 0": ({"tau": 0.0}, ValueError, "tau == 0.0, must be > 0"),
    "tau is negative": ({"tau": -1.0}, ValueError, "tau == -1.0, must be > 0"),
    "tau is NaN": ({"tau": np.nan}, ValueError, "tau must be finite; got nan"),
    "tau is infinite": ({"tau": np.inf}, ValueError, "tau must be finite; got inf"),
    "tau is None": ({"tau": None}, TypeError, "tau must be an instance of float"),
    "sigma is negative": ({"sigma": -0.1}, ValueError, "sigma == -0.1, must be >= 0"),
    "margin is negative": ({"margin": -1}, ValueError, "margin == -1, must be >= 0"),
    "gamma is negative": ({"gamma": -1}, ValueError, "gamma == -1, must be >= 0"),
    "n_noise is 0": ({"n_noise": 0}, ValueError, "n_noise == 0, must be >= 1"),
    "n_noise is unknown": (
        {"n_noise": "all"},
        ValueError,
        "n_noise must be one of 'exact'; got 'all'",
    ),
    "k is an empty dict": ({"k": {}}, ValueError, "k must have at least one k"),
    "k has a weight of 0": ({"k": {1: 0.0}}, ValueError, "k must have.*positive weight"),
    "k has a fraction as key": ({"k": {1.5: 1.0}}, TypeError, "k must be an instance of int"),
    "max_margin is 0": ({"max_margin": 0}, ValueError, "max_margin == 0, must be > 0"),
    "scale is 0": ({"scale": 0.0}, ValueError, "scale == 0.0, must be > 0"),
    "score_scale is unknown": ({"score_scale": "big"}, ValueError, "score_scale.*'auto'.*'big'"),
    "score_scale is 0": ({"score_scale": 0}, ValueError, "score_scale == 0, must be > 0"),
    "loss is unknown": ({"loss": "hinge"}, ValueError, "loss.*'smooth_topk'.*got 'hinge'"),
    "loss is a number": ({"loss": 3}, TypeError, "loss.*nn.Module.*got 3"),
    "learning_rate is 0": ({"learning_rate": 0}, ValueError, "learning_rate == 0, must be > 0"),
    "weight_decay is negative": ({"weight_decay": -1}, ValueError, "weight_decay == -1"),
    "batch_size is 0": ({"batch_size": 0}, ValueError, "batch_size == 0, must be >= 1"),
    "batch_size is unknown": ({"batch_size": "all"}, ValueError, "batch_size.*'auto'.*'all'"),
    "max_epochs is 0": ({"max_epochs": 0}, ValueError, "max_epochs == 0, must be >= 1"),
    "tol is negative": ({"tol": -1}, ValueError, "tol == -1, must be >= 0"),
    "patience is 0": ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change == 0"),
    "everything held out": ({"validation_fraction": 1.0}, ValueError, "fraction == 1.0"),
    "early_stopping is a number": (
        {"early_stopping": 3},
        TypeError,
        "early_stopping.*True",
    ),
    "optimizer is unknown": ({"optimizer": "rprop"}, ValueError, "optimizer.*'adam'.*'rprop'"),
    "optimizer is no optimizer": ({"optimizer": 3}, TypeError, "optimizer.*got 3"),
    "hidden_layer_sizes is a number": ({"hidden_layer_sizes": 9}, TypeError, "hidden_layer_sizes"),
    "a layer of width 0": ({"hidden_layer_sizes": (0,)}, ValueError, "hidden_layer_sizes == 0"),
    "device is unknown": ({"device": "tpu9"}, ValueError, "device.*'cpu'|device.*got 'tpu9'"),
    "dtype is unknown": ({"dtype": "int8"}, ValueError, "dtype.*'float32'.*got 'int8'"),
    "precision is unknown": ({"precision": "fp8"}, ValueError, "precision.*'bfloat16'.*got 'fp8'"),
    "calibration is unknown": (
        {"calibration": "beta"},
        ValueError,
        "calibration.*got 'beta'",
    ),
    "callbacks is a string": ({"callbacks": "bar"}, TypeError, "callbacks must be a list"),
    "net_params is a list": ({"net_params": [1]}, TypeError, "net_params must be a dict"),
    "net_params sets lr": ({"net_params": {"lr": 1}}, ValueError, "'lr': use learning_rate"),
    "net_params sets a loader": (
        {"net_params": {"iterator_train__num_workers": 2}},
        ValueError,
        "iterator_train__num_workers.*own batches",
    ),
    "net_params is misspelt": (
        {"net_params": {"optimizer__beta": (0.9, 0.99)}},
        TypeError,
        "beta",
    ),
    "net_params has a number as key": ({"net_params": {1: 2}}, TypeError, "strings as keys; got 1"),
    "net_params sets a layer size": (
        {"net_params": {"module__hidden_layer_sizes": (3,)}},
        ValueError,
        "use hidden_layer_sizes",
    ),
    "a callback is a number": ({"callbacks": [3]}, TypeError, "callbacks must be a list.*got 3"),
    "device without storage": ({"device": "meta"}, ValueError, "device='meta' cannot be used"),
    "layers from a generator": (
        {"hidden_layer_sizes": iter([5])},
        TypeError,
        "hidden_layer_sizes must be a tuple",
    ),
    "module with lazy layers": (
        {"module": lambda n, m: nn.LazyLinear(m)},
        ValueError,
        "module must not have lazy layers",
    ),
    "module is an instance": ({"module": nn.Linear(3, 4)}, TypeError, "module.*not an instance"),
    "module is a string": ({"module": "mlp"}, TypeError, "module must be.*got str"),
    "module builds no module": ({"module": lambda n, m: 3}, TypeError, "nn.Module; got int"),
    "module of the wrong width": (
        {"module": lambda n, m: nn.Linear(n, m + 1)},
        ValueError,
        r"module must return scores of shape \(n_samples, 4\).*got shape \(2, 5\)",
    ),
    "module of the wrong input": (
        {"module": lambda n, m: nn.Linear(n + 1, m)},
        ValueError,
        r"module fails on rows of shape \(3,\)",
    ),
    "normalize with a module": (
        {"module": nn.Linear, "normalize": True},
        ValueError,
        "normalize=True belongs to the default network",
    ),
    "class_weight is unknown": ({"class_weight": "even"}, ValueError, "class_weight.*'even'"),
    "class_weight of no class": (
        {"class_weight": {9: 1.0}},
        ValueError,
        r"class_weight must have labels of y as keys.*got \[9\]",
    ),
    "class_weight is negative": ({"class_weight": {0: -1.0}}, ValueError, "class_weight.*nonneg"),
    "scoring is unknown": (
        {"scoring": "no_such_score", "early_stopping": True},
        ValueError,
        "no_such_score",
    ),
}

DATA = {
    "X has NaN": (NAN, Y, {}, "NaN"),
    "X is infinite": (INF, Y, {}, "infinity"),
    "X is empty": (X[:0], Y[:0], {}, "0 sample"),
    "X has no columns": (X[:, :0], Y, {}, "0 feature"),
    "X has one dimension": (X[:, 0], Y, {}, "1D array|2D array"),
    "X is an image without a module": (X.reshape(10, 2, 2, 3), Y[:10], {}, "X.*module="),
    "X holds strings": (np.full((40, 2), "a"), Y, {}, "could not convert|string"),
    "X is complex": (X + 1j, Y, {}, "[Cc]omplex"),
    "y mixes kinds": (
        X,
        [1, "a", None, 2] * 10,
        {},
        "y must hold labels of one kind|Unknown label",
    ),
    "y is missing": (X, None, {}, "y must hold a class label|requires y"),
    "y has NaN": (X, np.where(Y == 1, np.nan, Y), {}, "y.*NaN|NaN"),
    "y is continuous": (X, X[:, 0], {}, "y is continuous.*y >= "),
    "y is multi-label": (X, np.eye(4, dtype=int)[Y], {}, "y must hold one class label per row"),
    "y is too short": (X, Y[:-1], {}, "40 rows, y has inconsistent length 39"),
    "one class": (X, np.zeros(40), {}, "at least 2 classes; got 1 class"),
    "one row": (X[:1], Y[:1], {}, "at least 2 classes; got 1 class"),
    "weights too short": (X, Y, {"sample_weight": np.ones(39)}, r"sample_weight.*\(40,\).*\(39,\)"),
    "weights in a table": (X, Y, {"sample_weight": np.ones((40, 2))}, "sample_weight must be 1D"),
    "weights negative": (
        X,
        Y,
        {"sample_weight": -np.ones(40)},
        "sample_weight.*got -1",
    ),
    "weights NaN": (X, Y, {"sample_weight": np.full(40, np.nan)}, "sample_weight.*finite.*nan"),
    "weights all zero": (X, Y, {"sample_weight": np.zeros(40)}, "sample_weight.*all are zero"),
    "weights are words": (X, Y, {"sample_weight": ["a"] * 40}, "sample_weight must hold numbers"),
    "weights leave one class": (X, Y, {"sample_weight": (Y == 1) * 1.0}, "got 1 class"),
    "X_val alone": (X, Y, {"X_val": X}, "passed together; y_val is None"),
    "y_val alone": (X, Y, {"y_val": Y}, "passed together; X_val is None"),
    "X_val has NaN": (X, Y, {"X_val": NAN, "y_val": Y}, "NaN"),
    "X_val too narrow": (X, Y, {"X_val": X[:, :2], "y_val": Y}, "2 features"),
    "y_val too short": (X, Y, {"X_val": X, "y_val": Y[:-1]}, "y_val has inconsistent length 39"),
}


@pytest.mark.parametrize("case", PARAMETERS)
def test_wrong_parameter(case):
    params, error, message = PARAMETERS[case]
    clf = TopKClassifier(**{"k": 2, "max_epochs": 1, **params})
    with pytest.raises(error, match=message):
        clf.fit(X, Y)
    assert not hasattr(clf, "net_")


@pytest.mark.parametrize("case", DATA)
def test_wrong_data(case):
    rows, labels, metadata, message = DATA[case]
    clf = TopKClassifier(k=2, max_epochs=1)
    with pytest.raises(ValueError, match=message):
        clf.fit(rows, labels, **metadata)
    assert not hasattr(clf, "net_")


def test_sparse_rows_for_an_image_module():
    with pytest.raises(ValueError, match="module fails on rows of shape"):
        TopKClassifier(k=2, module=Convolution).fit(sparse.csr_array(X), Y)


def test_images_of_another_size():
    images = np.zeros((8, 1, 6, 6), dtype=np.float32)
    clf = TopKClassifier(k=2, module=Convolution, max_epochs=1).fit(images, np.arange(8) % 4)
    with pytest.raises(ValueError, match=r"rows of shape \(1, 6, 6\), as in fit; got \(1, 5, 5\)"):
        clf.predict(images[..., :5, :5])


def test_weights_with_a_loss_that_takes_none():
    with pytest.raises(TypeError, match=r"sample_weight and class_weight need a loss.*Plain"):
        TopKClassifier(Plain(), k=2).fit(X, Y, sample_weight=np.arange(40) + 1.0)


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (4, ValueError, r"k=4 must be smaller than the number of classes \(4\)"),
        (0, ValueError, "k=0 must be at least 1"),
        (1.5, TypeError, "k must be an integer; got 1.5"),
        (True, TypeError, "k must be an integer; got True"),
    ],
)
@pytest.mark.parametrize("method", ["predict_topk", "predict_topk_proba"])
def test_wrong_k_in_predict(method, k, error, message):
    clf = TopKClassifier(k=2, max_epochs=1).fit(X, Y)
    with pytest.raises(error, match=message):
        getattr(clf, method)(X, k=k)


def test_label_unseen_in_the_first_partial_fit():
    clf = TopKClassifier(k=2).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"y has labels \[7\] that are not among the classes"):
        clf.partial_fit(X, np.where(Y == 1, 7, Y))
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        clf.partial_fit(X, Y, classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("name", "value"),
    [("class_weight", "balanced"), ("calibration", "sigmoid"), ("early_stopping", True)],
)
def test_partial_fit_refuses_what_needs_all_data(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} needs all data at once"):
        TopKClassifier(k=2, **{name: value}).partial_fit(X, Y)


def test_warm_start_with_other_classes():
    clf = TopKClassifier(k=2, max_epochs=1, warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"continues with the classes \[0 1 2 3\]; y has"):
        clf.fit(X[Y < 3], Y[Y < 3])
    assert clf.predict(X).shape == (40,)


def test_probabilities_that_mean_nothing_are_not_offered():
    clf = TopKClassifier("smooth_topk", k=2, max_epochs=1).fit(X, Y)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        clf.predict_proba(X)
    assert "calibration='temperature'" in str(error.value.__cause__)


def test_a_score_that_is_nan_stops_the_fit():
    clf = TopKClassifier(k=2, early_stopping=True, scoring=lambda *_: np.nan)
    with pytest.raises(ValueError, match="scoring must return a finite number; got nan"):
        clf.fit(X, Y)
    assert not hasattr(clf, "net_")


def test_nothing_to_hold_out():
    with pytest.raises(ValueError, match="every class has a single row: pass X_val and y_val"):
        TopKClassifier(k=2, early_stopping=True).fit(X[:4], Y[:4])


def test_k_is_clipped_once_and_said():
    with pytest.warns(UserWarning, match=r"k=9 must be smaller.*\(4\): k_=3 is used") as record:
        clf = TopKClassifier(k=9, max_epochs=3).fit(X, Y)
    assert len(record) == 1
    assert clf.k_ == 3
    assert clf.predict_topk(X).shape == (40, 3)


def test_scorer_refuses_its_k():
    with pytest.raises(ValueError, match="k must be an integer >= 1"):
        make_topk_scorer(0)


def test_inputs_are_not_changed():
    X_val, weight = X[:9].copy(), np.arange(40.0)
    before = [a.copy() for a in (X, Y, X_val, weight)]
    TopKClassifier(k=2, max_epochs=2, calibration="sigmoid").fit(
        X, Y, sample_weight=weight, X_val=X_val, y_val=Y[:9]
    )
    for a, b in zip((X, Y, X_val, weight), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_device_without_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="device='cuda', but this torch sees no GPU"):
        TopKClassifier(k=2, device="cuda").fit(X, Y)
