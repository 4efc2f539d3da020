"""A loss function as an nn.Module."""

import inspect
from functools import partial

import torch
from torch import nn

_OF_A_CALL = ("scores", "target", "sample_weight", "noise")


class LossModule(nn.Module):
    """Call a loss function with the parameters that the constructor stored.

    ``class SmoothTopKLoss(LossModule, of=smooth_topk_loss, k=5)`` is the module of that function:
    its constructor takes the parameters of the function, but those of a call, in their order and
    with their defaults or the ones given here. Counts of the classes are kept as a buffer, so
    that they move with the module.

    Attributes
    ----------
    function : callable
        The loss function.
    takes_generator : bool
        Whether it draws random numbers, from the attribute `generator`.
    """

    function = None
    takes_generator = False
    _parameter_names = ()

    def __init_subclass__(cls, of=None, **defaults):
        super().__init_subclass__()
        if of is None:  # a subclass of the module of a function
            return
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
                    self.register_buffer(name, torch.as_tensor(value))
                else:
                    setattr(self, name, value)

        itself = inspect.Parameter("self", positional)
        __init__.__signature__ = inspect.Signature([itself, *parameters])
        cls.__init__ = __init__
        cls.function = staticmethod(of)
        # Read once at class creation: torch.compile need not trace the inspection.
        cls._parameter_names = tuple(signature.parameters)
        cls.takes_generator = "generator" in cls._parameter_names

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of `scores` against `target`."""
        parameters = {name: getattr(self, name) for name in self._parameter_names}
        return self.function(scores, target, sample_weight=sample_weight, **parameters)

    def extra_repr(self):
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._parameter_names)
