"""Threads and processes, of the same model or of many: the same numbers, nothing disturbed."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback
from torch import nn

from sktopk import (
    DeepTopPushClassifier,
    FScoreClassifier,
    RecallAtPrecisionClassifier,
    TopKClassifier,
)
from sktopk.modules import MLP

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    # Python 3.12 warns of forks where there are threads.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

rng = np.random.default_rng(0)
X = rng.standard_normal((240, 5))
Y = (X[:, :3] + rng.standard_normal((240, 3))).argmax(axis=1)


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 9), nn.Dropout(0.5), nn.Linear(9, n_outputs))


SMALL = {
    "module": MLP,
    "hidden_layer_sizes": (6,),
    "batch_size": 32,
    "max_epochs": 5,
    "random_state": 0,
}
CLASSIFIERS = {
    "plain": TopKClassifier(k=2, **SMALL),
    "default": TopKClassifier(k=2, n_members=2, **SMALL | {"module": None, "max_epochs": 2}),
    "dropout": TopKClassifier(k=2, **SMALL | {"module": WithDropout}),
    "noise": TopKClassifier("noised_topk", k=2, early_stopping=True, **SMALL),
    "hard rows": DeepTopPushClassifier(buffer_size=3, **SMALL),
    "program": FScoreClassifier(early_stopping=True, **SMALL),
    # Its threshold is settled, and may warn, before every validation score.
    "warns": RecallAtPrecisionClassifier(
        precision=1.0, early_stopping=True, scoring="balanced_accuracy", **SMALL
    ),
}


def fit(name):
    """A fitted classifier of that name, and its scores."""
    torch.set_num_threads(1)
    clf = pickle.loads(pickle.dumps(CLASSIFIERS[name]))
    clf.fit(X, Y if isinstance(clf, TopKClassifier) else Y == 0)
    return clf, clf.decision_function(X)


def scores(name):
    return fit(name)[1]


@pytest.fixture(scope="module")
def expected():
    return {name: scores(name) for name in CLASSIFIERS}


def settings():
    """What belongs to the process and not to a fit."""
    return (
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_num_threads(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        np.geterr(),
    )


def test_fits_in_threads_disturb_neither_each_other_nor_the_process(expected):
    before = settings()
    names = [*CLASSIFIERS] * 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(scores, names))
    for name, score in zip(names, found, strict=True):
        np.testing.assert_array_equal(score, expected[name])
    assert settings() == before


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_fit_leaves_the_warning_filters_to_other_threads(name, monkeypatch):
    # scikit-learn sets and resets them, for a moment, wherever it checks a table.
    enter, ours = warnings.catch_warnings.__enter__, []

    def watched(self):
        ours.append(sys._getframe(1).f_globals["__name__"].startswith("sktopk."))
        return enter(self)

    monkeypatch.setattr(warnings.catch_warnings, "__enter__", watched)
    fit(name)
    assert ours
    assert not any(ours)


@pytest.mark.parametrize("name", ["default", "dropout", "hard rows"])
def test_eight_threads_predict_with_one_model_at_once(name, expected):
    clf, _ = fit(name)
    rows = np.tile(X, (20, 1))
    barrier = threading.Barrier(8)

    def predict(method):
        barrier.wait(timeout=60)
        return [getattr(clf, method)(rows) for _ in range(5)]

    methods = ["decision_function", "predict"] * 4
    alone = {method: getattr(clf, method)(rows) for method in methods}
    with ThreadPoolExecutor(8) as pool:
        for method, answers in zip(methods, pool.map(predict, methods), strict=True):
            for answer in answers:
                np.testing.assert_array_equal(answer, alone[method])


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_fit_trains_inside_a_mode_without_gradients(name, mode, expected):
    with mode():
        clf, score = fit(name)
        copied = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(score, expected[name])
    # A copy made there goes on outside, as the original does.
    y = Y if isinstance(clf, TopKClassifier) else Y == 0
    for each in (clf, copied):
        each.set_params(warm_start=True).fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), copied.decision_function(X))


# joblib inside joblib.


def inner(names, backend):
    results = joblib.Parallel(2, backend=backend)(joblib.delayed(scores)(name) for name in names)
    return dict(zip(names, results, strict=True))


def search(n_jobs):
    grid = GridSearchCV(CLASSIFIERS["default"], {"tau": [0.5, 1.0]}, cv=2, n_jobs=n_jobs)
    return grid.fit(X, Y).cv_results_["mean_test_score"]


def test_parallel_fits_inside_parallel_fits(expected):
    names = ["dropout", "hard rows"]
    jobs = [
        joblib.delayed(inner)(names, "loky"),
        joblib.delayed(inner)([*CLASSIFIERS], "threading"),
        joblib.delayed(search)(2),
    ]
    *found, of_search = joblib.Parallel(2, backend="loky")(jobs)
    for results in found:
        for name, score in results.items():
            np.testing.assert_array_equal(score, expected[name])
    np.testing.assert_array_equal(of_search, search(1))


# Processes of multiprocessing.


def predict_and_fit(connection, clf, name):
    torch.set_num_threads(1)
    connection.send((clf.decision_function(X), scores(name)))


def answers_of(method, clf, name):
    """What a process of that kind answers, or fail after a minute."""
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=predict_and_fit, args=(theirs, clf, name))
    process.start()
    try:
        assert ours.poll(60), f"a process made by {method} gives no answer"
        return ours.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("name", ["dropout"])
def test_processes_predict_and_fit(method, name, expected):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    clf, score = fit(name)
    for answer in answers_of(method, clf, name):
        np.testing.assert_array_equal(answer, score)


class Wait(Callback):
    """Halts the fit of another thread in its middle."""

    begun, go_on = threading.Event(), threading.Event()

    def __deepcopy__(self, memo):
        return self

    def on_epoch_end(self, net, **kwargs):
        self.begun.set()
        assert self.go_on.wait(60)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_fork_in_the_middle_of_another_threads_fit_does_not_hang(expected):
    # Which holds torch's generator, as its module draws from it.
    clf, _ = fit("dropout")
    halted = TopKClassifier(k=2, callbacks=[Wait()], **SMALL | {"module": WithDropout})
    thread = threading.Thread(target=halted.fit, args=(X, Y))
    thread.start()
    try:
        assert Wait.begun.wait(60)
        for answer in answers_of("fork", clf, "dropout"):
            np.testing.assert_array_equal(answer, expected["dropout"])
    finally:
        Wait.go_on.set()
        thread.join()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_fork_in_the_middle_of_another_threads_step_does_not_hang(expected):
    clf, score = fit("dropout")
    begun, go_on = threading.Event(), threading.Event()

    def step():
        begun.set()
        assert go_on.wait(60)

    thread = threading.Thread(target=clf.net_.alone, args=(step,))
    thread.start()
    try:
        assert begun.wait(60)
        # As the process begins, it has the model, not a copy.
        for answer in answers_of("fork", clf, "dropout"):
            np.testing.assert_array_equal(answer, score)
    finally:
        go_on.set()
        thread.join()


FORK_OF_THREADS = """
import multiprocessing, numpy as np, torch
from sktopk import TopKClassifier

torch.set_num_threads(2)
X = np.random.default_rng(0).standard_normal((8192, 100), dtype=np.float32)
clf = TopKClassifier(k=1, hidden_layer_sizes=(200,), batch_size=4096, max_epochs=1)
clf.fit(X, np.digitize(X[:, 0], [-1, 1]))
assert torch.get_num_threads() == 2
context = multiprocessing.get_context("fork")
with context.Pool(1) as pool:
    labels = pool.apply_async(clf.predict, (X,)).get(timeout=60)
assert np.array_equal(labels, clf.predict(X))
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_fork_after_torch_used_its_threads_does_not_hang():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_OF_THREADS],
        env={k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.returncode == 0, run.stderr


def test_scores_of_a_ranker_leave_the_warning_filters_alone(monkeypatch):
    clf = DeepTopPushClassifier(**SMALL).fit(X, Y == 1)
    groups = np.arange(len(X)) % 4
    # They belong to all threads, of which another might put back what it found in the meantime.
    with monkeypatch.context() as patch:
        patch.setattr("sktopk.metrics._top_scorer.warnings", None)
        of_all, of_each = clf.score(X, Y == 1), clf.score(X, Y == 1, groups=groups)
    assert 0 < of_all <= of_each <= 1
