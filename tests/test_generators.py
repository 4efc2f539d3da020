"""What a fit draws: repeatable, whatever other threads draw and torch's default dtype is."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import joblib
import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch import nn

import sktopk
from sktopk.io import dump, load
from sktopk.modules import MLP, NormalizedLinear, TabularMLP
from sktopk.modules._mlp import Dropout

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 5)).astype(np.float32)
Y = (X[:, :3] + rng.standard_normal((200, 3))).argmax(axis=1)

DROPOUT = {
    "k": 2,
    "module": MLP,
    "hidden_layer_sizes": (6, 5),
    "net_params": {"module__dropout": 0.5},
    "max_epochs": 4,
    "random_state": 0,
}


class Draw(Callback):
    """Before each step, another thread draws from torch's generator."""

    def __init__(self):
        self.drawn = []

    def __deepcopy__(self, memo):
        return self

    def on_batch_begin(self, net, **kwargs):
        with ThreadPoolExecutor(1) as pool:
            self.drawn.append(pool.submit(torch.rand, 3).result())


# The network of a table, which has dropout by itself, with members.
TABULAR = {
    "k": 2,
    "module": TabularMLP,
    "net_params": {"module__hidden_layer_sizes": (6, 5), "module__dropout": 0.5},
    "n_members": 3,
    "cross_fit": True,
    "max_epochs": 4,
    "random_state": 0,
}


@pytest.mark.parametrize(
    "params", [DROPOUT, TABULAR, {**TABULAR, "n_members": 1, "cross_fit": False}]
)
def test_dropout_neither_hears_of_other_threads_nor_disturbs_them(params):
    draw = Draw()
    alone = sktopk.TopKClassifier(**params).fit(X, Y)
    torch.manual_seed(7)
    beside = sktopk.TopKClassifier(**params, callbacks=[draw]).fit(X, Y)
    np.testing.assert_array_equal(alone.decision_function(X), beside.decision_function(X))
    torch.manual_seed(7)
    for values in draw.drawn:
        assert torch.equal(values, torch.rand(3))


@pytest.mark.parametrize(
    "params",
    [
        DROPOUT,
        {**DROPOUT, "net_params": None},
        {"k": 2, "max_epochs": 2, "random_state": 0},
    ],
    ids=["dropout", "plain", "default"],
)
def test_a_fit_of_the_default_network_never_touches_torchs_generator(params, monkeypatch):
    def touched(*args, **kwargs):
        raise AssertionError("torch's generator is touched")

    for name in ("manual_seed", "set_rng_state", "get_rng_state", "fork_rng"):
        monkeypatch.setattr(torch.random, name, touched)
        if hasattr(torch, name):
            monkeypatch.setattr(torch, name, touched)
    sktopk.TopKClassifier(**params).fit(X, Y).partial_fit(X, Y)


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 9), nn.Dropout(0.5), nn.Linear(9, n_outputs))


def test_a_module_that_draws_is_repeatable_where_no_other_thread_draws():
    params = {"k": 2, "module": WithDropout, "max_epochs": 3, "random_state": 0}
    one = sktopk.TopKClassifier(**params).fit(X, Y)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    other = sktopk.TopKClassifier(**params).fit(X, Y)
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_fits_with_dropout_do_not_take_turns():
    # Each is in its midst while the other begins and ends.
    class Begin(Callback):
        def __deepcopy__(self, memo):
            return self

        def on_epoch_begin(self, net, **kwargs):
            if len(net.history) == 2:
                thread = threading.Thread(target=inner.fit, args=(X, Y))
                thread.start()
                thread.join(60)
                assert hasattr(inner, "n_iter_")

    expected = sktopk.TopKClassifier(**DROPOUT).fit(X, Y).decision_function(X)
    inner = sktopk.TopKClassifier(**DROPOUT)
    outer = sktopk.TopKClassifier(**DROPOUT, callbacks=[Begin()]).fit(X, Y)
    np.testing.assert_array_equal(inner.decision_function(X), expected)
    np.testing.assert_array_equal(outer.decision_function(X), expected)


def through_file(clf, tmp_path):
    dump(clf, tmp_path / "model")
    return load(tmp_path / "model")


def through_joblib(clf, tmp_path):
    joblib.dump(clf, tmp_path / "model")
    return joblib.load(tmp_path / "model")


COPIES = {
    "pickle": lambda clf, tmp_path: pickle.loads(pickle.dumps(clf)),
    "deepcopy": lambda clf, tmp_path: copy.deepcopy(clf),
    "joblib": through_joblib,
    "dump": through_file,
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_draw_on_where_the_original_does(name, tmp_path):
    clf = sktopk.TopKClassifier(**DROPOUT, warm_start=True).fit(X, Y)
    copied = COPIES[name](clf, tmp_path)
    for each in (clf, copied):
        each.fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), copied.decision_function(X))
    at_once = sktopk.TopKClassifier(**{**DROPOUT, "max_epochs": 8}).fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), at_once.decision_function(X))


def test_a_copied_network_draws_from_torchs_generator():
    network = MLP(5, 3, dropout=0.5, generator=torch.Generator().manual_seed(0))
    for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        torch.manual_seed(1)
        one = copied(torch.ones(4, 5))
        torch.manual_seed(1)
        assert torch.equal(copied(torch.ones(4, 5)), one)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dropout_compiles():
    x, answers = torch.ones(9, 5), []
    for change in (lambda network: network, partial(torch.compile, backend="eager")):
        generator = torch.Generator().manual_seed(0)
        network = change(MLP(5, 3, dropout=0.5, generator=generator))
        answers.append([network(x) for _ in range(2)])
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)


# The network by itself.


@pytest.mark.parametrize("params", [{}, {"batch_norm": True, "dropout": 0.3}, {"normalize": True}])
@pytest.mark.parametrize("sizes", [(), (7, 4)])
def test_a_generator_draws_what_torchs_own_would(params, sizes):
    torch.manual_seed(3)
    network = MLP(5, 3, sizes, **params)
    own = MLP(5, 3, sizes, **params, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(3)
    widths = [5, *sizes, 3]
    layers = [nn.Linear(*each) for each in pairwise(widths[:-1])]
    layers.append((NormalizedLinear if params.get("normalize") else nn.Linear)(*widths[-2:]))
    weights = [each for layer in layers for each in layer.parameters()]
    for each in (network, own):
        drawn = [
            value
            for layer in each
            if isinstance(layer, nn.Linear | NormalizedLinear)
            for value in layer.parameters()
        ]
        for value, expected in zip(drawn, weights, strict=True):
            assert torch.equal(value, expected)


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout_is_that_of_torch(p, dtype):
    x = torch.randn(2000, 5, dtype=dtype, requires_grad=True)
    layer = Dropout(p, generator=torch.Generator().manual_seed(0))
    out = layer(x)
    kept = out != 0
    assert abs(kept.float().mean() - (1 - p)) < 0.02
    torch.testing.assert_close(out[kept], (x / (1 - p))[kept] if p < 1 else x[kept])
    out.sum().backward()
    assert torch.equal(x.grad != 0, kept)
    torch.manual_seed(0)
    assert torch.equal(out, nn.Dropout(p)(x))
    assert torch.equal(layer.eval()(x), x)


# Torch's default dtype.

ESTIMATORS = {
    "TopKClassifier": {"k": 2},
    "TopKClassifier, cross_entropy": {"loss": "cross_entropy", "k": 1},
    "TopKClassifier, noised": {"loss": "noised_topk", "k": 2},
    "TopKClassifier, ldam": {"loss": "ldam", "k": 1},
    "TopKClassifier, candidates": {"loss": "cross_entropy", "k": 1, "n_candidates": 2},
    "TopKClassifier, module": {"loss": nn.CrossEntropyLoss(), "k": 1},
    "DeepTopPushClassifier": {},
    "TopPushKClassifier": {},
    "RecallAtKClassifier": {"k": 10},
    "RecallAtFPRClassifier": {"fpr": 0.1},
    "PatMatClassifier": {},
    "PatMatNPClassifier": {},
    "PrecisionAtRecallClassifier": {},
    "PrecisionAtRecallProgramClassifier": {},
    "RecallAtPrecisionClassifier": {},
    "FScoreClassifier": {},
    "AUCClassifier": {},
    "ThresholdClassifier": {},
}
NETWORKS = {
    "default": {"n_members": 3},
    "plain": {"module": MLP},
    "all layers": {"net_params": {"module__batch_norm": True, "module__dropout": 0.5}},
    "cosines": {"net_params": {"module__normalize": True}},
}


@pytest.fixture
def default_dtype():
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


def test_every_estimator_with_a_network_is_asked():
    asked = {name.split(",")[0] for name in ESTIMATORS}
    kinds = [getattr(sktopk, name) for name in sktopk.__all__]
    assert asked == {each.__name__ for each in kinds if hasattr(each, "partial_fit")}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_default_dtype_has_no_part_in_a_fit(name, network, default_dtype):
    kind = getattr(sktopk, name.split(",")[0])
    y = Y if kind is sktopk.TopKClassifier else Y == 0
    params = {"hidden_layer_sizes": (6,), "max_epochs": 3, "batch_size": 50, "random_state": 0}
    clf = kind(**ESTIMATORS[name], **params, **NETWORKS[network])
    for dtype in ("float32", "float64"):
        expected, answers = None, None
        for default in (torch.float32, torch.float64, torch.bfloat16):
            default_dtype(default)
            clf.set_params(dtype=dtype).fit(X, y)
            weights = clf.net_.module_.state_dict()
            history = [[v for k, v in row.items() if k != "dur"] for row in clf.history_]
            copied = pickle.loads(pickle.dumps(clf)).partial_fit(X, y)
            found = [clf.decision_function(X), clf.predict(X), copied.decision_function(X)]
            found += [np.hstack(row) for row in history]
            if expected is None:
                expected, answers = copy.deepcopy(weights), found
            for key, value in weights.items():
                assert value.dtype == expected[key].dtype, key
                assert torch.equal(value, expected[key]), key
            for value, answer in zip(found, answers, strict=True):
                np.testing.assert_array_equal(value, answer)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_default_dtype_has_no_part_in_the_network_of_a_table(dtype, default_dtype):
    clf = sktopk.TopKClassifier(**TABULAR, dtype=dtype)
    expected = clf.fit(X, Y).decision_function(X)
    for default in (torch.float64, torch.bfloat16):
        default_dtype(default)
        np.testing.assert_array_equal(clf.fit(X, Y).decision_function(X), expected)
        copied = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(copied.decision_function(X), expected)


def test_the_default_dtype_has_no_part_in_sampled_classes(default_dtype):
    y = np.arange(200) % 40
    clf = sktopk.TopKClassifier(k=1, n_candidates=10, batch_size=10, max_epochs=2, random_state=0)
    expected = clf.fit(X, y).decision_function(X)
    for default in (torch.float64, torch.bfloat16):
        default_dtype(default)
        np.testing.assert_array_equal(clf.fit(X, y).decision_function(X), expected)


def test_a_network_of_ones_own_has_the_default_dtype_unless_it_is_given_one(default_dtype):
    default_dtype(torch.float64)
    params = {"batch_norm": True, "dropout": 0.5}
    assert {each.dtype for each in MLP(5, 3, **params).parameters()} == {torch.float64}
    single = MLP(5, 3, **params, dtype=torch.float32)
    assert {each.dtype for each in single.parameters()} == {torch.float32}


class Noisy(nn.Linear):
    """Draws in every forward pass, also of predictions."""

    def forward(self, x):
        return super().forward(x + 0.1 * torch.randn_like(x))


@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_a_fit_that_draws_in_predictions_leaves_the_generator_and_is_repeatable(calibration):
    clf = sktopk.PatMatClassifier(
        tau=0.1, module=Noisy, calibration=calibration, max_epochs=2, random_state=0
    )
    state, fitted = torch.get_rng_state(), []
    for _ in range(2):
        fitted.append(copy.deepcopy(clf.fit(X, Y == 1)))
        assert torch.equal(torch.get_rng_state(), state)
        torch.randn(7)  # what others draw in between
        state = torch.get_rng_state()
    assert fitted[0].threshold_ == fitted[1].threshold_
    if calibration is not None:
        np.testing.assert_array_equal(fitted[0].calibration_[1], fitted[1].calibration_[1])
