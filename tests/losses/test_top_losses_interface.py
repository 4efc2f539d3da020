"""Every accuracy-at-the-top loss as users meet it: modules, compilation, refusals."""

import copy
import inspect
import math
import pickle
import shutil

import pytest
import torch

from sktopk import losses
from sktopk.losses import TopMean, accuracy_at_top_loss
from tests.losses import top_references as references
from tests.losses.cases import assert_same, value_and_gradient
from tests.losses.top_cases import TOP_LOSSES, every_named_loss, every_threshold, top_batch

# Modules and compilation.


def build(case):
    return getattr(losses, case.module)(surrogate=case.surrogate, **case.parameters)


@every_named_loss
@pytest.mark.parametrize(
    "duplicate", [lambda m: m, lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy]
)
def test_module_equals_function_and_survives_pickle_and_copy(case, duplicate):
    scores, target = top_batch()
    weight = torch.linspace(0, 2, len(scores))
    module = duplicate(build(case))
    assert repr(module) == repr(build(case))
    assert f"surrogate={case.surrogate!r}" in repr(module)
    assert_same(module(scores, target), case(scores, target), 0)
    assert_same(module(scores, target, weight), case(scores, target, sample_weight=weight), 0)


@every_named_loss
def test_module_has_the_parameters_and_defaults_of_its_function(case):
    of_function = inspect.signature(getattr(losses, case.name)).parameters
    of_module = inspect.signature(getattr(losses, case.module)).parameters
    assert set(of_module) == set(of_function) - {"scores", "target", "groups", "sample_weight"}
    assert all(of_module[name].default == of_function[name].default for name in of_module)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@every_threshold
def test_compiles(case):
    torch.compiler.reset()
    scores, target = top_batch()
    # A search for a root looks at numbers, which no graph can do.
    whole = "SurrogateQuantile" not in str(case)
    compiled = torch.compile(
        lambda s, t, w: case(s, t, sample_weight=w), fullgraph=whole, backend="aot_eager"
    )
    weight = torch.ones(len(scores))
    loss = compiled(scores, target == 1, weight)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert_same((loss.detach(), gradient), value_and_gradient(case, scores, target))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch warns of itself
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_compiles_with_inductor():
    torch.compiler.reset()
    case = next(case for case in TOP_LOSSES if case.name == "pat_mat_np_loss")
    scores, target = top_batch()
    compiled = torch.compile(lambda s, t: case(s, t), fullgraph=True)
    loss = compiled(scores, target == 1)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert_same((loss.detach(), gradient), value_and_gradient(case, scores, target))


# What is refused, and how.


@every_threshold
def test_refuses_wrong_tensors(case):
    scores, target = top_batch()
    with pytest.raises(TypeError, match=r"scores must be a torch\.Tensor; got ndarray"):
        case(scores.detach().numpy(), target)
    with pytest.raises(ValueError, match=r"scores must have shape \(n_samples,\); got.*\(14, 1\)"):
        case(scores.unsqueeze(1), target)
    with pytest.raises(TypeError, match=r"scores must be floating point; got torch\.int64"):
        case(scores.long(), target)
    with pytest.raises(TypeError, match=r"target must be a torch\.Tensor; got list"):
        case(scores, target.tolist())
    with pytest.raises(ValueError, match=r"target must have the shape of scores \(14,\); got \(3"):
        case(scores, target[:3])
    with pytest.raises(ValueError, match="target must hold 0 and 1; got 2"):
        case(scores, 2 * target)
    with pytest.raises(ValueError, match="target must hold 0 and 1; got nan"):
        case(scores, torch.where(target == 1, math.nan, 0.0))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(14,\).*got \(2,\)"):
        case(scores, target, sample_weight=torch.ones(2))
    with pytest.raises(ValueError, match="reduction='average' must be one of 'none', 'sum'"):
        case(scores, target, reduction="average")
    with pytest.raises(ValueError, match="surrogate='square' must be one of 'quadratic', 'hinge'"):
        case(scores, target, surrogate="square")


RANGES = [
    ("k", (0, "k=0 must be at least 1"), (2.5, r"k must be an integer; got 2\.5")),
    ("tau", (0.0, r"tau=0 must be in \(0, 1\]"), ("1", "tau must be a number; got '1'")),
    ("recall", (1.5, r"recall=1\.5 must be in"), (True, "recall must be a number; got True")),
]


@pytest.mark.parametrize(("name", "value", "kind"), RANGES)
def test_refuses_parameters_out_of_range(name, value, kind):
    scores, target = top_batch()
    cases = [case for case in TOP_LOSSES if name in case.parameters]
    assert cases
    for case in cases:
        with pytest.raises(ValueError, match=value[1]):
            case(scores, target, **{name: value[0]})
        with pytest.raises(TypeError, match=kind[1]):
            case(scores, target, **{name: kind[0]})
        with pytest.raises((ValueError, TypeError), match=name):
            case(scores, target, **{name: math.nan})


def test_refuses_other_errors_and_thresholds():
    scores, target = top_batch()
    with pytest.raises(ValueError, match="errors='fn' must be one of 'false_negatives', 'false_p"):
        accuracy_at_top_loss(scores, target, threshold=TopMean("all", k=1), errors="fn")
    with pytest.raises(TypeError, match=r"threshold must be callable, such as .*; got 'max'"):
        accuracy_at_top_loss(scores, target, threshold="max")


@pytest.mark.parametrize("errors", ["false_negatives", "false_positives"])
def test_threshold_may_be_any_function(errors):
    scores, target = top_batch()
    value, gradient = value_and_gradient(
        lambda s, y: accuracy_at_top_loss(
            s, y, threshold=lambda scores, positive, weight: scores.mean(), errors=errors
        ),
        scores,
        target,
    )
    t = scores.mean().item()
    rows = references.losses(scores.tolist(), target.tolist(), t, errors, "quadratic")
    assert value.item() == pytest.approx(sum(rows) / sum((target == 1) == (errors[6] == "n")))
    assert gradient.sum() == pytest.approx(0, abs=1e-12)
