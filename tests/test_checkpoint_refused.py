"""A checkpoint that does not fit, or cannot be written, is an error with a way out."""

import errno
import os
import re
import resource
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback, LRScheduler
from torch import nn
from torch.utils.data import Dataset

from sktopk._common import _fingerprints as fingerprints_module
from sktopk._common._array_file import write_arrays
from sktopk._common._dataset_rows import DatasetRows
from sktopk._common._fingerprints import describe_table
from sktopk._training.checkpoint import _checkpoint as checkpoint_module
from sktopk._training.checkpoint._file import read_state, write_state
from tests.crashing import (
    Crash,
    X,
    Y,
    check_same,
    counted,
    crashing,
    fitted_state,
    in_process,
    quick,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Training interrupted after epoch"
)

# What is refused.


@pytest.fixture
def unfinished(tmp_path):
    """The file of a fit that crashed."""
    with crashing(after=3):
        quick(checkpoint=tmp_path / "file").fit(X, Y, sample_weight=1 + Y)
    return tmp_path / "file"


OTHER_X, OTHER_Y = X.copy(), Y.copy()
OTHER_X[-1, -1] += 1e-9
OTHER_Y[0] = (Y[0] + 1) % 3
CALLS = {
    "a rate": ({"learning_rate": 0.5}, {}, r"learning_rate was 'auto', is 0\.5"),
    "a seed": ({"random_state": 1}, {}, "random_state was 0, is 1"),
    "epochs": ({"max_epochs": 7}, {}, "max_epochs was 6, is 7"),
    "a callback": ({"callbacks": [LRScheduler()]}, {}, "callbacks was .*, is .*LRScheduler"),
    "a loss": ({"loss": nn.CrossEntropyLoss()}, {}, "loss was 'smooth_topk', is Cross"),
    "X": ({}, {"X": OTHER_X}, "X was float64 of shape .300, 6., sha256"),
    "the dtype": ({}, {"X": X.astype(np.float32)}, "X was float64.*, is float32"),
    "y": ({}, {"y": OTHER_Y}, r"y was labels \[0, 1, 2\]"),
    "labels": ({}, {"y": np.array(list("abc"))[Y]}, r"is labels \['a', 'b', 'c'\]"),
    "weights": ({}, {"sample_weight": None}, "sample_weight was"),
    "validation": ({}, {"X_val": X, "y_val": Y}, "X_val was absent, is float64"),
    "two": ({"tau": 0.5}, {"y": OTHER_Y}, "tau was 1.0, is 0.5; y was"),
}


@pytest.mark.parametrize(("params", "data", "message"), CALLS.values(), ids=CALLS)
def test_another_call_is_refused_with_what_differs(params, data, message, unfinished):
    clf = quick().fit(X[:, :4], Y)
    before, content = clf.predict_topk(X[:, :4]), unfinished.read_bytes()
    clf.set_params(checkpoint=unfinished, **params)
    with pytest.raises(ValueError, match=rf"belongs to another call of fit \(.*{message}") as error:
        clf.fit(**{"X": X, "y": Y, "sample_weight": 1 + Y} | data)
    assert "Delete the file to train anew, or pass another path" in str(error.value)
    assert unfinished.read_bytes() == content
    np.testing.assert_array_equal(clf.predict_topk(X[:, :4]), before)


def test_another_version_is_refused(unfinished, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "versions", lambda: {"torch": "99.0"})
    with pytest.raises(ValueError, match=r"torch was .*, is 99\.0"):
        quick(checkpoint=unfinished).fit(X, Y, sample_weight=1 + Y)


DAMAGES = {
    "cut off": (lambda data: data[:-10], "is damaged: it is truncated or was altered"),
    "cut in the head": (lambda data: data[:40], "is damaged: it is truncated: 40 bytes"),
    "altered": (lambda data: data[:900] + bytes([data[900] ^ 1]) + data[901:], "is damaged"),
    "empty": (lambda data: b"", "is damaged: it is truncated: 0 bytes"),
    "another file": (lambda data: b"PK\3\4" + data, "is no checkpoint: .* a zip archive"),
    "another version": (
        lambda data: data.replace(b'"format_version":"2"', b'"format_version":"3"'),
        "newer than what this sktopk reads .*; upgrade sktopk",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_refused_and_kept(damage, message, unfinished):
    data = damage(unfinished.read_bytes())
    unfinished.write_bytes(data)
    clf = quick(checkpoint=unfinished)
    Crash.n_epochs = 0
    with pytest.raises(ValueError, match=f"{message}.*Delete the file to train anew"):
        clf.fit(X, Y, sample_weight=1 + Y)
    assert Crash.n_epochs == 0
    assert unfinished.read_bytes() == data
    with pytest.raises(NotFittedError):
        clf.predict(X)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (5, TypeError, "checkpoint must be the path of a file or None; got 5"),
        (b"file", TypeError, "checkpoint must be the path"),
        ("", IsADirectoryError, "is a folder"),
        ("/tmp", IsADirectoryError, "'/tmp' is a folder"),
        ("/no/such/file", FileNotFoundError, "there is no '/no/such': make it or pass another"),
    ],
)
def test_a_path_that_cannot_be_is_refused_before_training(path, error, message):
    with pytest.raises(error, match=message):
        quick(checkpoint=path).fit(X, Y)


def test_files_beside_it_are_left_alone(tmp_path):
    mine = tmp_path / "file.part"
    mine.write_text("mine")
    quick(checkpoint=tmp_path / "file").fit(X, Y)
    assert list(tmp_path.iterdir()) == [mine]
    assert mine.read_text() == "mine"


def test_other_parameters_are_refused(tmp_path):
    with pytest.raises(ValueError, match="checkpoint_every == 0, must be >= 1"):
        quick(checkpoint_every=0).fit(X, Y)
    clf = quick(checkpoint=tmp_path / "file")
    with pytest.raises(ValueError, match="is for fit: set checkpoint=None and save the estimator"):
        clf.partial_fit(X, Y)


def fit_in_vain(folder, kind, connection):
    connection.send("begin")
    if kind == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    elif os.getuid() == 0:
        os.setuid(65534)
    clf = quick(checkpoint=f"{folder}/file")
    try:
        clf.fit(X, Y)
    except OSError as error:
        connection.send((type(error).__name__, str(error), Crash.n_epochs, hasattr(clf, "net_")))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("unreadable", r"cannot be read \(Permission denied\): give its folder and the file"),
        ("read-only", r"cannot be written \(Permission denied\): give its folder"),
        ("full", r"cannot be written after epoch 0 \(File too large\): make room or pass another"),
    ],
)
def test_a_folder_that_takes_no_file_is_noticed_before_training(kind, message):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555 if kind == "read-only" else 0o755)
        file = Path(folder, "file")
        if kind == "unreadable":
            file.touch(mode=0)
        said, _ = in_process(fit_in_vain, folder, kind)
        name, text, n_epochs, is_fitted = said
        assert (name, n_epochs, is_fitted) == ("CheckpointError", 0, False)
        assert re.search(message, text), text
        assert list(Path(folder).iterdir()) == [file] * (kind == "unreadable")


def test_a_disk_that_fills_up_keeps_weights_and_the_last_file(tmp_path, monkeypatch):
    def full(path, state):
        if state["n_epochs"] == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_state(path, state)

    monkeypatch.setattr(checkpoint_module, "write_state", full)
    clf = quick(checkpoint=tmp_path / "file")
    with pytest.raises(OSError, match=r"after epoch 3 \(No space left on device\): make room"):
        clf.fit(X, Y)
    assert clf.n_iter_ == 3
    short = quick(max_epochs=3).fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), short.decision_function(X))
    monkeypatch.undo()
    assert counted(clf.fit, X, Y) == 4
    check_same(fitted_state(clf), fitted_state(quick().fit(X, Y)))


class Meddle(Callback):
    """Does something after the second epoch."""

    do = None

    def on_epoch_end(self, net, **kwargs):
        if Meddle.do is not None and len(net.history) == 2:
            do, Meddle.do = Meddle.do, None
            do()


def test_two_fits_cannot_share_a_path(tmp_path):
    path = tmp_path / "file"
    clf = quick(checkpoint=path, callbacks=[Meddle()])

    def another():
        with pytest.raises(ValueError, match=r"tau was 1\.0, is 0\.5"):
            clone(clf).set_params(tau=0.5).fit(X, Y)

    Meddle.do = another
    clf.fit(X, Y)
    head = path.with_name("other")

    def overwrite():
        quick_state = {"n_epochs": 0}
        write_state(path, quick_state)
        head.write_bytes(path.read_bytes())

    Meddle.do = overwrite
    with pytest.raises(OSError, match="was written by another fit in the meantime: each fit needs"):
        clf.fit(X, Y)
    assert path.read_bytes() == head.read_bytes()


def test_a_search_in_turn_may_share_a_path(tmp_path):
    search = GridSearchCV(
        quick(checkpoint=tmp_path / "file", max_epochs=2),
        {"tau": [0.5, 1.0]},
        cv=2,
        error_score="raise",
    )
    search.fit(X, Y)
    assert list(tmp_path.iterdir()) == []


class Handle(Callback):
    def on_train_begin(self, net, **kwargs):
        self.handle = iter([])


def test_a_callback_whose_state_no_file_can_hold_is_refused_before_training(tmp_path):
    clf = quick(callbacks=[Handle()], checkpoint=tmp_path / "file")
    with pytest.raises(ValueError, match=r"Handle\.handle is a list_iterator, .*give the callback"):
        clf.fit(X, Y)
    assert list(tmp_path.iterdir()) == []


# The file, and what is looked at of the data.


def test_a_file_gives_back_what_it_was_given(tmp_path):
    state = {
        "plain": [None, True, -3, 1 / 3, float("inf"), "ü", 10**30],
        "long": [0.1 * i for i in range(50)],
        "keys": {0: (1, [2]), "a": {3}, 1.5: {}},
        "arrays": [np.arange(6.0).reshape(2, 3).T, np.array("text"), np.zeros((0, 2)), np.array(1)],
        "scalars": [np.float32(1 / 3), np.int64(4), np.bool_(True)],
        "tensors": [torch.ones(2, 0), torch.tensor(1 / 3), torch.arange(3).bool()],
        "half": torch.tensor([[1 / 3, 2.0]], dtype=torch.bfloat16).T,
        "shape": torch.Size([2]),
    }
    write_state(tmp_path / "file", state)
    found, _ = read_state(tmp_path / "file")
    check_same(state, found)
    with pytest.raises(TypeError, match=r"builtins\.object is no array"):
        write_state(tmp_path / "file", {"a": object()})
    check_same(state, read_state(tmp_path / "file")[0])


def test_a_large_table_is_known_by_every_byte(monkeypatch, tmp_path):
    table = np.arange(4000.0).reshape(1000, 4)
    whole = describe_table(table)
    assert describe_table(np.asfortranarray(table)) == whole
    # As if it were too large for a SHA-256 of all of it.
    monkeypatch.setattr(fingerprints_module, "_HASHED_BYTES", 100 * 32)
    monkeypatch.setattr(fingerprints_module, "_BLOCK_BYTES", 64 * 32)
    sampled = describe_table(table)
    assert sampled == describe_table(np.asfortranarray(table)) != whole
    mapped = np.memmap(tmp_path / "table", dtype=float, mode="w+", shape=table.shape)
    mapped[:] = table
    assert describe_table(mapped) == sampled
    sparse = describe_table(csr_array(table))
    for row in range(1000):
        changed = table.copy()
        changed[row, row % 4] += 1
        assert describe_table(changed) != sampled
        if row % 50 == 0:
            assert describe_table(csr_array(changed)) != sparse
    # Two rows that change places.
    assert describe_table(table[[*range(500), 501, 500, *range(502, 1000)]]) != sampled
    # Labels and weights by SHA-256.
    flat = np.zeros(1000)
    assert len({describe_table(flat + (np.arange(1000) == i)) for i in range(1000)}) == 1000


def test_rows_that_are_made_one_by_one_are_known_by_a_sample(monkeypatch):
    class Squares(Dataset):
        asked = 0

        def __len__(self):
            return 1000

        def __getitem__(self, index):
            Squares.asked += 1
            return torch.full((4,), float(index**2))

    monkeypatch.setattr(fingerprints_module, "_HASHED_BYTES", 100 * 32)
    rows = DatasetRows(Squares())
    assert describe_table(rows) == describe_table(rows)
    # Twice 200 rows of 16 bytes.
    assert Squares.asked < 450


# Files that were made to do harm.


def forged(path, change):
    """Rewrite the file of a fit, with a checksum that fits, after `change(state)`."""
    state, _ = read_state(path)
    replaced = change(state)
    write_state(path, state if replaced is None else replaced)


def in_optimizer(value):
    def change(state):
        state["optimizer"]["state"][0]["exp_avg"] = value

    return change


def at_no_position(state):
    state["generator"][8:24] = 255


def with_callback(value):
    return lambda state: state["callbacks"][0].__setitem__(1, value)


FORGED = {
    "null": lambda state: [None],
    "nothing": lambda state: {"n_epochs": 3},
    "no callbacks": lambda state: state.pop("callbacks") and None,
    "callbacks of another kind": lambda state: state.update(callbacks=[1, 2]),
    "a callback of another kind": with_callback([1]),
    "a callback without values": with_callback({}),
    "a method": with_callback({"values": {"on_epoch_end": 1}, "parts": {}}),
    "a part that is not there": with_callback({"values": {}, "parts": {"no": {}}}),
    "epochs": lambda state: state.update(n_epochs=-1),
    "a number of epochs that is none": lambda state: state.update(n_epochs="3"),
    "call": lambda state: state.update(call=None),
    "random": lambda state: state.update(random=(1, 2)),
    "weights": lambda state: state.update(weights=[]),
    "history": lambda state: state.update(history=[1]),
    "moment of no shape": in_optimizer(np.zeros(())),
    "moment of one number": in_optimizer(np.zeros(1)),
    "moment of another dtype": in_optimizer(np.zeros((5, 6), np.int8)),
    "no optimizer": lambda state: state.update(optimizer={}),
    "generator": at_no_position,
    "state of torch": lambda state: state.update(rng_state=[]),
    "criterion": lambda state: state.update(criterion=[1]),
    "trainable": lambda state: state.update(trainable=[]),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_file_is_refused_and_kept(change, unfinished):
    forged(unfinished, change)
    data = unfinished.read_bytes()
    Crash.n_epochs = 0
    with pytest.raises(ValueError, match=r"checkpoint=.*Delete the file to train anew"):
        quick(checkpoint=unfinished).fit(X, Y, sample_weight=1 + Y)
    assert Crash.n_epochs <= 1
    assert unfinished.read_bytes() == data


@pytest.mark.parametrize(
    "content", [None, [], "x", "deep", {"array": "7"}, {"tensor": 1}, {"a": 1}]
)
def test_a_file_of_another_state_is_refused_and_kept(content, tmp_path):
    path = tmp_path / "file"
    if content == "deep":
        for _ in range(900):
            content = [content]
    write_arrays(path, "checkpoint", 2, {}, content, {})
    data = path.read_bytes()
    with pytest.raises(ValueError, match=r"is damaged: .*Delete the file to train anew"):
        quick(checkpoint=path).fit(X, Y)
    assert path.read_bytes() == data


def test_the_file_keeps_its_mode_and_follows_no_link_beside_it(tmp_path):
    path, secret = tmp_path / "file", tmp_path / "secret"
    secret.write_text("mine")
    # Names that somebody might expect it to write under.
    for name in (".file.part", "file.part", ".file.tmp"):
        (tmp_path / name).symlink_to(secret)
    with crashing(after=3):
        quick(checkpoint=path).fit(X, Y)
    path.chmod(0o600)
    with crashing(after=4):
        quick(checkpoint=path).fit(X, Y)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.read_text() == "mine"
    quick(checkpoint=path).fit(X, Y)
    assert len(list(tmp_path.iterdir())) == 4
