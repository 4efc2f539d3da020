"""Small fits that crash after a given epoch, and bitwise comparisons of what they learned."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch import nn

from sktopk import TopKClassifier
from sktopk.modules import MLP

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 6))
Y = (X[:, :3] + rng.standard_normal((300, 3))).argmax(axis=1)
POSITIVE = (X[:, 0] + rng.standard_normal(300) > 1.2).astype(int)


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        layers = nn.Linear(n_features, 9), nn.BatchNorm1d(9), nn.Dropout(0.5)
        super().__init__(*layers, nn.Linear(9, n_outputs))


class Crash(Callback):
    """Raises after `after` epochs, and counts the epochs that begin."""

    after, error, n_epochs = None, RuntimeError, 0

    def on_epoch_begin(self, net, **kwargs):
        Crash.n_epochs += 1

    def on_batch_begin(self, net, **kwargs):
        if len(net.history) - 1 == Crash.after:
            raise Crash.error("crash")


def hook(**methods):
    return type("Hook", (Callback,), methods)()


def rate(event):
    """Return a callback and a list. The callback appends the learning rate at each `event`."""
    found = []

    def note(self, net, **kwargs):
        found.append(net.optimizer_.param_groups[0]["lr"])

    return hook(**{event: note}), found


@contextmanager
def crashing(after, error=RuntimeError):
    """Make the fit of a `quick` estimator crash after `after` epochs, inside this context."""
    Crash.after, Crash.error = after, error
    try:
        with pytest.raises(error, match="crash"):
            yield
    finally:
        Crash.after = None


def small(classifier=TopKClassifier, **params):
    """A small network that holds out no samples and trains on ten minibatches per epoch."""
    params = {
        "module": MLP, "hidden_layer_sizes": (8,), "batch_size": 32, "max_epochs": 6,
        "n_estimators": 1, "calibration": None, "random_state": 0,
    } | params  # fmt: skip
    return classifier(**{"k": 2} | params if classifier is TopKClassifier else params)


def quick(*args, callbacks=(), **params):
    """Like `small`, but the fit crashes if it runs inside the context `crashing`."""
    return small(*args, callbacks=[("crash", Crash()), *callbacks], **params)


def target(clf):
    return Y if isinstance(clf, TopKClassifier) else POSITIVE


def fitted_state(clf):
    """The fitted state without the times of the epochs."""
    state = clf.__getstate__()
    history = [{k: v for k, v in row.items() if k != "dur"} for row in state["history_"]]
    names = ("weights", "optimizer", "generator", "rng_state", "noise", "criterion")
    learned = {name: state["net_"][name] for name in names}
    fitted = {k: v for k, v in state.items() if k.endswith("_") and not k.startswith("_")}
    rest = {k: v for k, v in fitted.items() if k not in ("net_", "history_")}
    return [learned, history, rest]


def check_same(a, b):
    """Check that types, shapes and all bits are equal."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list | tuple):
        assert len(a) == len(b)
        for each in zip(a, b, strict=True):
            check_same(*each)
    elif isinstance(a, torch.Tensor):
        check_same([a.device, a.dtype, a.float().numpy()], [b.device, b.dtype, b.float().numpy()])
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    else:
        assert a == b or a != a


def edited(path, change):
    """Change the content of a checkpoint file, as a forger would."""
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


def crash_and_resume(make, after, **data):
    """Fit, crash after some epochs, fit again; return the estimator and the epochs of each fit."""
    Crash.n_epochs = 0
    with crashing(after):
        make().fit(**data)
    first, clf = Crash.n_epochs, make()
    return clf, first, counted(clf.fit, **data)


def counted(fit, *args, **kwargs):
    Crash.n_epochs = 0
    fit(*args, **kwargs)
    return Crash.n_epochs
