"""Every multi-class loss as users meet it: modules, compilation, refusals."""

import copy
import inspect
import math
import pickle
import shutil
from functools import partial

import pytest
import torch

from sktopk import losses
from tests.losses.cases import (
    LOSSES,
    N_CLASSES,
    assert_same,
    every_loss,
    every_loss_of_k,
    fixed_batch,
    fixed_noise,
    value_and_gradient,
)

# Modules and compilation.


def build(case):
    return getattr(losses, case.module)(**case.parameters)


def call_seeded(module, scores, target):
    """Call a module with the same noise every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return module(scores, target)


@every_loss
def test_module_equals_function(case):
    scores, target = fixed_batch()
    function = partial(getattr(losses, case.name), **case.parameters)
    assert_same(call_seeded(build(case), scores, target), call_seeded(function, scores, target))


@every_loss
@pytest.mark.parametrize("duplicate", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_module_survives_pickle_and_copy(case, duplicate):
    scores, target = fixed_batch()
    module = build(case)
    again = duplicate(module)
    assert repr(again) == repr(module)
    assert_same(call_seeded(again, scores, target), call_seeded(module, scores, target))


@every_loss
def test_module_has_the_parameters_and_defaults_of_its_function(case):
    of_function = inspect.signature(getattr(losses, case.name)).parameters
    of_module = inspect.signature(getattr(losses, case.module)).parameters
    of_call = {"scores", "target", "sample_weight", "noise"}
    assert set(of_module) == set(of_function) - of_call
    assert list(of_module)[-1] == "reduction"
    for name, parameter in of_module.items():
        # Required of the function, k and sigma have the estimator's default in the module.
        required = of_function[name].default is inspect.Parameter.empty
        assert required or parameter.default == of_function[name].default


@every_loss
def test_module_takes_its_parameters_by_place(case):
    module = getattr(losses, case.module)
    signature = inspect.signature(module)
    given = signature.bind(**case.parameters)
    given.apply_defaults()
    by_place = module(*given.arguments.values())
    assert repr(by_place) == repr(build(case))
    assert inspect.signature(module.__init__).parameters.keys() - signature.parameters == {"self"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'temperature'"):
        module(**case.parameters, temperature=1.0)


@every_loss_of_k
def test_module_shows_five_labels_unless_told(case):
    parameters = inspect.signature(getattr(losses, case.module)).parameters
    assert parameters["k"].default == 5
    assert "sigma" not in parameters or parameters["sigma"].default == 0.2


@pytest.mark.parametrize(
    "case", [c for c in LOSSES if "class_counts" in c.parameters], ids=lambda c: c.name
)
def test_class_counts_move_with_the_module(case):
    module = build(case)
    assert list(module.state_dict()) == ["class_counts"]
    assert module.to("meta").class_counts.device.type == "meta"
    with pytest.raises(TypeError, match="class_counts"):
        getattr(losses, case.module)()


@every_loss
def test_module_tells_whether_it_draws(case):
    module = build(case)
    assert module.takes_generator == case.noised
    if case.noised:
        scores, target = fixed_batch()
        module.generator = torch.Generator().manual_seed(3)
        drawn = module(scores, target)
        module.generator.manual_seed(3)
        torch.rand(1)  # the global generator has no part in it
        assert_same(module(scores, target), drawn, 0)


def test_a_subclass_keeps_the_function():
    class Halved(losses.FocalLoss):
        def forward(self, scores, target, sample_weight=None):
            return super().forward(scores, target, sample_weight) / 2

    scores, target = fixed_batch()
    assert repr(Halved(gamma=1.0)) == "Halved(gamma=1.0, reduction='mean')"
    expected = losses.focal_loss(scores, target, gamma=1.0) / 2
    assert_same(Halved(gamma=1.0)(scores, target), expected)


# torch.compile meets a warning of its own where a loss is an autograd function.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@every_loss
def test_compiles_without_graph_breaks(case):
    torch.compiler.reset()
    scores, target = fixed_batch()
    compiled = torch.compile(
        lambda s, t, **noise: case(s, t, **noise), fullgraph=True, backend="aot_eager"
    )
    noise = {"noise": fixed_noise(scores)} if case.noised else {}
    loss = compiled(scores, target, **noise)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert_same((loss.detach(), gradient), value_and_gradient(case, scores, target))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch warns of itself
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_compiles_with_inductor():
    torch.compiler.reset()
    scores, target = fixed_batch()
    compiled = torch.compile(losses.topk_transition_loss, fullgraph=True)
    (gradient,) = torch.autograd.grad(compiled(scores, target, k=3), scores)
    transition = next(case for case in LOSSES if case.name == "topk_transition_loss")
    assert_same(gradient, value_and_gradient(transition, scores, target)[1])


# What is refused, and how.


@every_loss_of_k
@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k=0 must be at least 1"),
        (N_CLASSES, ValueError, rf"k={N_CLASSES} must be smaller than the number of classes"),
        (2.0, TypeError, r"k must be an integer; got 2\.0"),
        (True, TypeError, "k must be an integer; got True"),
    ],
)
def test_refuses_k(case, k, error, message):
    scores, target = fixed_batch()
    with pytest.raises(error, match=message):
        case(scores, target, k=k)


@every_loss
def test_refuses_wrong_tensors(case):
    scores, target = fixed_batch()
    with pytest.raises(TypeError, match=r"scores must be a torch\.Tensor; got ndarray"):
        case(scores.detach().numpy(), target, **({"noise": None} if case.noised else {}))
    with pytest.raises(ValueError, match=r"scores must have shape \(n_samples, n_classes\); got"):
        case(scores[0], target)
    with pytest.raises(TypeError, match=r"scores must be floating point; got torch\.int64"):
        case(scores.long(), target)
    with pytest.raises(ValueError, match=r"target must have shape \(6,\).*got \(3,\)"):
        case(scores, target[:3])
    with pytest.raises(TypeError, match=r"target must be a torch\.Tensor; got list"):
        case(scores, target.tolist())
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(6,\).*got \(2,\)"):
        case(scores, target, sample_weight=torch.ones(2))
    with pytest.raises(ValueError, match="reduction='average' must be one of 'none', 'sum'"):
        case(scores, target, reduction="average")


@pytest.mark.parametrize("case", [c for c in LOSSES if not c.soft], ids=str)
def test_refuses_soft_targets_where_undefined(case):
    scores, _ = fixed_batch()
    with pytest.raises(TypeError, match=f"{case.name} is defined for integer class indices"):
        case(scores, scores.softmax(1))


NEGATIVE = [
    (case, name)
    for case in LOSSES
    for name in ("tau", "margin", "sigma", "gamma", "max_margin", "scale", "label_smoothing")
    if name in inspect.signature(getattr(losses, case.name)).parameters
]


@pytest.mark.parametrize(("case", "name"), NEGATIVE, ids=str)
def test_refuses_parameters_out_of_range(case, name):
    scores, target = fixed_batch()
    for value in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=rf"{name}=.* must be finite and"):
            case(scores, target, **{name: value})
    with pytest.raises(TypeError, match=f"{name} must be a number; got '1'"):
        case(scores, target, **{name: "1"})


def test_refuses_label_smoothing_above_one():
    scores, target = fixed_batch()
    with pytest.raises(ValueError, match=r"label_smoothing=1\.5 must be at most 1"):
        losses.cross_entropy_loss(scores, target, label_smoothing=1.5)


@pytest.mark.parametrize(
    "case", [c for c in LOSSES if "class_counts" in c.parameters], ids=lambda c: c.name
)
def test_refuses_class_counts(case):
    scores, target = fixed_batch()
    with pytest.raises(ValueError, match=r"class_counts must have shape \(7,\).*got \(3,\)"):
        case(scores, target, class_counts=[1, 2, 3])
    with pytest.raises(ValueError, match="class_counts must be positive; got 0"):
        case(scores, target, class_counts=[0, 1, 1, 1, 1, 1, 1])
