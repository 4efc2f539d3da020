"""What every loss ends in, and the module that is made of its function."""

import inspect
from functools import partial

import torch
from torch import nn

from ._checks import check_name, check_weight

REDUCTIONS = ("none", "sum", "mean")
_OF_A_CALL = ("scores", "target", "sample_weight", "noise")


def reduce(loss, sample_weight=None, reduction="mean"):
    r"""Weight per-sample losses and reduce them.

    .. math::
        \text{sum} = \sum_i w_i \ell_i, \qquad
        \text{mean} = \frac{\sum_i w_i \ell_i}{\sum_i w_i}

    so that a sample of weight 2 counts as the sample given twice. An empty batch, or one
    whose weights are all zero, has mean 0 (not NaN) and still carries a gradient of 0.

    Parameters
    ----------
    loss : Tensor of shape (n_samples,)
        Loss of each sample.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights; None means 1 for every sample.
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" returns the weighted losses themselves.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        In the dtype of `loss`.

    Raises
    ------
    ValueError
        If `reduction` is unknown or `sample_weight` has another shape than `loss`.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import reduce
    >>> reduce(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0]))
    tensor(2.)
    """
    check_name(reduction, "reduction", REDUCTIONS)
    if sample_weight is None:
        if reduction == "mean":
            return loss.sum() / max(loss.numel(), 1)
        return loss.sum() if reduction == "sum" else loss
    sample_weight, dtype = check_weight(sample_weight, loss), loss.dtype
    if reduction == "mean":
        # It lies among the losses, though products with large weights may leave float32.
        sample_weight, loss = sample_weight.double(), loss.double()
    # A sample of weight 0 counts as absent, even where its loss is infinite (0 * inf is NaN).
    weighted = torch.where(sample_weight == 0, torch.zeros_like(loss), sample_weight * loss)
    if reduction == "none":
        return weighted
    total = weighted.sum()
    if reduction == "sum":
        return total
    weight_sum = sample_weight.sum()
    mean = total / torch.where(weight_sum == 0, torch.ones_like(weight_sum), weight_sum)
    return mean.to(dtype)


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
