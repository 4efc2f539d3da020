"""skorch's callbacks for scores work on the samples that the networks hold out."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss
from skorch.callbacks import (
    BatchScoring,
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LRScheduler,
    PassthroughScoring,
)

from sktopk import PatMatClassifier, TopKClassifier
from sktopk.metrics import make_topk_scorer

X, Y = load_digits(return_X_y=True)
X, Y = X[:400], Y[:400]
N_HELD_OUT = {"an ensemble": 3, "one network": 1}


def fitted(callbacks, cls=TopKClassifier, **params):
    params = {"n_estimators": 3, "max_epochs": 3, "batch_size": 64, "random_state": 0} | params
    if cls is TopKClassifier:
        params["k"] = 3
        return cls(callbacks=callbacks, **params).fit(X, Y)
    return cls(callbacks=callbacks, **params).fit(X, Y == 8)


def test_epoch_scoring_gets_the_out_of_fold_scores():
    scorings = [
        EpochScoring("accuracy", lower_is_better=False, name="accuracy"),
        EpochScoring(make_topk_scorer(3), lower_is_better=False, name="top3"),
        EpochScoring("neg_log_loss", lower_is_better=False, name="log_loss"),
    ]
    clf = fitted(scorings)
    assert clf.kept_epoch_ == 3
    last, scores = clf.history_[-1], clf.oob_decision_function_.astype(float)
    proba = np.exp(scores - scores.max(1, keepdims=True))
    proba /= proba.sum(1, keepdims=True)
    assert last["accuracy"] == pytest.approx(accuracy_score(Y, scores.argmax(1)))
    assert last["top3"] == pytest.approx(clf.oob_score_)
    assert last["log_loss"] == pytest.approx(-log_loss(Y, proba), rel=1e-4)
    best = np.maximum.accumulate([-1] + [row["accuracy"] for row in clf.history_])
    assert [row["accuracy_best"] for row in clf.history_] == (np.diff(best) > 0).tolist()


@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
@pytest.mark.parametrize("case", N_HELD_OUT)
def test_the_history_has_the_loss_of_held_out_samples(case, cls):
    # A callback may read it.
    clf = fitted([Callback()], cls, n_estimators=N_HELD_OUT[case], max_epochs=8)
    losses = [row["valid_loss"] for row in clf.history_]
    least = np.minimum.accumulate([np.inf, *losses])
    assert [row["valid_loss_best"] for row in clf.history_] == (np.diff(least) < 0).tolist()
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("case", N_HELD_OUT)
def test_early_stopping_stops_and_loads_the_best_epoch(case):
    stopping = EarlyStopping(patience=3, load_best=True)
    clf = fitted([stopping], n_estimators=N_HELD_OUT[case], max_epochs=200, learning_rate=0.1)
    losses = [row["valid_loss"] for row in clf.history_]
    assert clf.n_iter_ < 200
    assert clf.kept_epoch_ == stopping.best_epoch_ == clf.n_iter_ - 3
    assert losses[clf.kept_epoch_ - 1] == min(losses)


@pytest.mark.parametrize("case", N_HELD_OUT)
def test_checkpoint_saves_and_loads_the_best_epoch(case, tmp_path):
    # Rates that grow without a limit make the loss larger in the end.
    growing = LRScheduler(torch.optim.lr_scheduler.ExponentialLR, gamma=3.0)
    params = {"n_estimators": N_HELD_OUT[case], "max_epochs": 6, "learning_rate": 0.01}
    losses = [row["valid_loss"] for row in fitted([growing], **params).history_]
    clf = fitted([growing, Checkpoint(dirname=tmp_path, load_best=True)], **params)
    assert {path.name for path in tmp_path.iterdir()} == {
        "params.pt", "optimizer.pt", "criterion.pt", "history.json",
    }  # fmt: skip
    assert clf.kept_epoch_ == np.argmin(losses) + 1 < 6


def test_a_learning_rate_can_follow_the_loss_of_held_out_samples():
    schedule = LRScheduler("ReduceLROnPlateau", monitor="valid_loss", patience=0, threshold=0.9)
    clf = fitted([schedule], max_epochs=5)
    assert clf.history_[-1]["event_lr"] < clf.history_[0]["event_lr"]


NOTHING_HELD_OUT = {"calibration": None}
REFUSED = {
    "scores of no samples": (EpochScoring("accuracy"), NOTHING_HELD_OUT, "X_val.*calibration"),
    "loss of no samples": (EarlyStopping(), NOTHING_HELD_OUT, "'valid_loss'.*train_loss.*X_val"),
    "best of no samples": (Checkpoint(), NOTHING_HELD_OUT, "'valid_loss_best'.*X_val"),
    "unknown entry": (EarlyStopping("f1"), {}, "'f1'.*valid_loss.*another entry$"),
    "unknown entry of a schedule": (
        LRScheduler("ReduceLROnPlateau", monitor="f1"), {}, "LRScheduler monitors 'f1'",
    ),
    "scores of minibatches": (BatchScoring("accuracy"), {}, "BatchScoring.*Use EpochScoring"),
    "scores of training minibatches": (
        BatchScoring("accuracy", on_train=True), {}, "BatchScoring.*Use EpochScoring",
    ),
    "loss of minibatches": (PassthroughScoring("valid_loss"), {}, "PassthroughScoring"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_callback_that_would_do_nothing_raises(case):
    callback, params, says = REFUSED[case]
    with pytest.raises(ValueError, match=f"^callbacks.*{says}"):
        fitted([callback], **params)


def test_partial_fit_continues_after_a_fit_with_callbacks():
    scoring = EpochScoring("accuracy", lower_is_better=False, name="accuracy")
    clf = fitted([scoring, EarlyStopping()])
    with pytest.warns(UserWarning, match="EpochScoring adds no entry, because partial_fit"):
        clf.partial_fit(X, Y)
    assert clf.n_iter_ == 4
    assert "accuracy" not in clf.history_[-1]
