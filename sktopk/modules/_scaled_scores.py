"""A constant factor on a network's scores."""

from torch import nn


class ScaledScores(nn.Module):
    r"""Multiply the scores of a network by a constant.

    .. math::
        g(x) = c\, f(x)

    A loss that divides scores by :math:`k \tau` becomes sharp only when they are that much
    larger; the factor gives it the room, where the learning rate alone would need more epochs.

    Parameters
    ----------
    module : nn.Module
        Returns scores of shape (n_samples, n_classes).
    scale : float
        The factor c, positive.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import ScaledScores
    >>> ScaledScores(torch.nn.Identity(), 10.0)(torch.tensor([[1.0, 2.0]]))
    tensor([[10., 20.]])
    """

    def __init__(self, module, scale):
        super().__init__()
        self.module = module
        self.scale = scale

    def forward(self, x):
        """Return the scaled scores of the inputs x."""
        return self.scale * self.module(x)

    def extra_repr(self):
        return f"scale={self.scale:g}"
