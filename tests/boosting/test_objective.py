"""Gradients and Hessians compared with finite differences, and weights with repeated samples."""

import inspect
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.special import log_softmax
from sklearn.base import clone

from sktopk import losses
from sktopk.boosting import initial_score, metric, objective
from sktopk.losses import KthLargest, SmoothTopKLoss, TopMean, TopPushKLoss
from tests.losses.cases import function_called

REQUIRED = {"k": 2, "sigma": 0.2, "tau": 0.1, "recall": 0.5, "fpr": 0.1, "precision": 0.5}
REQUIRED["threshold"] = TopMean("negatives", k=5)
# All losses by name, with their required parameters. OTHER adds a parameter to two losses.
OTHER = {"accuracy_at_top": {"surrogate": "logistic"}, "pairwise_auc": {"surrogate": "quadratic"}}
LOSSES, OF_ROWS = {}, []
for name in ["cross_entropy", *(each[:-5] for each in losses.__all__ if each.endswith("_loss"))]:
    parameters = inspect.signature(function_called(f"{name}_loss")).parameters.values()
    needed = {each.name for each in parameters if each.default is each.empty}
    LOSSES[name] = {key: REQUIRED[key] for key in REQUIRED if key in needed} | OTHER.get(name, {})
    OF_ROWS += [name] if "groups" in {each.name for each in parameters} else []
every_loss = pytest.mark.parametrize("name", LOSSES)


def make(name, **params):
    return objective(name, **LOSSES[name], **params)


def rows(name, seed=0):
    rng = np.random.default_rng(seed)
    if name in OF_ROWS:
        return (np.arange(24) % 3 == 0).astype(int), rng.normal(size=24)
    return np.arange(24) % 5, 2 * rng.normal(size=(24, 5))


def value(name, target, score):
    params = dict(LOSSES[name])
    if name in ("ldam", "logit_adjusted", "noised_topk_imbalanced", "smooth_topk_adjusted"):
        params["class_counts"] = torch.from_numpy(np.bincount(target))
    if name.startswith("noised"):
        params["generator"] = torch.Generator().manual_seed(0)
    loss = function_called(f"{name}_loss")
    return loss(torch.tensor(score), torch.from_numpy(target), **params).item()


def log_loss(target, score):
    columns = score if score.ndim == 2 else np.column_stack([np.zeros_like(score), score])
    return -log_softmax(columns, axis=1)[np.arange(len(target)), target].sum()


def differences(function, score):
    found = approx_fprime(score.ravel(), lambda s: function(s.reshape(score.shape)), 1e-7)
    return found.reshape(score.shape)


@every_loss
def test_the_gradient_equals_finite_differences_of_the_loss_mixed_with_log_loss(name):
    target, score = rows(name)
    prior = np.log(np.bincount(target) / len(target)) if "adjusted" in name else 0.0
    of_log = differences(lambda s: log_loss(target, s + prior), score)
    of_top = differences(lambda s: value(name, target, s), score)
    factor = np.abs(of_log).sum() / np.abs(of_top).sum()
    gradient, _ = make(name, log_loss_share=0.3)(target, score)
    np.testing.assert_allclose(gradient, 0.3 * of_log + 0.7 * factor * of_top, atol=1e-5)


@pytest.mark.parametrize("surrogate", ["logistic", "quadratic"])
@pytest.mark.parametrize(
    "threshold",
    [TopMean("negatives", k=5), TopMean("negatives", tau=1.0), KthLargest("negatives", k=3)],
)
def test_hessian_curvature_is_the_absolute_row_sum_and_an_upper_bound(threshold, surrogate):
    target, score = rows("top_push")
    params = {"threshold": threshold, "surrogate": surrogate}

    def loss(s):
        return losses.accuracy_at_top_loss(s, torch.from_numpy(target), **params)

    full = torch.autograd.functional.hessian(loss, torch.tensor(score)).numpy()
    f = objective("accuracy_at_top", log_loss_share=0, hessian="curvature", **params)
    gradient, hessian = f(target, score)
    (of_loss,) = torch.autograd.functional.jacobian(loss, (torch.tensor(score),))
    factor = np.abs(gradient).sum() / of_loss.abs().sum().item()
    found = np.abs(full).sum(axis=1) > 0
    np.testing.assert_allclose(hessian[found], factor * np.abs(full).sum(axis=1)[found])
    bound = np.diag(hessian) - factor * full
    assert np.linalg.eigvalsh(bound).min() > -1e-10


# Exclude noised losses, because a repeated sample gets other noise than its first copy.
@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith("noised")])
def test_a_sample_weight_equals_repetitions_of_the_sample(name):
    target, score = rows(name)
    weight = np.arange(len(target)) % 3
    copy, f = np.repeat(np.arange(len(target)), weight), make(name)
    weighted = f(target, score, weight)
    for of_rows, of_copies in zip(weighted, f(target[copy], score[copy]), strict=True):
        total = np.zeros_like(of_rows)
        np.add.at(total, copy, of_copies)
        np.testing.assert_allclose(of_rows, total, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("module", "name"), [(TopPushKLoss(k=2), "top_push_k"), (SmoothTopKLoss(k=2), "smooth_topk")]
)
def test_a_loss_module_gives_the_same_objective_as_its_name(module, name):
    target, score = rows(name)
    weight = np.linspace(0, 2, len(target))
    found = objective(module)(target, score, weight)
    np.testing.assert_equal(found, make(name)(target, score, weight))


def test_the_loss_may_be_a_function_of_the_user():
    target, score = rows("top_push")
    own = objective(lambda s, y: (y * (s.max() - s)).sum(), hessian="gradient", log_loss_share=0)
    gradient, _ = own(target, score)
    assert gradient[score.argmax()] > 0
    with pytest.raises(TypeError, match="does not take sample_weight"):
        own(target, score, 1.0 + target)
    # torch has no second derivative of this loss.
    _, hessian = objective(torch.nn.MultiMarginLoss(), log_loss_share=0)(*rows("smooth_topk"))
    assert hessian.min() > 0


@pytest.mark.parametrize("f", [make("accuracy_at_top"), metric("precision_at_k", k=7)], ids=repr)
def test_objectives_and_metrics_can_be_pickled_and_cloned(f):
    target, score = rows("accuracy_at_top")
    for other in (pickle.loads(pickle.dumps(f)), clone(f, safe=False)):
        np.testing.assert_equal(other(target, score), f(target, score))
        assert repr(other) == repr(f)
    assert repr(metric("bedroc", alpha=9)) == "metric('bedroc', library='lightgbm', alpha=9)"


ROOT = objective(lambda scores, target: scores.abs().sqrt().sum())


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: objective("top"), ValueError, "loss must be one of 'cross_entropy'"),
        (lambda: objective(TopPushKLoss), TypeError, "loss must be a name or a call"),
        (lambda: objective(3), TypeError, "loss must be .*; got 3"),
        (lambda: objective("pat_mat"), TypeError, "loss='pat_mat' requires tau"),
        (lambda: objective("fbeta", k=3), TypeError, "takes beta.*; got k"),
        (lambda: objective("fbeta", log_loss_share=1.5), ValueError, "log_loss_share == 1.5"),
        (lambda: objective("fbeta", hessian="none"), ValueError, "hessian must be one of"),
        (lambda: make("fbeta")([0, 1], [0.0]), ValueError, "raw_score must be .* with 2 rows"),
        (lambda: make("fbeta")([0, 2], [0.0, 1.0]), ValueError, "labels below n_classes=2; got 2"),
        (lambda: make("fbeta")([0, -1], [0.0, 1.0]), ValueError, "nonnegative .*; got -1"),
        (lambda: make("fbeta")(["a", "b"], [0.0, 1.0]), ValueError, "y_true must be a 1D array"),
        (lambda: objective(torch.mul)([0, 1], [0, 1.0]), ValueError, r"a gradient; got shape \(2,"),
        (lambda: ROOT([0, 1], [0.0, 0.0]), ValueError, "gradient that is not finite"),
        (lambda: initial_score([]), ValueError, "y_true must have at least one label"),
        (lambda: initial_score([0.5]), ValueError, "nonnegative integers as labels; got 0.5"),
        (lambda: metric("auc"), ValueError, "name must be one of 'precision_at_k'"),
        (lambda: metric("precision_at_k"), ValueError, "name='precision_at_k' requires k"),
        (lambda: metric("precision_at_k", k=-1), ValueError, "k must be"),
        (lambda: metric("bedroc", library="catboost"), ValueError, "library must .*'lightgbm', 'x"),
        (lambda: metric("topk_accuracy", k=0), ValueError, "k must be"),
    ],
)
def test_wrong_arguments_of_objectives_and_metrics_raise_errors_that_name_them(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_the_initial_score_minimizes_the_log_loss_of_a_constant():
    target, weight = np.array([0, 0, 0, 1, 1]), np.array([1.0, 1, 1, 1, 2])
    start = initial_score(target, sample_weight=weight)
    assert start == pytest.approx(np.log(3 / 3))
    gradient, _ = objective("fbeta", log_loss_share=1)(target, np.full(5, start), weight)
    assert gradient.sum() == pytest.approx(0)
    target = np.array([0, 1, 1, 2, 2, 2])
    start = initial_score(target)
    assert start.sum() == pytest.approx(0)
    gradient, _ = objective("focal", log_loss_share=1)(target, np.tile(start, (6, 1)))
    np.testing.assert_allclose(gradient.sum(axis=0), 0, atol=1e-12)
    # A class without samples counts as half a sample.
    assert initial_score([0, 0]) == pytest.approx(np.log(0.5 / 2))


@every_loss
def test_every_hessian_is_at_least_about_a_thousandth_of_the_mean_hessian(name):
    target, score = rows(name)
    for hessian in ("auto", "gradient"):
        for scores in (score, np.zeros_like(score)):
            gradient, found = make(name, hessian=hessian)(target, scores)
            assert np.isfinite(gradient).all()
            assert found.min() > 0.9e-3 * found.mean() > 0


@pytest.mark.parametrize("name", OF_ROWS)
def test_the_gradient_is_finite_if_a_class_has_no_samples(name):
    _, score = rows(name)
    for label in (0, 1):
        gradient, hessian = make(name)(np.full(len(score), label), score)
        assert np.isfinite(gradient).all()
        assert hessian.min() > 0


ADJUSTED = {
    "name": objective("logit_adjusted"),
    "smooth": objective("smooth_topk_adjusted", k=1, margin=0.0),
    "partial": objective(partial(losses.logit_adjusted_loss, tau=1.0)),
    "module": objective(losses.LogitAdjustedLoss([80, 15, 5])),
}


@pytest.mark.parametrize("case", ADJUSTED)
def test_log_loss_does_not_undo_the_correction_for_class_frequencies(case):
    gradient, _ = ADJUSTED[case](np.repeat([0, 1, 2], [80, 15, 5]), np.zeros((100, 3)))
    # Constant scores are the best ones if X has no information.
    np.testing.assert_allclose(gradient.sum(axis=0), 0, atol=1e-9)
