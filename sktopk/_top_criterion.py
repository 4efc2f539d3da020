"""Accuracy at the top on minibatches: the threshold of all rows, estimated from a few."""

import torch
from torch import nn

from ._distributed import all_objects, all_rows, world_size
from ._hard_samples import HardSamples
from .losses._checks import check_binary
from .losses._errors_at_score import ErrorsAtScore
from .losses._thresholds import NEARLY, Largest, in_group


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
    mean_weight : Tensor of shape (2,)
        Mean weight of their rows.
    n_rows : int
        Rows in training, of which the hard ones are known once all were seen.
    trace : dict of list
        The threshold of each batch.
    """

    def __init__(self, threshold, errors, surrogate, buffer_size):
        super().__init__()
        self.threshold, self.errors, self.surrogate = threshold, errors, surrogate
        self.hard = HardSamples(buffer_size)
        self.register_buffer("class_total", torch.ones(2, dtype=torch.float64))
        self.register_buffer("mean_weight", torch.ones(2, dtype=torch.float64))
        self.n_rows = 0
        self.trace = {"threshold": []}

    def get_extra_state(self):
        """What `state_dict` saves beside tensors of fixed shape."""
        return self.hard.get_state()

    def set_extra_state(self, state):
        """Put back what `state_dict` saved."""
        self.hard.set_state(state)

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are a sample of no batch, such as validation rows."""
        scores, positive = check_binary(scores.flatten(), target)
        alone = HardSamples(0)
        t, position, _ = self._threshold(scores.detach(), positive, sample_weight, alone)
        counted = positive if self.errors == "false_negatives" else ~positive
        return self._errors(scores, counted, sample_weight, t, position)

    def batch_loss(self, scores, target, weight):
        """Return the loss of a batch, and remember its hard rows for the next one."""
        scores, positive = check_binary(scores.flatten(), target)
        n_fresh = self.hard.n_fresh if self.hard.batch is not None else len(scores)
        if world_size() > 1:
            return self._shared_loss(scores, positive, weight, n_fresh)
        t, position, kept = self._threshold(scores.detach(), positive, weight, self.hard)
        if kept is not None:
            self.hard.keep(kept)
        return self._loss(scores, positive, weight, t, position, n_fresh)

    def _loss(self, scores, positive, weight, t, position, n_fresh):
        self.trace["threshold"].append(t)
        counted = positive if self.errors == "false_negatives" else ~positive
        if n_fresh < len(scores) and self.threshold.of == "all":
            # In the other cases hard rows are of the class that is not counted.
            counted = counted.clone()
            counted[n_fresh:] = False
        loss = self._errors(scores, counted, weight, t, position)
        if weight is None:
            return loss
        # A batch of light rows weighs little.
        mean_weight = (weight * counted).sum() / counted.sum().clamp(min=1)
        return loss * mean_weight / self.mean_weight[int(self.errors == "false_negatives")]

    def _errors(self, scores, counted, weight, t, position):
        arguments = (t, position, counted, weight, self.errors, self.surrogate)
        return ErrorsAtScore.apply(scores, *arguments)

    def _threshold(self, scores, positive, weight, hard):
        """The threshold, the position of its row and those of the rows to remember."""
        largest = isinstance(self.threshold, Largest)
        size = hard.size if hard.batch is not None else 0
        if largest and size <= 1:
            t, position = self.threshold.locate(scores, positive)
            return t, position, hard.members(position, t) if size else None
        # The hard rows come first: the largest scores, or the smallest of the positives.
        smallest = self.threshold.of == "positives"
        members = in_group(positive, self.threshold.of)
        if size:
            members = members & ~hard.repeated().to(scores.device)
        nothing = torch.inf if smallest else -torch.inf
        key, order = scores.masked_fill(~members, nothing).sort(
            descending=not smallest, stable=True
        )
        kept = hard.members(order[:size], key[:size]) if size else None
        if largest:
            return key[:1], order[:1], kept
        own = members.double() if weight is None else members * weight.double()
        # Of the hard rows of all rows, those of the rows seen so far are known.
        seen = min(1.0, hard.n_seen / self.n_rows) if size and self.n_rows else 1.0
        counted = self._counted(own[order], positive[order], size, self.class_total * seen)
        reached = counted.cumsum(0)
        total = reached[-1:]
        rank = self.threshold.rank(total)
        if self.threshold.tau is None:
            rank = rank * seen
        rank = torch.minimum(rank, total) * NEARLY
        if smallest:
            # Of the rows with at most n - j below them the last.
            place = (reached - counted <= total - rank).sum(0, keepdim=True) - 1
        else:
            place = (reached < rank).sum(0, keepdim=True)
        place = place.clamp(min=0)
        t = key.gather(0, place).where(total > 0, -torch.inf)
        return t, order.gather(0, place), kept

    def _counted(self, own, positive, n_hard, total):
        """What rows count for, hard ones first: as themselves, or for others of their class."""
        hard, others = own[:n_hard], own[n_hard:]
        if self.threshold.of == "all":
            known = (hard * positive[:n_hard]).sum()
            known = torch.stack([hard.sum() - known, known])
            seen = (others * positive[n_hard:]).sum()
            seen = torch.stack([others.sum() - seen, seen])
        else:
            known, seen = hard.sum(), others.sum()
            total = total[int(self.threshold.of == "positives")]
        factor = (total - known).clamp(min=0) / seen.clamp(min=torch.finfo(seen.dtype).tiny)
        if factor.ndim:
            factor = torch.where(positive[n_hard:], factor[1], factor[0])
        return torch.cat([hard, others * factor])

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
        whole.batch = None if self.hard.batch is None else number[order]
        whole.n_seen = self.hard.n_seen * len(lengths)
        device_order = order.to(scores.device)
        scores = all_rows(scores, lengths)[device_order]
        positive = all_rows(positive.to(scores.dtype), lengths)[device_order] == 1
        if weight is not None:
            weight = all_rows(weight, lengths)[device_order]
        t, position, kept = self._threshold(scores.detach(), positive, weight, whole)
        if kept is not None:
            mine = order[kept.cpu()] - start
            self.hard.keep(mine[(mine >= 0) & (mine < lengths[rank])])
        return self._loss(scores, positive, weight, t, position, int(fresh.sum()))
