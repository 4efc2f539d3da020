"""The layer that a network ends in."""

from torch import nn

from ._normalized_linear import NormalizedLinear


def last_layer(module, n_outputs):
    """The linear layer registered last within a module if it has an output per score, or None."""
    layers = [m for m in module.modules() if isinstance(m, nn.Linear | NormalizedLinear)]
    return layers[-1] if layers and layers[-1].out_features == n_outputs else None
