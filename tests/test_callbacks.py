"""skorch's callbacks live on inside the estimators, and so does Ctrl-C."""

import os
import signal
import threading

import numpy as np
import pytest
from skorch.callbacks import Callback, EarlyStopping, EpochScoring, LRScheduler

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore:The training loss still fell")


def quick(**params):
    params = {
        "k": 2,
        "module": MLP,
        "hidden_layer_sizes": (8,),
        "max_epochs": 8,
        "batch_size": 32,
        **params,
    }
    return TopKClassifier(**{"random_state": 0, **params})


class Recorder(Callback):
    def __init__(self):
        self.calls = []

    def on_batch_end(self, net, batch=None, training=None, **kwargs):
        self.calls.append(("batch", float(kwargs["loss"]), len(kwargs["y_pred"])))

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.calls.append(("grad", len(dict(named_parameters))))

    def on_epoch_end(self, net, **kwargs):
        self.calls.append(("epoch", net.history[-1]["train_loss"]))
        net.history.record("n_calls", len(self.calls))


def test_skorch_callbacks_see_batches_gradients_and_epochs(blobs):
    X, y = blobs
    recorder = Recorder()
    clf = quick(callbacks=[recorder]).fit(X, y)
    assert recorder.calls == []  # the estimator's own copy was called
    calls = dict(clf.net_.callbacks_)["Recorder"].calls
    assert [kind for kind, *_ in calls[:3]] == ["grad", "batch", "grad"]
    per_epoch = 2 * 8 + 1
    assert [row["n_calls"] for row in clf.history_] == [per_epoch * (i + 1) for i in range(8)]
    losses, sizes = zip(*(c[1:] for c in calls[:per_epoch] if c[0] == "batch"), strict=True)
    assert sum(sizes) == len(X)
    assert clf.history_[0]["train_loss"] == pytest.approx(np.average(losses, weights=sizes))


def test_skorch_early_stopping_and_scoring_callbacks_work(blobs):
    X, y = blobs
    callbacks = [
        ("top", EpochScoring(make_topk_scorer(2), lower_is_better=False, name="top2")),
        ("stop", EarlyStopping("top2", lower_is_better=False, patience=3)),
    ]
    clf = quick(
        max_epochs=300, learning_rate=0.05, callbacks=callbacks, scoring=make_topk_scorer(2)
    )
    clf.fit(X, np.array(list("abcde"))[y], X_val=X, y_val=np.array(list("abcde"))[y])
    assert clf.n_iter_ < 300
    for row in clf.history_:
        assert row["top2"] == pytest.approx(row["valid_score"])


def test_learning_rate_schedules_work(blobs):
    X, y = blobs
    scheduler = LRScheduler("StepLR", step_size=2, gamma=0.1)
    clf = quick(callbacks=[("lr", scheduler)]).fit(X, y)
    rates = [row["event_lr"] for row in clf.history_]
    np.testing.assert_allclose(rates, 1e-3 * 0.1 ** (np.arange(8) // 2))


def test_a_callback_that_raises_leaves_no_fit(blobs):
    class Broken(Callback):
        def on_epoch_end(self, net, **kwargs):
            raise RuntimeError("out of coffee")

    X, y = blobs
    clf = quick(callbacks=[Broken()])
    with pytest.raises(RuntimeError, match="out of coffee"):
        clf.fit(X, y)
    assert not hasattr(clf, "net_")


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="needs signals"
)
def test_ctrl_c_keeps_what_was_trained(blobs):
    class Interrupt(Callback):
        def on_batch_begin(self, net, **kwargs):
            if len(net.history) == 3:
                os.kill(os.getpid(), signal.SIGINT)

    X, y = blobs
    clf = quick(callbacks=[Interrupt()], max_epochs=50)
    # A shell that runs the tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.warns(UserWarning, match="after epoch 2: the network keeps its weights"),
            pytest.raises(KeyboardInterrupt),
        ):
            clf.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert clf.n_iter_ == 2
    np.testing.assert_array_equal(
        clf.decision_function(X), quick(max_epochs=2).fit(X, y).decision_function(X)
    )
