"""Every classifier trains on a GPU as on the CPU, and no step waits for the GPU."""

import copy
import itertools

import numpy as np
import pytest
import torch
from skorch.callbacks import Freezer, LRScheduler

from sktopk import DeepTopPushClassifier, RecallAtFPRClassifier, ThresholdClassifier, TopKClassifier
from sktopk.modules import TabularMLP
from tests.crashing import WithDropout, X, counted, crashing, quick, target
from tests.gpu import DEVICE, needs_gpu, no_waiting
from tests.named_losses import NAMED_LOSSES
from tests.test_no_waiting import OF_CLASSES, RANKERS, batches_of

pytestmark = [
    *needs_gpu,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
CLASSIFIERS = {**RANKERS, **OF_CLASSES}
# CyclicLR changes the momentum in addition to the learning rate.
CYCLIC, CYCLE = "CyclicLR", {"base_lr": 1e-3, "max_lr": 1e-2, "cycle_momentum": True}
NOISED = [name for name in NAMED_LOSSES if name.startswith("noised")]
SOME = ["smooth_topk", "noised_topk", "DeepTopPush", "RecallAtK", "FScore"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 8))
    return X, (X[:, :6] + rng.standard_normal((600, 6))).argmax(axis=1)


def fitted(name, table, device=DEVICE, dtype=np.float64, **params):
    clf = CLASSIFIERS[name]
    X, y = table
    fixed = {"max_epochs": 4, "batch_size": 64, "hidden_layer_sizes": (16,), "random_state": 0}
    fixed |= {"calibration": None, "n_iter_no_change": None, "net_params": None, "device": device}
    clf.set_params(**fixed | params)
    return clf.fit(X.astype(dtype), (y == 0).astype(int) if name in RANKERS else y)


def losses_of(clf):
    return [row["train_loss"] for row in clf.history_]


def assert_same_fit(clf, expected, table, tolerance):
    assert losses_of(clf) == pytest.approx(losses_of(expected), rel=tolerance)
    scores = expected.decision_function(table[0])
    scale = np.abs(scores).max()
    np.testing.assert_allclose(clf.decision_function(table[0]), scores, atol=tolerance * scale)
    if hasattr(expected, "threshold_"):
        assert clf.threshold_ == pytest.approx(expected.threshold_, abs=tolerance * scale)


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in NOISED])
def test_fits_on_the_gpu_equal_fits_on_the_cpu(name, table):
    # An ensemble with one minibatch trains in float64: only the order of sums differs.
    params = {} if CLASSIFIERS[name].n_estimators == 1 else {"batch_size": len(table[1])}
    expected = copy.copy(fitted(name, table, device="cpu", **params))
    clf = fitted(name, table, **params)
    assert next(clf.net_.module_.parameters()).device.type == DEVICE
    assert_same_fit(clf, expected, table, 1e-6)


@pytest.mark.parametrize("name", SOME)
def test_fits_with_the_same_seed_are_equal(name, table):
    first = copy.copy(fitted(name, table))
    torch.randn(3, device=DEVICE)  # the global generator has no effect
    assert_same_fit(fitted(name, table), first, table, 1e-9)
    y = (table[1] == 0).astype(int) if name in RANKERS else table[1]
    assert_same_fit(copy.deepcopy(first).partial_fit(table[0], y), first, table, 1e3)


@pytest.fixture
def replayed(monkeypatch):
    """Return a list to which each replayed step appends its CUDA graph."""
    graphs, replay = [], torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda g: graphs.append(g) or replay(g))
    return graphs


def recorded_and_not(name, table, replayed, monkeypatch, **params):
    """Return a fit with replayed steps, and the same fit with steps that are not recorded."""
    clf = copy.copy(fitted(name, table, **params))
    n_replayed = len(replayed)
    assert n_replayed
    monkeypatch.setattr("sktopk._training._recorder.N_BEFORE", np.inf)
    expected = fitted(name, table, **params)
    assert len(replayed) == n_replayed
    return clf, expected


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_replayed_cuda_graphs_equal_steps_without_replay(name, table, replayed, monkeypatch):
    assert_same_fit(*recorded_and_not(name, table, replayed, monkeypatch), table, 1e-9)


@pytest.mark.parametrize(
    "callback",
    [Freezer("layers.0.*", at=2), LRScheduler("StepLR", step_size=20, step_every="batch")],
    ids=lambda callback: type(callback).__name__,
)
def test_callbacks_take_effect_in_replayed_cuda_graphs(callback, table, replayed, monkeypatch):
    params = {"callbacks": [callback], "batch_size": 32, "module": TabularMLP}
    clf, expected = recorded_and_not("DeepTopPush", table, replayed, monkeypatch, **params)
    assert_same_fit(clf, expected, table, 1e-9)
    plain = fitted("DeepTopPush", table, **params | {"callbacks": None})
    assert losses_of(plain)[-1] != pytest.approx(losses_of(clf)[-1], rel=1e-3)


@pytest.mark.parametrize(
    "clf",
    [
        RecallAtFPRClassifier(surrogate="quadratic"),
        ThresholdClassifier(lambda scores, positive, weight: scores[~positive].mean()),
        DeepTopPushClassifier(net_params={"module__dropout": 0.1}),
        DeepTopPushClassifier(callbacks=[LRScheduler(CYCLIC, step_every="batch", **CYCLE)]),
    ],
    ids=["Newton steps", "a function", "dropout", "momentum"],
)
def test_steps_whose_computation_varies_are_not_replayed_as_cuda_graphs(clf, table, replayed):
    X, y = table
    clf.set_params(max_epochs=4, batch_size=64, random_state=0, device=DEVICE).fit(X, y == 0)
    assert not replayed


def test_the_default_dtype_of_torch_does_not_prevent_cuda_graphs(table, replayed, default_dtype):
    default_dtype(torch.float64)
    fitted("DeepTopPush", table, dtype=np.float32)
    assert replayed


@pytest.mark.parametrize(
    ("name", "resident"),
    [*((name, True) for name in CLASSIFIERS), *((name, False) for name in SOME)],
)
def test_no_step_waits_for_the_gpu(name, resident, table, monkeypatch):
    if not resident:
        if name in RANKERS and getattr(CLASSIFIERS[name], "buffer_size", 0):
            pytest.skip("X is in CPU memory, so the step waits for the positions of hard samples")
        monkeypatch.setattr("sktopk._training._batches.RESIDENT_SHARE", 0.0)
    clf = fitted(name, table, dtype=np.float32)
    X, y = table[0].astype(np.float32), table[1]
    y = (y == 0).astype(int) if len(clf.classes_) == 2 else y
    batches = batches_of(clf, X, y, np.ones(len(y)))
    steps = iter(batches.fetched())
    first = next(steps)  # moves the sample indices of the epoch to the GPU
    batches.fetched = lambda: itertools.chain([first], steps)
    with no_waiting():
        results = [clf.net_.train_step(batch) for batch in batches]
    assert len(results) == len(batches) > 1
    assert all(loss.isfinite() for loss, *_ in results)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch itself uses deprecated functions
@pytest.mark.parametrize("way", [{"precision": "bf16"}, {"compile": True}], ids=str)
@pytest.mark.parametrize("name", ["cross_entropy", "smooth_topk", "ldam", "DeepTopPush", "FScore"])
def test_training_losses_hardly_change_with_bfloat16_or_compilation(name, way, table):
    expected = losses_of(fitted(name, table, dtype=np.float32))
    found = losses_of(fitted(name, table, dtype=np.float32, net_params=way))
    assert found == pytest.approx(expected, rel=0.05)


def test_a_crashed_fit_continues_after_its_last_epoch(tmp_path):
    for classifier, params in [
        (TopKClassifier, {"loss": "noised_topk"}),
        (TopKClassifier, {"module": WithDropout, "hidden_layer_sizes": ()}),
        (DeepTopPushClassifier, {"buffer_size": 3}),
    ]:
        clf = quick(classifier, device=DEVICE, **params)
        expected = losses_of(clf.fit(X, target(clf)))
        with crashing(after=3):
            clf.fit(X, target(clf), checkpoint=tmp_path / "file")
        assert counted(clf.fit, X, target(clf), checkpoint=tmp_path / "file") == 3
        assert losses_of(clf) == pytest.approx(expected, rel=1e-9)


def test_a_missing_gpu_raises(table):
    with pytest.raises(ValueError, match="device='cuda:99' cannot be used here"):
        TopKClassifier(device="cuda:99").fit(*table)
