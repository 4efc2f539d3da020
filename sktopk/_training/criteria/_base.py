"""The contract between a net and the loss that it trains with."""

import torch
from torch import nn


class Criterion(nn.Module):
    """A loss as a training meets it: minibatch after minibatch, each a sample of all rows.

    What a subclass may define, and when the net calls it:

    - `begin`, before the first batch of every training;
    - `loss_and_gradient`, in every step. The default differentiates `forward`;
    - `forward`, for rows that are a sample of nothing, such as validation rows;
    - `seed`, once, if it draws random numbers; its generator is then part of `state_dict`;
    - `hard_rows`, the rows that join every batch, if it asks for some;
    - `trace`, what each step leaves in the history;
    - `remedies`, what a user may try when training diverges;
    - `is_mean`, whether the loss of many rows is the mean of the losses of each.

    Whatever it learns from the rows is in its `state_dict`: buffers, or the extra state that
    `get_extra_state` and `set_extra_state` of nn.Module keep. A criterion that is built anew and
    given that state goes on as the old one would have.

    Attributes
    ----------
    trace : dict of list
        By name, a tensor or array of shape (1,) of each step of the epoch.
    """

    is_mean = True
    hard_rows = None
    remedies = ()

    def __init__(self):
        super().__init__()
        self.trace = {}

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        """Take note of the rows in training, those of all processes together.

        Parameters
        ----------
        class_total : Tensor of shape (n_classes,)
            What the classes weigh in training, with all that was trained on before.
        mean_weight : Tensor of shape (n_classes,)
            Mean weight of the rows of each class in the batches to come.
        n_rows : int
            Number of rows in the batches to come.
        resumed : bool, default=False
            Whether they come on top of the rows of trainings before, as pieces of a stream do.
        """

    def seed(self, generator):
        """Draw from this torch.Generator from now on."""

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are no batch, a Tensor of shape ()."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of a batch and its gradient.

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
        loss, gradient : Tensor of shape (), without a graph, and Tensor like `scores`
        """
        scores = scores.detach().requires_grad_()
        loss = self(scores, target, weight)
        if self.is_mean and weight is not None:
            # Weights have mean 1 over all batches: a batch of light rows weighs little.
            loss = loss * weight.mean()
        # Not `autograd.grad`: a user's loss may have parameters of its own to learn.
        loss.backward()
        return loss.detach(), scores.grad
