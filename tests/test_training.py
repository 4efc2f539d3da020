"""Epochs, losses, early stopping, `partial_fit`, copies and failed fits."""

import copy
import pickle
import threading
import warnings
from functools import partialmethod

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback, EarlyStopping, Freezer, LRScheduler, PrintLog
from torch import nn

import sktopk
from sktopk import DeepTopPushClassifier, FScoreClassifier, PatMatClassifier, TopKClassifier
from sktopk.modules import MLP, TabularMLP
from tests.crashing import POSITIVE, WithDropout, X, Y, check_same, fitted_state, hook, rate, target
from tests.crashing import small as quick


class Epochs(Callback):
    """Keeps the weights of every epoch, and the scores of half of the samples."""

    def on_train_begin(self, net, **kwargs):
        self.weights, self.scores = [], []

    def on_epoch_end(self, net, **kwargs):
        self.weights.append({k: v.clone() for k, v in net.module_.state_dict().items()})
        self.scores.append(net.decision_function(X[150:]))


def weights(clf):
    return {name: value.clone() for name, value in clf.net_.module_.state_dict().items()}


def flat(values):
    return torch.cat([value.detach().double().flatten() for value in values])


@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
def test_the_history_has_an_entry_per_epoch(cls):
    clf = quick(cls).fit(X, target(quick(cls)))
    assert clf.n_iter_ == clf.kept_epoch_ == clf.max_epochs_ == 6
    assert [row["epoch"] for row in clf.history_] == [1, 2, 3, 4, 5, 6]
    assert all(row["train_loss"] > 0 and row["dur"] > 0 for row in clf.history_)
    assert all(("threshold" in row) == (cls is PatMatClassifier) for row in clf.history_)
    epochs = clf.set_params(max_epochs="auto").fit(X[:65], target(clf)[:65]).history_
    n_steps = sum(row["train_batch_count"] for row in epochs)
    assert n_steps == {TopKClassifier: 360, PatMatClassifier: 300}[cls]


@pytest.mark.parametrize(
    "schedule", [[], [LRScheduler("StepLR", step_size=2)]], ids=["own schedule", "StepLR"]
)
@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
def test_network_weights_are_averages_over_about_one_epoch(cls, schedule):
    epochs, steps = Epochs(), []
    note = hook(on_batch_end=lambda self, net, **_: steps.append(flat(net.module_.parameters())))
    clf = quick(cls, callbacks=[*schedule, note, epochs], max_epochs=3)
    clf.fit(X, target(clf))
    n_steps = clf.history_[0]["train_batch_count"]
    assert len(steps) == 3 * n_steps
    for epoch, found in enumerate(epochs.weights, 1):
        total, mass = 0.0, 0.0
        for i, each in enumerate(steps[: epoch * n_steps]):
            share = (1 - 1 / n_steps) ** (epoch * n_steps - 1 - i)
            total, mass = total + share * each, mass + share
        found = flat(found.values())
        torch.testing.assert_close(found, total / mass, rtol=1e-4, atol=1e-6)
        assert (found - steps[epoch * n_steps - 1]).abs().max() > 1e-4
    check_same(weights(clf), epochs.weights[-1])
    clf.partial_fit(X, target(clf))  # keeps the weights of the last step
    torch.testing.assert_close(flat(weights(clf).values()), steps[-1], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("share", "advice"), [(0, "raise log_loss_share"), (0.8, "raise log_loss_share"),
                          (1, "raise max_epochs")],
)  # fmt: skip
@pytest.mark.parametrize("cls", [DeepTopPushClassifier, PatMatClassifier, sktopk.AUCClassifier])
def test_a_ranker_that_ends_near_constant_scores_gives_a_warning(cls, share, advice):
    clf = quick(cls, log_loss_share=share, learning_rate=1e-6)
    with pytest.warns(UserWarning, match=f"as high as for constant scores.*poor: {advice}") as said:
        clf.fit(X, np.random.default_rng(1).permutation(300) % 2)
    assert len([each for each in said if "constant scores" in str(each.message)]) == 1
    if not share:  # run once: this fit does not depend on `share`
        clf.set_params(log_loss_share=0.8, learning_rate=0.03, max_epochs=8)
        with warnings.catch_warnings(action="error", category=UserWarning):
            clf.fit(X, (X[:, 0] > 0).astype(int))


def test_the_learning_rate_runs_through_one_cycle():
    callback, noted = rate("on_batch_begin")
    quick(max_epochs=10, learning_rate=0.5, callbacks=[callback]).fit(X, Y)
    u = np.arange(1, 101) / 100
    expected = np.where(u < 0.1, 5 * u, 0.25 * (1 + np.cos(np.pi * (u - 0.1) / 0.9)))
    np.testing.assert_allclose(noted, np.maximum(expected, 0.5e-3), atol=1e-12)
    noted.clear()
    quick(learning_rate=0.5, callbacks=[callback]).partial_fit(X, Y).partial_fit(X, Y)
    assert noted == [0.5] * 20


def accuracies(scores, labels):
    found = []
    for row, label in zip(scores, labels, strict=True):
        n_higher = sum(row[j] >= row[label] for j in range(len(row)) if j != label)
        found.append((int(n_higher < 1) + int(n_higher < 2)) / 2)
    return np.array(found)


# `gamma` multiplies the learning rate after half of the epochs. 1e3 makes the last epoch bad.
@pytest.mark.parametrize(("gamma", "is_best"), [(0.5, False), (1e3, True)])
@pytest.mark.parametrize("n_estimators", [1, 3])
def test_the_best_epoch_is_kept_if_better_by_two_standard_errors(n_estimators, gamma, is_best):
    epochs, schedule = Epochs(), LRScheduler("StepLR", step_size=5, gamma=gamma)
    callbacks = [schedule, epochs, EarlyStopping("epoch", lower_is_better=False, load_best=True)]
    clf = quick(n_estimators=n_estimators, callbacks=callbacks, max_epochs=10)
    clf.set_params(learning_rate=0.01)
    clf.fit(X[:150], Y[:150], X_val=X[150:], y_val=Y[150:])
    values = [accuracies(scores, Y[150:]) for scores in epochs.scores]
    found = [row["valid_score"] for row in clf.history_]
    np.testing.assert_allclose(found, np.mean(values, axis=1))
    best = int(np.argmax(found))
    gain = values[best] - values[-1]
    error = gain.std() / np.sqrt(len(gain))
    assert (gain.mean() > 2 * error) == is_best
    kept = best if is_best else 9
    assert clf.kept_epoch_ == kept + 1
    assert clf.n_iter_ == 10
    check_same(weights(clf), epochs.weights[kept])


@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
@pytest.mark.parametrize("n_estimators", [1, 3])
def test_early_stopping_keeps_the_best_epoch(cls, n_estimators):
    epochs = Epochs()
    clf = quick(cls, n_estimators=n_estimators, n_iter_no_change=3, max_epochs=40)
    clf.set_params(learning_rate=0.03, callbacks=[epochs]).fit(X, target(clf))
    scores = [row["valid_score"] for row in clf.history_]
    best = next(i for i, each in enumerate(scores) if each > max(scores) - 1e-9)
    assert clf.kept_epoch_ == best + 1
    assert clf.n_iter_ == len(epochs.weights) == best + 1 + 3 < 40
    check_same(weights(clf), epochs.weights[best])


def test_given_validation_samples_are_used_for_early_stopping_and_calibration():
    clf = quick(n_iter_no_change=2, max_epochs=60, learning_rate=0.1, calibration="temperature")
    clf.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:])
    assert clf.n_iter_ < 60
    assert not hasattr(clf, "oob_score_")
    assert clf.class_count_.sum() == 200
    assert all({"valid_loss", "valid_score"} <= row.keys() for row in clf.history_)
    # The last epoch is kept here, so X_val is only used for the calibration.
    one, other = (quick(loss="noised_topk", calibration=c) for c in ("temperature", None))
    one.fit(X, Y, X_val=X[:50], y_val=Y[:50])
    np.testing.assert_array_equal(one.decision_function(X), other.fit(X, Y).decision_function(X))
    seen = Y[:50] != 2
    whole = {"batch_size": len(X), "calibration": "temperature"}  # one minibatch trains in float64
    clf, expected = (quick(k=1, **whole) for _ in range(2))
    with pytest.warns(UserWarning, match=r"y_val has labels that are not in y: 1 \(2\)"):
        clf.fit(X[Y < 2], Y[Y < 2], X_val=X[:50], y_val=Y[:50])
    expected.fit(X[Y < 2], Y[Y < 2], X_val=X[:50][seen], y_val=Y[:50][seen])
    np.testing.assert_allclose(clf.predict_proba(X), expected.predict_proba(X))


@pytest.mark.filterwarnings("ignore:.*about as high as for constant scores:UserWarning")
@pytest.mark.parametrize("share", [0, 0.5])
@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier, FScoreClassifier])
def test_valid_loss_equals_train_loss_on_the_same_samples(cls, share):
    # Validate on the training samples, in one minibatch, with a network that does not change.
    clf = quick(cls, log_loss_share=share, learning_rate=1e-12, batch_size=300, max_epochs=2)
    clf.fit(X, target(clf), X_val=X, y_val=target(clf))
    for row in clf.history_:
        assert row["valid_loss"] == pytest.approx(row["train_loss"])


def test_a_single_network_holds_out_a_tenth_of_the_samples_but_no_whole_class():
    y, shown = Y.copy(), []
    y[0] = 77
    labels = hook(on_train_begin=lambda self, net, X, y, **_: shown.append(y))
    for params in ({"n_iter_no_change": 2}, {"calibration": "temperature"}):
        clf = quick(callbacks=[labels], max_epochs=3, **params).fit(X, y)
        assert 77 in clf.classes_
        assert (shown[-1] == 3).sum() == 1
        assert len(shown[-1]) == 270
    assert clf.predict_proba(X).shape == (300, 4)


def test_all_samples_are_used_for_training_if_none_can_be_held_out():
    few = np.r_[np.flatnonzero(POSITIVE)[:1], np.flatnonzero(POSITIVE == 0)[:20]]
    for n_estimators in (1, 3):
        clf = quick(PatMatClassifier, tau=0.2, n_estimators=n_estimators, n_iter_no_change=2)
        clf.fit(X[few], POSITIVE[few])
        assert clf.n_iter_ == 6
        assert not hasattr(clf, "oob_score_")
        assert np.isfinite(clf.threshold_)
    # Without held-out samples there is no calibration, but log_loss_share gives probabilities.
    clf.set_params(calibration="sigmoid").fit(X[few], POSITIVE[few])
    assert not hasattr(clf, "calibration_")
    assert np.isfinite(clf.predict_proba(X)).all()
    clf.set_params(log_loss_share=0).fit(X[few], POSITIVE[few])
    with pytest.raises(AttributeError) as error:
        clf.predict_proba(X)
    assert "no samples were held out for calibration='sigmoid'" in str(error.value)


def test_class_count_sums_over_calls_of_partial_fit_with_one_class_each():
    clf = quick(loss="logit_adjusted")
    for label in range(3):
        clf.partial_fit(X[label == Y], Y[label == Y], classes=range(3))
    np.testing.assert_array_equal(clf.class_count_, np.bincount(Y))
    assert clf.n_iter_ == 3


def test_partial_fit_uses_a_new_learning_rate_and_warns_of_ignored_parameters():
    first = quick().fit(X, Y)
    clf, before = copy.deepcopy(first), first.decision_function(X)
    clf.set_params(learning_rate=1e-9).partial_fit(X, Y)
    np.testing.assert_allclose(clf.decision_function(X), before, atol=1e-5)
    own = quick(net_params={"optimizer__param_groups": [("*", {"lr": 1e-9})]}).partial_fit(X, Y)
    before = own.decision_function(X)
    own.set_params(learning_rate=1.0).partial_fit(X, Y)  # param_groups sets the learning rates
    np.testing.assert_allclose(own.decision_function(X), before, atol=1e-5)
    for change in (
        {"log_loss_share": 0.1},
        {"log_loss_share": 0.1, "loss_params": {"k": 1}},
        {"loss": torch.nn.CrossEntropyLoss()},
        {"module": TabularMLP},
        {"callbacks": [PrintLog()]},
    ):
        with pytest.warns(UserWarning, match=f"ignores new values of {', '.join(change)}"):
            copy.deepcopy(first).set_params(**change).partial_fit(X, Y)


def test_partial_fit_continues_after_a_fit_and_fit_starts_again():
    clf = quick(n_estimators=2, calibration="temperature", max_epochs=2, module=TabularMLP)
    first = clone(clf).fit(X, Y)
    assert hasattr(first, "oob_score_")
    before = weights(first)
    first.partial_fit(X, Y)
    assert any(not torch.equal(value, before[name]) for name, value in weights(first).items())
    assert first.n_iter_ == 3
    # After `partial_fit`, each network has trained with all samples.
    assert not hasattr(first, "oob_score_")
    assert not hasattr(first, "oob_decision_function_")
    assert first.predict_proba(X).shape == (300, 3)
    check_same(fitted_state(first.fit(X, Y)), fitted_state(clone(clf).fit(X, Y)))


TWO = {"n_estimators": 2, "max_epochs": 2, "random_state": 0}


@pytest.mark.parametrize(
    "clf",
    [
        quick(module=WithDropout, loss="noised_topk", max_epochs=2),
        TopKClassifier(k=2, **TWO),
        PatMatClassifier(calibration="sigmoid", **TWO),
        quick(DeepTopPushClassifier, buffer_size=3, max_epochs=2),
        quick(FScoreClassifier, max_epochs=2),
        quick(FScoreClassifier, max_epochs=2, callbacks=[Freezer("0.*")]),
        # With an integer k, the threshold depends on the number of samples in all calls.
        sktopk.RecallAtKClassifier(k=10, batch_size=64, **TWO),
        sktopk.RecallAtKClassifier(k=0.1, batch_size=64, **TWO),
        sktopk.TopPushKClassifier(k=3, batch_size=64, **TWO),
    ],
    ids=["dropout", "default", "ranker", "hard", "program", "frozen", "rank", "share", "negatives"],
)
def test_a_copy_predicts_and_continues_training_like_the_original(clf, tmp_path):
    y, half = target(clf), (X[:150], target(clf)[:150])
    for train in (clf.fit, clf.partial_fit):  # copies after fit, then between two partial_fit
        train(*half)
        joblib.dump(clf, tmp_path / "clf")
        twins = [joblib.load(tmp_path / "clf"), pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)]
        for twin in twins:
            np.testing.assert_array_equal(clf.decision_function(X), twin.decision_function(X))
            check_same(fitted_state(twin), fitted_state(clf))
        clf.partial_fit(X[150:], y[150:])
        for twin in twins:
            check_same(fitted_state(twin.partial_fit(X[150:], y[150:])), fitted_state(clf))


def test_partial_fit_limits_k_by_the_number_of_samples_in_all_calls():
    clf = quick(sktopk.RecallAtKClassifier, k=150).partial_fit(X[:100], POSITIVE[:100])
    assert clf.k_ == 100
    tenth = {"sample_weight": np.full(70, 0.1)}  # the weights sum to a little less than 7
    assert quick(sktopk.RecallAtKClassifier, k=7).fit(X[:70], POSITIVE[:70], **tenth).k_ == 7
    assert copy.deepcopy(clf.partial_fit(X[100:], POSITIVE[100:])).k_ == clf.k_ == 150


@pytest.mark.parametrize(
    ("clf", "change"),
    [
        (sktopk.TopPushKClassifier(k=1), {"k": 60}),
        (sktopk.RecallAtKClassifier(k=10), {"k": 100}),
        (FScoreClassifier(beta=0.1), {"beta": 10.0}),
        (TopKClassifier(k=1), {"k": 2}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_method_score_returns_the_metric_that_was_trained_for(clf, change):
    clf = clone(clf).set_params(max_epochs=2, n_estimators=1, module=MLP, random_state=0)
    then = clf.fit(X, target(clf)).score(X, target(clf))
    assert clf.set_params(**change).score(X, target(clf)) == then
    assert clf.fit(X, target(clf)).score(X, target(clf)) != then


@pytest.mark.parametrize("name", ["AUC", "FScore", "RecallAtPrecision"])
def test_partial_fit_without_positives_keeps_the_threshold(name):
    clf = quick(getattr(sktopk, f"{name}Classifier")).partial_fit(X, POSITIVE)
    before, negatives = clf.threshold_, X[POSITIVE == 0]
    assert clf.partial_fit(negatives, np.zeros(len(negatives), int)).threshold_ == before


def test_the_method_score_computes_the_f_score_at_a_changed_threshold():
    clf = quick(FScoreClassifier).fit(X, POSITIVE)
    clf.threshold_ += 0.1
    assert clf.score(X, POSITIVE) == f1_score(POSITIVE, clf.predict(X))


def test_a_chunk_that_diverges_does_not_change_the_estimator():
    sgd = {"net_params": {"optimizer": torch.optim.SGD}, "learning_rate": 0.1, "max_epochs": 3}
    for cls in (TopKClassifier, DeepTopPushClassifier):
        clf = quick(cls, n_estimators=2, **sgd)
        fitted, y = copy.deepcopy(clf.fit(X, target(clf))), target(clf)
        for how, params in (("partial_fit", {}), ("fit", {"learning_rate": 1e30})):
            with pytest.raises(ValueError, match="diverged"):
                getattr(clf.set_params(**params), how)(1e200 * X, y)
            check_same(fitted_state(clf), fitted_state(fitted))


class Within(Callback):
    """Predicts before each step, in the same or in another thread."""

    def __init__(self, clf, in_thread):
        self.clf, self.in_thread, self.scores = clf, in_thread, []

    def predict(self):
        self.scores.append(self.clf.decision_function(X[:3]))

    def on_batch_begin(self, net, **kwargs):
        if not self.in_thread:
            return self.predict()
        thread = threading.Thread(target=self.predict)
        thread.start()
        thread.join(60)


@pytest.mark.parametrize(
    ("cls", "in_thread", "frozen"),
    # Predict in the same thread only if the network draws from torch's global generator.
    [
        (TopKClassifier, False, True), (DeepTopPushClassifier, False, False),
        (DeepTopPushClassifier, True, True),
    ],
)  # fmt: skip
def test_predictions_between_steps_do_not_change_the_training(cls, in_thread, frozen):
    module = MLP if cls is DeepTopPushClassifier else WithDropout
    params = {"module": module, "max_epochs": 2, "n_iter_no_change": None}
    more = {"net_params": {"module__dropout": 0.5}} if module is MLP else {}
    freeze = [hook(on_batch_begin=lambda self, net, **_: net.module_[1].eval())] if frozen else []
    alone = quick(cls, callbacks=freeze, **params, **more)
    alone.fit(X, target(alone))
    clf = quick(cls, **params, **more).fit(X, target(alone))
    within = Within(clf, in_thread)
    clf.set_params(callbacks=[*freeze, within]).fit(X, target(alone))
    assert len(within.scores) == 20
    check_same(weights(clf), weights(alone))


def test_entries_of_net_params_are_parameters_of_the_estimator():
    clf = quick(net_params={"optimizer__betas": (0.5, 0.9)})
    assert clf.get_params()["optimizer__betas"] == (0.5, 0.9)
    assert "optimizer__betas" not in clf.get_params(deep=False)
    other = clone(clf).set_params(optimizer__betas=(0.1, 0.2), module__batch_norm=True, k=1)
    assert clf.net_params == {"optimizer__betas": (0.5, 0.9)}
    assert other.net_params == {"optimizer__betas": (0.1, 0.2), "module__batch_norm": True}
    other.fit(X, Y)
    assert other.net_.optimizer_.param_groups[0]["betas"] == (0.1, 0.2)
    assert any(isinstance(layer, nn.BatchNorm1d) for layer in other.net_.module_.modules())


def test_batch_normalization_accepts_one_sample_left_for_the_last_minibatch():
    clf = quick(batch_size=34, net_params={"module__batch_norm": True})
    assert 205 % 34 == 1
    assert np.isfinite(clf.fit(X[:205], Y[:205]).decision_function(X)).all()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_compiled_network_gives_nearly_the_same_scores(monkeypatch):
    # This backend does not call the C++ compiler, which is slow.
    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend="eager"))
    clf = quick(max_epochs=1, module=TabularMLP)
    expected = clf.fit(X, Y).decision_function(X)
    found = clf.set_params(net_params={"compile": True}).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_verbose_0_shows_nothing_and_verbose_2_shows_a_table_also_in_partial_fit(capsys):
    clf = TopKClassifier(k=2, n_estimators=2, max_epochs=2, random_state=0).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    for train in (clf.set_params(verbose=2).partial_fit, clf.fit):
        train(X, Y)
        assert "train_loss" in capsys.readouterr().out
    clf.set_params(verbose=0).partial_fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_a_network_cannot_be_trained_without_its_estimator():
    clf = quick(TopKClassifier).fit(X, Y)
    before = clf.decision_function(X)
    for train in (clf.net_.fit, clf.net_.partial_fit):
        with pytest.raises(TypeError, match="call fit or partial_fit of the estimator"):
            train(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), before)


@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize(("max_epochs", "patience"), [(3, None), (90, 1)])
def test_a_fit_shows_one_progress_bar_that_ends_full(in_pipeline, max_epochs, patience, capsys):
    params = {"k": 2, "n_estimators": 2, "n_iter_no_change": patience, "verbose": 1}
    clf = clf_or_pipe = TopKClassifier(max_epochs=max_epochs, random_state=0, **params)
    if in_pipeline:
        clf_or_pipe = sktopk.Pipeline([("scale", StandardScaler()), ("classify", clf)])
    clf_or_pipe.fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.split("\r")[-1]
    assert (clf.n_iter_ < max_epochs) == (patience is not None)
    for text in ("Training: 100%", f"{clf.n_iter_}/{clf.n_iter_}", "train_loss=", "valid_score="):
        assert text in last
    assert shown.err.count("\n") == 1
