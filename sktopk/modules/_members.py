"""Ensemble of separate networks as one torch module, and functions for ensembles."""

import inspect
from functools import partial

import torch
from torch import nn


class Members(nn.ModuleList):
    """Ensemble of networks that score the same samples and share no weights.

    Each network returns scores of shape (n_samples, n_outputs), or (n_samples,) for one output.
    """

    def forward(self, x):
        """Return the scores of all members, of shape (n_samples, n_members, n_outputs)."""
        scores = torch.stack([network(x) for network in self], dim=1)
        return scores if scores.ndim == 3 else scores.unsqueeze(2)

    def score_member(self, x, m):
        """Return the scores of member m, of shape (n_samples, n_outputs)."""
        scores = self[m](x)
        return scores if scores.ndim == 2 else scores.unsqueeze(1)


def mean_of_members(scores):
    """Return the mean over members of scores (n_samples, n_members, n_outputs)."""
    return scores.mean(1) if scores.ndim == 3 else scores


def best_classes(scores, k):
    """Return the k < n_classes classes with the largest scores per row. Ties keep their order."""
    if torch.compiler.is_compiling():  # in a graph, no shape may depend on ties
        return scores.argsort(dim=1, descending=True, stable=True)[:, :k]
    best, index = scores.topk(k + 1, dim=1)
    tied = best[:, k - 1] == best[:, k]
    index = index[:, :k].sort(1).values
    order = scores.gather(1, index).argsort(dim=1, descending=True, stable=True)
    index = index.gather(1, order)
    # If the k-th and (k+1)-th scores of a row are tied, sort all classes of the row.
    index[tied] = scores[tied].argsort(dim=1, descending=True, stable=True)[:, :k]
    return index


def score_of_member(module, m):
    """Return a function that maps samples to the scores of ensemble member m."""
    if hasattr(module, "score_member"):
        return partial(module.score_member, m=m)
    return lambda x: module(x)[:, m]


def packs_members(module):
    """Return whether `module` takes `n_members` and builds one network for all members."""
    try:
        return "n_members" in inspect.signature(module).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False
