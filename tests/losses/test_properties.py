"""What every loss promises for any scores, weights and parameters, with drawn examples."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sktopk import losses

# Of larger scores a difference times the scale of a loss may leave float32.
LARGEST = 2.0**118
# These sum scores times the weights of both classes, in units of the margin.
LARGEST_OF_PROGRAM = 2.0**100


def finite(largest):
    """Numbers of every size with ties, denormals and the edges of exp and of whole numbers."""
    edges = [0.0, -0.0, 1.0, -1.0, 1e-40, -1e-45, 88.0, -104.0, 2.0**24, 2.0**24 + 2]
    return st.one_of(
        st.sampled_from([*edges, largest, -largest]),
        st.floats(-4, 4, width=32),
        st.floats(-largest, largest, width=32),
    )


def weights(n_samples, largest):
    sizes = st.sampled_from([0.0, 0.5, 1.0, 3.0, 1 / largest, largest])
    return st.none() | arrays(np.float32, n_samples, elements=sizes)


def number(low=0.0, high=100.0):
    return st.sampled_from([low, high, 0.5, 1.0]) | st.floats(low, high, width=32)


positive = number(0.0625)
share = st.sampled_from([2.0**-20, 0.5, 1.0]) | st.floats(2.0**-20, 1, width=32)
ranks = st.integers(1, 5)


def counts(n_classes):
    each = st.sampled_from([1, 2, 30, 10**7])
    return st.lists(each, min_size=n_classes, max_size=n_classes)


def of_k(n_classes):
    return st.integers(1, n_classes - 1)


# The parameters of a multi-class loss, given the number of classes.
MULTI_CLASS = {
    "cross_entropy_loss": {"label_smoothing": st.sampled_from([0.0, 0.1, 1.0])},
    "smooth_topk_loss": {"k": of_k, "tau": number(), "margin": number()},
    "topk_hinge_loss": {"k": of_k, "margin": number(), "scaled": st.booleans()},
    "topk_hinge_convex_loss": {"k": of_k, "margin": number()},
    "topk_hinge_calibrated_loss": {"k": of_k, "margin": number()},
    "topk_grouping_loss": {"k": of_k},
    "topk_transition_loss": {"k": of_k, "detach_weight": st.booleans()},
    "noised_topk_loss": {"k": of_k, "sigma": number(), "margin": number()},
    "noised_topk_imbalanced_loss": {
        "k": of_k,
        "sigma": number(),
        "class_counts": counts,
        "max_margin": number(),
        "scale": positive,
    },
    "focal_loss": {"gamma": number()},
    "ldam_loss": {"class_counts": counts, "max_margin": number(), "scale": positive},
    "logit_adjusted_loss": {"class_counts": counts, "tau": number()},
    "smooth_topk_adjusted_loss": {
        "k": of_k,
        "class_counts": counts,
        "tau": number(),
        "margin": number(),
    },
}
# Which of tied classes belong to the top k is left open, and changes these.
CUTS_TIES = ("topk_grouping_loss", "topk_transition_loss")
# Raising the score of another class never lowers these.
RISES_WITH_OTHERS = (
    "smooth_topk_loss",
    "topk_hinge_loss",
    "topk_hinge_convex_loss",
    "topk_hinge_calibrated_loss",
    "noised_topk_loss",
    "noised_topk_imbalanced_loss",
    "focal_loss",
    "ldam_loss",
    "logit_adjusted_loss",
    "smooth_topk_adjusted_loss",
)

surrogate = st.sampled_from(["quadratic", "hinge", "logistic"])
TOP = {
    "top_push_loss": {"surrogate": surrogate},
    "top_push_k_loss": {"k": ranks, "surrogate": surrogate},
    "recall_at_k_loss": {"k": ranks, "surrogate": surrogate},
    "pat_mat_loss": {"tau": share, "surrogate": surrogate},
    "pat_mat_np_loss": {"tau": share, "surrogate": surrogate},
    "precision_at_recall_loss": {"recall": share, "surrogate": surrogate},
}
PROGRAMS = {
    "pairwise_auc_loss": {
        "margin": positive,
        "surrogate": st.sampled_from(["hinge", "quadratic", "logistic", "ramp"]),
    },
    "fbeta_loss": {"beta": positive, "margin": positive},
    "precision_at_recall_program_loss": {"recall": share, "margin": positive},
    "recall_at_fpr_loss": {"fpr": share, "margin": positive},
    "recall_at_precision_loss": {"precision": share, "margin": positive, "penalty": positive},
    "precision_at_k_loss": {"k": ranks, "margin": positive},
}
# The loss falls as positives rise, also where the threshold is among the scores of all rows.
FALLS_WITH_POSITIVES = (
    "top_push_loss",
    "top_push_k_loss",
    "pat_mat_np_loss",
    "precision_at_recall_loss",
    "pairwise_auc_loss",
    "fbeta_loss",
    "precision_at_recall_program_loss",
    "recall_at_fpr_loss",
    "recall_at_precision_loss",
)


def build(draw, strategies, n_classes=None):
    return {
        name: draw(each if isinstance(each, st.SearchStrategy) else each(n_classes))
        for name, each in strategies.items()
    }


@st.composite
def multi_class(draw, name):
    n_samples, n_classes = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    scores = draw(arrays(np.float32, (n_samples, n_classes), elements=finite(LARGEST)))
    target = draw(arrays(np.int64, n_samples, elements=st.integers(0, n_classes - 1)))
    weight = draw(weights(n_samples, 2.0**100))
    parameters = build(draw, MULTI_CLASS[name], n_classes)
    noise = {}
    if "sigma" in parameters:
        generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
        noise = {"noise": torch.randn(n_samples, n_classes, 3, generator=generator)}
    return torch.from_numpy(scores), torch.from_numpy(target), weight, parameters, noise


@st.composite
def binary(draw, name):
    of_program = name in PROGRAMS
    largest = LARGEST_OF_PROGRAM if of_program else LARGEST
    n_samples = draw(st.integers(1, 7))
    scores = draw(arrays(np.float32, n_samples, elements=finite(largest)))
    target = draw(arrays(np.bool_, n_samples))
    # The k of this one counts weights.
    weight = draw(weights(n_samples, 2.0**10 if name == "precision_at_k_loss" else 2.0**100))
    parameters = build(draw, (PROGRAMS if of_program else TOP)[name])
    if name == "precision_at_k_loss":
        parameters["k"] = min(parameters["k"], n_samples)
    return torch.from_numpy(scores), torch.from_numpy(target), weight, parameters


def value_and_gradient(loss, scores, *args, **kwargs):
    scores = scores.clone().requires_grad_()
    value = loss(scores, *args, **kwargs)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), gradient


def tensor(weight):
    return None if weight is None else torch.from_numpy(weight)


def assert_sane(value, gradient, exact):
    """Nonnegative, never NaN, and finite wherever float32 holds the exact value."""
    assert (value >= 0).all()
    assert (value.isfinite() | (exact > 2.0**120)).all()
    assert gradient.isfinite().all()


def assert_close(value, expected, rtol=2e-5):
    """What torch.testing has too, in a tenth of its time."""
    near = (value - expected).abs() <= 1e-6 + rtol * expected.abs()
    assert (near | (value == expected)).all()


@pytest.mark.parametrize("name", MULTI_CLASS)
@given(data=st.data())
def test_multi_class(name, data):
    scores, target, weight, parameters, noise = data.draw(multi_class(name))
    loss = partial(getattr(losses, name), **parameters)
    n_classes = scores.shape[1]
    rows, gradient = value_and_gradient(loss, scores, target, reduction="none", **noise)
    exact = loss(scores.double(), target, reduction="none", **noise)
    assert_sane(rows, gradient, exact)

    # The mean is one of rows, and knows no scale of the weights.
    mean, gradient = value_and_gradient(loss, scores, target, sample_weight=tensor(weight), **noise)
    assert_sane(mean, gradient, exact.max())
    counted = rows if weight is None or not weight.any() else rows[weight > 0]
    if counted.isfinite().all():
        assert mean <= counted.max() * (1 + 1e-5)
        if weight is not None and weight.any():
            again = loss(scores, target, sample_weight=tensor(weight * np.float32(0.125)), **noise)
            assert_close(again, mean)

    # The order of rows and of classes does not matter.
    by_row = {name: noise[name].flip(0) for name in noise}
    flipped = loss(scores.flip(0), target.flip(0), reduction="none", **by_row)
    assert_close(flipped.flip(0), rows)
    k = parameters.get("k", 1)
    ordered = scores.sort(1, descending=True).values
    if name not in CUTS_TIES or (ordered[:, k - 1] > ordered[:, k]).all():
        by_class = {name: noise[name].flip(1) for name in noise}
        if "class_counts" in parameters:
            by_class["class_counts"] = parameters["class_counts"][::-1]
        other = loss(scores.flip(1), n_classes - 1 - target, reduction="none", **by_class)
        assert_close(other, rows)

    # A better label costs less, a better other class more. Noise is added to the scores
    # themselves, whose last digit it cannot be finer than.
    slack = 1e-6 + 2.0**-22 * scores.abs().amax(1) * bool(noise)
    step = data.draw(st.sampled_from([0.125, 2.0, 2.0**60]))
    label = torch.nn.functional.one_hot(target, n_classes) == 1
    if not parameters.get("label_smoothing"):
        raised = loss(torch.where(label, scores + step, scores), target, reduction="none", **noise)
        assert (raised <= rows * (1 + 2e-5) + slack).all()
    if name in RISES_WITH_OTHERS:
        column = data.draw(st.integers(0, n_classes - 1))
        chosen = (torch.arange(n_classes) == column) & ~label
        raised = loss(torch.where(chosen, scores + step, scores), target, reduction="none", **noise)
        assert (raised >= rows * (1 - 2e-5) - slack).all()


@pytest.mark.parametrize("name", [*TOP, *PROGRAMS])
@given(data=st.data())
def test_binary(name, data):
    scores, target, weight, parameters = data.draw(binary(name))
    loss = partial(getattr(losses, name), **parameters)
    weighted = partial(loss, sample_weight=tensor(weight))
    value, gradient = value_and_gradient(weighted, scores, target)
    exact = weighted(scores.double(), target)
    if parameters.get("surrogate") == "quadratic" and scores.abs().max() > 2.0**60:
        # The square of one row leaves float32, whatever its weight in the mean.
        exact = exact + torch.inf
    assert_sane(value, gradient, exact)
    assert_sane(*value_and_gradient(loss, scores, target), exact)

    # The order of rows does not matter.
    if not value.isfinite():
        return
    flipped_weight = None if weight is None else tensor(weight[::-1].copy())
    flipped = loss(scores.flip(0), target.flip(0), sample_weight=flipped_weight)
    assert_close(flipped, value)

    if name in FALLS_WITH_POSITIVES:
        step = data.draw(st.sampled_from([0.125, 2.0, 2.0**60]))
        row = data.draw(st.integers(0, len(scores) - 1))
        sign = 1 if target[row] else -1
        better = scores + sign * step * (torch.arange(len(scores)) == row)
        raised = weighted(better, target)
        assert raised <= value * (1 + 2e-5) + 1e-6
