"""What several members and two heads have learned is kept, and goes on; also as one graph."""

import numpy as np
import pytest

from sktopk import DeepTopPushClassifier, TopKClassifier, TopPushKClassifier
from sktopk.io import dump, load, to_onnx
from sktopk.modules import TabularMLP
from tests.crashing import check_same, fitted_state
from tests.io.forged import edit, parts
from tests.io.test_between_partial_fits import COPIES
from tests.io.test_load import set_in

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK = {"hidden_layer_sizes": (4,), "max_epochs": 3, "batch_size": 50, "random_state": 0}
MEMBERS = QUICK | {"n_members": 3, "cross_fit": True, "warm_up": 2, "warm_start": True}
CASES = {
    "labels": (TopKClassifier, {"k": 2, "early_stopping": True}),
    "labels, noise": (TopKClassifier, {"loss": "noised_topk_imbalanced", "k": 2}),
    "two heads": (TopKClassifier, {"k": 2, "order": "cross_entropy", "calibration": "sigmoid"}),
    "ranker, 5 hard rows": (TopPushKClassifier, {"k": 3, "buffer_size": 5}),
    "ranker": (DeepTopPushClassifier, {"buffer_size": 1, "early_stopping": True}),
    "packed": (TopKClassifier, {"k": 2, "module": TabularMLP, "order": "cross_entropy"}),
}


def made(name):
    cls, params = CASES[name]
    if "module" in params:
        params = params | {"net_params": {"module__hidden_layer_sizes": (4,)}}
    return cls(**MEMBERS | params)


def data(name, blobs, cancer):
    return blobs if CASES[name][0] is TopKClassifier else (cancer[0][:250], cancer[1][:250])


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("name", CASES)
def test_a_copy_goes_on_as_the_original(name, copied, blobs, cancer, path):
    X, y = data(name, blobs, cancer)
    clf = made(name).fit(X, y)
    if name == "packed" and copied is COPIES["sktopk.io"]:

        def copied(clf, path):
            return load(dump(clf, path))

    if "early_stopping" in CASES[name][1]:
        clf.set_params(early_stopping=False)
    if "calibration" in CASES[name][1]:
        clf.set_params(calibration=None)
    copy_ = copied(clf, path)
    check_same(fitted_state(copy_), fitted_state(clf))
    np.testing.assert_array_equal(copy_.decision_function(X), clf.decision_function(X))
    for _ in range(2):
        for each in (clf, copy_):
            each.fit(X, y)
        check_same(fitted_state(copy_), fitted_state(clf))
        copy_ = copied(copy_, path)
    np.testing.assert_array_equal(copy_.decision_function(X), clf.decision_function(X))


FORGED = {
    "members": (
        set_in("params_of_net", "n_members", value=4),
        r"shape \(3, 4, 36\), .*\(4, 4, 36\)",
    ),
    "no members": (set_in("params_of_net", "n_members", value=0), "n_members == 0, must be >= 1"),
    "heads": (
        set_in("params_of_net", "order", value=None),
        r"shape \(3, 10, 4\), .*\(3, 5, 4\)",
    ),
    "share": (set_in("params_of_net", "cross_entropy_share", value=1.0), "cross_entropy_share"),
    "score": (set_in("fitted", "oob_score_", value="high"), "oob_score_ of TopK"),
    "scores": (set_in("fitted", "oob_decision_function_", value=[1.0]), "oob_decision_function_"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_file_says_of_members_is_checked(name, blobs, path):
    change, message = FORGED[name]
    dump(made("two heads").set_params(calibration=None).fit(*blobs), path)
    load(path)
    edit(path, change)
    with pytest.raises(ValueError, match=message):
        load(path)


def test_a_threshold_and_hard_rows_of_a_member_that_is_not_there_are_refused(cancer, path):
    """The state of the losses has those of three members."""
    X, y = data("ranker", None, cancer)
    dump(made("ranker").fit(X, y), path)
    _, content, _ = parts(path)
    names, values = content["model"]["fitted"]["net_"]["dict"]
    names, values = values[names.index("criterion")]["dict"]
    # The losses of three members, of the warm-up and then.
    assert sum("class_total" in name for name in names) == 6
    edit(path, lambda header, content: drop_criterion(content))
    with pytest.raises(ValueError, match=r"Missing key.*criteria.2.class_total"):
        load(path)


def drop_criterion(content):
    names, values = content["model"]["fitted"]["net_"]["dict"]
    names, values = values[names.index("criterion")]["dict"]
    last = max(i for i, name in enumerate(names) if "class_total" in name)
    del names[last], values[last]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_graph_says_what_the_members_say_together(name, dtype, blobs, cancer, path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = data(name, blobs, cancer)
    X = X.astype(dtype)
    clf = made(name).set_params(calibration=None, learning_rate=0.01).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(clf, path))
    scores, labels = session.run(None, {"X": X})[:2]
    expected = clf.decision_function(X)
    assert scores.dtype == expected.dtype == dtype
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    said = clf.predict_topk(X) if isinstance(clf, TopKClassifier) else clf.predict(X)
    assert (labels == said).mean() > 0.99
    for n_rows in (0, 1):
        assert len(session.run(None, {"X": X[:n_rows]})[0]) == n_rows
