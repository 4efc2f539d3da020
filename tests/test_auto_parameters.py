"""What the "auto" of a parameter stands for, with which network."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import log_loss

from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk._estimators._validation import OrderScorer
from sktopk.modules import MLP, TabularMLP

X, Y = load_iris(return_X_y=True)
X2, Y2 = load_breast_cancer(return_X_y=True)
SHORT = {"max_epochs": 3, "random_state": 0}
OF_TABLES = {
    "hidden_layer_sizes": (128, 128),
    "n_members": 8,
    "cross_fit": True,
    "warm_up": 3,
    "early_stopping": True,
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "weight_decay": 0.3,
    "batch_size": 256,
}
OF_OTHERS = {
    "hidden_layer_sizes": (100,),
    "n_members": 1,
    "cross_fit": False,
    "warm_up": 0,
    "early_stopping": False,
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
    "batch_size": 128,
}


def weights(clf):
    return {name: value.numpy() for name, value in clf.net_.module_.state_dict().items()}


def assert_same(one, other):
    one, other = weights(one), weights(other)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("given", "stands_for"),
    [
        ({}, OF_TABLES | {"module": TabularMLP}),
        ({"module": TabularMLP}, OF_TABLES),
        ({"module": MLP}, OF_OTHERS),
        ({"hidden_layer_sizes": ()}, OF_OTHERS | {"module": MLP, "hidden_layer_sizes": ()}),
    ],
    ids=["default", "tables", "plain", "linear"],
)
@pytest.mark.parametrize("kind", [TopKClassifier, DeepTopPushClassifier])
def test_auto_is_what_the_notes_of_fit_say(kind, given, stands_for):
    clf = TopKClassifier(k=2) if kind is TopKClassifier else kind()
    data = (X, Y) if kind is TopKClassifier else (X2, Y2)
    auto = clf.set_params(**SHORT, **given).fit(*data)
    assert_same(auto, clone(clf).set_params(**stands_for).fit(*data))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_cross_entropy_has_no_warm_up_of_its_own():
    clf = TopKClassifier("cross_entropy", k=1, **SHORT).fit(X, Y)
    assert clf.n_iter_ == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("optimizer", "decay"), [("sgd", 1e-4), ("adam", 1e-4), ("adamw", 0.3), (torch.optim.LBFGS, 0)]
)
def test_weight_decay_is_large_where_it_is_decoupled(optimizer, decay):
    clf = TopKClassifier(k=2, optimizer=optimizer, n_members=1, **SHORT).fit(X, Y)
    assert clf.net_.optimizer_.param_groups[0].get("weight_decay", 0) == decay


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_single_member_is_judged_by_rows_held_out():
    clf = TopKClassifier(k=2, n_members=1, **SHORT).fit(X, Y)
    assert "valid_score" in clf.history_[-1]
    assert not hasattr(clf, "oob_score_")


def test_a_stream_has_one_plain_network_also_after_a_copy():
    clf = TopKClassifier(k=2, random_state=0).partial_fit(X[::3], Y[::3])
    assert isinstance(clf.net_.module_.module, MLP)
    copied = pickle.loads(pickle.dumps(clf)).partial_fit(X[1::3], Y[1::3])
    assert_same(copied, clf.partial_fit(X[1::3], Y[1::3]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fit_after_a_stream_has_the_network_of_tables():
    clf = TopKClassifier(k=2, **SHORT).partial_fit(X, Y).fit(X, Y)
    assert_same(clf, TopKClassifier(k=2, **SHORT).fit(X, Y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_unit_of_a_column_changes_nothing():
    unit = np.array([1e4, 1e-6, 1.0, 3.0])
    scores = [
        TopKClassifier(k=2, **SHORT).fit(rows, Y).decision_function(rows) for rows in (X, X * unit)
    ]
    # The same encoding up to rounding; a fold may be another, as rows go by their content.
    assert np.mean(scores[0].argmax(1) == scores[1].argmax(1)) > 0.97


def test_rows_that_nobody_can_leave_out_warn_only_if_that_was_asked_for():
    few = [[0.0], [1.0], [2.0]], [0, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*max_epochs")
        TopKClassifier(k=1, **SHORT).fit(*few)
    with pytest.warns(UserWarning, match="cross_fit=True needs rows to leave out"):
        TopKClassifier(k=1, cross_fit=True, **SHORT).fit(*few)


class Given:
    """A classifier with these scores."""

    def __init__(self, y_score, classes):
        self.y_score, self.classes_ = y_score, np.asarray(classes)

    def decision_function(self, X):
        return self.y_score


def test_two_classes_are_judged_by_their_log_probability():
    rng = np.random.default_rng(0)
    y_score, y, weight = rng.standard_normal(20), rng.integers(0, 2, 20), rng.random(20)
    score = OrderScorer(unit=2.0)(Given(y_score, [0, 1]), None, y, weight)
    proba = 1 / (1 + np.exp(-y_score / 2))
    assert score == pytest.approx(-log_loss(y, proba, sample_weight=weight))


def test_a_balanced_score_is_the_mean_over_classes():
    rng = np.random.default_rng(0)
    y, weight = rng.choice([0, 1, 2, 3], 60, p=[0.7, 0.1, 0.1, 0.1]), rng.random(60)
    y_score = rng.standard_normal((60, 4))

    def score(rows, **params):
        return OrderScorer(**params)(Given(y_score[rows], range(4)), None, y[rows], weight[rows])

    each = [score(y == c) for c in range(4)]
    assert score(y >= 0, balanced=True) == pytest.approx(np.mean(each))
    assert score(y >= 0) == pytest.approx(np.average(each, weights=np.bincount(y, weight)))


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("n_members", "many", "int"),
        ("cross_fit", "yes", "True or False"),
        ("warm_up", "some", "int"),
        ("early_stopping", "yes", "True or False"),
        ("learning_rate", "high", "float"),
        ("learning_rate", None, "float"),
        ("weight_decay", "low", "float"),
        ("hidden_layer_sizes", "deep", "tuple of integers"),
    ],
)
def test_what_is_no_number_is_told_of_numbers_and_of_auto(name, value, allowed):
    says = f"{name} must be .*{allowed}.*; got {value!r}. {name} may also be 'auto'"
    with pytest.raises(TypeError, match=says):
        AUCClassifier(**{name: value}).fit(X2, Y2)


def test_an_unknown_optimizer_is_named():
    with pytest.raises(ValueError, match=r"optimizer must be .*'auto'.*fast"):
        AUCClassifier(optimizer="fast").fit(X2, Y2)
