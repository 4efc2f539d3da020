"""More training of a fitted estimator: what may have changed since, and what is kept."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from skorch.callbacks import LRScheduler

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    RecallAtKClassifier,
    TopKClassifier,
    TopPushKClassifier,
)
from sktopk.callbacks import TrueThreshold
from sktopk.io import dump, load
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore:The training loss still fell")

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 4))
POSITIVE = (X[:, 0] + rng.standard_normal(200) > 1).astype(int)
SMALL = {"module": MLP, "batch_size": 32, "max_epochs": 2, "random_state": 0}


@pytest.mark.parametrize("sizes", [[6], (6,), np.array([6])], ids=type)
@pytest.mark.parametrize("betas", [(0.8, 0.9), np.array([0.8, 0.9])], ids=type)
def test_a_warm_start_compares_parameters_that_hold_arrays(sizes, betas):
    clf = TopKClassifier(
        k=1,
        hidden_layer_sizes=np.array([6]),
        net_params={"optimizer__betas": (0.8, 0.9)},
        warm_start=True,
        **SMALL,
    )
    clf.fit(X, POSITIVE)
    clf.set_params(hidden_layer_sizes=sizes, net_params={"optimizer__betas": betas})
    assert clf.fit(X, POSITIVE).n_iter_ == 4
    for change in (
        {"hidden_layer_sizes": np.array([6, 6])},
        {"hidden_layer_sizes": np.array([7])},
        {"net_params": {"optimizer__betas": np.array([0.8, 0.99])}},
        {"net_params": {"optimizer__eps": 1e-8}},
    ):
        with pytest.raises(ValueError, match="was started with"):
            clf.set_params(**{"hidden_layer_sizes": sizes, **change}).fit(X, POSITIVE)


def fitted_of(clf):
    kept = {name: value for name, value in vars(clf).items() if name.endswith("_")}
    return {name: value for name, value in kept.items() if name not in ("net_", "history_")}


@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("classifier", [PatMatClassifier(tau=0.05), RecallAtKClassifier(k=30)])
def test_a_warm_start_that_fails_at_once_changes_nothing(classifier, n_members):
    params = SMALL | {"module": None, "warm_up": 2, "n_members": n_members, "learning_rate": 1e-3}
    clf = clone(classifier).set_params(warm_start=True, calibration=None, **params)
    clf.fit(X, POSITIVE)
    before, y_score = fitted_of(clf), clf.decision_function(X)
    few = np.r_[np.flatnonzero(POSITIVE)[:10], np.flatnonzero(POSITIVE == 0)[:15]]
    with pytest.raises(ValueError, match="Training diverged"):
        clf.set_params(learning_rate=1e30).fit(X[few] + 3, POSITIVE[few])
    np.testing.assert_equal(fitted_of(clf), before)
    np.testing.assert_array_equal(clf.decision_function(X), y_score)


HELD_OUT = {"early_stopping": True, "calibration": "sigmoid", "warm_start": True}
HOLDS_OTHERS = "warm_start=True holds out other rows"


@pytest.mark.filterwarnings("ignore:max_epochs=2 ended", "ignore:Of the training rows above")
# Of so many groups that another draw has hardly the same.
@pytest.mark.parametrize("groups", [None, np.arange(200) % 50], ids=["rows", "groups"])
@pytest.mark.parametrize(
    "change",
    [{"random_state": 1}, {"random_state": None}, {"validation_fraction": 0.3}, {"rows": 150}],
    ids=str,
)
def test_a_warm_start_says_that_it_is_judged_by_rows_it_has_trained_on(change, groups):
    clf = PatMatClassifier(tau=0.05, **SMALL | HELD_OUT).fit(X, POSITIVE, groups=groups)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", HOLDS_OTHERS)
        clf.fit(X, POSITIVE, groups=groups)
        own = {"X_val": X[:50], "y_val": POSITIVE[:50]}
        clone(clf).fit(X, POSITIVE, groups=groups, **own).fit(X, POSITIVE, groups=groups, **own)
    n = change.get("rows", 200)
    some = None if groups is None else groups[:n]
    clf.set_params(**{key: value for key, value in change.items() if key != "rows"})
    with pytest.warns(UserWarning, match=HOLDS_OTHERS):
        clf.fit(X[:n], POSITIVE[:n], groups=some)


@pytest.mark.filterwarnings("ignore:max_epochs=2 ended", "ignore:Of the training rows above")
def test_rows_held_out_after_a_training_without_are_said_to_be_known():
    clf = PatMatClassifier(tau=0.05, warm_start=True, **SMALL).fit(X, POSITIVE)
    # It stays so, also where a later fit holds out the same rows as this one.
    for _ in range(2):
        with pytest.warns(UserWarning, match=HOLDS_OTHERS):
            clf.set_params(early_stopping=True).fit(X, POSITIVE)


def test_groups_that_a_warm_start_refuses_leave_what_was_fitted():
    y = np.arange(200) % 3
    params = {"calibration": "auto", "warm_start": True, "n_members": 2, "max_epochs": 2}
    clf = AUCClassifier(random_state=0, **params).fit(X, y)
    before = fitted_of(clf)
    assert "calibration_" in before
    with pytest.raises(ValueError, match="groups must be None for 3 classes"):
        clf.fit(X, y, groups=np.arange(200) % 5)
    np.testing.assert_equal(fitted_of(clf), before)


@pytest.mark.parametrize("classifier", [TopPushKClassifier, RecallAtKClassifier])
def test_a_warm_start_clips_its_rank_to_the_rows_there_are_now(classifier):
    few = np.concatenate([np.flatnonzero(POSITIVE)[:10], np.flatnonzero(POSITIVE == 0)[:30]])
    clf = classifier(k=60, warm_start=True, **SMALL)
    with pytest.warns(UserWarning, match="k=60 must be at most"):
        clf.fit(X[few], POSITIVE[few])
    assert clf.k_ < 60
    with warnings.catch_warnings(action="error", category=UserWarning):
        warnings.filterwarnings("ignore", "Of the training rows above threshold_")
        clf.fit(X, POSITIVE)
    assert clf.k_ == clf.net_.criterion_.threshold.k == 60
    # So does a stream that follows a fit.
    with pytest.warns(UserWarning, match="k=60 must be at most"):
        clf.fit(X[few], POSITIVE[few])
    assert clf.partial_fit(X[few], POSITIVE[few]).k_ == 60


@pytest.mark.parametrize(
    ("classifier", "change"),
    [
        (TopPushKClassifier(k=1), {"k": 60}),
        (RecallAtKClassifier(k=10), {"k": 100}),
        (FScoreClassifier(beta=0.1), {"beta": 10.0}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_score_is_the_metric_that_was_trained_for(classifier, change):
    clf = classifier.set_params(**SMALL).fit(X, POSITIVE)
    then = clf.score(X, POSITIVE)
    assert clf.set_params(**change).score(X, POSITIVE) == then
    assert clf.get_params()[next(iter(change))] == next(iter(change.values()))
    assert clf.fit(X, POSITIVE).score(X, POSITIVE) != then


def test_score_of_several_classes_is_the_average_that_was_trained_for():
    y = np.digitize(X[:, 0] + X[:, 1], [-1, 0.3])
    clf = AUCClassifier(multi_class="ovr", **SMALL).fit(X, y)
    then = clf.score(X, y)
    assert clf.set_params(multi_class="mu").score(X, y) == then


# What training tells.


@pytest.mark.parametrize("surrogate", ["quadratic", "hinge"])
def test_a_network_that_scores_all_rows_alike_says_so(surrogate):
    params = {"surrogate": surrogate, "hidden_layer_sizes": (), "optimizer": "sgd"}
    # A decay that leaves the loss little to say.
    clf = DeepTopPushClassifier(**params, **SMALL | {"max_epochs": 20})
    clf.set_params(weight_decay=500.0, learning_rate=1e-3)
    with pytest.warns(ConvergenceWarning, match="every row nearly the same score .*of 1.: it has"):
        clf.fit(X, POSITIVE)
    assert clf.history_[-1]["train_loss"] == pytest.approx(1, abs=0.05)
    with warnings.catch_warnings(action="error", category=ConvergenceWarning):
        clf.set_params(weight_decay=0.0, learning_rate=0.1).fit(X, X[:, 0] > 1)


def test_an_optimizer_that_evaluates_often_records_a_threshold_per_step():
    clf = DeepTopPushClassifier(
        optimizer=torch.optim.LBFGS, callbacks=[TrueThreshold()], **SMALL | {"batch_size": 50}
    )
    clf.fit(X, POSITIVE)
    for row in clf.history_:
        assert len(row["threshold"]) == len(row["true_threshold"]) == row["train_batch_count"]


def test_schedules_may_step_with_the_batches():
    lr = LRScheduler("StepLR", step_size=1, gamma=0.5, step_every="batch")
    clf = TopKClassifier(k=1, callbacks=[lr], **SMALL).fit(X, POSITIVE)
    n_steps = sum(row["train_batch_count"] for row in clf.history_)
    assert clf.net_.optimizer_.param_groups[0]["lr"] == pytest.approx(1e-3 * 0.5**n_steps)


def rate(clf):
    return clf.net_.optimizer_.param_groups[0]["lr"]


WARM = SMALL | {"warm_up": 2, "warm_start": True, "weight_decay": 0.0}


def test_a_learning_rate_set_after_the_warm_up_is_that_of_the_phase():
    clf = PatMatClassifier(tau=0.05, learning_rate=1e-3, **WARM).fit(X, POSITIVE)
    assert rate(clf) == pytest.approx(1e-3 / 4)
    clf.set_params(learning_rate=2e-3).fit(X, POSITIVE)
    expected = rate(clone(clf).fit(X, POSITIVE))
    assert rate(clf) == pytest.approx(expected) == pytest.approx(2e-3 / 4)


def test_a_training_that_diverged_goes_on_at_the_rate_of_the_phase():
    clf = PatMatClassifier(tau=0.05, learning_rate=1e-3, **WARM).fit(X, POSITIVE)
    with pytest.raises(ValueError, match="Training diverged"):
        clf.set_params(learning_rate=1e30).fit(X, POSITIVE)
    assert rate(clf) == pytest.approx(1e30 / 4)


@pytest.mark.parametrize(
    "schedule",
    [
        {"policy": "LambdaLR", "lr_lambda": lambda epoch: 0.5 if epoch > 2 else 1.0},
        {"policy": "MultiStepLR", "milestones": [3], "gamma": 0.5},
    ],
    ids=lambda schedule: schedule["policy"],
)
def test_schedules_know_the_rate_of_the_phase(schedule):
    clf = PatMatClassifier(tau=0.05, callbacks=[LRScheduler(**schedule)], **WARM)
    clf.fit(X, POSITIVE)
    assert rate(clf) == pytest.approx(1e-3 * 0.5 / 4)
    # The schedule goes on: that of the first kind counts epochs, and is past its third.
    clf.set_params(learning_rate=2e-3, max_epochs=1).fit(X, POSITIVE)
    halved = schedule["policy"] == "LambdaLR"
    assert rate(clf) == pytest.approx(2e-3 / 4 * (0.5 if halved else 1))


@pytest.mark.parametrize(
    "schedule",
    [
        {"policy": torch.optim.lr_scheduler.OneCycleLR, "max_lr": 1e-3, "total_steps": 12},
        {"policy": "CyclicLR", "base_lr": 1e-4, "max_lr": 1e-3, "cycle_momentum": False},
    ],
    ids=["OneCycleLR", "CyclicLR"],
)
def test_schedules_between_rates_go_between_a_quarter_of_them(schedule):
    rates = []
    for warm_up in (0, 3):
        params = WARM | {"warm_up": warm_up, "max_epochs": 9 - warm_up}
        clf = PatMatClassifier(tau=0.05, callbacks=[LRScheduler(**schedule)], **params)
        rates.append(np.array([row["event_lr"] for row in clf.fit(X, POSITIVE).history_]))
    np.testing.assert_allclose(rates[1][:3], rates[0][:3])
    np.testing.assert_allclose(rates[1][4:], rates[0][4:] / 4)


def test_the_rate_of_the_phase_outlives_the_process(tmp_path):
    clf = PatMatClassifier(tau=0.05, **WARM).fit(X, POSITIVE)
    dump(clf, tmp_path / "clf")
    loaded = load(tmp_path / "clf")
    for each in (loaded, pickle.loads(pickle.dumps(clf))):
        each.set_params(learning_rate=2e-3).fit(X, POSITIVE)
        assert rate(each) == pytest.approx(2e-3 / 4)
