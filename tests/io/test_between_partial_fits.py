"""A copy that is made between two calls of partial_fit trains on as the original does."""

import copy
import pickle

import numpy as np
import pytest

import sktopk
from sktopk.io import dump, load
from tests.crashing import Crash, check_same, crashing, fitted_state

RANKERS = [
    name
    for name in sktopk.__all__
    if hasattr(getattr(sktopk, name), "partial_fit") and name != "TopKClassifier"
]
COPIES = {
    "pickle": lambda clf, path: pickle.loads(pickle.dumps(clf)),
    "deepcopy": lambda clf, path: copy.deepcopy(clf),
    "sktopk.io": lambda clf, path: load(dump(clf, path)),
}


def rankers():
    """All of them, those with a buffer with none, one and five rows in it."""
    for name in RANKERS:
        cls = getattr(sktopk, name)
        sizes = [0, 1, 5, "auto"] if "buffer_size" in cls().get_params() else [None]
        for size in sizes:
            given = {} if size is None else {"buffer_size": size}
            if "k" in cls().get_params():
                given["k"] = 5
            params = {"hidden_layer_sizes": (4,), "batch_size": 50, "random_state": 0, **given}
            yield pytest.param(cls, params, id=f"{name}-{size}")


CASES = list(rankers())


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(("cls", "params"), CASES)
def test_a_copy_trains_on_as_the_original(cancer, path, cls, params, copied):
    X, y = cancer
    pieces = [slice(300), slice(300, 400), slice(400, 569)]
    clf = cls(**params).partial_fit(X[pieces[0]], y[pieces[0]])
    copy_ = copied(clf, path)
    for piece in pieces[1:]:
        clf.partial_fit(X[piece], y[piece])
        copy_.partial_fit(X[piece], y[piece])
        np.testing.assert_array_equal(copy_.decision_function(X), clf.decision_function(X))
        # Down to what nothing has shown yet.
        check_same(fitted_state(copy_), fitted_state(clf))
        copy_ = copied(copy_, path)


@pytest.mark.parametrize("loss", ["smooth_topk", "noised_topk", "noised_topk_imbalanced", "ldam"])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_topk_classifier_trains_on_as_the_original(blobs, path, loss, copied):
    X, y = blobs
    params = {"k": 2, "hidden_layer_sizes": (4,), "batch_size": 50, "random_state": 0}
    params["net_params"] = {"module__dropout": 0.3}
    clf = sktopk.TopKClassifier(loss, **params).partial_fit(X[:100], y[:100], classes=range(5))
    copy_ = copied(clf, path)
    for piece in (slice(100, 180), slice(180, 240)):
        clf.partial_fit(X[piece], y[piece])
        copy_.partial_fit(X[piece], y[piece])
        np.testing.assert_array_equal(copy_.decision_function(X), clf.decision_function(X))
        copy_ = copied(copy_, path)


@pytest.mark.parametrize(("cls", "params"), CASES)
def test_a_fit_that_goes_on_from_a_stream_goes_on_after_a_crash(cancer, path, cls, params):
    """partial_fit, then a warm fit with a checkpoint, that is broken off and called again."""
    X, y = cancer
    params = params | {"warm_start": True, "max_epochs": 4, "callbacks": [("crash", Crash())]}
    before = cls(**params).partial_fit(X[:300], y[:300])
    expected = copy.deepcopy(before).fit(X, y)
    file = path.with_name("checkpoint")
    with crashing(after=4):
        copy.deepcopy(before).set_params(checkpoint=file).fit(X, y)
    assert file.exists()
    again = copy.deepcopy(before).set_params(checkpoint=file).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), expected.decision_function(X))
    check_same(fitted_state(again), fitted_state(expected))
