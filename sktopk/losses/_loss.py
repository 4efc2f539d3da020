"""Argument checks, reduction of losses, and the base class of the loss modules."""

import inspect
from functools import partial
from numbers import Integral

import torch
from torch import Tensor, nn

from ._docs import of_module
from ._elementary_symmetric import largest

_TO_IGNORE = "To ignore a sample, set its sample_weight to 0"
# Smallest and largest positive numbers of float32, the dtype of most losses.
LEAST, MOST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


def check_scores(scores, sample_weight):
    scores = _at_least_single(scores, 2, "(n_samples, n_classes)")
    weight = check_weight(sample_weight, scores)
    return without_absent(scores, weight), weight


def check_binary(scores, target, sample_weight=None):
    """Return three checked values: scores, the mask of the positives, and weights."""
    scores = _at_least_single(scores, 1, "(n_samples,)")
    check_tensor(target, "target")
    check_shape(target, "target", scores)
    weight = check_weight(sample_weight, scores)
    if target.dtype != torch.bool:  # a Boolean target needs no check, which would wait for a GPU
        refused = without_absent((target != 0) & (target != 1), weight)
        if refused.any():
            value = target[refused][0].item()
            raise ValueError(f"target must be 0 or 1; got {value:g}. {_TO_IGNORE}")
        target = target == 1
    return without_absent(scores, weight), target, weight


def _at_least_single(scores, ndim, shape):
    check_floating(scores, "scores")
    if scores.ndim != ndim:
        hint = ": use scores.squeeze(1)" if ndim == 1 and scores.shape[1:] == (1,) else ""
        raise ValueError(f"scores must have shape {shape}; got shape {tuple(scores.shape)}{hint}")
    # Half precision is too imprecise for differences of large sums.
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def check_floating(tensor, name):
    check_tensor(tensor, name)
    if not tensor.is_floating_point():
        raise TypeError(f"{name} must be floating point; got {tensor.dtype}")


def check_tensor(tensor, name):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {type(tensor).__name__}")


def check_shape(tensor, name, scores):
    if tensor.shape != scores.shape:
        shape = tuple(scores.shape)
        raise ValueError(f"{name} must have the shape of scores {shape}; got {tuple(tensor.shape)}")


def check_length(tensor, name, length, each):
    if tensor.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), {each}; got {tuple(tensor.shape)}")


def without_absent(values, weight):
    """Return the values, but 0 for samples of weight 0, so that no gradient becomes 0 * NaN."""
    ends = None if weight is None else value_range(weight)
    if weight is None or (ends is not None and ends[0] > 0):
        return values
    return values.masked_fill((weight == 0).view(-1, *[1] * (values.ndim - 1)), 0)


def check_weight(sample_weight, scores):
    """Return None, or the sample weights with the dtype and device of `scores`."""
    if sample_weight is None:
        return None
    sample_weight = as_tensor(sample_weight, "sample_weight", scores.dtype, scores.device)
    check_length(sample_weight, "sample_weight", scores.shape[0], "one weight per sample")
    ends = value_range(sample_weight)
    if ends is None or ends[0] == 0:  # ignored samples: their weights would get no gradient
        check_constant(sample_weight)
    if ends is not None and ends[0] >= 0 and ends[1] < float("inf"):
        return sample_weight
    valid = (sample_weight >= 0) & (sample_weight < torch.inf)
    if ends is None:  # the values cannot be read
        return torch.where(valid, sample_weight, torch.nan)
    refused = sample_weight[~valid][0].item()
    raise ValueError(f"sample_weight must be finite and nonnegative; got {refused:g}")


def value_range(tensor):
    """Return minimum and maximum (both NaN if a value is NaN), or None if values cannot be read."""
    if tensor.device.type != "cpu" or not tensor.numel() or torch.compiler.is_compiling():
        return None  # empty, traced, or on a GPU, where reading would wait
    try:
        low, high = tensor.detach().aminmax()
        return low.item(), high.item()
    except RuntimeError:  # raised under vmap
        return None


def nan_above(values, largest):
    """Make `values` and their gradients NaN where `largest`, the largest score, is NaN or inf."""
    ends = value_range(largest)
    if ends is not None and ends[1] < float("inf"):
        return values
    return values * torch.where(largest < torch.inf, torch.ones_like(largest), torch.nan)


def score_of_label(scores, target):
    return scores.gather(1, target.unsqueeze(1)).squeeze(1)


def from_largest(scores, k=1):
    """Subtract the k-th largest score of each sample, as a constant without a gradient."""
    known = scores.detach()
    level = known.amax(1, keepdim=True) if k == 1 else largest(known, k)[0][:, -1:]
    return scores - level.nan_to_num(0.0, 0.0, 0.0)


def check_once(name):
    """Raise an error for ``create_graph=True``: second derivatives are not implemented."""
    # torch's `once_differentiable` raises only if the incoming gradient requires a gradient.
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError(f"{name} can be differentiated once only: omit create_graph=True")


def check_constant(sample_weight):
    if sample_weight.requires_grad and torch.is_grad_enabled():
        raise TypeError("sample_weight must not require a gradient: pass sample_weight.detach()")


class WithGradient(torch.autograd.Function):
    """Autograd function that returns the given `value` and has the given `gradient`."""

    @staticmethod
    def forward(ctx, scores, value, gradient):
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx, grad_output):
        check_once("this loss")
        return grad_output.unsqueeze(-1) * ctx.saved_tensors[0], None, None


def as_tensor(values, name, dtype=None, device=None):
    if isinstance(values, torch.Tensor):
        return values.to(device=device, dtype=dtype)
    try:
        values = values.__array__().copy() if hasattr(values, "__array__") else values
        return torch.as_tensor(values, dtype=dtype, device=device)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold numbers; got {values!r}") from error


def check_name(value, name, allowed):
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")


def _as_float(value, name):
    if isinstance(value, float):  # torch.compile cannot trace the checks below
        return float(value)
    # Reject tensors with a gradient: conversion to float would silently drop the gradient.
    has_gradient = getattr(value, "requires_grad", False)
    if isinstance(value, bool | str) or not hasattr(value, "__float__") or has_gradient:
        came = f"{value!r}, a tensor with a gradient" if has_gradient else repr(value)
        raise TypeError(f"{name} must be a number; got {came}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{name} must be finite as a float; got {value!r}") from error
    except (RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number; got {value!r}") from error


def check_fraction(value, name):
    value = _as_float(value, name)
    if not 0 < value <= 1:
        raise ValueError(f"{name}={value:g} must be in (0, 1]")
    return value


def check_hard(scores, target, sample_weight, name):
    """Return the same as `check_soft`, but refuse soft targets."""
    scores, checked, weight = check_soft(scores, target, sample_weight)
    if target.is_floating_point():
        raise TypeError(
            f"{name} is defined for integer class indices; got {target.dtype} target. For soft "
            "targets, repeat each sample for each class, with the probability as sample_weight"
        )
    return scores, checked, weight


def check_soft(scores, target, sample_weight):
    """Return scores and targets (indices or soft), both 0 for samples of weight 0, and weights."""
    scores, weight = check_scores(scores, sample_weight)
    check_tensor(target, "target")
    if target.is_floating_point():
        if target.ndim == 1:
            raise TypeError(f"target must be class indices; got {target.dtype}: use target.long()")
        check_shape(target, "soft target", scores)
        target = without_absent(target.to(scores.dtype), weight)
        ends = value_range(target)
        if ends is not None and ends[0] < 0:
            raise ValueError(f"soft target must have no negative values; got {ends[0]:g}")
        return scores, target, weight
    if target.ndim == 2 and target.shape == scores.shape:
        raise TypeError(
            f"target of shape {tuple(target.shape)} must be float; got {target.dtype}: use "
            "target.float() for soft targets, or target.int().argmax(1) for one-hot targets"
        )
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"target must hold integer class indices; got {target.dtype}")
    check_length(target, "target", scores.shape[0], "one class index per sample")
    target = without_absent(target.long(), weight)
    ends = value_range(target)
    if ends is not None and not 0 <= ends[0] <= ends[1] < scores.shape[1]:
        raise ValueError(
            f"target must have class indices from 0 to {scores.shape[1] - 1}; got {ends[0]} to "
            f"{ends[1]}. {_TO_IGNORE}"
        )
    return scores, target, weight


def check_count(value, name, allowed="an integer"):
    if isinstance(value, bool) or not isinstance(value, int | Integral):
        raise TypeError(f"{name} must be {allowed}; got {value!r}")
    if not -(2**63) <= value < 2**63:  # do not print thousands of digits
        raise ValueError(f"{name} must be less than 2**63 and at least 1")
    if value < 1:
        raise ValueError(f"{name}={value} must be at least 1")


def check_k(k, n_classes, most=None):
    check_count(k, "k")
    if k >= n_classes:
        raise ValueError(f"k={k} must be smaller than the number of classes ({n_classes})")
    if most is not None and k > most:
        raise ValueError(f"k={k} must be at most {most}: with a larger k, sums overflow float64")
    return int(k)


def check_nonnegative(value, name, *, positive=False):
    """Return `value` as a float, and check that it is finite in float32 and >= 0 (or > 0)."""
    value = _as_float(value, name)
    if not (LEAST if positive else 0) <= value <= MOST:
        raise ValueError(
            f"{name}={value:g} must be finite and {'positive' if positive else 'nonnegative'}, at "
            f"most {MOST:.1e}"
        )
    return value


REDUCTIONS = ("none", "sum", "mean")
_OF_A_CALL = ("scores", "target", "groups", "sample_weight", "noise")


def reduce(loss, sample_weight=None, reduction="mean"):
    """Return weighted losses ("none"), their sum or the weighted mean (0 if all weights are 0)."""
    check_name(reduction, "reduction", REDUCTIONS)
    if sample_weight is None:
        if reduction == "mean":
            return loss.sum() / max(loss.numel(), 1)
        return loss.sum() if reduction == "sum" else loss
    dtype = loss.dtype
    sample_weight = sample_weight.to(dtype)
    if reduction == "mean":
        # Use float64, because large weights times losses may exceed the range of float32.
        sample_weight, loss = sample_weight.double(), loss.double()
    # Use `where`: a sample of weight 0 is ignored even if its loss is infinite (0 * inf is NaN).
    weighted = torch.where(sample_weight == 0, torch.zeros_like(loss), sample_weight * loss)
    if reduction != "mean":
        return weighted if reduction == "none" else weighted.sum()
    total = sample_weight.sum()
    return (weighted.sum() / torch.where(total == 0, 1.0, total)).to(dtype)


def _as_bytes(tensor):
    own = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    described = {"dtype": str(tensor.dtype).removeprefix("torch."), "device": str(tensor.device)}
    return described | {"shape": list(tensor.shape), "data": bytes(own.tolist())}


def _from_bytes(found):
    dtype = getattr(torch, found["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype must be a dtype of torch; got {found['dtype']!r:.80}")
    data = bytearray(found["data"])
    tensor = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    tensor = tensor.reshape(found["shape"])
    try:
        return tensor.to(found["device"])
    except (AssertionError, NotImplementedError, RuntimeError):
        return tensor  # on the CPU, because the device does not exist here


class LossModule(nn.Module):
    """Base class of modules that call a loss function with stored parameters.

    ``class SmoothTopKLoss(LossModule, of=smooth_topk_loss, k=5)`` defines a module that calls
    `smooth_topk_loss`, with default k=5. A parameter `class_counts` is stored as a buffer.
    """

    function = None  # the loss function
    takes_generator = False  # whether the loss draws random numbers from its attribute `generator`
    _parameter_names = ()

    def __init_subclass__(cls, of=None, **defaults):
        super().__init_subclass__()
        if of is None:  # a user's subclass of a loss module
            return
        if of.__doc__ and not cls.__doc__:  # `of` has none under python -OO
            cls.__doc__ = of_module(of, cls.__name__)
        of_function = inspect.signature(partial(of, **defaults)).parameters.values()
        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [p.replace(kind=positional) for p in of_function if p.name not in _OF_A_CALL]
        signature = inspect.Signature(parameters)

        def __init__(self, *args, **kwargs):
            super(cls, self).__init__()
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            for name, value in given.arguments.items():
                if name == "class_counts":
                    self.register_buffer(name, as_tensor(value, name).clone())
                else:
                    setattr(self, name, value)

        itself = inspect.Parameter("self", positional)
        __init__.__signature__ = inspect.Signature([itself, *parameters])
        cls.__init__ = __init__
        cls.function = staticmethod(of)
        # Store the names now, so that torch.compile need not trace `inspect.signature`.
        cls._parameter_names = tuple(signature.parameters)
        cls.takes_generator = "generator" in cls._parameter_names

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        """Return the loss. Pass `groups` only if the loss function has this parameter."""
        parameters = {name: getattr(self, name) for name in self._parameter_names}
        if groups is not None:
            parameters["groups"] = groups
        return self.function(scores, target, sample_weight=sample_weight, **parameters)

    def _load_from_state_dict(self, state_dict, prefix, *args):
        # torch would round the saved counts to the dtype of the counts given to this module.
        if (saved := state_dict.get(f"{prefix}class_counts")) is not None and self._buffers:
            self.class_counts = self.class_counts.to(saved.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __getstate__(self):
        # Files of sktopk.io store bytes and plain values, but no tensors.
        buffers = {k: v if v is None else _as_bytes(v) for k, v in self._buffers.items()}
        return self.__dict__ | {"_buffers": buffers}

    def __setstate__(self, state):
        buffers = {k: v if v is None else _from_bytes(v) for k, v in state["_buffers"].items()}
        super().__setstate__(state | {"_buffers": buffers})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._parameter_names)
