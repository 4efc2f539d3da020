"""The nn.Module shell of a loss function."""

import inspect

from torch import nn


class LossModule(nn.Module):
    """Call a loss function with the parameters that the constructor stored.

    A subclass names its function as the static attribute `function` and stores every
    constructor parameter under its own name; `forward` passes them on.
    """

    function = None
    _parameter_names = ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        # Read once at class creation: torch.compile need not trace the inspection.
        cls._parameter_names = tuple(inspect.signature(cls.__init__).parameters)[1:]

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of `scores` against `target`."""
        parameters = {name: getattr(self, name) for name in self._parameter_names}
        return self.function(scores, target, sample_weight=sample_weight, **parameters)

    @property
    def draws(self):
        """Whether the loss draws random numbers, from its `generator`."""
        return "generator" in self._parameter_names

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._parameter_names)
