"""Probabilities that cost nothing: of losses that stand for them, of rows that are left out."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.io import dump, load
from sktopk.losses import FocalLoss, LogitAdjustedLoss
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings(
    "ignore:The training loss still fell",
    "ignore:max_epochs=.*ended the training before",
    "ignore:k=5 must be smaller",
)
# Logarithms of the densities of three normal classes, up to a number for each row.
MEANS, SHARES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]]), np.array([0.8, 0.15, 0.05])


def log_density(X):
    return X @ MEANS.T - (MEANS**2).sum(1) / 2


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 6000, p=SHARES)
    return rng.normal(size=(6000, 2)) + MEANS[y], y


def linear(loss="logit_adjusted", **params):
    quick = {"k": 1, "hidden_layer_sizes": (), "max_epochs": 30, "learning_rate": 0.02}
    return TopKClassifier(loss, **{"random_state": 0, "batch_size": 256, **quick, **params})


def test_logit_adjusted_knows_the_probabilities_of_the_model(rare):
    X, y = rare
    clf = linear().fit(X, y)
    expected = softmax(log_density(X) + np.log(SHARES), axis=1)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert np.abs(proba - expected).mean() < 0.015
    np.testing.assert_allclose(proba.mean(0), np.bincount(y) / len(y), atol=0.01)
    # Labels are those of equally frequent classes, as ever.
    assert np.mean(clf.predict(X) == log_density(X).argmax(1)) > 0.95
    assert np.mean(clf.predict(X) == proba.argmax(1)) < 0.9


def test_the_default_network_labels_as_if_classes_were_equally_frequent(rare):
    X, y = rare
    params = {"k": 1, "n_members": 2, "max_epochs": 8, "random_state": 0}
    adjusted, plain = (
        TopKClassifier(loss, **params).fit(X, y).predict(X)
        for loss in ("logit_adjusted", "cross_entropy")
    )
    ideal = log_density(X).argmax(1)
    assert np.mean(adjusted == ideal) > 0.9
    assert np.mean(plain == ideal) < 0.8


@pytest.mark.parametrize("tau", [0.0, 0.5, 2.0])
def test_any_share_of_the_frequencies_is_put_back(rare, tau):
    X, y = rare
    clf = linear(loss_params={"tau": tau}).fit(X, y)
    assert (
        log_loss(y, clf.predict_proba(X))
        < log_loss(y, linear("cross_entropy").fit(X, y).predict_proba(X)) + 0.003
    )


def test_weights_of_rows_are_frequencies(rare):
    X, y = rare
    weight = np.where(y == 2, 4.0, 1.0)
    proba = linear().fit(X, y, sample_weight=weight).predict_proba(X)
    shares = np.bincount(y, weight) / weight.sum()
    np.testing.assert_allclose(np.average(proba, axis=0, weights=weight), shares, atol=0.01)


def test_modules_have_the_probabilities_of_their_names(rare):
    X, y = rare
    X, y = X[:500], y[:500]
    pairs = [
        (LogitAdjustedLoss(class_counts=np.bincount(y)), linear()),
        (torch.nn.CrossEntropyLoss(), linear("cross_entropy")),
        (
            torch.nn.CrossEntropyLoss(label_smoothing=0.1),
            linear("cross_entropy", loss_params={"label_smoothing": 0.1}),
        ),
    ]
    for module, named in pairs:
        assert hasattr(linear(module), "predict_proba")
        found = linear(module).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(found, named.fit(X, y).predict_proba(X), atol=1e-6)
    for other in (FocalLoss(), torch.nn.MultiMarginLoss()):
        assert not hasattr(linear(other), "predict_proba")
        assert not hasattr(linear(other).fit(X, y), "predict_proba")


@pytest.mark.parametrize("loss", ["cross_entropy", "logit_adjusted", "module"])
def test_a_warm_up_leaves_the_kind_of_scores_as_it_is(rare, loss):
    X, y = rare
    clf = linear(LogitAdjustedLoss(np.bincount(y)) if loss == "module" else loss, warm_up=15)
    assert hasattr(clf, "predict_proba")
    expected = softmax(log_density(X) + np.log(SHARES), axis=1)
    assert np.abs(clf.fit(X, y).predict_proba(X) - expected).mean() < 0.015


@pytest.mark.parametrize("params", [{}, {"n_members": 3, "cross_fit": True}])
def test_frequencies_outlive_the_process_and_the_parameters(rare, params, tmp_path):
    X, y = rare
    clf = linear(max_epochs=2, **params).fit(X, y)
    expected = clf.predict_proba(X)
    others = [pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf), load(dump(clf, tmp_path / "f"))]
    for other in (*others, clf.set_params(loss_params={"tau": 3.0})):
        np.testing.assert_array_equal(other.predict_proba(X), expected)


def test_frequencies_that_are_none_are_refused(rare):
    clf = linear(max_epochs=1).fit(*rare)
    for wrong in (0.0, -1.0, torch.nan, torch.inf):
        clf.net_.criterion_.class_counts[0] = wrong
        with pytest.raises(ValueError, match="class_counts of the loss must be positive"):
            clf.predict_proba(rare[0])


def test_calibration_puts_the_frequencies_back_first(rare):
    X, y = rare
    clf = linear(calibration="temperature").fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X).mean(0), np.bincount(y) / len(y), atol=0.02)


LEFT_OUT = {
    "members": {"n_members": 3, "cross_fit": True},
    "early stopping": {"early_stopping": True},
    "both": {"n_members": 3, "cross_fit": True, "early_stopping": True},
}


@pytest.mark.parametrize("case", LEFT_OUT)
@pytest.mark.parametrize(
    ("cls", "method"), [(TopKClassifier, "temperature"), (DeepTopPushClassifier, "sigmoid")]
)
def test_auto_takes_the_rows_that_are_left_out_anyway(rare, case, cls, method):
    X, y = rare
    X, y = X[:600], (y[:600] > 0).astype(int)
    params = {"max_epochs": 3, "random_state": 0, **LEFT_OUT[case]}
    auto = cls(calibration="auto", **params)
    assert hasattr(auto, "predict_proba")
    expected = cls(calibration=method, **params).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(auto.fit(X, y).predict_proba(X), expected)
    assert auto.calibration_[0] == method
    # Not one row is held out for it.
    plain = cls(calibration=None, **params).fit(X, y)
    np.testing.assert_array_equal(auto.decision_function(X), plain.decision_function(X))


@pytest.mark.parametrize("cls", [TopKClassifier, DeepTopPushClassifier])
def test_auto_does_nothing_where_no_row_is_left_out(rare, cls, tmp_path):
    X, y = rare
    X, y = X[:600], (y[:600] > 0).astype(int)
    params = {"module": MLP, "max_epochs": 3, "random_state": 0}
    auto, plain = cls(calibration="auto", **params), cls(**params)
    assert not hasattr(auto, "predict_proba")
    assert not hasattr(auto.fit(X, y), "predict_proba")
    plain.fit(X, y)
    np.testing.assert_array_equal(auto.decision_function(X), plain.decision_function(X))
    with pytest.raises(AttributeError, match="'auto' with cross_fit=True or early_stopping=True"):
        auto.predict_proba(X)
    # Rows of the user's are left out, too.
    auto.fit(X, y, X_val=X, y_val=y)
    assert auto.predict_proba(X).shape == (600, 2)
    assert load(dump(auto, tmp_path / "f")).calibration == "auto"
    # A stream leaves out none.
    assert not hasattr(cls(calibration="auto", **params).partial_fit(X, y), "predict_proba")


@pytest.mark.parametrize(
    ("loss", "method"),
    [
        ("smooth_topk", "temperature"),
        ("cross_entropy", "temperature"),
        ("logit_adjusted", "temperature"),
        ("smooth_topk_adjusted", "sigmoid"),
    ],
)
def test_the_default_network_has_probabilities_by_the_frequencies_of_the_training(
    rare, loss, method
):
    X, y = rare
    clf = TopKClassifier(loss, k=1, n_members=2, max_epochs=5, random_state=0)
    assert hasattr(clf, "predict_proba")
    proba = clf.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.mean(0), np.bincount(y) / len(y), atol=0.03)
    expected = softmax(log_density(X) + np.log(SHARES), axis=1)
    error = np.abs(proba - expected).mean()
    assert clf.calibration_[0] == method
    if method == "temperature":
        assert error < 0.03
    else:
        # A sigmoid for each class is not the model, but a temperature knows no frequencies.
        other = clf.set_params(calibration="temperature").fit(X, y).predict_proba(X)
        assert error < np.abs(other - expected).mean()


def test_without_calibration_they_are_those_of_the_loss_alone(rare):
    X, y = rare
    params = {"k": 1, "n_members": 2, "max_epochs": 2, "calibration": None, "random_state": 0}
    clf = TopKClassifier("cross_entropy", **params).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), softmax(clf.decision_function(X), axis=1))
    with pytest.raises(AttributeError, match="'auto' for the one that suits: they take the rows"):
        TopKClassifier(**params).fit(X, y).predict_proba(X)


def test_auto_serves_votes_and_scores_of_probabilities(rare):
    X, y = rare
    X, y = X[:900], y[:900]
    clf = TopKClassifier(
        k=1, calibration="auto", n_members=3, cross_fit=True, max_epochs=5, random_state=0
    )
    vote = VotingClassifier([("net", clf), ("linear", LogisticRegression())], voting="soft")
    net, other = vote.fit(X, y).estimators_
    np.testing.assert_allclose(
        vote.predict_proba(X), (net.predict_proba(X) + other.predict_proba(X)) / 2
    )
    scores = cross_val_score(clf, X, y, scoring="roc_auc_ovr", cv=3)
    assert (scores > 0.75).all()
