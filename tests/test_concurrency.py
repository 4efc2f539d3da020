"""Threads and processes change no result of a fit or a prediction, for one model or several."""

import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import joblib
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback

from sktopk import DeepTopPushClassifier, FScoreClassifier, TopKClassifier
from sktopk.modules import MLP, TabularMLP
from tests.crashing import WithDropout, X, Y, check_same, fitted_state, target

# Python 3.12 warns if a process with threads forks.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
SMALL = {"module": MLP, "hidden_layer_sizes": (6,), "batch_size": 100, "max_epochs": 4}
SMALL |= {"n_estimators": 1, "random_state": 0}


def noisy(scores, target):
    return torch.nn.functional.cross_entropy(scores + torch.randn_like(scores), target)


CLASSIFIERS = {
    "default": TopKClassifier(k=2, **SMALL | {"module": TabularMLP, "n_estimators": 2}),
    "dropout": TopKClassifier(k=2, **SMALL | {"module": WithDropout}),
    "dropout of ours": TopKClassifier(k=2, **SMALL, net_params={"module__dropout": 0.5}),
    "a loss that draws": TopKClassifier(noisy, k=2, **SMALL),
    "noise": TopKClassifier("noised_topk", k=2, n_iter_no_change=3, **SMALL),
    "hard samples": DeepTopPushClassifier(buffer_size=3, **SMALL),
    "program": FScoreClassifier(**SMALL | {"n_estimators": 2}),
}


def fit(name):
    torch.set_num_threads(1)
    clf = pickle.loads(pickle.dumps(CLASSIFIERS[name]))
    clf.fit(X, target(clf))
    return clf, clf.decision_function(X)


def scores(name):
    return fit(name)[1]


@pytest.fixture(scope="module")
def expected():
    return {name: scores(name) for name in CLASSIFIERS}


def settings():
    generators = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()  # noqa: NPY002
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), np.geterr()
    of_torch = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    return generators, modes, of_torch, torch.get_num_threads()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_fit_depends_on_its_seed_only_and_changes_no_global_state(name, expected):
    torch.manual_seed(7)
    before = settings()
    clf, score = fit(name)
    np.testing.assert_array_equal(score, expected[name])
    clf.partial_fit(X, target(clf))
    assert settings() == before
    other = clf.set_params(random_state=1).fit(X, target(clf)).decision_function(X)
    assert not np.array_equal(other, score)


class Draw(Callback):
    def __init__(self):
        self.drawn = []

    def on_batch_begin(self, net, **kwargs):
        with ThreadPoolExecutor(1) as pool:
            self.drawn.append(pool.submit(torch.rand, 3).result())


@pytest.mark.parametrize("name", ["default", "dropout of ours", "noise"])
def test_random_draws_of_a_fit_and_of_another_thread_do_not_affect_each_other(name, expected):
    draw, clf = Draw(), pickle.loads(pickle.dumps(CLASSIFIERS[name]))
    torch.manual_seed(7)
    clf.set_params(callbacks=[draw]).fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), expected[name])
    torch.manual_seed(7)
    assert draw.drawn
    for values in draw.drawn:
        assert torch.equal(values, torch.rand(3))


@pytest.mark.parametrize("name", ["default", "noise", "hard samples", "program"])
def test_the_default_dtype_of_torch_does_not_affect_a_fit(name, default_dtype):
    for rows in (X, X.astype(np.float32)):
        states = []
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            default_dtype(dtype)
            clf = pickle.loads(pickle.dumps(CLASSIFIERS[name]))
            clf = pickle.loads(pickle.dumps(clf.fit(rows, target(clf))))
            states.append(fitted_state(clf.partial_fit(rows, target(clf))))
        check_same(states[1], states[0])
        check_same(states[2], states[0])


def test_fits_in_threads_are_independent_and_change_no_global_state(expected):
    before, names = settings(), [*CLASSIFIERS] * 2
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(scores, names))
    for name, score in zip(names, found, strict=True):
        np.testing.assert_array_equal(score, expected[name])
    assert settings() == before


@pytest.mark.parametrize("name", ["default", "dropout"])
def test_eight_threads_predict_with_one_model_at_once(name):
    clf, _ = fit(name)
    rows, barrier = np.tile(X, (5, 1)), threading.Barrier(8)

    def predict(method):
        barrier.wait(timeout=60)
        return [getattr(clf, method)(rows) for _ in range(5)]

    methods = ["decision_function", "predict"] * 4
    alone = {method: getattr(clf, method)(rows) for method in methods}
    with ThreadPoolExecutor(8) as pool:
        for method, answers in zip(methods, pool.map(predict, methods), strict=True):
            for answer in answers:
                np.testing.assert_array_equal(answer, alone[method])


@pytest.mark.parametrize("call", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", ["default", "hard samples"])
def test_predictions_during_a_training_use_the_old_or_the_new_state(name, call):
    clf, _ = fit(name)
    # The second fit has other classes or another positive label: a mixture would fail or differ.
    y = target(clf) if call == "partial_fit" else 1 - (target(clf) > 0)
    before, found = (clf.decision_function(X), clf.predict_proba(X)), []
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(getattr(clf, call), X, y)
        while not training.done():
            found.append((clf.decision_function(X), clf.predict_proba(X)))
        training.result()
    after = clf.decision_function(X), clf.predict_proba(X)
    assert found
    for answers in found:
        for answer, *states in zip(answers, before, after, strict=True):
            assert any(np.array_equal(answer, state) for state in states)
    assert not np.array_equal(before[0], after[0])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_fit_trains_inside_no_grad_and_inference_mode(mode, expected):
    for name, score in expected.items():
        with mode():
            clf, found = fit(name)
            copied = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(found, score)
        # Outside of `mode()`, the copy and the original continue with the same training.
        for each in (clf, copied):
            each.partial_fit(X, target(clf))
        check_same(fitted_state(copied), fitted_state(clf))


def inner(names, backend):
    results = joblib.Parallel(2, backend=backend)(joblib.delayed(scores)(name) for name in names)
    return dict(zip(names, results, strict=True))


def search(n_jobs):
    grid = GridSearchCV(CLASSIFIERS["default"], {"tau": [0.5, 1.0]}, cv=2, n_jobs=n_jobs)
    return grid.fit(X, Y).cv_results_["mean_test_score"]


def test_parallel_fits_inside_parallel_fits_give_the_same_results(expected):
    names = ["default", "dropout", "hard samples"]
    jobs = [joblib.delayed(inner)(names, "threading"), joblib.delayed(search)(2)]
    found, of_search = joblib.Parallel(2, backend="loky")(jobs)
    for name, score in found.items():
        np.testing.assert_array_equal(score, expected[name])
    np.testing.assert_array_equal(of_search, search(1))


def test_dask_workers_with_one_thread_give_the_same_results():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, joblib.parallel_config("dask", n_jobs=2):
        found = search(None)
        assert set(client.run(torch.get_num_threads).values()) == {1}
    np.testing.assert_array_equal(found, search(1))


@cache
def original(name):
    return fit(name)[0]


def predict_and_fit(name):
    torch.set_num_threads(1)
    return original(name).decision_function(X), scores(name)


class Wait(Callback):
    begun, go_on = threading.Event(), threading.Event()

    def on_epoch_end(self, net, **kwargs):
        self.begun.set()
        assert self.go_on.wait(60)


HAS_FORK = "fork" in multiprocessing.get_all_start_methods()
needs_fork = pytest.mark.skipif(not HAS_FORK, reason="needs fork")


@needs_fork
@pytest.mark.parametrize("name", ["dropout", "default"])
def test_a_fork_in_the_middle_of_another_threads_fit_does_not_hang(name, expected):
    original(name)  # a forked process gets a copy of this cache and of its lock
    halted = pickle.loads(pickle.dumps(CLASSIFIERS[name])).set_params(callbacks=[Wait()])
    Wait.begun.clear()
    Wait.go_on.clear()
    thread = threading.Thread(target=halted.fit, args=(X, Y))
    thread.start()
    try:
        assert Wait.begun.wait(60)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            for answer in pool.apply_async(predict_and_fit, (name,)).get(timeout=60):
                np.testing.assert_array_equal(answer, expected[name])
    finally:
        Wait.go_on.set()
        thread.join()


@needs_fork
def test_a_fork_after_torch_used_its_threads_does_not_hang():
    rows = np.random.default_rng(0).standard_normal((8192, 100), dtype=np.float32)
    params = {"hidden_layer_sizes": (200,), "batch_size": 4096, "max_epochs": 1}
    clf = TopKClassifier(k=1, n_estimators=1, **params)
    torch.set_num_threads(2)
    try:
        clf.fit(rows, np.digitize(rows[:, 0], [-1, 1]))
        assert torch.get_num_threads() == 2
        with multiprocessing.get_context("fork").Pool(1) as pool:
            labels = pool.apply_async(clf.predict, (rows,)).get(timeout=60)
        np.testing.assert_array_equal(labels, clf.predict(rows))
    finally:
        torch.set_num_threads(1)
