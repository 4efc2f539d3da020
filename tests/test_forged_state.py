"""Training state from a file is checked against the network before it is used.

Fused optimizers and random generators of torch do not check their state: with a wrong state they
write and read outside of their memory. Files of `dump` and checkpoints use the same check.
"""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.preprocessing import FunctionTransformer
from skorch.callbacks import LRScheduler

from sktopk import TopKClassifier
from sktopk.io import dump, load
from tests.crashing import Crash, WithDropout, X, Y, crash_and_resume, crashing, edited, quick


def shortened(value):
    return value.reshape(-1)[:1]


def widened(value):
    return value.astype(np.float64) if isinstance(value, np.ndarray) else value.double()


def filled(number):
    def change(value):
        full = np.full_like if isinstance(value, np.ndarray) else torch.full_like
        return full(value, number)

    return change


def with_position(value):
    """State of a generator whose next number would be read far outside of its memory."""
    found = value.copy() if isinstance(value, np.ndarray) else value.clone()
    found[20] = 1
    return found


def at(*path, change):
    def edit(state):
        *folders, last = path
        for each in folders:
            state = state[each]
        state[last] = change(state[last])

    return edit


MOMENT = ("optimizer", "state", 0, "exp_avg")
STEP = ("optimizer", "state", 0, "step")
GROUP = ("optimizer", "param_groups", 0)
EDITS = {
    "moment of another shape": at(*MOMENT, change=shortened),
    "moment of another dtype": at(*MOMENT, change=widened),
    "moment that is not finite": at(*MOMENT, change=filled(np.inf)),
    "moment that is a number": at(*MOMENT, change=lambda value: 0.0),
    "step below 0": at(*STEP, change=filled(-1)),
    "step between integers": at(*STEP, change=filled(0.5)),
    "step that is not finite": at(*STEP, change=filled(np.nan)),
    "step of several numbers": at(*STEP, change=lambda value: value.reshape(1)),
    "moments of another parameter": at(*MOMENT[:2], change=lambda of: {0: of[1]}),
    "an unknown parameter": at(*MOMENT[:2], change=lambda of: of | {99: of[0]}),
    "an unknown moment": at(*MOMENT[:3], change=lambda of: of | {"more": of["exp_avg"]}),
    "parameters in another order": at(*GROUP, "params", change=lambda found: found[::-1]),
    "another kind of optimizer": at(*GROUP, "amsgrad", change=lambda found: True),
    "rate that is not finite": at(*GROUP, "lr", change=lambda found: np.nan),
    "rates that are no numbers": at(*GROUP, "betas", change=lambda found: ["a", "b"]),
    "weights of another shape": at("weights", "3.weight", change=shortened),
    "weights of another dtype": at("weights", "3.weight", change=widened),
    "weights that are not finite": at("weights", "3.weight", change=filled(np.nan)),
    "buffer that is not finite": at("weights", "1.running_mean", change=filled(-np.inf)),
    "position of the generator": at("generator", change=with_position),
    "generator of another size": at("generator", change=lambda found: found[:-1]),
    "position of dropout": at("rng_state", 0, change=with_position),
    "position of the noise": at("noise", change=with_position),
    "missing weights": lambda state: state.pop("weights"),
    "an unknown entry": lambda state: state.update(more=0),
}


def make(**params):
    return quick(loss="noised_topk", module=WithDropout, **params)


@pytest.fixture(scope="module")
def fitted():
    return make().fit(X, Y)


@pytest.mark.parametrize("name", [None, *EDITS])
def test_a_forged_file_of_dump_raises(name, fitted, tmp_path, monkeypatch):
    pytest.importorskip("skops")
    trusted, whole = [WithDropout, Crash], TopKClassifier.__getstate__

    def forged(self):
        state = whole(self)
        EDITS[name](state["net_"])
        return state

    if name is None:
        found = load(dump(fitted, tmp_path / "whole"), trusted=trusted).decision_function(X)
        return np.testing.assert_array_equal(found, fitted.decision_function(X))
    monkeypatch.setattr(TopKClassifier, "__getstate__", forged)
    path = dump(fitted, tmp_path / "forged")
    with pytest.raises(ValueError, match=r"forged cannot be loaded: (Value|Runtime)Error"):
        load(path, trusted=trusted)


def check_refused(path, edit, **params):
    """Edit the checkpoint of a crashed fit, and check that the next fit raises before any epoch."""
    with crashing(after=1):
        make(**params).fit(X, Y, checkpoint=path)
    edited(path, edit)
    Crash.n_epochs = 0
    with pytest.raises(ValueError, match="does not fit this network and its callbacks"):
        make(**params).fit(X, Y, checkpoint=path)
    assert Crash.n_epochs == 0


# This tensor has many entries, but memory for one number. An optimizer would write all entries.
OVERLAPPING = at(*MOMENT, change=lambda value: torch.zeros(1).expand(value.shape))
OF_NETWORK = EDITS | {"overlapping memory": OVERLAPPING}


@pytest.mark.parametrize("name", OF_NETWORK)
def test_a_forged_checkpoint_raises(name, tmp_path):
    check_refused(tmp_path / "file", lambda state: OF_NETWORK[name](state["net"]))


BEST = ("validation", "weights", "3.weight")
STOPPING, SCHEDULE = {"n_iter_no_change": 9}, {"callbacks": [("lr", LRScheduler())]}
OF_CALLBACKS = {
    "best weights of another shape": (at(*BEST, change=shortened), STOPPING),
    "best weights that are not finite": (at(*BEST, change=filled(np.nan)), STOPPING),
    "missing best weights": (at(*BEST[:2], change=lambda of: {"0.bias": of["0.bias"]}), STOPPING),
    "best epoch that is no number": (at("validation", "epoch", change=lambda found: "a"), STOPPING),
    "a method of the schedule": (at("lr", change=lambda found: found | {"step": 0}), SCHEDULE),
    "step of the schedule": (at("lr", "last_epoch", change=lambda found: "a"), SCHEDULE),
    "rate of the schedule": (at("lr", "base_lrs", change=lambda found: [np.inf]),
        {"callbacks": [("lr", LRScheduler("StepLR", step_size=2))]}),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_CALLBACKS)
def test_a_checkpoint_with_other_callbacks_raises(name, tmp_path):
    edit, params = OF_CALLBACKS[name]
    check_refused(tmp_path / "file", lambda s: edit(s["callbacks"]), log_loss_share=0, **params)


OPTIMIZERS = {
    "Adam": {}, "SGD": {"optimizer__momentum": 0.9}, "Adagrad": {},
    "RMSprop": {"optimizer__centered": True}, "Adafactor": {}, "NAdam": {}, "RAdam": {}, "ASGD": {},
    "Rprop": {}, "LBFGS": {"optimizer__max_iter": 2},
}  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_unchanged_state_of_any_optimizer_is_accepted(optimizer, tmp_path):
    params = {"learning_rate": 1e-3, "loss": "cross_entropy", "max_epochs": 3}
    params["net_params"] = {"optimizer": getattr(torch.optim, optimizer), **OPTIMIZERS[optimizer]}
    path = tmp_path / "file"
    clf, *_ = crash_and_resume(lambda: quick(**params), 1, X=X, y=Y, checkpoint=path)
    expected = quick(**params).fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(clf.decision_function(X), expected)


def test_forged_random_states_and_sparse_matrices_cannot_read_outside_of_memory(tmp_path):
    pytest.importorskip("skops")
    random = np.random.RandomState(0)  # no number is drawn from it
    state = random.get_state(legacy=False)
    state["state"]["pos"] = 2**30
    random.set_state(state)
    path = dump(TopKClassifier(random_state=random), tmp_path / "file")
    with pytest.raises(ValueError, match=r"random state must have pos in .*624\]; got 10"):
        load(path)
    matrix = csr_array(np.eye(3))
    matrix.indices[:] = 2**30
    path = dump(FunctionTransformer(kw_args={"matrix": matrix}), tmp_path / "file")
    with pytest.raises(ValueError, match=r"file cannot be loaded: .*indices"):
        load(path, trusted=[csr_array])
