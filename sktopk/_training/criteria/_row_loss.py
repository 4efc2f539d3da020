"""Losses that are a mean over rows: functions of sktopk.losses."""

import torch

from ._base import Criterion


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

    def __init__(self, function, parameters, *, n_counts=None, draws=False):
        super().__init__()
        self.function, self.parameters, self.draws = function, dict(parameters), draws
        counts = None if n_counts is None else torch.ones(n_counts, dtype=torch.float64)
        self.register_buffer("class_counts", counts)
        self.remedies = ("raise tau",) if "tau" in self.parameters else ()

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        if self.class_counts is not None:
            # A class still to come counts as the rarest that has come.
            least = class_total[class_total > 0].min()
            self.class_counts = torch.where(class_total > 0, class_total, least)

    def forward(self, scores, target, sample_weight=None):
        more = {}
        if self.class_counts is not None:
            more["class_counts"] = self.class_counts
        if self.draws:
            more["generator"] = self.generator
        return self.function(scores, target, sample_weight=sample_weight, **self.parameters, **more)
