"""The layer that a network ends in."""

from torch import nn

from ._normalized_linear import NormalizedLinear


def last_layer(module, n_outputs):
    """The last linear layer within a module if it has as many outputs as there are scores."""
    layers = [m for m in module.modules() if isinstance(m, nn.Linear | NormalizedLinear)]
    return layers[-1] if layers and layers[-1].out_features == n_outputs else None
