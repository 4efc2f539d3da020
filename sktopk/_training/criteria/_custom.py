"""Criterion of a user-defined loss."""

import inspect

import torch

from sktopk.losses._loss import REDUCTIONS, LossModule, reduce

from ._base import Criterion


class FunctionLoss(torch.nn.Module):
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


class CustomLoss(Criterion):
    """Criterion of a user's nn.Module or function ``loss(scores, target)``, with sample weights.

    Sample weights require a loss that takes `sample_weight` or has an attribute `reduction`. In the
    second case, `reduction` is set to "none" during the call. Losses of sktopk inside the module
    draw noise from the generator of the net.
    """

    def __init__(self, loss):
        super().__init__()
        self.name = name_of(loss)
        if not isinstance(loss, torch.nn.Module):
            loss = FunctionLoss(loss)
        self.loss = loss
        has_weight = "sample_weight" in inspect.signature(loss.forward).parameters
        self.takes_weight = getattr(loss, "takes_weight", has_weight)
        ours = [each for each in loss.modules() if isinstance(each, LossModule)]
        self._drawing = [each for each in ours if each.takes_generator]
        self.draws = bool(self._drawing)
        # Other losses may expect probabilities, so `Net` does not warn about a softmax for them.
        self.takes_scores = isinstance(loss, LossModule | torch.nn.CrossEntropyLoss)

    @property
    def is_weighted(self):
        """Return whether the loss supports sample weights."""
        return self.takes_weight or getattr(self.loss, "reduction", None) in REDUCTIONS

    def seed(self, generator):
        super().seed(generator)
        for module in self._drawing:
            module.generator = generator

    def gradient(self, scores, target, weight):
        try:
            return super().gradient(scores, target, weight)
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
            raise TypeError(
                f"loss must return a Tensor with a gradient; got one without from {self.name}"
            ) from error

    def forward(self, scores, target, sample_weight=None):
        if getattr(self.loss, "reduction", None) in REDUCTIONS:
            is_mean = self.loss.reduction == "mean" and getattr(self.loss, "weight", None) is None
            # Do not set another `reduction` here, because the loss may support only "mean".
            if is_mean and sample_weight is None:
                return self._checked(self.loss(scores, target))
            if is_mean and self.takes_weight:
                return self._checked(self.loss(scores, target, sample_weight=sample_weight))
            # Average below: a loss with "sum" or class weights does not return the weighted mean.
            reduction, self.loss.reduction = self.loss.reduction, "none"
            try:
                each = self._checked(self.loss(scores, target))
            finally:
                self.loss.reduction = reduction
            return reduce(each, sample_weight)
        if sample_weight is None:
            return self._checked(self.loss(scores, target)).mean()
        if not self.takes_weight:
            raise TypeError(
                "sample_weight and class_weight need a loss that takes sample_weight or has a "
                f"reduction attribute; got loss={self.name}"
            )
        return self._checked(self.loss(scores, target, sample_weight=sample_weight))

    def _checked(self, value):
        if not isinstance(value, torch.Tensor):
            raise TypeError(
                f"loss must return a Tensor with a gradient; got {type(value).__name__} from "
                f"{self.name}"
            )
        return value


def name_of(loss):
    """Return a name, the name of a function, or that of the class of a module."""
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
