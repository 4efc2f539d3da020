"""A fit that is killed at any moment goes on where it was, and ends as if nothing had happened."""

import os
import signal
import time

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from skorch.callbacks import Callback, EarlyStopping, Freezer, LRScheduler
from torch import nn

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    PrecisionAtRecallProgramClassifier,
    TopPushKClassifier,
)
from sktopk._training.checkpoint import _checkpoint as checkpoint_module
from tests.crashing import (
    POSITIVE,
    WithDropout,
    X,
    Y,
    check_same,
    counted,
    crash_and_resume,
    crashing,
    fitted_state,
    in_process,
    quick,
    target,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Training interrupted after epoch"
)

# Killed at random moments. A server that has imported everything forks each process.

KILLED = {
    "noise, schedule, early stopping": lambda: quick(
        loss="noised_topk",
        optimizer="sgd",
        learning_rate=0.02,
        net_params={"optimizer__momentum": 0.9},
        callbacks=[("lr", LRScheduler("CosineAnnealingLR", T_max=15))],
        early_stopping=True,
        n_iter_no_change=20,
        max_epochs=20,
    ),
    "hard rows": lambda: quick(
        DeepTopPushClassifier,
        buffer_size=3,
        early_stopping=True,
        scoring="balanced_accuracy",
        n_iter_no_change=20,
        max_epochs=20,
        calibration="sigmoid",
        checkpoint_every=3,
    ),
    "dropout": lambda: quick(module=WithDropout, optimizer="adamw", max_epochs=20),
    "linear program": lambda: quick(
        FScoreClassifier, max_epochs=20, callbacks=[LRScheduler("ReduceLROnPlateau", patience=1)]
    ),
}


def fit_in_process(name, folder, connection, when=None):
    torch.set_num_threads(1)
    clf = KILLED[name]().set_params(checkpoint=f"{folder}/checkpoint")
    if when is not None:
        die_at(*when)
    connection.send("begin")
    clf.fit(X, target(clf))
    connection.send(fitted_state(clf))


def die_at(function, call, before):
    """Kill this process at some call of a function of `os`."""
    original, calls = getattr(os, function), []

    def deadly(*args):
        calls.append(args)
        if len(calls) == call and before:
            os.kill(os.getpid(), signal.SIGKILL)
        original(*args)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(os, function, deadly)


@pytest.mark.parametrize("name", KILLED)
def test_a_fit_killed_at_random_moments_ends_as_if_it_never_was(name, tmp_path):
    clf = KILLED[name]()
    expected = fitted_state(clf.fit(X, target(clf)))
    begin = time.perf_counter()
    clf.fit(X, target(clf))
    seconds = time.perf_counter() - begin
    delays = np.random.default_rng(len(name))
    n_kills = 0
    while n_kills < 5:
        delay = delays.uniform(0, seconds)
        said, code = in_process(fit_in_process, name, str(tmp_path), kill_after=delay)
        n_kills += code == -signal.SIGKILL
        if said != "begin":
            check_same(said, expected)
    said, code = in_process(fit_in_process, name, str(tmp_path))
    check_same([said, code], [expected, 0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "when",
    [("fsync", 1, True), ("fsync", 4, True), ("replace", 4, True), ("replace", 4, False)],
    ids=str,
)
def test_a_kill_in_the_middle_of_writing_loses_nothing(when, tmp_path):
    name = "hard rows"
    clf = KILLED[name]()
    _, code = in_process(fit_in_process, name, str(tmp_path), when)
    assert code == -signal.SIGKILL
    said, _ = in_process(fit_in_process, name, str(tmp_path))
    check_same(said, fitted_state(clf.fit(X, target(clf))))
    assert list(tmp_path.iterdir()) == []


# What is resumed, and that it is.

VARIANTS = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"precision": "bfloat16"},
    "momentum": {"optimizer": "sgd", "net_params": {"optimizer__momentum": 0.9}},
    "foreach": {"net_params": {"optimizer__foreach": True}},
    "rmsprop": {"optimizer": torch.optim.RMSprop},
    "lbfgs": {"optimizer": torch.optim.LBFGS, "learning_rate": 0.1, "batch_size": 300},
    "weights": {"class_weight": "balanced", "loss": "logit_adjusted"},
    "skorch early stopping": {
        "callbacks": [EarlyStopping("train_loss", patience=2, load_best=True)]
    },
    "freezer": {"callbacks": [Freezer("*0.bias", at=2)]},
    "loss of one's own": {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)},
    "random state": {"random_state": np.random.RandomState(7)},
}
SCHEDULES = {
    "StepLR": {"step_size": 2},
    "CyclicLR": {"base_lr": 1e-4, "max_lr": 1e-2, "step_every": "batch", "cycle_momentum": False},
    "WarmRestartLR": {"base_period": 2},
    "MultiStepLR": {"milestones": [1, 3]},
    "ReduceLROnPlateau": {"patience": 0, "threshold": 0.5},
    torch.optim.lr_scheduler.OneCycleLR: {"max_lr": 0.1, "total_steps": 60, "step_every": "batch"},
    torch.optim.lr_scheduler.CosineAnnealingWarmRestarts: {"T_0": 2},
}
VARIANTS |= {
    f"schedule {getattr(policy, '__name__', policy)}": {
        "callbacks": [("lr", LRScheduler(policy, **params))]
    }
    for policy, params in SCHEDULES.items()
}


@pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS)
def test_a_resumed_fit_equals_one_that_was_never_interrupted(params, tmp_path):
    def make(**more):
        # Each call comes from a program that starts anew.
        return clone(quick(**params, **more))

    clf = make()
    n_epochs = counted(clf.fit, X, Y)
    expected = fitted_state(clf)
    clf, first, second = crash_and_resume(lambda: make(checkpoint=tmp_path / "file"), 3, X=X, y=Y)
    check_same(fitted_state(clf), expected)
    # The epoch that broke off is the only one that was done twice.
    assert (first, second) == (4, n_epochs - 3)


@pytest.mark.parametrize("every", [2, 4, 100])
@pytest.mark.parametrize(
    "classifier",
    [
        AUCClassifier(),
        FScoreClassifier(),
        PatMatClassifier(tau=0.1, buffer_size=10),
        PrecisionAtRecallProgramClassifier(),
        TopPushKClassifier(k=2, buffer_size=3),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_every_estimator_resumes_from_the_last_writing(classifier, every, tmp_path):
    params = quick(max_epochs=6).get_params()
    names = ("module", "hidden_layer_sizes", "batch_size", "max_epochs", "callbacks")
    names += ("random_state",)
    classifier = clone(classifier).set_params(**{name: params[name] for name in names})
    data = {"X": csr_array(X), "y": np.array(["no", "yes"])[POSITIVE], "sample_weight": 1 + Y}
    expected = fitted_state(clone(classifier).fit(**data))
    classifier.set_params(checkpoint=str(tmp_path / "file"), checkpoint_every=every)
    clf, _, second = crash_and_resume(lambda: clone(classifier), 5, **data)
    check_same(fitted_state(clf), expected)
    assert second == 6 - 5 // every * every


def test_an_unseeded_fit_goes_on_with_its_own_seed(tmp_path):
    def make(seed, **more):
        np.random.seed(seed)  # noqa: NPY002
        return quick(random_state=None, early_stopping=True, **more)

    before = np.random.get_state()  # noqa: NPY002
    try:
        expected = fitted_state(make(1).fit(X, Y))
        with crashing(after=3):
            make(1, checkpoint=tmp_path / "file").fit(X, Y)
        # A program that starts anew has other random numbers.
        clf = make(2, checkpoint=tmp_path / "file")
        assert counted(clf.fit, X, Y) == 3
        check_same(fitted_state(clf), expected)
        assert not np.array_equal(clf.decision_function(X), clf.fit(X, Y).decision_function(X))
    finally:
        np.random.set_state(before)  # noqa: NPY002


def test_a_warm_start_resumes_from_the_fit_it_goes_on_from(tmp_path):
    def fitted():
        clf = quick(warm_start=True).fit(X, Y)
        return clf.set_params(checkpoint=tmp_path / "file", learning_rate=0.01)

    expected = fitted_state(fitted().fit(X, Y))
    with crashing(after=9):
        fitted().fit(X, Y)
    clf = fitted()
    assert counted(clf.fit, X, Y) == 3
    check_same(fitted_state(clf), expected)
    # Not a fit that goes on from elsewhere.
    with crashing(after=9):
        fitted().fit(X, Y)
    with pytest.raises(ValueError, match=r"start was after 6 epochs.*is with a new network"):
        quick(warm_start=True, learning_rate=0.01, checkpoint=tmp_path / "file").fit(X, Y)


def test_a_fit_that_had_stopped_early_stays_stopped(tmp_path, monkeypatch):
    def make(**more):
        return quick(early_stopping=True, n_iter_no_change=2, max_epochs=50, tol=1.0, **more)

    expected = fitted_state(make().fit(X, Y))
    with monkeypatch.context() as killed:
        # Between the last epoch and the end of fit.
        killed.setattr(checkpoint_module.Checkpoint, "remove", lambda self: None)
        assert counted(make(checkpoint=tmp_path / "file").fit, X, Y) < 50
    clf = make(checkpoint=tmp_path / "file")
    assert counted(clf.fit, X, Y) == 0
    check_same(fitted_state(clf), expected)


def test_ctrl_c_keeps_the_weights_and_the_file(tmp_path):
    clf = quick(checkpoint=tmp_path / "file", early_stopping=True)
    with (
        pytest.warns(UserWarning, match="interrupted after epoch 4: the network keeps its weights"),
        crashing(after=4, error=KeyboardInterrupt),
    ):
        clf.fit(X, Y)
    assert clf.n_iter_ == 4
    assert clf.predict_topk(X).shape == (300, 2)
    expected = fitted_state(quick(early_stopping=True).fit(X, Y))
    assert counted(clf.fit, X, Y) == 2
    check_same(fitted_state(clf), expected)


def test_the_file_goes_when_fit_ends_and_the_next_call_trains_anew(tmp_path):
    clf = quick(checkpoint=tmp_path / "file")
    assert counted(clf.fit, X, Y) == 6
    first = fitted_state(clf)
    assert list(tmp_path.iterdir()) == []
    assert counted(clf.fit, X, Y) == 6
    check_same(fitted_state(clf), first)
    check_same(first, fitted_state(quick().fit(X, Y)))
    with pytest.raises(ValueError, match="diverged"):
        quick(checkpoint=tmp_path / "file", optimizer="sgd", learning_rate=1e300).fit(X, Y)
    assert list(tmp_path.iterdir()) == []


# Callbacks of one's own.


class Plain(Callback):
    """Has what it counted in plain attributes, and acts on it."""

    def __init__(self, factor):
        self.factor, self.seen = factor, {"losses": []}

    def on_epoch_end(self, net, **kwargs):
        self.seen["losses"].append(net.history[-1]["train_loss"])
        net.optimizer_.param_groups[0]["lr"] *= self.factor ** len(self.seen["losses"])


class OwnState(Callback):
    def __init__(self):
        self.n, self.handle = 0, iter([])

    def on_epoch_end(self, net, **kwargs):
        self.n += 1
        net.optimizer_.param_groups[0]["lr"] /= self.n

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


@pytest.mark.parametrize("callback", [Plain(0.9), OwnState()], ids=["attributes", "state_dict"])
def test_callbacks_remember(callback, tmp_path):
    def make(**more):
        return quick(callbacks=[callback], **more)

    expected = fitted_state(make().fit(X, Y))
    clf, _, _ = crash_and_resume(lambda: make(checkpoint=tmp_path / "file"), 3, X=X, y=Y)
    check_same(fitted_state(clf), expected)
