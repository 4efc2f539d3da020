"""The interface of every loss: modules, compilation and errors."""

import copy
import inspect
import math
import pickle

import pandas as pd
import pytest
import torch

from sktopk import losses
from sktopk.losses import KthLargest, accuracy_at_top_loss
from tests.losses.cases import CLASSES, LOSSES, OF_TWO, PROGRAMS, TOP, every, first_of_each
from tests.losses.data import assert_same, binary_batch, class_batch, value_and_gradient

MODULES = [case for case in LOSSES if case.module]
DRAWING = [case for case in CLASSES if case.noised]


@every(first_of_each(MODULES))
def test_a_module_equals_its_function_and_survives_pickle_and_copy(case):
    scores, target = case.batch()
    weight, module = torch.linspace(0, 2, len(scores)), case.module(**case.parameters)
    for each in (module, pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert repr(each) == repr(module)
        for given in (None, weight):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                found = each(scores, target, sample_weight=given)
                torch.manual_seed(0)
                options = {"sample_weight": given} | case.parameters
                assert_same(found, case.function(scores, target, **options), 0)


@every(first_of_each(MODULES))
def test_a_module_has_the_parameters_and_defaults_of_its_function(case):
    of_function = inspect.signature(case.function).parameters
    signature = inspect.signature(case.module)
    of_module = signature.parameters
    of_call = {"scores", "target", "sample_weight", "groups", "noise"}
    assert list(of_module) == [name for name in of_function if name not in of_call]
    for name, parameter in of_module.items():
        # Modules of several classes have the defaults of k and sigma of `TopKClassifier`.
        default = {"k": 5, "sigma": 0.2}.get(name) if case in CLASSES else None
        assert parameter.default == (default or of_function[name].default)
    given = signature.bind(**case.parameters)
    given.apply_defaults()
    assert repr(case.module(*given.arguments.values())) == repr(case.module(**case.parameters))
    with pytest.raises(TypeError, match="unexpected keyword argument 'temperature'"):
        case.module(**case.parameters, temperature=1.0)


@every(first_of_each(LOSSES))
def test_every_function_takes_scores_and_target_and_then_keywords(case):
    parameters = list(inspect.signature(case.function).parameters.values())
    assert [each.name for each in parameters[:2]] == ["scores", "target"]
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters[2:])
    last = {each.name: each.default for each in parameters[-2:]}
    assert last == {"sample_weight": None, "reduction": "mean"}
    if case not in CLASSES:
        assert (parameters[-3].name, parameters[-3].default) == ("groups", None)
    needed = {each.name for each in parameters[2:] if each.default is each.empty}
    assert needed <= set("class_counts fpr k precision recall sigma tau threshold".split())


@every([case for case in CLASSES if "class_counts" in case.parameters])
def test_class_counts_are_a_buffer_of_the_module_and_wrong_counts_raise(case):
    # `load_state_dict` does not round the counts to the dtype of the counts before.
    saved, loaded = (case.module(class_counts=each) for each in ([8.0, 4.0, 1.9], [1, 1, 1]))
    loaded.load_state_dict(saved.state_dict())
    assert torch.equal(loaded.class_counts, saved.class_counts)
    module = case.module(**case.parameters)
    assert list(module.state_dict()) == ["class_counts"]
    assert module.to("meta").class_counts.device.type == "meta"
    with pytest.raises(TypeError, match="class_counts"):
        case.module()
    with pytest.raises(ValueError, match=r"class_counts must have shape \(7,\).*got \(3,\)"):
        case(*class_batch(), class_counts=[1, 2, 3])
    for wrong, shown in ((0, "0 to 1"), (math.inf, "1 to inf")):
        with pytest.raises(ValueError, match=rf"class_counts must be in \(0, inf\); got {shown}"):
            case(*class_batch(), class_counts=[wrong, 1, 1, 1, 1, 1, 1])


@every([case for case in CLASSES if "class_counts" in case.parameters])
def test_each_sample_can_have_its_own_class_counts(case, rng):
    scores, target = class_batch()
    counts, noise = rng.uniform(1, 9, scores.shape), case.noise_of(scores, slice(None))
    found = case(scores, target, class_counts=counts, reduction="none")
    for i, row in enumerate(counts):
        own = {"class_counts": row, **{name: each[i : i + 1] for name, each in noise.items()}}
        assert_same(found[i], case(scores[i : i + 1], target[i : i + 1], **own))


def test_class_counts_of_a_series_are_copied_in_its_order():
    counts = pd.Series([1, 3, 5], index=[3, 2, 1])[::-1]
    module = losses.LDAMLoss(counts)
    counts[:] = 0
    assert module.class_counts.tolist() == [5, 3, 1]


@every(DRAWING)
def test_a_module_draws_noise_from_its_generator(case):
    module = case.module(**case.parameters)
    scores, target = class_batch()
    module.generator = torch.Generator().manual_seed(3)
    drawn = module(scores, target)
    module.generator.manual_seed(3)
    torch.rand(1)  # the global generator has no effect
    assert_same(module(scores, target), drawn, 0)


def test_a_subclass_of_a_module_keeps_its_loss_function():
    class Halved(losses.FocalLoss):
        def __init__(self, gamma):
            super().__init__(gamma=gamma)
            self.register_buffer("empty", None)

        def forward(self, scores, target, sample_weight=None):
            return super().forward(scores, target, sample_weight=sample_weight) / 2

    scores, target = class_batch()
    assert repr(Halved(gamma=1.0)) == "Halved(gamma=1.0, reduction='mean')"
    expected = losses.focal_loss(scores, target, gamma=1.0) / 2
    assert_same(copy.deepcopy(Halved(gamma=1.0))(scores, target), expected)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@every([*first_of_each(CLASSES), *TOP[4:9], *first_of_each(PROGRAMS)])
def test_a_loss_compiles_without_graph_breaks(case):
    """Without graph breaks, Python reads no values of tensors and does not wait for the GPU."""
    torch.compiler.reset()
    scores, target = case.batch()
    labels = target if scores.ndim == 2 else target == 1
    noise = case.noise_of(scores, slice(None))
    # SurrogateQuantile searches for a root: it reads values of tensors, which breaks the graph.
    whole = "SurrogateQuantile" not in str(case)
    compiled = torch.compile(lambda *a, **n: case(*a, **n), fullgraph=whole, backend="aot_eager")
    loss = compiled(scores, labels, **noise)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert_same((loss.detach(), gradient), value_and_gradient(case, scores, target))


def test_a_compiled_loss_draws_noise_for_every_batch_size():
    compiled = torch.compile(losses.NoisedTopKLoss(k=2), backend="eager")
    for n in (12, 7):
        assert compiled(torch.zeros(n, 4), torch.zeros(n, dtype=torch.long)).isfinite()


@every([*first_of_each(LOSSES), PROGRAMS[-2]])  # PROGRAMS[-2] has surrogate="logistic"
def test_scores_target_and_weights_of_a_wrong_type_or_shape_raise(case):
    scores, target = case.batch()
    n = len(scores)
    noise = {"noise": None} if case in DRAWING else {}
    shape = rf"must have shape \({n},\)" if scores.ndim == 2 else rf"shape of scores \({n},\)"
    two, wrong = {"sample_weight": torch.ones(2)}, {"reduction": "average"}
    refused = [
        (scores.detach().numpy(), target, noise, r"scores must be a torch\.Tensor; got ndarray"),
        (scores.long(), target, {}, r"scores must be floating point; got torch\.int64"),
        (scores, target.tolist(), {}, r"target must be a torch\.Tensor; got list"),
        (scores, target[:3], {}, rf"target .*{shape}.*got \(3,\)"),
        (scores, target, two, rf"sample_weight must have shape \({n},\).*got \(2,\)"),
        (scores, target, wrong, "reduction='average' must be one of 'none', 'sum'"),
    ]
    weight = torch.ones(n)
    weight[0] = case in PROGRAMS[1:]  # the other losses raise only for a weight of 0
    weight.requires_grad_()
    refused += [(scores, target, {"sample_weight": weight}, "must not require a gradient")]
    if case in CLASSES:
        refused += [(scores[0], target, {}, r"scores must have shape \(n_samples, n_classes\)")]
        refused += [(scores, scores > 0, {}, r"must be float; got torch\.bool: use target")]
        if not case.soft:
            message = f"{case.name} is defined for integer class ind"
            refused += [(scores, scores.softmax(1), {}, message)]
    for s, y, options, message in refused:
        error = ValueError if "shape" in message or "one of" in message else TypeError
        with pytest.raises(error, match=message):
            case(s, y, **options)


@every(first_of_each(OF_TWO))
def test_binary_losses_raise_for_labels_other_than_0_and_1_and_unknown_options(case):
    scores, target = case.batch()
    for value, shown in ((2 * target, "2"), (torch.where(target == 1, math.nan, 0.0), "nan")):
        with pytest.raises(ValueError, match=f"target must be 0 or 1; got {shown}"):
            case(scores, value)
    option = "surrogate" if case in TOP else "solver"
    with pytest.raises(ValueError, match=f"{option}='square' must be one of '"):
        case(scores, target, **{option: "square"})
    with pytest.raises(ValueError, match=r"scores must have shape \(n_samples,\); got.*, 1\): use"):
        case(scores.unsqueeze(1), target)


# Parameters, values out of range, and the expected messages.
FINITE = (-1.0, math.inf, math.nan), "must be finite and"
RANGES = {
    **dict.fromkeys(("margin", "sigma", "gamma", "max_margin", "scale", "label_smoothing"), FINITE),
    **dict.fromkeys(("beta", "penalty"), ((0.0, *FINITE[0]), "must be finite and positive")),
    **dict.fromkeys(("recall", "fpr", "precision"), ((0.0, 1.001, math.nan), r"must be in \(0, 1")),
}


@every(first_of_each(LOSSES))
def test_parameters_out_of_range_raise(case):
    scores, target = case.batch()
    names = inspect.signature(case.function).parameters
    ranges = RANGES | {"tau": RANGES["recall"] if case in TOP else FINITE}
    for name in sorted(ranges.keys() & names):
        values, message = ranges[name]
        for value in values:
            with pytest.raises(ValueError, match=f"{name}=.* {message}"):
                case(scores, target, **{name: value})
        with pytest.raises(TypeError, match=f"{name} must be a number; got '1'"):
            case(scores, target, **{name: "1"})
    if "k" in names:
        with pytest.raises(ValueError, match="k=0 must be at least 1"):
            case(scores, target, k=0)
        for value in (2.0, True):
            with pytest.raises(TypeError, match=f"k must be an integer; got {value}"):
                case(scores, target, k=value)
    if case in CLASSES and "k" in names:
        with pytest.raises(ValueError, match="k=7 must be smaller than the number of"):
            case(scores, target, k=scores.shape[1])


def test_invalid_label_smoothing_k_threshold_and_errors_raise():
    scores, target = class_batch()
    with pytest.raises(ValueError, match=r"label_smoothing=1\.5 must be at most 1"):
        CLASSES[0](scores, target, label_smoothing=1.5)
    with pytest.raises(ValueError, match="k=601 must be at most 600"):
        losses.smooth_topk_loss(torch.zeros(1, 900), torch.tensor([0]), k=601)
    scores, target = binary_batch()
    with pytest.raises(ValueError, match=r"k=15 must be at most the number of samples \(14\)"):
        losses.precision_at_k_loss(scores, target, k=15)
    with pytest.raises(TypeError, match=r"threshold must be a function .*; got 'max'"):
        accuracy_at_top_loss(scores, target, threshold="max")
    with pytest.raises(ValueError, match=r"threshold must return shape \(\); got .*14"):
        accuracy_at_top_loss(scores, target, threshold=lambda scores, *_: scores)
    for errors, message in [
        ({"false_alarms": 1.0}, r"keys of errors must be in \('false_negatives'"),
        ({"false_negatives": -1.0}, r"errors\['false_negatives'\]=-1 must be finite and nonneg"),
        ({"false_negatives": 0.0}, "at least one positive weight"),
        ({}, "at least one positive weight"),
        ("both", "errors='both' must be one of 'false_negatives', 'false_positives'"),
    ]:
        with pytest.raises(ValueError, match=message):
            accuracy_at_top_loss(scores, target, threshold=KthLargest("all", k=2), errors=errors)
