"""Every loss that TopKClassifier knows by name trains, is reproducible and can be searched."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from torch import nn

from sktopk import TopKClassifier, losses
from sktopk.metrics import make_topk_scorer, topk_accuracy_score
from sktopk.modules import MLP
from tests.named_losses import NAMED_LOSSES

pytestmark = pytest.mark.filterwarnings("ignore:The training loss still fell")


def quick(loss, **params):
    params = {
        "k": 3,
        "module": MLP,
        "hidden_layer_sizes": (),
        "max_epochs": 30,
        "random_state": 0,
        **params,
    }
    return TopKClassifier(loss, **params)


@pytest.mark.parametrize("loss", NAMED_LOSSES)
def test_defaults_train(digits, loss):
    X, y, X_test, y_test = digits
    clf = quick(loss).fit(X, y)
    score = topk_accuracy_score(y_test, clf.decision_function(X_test), k=3, labels=clf.classes_)
    assert score > 0.9
    assert clf.history_[-1]["train_loss"] < clf.history_[0]["train_loss"]


@pytest.mark.parametrize("loss", NAMED_LOSSES)
def test_same_seed_same_fit_and_a_copy_goes_on_alike(blobs, loss):
    X, y = blobs
    clf = quick(loss, k=2, max_epochs=3, warm_start=True, batch_size=32).fit(X, y)
    again = clone(clf).fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), again.decision_function(X))
    twin = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(
        clf.fit(X, y).decision_function(X), twin.fit(X, y).decision_function(X)
    )


@pytest.mark.parametrize("loss", NAMED_LOSSES)
def test_weight_two_equals_the_row_twice(blobs, loss):
    X, y = blobs
    twice = np.arange(len(y)) % 3 == 0
    params = {"k": 2, "sigma": 0.0, "batch_size": 1000}
    weighted = quick(loss, **params).fit(X, y, sample_weight=1.0 + twice)
    repeated = quick(loss, **params).fit(np.r_[X, X[twice]], np.r_[y, y[twice]])
    unweighted = quick(loss, **params).fit(X, y)
    expected = repeated.decision_function(X)
    np.testing.assert_allclose(weighted.decision_function(X), expected, atol=1e-8)
    assert np.abs(unweighted.decision_function(X) - expected).max() > 1e-4


@pytest.mark.parametrize("loss", NAMED_LOSSES)
def test_partial_fit_with_classes_still_to_come(blobs, loss):
    X, y = blobs
    clf = quick(loss, k=2).partial_fit(X[y < 3], y[y < 3], classes=range(5)).partial_fit(X, y)
    assert np.isfinite(clf.decision_function(X)).all()
    counts = getattr(clf.net_.criterion_, "class_counts", None)
    if counts is not None:
        np.testing.assert_array_equal(counts, np.bincount(y) + np.bincount(y[y < 3], minlength=5))


OWN = {
    "cross_entropy": {"label_smoothing": 0.2},
    "smooth_topk": {"margin": 3.0},
    "topk_hinge": {"scaled": False},
    "noised_topk_imbalanced": {"max_margin": 0.7, "scale": 9.0},
    "focal": {"gamma": 0.5},
    "ldam": {"max_margin": 0.7, "scale": 9.0},
    "logit_adjusted": {"tau": 2.0},
    "smooth_topk_adjusted": {"margin": 3.0},
}


@pytest.mark.parametrize("loss", OWN)
def test_parameters_of_a_loss_reach_it(blobs, loss):
    X, y = blobs
    function = getattr(losses, f"{loss}_loss")
    known = {"k": 2, "sigma": 0.0, "class_counts": np.bincount(y)}
    known = {k: v for k, v in known.items() if k in inspect.signature(function).parameters}
    sigma = {"sigma": 0.0} if "sigma" in known else {}
    still = quick(loss, k=2, learning_rate=1e-12, batch_size=len(y), max_epochs=1, **sigma)
    for params in ({}, OWN[loss]):
        clf = still.set_params(**{f"loss__{name}": value for name, value in params.items()})
        scores = torch.from_numpy(clf.fit(X, y).decision_function(X))
        expected = function(scores, torch.from_numpy(y), **known, **params).item()
        assert clf.history_[0]["train_loss"] == pytest.approx(expected, rel=1e-9)
    assert clone(clf).get_params()["loss_params"] == OWN[loss]


@pytest.mark.parametrize(("name", "loss"), [("tau", "noised_topk"), ("sigma", "smooth_topk")])
def test_a_parameter_that_the_loss_ignores_is_said(blobs, name, loss):
    with pytest.warns(UserWarning, match=f"{name}=0.5 is ignored by loss='{loss}': it is a param"):
        quick(loss, k=2, max_epochs=1, **{name: 0.5}).fit(*blobs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quick("cross_entropy", k=2, max_epochs=1).fit(*blobs)


def test_the_exact_expectation_of_the_noise(blobs):
    X, y = blobs
    exact = (
        quick("noised_topk", k=2, loss_params={"n_noise": "exact"}).fit(X, y).decision_function(X)
    )
    many = quick("noised_topk", k=2, loss_params={"n_noise": 300}).fit(X, y).decision_function(X)
    few = quick("noised_topk", k=2, loss_params={"n_noise": 1}).fit(X, y).decision_function(X)
    assert np.abs(many - exact).mean() < 0.3 * np.abs(few - exact).mean()


def test_a_grid_over_all_losses_and_their_parameters(blobs):
    X, y = blobs
    grid = {"loss": NAMED_LOSSES, "tau": [0.1, 1.0], "sigma": [0.1, 0.3], "k": [2, 3]}
    search = GridSearchCV(
        quick("cross_entropy", max_epochs=2), grid, scoring=make_topk_scorer(2), cv=2
    ).fit(X, y)
    assert len(search.cv_results_["params"]) == 8 * len(NAMED_LOSSES)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("how", ["early_stopping", "X_val", "calibration"])
@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.MultiMarginLoss(reduction="sum"),
        losses.SmoothTopKLoss(k=2),
        losses.NoisedTopKLoss(k=2),
        losses.TopKDistributionLoss([losses.TopKHingeLoss(k=1), losses.TopKHingeLoss(k=2)]),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_a_module_as_loss_goes_with_validation_rows(blobs, loss, how):
    X, y = blobs
    clf = quick(loss, k=2, max_epochs=3, learning_rate=0.01)
    if how == "X_val":
        clf.fit(X, y, X_val=X[:50], y_val=y[:50])
    else:
        clf.set_params(**{how: True if how == "early_stopping" else "temperature"}).fit(X, y)
    assert all(np.isfinite(row["valid_loss"]) for row in clf.history_)


class Detached(nn.Module):
    def forward(self, scores, target):
        return scores.detach().mean()


def test_a_loss_without_a_gradient_is_refused(blobs):
    with pytest.raises(TypeError, match="loss must return a Tensor with a gradient; got one with"):
        quick(Detached(), k=2).fit(*blobs)


@pytest.mark.parametrize("weight_decay", ["auto", 0])
def test_a_weight_decay_that_the_optimizer_lacks_is_refused(blobs, weight_decay):
    X, y = blobs
    clf = quick("cross_entropy", k=2, optimizer=torch.optim.LBFGS, max_epochs=1, batch_size=len(y))
    clf.set_params(weight_decay=weight_decay).fit(X, y)
    with pytest.raises(
        ValueError, match=r"weight_decay=1000.0 needs an optimizer that has it; got"
    ):
        clf.set_params(weight_decay=1e3).fit(X, y)
