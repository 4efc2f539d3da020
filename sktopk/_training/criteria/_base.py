"""Base classes of criteria, the training losses of a net."""

import torch
from torch import nn


class Criterion(nn.Module):
    """Training loss of a net, computed on random minibatches of the training set.

    A subclass may define

    - `begin`, called before the first minibatch of every call of `fit`;
    - `forward`, which returns the loss of other samples, such as a validation set;
    - `gradient`, which returns loss and gradient of a minibatch. The default differentiates
      `forward`;
    - `draws`: whether the loss draws random numbers from `generator`, which `seed` sets;
    - `hard_rows`: hard examples of earlier minibatches (see :class:`TopCriterion`), which join new
      minibatches;
    - `set_groups`, for a loss that is averaged over groups of samples;
    - `is_mean`: whether the loss is a mean over samples. `of_rows`: whether each term depends on
      one sample only. `has_totals`: whether the loss depends on the training set's class totals;
    - `takes_scores`: whether the loss takes arbitrary real scores, not probabilities;
    - `remedies`: advice to users for the error message if training diverges;
    - `get_extra_state` and `set_extra_state`, for state other than tensors of fixed shape.

    The `state_dict` contains all values computed from samples, and the state of the generator.

    Attributes
    ----------
    trace : dict of list
        Recorded values by name: a list with one tensor or array of shape (1,) per training step.
    losses : list of Criterion
        Criteria of the estimator's loss: one per ensemble member, or one for all members.
    n_processes : int
        Number of processes that train together.
    """

    is_mean, has_totals, of_rows, draws = True, False, False, False
    takes_scores = True
    generator = hard_rows = None
    remedies = ()
    n_processes = 1

    def __init__(self):
        super().__init__()
        self.trace, self.losses = {}, [self]

    def begin(self, class_total, mean_weight, *, resumed=False):
        """Store class statistics of the training set, computed over all processes.

        `class_total` is the sum of the sample weights of each class in this and all earlier calls
        of `fit` or `partial_fit`. `mean_weight` is the mean weight of the samples of each class in
        this call, without samples of weight 0. `resumed` is True in `partial_fit`.
        """

    def set_groups(self, make):
        """Average the loss over groups of samples, or over all samples if `make` is None.

        ``make(m)`` returns the group statistics of ensemble member m, see :class:`GroupRows`.
        """

    def seed(self, generator):
        """Use this torch.Generator from now on."""
        self.generator = generator

    def get_extra_state(self):
        """Return the state for `state_dict` as plain values and tensors."""
        return {"noise": None if self.generator is None else self.generator.get_state()}

    def set_extra_state(self, state):
        """Restore the result of `get_extra_state`."""
        noise = state["noise"]
        # Ignore the state of a generator on another device, because its format is different.
        if self.generator is not None and len(noise) == len(self.generator.get_state()):
            self.generator.set_state(noise.cpu())

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of samples that are not used for training, a Tensor of shape ()."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, scores, target, weight):
        """Run the backward pass for a minibatch, and return its detached loss."""
        loss, gradient = self.gradient(scores, target, weight)
        scores.backward(gradient)
        return loss

    def gradient(self, scores, target, weight):
        """Return the detached loss of a minibatch, and its gradient with respect to the scores.

        Parameters
        ----------
        scores : Tensor of shape (n_samples, n_outputs)
        target : Tensor of shape (n_samples,)
            Class indices, or the mask of the positives.
        weight : Tensor of shape (n_samples,) or None
            Sample weights, whose mean over the training set is 1.
        """
        own = scores.detach().clone().requires_grad_()
        loss = self(own, target, weight)
        if self.is_mean and weight is not None:
            # `loss` is divided by the sum of weights. Divide by the number of samples instead.
            loss = loss * weight.mean()
        loss.backward()
        return loss.detach(), own.grad


class RowLoss(Criterion):
    """Criterion that calls a function of :mod:`sktopk.losses` with fixed parameters.

    Parameters
    ----------
    function : callable
        Called as ``function(scores, target, sample_weight=..., **parameters)``.
    parameters : dict
    n_counts : int, default=None
        Number of classes, if the function takes `class_counts`.
    draws : bool, default=False
        Whether the function takes a `generator`.
    gradient_of_rows : callable, default=None
        Called as ``gradient_of_rows(scores, target, **parameters)``. Returns the loss of each
        sample and its gradient. This is faster than automatic differentiation of `function`.
    """

    of_rows = True

    def __init__(self, function, parameters, *, n_counts=None, draws=False, gradient_of_rows=None):
        super().__init__()
        self.gradient_of_rows = gradient_of_rows
        self.function, self.parameters, self.draws = function, dict(parameters), draws
        counts = None if n_counts is None else torch.ones(n_counts, dtype=torch.float64)
        self.register_buffer("class_counts", counts)
        self.has_totals = counts is not None
        self.remedies = ("raise tau",) if "tau" in self.parameters else ()

    def begin(self, class_total, mean_weight, *, resumed=False):
        if self.class_counts is not None:
            # Counts must be positive: a class without samples gets the count of the rarest class.
            least = torch.where(class_total > 0, class_total, torch.inf).min()
            counts = torch.where(class_total > 0, class_total, least)
            self.class_counts = counts / counts.max()  # only proportions matter

    def forward(self, scores, target, sample_weight=None):
        more = {}
        if self.class_counts is not None:
            more["class_counts"] = self.class_counts
        if self.draws:
            more["generator"] = self.generator
        return self.function(scores, target, sample_weight=sample_weight, **self.parameters, **more)

    def losses_and_gradient(self, scores, target):
        """Return the loss of each sample and its gradient, by `gradient_of_rows`."""
        return self.gradient_of_rows(scores, target, **self.parameters)

    def gradient(self, scores, target, weight):
        if self.gradient_of_rows is None:
            return super().gradient(scores, target, weight)
        scores = known_scores(scores, weight)
        losses, gradient = self.losses_and_gradient(scores, target)
        if weight is None:
            return losses.mean(), gradient.div_(len(losses))
        share = weight / len(weight)
        # A sample of weight 0 may have an infinite loss.
        losses = torch.where(share == 0, 0.0, losses * share)
        return losses.sum(), gradient.mul_(share.unsqueeze(1))


class TwoClassCriterion(Criterion):
    """Base class of binary losses that depend on the class totals of the training set."""

    is_mean, has_totals = False, True

    def __init__(self):
        super().__init__()
        self.register_buffer("class_total", torch.ones(2, dtype=torch.float64))
        self.register_buffer("mean_weight", torch.ones(2, dtype=torch.float64))

    def begin(self, class_total, mean_weight, *, resumed=False):
        # Clone the tensors, because criteria share them and loading a state writes into them.
        self.class_total, self.mean_weight = class_total.clone(), mean_weight.clone()

    def proportional(self, scores, positive, weight):
        """Return sample weights that give the classes the proportions of the training set."""
        own = torch.ones_like(scores) if weight is None else weight
        # Estimate the total weight of each class: number of samples times mean weight.
        n_rows = rows_of_classes(positive, weight)
        seen = n_rows * self.mean_weight
        factor = torch.where(seen > 0, self.class_total / seen, 0.0)
        # Multiply all weights by a common factor, so that their mean is 1.
        factor = factor * (n_rows.sum() / self.class_total.sum())
        return (own * torch.where(positive, factor[1], factor[0])).to(scores.dtype)


def rows_of_classes(positive, weight):
    """Return the numbers of negatives and positives of weight > 0, shape (2,) or (2, n_members)."""
    counted = torch.ones_like(positive) if weight is None else weight > 0
    n_positives = (counted & positive).sum(0)
    return torch.stack([counted.sum(0) - n_positives, n_positives])


def known_scores(scores, weight):
    """Return detached scores, but 0 for samples of weight 0, whose gradient would be 0 * NaN.

    Unlike `losses._loss.without_absent`, this takes one weight per sample or per score, and does
    not round weights, which may have any unit.
    """
    scores = scores.detach()
    if weight is None:
        return scores
    return scores.masked_fill(
        (weight == 0).view(*weight.shape, *[1] * (scores.ndim - weight.ndim)), 0
    )


def remedies_of(loss):
    """Return advice to users for the error message if training with `loss` diverges."""
    return ("raise margin",) if hasattr(loss, "margin") else ()


class BatchCriterion(Criterion):
    """Criterion that calls an nn.Module ``loss(scores, target, sample_weight)`` on a minibatch."""

    is_mean = False

    def __init__(self, loss):
        super().__init__()
        self.loss, self.remedies = loss, remedies_of(loss)

    def forward(self, scores, target, sample_weight=None):
        return self.loss(scores, target, sample_weight)
