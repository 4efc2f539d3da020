"""What happens during a fit: epochs, losses, early stopping, parts of data, copies, failures."""

import copy
import pickle
import threading

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback, LRScheduler
from torch import nn

import sktopk
from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    RecallAtKClassifier,
    TopKClassifier,
    TopPushKClassifier,
)
from sktopk.metrics import make_topk_scorer
from sktopk.modules import MLP
from tests.crashing import POSITIVE, WithDropout, X, Y, check_same, fitted_state, target


def quick(classifier=TopKClassifier, **params):
    params = {
        "module": MLP, "hidden_layer_sizes": (8,), "max_epochs": 6, "batch_size": 32,
        "n_estimators": 1, "calibration": None, "random_state": 0,
    } | params  # fmt: skip
    if classifier is TopKClassifier:
        params.setdefault("k", 2)
    return classifier(**params)


class Epochs(Callback):
    """Keeps the weights of every epoch."""

    def on_train_begin(self, net, **kwargs):
        self.weights = []

    def on_epoch_end(self, net, **kwargs):
        self.weights.append({k: v.clone() for k, v in net.module_.state_dict().items()})


def weights(clf):
    """A copy of the state of the network."""
    return {name: value.clone() for name, value in clf.net_.module_.state_dict().items()}


# Epochs.


@pytest.mark.parametrize(("pretrain", "n_first"), [(0, 0), (0.4, 2), (0.99, 5)], ids=str)
@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
def test_the_history_says_which_epoch_trained_what(cls, pretrain, n_first):
    clf = quick(cls, pretrain=pretrain, n_iter_no_change=None)
    clf.fit(X, target(clf))
    name = "smooth_topk" if cls is TopKClassifier else "PatMat"
    losses = n_first * ["cross_entropy"] + [name] * (6 - n_first)
    assert [row["loss"] for row in clf.history_] == losses
    assert clf.n_iter_ == clf.max_epochs_ == 6
    assert [row["epoch"] for row in clf.history_] == [1, 2, 3, 4, 5, 6]
    assert all(row["train_loss"] > 0 and row["dur"] > 0 for row in clf.history_)
    assert all(("threshold" in row) == (row["loss"] == "PatMat") for row in clf.history_)


def test_one_epoch_trains_the_named_loss():
    assert quick(max_epochs=1).fit(X, Y).history_[0]["loss"] == "smooth_topk"
    assert quick(loss="cross_entropy").fit(X, Y).history_[-1]["loss"] == "cross_entropy"
    assert quick(loss=nn.CrossEntropyLoss()).fit(X, Y).history_[-1]["loss"] == "CrossEntropyLoss"


def test_the_learning_rate_runs_through_one_cycle():
    rates = []

    class Rate(Callback):
        def on_batch_begin(self, net, **kwargs):
            rates.append(net.optimizer_.param_groups[0]["lr"])

    quick(max_epochs=10, learning_rate=0.5, callbacks=[Rate()]).fit(X, Y)
    u = np.arange(1, 101) / 100
    expected = np.where(u < 0.1, 5 * u, 0.25 * (1 + np.cos(np.pi * (u - 0.1) / 0.9)))
    np.testing.assert_allclose(rates, np.maximum(expected, 0.5e-3), atol=1e-12)
    rates.clear()
    clf = quick(learning_rate=0.5, callbacks=[Rate()])
    clf.partial_fit(X, Y).partial_fit(X, Y)
    assert rates == [0.5] * 20


# Early stopping.


@pytest.mark.parametrize("cls", [TopKClassifier, PatMatClassifier])
@pytest.mark.parametrize("n_estimators", [1, 3])
def test_early_stopping_keeps_the_best_epoch_of_the_loss_for_each_network(cls, n_estimators):
    epochs = Epochs()
    clf = quick(
        cls, n_estimators=n_estimators, n_iter_no_change=3, pretrain=0.1, max_epochs=40,
        learning_rate=0.03, callbacks=[epochs],
    )  # fmt: skip
    clf.fit(X, target(clf))
    assert 4 < clf.n_iter_ == len(epochs.weights) < 40
    if n_estimators == 1:
        scores = [row["valid_score"] for row in clf.history_][4:]
        best = 4 + int(np.argmax(scores))
        assert clf.n_iter_ == best + 1 + 3
        check_same(weights(clf), epochs.weights[best])
        return
    kept = weights(clf)
    epoch_of = []
    for m in range(n_estimators):
        own = {name: value for name, value in kept.items() if name.startswith(f"{m}.")}
        found = [
            i for i, each in enumerate(epochs.weights)
            if all(torch.equal(each[name], value) for name, value in own.items())
        ]  # fmt: skip
        epoch_of += found
    assert len(epoch_of) == n_estimators
    assert min(epoch_of) >= 4  # none of cross-entropy
    assert len(set(epoch_of)) > 1
    assert max(epoch_of) + 1 + 3 == clf.n_iter_


def test_given_validation_samples_stop_and_calibrate_the_training():
    clf = quick(n_iter_no_change=2, max_epochs=60, learning_rate=0.1, calibration="temperature")
    clf.fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:])
    assert clf.n_iter_ < 60
    assert not hasattr(clf, "oob_score_")
    assert clf.class_count_.sum() == 200
    assert all({"valid_loss", "valid_score"} <= row.keys() for row in clf.history_)
    # Without early stopping they change nothing but the calibration.
    one, other = (quick(loss="noised_topk", calibration=c) for c in ("temperature", None))
    one.fit(X, Y, X_val=X[:50], y_val=Y[:50])
    np.testing.assert_array_equal(one.decision_function(X), other.fit(X, Y).decision_function(X))
    seen = Y[:50] != 2
    whole = {"batch_size": len(X), "calibration": "temperature"}  # in float64
    clf, expected = (quick(k=1, **whole) for _ in range(2))
    with pytest.warns(UserWarning, match=r"y_val has labels that are not in y, \[2\]"):
        clf.fit(X[Y < 2], Y[Y < 2], X_val=X[:50], y_val=Y[:50])
    expected.fit(X[Y < 2], Y[Y < 2], X_val=X[:50][seen], y_val=Y[:50][seen])
    np.testing.assert_allclose(clf.predict_proba(X), expected.predict_proba(X))


def test_the_loss_of_validation_samples_is_that_of_training():
    for cls in (TopKClassifier, PatMatClassifier, FScoreClassifier):
        # The training samples themselves, in one minibatch that changes nothing.
        clf = quick(cls, learning_rate=1e-12, batch_size=300, max_epochs=2, pretrain=0.5)
        clf.fit(X, target(clf), X_val=X, y_val=target(clf))
        for row in clf.history_:
            assert row["valid_loss"] == pytest.approx(row["train_loss"])


def test_a_single_network_holds_out_a_tenth_but_no_class():
    y, shown = Y.copy(), []
    y[0] = 77

    class Labels(Callback):
        def on_train_begin(self, net, X, y, **kwargs):
            shown.append(y)

    for params in ({"n_iter_no_change": 2}, {"calibration": "sigmoid"}):
        clf = quick(callbacks=[Labels()], max_epochs=3, **params).fit(X, y)
        assert 77 in clf.classes_
        assert (shown[-1] == 3).sum() == 1
        assert len(shown[-1]) == 270
    assert clf.predict_proba(X).shape == (300, 4)


def test_data_that_cannot_be_held_out_are_all_trained_on():
    few = np.r_[np.flatnonzero(POSITIVE)[:1], np.flatnonzero(POSITIVE == 0)[:20]]
    for n_estimators in (1, 3):
        clf = quick(PatMatClassifier, tau=0.2, n_estimators=n_estimators, n_iter_no_change=2)
        clf.fit(X[few], POSITIVE[few])
        assert clf.n_iter_ == 6
        assert not hasattr(clf, "oob_score_")
        assert np.isfinite(clf.threshold_)
    clf.set_params(calibration="sigmoid").fit(X[few], POSITIVE[few])
    with pytest.raises(AttributeError) as error:
        clf.predict_proba(X)
    assert "no samples could be held out for calibration='sigmoid'" in str(error.value)


# Parts of the data.


def test_partial_fit_announces_classes_and_counts_them():
    clf = quick(loss="logit_adjusted")
    for label in range(3):
        clf.partial_fit(X[label == Y], Y[label == Y], classes=range(3))
    np.testing.assert_array_equal(clf.class_count_, np.bincount(Y))
    assert clf.n_iter_ == 3
    share = clf.net_.criterion_.losses[0].class_counts.numpy() / np.bincount(Y)
    np.testing.assert_allclose(share, share[0])
    with pytest.raises(ValueError, match=r"y has labels \[7\] that are not among the classes"):
        clf.partial_fit(X, np.where(Y == 0, 7, Y))
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        clf.partial_fit(X, Y, classes=[0, 1])


def test_partial_fit_goes_on_from_a_fit_and_fit_starts_anew():
    clf = quick(n_estimators=2, calibration="temperature", module=sktopk.modules.TabularMLP)
    first = clone(clf).fit(X, Y)
    assert hasattr(first, "oob_score_")
    before = weights(first)
    first.partial_fit(X, Y)
    assert any(not torch.equal(value, before[name]) for name, value in weights(first).items())
    assert [row["loss"] for row in first.history_][-1] == "smooth_topk"
    assert first.n_iter_ == 7
    # These networks have seen all samples by now.
    assert not hasattr(first, "oob_score_")
    assert not hasattr(first, "oob_decision_function_")
    assert first.predict_proba(X).shape == (300, 3)
    check_same(fitted_state(first.fit(X, Y)), fitted_state(clone(clf).fit(X, Y)))


@pytest.mark.parametrize(
    "clf",
    [
        quick(module=WithDropout, loss="noised_topk"),
        TopKClassifier(k=2, n_estimators=2, max_epochs=3, random_state=0),
        PatMatClassifier(n_estimators=2, max_epochs=3, random_state=0, calibration="sigmoid"),
        quick(DeepTopPushClassifier, buffer_size=3),
        quick(FScoreClassifier),
    ],
    ids=["dropout", "default", "ranker", "hard samples", "program"],
)
def test_a_copy_predicts_and_trains_on_like_the_original(clf, tmp_path):
    y, half = target(clf), (X[:150], target(clf)[:150])
    for train in (clf.fit, clf.partial_fit):  # a copy of the second is made midway
        train(*half)
        joblib.dump(clf, tmp_path / "clf")
        twins = [joblib.load(tmp_path / "clf"), pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)]
        for twin in twins:
            np.testing.assert_array_equal(clf.decision_function(X), twin.decision_function(X))
            check_same(fitted_state(twin), fitted_state(clf))
        clf.partial_fit(X[150:], y[150:])
        for twin in twins:
            check_same(fitted_state(twin.partial_fit(X[150:], y[150:])), fitted_state(clf))


def test_fitted_state_is_arrays_and_plain_values():
    state = quick(n_iter_no_change=2).fit(X, Y).__getstate__()

    def kinds(value):
        if isinstance(value, dict):
            return set().union(*map(kinds, value.values()), set())
        if isinstance(value, list | tuple):
            return set().union(*map(kinds, value), set())
        return {type(value)}

    fitted = {name: value for name, value in state.items() if name.endswith("_")}
    assert "net_" in fitted
    assert kinds(fitted) <= {np.ndarray, np.float64, str, int, float, bool, type(None)}


def test_score_is_the_metric_that_was_trained_for():
    for clf, change in [
        (TopPushKClassifier(k=1), {"k": 60}),
        (RecallAtKClassifier(k=10), {"k": 100}),
        (FScoreClassifier(beta=0.1), {"beta": 10.0}),
        (TopKClassifier(k=1), {"k": 2}),
        (AUCClassifier(multi_class="ovr"), {"multi_class": "mu"}),
    ]:
        y = Y if isinstance(clf, TopKClassifier | AUCClassifier) else POSITIVE
        clf.set_params(max_epochs=2, n_estimators=1, module=MLP, random_state=0).fit(X, y)
        then = clf.score(X, y)
        assert clf.set_params(**change).score(X, y) == then
        assert clf.fit(X, y).score(X, y) != then


# Failures.


# In `partial_fit` the network, callbacks and optimizer of the first call go on.
def test_a_part_that_diverges_leaves_the_estimator_as_it_was():
    # Other errors: see test_wrong_data, test_wrong_networks and test_parameters.
    sgd = {"net_params": {"optimizer": torch.optim.SGD}, "learning_rate": 0.1, "max_epochs": 3}
    for cls in (TopKClassifier, DeepTopPushClassifier):
        clf = quick(cls, n_estimators=2, **sgd)
        fitted, y = copy.deepcopy(clf.fit(X, target(clf))), target(clf)
        for how, params in (("partial_fit", {}), ("fit", {"learning_rate": 1e30})):
            with pytest.raises(ValueError, match="diverged"):
                getattr(clf.set_params(**params), how)(1e200 * X, y)
            check_same(fitted_state(clf), fitted_state(fitted))


# Predictions during a training.


class Within(Callback):
    """Predicts before each step, perhaps in another thread, perhaps with parts of it frozen."""

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


class Freeze(Callback):
    def on_epoch_begin(self, net, **kwargs):
        self.net = net

    def on_batch_begin(self, net, **kwargs):
        net.module_[1].eval()


@pytest.mark.parametrize(
    ("cls", "in_thread", "frozen"),
    # A network that draws from torch's generator has it for itself.
    [
        (TopKClassifier, False, True), (DeepTopPushClassifier, False, False),
        (DeepTopPushClassifier, True, True),
    ],
)  # fmt: skip
def test_predictions_between_steps_leave_the_training_as_it_is(cls, in_thread, frozen):
    module = MLP if cls is DeepTopPushClassifier else WithDropout
    params = {"module": module, "max_epochs": 2, "n_iter_no_change": None}
    more = {"net_params": {"module__dropout": 0.5}} if module is MLP else {}
    freeze = [Freeze()] if frozen else []
    alone = quick(cls, callbacks=freeze, **params, **more)
    alone.fit(X, target(alone))
    clf = quick(cls, **params, **more).fit(X, target(alone))
    within = Within(clf, in_thread)
    clf.set_params(callbacks=[*freeze, within]).fit(X, target(alone))
    assert len(within.scores) == 20
    check_same(weights(clf), weights(alone))


# Parameters of the training.


def test_net_params_are_parameters():
    clf = quick(net_params={"optimizer__betas": (0.5, 0.9)})
    assert clf.get_params()["optimizer__betas"] == (0.5, 0.9)
    assert "optimizer__betas" not in clf.get_params(deep=False)
    other = clone(clf).set_params(optimizer__betas=(0.1, 0.2), module__batch_norm=True, k=1)
    assert clf.net_params == {"optimizer__betas": (0.5, 0.9)}
    assert other.net_params == {"optimizer__betas": (0.1, 0.2), "module__batch_norm": True}
    other.fit(X, Y)
    assert other.net_.optimizer_.param_groups[0]["betas"] == (0.1, 0.2)
    assert any(isinstance(layer, nn.BatchNorm1d) for layer in other.net_.module_.modules())


def test_what_belongs_to_networks_and_schedules_can_be_searched():
    pipe = make_pipeline(StandardScaler(), quick(max_epochs=3))
    pipe[-1].callbacks = [("lr", LRScheduler("StepLR", step_size=2, gamma=0.01))]
    grid = {
        "topkclassifier__optimizer__betas": [(0.9, 0.999), (0.1, 0.1)],
        "topkclassifier__callbacks__lr__step_size": [1, 4],
    }
    search = GridSearchCV(pipe, grid, scoring=make_topk_scorer(2), cv=2).fit(X, Y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_batch_normalisation_survives_a_batch_of_one():
    clf = quick(batch_size=34, net_params={"module__batch_norm": True})
    assert 205 % 34 == 1
    assert np.isfinite(clf.fit(X[:205], Y[:205]).decision_function(X)).all()


def test_mean_loss_of_weighted_minibatches_is_that_of_the_whole():
    weight = np.where(Y == 0, 100.0, 0.01) * np.random.default_rng(0).uniform(size=len(Y))
    params = {"learning_rate": 1e-12, "max_epochs": 1}
    whole, batches = (
        quick(batch_size=b, **params).fit(X, Y, sample_weight=weight).history_[0]["train_loss"]
        for b in (len(Y), 16)
    )
    assert batches == pytest.approx(whole)


def test_every_optimizer_lowers_the_loss():
    optim, params = torch.optim, {"batch_size": 300, "pretrain": 0}
    for optimizer, rate in ((optim.Adam, 0.01), (optim.SGD, 0.1), (optim.LBFGS, 0.5)):
        clf = quick(net_params={"optimizer": optimizer}, learning_rate=rate, **params)
        losses = [row["train_loss"] for row in clf.fit(X, Y).history_]
        assert losses[-1] < losses[0]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_compiled_network_learns_the_same():
    clf = quick(max_epochs=1)
    expected = clf.fit(X, Y).decision_function(X)
    found = clf.set_params(net_params={"compile": True}).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_verbose_shows_one_bar_over_the_epochs(capsys):
    quick(verbose=1, n_iter_no_change=9, max_epochs=3).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    for text in ("3/3", "train_loss=", "valid_score="):
        assert text in shown.err
    quick(max_epochs=2).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    quick(verbose=2, max_epochs=2).fit(X, Y)
    assert "train_loss" in capsys.readouterr().out
