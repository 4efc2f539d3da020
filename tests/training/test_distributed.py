"""Two processes that train together equal one process with the joined minibatches."""

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import sktopk
from sktopk import DeepTopPushClassifier, PrecisionAtRecallClassifier, TopKClassifier
from sktopk.modules import MLP
from tests.crashing import Crash, hook

N_ROWS, N_FEATURES = 120, 5
# In the two "parallel" cases, the network is a DistributedDataParallel of the user.
ESTIMATORS = {
    # No early stopping, because validation scores of rankers are means over processes.
    name: getattr(sktopk, f"{name}Classifier")(n_iter_no_change=None)
    for name in ("AUC", "FScore", "RecallAtFPR", "RecallAtPrecision", "Threshold", "TopK")
}
ESTIMATORS |= {
    "cross_entropy": TopKClassifier("cross_entropy", k=2, class_weight="balanced"),
    "calibrated": TopKClassifier(k=2, n_iter_no_change=2),
    "ensemble": TopKClassifier(k=2, n_estimators=2, calibration=None),
    "ensemble of rankers": DeepTopPushClassifier(n_estimators=2, calibration=None, buffer_size=3),
    "calibrated ranker": DeepTopPushClassifier(calibration="sigmoid", n_iter_no_change=None),
    "parallel top_push": DeepTopPushClassifier(n_estimators=1, calibration=None),
    "parallel precision": PrecisionAtRecallClassifier(n_estimators=1, calibration=None),
}


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    y = (X[:, 0] + 0.5 * rng.standard_normal(N_ROWS) > 1).astype(int)
    # Both halves have the same number of samples of each class.
    order = np.argsort(y, kind="stable")
    order = np.concatenate([order[::2], order[1::2]])
    return X[order], y[order], 1 + np.arange(N_ROWS) % 3


def linear(n_features, n_outputs):
    network = nn.Linear(n_features, n_outputs)
    return DistributedDataParallel(network.double()) if distributed.is_initialized() else network


def half(rank):
    return slice(rank * N_ROWS // 2, (rank + 1) * N_ROWS // 2)


def three_classes():
    X, _, weight = data()
    y = np.digitize(X[:, 0] - X[:, 1], [-1, 1])
    first = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y > 0)])
    return X[first], y[first], weight


def fit(name, rows):
    """Return the parameters that a network learned, and the attributes that depend on them."""
    clf, more = ESTIMATORS[name], {}
    X, y, weight = three_classes() if isinstance(clf, TopKClassifier) else data()
    if clf.n_estimators == "auto":
        clf.n_estimators = 1
        more = {"X_val": X[rows][::2], "y_val": y[rows][::2]}
    max_epochs = 20 if clf.n_iter_no_change is not None else 4
    params = {"batch_size": N_ROWS, "max_epochs": max_epochs, "learning_rate": 0.01}
    clf.set_params(module=linear if "parallel" in name else MLP, random_state=0, **params)
    clf.fit(X[rows], y[rows], sample_weight=weight[rows], **more)
    learned = [p.detach().clone() for p in clf.net_.module_.parameters()]
    derived = clf.classes_, clf.class_count_, clf.n_iter_, clf.history_[-1]["train_loss"]
    derived += getattr(clf, "threshold_", 0), *getattr(clf, "calibration_", ())
    return learned + [torch.as_tensor(each) for each in derived]


def stop_after_three(self, net, **kwargs):
    net.stop_training = len(net.history) == 3


def stopped_by_one(rank):
    X, y, _ = three_classes()
    clf = TopKClassifier(
        k=2, module=MLP, callbacks=[] if rank else [hook(on_epoch_end=stop_after_three)],
        random_state=0, n_estimators=1, calibration=None, net_params={"module__batch_norm": True},
    )  # fmt: skip
    clf.fit(X[half(rank)], y[half(rank)])
    return clf.n_iter_, [b.clone() for b in clf.net_.module_.buffers()]


def error_of(rows, **params):
    X, y, _ = data()
    try:
        DeepTopPushClassifier(n_iter_no_change=None, **params).fit(X[rows], y[rows])
    except (RuntimeError, ValueError) as error:
        return repr(error)


def work(rank, folder):
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    result = {name: fit(name, half(rank)) for name in ESTIMATORS}
    result["stopped"] = stopped_by_one(rank)
    broken = {"max_epochs": 3, "batch_size": N_ROWS, "callbacks": [Crash()], "random_state": 0}
    Crash.after = 2
    result["broken"] = error_of(half(rank), **broken)
    result["uneven"] = error_of(half(rank) if rank else slice(20, 60), batch_size=16)
    torch.save(result, f"{folder}/{rank}.pt")
    # Wait, because the other process may still read from the connection.
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def of_each_rank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    how = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    # One process imports the modules for both.
    multiprocessing.set_forkserver_preload([__name__, "torch._dynamo"])
    multiprocessing.start_processes(work, args=(str(folder),), nprocs=2, start_method=how)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_trains_with_all_processes_together(name, of_each_rank):
    expected = fit(name, slice(None))
    for result in of_each_rank:
        torch.testing.assert_close(result[name], expected, rtol=1e-5, atol=1e-5)


def test_a_stop_in_one_process_stops_all_processes_with_the_same_buffers(of_each_rank):
    (n_iter, buffers), (other_n_iter, other_buffers) = (each["stopped"] for each in of_each_rank)
    assert n_iter == other_n_iter == 3
    torch.testing.assert_close(buffers, other_buffers, rtol=0, atol=0)


def test_an_error_of_the_training_is_raised_unchanged_in_every_process(of_each_rank):
    assert [each["broken"] for each in of_each_rank] == ["RuntimeError('crash')"] * 2


def test_uneven_shares_raise_instead_of_waiting_forever(of_each_rank):
    for result in of_each_rank:
        assert "ValueError('every process must have the same number of batches" in result["uneven"]
