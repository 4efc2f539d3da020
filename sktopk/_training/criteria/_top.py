"""Accuracy at the top on minibatches: the threshold of all rows, estimated from a few."""

import torch

from sktopk._training._distributed import all_objects, all_rows, world_size
from sktopk.losses._thresholds import NEARLY, Largest

from ._base import Criterion
from ._errors_at_score import arrays, as_arrays, errors_at_score
from ._hard_rows import HardSamples


class TopCriterion(Criterion):
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
        The threshold of each batch, an array or a tensor of shape (1,).
    """

    def __init__(self, threshold, errors, surrogate, buffer_size):
        super().__init__()
        self.threshold, self.errors, self.surrogate = threshold, errors, surrogate
        self.hard = self.hard_rows = HardSamples(buffer_size)
        self.register_buffer("class_total", torch.ones(2, dtype=torch.float64))
        self.register_buffer("mean_weight", torch.ones(2, dtype=torch.float64))
        self.register_buffer("n_rows", torch.zeros((), dtype=torch.long))
        self.trace = {"threshold": []}

    is_mean = False

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        self.class_total, self.mean_weight = class_total, mean_weight
        if not resumed:
            self.n_rows.zero_()
            self.hard.forget()
        self.n_rows += n_rows

    def get_extra_state(self):
        """What `state_dict` saves beside tensors of fixed shape."""
        return self.hard.get_state()

    def set_extra_state(self, state):
        """Put back what `state_dict` saved."""
        self.hard.set_state(state)

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are a sample of no batch, such as validation rows."""
        values = arrays(scores, target, sample_weight)
        t, position, _ = self._threshold(*values, HardSamples(0))
        return torch.as_tensor(self._errors(*values, t, position)[0])

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of a batch and its gradient; remember its hard rows for the next one.

        Parameters
        ----------
        scores : Tensor of shape (n_samples,) or (n_samples, 1)
        target : Tensor of shape (n_samples,)
        weight : Tensor of shape (n_samples,) or None

        Returns
        -------
        loss, gradient : Tensor of shape () and Tensor of the shape and dtype of `scores`
        """
        n_fresh = self.hard.n_fresh if self.hard.batch is not None else len(scores)
        if world_size() > 1:
            loss, gradient = self._shared(scores.detach().flatten(), target, weight, n_fresh)
        else:
            values = arrays(scores, target, weight)
            t, position, kept = self._threshold(*values, self.hard)
            if kept is not None:
                self.hard.keep(kept)
            self.trace["threshold"].append(t)
            loss, gradient = self._errors(*values, t, position, n_fresh)
        gradient = torch.as_tensor(gradient).view_as(scores)
        if gradient.dtype != scores.dtype:
            gradient = gradient.to(scores.dtype)
        return torch.as_tensor(loss), gradient

    def _errors(self, xp, scores, positive, weight, t, position, n_fresh=None):
        """Value and gradient of the errors among the first `n_fresh` rows."""
        above = self.errors == "false_positives"
        counted = positive ^ above
        if n_fresh is not None:
            counted[n_fresh:] = False
        if weight is None:
            total = counted.sum()
        elif n_fresh is None:
            total = (weight * counted).sum()
        else:
            # A batch of light rows weighs little.
            total = counted.sum() * as_arrays(xp, self.mean_weight)[int(not above)]
        return errors_at_score(
            xp, scores, counted, weight, total, t, position, above, self.surrogate
        )

    def _threshold(self, xp, scores, positive, weight, hard):
        """The threshold, the position of its row and those of the rows to remember."""
        largest, of = isinstance(self.threshold, Largest), self.threshold.of
        size = hard.size if hard.batch is not None else 0
        smallest = of == "positives"
        # By rising key: the scores of the group from its largest on, or from its smallest.
        key = scores if smallest else -scores
        members = None if of == "all" else positive if smallest else ~positive
        # A remembered row that was drawn again is one row; the largest score may stand twice.
        repeated = hard.repeated(xp) if size > (1 if largest else 0) else None
        if repeated is not None:
            once = ~xp.asarray(repeated, device=scores.device)
            members = once if members is None else members & once
        if members is not None:
            key = xp.where(members, key, xp.inf)
        if largest and size <= 1:
            position = key.argmin(0, keepdims=True)
            t = -key[position]
            return t, position, hard.members(xp, position, t) if size else None
        order = key.argsort(stable=True)
        # The hard rows come first: the largest scores, or the smallest of the positives.
        kept = hard.members(xp, order[:size], key[order[:size]]) if size else None
        if largest:
            return -key[order[:1]], order[:1], kept
        own = weight
        if members is not None:
            own = members if weight is None else members * weight
        own = xp.ones_like(positive) if own is None else own[order]
        # Of the hard rows of all rows, those of the rows seen so far are known.
        seen = min(1.0, hard.n_seen / int(self.n_rows)) if size and int(self.n_rows) else 1.0
        reached = self._reached(xp, own, positive[order], size, seen)
        total = reached[-1:]
        rank = self.threshold.rank(total)
        if self.threshold.tau is None:
            rank = rank * seen
        rank = xp.minimum(rank, total) * NEARLY
        # The first row that reaches the rank; of the positives, the last with at most n - j below.
        place = (total - rank, "right") if smallest else (rank, "left")
        place = xp.searchsorted(reached, place[0], side=place[1])
        position = order[place * (place < len(order))]
        t = key[position]
        return t if smallest else -t, position, kept

    def _reached(self, xp, own, positive, n_hard, share):
        """What the ordered rows up to each of them count for, hard ones first.

        Hard rows count as themselves, and the others for all rows of their class, which weighs
        `share` of what it does in training.
        """
        class_total = as_arrays(xp, self.class_total)
        n_hard = min(n_hard, len(own))
        of, reached = self.threshold.of, 0.0
        for label, name in enumerate(("negatives", "positives")):
            if of not in ("all", name):
                continue
            weight = own if of == name else own * (positive ^ (not label))
            weight = weight.cumsum(0, dtype=xp.float64)
            known = weight[n_hard - 1] if n_hard else 0.0
            missing, seen = share * class_total[label] - known, weight[-1] - known
            factor = (missing + abs(missing)) / (2 * (seen + (seen == 0)))
            weight[n_hard:] = known + (weight[n_hard:] - known) * factor
            reached = reached + weight
        return reached

    def _shared(self, scores, target, weight, n_fresh):
        """The loss over the batches of all processes; each keeps its own hard rows."""
        index = self.hard.batch
        if index is None:
            index = torch.arange(len(scores))
        sizes, rank = all_objects((n_fresh, len(scores))), torch.distributed.get_rank()
        lengths = [length for _, length in sizes]
        mine = slice(sum(lengths[:rank]), sum(lengths[: rank + 1]))
        fresh = torch.cat([torch.arange(length) < n for n, length in sizes])
        # Fresh rows before remembered ones, as in a batch of one process.
        order = (~fresh).to(torch.int8).argsort(stable=True)
        owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        number = all_rows(index.to(scores.device), lengths).cpu() * len(lengths) + owner
        whole = HardSamples(self.hard.size)
        whole.batch = None if self.hard.batch is None else number[order]
        whole.n_seen = self.hard.n_seen * len(lengths)
        device_order = order.to(scores.device)
        target = all_rows(target.to(scores.dtype), lengths)[device_order]
        if weight is not None:
            weight = all_rows(weight, lengths)[device_order]
        values = arrays(all_rows(scores, lengths)[device_order], target, weight)
        t, position, kept = self._threshold(*values, whole)
        if kept is not None:
            kept = order[torch.as_tensor(kept, device="cpu")]
            kept = kept[(kept >= mine.start) & (kept < mine.stop)]
            self.hard.keep(kept - mine.start)
        self.trace["threshold"].append(t)
        loss, gradient = self._errors(*values, t, position, int(fresh.sum()))
        gathered = scores.new_empty(len(order))
        gathered[device_order] = torch.as_tensor(gradient)
        # Gradients are averaged over the processes afterwards, as in `all_rows`.
        return loss, len(lengths) * gathered[mine]
