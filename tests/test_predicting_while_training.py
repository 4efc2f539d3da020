"""One thread trains an estimator while others predict with it: the weights hear nothing of it."""

import copy
import pickle
import threading
from functools import partial

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch import nn

from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 5)).astype(np.float32)
Y = (X[:, :3] + rng.standard_normal((200, 3))).argmax(axis=1)


class Network(nn.Sequential):
    """With an event for each forward pass, during which it may be held."""

    entered = threading.Event()
    held = None

    def __init__(self, n_features, n_outputs):
        super().__init__(
            nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, n_outputs)
        )

    def forward(self, x):
        scores = super().forward(x)
        if self.held is not None and threading.current_thread() is not threading.main_thread():
            self.entered.set()
            assert self.held.wait(60)
        return scores


class Alternate(Callback):
    """Before each step, or as its gradient is there, another thread predicts and ends."""

    def __init__(self, clf, moment):
        self.clf, self.moment, self.scores = clf, moment, []

    def __deepcopy__(self, memo):
        return self

    def _predict(self):
        thread = threading.Thread(
            target=lambda: self.scores.append(self.clf.decision_function(X[:3]))
        )
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    def on_batch_begin(self, net, **kwargs):
        if self.moment == "before a step":
            self._predict()

    def on_batch_end(self, net, **kwargs):
        if self.moment == "after a step":
            self._predict()

    def on_grad_computed(self, net, **kwargs):
        if self.moment == "within a step, in the same thread":
            self.scores.append(self.clf.decision_function(X[:3]))


NETWORKS = {
    "of a user": {"module": Network},
    "of tables": {"hidden_layer_sizes": (6,), "n_members": 2},
    "plain": {
        "module": MLP,
        "hidden_layer_sizes": (6,),
        "net_params": {"module__batch_norm": True, "module__dropout": 0.5},
    },
}
ESTIMATORS = {
    "labels": (partial(TopKClassifier, k=2), Y),
    "top": (DeepTopPushClassifier, Y == 0),
    "program": (AUCClassifier, Y == 0),
}


def state_of(clf):
    return {name: value.clone() for name, value in clf.net_.module_.state_dict().items()}


def assert_same_state(one, other):
    for name, value in state_of(one).items():
        assert torch.equal(value, state_of(other)[name]), name


@pytest.mark.parametrize(
    "moment", ["before a step", "after a step", "within a step, in the same thread"]
)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_between_steps_leave_the_training_as_it_is(name, network, moment):
    kind, y = ESTIMATORS[name]
    params = {**NETWORKS[network], "max_epochs": 3, "batch_size": 50, "random_state": 0}
    alone = kind(**params).fit(X, y)
    clf = kind(**params)
    callback = Alternate(clf, moment)
    clf.set_params(callbacks=[callback]).fit(X, y)
    assert len(callback.scores) >= 3
    assert_same_state(clf, alone)
    # They are those of evaluation: nothing dropped, whatever the mode of the network was.
    assert not np.array_equal(callback.scores[0], callback.scores[-1])
    np.testing.assert_array_equal(clf.decision_function(X), alone.decision_function(X))


def test_what_a_callback_froze_stays_frozen():
    class Freeze(Callback):
        def on_batch_begin(self, net, **kwargs):
            net.network[1].eval()

    params = {"module": Network, "k": 2, "max_epochs": 2, "random_state": 0}
    alone = TopKClassifier(callbacks=[Freeze()], **params).fit(X, Y)
    clf = TopKClassifier(**params)
    watch = Alternate(clf, "before a step")
    clf.set_params(callbacks=[Freeze(), watch]).fit(X, Y)
    assert watch.scores
    assert_same_state(clf, alone)
    assert torch.equal(clf.net_.network[1].running_mean, torch.zeros(8))


def test_training_waits_for_a_prediction_that_has_begun():
    clf, alone = (
        TopKClassifier(k=2, module=Network, max_epochs=1, random_state=0).fit(X, Y)
        for _ in range(2)
    )
    expected = clf.decision_function(X)
    Network.entered.clear()
    Network.held = threading.Event()
    found, threads = [], [
        threading.Thread(target=lambda: found.append(clf.decision_function(X))),
        threading.Thread(target=lambda: clf.partial_fit(X, Y)),
    ]  # fmt: skip
    try:
        threads[0].start()
        assert Network.entered.wait(60)
        threads[1].start()
        threads[1].join(0.3)
        # Nothing was learnt, and the mode is that of the prediction.
        assert_same_state(clf, alone)
        assert not any(part.training for part in clf.net_.module_.modules())
    finally:
        Network.held.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(60)
        Network.held = None
    np.testing.assert_array_equal(found[0], expected)
    assert_same_state(clf, alone.partial_fit(X, Y))


def test_two_predictions_run_side_by_side():
    both = threading.Barrier(2, timeout=60)

    class Meet(Network):
        meet = False

        def forward(self, x):
            if Meet.meet:
                both.wait()
            return super().forward(x)

    clf = TopKClassifier(k=2, module=Meet, max_epochs=1, random_state=0).fit(X, Y)
    Meet.meet = True
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(clf.decision_function(X))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2
    np.testing.assert_array_equal(*found)


def test_a_server_predicts_while_it_learns():
    params = {**NETWORKS["plain"], "k": 2, "batch_size": 16, "random_state": 0}
    clf, alone = (TopKClassifier(max_epochs=1, **params).fit(X, Y) for _ in range(2))
    over, answers, failed = threading.Event(), [], []

    def serve():
        try:
            while not over.wait(0.001):
                answers.append(clf.decision_function(X[:5]))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            clf.partial_fit(X, Y)
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert not failed
    assert np.isfinite(answers).all()
    for _ in range(5):
        alone.partial_fit(X, Y)
    assert_same_state(clf, alone)


@pytest.mark.parametrize("k", [1, 2])
def test_of_many_classes_every_answer_has_all_of_them(k, monkeypatch):
    # In a step the last layer has the rows of the candidates alone.
    monkeypatch.setattr("sktopk._training._class_blocks.BLOCK_CLASSES", 8)
    rows = rng.standard_normal((200, 5))
    y = np.arange(200) % 50
    params = {"k": 1, "n_candidates": 10, "max_epochs": 1, "random_state": 0}
    params["batch_size"] = 10
    clf, alone = (TopKClassifier("cross_entropy", **params).fit(rows, y) for _ in range(2))
    over, failed, n_answers = threading.Event(), [], []

    def serve():
        try:
            while not over.wait(0.001):
                assert clf.decision_function(rows[:2]).shape == (2, 50)
                assert clf.predict_topk(rows[:2], k=k).shape == (2, k)
                n_answers.append(1)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        for _ in range(5):
            clf.partial_fit(rows, y)
    finally:
        over.set()
        thread.join(60)
    assert not failed
    assert n_answers
    for _ in range(5):
        alone.partial_fit(rows, y)
    assert_same_state(clf, alone)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_of_a_net_waits_for_nobody_else(copied):
    net = TopKClassifier(k=2, max_epochs=1, hidden_layer_sizes=(), random_state=0).fit(X, Y).net_
    turns = copied(net.turns)
    with net.turns.door:
        assert turns.train(net.module_, lambda: 1) == 1
        other = threading.Thread(target=turns.predict, args=(net.module_, lambda: 1))
        other.start()
        other.join(60)
        assert not other.is_alive()
