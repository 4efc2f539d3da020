"""Ensembles of networks: layers of several networks, and separate networks as one module."""

import inspect
import math
from functools import partial

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook


class Members(nn.ModuleList):
    """Ensemble of networks that score the same samples and share no weights.

    Each network returns scores of shape (n_samples, n_outputs), or (n_samples,) for one output.
    """

    def forward(self, x):
        """Return the scores of all members, of shape (n_samples, n_members, n_outputs)."""
        scores = torch.stack([network(x) for network in self], dim=1)
        return scores if scores.ndim == 3 else scores.unsqueeze(2)

    def score_member(self, x, m):
        """Return the scores of member m, of shape (n_samples, n_outputs)."""
        scores = self[m](x)
        return scores if scores.ndim == 2 else scores.unsqueeze(1)


def mean_of_members(scores):
    """Return the mean over members of scores (n_samples, n_members, n_outputs)."""
    return scores.mean(1) if scores.ndim == 3 else scores


def best_classes(scores, k):
    """Return the k < n_classes classes with the largest scores per row. Ties keep their order."""
    if torch.compiler.is_compiling():  # in a graph, no shape may depend on ties
        return scores.argsort(dim=1, descending=True, stable=True)[:, :k]
    best, index = scores.topk(k + 1, dim=1)
    tied = best[:, k - 1] == best[:, k]
    index = index[:, :k].sort(1).values
    order = scores.gather(1, index).argsort(dim=1, descending=True, stable=True)
    index = index.gather(1, order)
    # If the k-th and (k+1)-th scores of a row are tied, sort all classes of the row.
    index[tied] = scores[tied].argsort(dim=1, descending=True, stable=True)[:, :k]
    return index


def score_of_member(module, m):
    """Return a function that maps samples to the scores of ensemble member m."""
    if hasattr(module, "score_member"):
        return partial(module.score_member, m=m)
    return lambda x: module(x)[:, m]


def packs_members(module):
    """Return whether `module` takes `n_members` and builds one network for all members."""
    try:
        return "n_members" in inspect.signature(module).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False


class MemberLinear(nn.Module):
    """One linear layer for each of several networks that share no weights.

    The weight has shape (n_members, out_features, in_features), the bias (n_members, out_features).
    Members with the same samples need one matrix multiplication, others a batched multiplication.
    """

    def __init__(self, n_members, in_features, out_features, *, dtype=None, generator=None):
        super().__init__()
        self.n_members, self.in_features, self.out_features = n_members, in_features, out_features
        self.weight = nn.Parameter(torch.empty(n_members, out_features, in_features, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(n_members, out_features, dtype=dtype))
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, x):
        """Return the outputs of all members, of shape (n_members, n_samples, out_features).

        x has shape (n_samples, in_features) if the samples are the same for all members, else
        (n_members, n_samples, in_features).
        """
        if x.dim() == 2:
            values = F.linear(x, self.weight.flatten(0, 1), self.bias.flatten())
            return values.unflatten(1, self.weight.shape[:2]).transpose(0, 1)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))

    def of_member(self, x, m):
        """Return outputs (n_samples, out_features) of member m for x (n_samples, in_features)."""
        return F.linear(x, self.weight[m], self.bias[m])

    def extra_repr(self):
        return (
            f"n_members={self.n_members}, in_features={self.in_features}, "
            f"out_features={self.out_features}"
        )


class MemberLayers(torch.autograd.Function):
    """Linear layers of several networks with ReLU between them, as one differentiable function.

    Training takes two thirds of the time of separate layers, because there are fewer passes over
    the hidden layers, which are too large for the CPU cache. ``apply(x, weight_1, bias_1, weight_2,
    ...)`` returns scores (n_members, n_samples, n_outputs). x gets no gradient.
    """

    @staticmethod
    def forward(ctx, x, *parameters):
        layers = _inputs(x, parameters)
        ctx.save_for_backward(*parameters, *layers)
        return _linear(layers[-1], *parameters[-2:])

    @staticmethod
    def backward(ctx, gradient):
        saved, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        n_layers = len(saved) // 3
        parameters, layers = saved[: 2 * n_layers], saved[2 * n_layers :]
        if torch.is_grad_enabled():
            # Compute the layer inputs again with an autograd graph, for second derivatives.
            layers = _inputs(layers[0], parameters)
        found = [None] * len(needed)
        lowest = needed.index(True) // 2
        for layer in reversed(range(lowest, n_layers)):
            found[2 * layer] = torch.bmm(gradient.transpose(1, 2), layers[layer])
            found[2 * layer + 1] = gradient.sum(1)
            if layer > lowest:
                gradient = torch.bmm(gradient, parameters[2 * layer])
                gradient = torch.ops.aten.threshold_backward(gradient, layers[layer], 0)
        return None, *found


def _inputs(x, parameters):
    """Return a list with the input of each layer, of shape (n_members, n_samples, width)."""
    # Use `expand`, because it gives all members the same samples without copies.
    layers = [x if x.dim() == 3 else x.expand(len(parameters[0]), -1, -1)]
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        layers.append(_linear(layers[-1], weight, bias).relu_())
    return layers


def _linear(h, weight, bias):
    return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))


def is_as_made(layer):
    """Return whether calling a layer runs `MemberLinear.forward` and no hooks."""
    return type(layer) is MemberLinear and not has_hooks(layer)


def has_hooks(layer):
    """Return whether calling a layer runs hooks, or another `forward` than that of its class."""
    # torch has no public function to test for hooks.
    hooks = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"
    found = "forward" in vars(layer) or any(getattr(layer, each) for each in hooks)
    return found or _has_any_global_hook()


def is_plain_training(h):
    """Return whether `MemberLayers` can replace separate layers for the input `h`.

    It supports neither gradients of `h`, mixed precision, compilers and tracers, nor torch.func.
    """
    if not torch.is_grad_enabled() or h.requires_grad:
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    # torch has no public function to test for torch.func and forward-mode differentiation.
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    device = h.device.type
    return not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))
