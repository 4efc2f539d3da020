"""The contract between a net and the loss that it trains with."""

import torch
from torch import nn


class Criterion(nn.Module):
    """A loss as a training meets it: minibatch after minibatch, each a sample of all rows.

    What a subclass may define, and when the net calls it:

    - `begin`, before the first batch of every training;
    - `backward`, in every step. The default differentiates `forward`;
    - `forward`, for rows that are a sample of nothing, such as validation rows;
    - `draws`, whether it draws random numbers: from `generator`, which `seed` gives it once;
    - `hard_rows`, the rows that join every batch, if it asks for some, and then `hold_enough`,
      before `begin`, see :class:`TopCriterion`;
    - `trace`, what each step leaves in the history;
    - `remedies`, what a user may try when training diverges;
    - `is_mean`, whether the loss of many rows is the mean of the losses of each;
    - `of_rows`, whether each of these depends on one row alone;
    - `has_totals`, whether it depends on what the classes weigh in training;
    - `takes_scores`, whether it is one of any real numbers, not of probabilities;
    - `joins_hard_rows`, whether `hard_rows` join the batches now;
    - `set_groups`, for a mean over groups of rows;
    - `gradient`, for a loss that is made of it: what `backward` does, of scores without a graph;
    - `get_extra_state` and `set_extra_state`, for state that is no tensor of fixed shape.

    It finds as `n_processes` how many processes train together, from `begin` on.

    Whatever it learns from the rows is in its `state_dict`, as buffers or as the extra state of
    nn.Module, and so is the state of its generator. A criterion that is built anew and given
    that state goes on as the old one would have.

    Attributes
    ----------
    trace : dict of list
        By name, a tensor or array of shape (1,) of each step of the epoch.
    losses : list of Criterion
        The criteria of the loss itself, one for each member of the network that has its own.
    """

    is_mean, has_totals = True, False
    takes_scores = True
    joins_hard_rows = True
    of_rows = False
    draws = False
    generator = None
    hard_rows = None
    remedies = ()
    n_processes = 1

    def __init__(self):
        super().__init__()
        self.trace, self.losses = {}, [self]

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        """Take note of the rows in training, those of all processes together.

        Parameters
        ----------
        class_total : Tensor of shape (n_classes,)
            What the classes weigh in training, with all that was trained on before.
        mean_weight : Tensor of shape (n_classes,)
            Mean weight of the rows of each class in the batches to come, those of weight 0 aside.
        n_rows : int
            Number of rows in the batches to come.
        resumed : bool, default=False
            Whether they come on top of the rows of trainings before, as pieces of a stream do.
        """

    def set_groups(self, make):
        """Take a mean over groups of rows from now on, or, for None, all rows as one list again.

        Parameters
        ----------
        make : callable or None
            Returns the :class:`GroupRows` of the member of the network whose number it gets.
        """

    def seed(self, generator):
        """Draw from this torch.Generator from now on."""
        self.generator = generator

    def get_extra_state(self):
        """What `state_dict` keeps beside tensors of fixed shape: plain values and tensors."""
        return {"noise": None if self.generator is None else self.generator.get_state()}

    def set_extra_state(self, state):
        """Put back what `get_extra_state` returned."""
        noise = state["noise"]
        # That of a GPU has another kind of state: there and back it starts from its seed again.
        if self.generator is not None and len(noise) == len(self.generator.get_state()):
            self.generator.set_state(noise.cpu())

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are no batch, a Tensor of shape ()."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, scores, target, weight):
        """Send the gradient of the loss of a batch into the network, and return the loss.

        Parameters
        ----------
        scores : Tensor of shape (n_samples, n_outputs)
            The output of the network, with its graph.
        target : Tensor of shape (n_samples,)
            Encoded labels, or the mask of the positives.
        weight : Tensor of shape (n_samples,) or None
            Weights of the rows, of mean 1 over all rows in training.

        Returns
        -------
        loss : Tensor of shape (), without a graph
        """
        loss = self(scores, target, weight)
        if self.is_mean and weight is not None:
            # Weights have mean 1 over all batches: a batch of light rows weighs little.
            loss = loss * weight.mean()
        loss.backward()
        return loss.detach()

    def gradient(self, scores, target, weight):
        """Return the loss of a batch and its gradient in scores that have no graph.

        What `backward` does, for losses that are made of others.
        """
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
        Number of classes whose row counts it takes as `class_counts`; None if it does not.
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

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        if self.class_counts is not None:
            # A class still to come counts as the rarest that has come.
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
    """A loss of a batch as a whole, whose classes have other proportions than in training.

    Attributes
    ----------
    class_total : Tensor of shape (2,)
        What the negatives and the positives weigh in training.
    mean_weight : Tensor of shape (2,)
        Mean weight of their rows, of those that have one.
    """

    is_mean, has_totals = False, True

    def __init__(self):
        super().__init__()
        self.register_buffer("class_total", torch.ones(2, dtype=torch.float64))
        self.register_buffer("mean_weight", torch.ones(2, dtype=torch.float64))

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        """Take note of the rows in training; see :meth:`Criterion.begin`."""
        # Several criteria may get the same tensors, and each loads a state of its own into its own.
        self.class_total, self.mean_weight = class_total.clone(), mean_weight.clone()

    def backward(self, scores, target, weight):
        """Send the gradient of `loss_and_gradient` into the network; see the base."""
        loss, gradient = self.loss_and_gradient(scores, target, weight)
        scores.backward(gradient)
        return loss

    def gradient(self, scores, target, weight):
        """Return `loss_and_gradient`; see the base."""
        return self.loss_and_gradient(scores, target, weight)

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of a batch, or of the batches of all processes, and its gradient.

        Parameters
        ----------
        scores, target, weight
            As for `backward`; the graph of the scores is left alone.

        Returns
        -------
        loss, gradient : Tensor of shape (), without a graph, and Tensor like `scores`
        """
        scores = scores.detach().requires_grad_()
        loss = self(scores, target, weight)
        loss.backward()
        return loss.detach(), scores.grad

    def expected(self, positive, weight):
        """What the rows of each class weigh if theirs are like all rows in training."""
        return rows_of_classes(positive, weight) * self.mean_weight

    def proportional(self, scores, positive, weight):
        """Weights (n_samples,) under which the classes weigh what they weigh in training."""
        own = torch.ones_like(scores) if weight is None else weight
        # A batch of light rows weighs little: what counts is the mean weight in training.
        seen = self.expected(positive, weight).to(scores.dtype)
        factor = torch.where(seen > 0, self.class_total.to(scores.dtype) / seen, 0.0)
        # The unit is of no importance; that of the batch keeps numbers near 1.
        factor = factor * (seen.sum() / self.class_total.sum().to(scores.dtype))
        return own * torch.where(positive, factor[1], factor[0])


def rows_of_classes(positive, weight):
    """How many negatives and positives weigh something, (2,) or, by member, (2, n_members)."""
    counted = torch.ones_like(positive) if weight is None else weight > 0
    n_positives = (counted & positive).sum(0)
    return torch.stack([counted.sum(0) - n_positives, n_positives])


def remedies_of(loss):
    """What a user may try where a loss of a batch diverges."""
    return ("raise margin",) if hasattr(loss, "margin") else ()


class BatchCriterion(Criterion):
    """A loss of a batch as a whole, as it is.

    Parameters
    ----------
    loss : nn.Module
        Called as ``loss(scores, target, sample_weight)``.
    """

    is_mean = False

    def __init__(self, loss):
        super().__init__()
        self.loss = loss
        self.remedies = remedies_of(loss)

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows, a Tensor of shape ()."""
        return self.loss(scores, target, sample_weight)
