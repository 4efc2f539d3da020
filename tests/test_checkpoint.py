"""A fit that is killed at any moment and called again ends like a fit without interruption."""

import copy
import errno
import multiprocessing
import os
import pickle
import signal
from datetime import datetime
from functools import partial

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from skorch.callbacks import Callback, EarlyStopping, Freezer, LRScheduler
from torch import nn
from torch.utils.data import TensorDataset

import sktopk
from sktopk.modules import TabularMLP
from tests import crashing as crashes
from tests.crashing import Crash, X, Y, check_same, counted, crashing, edited, fitted_state, quick

quick = partial(quick, batch_size=100)  # three minibatches
ENSEMBLE = {"module": TabularMLP, "n_estimators": 3}
MAKE = {
    "dropout": lambda: quick(module=crashes.WithDropout),
    "noise, schedule, momentum, early stopping": lambda: quick(
        loss="noised_topk", n_iter_no_change=20,
        net_params={"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9},
        callbacks=[("lr", LRScheduler("CosineAnnealingLR", T_max=15))]),
    "ensemble": lambda: quick(n_iter_no_change=20, calibration="temperature", **ENSEMBLE),
    "ensemble of the user's network": lambda: quick(
        n_estimators=2, module=crashes.WithDropout, random_state=np.random.RandomState(7)),
    "hard samples": lambda: quick(
        sktopk.DeepTopPushClassifier, buffer_size=3, n_iter_no_change=20, calibration="sigmoid"),
    "ensemble with hard samples": lambda: quick(
        sktopk.PatMatClassifier, buffer_size=5, n_iter_no_change=20, **ENSEMBLE),
    "linear program": lambda: quick(
        sktopk.FScoreClassifier, callbacks=[LRScheduler("ReduceLROnPlateau", patience=1)]),
    "bfloat16, LBFGS, class weights": lambda: quick(
        loss="logit_adjusted", class_weight="balanced", batch_size=300, learning_rate=0.01,
        net_params={"optimizer": torch.optim.LBFGS, "optimizer__max_iter": 4, "precision": "bf16"}),
    "skorch's early stopping, loss of the user": lambda: quick(
        loss=nn.CrossEntropyLoss(label_smoothing=0.1),
        callbacks=[EarlyStopping("valid_loss", patience=9, load_best=True)],
        n_iter_no_change=20, learning_rate=0.3),
    "frozen, schedule of minibatches": lambda: quick(
        callbacks=[Freezer("0.bias", at=1), LRScheduler(
            "CyclicLR", base_lr=1e-4, max_lr=1e-2, step_every="batch", cycle_momentum=False)]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKE)
def test_a_resumed_fit_equals_a_fit_without_a_crash(name, tmp_path):
    make, path = MAKE[name], tmp_path / "file"
    clf = make()
    y = crashes.target(clf)
    n_epochs, expected = counted(clf.fit, X, y), fitted_state(clf)
    for after in (1, 5) if n_epochs == 6 else (1, 2):
        clf, first, second = crashes.crash_and_resume(make, after, X=X, y=y, checkpoint=path)
        check_same(fitted_state(clf), expected)
        # Only the interrupted epoch was trained twice.
        assert (first, second) == (after + 1, n_epochs - after)
        assert list(tmp_path.iterdir()) == []


DATA = {
    "sparse, weights": {"X": csr_array(X), "y": Y, "sample_weight": 1 + Y},
    "labels, float32": {"X": X.astype(np.float32), "y": np.array(list("abc"))[Y]},
    "validation": {"X": X, "y": Y, "X_val": X[:60], "y_val": Y[:60]},
    "Dataset": {"X": TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))},
}


def test_a_fit_resumes_with_any_kind_of_data(tmp_path):
    for data in DATA.values():
        expected = fitted_state(quick().fit(**data))
        clf, *_ = crashes.crash_and_resume(quick, 3, **data, checkpoint=f"{tmp_path}/file")
        check_same(fitted_state(clf), expected)


def test_a_fit_with_groups_resumes_only_with_the_same_groups(tmp_path):
    groups, y = np.arange(300) % 6, crashes.POSITIVE
    make = partial(quick, sktopk.RecallAtKClassifier, k=5, batch_size=60, buffer_size=3)
    data = {"X": X, "y": y, "groups": groups}
    expected = fitted_state(make().fit(**data))
    with crashing(after=3):
        make().fit(**data, checkpoint=tmp_path / "file")
    with pytest.raises(ValueError, match="with other groups"):
        make().fit(X, y, groups=groups % 3, checkpoint=tmp_path / "file")
    with pytest.raises(ValueError, match=r"with other .*estimator"):
        quick(sktopk.PatMatClassifier, tau=0.1).fit(**data, checkpoint=tmp_path / "file")
    check_same(fitted_state(make().fit(**data, checkpoint=tmp_path / "file")), expected)


class OwnState(Callback):
    """A callback with state that is not among its parameters."""

    def __init__(self, factor):
        self.factor, self.n, self.handle = factor, 0, iter([])

    def on_train_begin(self, net, **kwargs):
        self.n = 0

    def on_epoch_end(self, net, **kwargs):
        self.n += 1
        net.history.record("n", self.n)

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


@pytest.mark.parametrize(
    "callbacks", [[], [("lr", LRScheduler("StepLR", step_size=2))], [OwnState(0.5)]]
)
def test_ctrl_c_keeps_the_network_and_the_same_object_continues(callbacks, tmp_path):
    params = {"n_iter_no_change": 9, "callbacks": callbacks}
    clf, match = quick(**params), "interrupted after epoch 4: the network is kept"
    with pytest.warns(UserWarning, match=match), crashing(after=4, error=KeyboardInterrupt):
        clf.fit(X, Y, checkpoint=tmp_path / "file")
    assert clf.n_iter_ == 4
    assert counted(clf.fit, X, Y, checkpoint=tmp_path / "file") == 2
    check_same(fitted_state(clf), fitted_state(quick(**params).fit(X, Y)))


def test_a_checkpoint_can_be_read_if_a_callback_records_other_objects(tmp_path):
    def record(self, net, **kwargs):
        net.history.record("at", datetime.now())
        net.history.record("names", np.array(["a", "b"]))

    with crashing(after=3):
        quick(callbacks=[crashes.hook(on_epoch_end=record)]).fit(X, Y, checkpoint=tmp_path / "file")
    clf = quick(callbacks=[crashes.hook(on_epoch_end=record)])
    assert counted(clf.fit, X, Y, checkpoint=tmp_path / "file") == 3


def test_a_fit_without_seed_continues_with_its_random_state(tmp_path):
    with crashing(after=3):
        quick(random_state=None).fit(X, Y, checkpoint=tmp_path / "file")
    files, fits = (tmp_path / "file").read_bytes(), []
    for _ in range(2):
        (tmp_path / "file").write_bytes(files)
        clf = quick(random_state=None)
        assert counted(clf.fit, X, Y, checkpoint=tmp_path / "file") == 3
        fits.append(fitted_state(clf))
    check_same(*fits)


def test_a_fit_that_stopped_early_does_not_train_on(tmp_path, monkeypatch):
    make = partial(quick, n_iter_no_change=1, max_epochs=50, learning_rate=0.2)
    expected = fitted_state(make().fit(X, Y))
    with monkeypatch.context() as killed:
        # Crash between the last epoch and the end of fit.
        killed.setattr(os, "unlink", lambda path: None)
        assert counted(make().fit, X, Y, checkpoint=tmp_path / "file") < 50
    clf = make()
    assert counted(clf.fit, X, Y, checkpoint=tmp_path / "file") == 0
    check_same(fitted_state(clf), expected)


def test_the_checkpoint_is_deleted_when_fit_ends_or_diverges(tmp_path):
    clf, path = quick(), tmp_path / "file"
    assert counted(clf.fit, X, Y, checkpoint=path) == 6
    assert counted(clf.fit, X, Y, checkpoint=path) == 6
    check_same(fitted_state(clf), fitted_state(quick().fit(X, Y)))
    sgd = {"net_params": {"optimizer": torch.optim.SGD}, "learning_rate": 1e300}
    with pytest.raises(ValueError, match="diverged"):
        quick(**sgd).fit(X, Y, checkpoint=path)
    assert list(tmp_path.iterdir()) == []


def killed_fit(path):
    """Fit until the process is killed: after epoch 2, before the new checkpoint is renamed."""
    replace, calls = os.replace, []

    def deadly(*args):
        calls.append(args)
        if len(calls) == 3:  # the first file is written before the first epoch
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*args)

    os.replace = deadly
    quick().fit(X, Y, checkpoint=path)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_is_killed_while_it_writes_loses_one_epoch(tmp_path):
    clf, path = quick(), tmp_path / "file"
    process = multiprocessing.get_context("fork").Process(target=killed_fit, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert counted(clf.fit, X, Y, checkpoint=path) == 5
    check_same(fitted_state(clf), fitted_state(quick().fit(X, Y)))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def unfinished(tmp_path):
    with crashing(after=3):
        quick().fit(X, Y, sample_weight=1 + Y, checkpoint=tmp_path / "file")
    return tmp_path / "file"


OTHER_X, OTHER_Y = X.copy(), Y.copy()
OTHER_X[-1, -1] += 1e-9
OTHER_Y[0] = (Y[0] + 1) % 3
CALLS = {
    "a rate": ({"learning_rate": 0.5}, {}, "learning_rate"),
    "a seed": ({"random_state": 1}, {}, "random_state"),
    "epochs": ({"max_epochs": 7}, {}, "max_epochs"),
    "a callback": ({"callbacks": [LRScheduler()]}, {}, "callbacks"),
    "a loss": ({"loss": nn.CrossEntropyLoss()}, {}, "loss"),
    "a module": ({"module": crashes.WithDropout}, {}, "module"),
    "X": ({}, {"X": OTHER_X}, "X"),
    "the float type": ({}, {"X": X.astype(np.float32)}, "X"),
    "labels": ({}, {"y": np.array(list("abc"))[Y]}, "y"),
    "weights": ({}, {"sample_weight": None}, "weight"),
    "validation": ({}, {"X_val": X, "y_val": Y}, "X_val, groups_val, weight_val, y_val"),
    "two": ({"tau": 0.5}, {"y": OTHER_Y}, "tau, y"),
}


def test_a_checkpoint_of_another_call_raises_and_names_the_difference(unfinished):
    fitted = quick().fit(X[:, :4], Y)
    before, content = fitted.predict_topk(X[:, :4]), unfinished.read_bytes()
    for params, data, what in CALLS.values():
        clf = copy.copy(fitted).set_params(**params)
        with pytest.raises(ValueError, match=f"belongs to another fit, with other {what}\\."):
            clf.fit(**{"X": X, "y": Y, "sample_weight": 1 + Y} | data, checkpoint=unfinished)
        assert unfinished.read_bytes() == content
        np.testing.assert_array_equal(clf.predict_topk(X[:, :4]), before)


def test_rows_of_a_csr_matrix_tensors_and_attributes_of_losses_distinguish_calls(tmp_path):
    weight = np.arange(len(Y))  # the first sample has weight 0

    def fit(rows=X, number=1.0, smoothing=0.1):
        number = torch.full((3, 2), number, dtype=torch.bfloat16)[:, 0]
        module = partial(lambda n, m, number: nn.Linear(n, m), number=number)
        clf = quick(module=module, loss=nn.CrossEntropyLoss(label_smoothing=smoothing))
        call = {"sample_weight": weight, "checkpoint": tmp_path / "file"}
        return counted(clf.fit, csr_array(rows), Y, **call)

    with crashing(after=3):
        fit()
    for other, what in [({"rows": OTHER_X}, "X"), ({"number": 2.0}, "module")]:
        with pytest.raises(ValueError, match=f"with other {what}\\."):
            fit(**other)
    with pytest.raises(ValueError, match="with other loss"):
        fit(smoothing=0.2)
    assert fit() == 3


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


DAMAGES = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-300]),
    "empty": lambda path: path.write_bytes(b""),
    "another file": lambda path: path.write_bytes(b"PK\3\4" + path.read_bytes()),
    "a pickle": lambda path: path.write_bytes(pickle.dumps(Evil())),
    "code": lambda path: torch.save({"call": Evil()}, path),
    "a list": lambda path: torch.save([1, 2], path),
    "nothing": lambda path: torch.save({}, path),
    **{
        f"no {key}": lambda path, key=key: edited(path, lambda state: state.pop(key))
        for key in ("call", "seed", "n_epochs", "stopped", "net", "callbacks")
    },
    "seed": lambda path: edited(path, lambda state: state.update(seed="x")),
    "epochs": lambda path: edited(path, lambda state: state.update(n_epochs=-4)),
    "optimizer": lambda path: edited(path, lambda state: state["net"].update(optimizer=[])),
    "history": lambda path: edited(path, lambda state: state["net"].update(history=[1, 2])),
    "criterion": lambda path: edited(path, lambda state: state["net"].update(criterion=[1])),
}


def test_a_damaged_or_forged_file_raises_and_is_kept_but_not_run(unfinished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole, match = unfinished.read_bytes(), "checkpoint=.*Delete the file to train anew, or pass an"
    for name, damage in DAMAGES.items():
        unfinished.write_bytes(whole)
        damage(unfinished)
        data, clf = unfinished.read_bytes(), quick()
        Crash.n_epochs = 0
        with pytest.raises(ValueError, match=match):
            clf.fit(X, Y, sample_weight=1 + Y, checkpoint=unfinished)
        assert Crash.n_epochs == 0, name
        assert unfinished.read_bytes() == data, name
        assert not hasattr(clf, "net_"), name
        assert list(tmp_path.iterdir()) == [unfinished], name


def test_an_impossible_path_raises_before_the_training():
    Crash.n_epochs = 0
    for path, error, message in [
        (5, TypeError, "checkpoint must be the path of a file or None; got 5"),
        (b"file", TypeError, "checkpoint must be the path"),
        ("", IsADirectoryError, "is a folder"),
        ("/tmp", IsADirectoryError, "'/tmp' is a folder"),
        ("a\0b", ValueError, "without NUL"),
        ("/no/such/file", FileNotFoundError, "must be in a folder; there is no '/no"),
    ]:
        with pytest.raises(error, match=message):
            quick().fit(X, Y, checkpoint=path)
    assert Crash.n_epochs == 0


@pytest.mark.parametrize("n_epochs", [0, 3])
def test_a_full_disk_keeps_the_last_checkpoint(n_epochs, tmp_path, monkeypatch):
    replace, calls, clf = os.replace, [], quick()

    def full(*args):
        calls.append(args)
        if len(calls) == n_epochs + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(*args)

    monkeypatch.setattr(os, "replace", full)
    Crash.n_epochs = 0
    match = rf"after epoch {n_epochs} \(No space left on device\): free space or pass another path"
    with pytest.raises(OSError, match=match):
        clf.fit(X, Y, checkpoint=tmp_path / "file")
    assert Crash.n_epochs == n_epochs
    monkeypatch.undo()
    assert counted(clf.fit, X, Y, checkpoint=tmp_path / "file") == (4 if n_epochs else 6)
    check_same(fitted_state(clf), fitted_state(quick().fit(X, Y)))


def test_two_fits_cannot_share_a_path(tmp_path):
    def meddle(self, net, **kwargs):
        if acts and len(net.history) == 2:
            acts.pop()()

    path, meddler, acts = tmp_path / "file", crashes.hook(on_epoch_end=meddle), []
    clf = quick(callbacks=[meddler])

    def another():
        with pytest.raises(ValueError, match="with other tau"):
            quick(callbacks=[meddler], tau=0.5).fit(X, Y, checkpoint=path)

    acts.append(another)
    clf.fit(X, Y, checkpoint=path)
    assert acts == []
    acts.append(lambda: path.write_bytes(b"mine"))
    with pytest.raises(OSError, match="was written by another fit: use another path"):
        clf.fit(X, Y, checkpoint=path)
    assert path.read_bytes() == b"mine"
