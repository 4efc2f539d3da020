"""Linear layers of several networks in one product; all layers with a gradient of their own."""

import math

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

# All that may be between a call of a layer and its `forward`; torch has no public way to ask.
HOOKS = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"


class MemberLinear(nn.Module):
    """One linear layer for each of several networks that share no weight.

    The weight has shape (n_members, out_features, in_features), the bias (n_members, out_features).
    Both are drawn as :class:`torch.nn.Linear` draws its own. The members are computed in one matrix
    multiplication if they share samples, else in a batched one.
    """

    def __init__(
        self,
        n_members: int,
        in_features: int,
        out_features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_members = n_members
        self.in_features = in_features
        self.out_features = out_features
        kwargs = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(n_members, out_features, in_features, **kwargs))
        self.bias = nn.Parameter(torch.empty(n_members, out_features, **kwargs))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights for every member."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n_members, n_samples, out_features).

        The rows x are (n_samples, in_features), the same for all members, or (n_members,
        n_samples, in_features).
        """
        if x.dim() == 2:
            values = F.linear(x, self.weight.flatten(0, 1), self.bias.flatten())
            return values.unflatten(1, self.weight.shape[:2]).transpose(0, 1)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))

    def of_member(self, x: Tensor, m: int) -> Tensor:
        """Return (n_samples, out_features) of rows (n_samples, in_features) by member m alone."""
        return F.linear(x, self.weight[m], self.bias[m])

    def extra_repr(self) -> str:
        return (
            f"n_members={self.n_members}, in_features={self.in_features}, "
            f"out_features={self.out_features}"
        )


class MemberLayers(torch.autograd.Function):
    r"""Linear layers of several networks with ReLU between them: scores, and their gradient.

    .. math::
        f = W_L h_{L-1} + b_L, \qquad h_l = \max(0, W_l h_{l-1} + b_l), \qquad h_0 = x

    This takes two thirds of the time of the layers one by one: the hidden layers of several
    networks do not fit the cache, so that each pass over them counts.

    Applied to samples that need no gradient, (n_samples, n_features) for all members or (n_members,
    n_samples, n_features), and to the weight and the bias of each layer in turn, as in
    :class:`MemberLinear`. Returns the scores (n_members, n_samples, n_outputs).
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
            # Whoever differentiates twice needs them with a graph.
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
    """What each layer is given, of shape (n_members, n_samples, width)."""
    # Rows that all members read are not copied.
    layers = [x if x.dim() == 3 else x.expand(len(parameters[0]), -1, -1)]
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        layers.append(_linear(layers[-1], weight, bias).relu_())
    return layers


def _linear(h, weight, bias):
    return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))


def is_as_made(layer):
    """Tell whether calling a module is the `forward` of :class:`MemberLinear` and nothing else."""
    if type(layer) is not MemberLinear or "forward" in vars(layer):
        return False
    return not any(getattr(layer, hooks) for hooks in HOOKS) and not _has_any_global_hook()


def is_plain_training(h):
    """Tell whether the way back of `MemberLayers` is the one that is asked for.

    Gradients of parameters alone, not of the rows `h`, in their precision. Compilers and tracers
    find ways of their own, and transforms of torch.func ask for other derivatives.
    """
    if not torch.is_grad_enabled() or h.requires_grad:
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    # Again, there is no public way to ask.
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    device = h.device.type
    return not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))
