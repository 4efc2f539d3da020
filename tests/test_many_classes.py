"""Training on candidates: what a step touches, what it learns, what is refused."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from skorch.callbacks import Callback, GradientNormClipping, LRScheduler
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sktopk import TopKClassifier, losses
from sktopk.io import dump, load
from sktopk.modules import NormalizedLinear, TabularMLP
from tests.crashing import Crash, check_same, crash_and_resume, fitted_state

pytestmark = pytest.mark.filterwarnings(
    "ignore:The training loss still fell", "ignore::sklearn.exceptions.ConvergenceWarning"
)

N_CLASSES = 60
rng = np.random.default_rng(0)
Y = np.concatenate([np.arange(N_CLASSES), rng.integers(N_CLASSES, size=540)])
X = rng.standard_normal((N_CLASSES, 8))[Y] + 0.3 * rng.standard_normal((600, 8))


def quick(loss="cross_entropy", **params):
    params = {
        "k": 3,
        "n_candidates": 15,
        "hidden_layer_sizes": (),
        "batch_size": 20,
        "max_epochs": 3,
        "random_state": 0,
        **params,
    }
    return TopKClassifier(loss, **params)


def top3_accuracy(clf):
    return (clf.predict_topk(X) == Y[:, np.newaxis]).any(axis=1).mean()


class LargestNewTensor(TorchDispatchMode):
    """Note the size of the largest tensor that is made, not merely given or changed."""

    def __init__(self):
        super().__init__()
        self.size, self.known = 0, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {id(each) for each in args if isinstance(each, torch.Tensor)}
        for each in result if isinstance(result, list | tuple) else [result]:
            if isinstance(each, torch.Tensor) and id(each) not in given:
                storage = each.untyped_storage()
                if storage.data_ptr() not in self.known:
                    self.size = max(self.size, storage.nbytes() // each.element_size())
        return result


def batch_of(n_rows, n_classes, n_features=8):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n_rows, n_features, generator=generator)
    return rows, (torch.randint(n_classes, (n_rows,), generator=generator), None)


@pytest.mark.parametrize("network", [{}, {"n_members": 2}, {"n_members": 2, "module": TabularMLP}])
@pytest.mark.parametrize("loss", ["cross_entropy", "smooth_topk", "focal"])
def test_no_tensor_of_a_step_grows_with_the_number_of_classes(loss, network):
    n_classes, n_rows, n_candidates = 100_000, 32, 100
    rows, (target, _) = batch = batch_of(n_rows, n_classes)
    clf = quick(loss, n_candidates=n_candidates, hidden_layer_sizes=(16,), **network)
    clf.partial_fit(rows.numpy(), target.numpy(), classes=np.arange(n_classes))
    seen = LargestNewTensor()
    state = clf.net_.optimizer_.state.values()
    whole = [*clf.net_.module_.parameters(), *(v for each in state for v in each.values())]
    seen.known = {each.untyped_storage().data_ptr() for each in whole}
    with seen:
        clf.net_.step(batch)
    assert 0 < seen.size <= 2 * n_rows * (n_rows + n_candidates) * network.get("n_members", 1)


def test_the_scores_of_a_validation_loss_fit_the_cache():
    clf = quick().partial_fit(X, Y, classes=np.arange(5_000))
    with LargestNewTensor() as seen:
        clf.net_.mean_loss(np.zeros((3_000, 8)), np.arange(3_000))
    assert seen.size <= 1 << 20


def test_a_hundred_thousand_classes_are_learned_in_seconds():
    n_classes, n_seen = 100_000, 500
    labels = np.random.default_rng(1).choice(n_classes, n_seen, replace=False)
    y = np.repeat(labels, 10)
    prototypes = np.random.default_rng(2).standard_normal((n_classes, 16), dtype=np.float32)
    X = prototypes[y] + 0.2 * np.random.default_rng(3).standard_normal((len(y), 16))
    X = X.astype(np.float32)
    order = np.random.default_rng(4).permutation(len(y))
    clf = quick("smooth_topk", k=5, n_candidates=200, batch_size=100)
    for _ in range(4):
        clf.partial_fit(X[order], y[order], classes=np.arange(n_classes))
    assert (clf.predict_topk(X[::7]) == y[::7, np.newaxis]).any(axis=1).mean() > 0.9
    assert clf.class_count_.shape == (n_classes,)


@pytest.mark.parametrize(
    ("optimizer", "more"),
    [("adam", {}), ("adamw", {"optimizer__amsgrad": True}), ("sgd", {"optimizer__momentum": 0.9})],
)
def test_a_step_is_that_of_a_network_of_the_candidates_alone(optimizer, more):
    clf = quick(optimizer=optimizer, net_params=more, dtype="float64", weight_decay=0.1).fit(X, Y)
    net = clf.net_
    net.module_.train()
    layer = net.module_[-1]
    generator = torch.Generator()
    rate = net.optimizer_.param_groups[0]["lr"]
    for seed in range(3):
        rows, target = torch.from_numpy(X[seed::40]), torch.from_numpy(Y[seed::40])
        generator.set_state(net.criterion_.generator.get_state())
        drawn = torch.randint(N_CLASSES, (15,), generator=generator).tolist()
        labels = set(target.tolist())
        classes = sorted(labels | set(drawn))
        others = [j for j in range(N_CLASSES) if j not in classes]
        shift = np.log((N_CLASSES - len(labels)) / (len(classes) - len(labels)))
        shift = torch.tensor([0.0 if j in labels else shift for j in classes])
        before = [each.detach().clone() for each in layer.parameters()]
        few = [each[classes].clone().requires_grad_() for each in before]
        options = {name.removeprefix("optimizer__"): value for name, value in more.items()}
        reference = type(net.optimizer_)(few, lr=rate, weight_decay=0.1, **options)
        kept = [net.optimizer_.state[each] for each in layer.parameters()]
        for parameter, state in zip(few, kept, strict=True):
            reference.state[parameter] = {
                name: value[classes].clone() if value.ndim else value.clone()
                for name, value in state.items()
            }
        loss = F.cross_entropy(
            F.linear(rows, *few) + shift, torch.tensor([classes.index(j) for j in target])
        )
        loss.backward()
        reference.step()
        found, scores = net.step((rows, (target, None)))
        torch.testing.assert_close(found, loss.detach(), rtol=1e-6, atol=0)
        assert not scores.requires_grad
        assert all(each.grad is None for each in layer.parameters())
        for whole, old, new in zip(layer.parameters(), before, few, strict=True):
            assert torch.equal(whole[others], old[others])
            torch.testing.assert_close(whole[classes], new, rtol=1e-5, atol=1e-8)
            for name, value in reference.state[new].items():
                ours = net.optimizer_.state[whole][name]
                ours = ours[classes] if value.ndim else ours
                torch.testing.assert_close(ours, value, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("loss", ["cross_entropy", "smooth_topk"])
def test_with_room_for_all_classes_it_is_the_loss_of_all_classes(loss):
    plain = quick(loss, n_candidates=None, early_stopping=True).fit(X, Y)
    clf = quick(loss, n_candidates=N_CLASSES, early_stopping=True).fit(X, Y)
    for one, other in zip(clf.history_, plain.history_, strict=True):
        assert one["train_loss"] == other["train_loss"]
        assert one["valid_loss"] == pytest.approx(other["valid_loss"])
        assert one["valid_score"] == other["valid_score"]
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(X))


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"loss": "smooth_topk", "tau": 0.5},
        {"loss": "focal"},
        {"hidden_layer_sizes": (30,), "optimizer": "sgd", "learning_rate": 0.5},
        {"net_params": {"module__normalize": True}, "score_scale": 20.0},
        {"precision": "bfloat16"},
        {"dtype": "float32", "class_weight": "balanced"},
        {"callbacks": [GradientNormClipping(1.0), LRScheduler("StepLR", step_size=5)]},
    ],
    ids=lambda more: " ".join(more) or "default",
)
def test_it_learns(params):
    clf = quick(**{"max_epochs": 10, "learning_rate": 0.05, **params}).fit(X, Y)
    assert top3_accuracy(clf) > 0.85
    assert clf.history_[-1]["train_loss"] < clf.history_[0]["train_loss"]


def test_sparse_rows_and_weights_are_taken_and_fits_repeat():
    weight = np.random.default_rng(0).uniform(0.5, 2, len(Y))
    clf = quick().fit(sparse.csr_array(X), Y, sample_weight=weight)
    again = quick().fit(sparse.csr_array(X), Y, sample_weight=weight)
    np.testing.assert_array_equal(clf.decision_function(X), again.decision_function(X))
    other = quick(random_state=1).fit(X, Y)
    assert not np.array_equal(clf.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("hidden_layer_sizes", [(), (6,)])
def test_rows_that_the_first_layer_takes_sparse_give_the_same_network(hidden_layer_sizes):
    rows = sparse.hstack([sparse.csr_array(X), sparse.csr_array((len(Y), 1500))], format="csr")
    fits = [
        quick(hidden_layer_sizes=hidden_layer_sizes).fit(each, Y, X_val=each[:25], y_val=Y[:25])
        for each in (rows, rows.toarray())
    ]
    scores = [each.decision_function(rows) for each in fits]
    np.testing.assert_allclose(*scores, atol=1e-10)
    assert fits[0].history_[-1]["valid_loss"] == pytest.approx(fits[1].history_[-1]["valid_loss"])


def test_the_validation_loss_estimates_that_of_all_classes():
    # So few rows that not every class is a candidate.
    rows, labels = X[:25], Y[:25]
    clf = quick(max_epochs=10, learning_rate=0.02).fit(X, Y, X_val=rows, y_val=labels)
    scores = torch.from_numpy(clf.decision_function(rows))
    whole = F.cross_entropy(scores, torch.from_numpy(labels), reduction="none").numpy()
    assert clf.history_[-1]["valid_loss"] == pytest.approx(whole.mean(), rel=0.2)
    assert clf.history_[-1]["valid_loss"] != pytest.approx(whole.mean(), rel=1e-6)
    state = clf.net_.criterion_.generator.get_state()
    known = np.arange(25) % 2 == 1
    found = clf.net_.mean_loss(rows, np.where(known, labels, -1))
    assert found == pytest.approx(whole[known].mean(), rel=0.2)
    assert clf.net_.mean_loss(rows, np.full(25, -1)) == 0
    assert torch.equal(clf.net_.criterion_.generator.get_state(), state)


@pytest.mark.parametrize("loss", ["cross_entropy", "smooth_topk", "focal"])
def test_scores_are_shifted_in_the_unit_of_the_loss(loss):
    params = {"gamma": 1.5} if loss == "focal" else None
    tau = {"tau": 0.6} if loss == "smooth_topk" else {}
    clf = quick(loss, loss_params=params, max_epochs=1, **tau).fit(X, Y)
    criterion, target = clf.net_.criterion_, torch.tensor([3, 1])
    classes, position, log_weight = criterion.draw(target)
    scores = torch.randn(2, N_CLASSES, generator=torch.Generator().manual_seed(0))[:, classes]
    expected = {
        "cross_entropy": lambda: F.cross_entropy(scores + log_weight, position),
        "focal": lambda: losses.focal_loss(scores + log_weight, position, gamma=1.5),
        "smooth_topk": lambda: losses.smooth_topk_loss(
            scores + 3 * 0.6 * log_weight, position, k=3, tau=0.6
        ),
    }
    criterion.log_weight = log_weight
    torch.testing.assert_close(criterion(scores, position), expected[loss]())


MORE = {
    "adam": {"optimizer": "adam"},
    "sgd": {"optimizer": "sgd", "net_params": {"optimizer__momentum": 0.9}},
}


@pytest.mark.parametrize("params", MORE.values(), ids=MORE)
def test_copies_and_files_train_on_as_the_original_does(params, tmp_path):
    clf = quick("smooth_topk", **params).fit(X, Y)
    loaded = load(dump(clf, tmp_path / "file"))
    pickled = pickle.loads(pickle.dumps(clf))
    for each in (clf, loaded, pickled):
        assert type(each.net_) is type(clf.net_)
        each.partial_fit(X[::-1], Y[::-1])
    check_same(fitted_state(loaded), fitted_state(clf))
    check_same(fitted_state(pickled), fitted_state(clf))
    warm = quick("smooth_topk", warm_start=True, max_epochs=1, **params)
    assert warm.fit(X, Y).fit(X, Y).n_iter_ == 2
    with pytest.raises(ValueError, match="started with n_candidates=15 cannot go on with"):
        warm.set_params(n_candidates=16).fit(X, Y)


class CrashInStep(Callback):
    """Stop a fit in the middle of a step."""

    def on_grad_computed(self, net, **kwargs):
        if len(net.history) == 2:
            raise RuntimeError("in the middle")


def test_a_fit_goes_on_after_a_crash_with_the_same_weights(tmp_path):
    def make(**params):
        return quick("smooth_topk", callbacks=[("crash", Crash())], max_epochs=5, **params)

    expected = fitted_state(make().fit(X, Y))
    clf, first, second = crash_and_resume(
        lambda: make(checkpoint=tmp_path / "checkpoint"), 2, X=X, y=Y
    )
    assert (first, second) == (3, 3)
    check_same(fitted_state(clf), expected)


def test_an_error_within_a_step_leaves_a_whole_network():
    clf = quick(callbacks=[CrashInStep()])
    with pytest.raises(RuntimeError, match="in the middle"):
        clf.fit(X, Y)
    net = quick(max_epochs=1).fit(X, Y).net_
    rows = torch.from_numpy(X[:10])
    with net._only(torch.tensor([3, 5, 5])):
        assert net.module_(rows).shape == (10, 3)
    assert net.module_(rows).shape == (10, N_CLASSES)
    assert net.n_outputs == N_CLASSES


class OwnNetwork(nn.Module):
    """Ends in a linear layer that is not the last to be registered among all layers."""

    def __init__(self, n_features, n_outputs, end="linear"):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, 12), nn.BatchNorm1d(12), nn.Dropout(0.1))
        kind = NormalizedLinear if end == "normalized" else nn.Linear
        self.head = kind(12, n_outputs)
        self.end = end

    def forward(self, x):
        scores = self.head(torch.relu(self.body(x)))
        return scores.log_softmax(1) if self.end == "log_softmax" else scores


class Tied(nn.Module):
    """Uses the rows of the last layer twice."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.body = nn.Linear(n_features, n_outputs, bias=False)
        self.head = nn.Linear(n_features, n_outputs, bias=False)
        self.head.weight = self.body.weight

    def forward(self, x):
        return self.head(self.body(x) @ self.body.weight)


@pytest.mark.parametrize("end", ["linear", "normalized"])
def test_any_module_that_ends_in_a_linear_layer_will_do(end):
    scale = 20.0 if end == "normalized" else "auto"
    clf = quick(
        module=OwnNetwork,
        net_params={"module__end": end},
        score_scale=scale,
        max_epochs=15,
        learning_rate=0.05,
    )
    assert top3_accuracy(clf.fit(X, Y)) > 0.7


class NoLayer(nn.Module):
    """Has no linear layer at all."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_features, n_outputs))

    def forward(self, x):
        return x @ self.weight


@pytest.mark.parametrize(
    "params",
    [
        {"module": OwnNetwork, "net_params": {"module__end": "log_softmax"}},
        {"module": lambda d, c: nn.Sequential(nn.Linear(d, c), nn.ReLU())},
        {"module": lambda d, c: nn.Sequential(nn.Linear(d, c), nn.Softmax(1))},
        {"module": NoLayer},
        {"module": Tied},
        {"module": Tied, "loss": "smooth_topk"},
    ],
    ids=["log_softmax", "relu", "softmax", "no linear layer", "tied", "scaled"],
)
def test_a_module_that_ends_otherwise_is_refused_before_training(params):
    clf = quick(**params)
    with pytest.raises(ValueError, match=r"registered last, .*got (OwnN|Seq|NoL|Tied)"):
        clf.fit(X, Y)
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_candidates": 0}, ValueError, "n_candidates == 0, must be >= 1"),
        ({"n_candidates": 2.5}, TypeError, "n_candidates must be an instance of int"),
        ({"n_candidates": True}, TypeError, "n_candidates must be an integer; got True"),
        ({"loss": "smooth_topk", "n_candidates": 3}, ValueError, r"larger than k \(3\)"),
        ({"loss": "smooth_topk", "k": {1: 1, 3: 1}}, ValueError, "n_candidates needs one k"),
        ({"loss": "topk_hinge"}, ValueError, "'smooth_topk' or 'focal'.*got loss='topk_hinge'"),
        ({"loss": "noised_topk"}, ValueError, "got loss='noised_topk'"),
        ({"loss": "logit_adjusted"}, ValueError, "got loss='logit_adjusted'"),
        ({"loss": "auto"}, ValueError, "got loss='auto'"),
        ({"loss": nn.CrossEntropyLoss()}, ValueError, r"got loss=CrossEntropyLoss\(\)"),
        ({"optimizer": torch.optim.LBFGS}, ValueError, "one of 'adam', 'adamw', 'sgd'; got"),
        ({"compile": True}, ValueError, "n_candidates does not go with compile=True"),
        ({"order": "cross_entropy"}, ValueError, "does not go with order: .* second last layer"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_does_not_go_together_is_refused_by_name(params, error, message):
    with pytest.raises(error, match=message):
        quick(**params).fit(X, Y)


def test_it_is_a_parameter_like_any_other():
    clf = clone(quick(n_candidates=7))
    assert clf.get_params()["n_candidates"] == 7
    assert TopKClassifier().n_candidates is None
    # A dict of k is for losses whose sums do not depend on it.
    assert quick(k={1: 0.5, 3: 0.5}, max_epochs=1).fit(X, Y).k_ == 3
