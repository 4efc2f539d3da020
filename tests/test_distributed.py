"""Two processes that train together learn what one process learns from the joined batches."""

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from sktopk import DeepTopPushClassifier, PatMatClassifier, PrecisionAtRecallClassifier
from sktopk._top_criterion import TopCriterion
from sktopk.losses import KthLargest
from sktopk.losses._thresholds import Largest

N_ROWS, N_FEATURES = 120, 5
CRITERIA = {
    "largest": (Largest("negatives"), "false_negatives", 1),
    "buffer": (Largest("negatives"), "false_negatives", 3),
    "quantile": (KthLargest("all", tau=0.1), "false_negatives", 4),
    "recall": (KthLargest("positives", tau=0.8), "false_positives", 2),
}
CLASSIFIERS = {
    "top_push": DeepTopPushClassifier(),
    "pat_mat": PatMatClassifier(tau=0.1),
    "precision_at_recall": PrecisionAtRecallClassifier(),
}


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    y = (X[:, 0] + 0.5 * rng.standard_normal(N_ROWS) > 1).astype(int)
    # As many of each class in both halves.
    order = np.argsort(y, kind="stable")
    order = np.concatenate([order[::2], order[1::2]])
    return X[order], y[order], 1 + np.arange(N_ROWS) % 3


def linear(n_features, n_outputs):
    return nn.Linear(n_features, n_outputs)


def parallel(n_features, n_outputs):
    return DistributedDataParallel(linear(n_features, n_outputs).double())


def half(rank):
    return slice(rank * N_ROWS // 2, (rank + 1) * N_ROWS // 2)


def fit(name, module, rows):
    X, y, weight = data()
    params = {"batch_size": N_ROWS, "max_epochs": 30, "learning_rate": 0.05, "random_state": 0}
    clf = CLASSIFIERS[name].set_params(**params, module=module)
    clf.fit(X[rows], y[rows], sample_weight=weight[rows])
    weights = [p.detach().clone() for p in clf.net_.module_.parameters()]
    return [*weights, torch.tensor(clf.threshold_)]


def loop(name, wrap, rank, world):
    """Ten steps on minibatches that the ranks share evenly, with rows carried between them."""
    X, y, _ = data()
    X, positive = torch.from_numpy(X), torch.from_numpy(y == 1)
    threshold, errors, buffer_size = CRITERIA[name]
    criterion = TopCriterion(threshold, errors, "quadratic", buffer_size)
    criterion.class_total.copy_(torch.tensor([float((y == 0).sum()), float(y.sum())]))
    torch.manual_seed(0)
    module = wrap(linear(N_FEATURES, 1).double())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    order = torch.randperm(N_ROWS, generator=torch.Generator().manual_seed(1))
    for batch in order.repeat(2).split(24):
        index = criterion.hard.join(batch[len(batch) * rank // world :][: len(batch) // world])
        optimizer.zero_grad()
        scores = module(X[index])
        _, gradient = criterion.loss_and_gradient(scores, positive[index], None)
        scores.backward(gradient)
        optimizer.step()
    weights = [p.detach().clone() for p in module.parameters()]
    return [*weights, torch.as_tensor(np.concatenate(criterion.trace["threshold"]))]


def work(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    result = {name: fit(name, parallel, half(rank)) for name in CLASSIFIERS}
    result |= {name: loop(name, DistributedDataParallel, rank, 2) for name in CRITERIA}
    X, y, _ = data()
    rows = half(rank) if rank else slice(20, 60)
    try:
        DeepTopPushClassifier(batch_size=16).fit(X[rows], y[rows])
    except ValueError as error:
        result["uneven"] = str(error)
    torch.save(result, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def of_each_rank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(work, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_fit_the_parameters_of_one_process(name, of_each_rank):
    expected = fit(name, linear, slice(None))
    for result in of_each_rank:
        torch.testing.assert_close(result[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CRITERIA)
def test_minibatches_share_the_threshold_and_the_hard_rows(name, of_each_rank):
    expected = loop(name, lambda module: module, 0, 1)
    for result in of_each_rank:
        torch.testing.assert_close(result[name], expected, rtol=1e-5, atol=1e-5)


def test_uneven_shares_are_refused_instead_of_waited_for(of_each_rank):
    for result in of_each_rank:
        assert "every process must have the same number of batches" in result["uneven"]
