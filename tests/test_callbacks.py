"""Callbacks of skorch and Ctrl-C work inside the estimators."""

import os
import signal
import threading

import numpy as np
import pytest
import skorch
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, get_scorer, log_loss, make_scorer, roc_auc_score
from skorch.callbacks import BatchScoring, Callback, EarlyStopping, EpochScoring, LRScheduler
from torch.utils.data import Dataset

from sktopk import AUCClassifier, PatMatClassifier, TopKClassifier
from sktopk.metrics import make_top_scorer, make_topk_scorer
from tests.crashing import POSITIVE, Y, check_same, crashing, fitted_state, hook, rate, target
from tests.crashing import X as ROWS
from tests.crashing import quick as crashes
from tests.crashing import small as quick


class Recorder(Callback):
    """A callback that cannot be copied: it holds a lock, like callbacks that write to files."""

    def __init__(self):
        self.calls, self.lock = [], threading.Lock()

    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        self.calls.append(("batch", float(kwargs["loss"]), len(kwargs["y_pred"])))

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.calls.append(("grad", len(dict(named_parameters))))

    def on_epoch_end(self, net, **kwargs):
        self.calls.append(("epoch", net.history[-1]["train_loss"]))
        net.history.record("n_calls", len(self.calls))


def test_the_given_callback_itself_sees_batches_gradients_and_epochs():
    recorder = Recorder()
    clf, calls = quick(callbacks=[("own", recorder)]).fit(ROWS, Y), recorder.calls
    assert [kind for kind, *_ in calls[:3]] == ["grad", "batch", "grad"]
    per_epoch = 2 * 10 + 1
    assert [row["n_calls"] for row in clf.history_] == [per_epoch * (i + 1) for i in range(6)]
    losses, sizes = zip(*(c[1:] for c in calls[:per_epoch] if c[0] == "batch"), strict=True)
    assert sum(sizes) == 300
    assert clf.history_[0]["train_loss"] == pytest.approx(np.average(losses, weights=sizes))
    assert [c[1] for c in calls if c[0] == "epoch"] == [row["train_loss"] for row in clf.history_]


@pytest.mark.parametrize(("on_train", "n_estimators"), [(False, 2), (True, 1)])
def test_epoch_scoring_accepts_scorers_of_scikit_learn_and_of_sktopk(on_train, n_estimators):
    either = make_scorer(roc_auc_score, response_method=("predict_proba", "decision_function"))
    top = make_top_scorer("precision_at_k", k=20, pos_label=1)
    names = ["roc_auc", "average_precision", top, either]
    callbacks = [EpochScoring(each, False, on_train, f"s{i}") for i, each in enumerate(names)]
    clf = quick(PatMatClassifier, tau=0.1, callbacks=callbacks, n_estimators=n_estimators)
    data = {"X_val": ROWS[200:], "y_val": POSITIVE[200:]}
    clf.set_params(n_iter_no_change=None).fit(ROWS[:200], POSITIVE[:200], **data)
    part = slice(200) if on_train else slice(200, 300)
    for i, each in enumerate(names):
        scorer = each if callable(each) else get_scorer(each)
        assert clf.history_[-1][f"s{i}"] == pytest.approx(scorer(clf, ROWS[part], POSITIVE[part]))
    labels = np.array(list("abc"))[Y]
    top = EpochScoring(make_topk_scorer(2), lower_is_better=False, name="top", on_train=on_train)
    clf = TopKClassifier(k=2, n_estimators=2, max_epochs=2, callbacks=[top], random_state=0)
    clf.fit(ROWS[:200], labels[:200], X_val=ROWS[200:], y_val=labels[200:])
    assert clf.history_[-1]["top"] == clf.score(ROWS[part], labels[part])


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({"policy": "StepLR", "step_size": 2, "gamma": 0.1}, 0.1 ** (np.arange(6) // 2)),
        ({"policy": "StepLR", "step_size": 10, "step_every": "batch"}, 0.1 ** np.arange(6.0)),
    ],
    ids=["epochs", "batches"],
)
def test_an_lr_scheduler_callback_replaces_the_one_cycle_schedule(schedule, expected):
    callback, noted = rate("on_epoch_begin")
    quick(learning_rate=0.01, callbacks=[("lr", LRScheduler(**schedule)), callback]).fit(ROWS, Y)
    np.testing.assert_allclose(noted, 0.01 * expected)


def test_a_frozen_layer_does_not_change():
    frozen = {"callbacks": [skorch.callbacks.Freezer("0.*")]}
    fitted = quick(**frozen).fit(ROWS, Y).net_.module_
    begun = quick(**frozen, learning_rate=1e-12).fit(ROWS, Y).net_.module_
    assert torch.equal(fitted[0].weight, begun[0].weight)
    assert not torch.equal(fitted[-1].weight, begun[-1].weight)


def test_the_same_callbacks_work_in_the_next_fit():
    clf = quick(callbacks=[LRScheduler("StepLR", step_size=2), EarlyStopping("train_loss", 2)])
    first = fitted_state(clf.fit(ROWS, Y))
    again, copied = fitted_state(clf.fit(ROWS, Y)), fitted_state(clone(clf).fit(ROWS, Y))
    for row, one, other in zip(first[1], again[1], copied[1], strict=True):
        assert row["train_loss"] == one["train_loss"] == other["train_loss"]


@pytest.mark.parametrize("n_estimators", [1, 2])
def test_ctrl_c_keeps_the_network_of_the_last_epoch_and_raises(n_estimators):
    class Interrupt(Callback):
        def on_epoch_end(self, net, **kwargs):
            if len(net.history) == 5:
                self.state = {k: v.clone() for k, v in net.module_.state_dict().items()}

        def on_batch_begin(self, net, **kwargs):
            if len(net.history) == 6:
                os.kill(os.getpid(), signal.SIGINT)

    interrupt = Interrupt()
    clf = quick(callbacks=[interrupt], max_epochs=50, n_estimators=n_estimators)
    # Set the default handler, because a shell's background processes ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        match = "interrupted after epoch 5: the network is kept"
        with pytest.warns(UserWarning, match=match), pytest.raises(KeyboardInterrupt):
            clf.fit(ROWS, Y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert clf.n_iter_ == 5
    check_same({**clf.net_.module_.state_dict()}, interrupt.state)
    assert clf.predict_topk(ROWS).shape == (300, 2)


def test_ctrl_c_while_held_out_samples_are_scored_keeps_the_best_epoch():
    class HeldOut(Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, i):
            if len(states) == 3:
                raise KeyboardInterrupt
            return ROWS[200 + i], Y[200 + i]

    states = []

    def weights(net):
        return {name: value.clone() for name, value in net.module_.state_dict().items()}

    keep = hook(on_epoch_end=lambda self, net, **kwargs: states.append(weights(net)))
    clf = quick(callbacks=[keep], n_iter_no_change=50, n_estimators=1)
    with pytest.warns(UserWarning, match="after epoch 4"), pytest.raises(KeyboardInterrupt):
        clf.fit(ROWS[:200], Y[:200], X_val=HeldOut())
    assert clf.n_iter_ == 4
    check_same(weights(clf.net_), states[clf.kept_epoch_ - 1])


def test_a_callback_that_raises_keyboard_interrupt_ends_the_training_early():
    def stop(self, net, **kwargs):
        if len(net.history) == 5:
            raise KeyboardInterrupt

    assert quick(callbacks=[hook(on_epoch_end=stop)]).fit(ROWS, Y).n_iter_ == 5


def test_ctrl_c_in_the_first_epoch_leaves_the_estimator_unfitted():
    clf = crashes()
    with crashing(after=0, error=KeyboardInterrupt):
        clf.fit(ROWS, Y)
    assert not hasattr(clf, "net_")
    with crashing(after=6, error=KeyboardInterrupt):
        clf.fit(ROWS, Y).partial_fit(ROWS[:50], Y[:50])
    assert clf.class_count_.sum() == len(Y)


def test_callbacks_see_encoded_labels():
    seen = []
    labels = hook(on_train_begin=lambda self, net, X, y, **_: seen.append(y))
    for clf in (quick(k=1), quick(AUCClassifier, pos_label="a")):
        clf.set_params(callbacks=[labels])
        clf.fit(ROWS, np.array(["a", "b"])[target(clf) % 2])
    np.testing.assert_array_equal(seen[0], Y % 2)
    assert set(seen[1]) == {0, 1}


def test_for_scoring_callbacks_the_positive_label_is_1():
    names = ["roc_auc", "accuracy", "neg_log_loss"]
    callbacks, found = [EpochScoring(each, on_train=True) for each in names], []
    for label in (1, 0):
        clf = quick(AUCClassifier, pos_label=label, callbacks=callbacks)
        clf.fit(ROWS, POSITIVE if label else 1 - POSITIVE)
        found.append([clf.history_[-1][name] for name in names])
    assert found[0] == pytest.approx(found[1])


DIGITS, DIGIT = (each[:400] for each in load_digits(return_X_y=True))
both_numbers = pytest.mark.parametrize("n_estimators", [1, 3])


def fitted(callbacks, cls=TopKClassifier, **params):
    params = {"n_estimators": 3, "max_epochs": 3, "batch_size": 64, "random_state": 0} | params
    if cls is TopKClassifier:
        return cls(k=3, callbacks=callbacks, **params).fit(DIGITS, DIGIT)
    return cls(callbacks=callbacks, **params).fit(DIGITS, DIGIT == 8)


def test_epoch_scoring_gets_the_out_of_fold_scores_and_has_none_in_partial_fit():
    callbacks = [
        EpochScoring("accuracy", lower_is_better=False, name="accuracy"),
        EpochScoring(make_topk_scorer(3), lower_is_better=False, name="top3"),
        EpochScoring("neg_log_loss", lower_is_better=False, name="log_loss"),
        EarlyStopping(),
    ]
    clf = fitted(callbacks)
    assert clf.kept_epoch_ == 3
    last, scores = clf.history_[-1], clf.oob_decision_function_.astype(float)
    proba = np.exp(scores - scores.max(1, keepdims=True))
    proba /= proba.sum(1, keepdims=True)
    assert last["accuracy"] == pytest.approx(accuracy_score(DIGIT, scores.argmax(1)))
    assert last["top3"] == pytest.approx(clf.oob_score_)
    assert last["log_loss"] == pytest.approx(-log_loss(DIGIT, proba), rel=1e-4)
    best = np.maximum.accumulate([-1] + [row["accuracy"] for row in clf.history_])
    assert [row["accuracy_best"] for row in clf.history_] == (np.diff(best) > 0).tolist()
    with pytest.warns(UserWarning, match="records no score, because partial_fit"):
        clf.partial_fit(DIGITS, DIGIT)
    assert clf.n_iter_ == 4
    assert "accuracy" not in clf.history_[-1]


@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
@both_numbers
def test_the_history_has_the_loss_of_held_out_samples(n_estimators, cls):
    # An ensemble computes `valid_loss` only if there is a callback, because it may read the loss.
    clf = fitted([Callback()], cls, n_estimators=n_estimators, max_epochs=8)
    losses = [row["valid_loss"] for row in clf.history_]
    least = np.minimum.accumulate([np.inf, *losses])
    assert [row["valid_loss_best"] for row in clf.history_] == (np.diff(least) < 0).tolist()
    assert losses[-1] < losses[0]


@both_numbers
def test_early_stopping_stops_and_loads_the_best_epoch(n_estimators):
    stopping = EarlyStopping(patience=3, load_best=True)
    clf = fitted([stopping], n_estimators=n_estimators, max_epochs=200, learning_rate=0.1)
    losses = [row["valid_loss"] for row in clf.history_]
    assert clf.n_iter_ < 200
    assert clf.kept_epoch_ == stopping.best_epoch_ == clf.n_iter_ - 3
    assert losses[clf.kept_epoch_ - 1] == min(losses)


@both_numbers
def test_checkpoint_saves_and_loads_the_best_epoch(n_estimators, tmp_path):
    # A learning rate that grows without limit increases the loss of the last epochs.
    growing = LRScheduler(torch.optim.lr_scheduler.ExponentialLR, gamma=3.0)
    params = {"n_estimators": n_estimators, "max_epochs": 6, "learning_rate": 0.01}
    losses = [row["valid_loss"] for row in fitted([growing], **params).history_]
    saving = skorch.callbacks.Checkpoint(dirname=tmp_path, load_best=True)
    clf, files = fitted([growing, saving], **params), {path.name for path in tmp_path.iterdir()}
    assert files == {"params.pt", "optimizer.pt", "criterion.pt", "history.json"}
    assert clf.kept_epoch_ == np.argmin(losses) + 1 < 6 == clf.n_iter_ == len(clf.history_)
    before = clf.decision_function(DIGITS)
    with pytest.warns(UserWarning, match="partial_fit ignores callbacks with load_best=True"):
        after = clf.partial_fit(DIGITS, DIGIT).decision_function(DIGITS)
    assert not np.allclose(after, before, atol=1e-3)


def test_the_learning_rate_can_depend_on_the_loss_of_held_out_samples():
    schedule = LRScheduler("ReduceLROnPlateau", monitor="valid_loss", patience=0, threshold=0.9)
    clf = fitted([schedule], max_epochs=5)
    assert clf.history_[-1]["event_lr"] < clf.history_[0]["event_lr"]


NOTHING_HELD_OUT = {"calibration": None}
REFUSED = {
    "scores of no samples": (EpochScoring("accuracy"), NOTHING_HELD_OUT, "X_val.*calibration"),
    "loss of no samples": (EarlyStopping(), NOTHING_HELD_OUT, "'valid_loss'.*train_loss.*X_val"),
    "best of no samples": (
        skorch.callbacks.Checkpoint(), NOTHING_HELD_OUT, "'valid_loss_best'.*X_val"),
    "unknown entry": (EarlyStopping("f1"), {}, "'f1'.*valid_loss.*another entry$"),
    "unknown entry of a schedule": (
        LRScheduler("ReduceLROnPlateau", monitor="f1"), {}, "LRScheduler monitors 'f1'"),
    "scores of minibatches": (
        BatchScoring("accuracy", on_train=True), {}, "BatchScoring.*Use EpochScoring"),
    "loss of minibatches": (skorch.callbacks.PassthroughScoring("valid_loss"), {}, "Passthrough"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_callback_without_effect_raises(case):
    callback, params, says = REFUSED[case]
    with pytest.raises(ValueError, match=f"^callbacks.*{says}"):
        fitted([callback], **params)
