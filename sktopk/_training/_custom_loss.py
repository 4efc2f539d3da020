"""Objective of a loss that the user has written."""

import inspect

import torch
from torch import nn

from sktopk.losses._loss import REDUCTIONS, LossModule, reduce

from ._objectives import Objective, remedies_of


class CustomLoss(Objective):
    """A user's nn.Module or function ``loss(scores, target)``, with sample weights.

    Sample weights require a loss that takes `sample_weight` or has an attribute `reduction`. In the
    second case, `reduction` is set to "none" during the call. Losses of sktopk inside the module
    draw noise from the generator of the net.
    """

    def __init__(self, loss):
        super().__init__()
        self.name = name_of(loss)
        if not isinstance(loss, nn.Module):
            loss = FunctionLoss(loss)
        self.loss, self.remedies = loss, remedies_of(loss)
        has_weight = "sample_weight" in inspect.signature(loss.forward).parameters
        self.takes_weight = getattr(loss, "takes_weight", has_weight)
        ours = [each for each in loss.modules() if isinstance(each, LossModule)]
        self._drawing = [each for each in ours if each.takes_generator]
        self.draws = bool(self._drawing)
        # Other losses may expect probabilities, so `Net` does not warn about a softmax for them.
        self.takes_scores = isinstance(loss, LossModule | nn.CrossEntropyLoss)

    def seed(self, generator):
        super().seed(generator)
        for module in self._drawing:
            module.generator = generator

    def forward(self, scores, target, weight, drawn):
        if weight is None:
            each = zip(scores, target, strict=True)
            return torch.stack([self._value(s, y, None) for s, y in each])
        weight = (weight / drawn.totals.unit.unsqueeze(1)).to(scores.dtype)
        each = zip(scores, target, weight, strict=True)
        # `_value` divides by the sum of the weights. Divide by the number of samples instead.
        return torch.stack([self._value(s, y, w) * w.mean() for s, y, w in each])

    def _value(self, scores, target, weight):
        """Return the weighted mean loss of the samples of one network."""
        reduction = getattr(self.loss, "reduction", None)
        if reduction in REDUCTIONS:
            is_mean = reduction == "mean" and getattr(self.loss, "weight", None) is None
            # Do not set another `reduction` here, because the loss may support only "mean".
            if is_mean and weight is None:
                return self._checked(self.loss(scores, target))
            if is_mean and self.takes_weight:
                return self._checked(self.loss(scores, target, sample_weight=weight))
            # Average below: a loss with "sum" or class weights does not return the weighted mean.
            self.loss.reduction = "none"
            try:
                each = self._checked(self.loss(scores, target))
            finally:
                self.loss.reduction = reduction
            return reduce(each, weight)
        if weight is None:
            return self._checked(self.loss(scores, target)).mean()
        if not self.takes_weight:
            raise TypeError(
                "sample_weight and class_weight need a loss that takes sample_weight or has a "
                f"reduction attribute; got loss={self.name}"
            )
        value = self._checked(self.loss(scores, target, sample_weight=weight))
        if value.ndim:
            raise TypeError(
                "loss must return the weighted mean, a scalar, if it takes sample_weight; got "
                f"shape {tuple(value.shape)} from {self.name}"
            )
        return value

    def _checked(self, value):
        is_tensor = isinstance(value, torch.Tensor)
        if not is_tensor or (torch.is_grad_enabled() and not value.requires_grad):
            came = "one without" if is_tensor else type(value).__name__
            raise TypeError(
                f"loss must return a Tensor with a gradient; got {came} from {self.name}"
            )
        return value


class FunctionLoss(nn.Module):
    """Module of a function ``loss(scores, target)``, which may take weights and a reduction."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        names = inspect.signature(function).parameters
        self.takes_weight = "sample_weight" in names
        if "reduction" in names:
            self.reduction = "mean"

    def forward(self, scores, target, **weight):
        """Return the loss."""
        if hasattr(self, "reduction"):
            weight["reduction"] = self.reduction
        return self.function(scores, target, **weight)


def name_of(loss):
    """Return a name, the name of a function, or that of the class of a module."""
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
