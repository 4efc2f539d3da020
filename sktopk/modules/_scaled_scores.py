"""A constant factor on a network's scores."""

import torch
from torch import Tensor, nn

from ._member_linear import MemberLinear
from ._normalized_linear import NormalizedLinear


class ScaledScores(nn.Module):
    r"""Multiply the scores of a network by a constant.

    .. math::
        g(x) = c\, f(x)

    A loss that divides scores by :math:`k \tau` becomes sharp only when they are that much
    larger; the factor gives it the room, where the learning rate alone would need more epochs.
    So that training starts from the scores of f itself and not from large random ones, the
    weights of the last linear layer are divided by c if it has as many outputs as there are
    scores; a network that ends otherwise starts with scores c times as large.

    Parameters
    ----------
    module : nn.Module
        Returns scores of shape (n_samples, n_classes).
    n_outputs : int
        Number of scores. The last `nn.Linear` or `MemberLinear` within `module` is rescaled if it
        has as many.
    scale : float
        The factor c, positive.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import ScaledScores
    >>> ScaledScores(torch.nn.Identity(), 2, 10.0)(torch.tensor([[1.0, 2.0]]))
    tensor([[10., 20.]])
    """

    def __init__(self, module: nn.Module, n_outputs: int, scale: float) -> None:
        super().__init__()
        layer = last_layer(module, n_outputs)
        if isinstance(layer, nn.Linear | MemberLinear):
            with torch.no_grad():
                for parameter in layer.parameters():
                    parameter.div_(scale)
        self.module = module
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled scores of the inputs x."""
        return self.scale * self.module(x)

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}"


def last_layer(module, n_outputs):
    """The linear layer registered last within a module if it has an output per score, or None."""
    kinds = (nn.Linear, MemberLinear, NormalizedLinear)
    layers = [m for m in module.modules() if isinstance(m, kinds)]
    return layers[-1] if layers and layers[-1].out_features == n_outputs else None
