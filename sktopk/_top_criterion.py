"""Accuracy at the top on minibatches: the threshold of all rows, estimated from a few."""

import torch
from torch import nn

from ._distributed import all_objects, all_rows, world_size
from ._hard_samples import HardSamples
from .losses._accuracy_at_top import top_errors
from .losses._checks import check_binary
from .losses._thresholds import Largest, in_group


class TopCriterion(nn.Module):
    r"""A threshold that speaks of the training set, one kind of error, a surrogate.

    A batch is a sample of the rows in which the classes have other proportions, and the hard
    rows of earlier batches are known in addition. So hard rows count as themselves when the
    threshold is ranked, and the others of class c as

    .. math:: \frac{N_c - W_c(\text{hard})}{W_c(\text{others})}

    each, times their own weight: together as much as the class weighs in training,
    :math:`N_c`. The threshold of such rows is that of the training set if it lies among the
    hard ones, and its estimate at the same quantile if not. The errors are counted over the
    rows of the batch alone.

    Parameters
    ----------
    threshold : callable
        One of :mod:`sktopk.losses`.
    errors : {"false_negatives", "false_positives"}
    surrogate : str
    buffer_size : int
        Number of hard rows carried from batch to batch: the largest scores of the rows that
        the threshold is computed from, or the smallest of the positives.

    Attributes
    ----------
    class_total : Tensor of shape (2,)
        What the negatives and the positives weigh in training.
    trace : dict of list
        The threshold of each batch.
    """

    def __init__(self, threshold, errors, surrogate, buffer_size):
        super().__init__()
        self.threshold, self.errors, self.surrogate = threshold, errors, surrogate
        self.hard = HardSamples(buffer_size)
        self.register_buffer("class_total", torch.ones(2, dtype=torch.float64))
        self.trace = {"threshold": []}

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are a sample of no batch, such as validation rows."""
        scores, positive = check_binary(scores.flatten(), target)
        weight = self._rank_weight(positive, sample_weight)
        t = self.threshold(scores, positive, weight)
        return top_errors(scores, positive, t, self.errors, self.surrogate, sample_weight, "mean")

    def batch_loss(self, scores, target, weight):
        """Return the loss of a batch, and remember its hard rows for the next one."""
        scores, positive = check_binary(scores.flatten(), target)
        n_fresh = self.hard.n_fresh if self.hard.batch is not None else len(scores)
        if world_size() > 1:
            return self._shared_loss(scores, positive, weight, n_fresh)
        t, kept = self._threshold(scores, positive, weight, self.hard.repeated)
        if kept is not None:
            self.hard.keep(kept)
        return self._loss(scores, positive, weight, t, n_fresh)

    def _loss(self, scores, positive, weight, t, n_fresh):
        self.trace["threshold"].append(t.detach())
        if n_fresh < len(scores):
            scores, positive = scores[:n_fresh], positive[:n_fresh]
            weight = None if weight is None else weight[:n_fresh]
        return top_errors(scores, positive, t, self.errors, self.surrogate, weight, "mean")

    def _threshold(self, scores, positive, weight, repeated):
        """The threshold, and the positions of the rows to remember."""
        remembers = self.hard.size > 0 and self.hard.batch is not None
        if isinstance(self.threshold, Largest):
            t, position = self.threshold.locate(scores, positive)
            if remembers and self.hard.size == 1:
                return t, position.unsqueeze(0)
            kept = self._hardest(scores, positive, repeated()) if remembers else None
            return t, kept
        mask = repeated() if remembers else None
        kept = self._hardest(scores, positive, mask) if remembers else None
        weight = self._rank_weight(positive, weight, kept, mask)
        return self.threshold(scores, positive, weight), kept

    @torch.no_grad()
    def _hardest(self, scores, positive, repeated):
        others = repeated.to(scores.device) | ~in_group(positive, self.threshold.of)
        hardness = -scores if self.threshold.of == "positives" else scores
        hardness = hardness.masked_fill(others, -torch.inf)
        return hardness.topk(min(self.hard.size, len(scores))).indices

    def _rank_weight(self, positive, weight, hard=None, repeated=None):
        """What each row counts for when the threshold is ranked."""
        own = torch.ones_like(positive, dtype=torch.float64) if weight is None else weight.double()
        is_hard = torch.zeros_like(positive)
        if hard is not None:
            own = own.masked_fill(repeated.to(own.device), 0.0)
            is_hard = is_hard.index_fill(0, hard, True)
        counted = own
        for total, members in zip(self.class_total, (~positive, positive), strict=True):
            others = members & ~is_hard
            missing = (total - (own * (members & is_hard)).sum()).clamp(min=0)
            factor = missing / (own * others).sum().clamp(min=torch.finfo(torch.float64).tiny)
            counted = torch.where(others, own * factor, counted)
        return counted

    def _shared_loss(self, scores, positive, weight, n_fresh):
        """The loss over the batches of all processes; each keeps its own hard rows."""
        index = self.hard.batch
        if index is None:
            index = torch.arange(len(scores))
        sizes, rank = all_objects((n_fresh, len(scores))), torch.distributed.get_rank()
        lengths = [length for _, length in sizes]
        start = sum(lengths[:rank])
        fresh = torch.cat([torch.arange(length) < n for n, length in sizes])
        # Fresh rows before remembered ones, as in a batch of one process.
        order = (~fresh).to(torch.int8).argsort(stable=True)
        owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        number = all_rows(index.to(scores.device), lengths).cpu() * len(lengths) + owner
        whole = HardSamples(self.hard.size)
        whole.batch = number[order]
        device_order = order.to(scores.device)
        scores = all_rows(scores, lengths)[device_order]
        positive = all_rows(positive.to(scores.dtype), lengths)[device_order] == 1
        if weight is not None:
            weight = all_rows(weight, lengths)[device_order]
        t, kept = self._threshold(scores, positive, weight, whole.repeated)
        if kept is not None:
            mine = order[kept.cpu()] - start
            self.hard.keep(mine[(mine >= 0) & (mine < lengths[rank])])
        return self._loss(scores, positive, weight, t, int(fresh.sum()))
