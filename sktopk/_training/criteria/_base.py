"""The contract between a net and the loss that it trains with."""

import torch
from torch import nn


class Criterion(nn.Module):
    """A loss of minibatches, each a random part of the training set.

    A subclass may define

    - `begin`, called before the first minibatch of every training;
    - `forward`, the loss of samples that are no minibatch, such as a validation set;
    - `backward`, called in every step; the default differentiates `forward`;
    - `gradient`, what `backward` does for scores without a graph;
    - `draws`: whether it draws from `generator`, which `seed` sets once;
    - `hard_rows`: samples that join every minibatch, see :class:`TopCriterion`;
      `joins_hard_rows`: whether they join now;
    - `set_groups`, for a mean over groups of samples;
    - `is_mean`: whether the loss is a mean over the samples; `of_rows`: whether each term depends
      on one sample alone; `has_totals`: whether it depends on the class totals of the training set;
    - `takes_scores`: whether any real numbers are allowed, not probabilities only;
    - `remedies`: what a user may try if training diverges;
    - `get_extra_state` and `set_extra_state`, for state that is no tensor of fixed shape.

    All that is learned from samples, and the state of the generator, belong to the `state_dict`.

    Attributes
    ----------
    trace : dict of list
        By name, a tensor or array of shape (1,) for each step of the epoch.
    losses : list of Criterion
        The criteria of the named loss, one per ensemble member that has its own.
    n_processes : int
        Number of processes that train together.
    """

    is_mean, has_totals, of_rows, draws = True, False, False, False
    takes_scores = joins_hard_rows = True
    generator = hard_rows = None
    remedies = ()
    n_processes = 1

    def __init__(self):
        super().__init__()
        self.trace, self.losses = {}, [self]

    def begin(self, class_total, mean_weight, *, resumed=False):
        """Take note of the training set, that of all processes together.

        For each class `class_total` is the sum of the sample weights, in this training and all
        before it. `mean_weight` is their mean in this training, without samples of weight 0. With
        `resumed` the samples come in addition to those of earlier trainings.
        """

    def set_groups(self, make):
        """Average over groups of samples from now on; with None no longer.

        ``make(m)`` returns the :class:`GroupRows` of ensemble member m.
        """

    def seed(self, generator):
        """Draw from this torch.Generator from now on."""
        self.generator = generator

    def get_extra_state(self):
        """State for `state_dict` in plain values and tensors."""
        return {"noise": None if self.generator is None else self.generator.get_state()}

    def set_extra_state(self, state):
        """Restore what `get_extra_state` returned."""
        noise = state["noise"]
        # CPU and GPU generators have different states; on another device the seed starts anew.
        if self.generator is not None and len(noise) == len(self.generator.get_state()):
            self.generator.set_state(noise.cpu())

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of samples that are no minibatch, a Tensor of shape ()."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, scores, target, weight):
        """Backpropagate the loss of a minibatch and return it, without a graph.

        Parameters
        ----------
        scores : Tensor of shape (n_samples, n_outputs)
        target : Tensor of shape (n_samples,)
            Class indices, or the mask of the positives.
        weight : Tensor of shape (n_samples,) or None
            Sample weights of mean 1 over the training set.
        """
        loss = self(scores, target, weight)
        if self.is_mean and weight is not None:
            # Weights have mean 1 over all minibatches: one of light samples counts less.
            loss = loss * weight.mean()
        loss.backward()
        return loss.detach()

    def gradient(self, scores, target, weight):
        """Return the loss of a minibatch and its gradient, for scores without a graph."""
        own = scores.detach().clone().requires_grad_()
        return self.backward(own, target, weight), own.grad


class RowLoss(Criterion):
    """A function of :mod:`sktopk.losses` with its parameters.

    Parameters
    ----------
    function : callable
        Called as ``function(scores, target, sample_weight=..., **parameters)``.
    parameters : dict
    n_counts : int, default=None
        Number of classes, if the function takes `class_counts`.
    draws : bool, default=False
        Whether it takes a `generator`.
    """

    of_rows = True

    def __init__(self, function, parameters, *, n_counts=None, draws=False):
        super().__init__()
        self.function, self.parameters, self.draws = function, dict(parameters), draws
        counts = None if n_counts is None else torch.ones(n_counts, dtype=torch.float64)
        self.register_buffer("class_counts", counts)
        self.has_totals = counts is not None
        self.remedies = ("raise tau",) if "tau" in self.parameters else ()

    def begin(self, class_total, mean_weight, *, resumed=False):
        if self.class_counts is not None:
            # A class without samples so far counts as the rarest of the others.
            least = torch.where(class_total > 0, class_total, torch.inf).min()
            self.class_counts = torch.where(class_total > 0, class_total, least)

    def forward(self, scores, target, sample_weight=None):
        more = {}
        if self.class_counts is not None:
            more["class_counts"] = self.class_counts
        if self.draws:
            more["generator"] = self.generator
        return self.function(scores, target, sample_weight=sample_weight, **self.parameters, **more)


class TwoClassCriterion(Criterion):
    """A loss of a minibatch as a whole, in which classes have other shares than in training."""

    is_mean, has_totals = False, True

    def __init__(self):
        super().__init__()
        self.register_buffer("class_total", torch.ones(2, dtype=torch.float64))
        self.register_buffer("mean_weight", torch.ones(2, dtype=torch.float64))

    def begin(self, class_total, mean_weight, *, resumed=False):
        # Copies, since loading a state writes into them and several criteria get the same tensors.
        self.class_total, self.mean_weight = class_total.clone(), mean_weight.clone()

    def backward(self, scores, target, weight):
        loss, gradient = self.loss_and_gradient(scores, target, weight)
        scores.backward(gradient)
        return loss

    def gradient(self, scores, target, weight):
        return self.loss_and_gradient(scores, target, weight)

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of the minibatch, or of those of all processes, and its gradient."""
        scores = scores.detach().requires_grad_()
        loss = self(scores, target, weight)
        loss.backward()
        return loss.detach(), scores.grad

    def proportional(self, scores, positive, weight):
        """Weights (n_samples,) that give the classes their shares of the training set."""
        own = torch.ones_like(scores) if weight is None else weight
        # A minibatch of light samples counts less: the mean weight is that of the training set.
        seen = (rows_of_classes(positive, weight) * self.mean_weight).to(scores.dtype)
        factor = torch.where(seen > 0, self.class_total.to(scores.dtype) / seen, 0.0)
        # Any scale is right; this one keeps the numbers near 1.
        factor = factor * (seen.sum() / self.class_total.sum().to(scores.dtype))
        return own * torch.where(positive, factor[1], factor[0])


def rows_of_classes(positive, weight):
    """Number of negatives and positives of positive weight: (2,), by member (2, n_members)."""
    counted = torch.ones_like(positive) if weight is None else weight > 0
    n_positives = (counted & positive).sum(0)
    return torch.stack([counted.sum(0) - n_positives, n_positives])


def remedies_of(loss):
    """What a user may try if a loss of the minibatch diverges."""
    return ("raise margin",) if hasattr(loss, "margin") else ()


class BatchCriterion(Criterion):
    """An nn.Module ``loss(scores, target, sample_weight)`` of a minibatch as a whole."""

    is_mean = False

    def __init__(self, loss):
        super().__init__()
        self.loss, self.remedies = loss, remedies_of(loss)

    def forward(self, scores, target, sample_weight=None):
        return self.loss(scores, target, sample_weight)
