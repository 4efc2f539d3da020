"""Accuracy at the top on minibatches: the threshold of all rows, estimated from a few."""

import math

import numpy as np
import torch

from sktopk._training._process import all_objects, all_rows
from sktopk.losses import KthLargest, SurrogateQuantile, TopMean
from sktopk.losses._accuracy_at_top import along, check_errors, errors_and_gradient
from sktopk.losses._thresholds import Largest, falling

from ._base import TwoClassCriterion

# What buffer_size="auto" means. A rank is estimated well by twice as many rows and some more,
# since the hard rows of a network that learns are no longer the hardest when they are used. 512
# of them make a step on a table twice as long (benchmarks/trained_share.py).
SLACK, MORE, MOST = 2, 100, 512
# All members evaluate the hard rows of each: so many of all of them take half as long again. They
# are too few where a batch has less than a row above the threshold: that of 5 of 19 000 negatives
# is trained as that of 25, but that of 190, of which a batch has 2, as that of 230.
MOST_OF_MEMBERS = 128
# The rank in a batch from which its own estimate is off by less than a third.
ENOUGH = 10


class HardRows:
    """Remember the hardest rows so far and join them to each batch.

    The rows are known by their number: their scores are computed anew in each batch, so that
    the gradient through them is right (Adam, Macha, Smidl 2020, algorithm 3.1, step 4).

    The numbers stay on the device where the batches have them. There `size` rows are kept of
    every batch that has as many: how many of them belong to the group is known on the device
    alone, and those that do not count for nothing in the next batch.

    Parameters
    ----------
    size : int
        Number of rows to remember, at least 1.
    """

    def __init__(self, size):
        self.size = size
        # Those of each member of the network, which is one.
        self.each = [self]
        self.forget()

    def forget(self):
        """Remember nothing, not even of the batch at hand."""
        self.index = torch.empty(0, dtype=torch.long)
        self.batch, self.n_fresh, self.carried = None, None, None
        # Whether a batch may have a row twice; in doubt it is looked for.
        self.fresh_repeats = True

    def carry(self, rows, target, weight):
        """Keep a copy of the remembered rows for data that will not have them."""
        weight = torch.ones(len(target), dtype=torch.float32) if weight is None else weight
        index = self._distinct()
        self.carried = {
            "rows": rows[index].cpu(),
            "target": target[index.to(target.device)].cpu(),
            "weight": weight[index.to(weight.device)].cpu(),
        }

    def join(self, index):
        """Row numbers of a batch followed by the remembered ones."""
        self.n_fresh = len(index)
        self.batch = torch.cat([index, self.index.to(index.device)])
        return self.batch

    def n_fresh_of(self, n_rows):
        """How many of the rows of a batch did not join it for being hard."""
        return n_rows if self.batch is None else self.n_fresh

    def keep(self, positions):
        """Remember the rows at these positions of the joined batch."""
        if isinstance(positions, torch.Tensor):
            self.index = self.batch[positions.to(self.batch.device)]
        else:
            self.index = torch.from_numpy(self.batch.numpy()[positions])

    def standing(self, xp):
        """Two masks of the joined batch: rows that are remembered, and repeats of earlier ones.

        The second is None if there are none.
        """
        return standing(xp, as_arrays(xp, self.batch), self.n_fresh, self.fresh_repeats)

    def get_state(self):
        """The row numbers and copies of rows, however many, as plain values."""
        return {"index": self._distinct(), "carried": self.carried}

    def _distinct(self):
        """The row numbers on the CPU, the hardest first, each once."""
        return torch.tensor(list(dict.fromkeys(self.index.tolist())), dtype=torch.long)

    def set_state(self, state):
        """Put back what `get_state` returned."""
        self.index, self.carried = state["index"].cpu(), state["carried"]


class TopCriterion(TwoClassCriterion):
    r"""A threshold that speaks of the training set, one kind of error, a surrogate.

    A batch is a sample of the rows in which the classes have other proportions, and the hard
    rows of earlier batches are known in addition. So hard rows count as themselves when the
    threshold is computed, and the others of class c as

    .. math:: \frac{N_c - W_c(\text{hard})}{W_c(\text{others})}

    each, times their own weight: together as much as the class weighs in training,
    :math:`N_c`. The threshold of such rows is that of the training set if it lies among the
    hard ones, and its estimate at the same quantile if not. Which rows are hard was settled
    before the batch was drawn: a row of the batch that scores as high, because the network has
    changed or the row was never seen, stands for the others like it. The errors are counted
    over the rows of the batch alone.

    Parameters
    ----------
    threshold : callable
        One of :mod:`sktopk.losses`, or any other function of scores, mask of the positives and
        weights that returns a scalar with its gradient. The weights are what the rows count for.
    errors : {"false_negatives", "false_positives"} or dict
        A kind, or the weight of each.
    surrogate : str
    buffer_size : int or "auto"
        Number of hard rows carried from batch to batch: the largest scores of the rows that
        the threshold is computed from, or the smallest of the positives. "auto" is as many as
        the rank of the threshold needs, up to `MOST`; if it needs more, 1 where a batch does
        without.

    Attributes
    ----------
    missing : dict or None
        With "auto" what estimates the threshold badly: its `rank` among the training rows,
        `in_batch`, what that is among those of a batch, and how many hard rows are `enough`.
    trace : dict of list
        The threshold of each batch, an array or a tensor of shape (1,).
    """

    def __init__(self, threshold, errors, surrogate, buffer_size):
        auto = buffer_size == "auto"
        hard_rows = HardRows(MOST if auto else buffer_size) if buffer_size else None
        super().__init__()
        self.threshold, self.surrogate = threshold, surrogate
        self.kinds = check_errors(errors)
        self.auto, self.missing, self.hard_rows = auto, None, hard_rows
        self.trace, self.groups = {"threshold": []}, None

    def set_groups(self, make):
        """Take a mean over groups from now on; see the base."""
        if self.groups is not None:
            # What was hard in a group says nothing of other rows.
            self.groups, self.hard_rows = None, self._of_one_list
            if self.hard_rows is not None:
                self.hard_rows.forget()
        if make is not None:
            self._of_one_list, self.missing = self.hard_rows, None
            size = 0 if self.hard_rows is None else self.hard_rows.size
            self.groups = self.hard_rows = make(0)
            self.groups.hold(size, self.auto, self.threshold)

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        """Take note of the rows in training; see the base."""
        if self.hard_rows is not None and not resumed:
            self.hard_rows.forget()
        super().begin(class_total, mean_weight, n_rows, resumed=resumed)

    def hold_enough(self, class_total, mean_weight, batch_size, n_members):
        """Choose the number of hard rows where it is "auto", before the training begins.

        Parameters
        ----------
        class_total, mean_weight : ndarray of shape (2,)
            As in `begin`.
        batch_size : int
            Number of rows of a batch, of all processes together.
        n_members : int
            How many of these criteria have hard rows of their own, which join every batch.
        """
        if not self.auto:
            return
        most = MOST if n_members == 1 else max(1, MOST_OF_MEMBERS // n_members)
        # A class that the rows to come lack has no mean weight.
        n_of_class = class_total / np.where(mean_weight > 1e-200, mean_weight, 1.0)
        rank = rank_in_rows(self.threshold, n_of_class, class_total)
        in_batch = rank * batch_size / max(1.0, n_of_class.sum())
        enough = SLACK * rank + MORE
        self.missing, self.hard_rows.size = None, min(enough, most)
        if n_members > 1:
            # Rank 1 may be that of a function of which nothing is known, and positives come to
            # batches by more than their share.
            of_positives = getattr(self.threshold, "of", "all") == "positives"
            lacks = enough > most and in_batch < 1 < rank and not of_positives
        else:
            # It would need as many at the least.
            lacks, enough = rank > most and in_batch < ENOUGH, SLACK * rank
        if lacks:
            self.missing = {"rank": rank, "in_batch": in_batch, "enough": enough}
        elif rank > most and in_batch >= ENOUGH:
            self.hard_rows.size = 1

    def get_extra_state(self):
        """What `state_dict` saves beside tensors of fixed shape."""
        return None if self.hard_rows is None else self.hard_rows.get_state()

    def set_extra_state(self, state):
        """Put back what `state_dict` saved."""
        if self.hard_rows is not None:
            self.hard_rows.set_state(state)

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are a sample of no batch, such as validation rows."""
        values = arrays(scores.flatten(), target, sample_weight)
        located, _ = self._locate(*values, None, self.class_total)
        return as_tensor(self._errors(*values, located, self.mean_weight)[0])

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
        if self.groups is not None:
            values = torch.as_tensor(scores.detach()), target, weight
            loss, gradient, t = self.groups.loss_and_gradient(self, *values)
            self.trace["threshold"].append(t)
            return loss, gradient
        hard = self.hard_rows
        if hard is not None and hard.batch is None:
            hard = None
        n_fresh = len(scores) if hard is None else hard.n_fresh
        if self.n_processes > 1:
            loss, gradient = self._shared(scores.detach().flatten(), target, weight, hard, n_fresh)
        else:
            values = arrays(scores.flatten(), target, weight)
            located, known = self._locate(*values, hard, self.class_total)
            if hard is not None:
                hard.keep(known)
            self.trace["threshold"].append(located[0])
            loss, gradient = self._errors(*values, located, self.mean_weight, n_fresh)
        gradient = as_tensor(gradient.reshape(scores.shape))
        if gradient.dtype != scores.dtype:
            gradient = gradient.to(scores.dtype)
        return as_tensor(loss), gradient

    def _errors(self, xp, scores, positive, weight, located, mean_weight, n_fresh=None):
        """Value and gradient of the errors among the first `n_fresh` rows."""
        found, values = None, (xp, scores, positive, weight)
        for kind, factor in self.kinds:
            value, gradient = self._errors_of(kind, *values, located, mean_weight, n_fresh)
            value, gradient = factor * value, factor * gradient
            found = (value, gradient) if found is None else (found[0] + value, found[1] + gradient)
        return found

    def _errors_of(self, kind, xp, scores, positive, weight, located, mean_weight, n_fresh):
        """Those of one kind."""
        above = kind == "false_positives"
        counted = positive ^ above
        if n_fresh is not None:
            counted[..., n_fresh:] = False
        if weight is None:
            total = counted.sum(-1, keepdims=True)
        elif n_fresh is None:
            total = (weight * counted).sum(-1, keepdims=True)
        else:
            # A batch of light rows weighs little.
            n_counted = (counted & (weight > 0)).sum(-1, keepdims=True)
            total = n_counted * as_arrays(xp, mean_weight)[int(not above)]
        return errors_and_gradient(
            xp, scores, counted, weight, total, located, kind, self.surrogate
        )

    def _locate(self, xp, scores, positive, weight, hard, class_total):
        """The threshold with its gradient, and the positions of the rows to remember."""
        of, largest = getattr(self.threshold, "of", "all"), isinstance(self.threshold, Largest)
        size = 0 if hard is None else hard.size
        own = positive if of == "positives" else ~positive if of == "negatives" else None
        # A remembered row that was drawn again is one row; the largest score may stand twice.
        remembered = repeated = None
        if size > (1 if largest else 0):
            remembered, repeated = hard.standing(xp)
        if repeated is not None:
            own = ~repeated if own is None else own & ~repeated
        if weight is not None:
            own = weight if own is None else own * weight
        elif own is None:
            own = xp.ones_like(positive)
        # The hard rows are the largest scores, or the smallest of the positives.
        smallest = of == "positives" and not largest
        key = falling(xp, scores, own, outside=-math.inf if smallest else math.inf)
        order = known = None
        if size > 1 or not largest:
            order = key.argsort(stable=True)
            n = order.shape[-1]
            hardest = slice(max(n - size, 0), None) if smallest else slice(size)
            known = order[..., hardest]
        if largest:
            located = self.threshold.locate(xp, key, order)
            known = located[1] if known is None else known
        else:
            counts = self._counts(xp, own, positive, remembered, class_total)
            counts = counts[along(xp, counts, order)]
            locate = getattr(self.threshold, "locate", None)
            if locate is not None:
                located = locate(xp, key, order, counts.cumsum(-1))
            else:
                located = located_by_autograd(xp, self.threshold, scores, positive, order, counts)
        if xp is np and size > 0 and hard.index.shape[-1] < size:
            # A group may have fewer rows than are remembered.
            known = known[own[known] > 0]
        return located, known

    def _counts(self, xp, own, positive, remembered, class_total):
        """What each row counts for: a remembered one for itself, the others for all the rest."""
        class_total = as_arrays(xp, class_total)
        of = getattr(self.threshold, "of", "all")
        own = xp.asarray(own, dtype=xp.float64)
        known = own * (0.0 if remembered is None else remembered)
        others, counts = own - known, known
        for label, name in enumerate(("negatives", "positives")):
            if of not in ("all", name):
                continue
            mine = 1.0 if of == name else positive == label
            weight = others * mine
            there = weight.sum(-1, keepdims=True)
            missing = class_total[label] - (known * mine).sum(-1, keepdims=True)
            factor = (missing + abs(missing)) / (2 * (there + (there == 0)))
            counts = counts + factor * weight
        return counts

    def _shared(self, scores, target, weight, hard, n_fresh):
        """The loss over the batches of all processes; each keeps its own hard rows."""
        sizes, rank = all_objects((n_fresh, len(scores))), torch.distributed.get_rank()
        lengths = [length for _, length in sizes]
        mine = slice(sum(lengths[:rank]), sum(lengths[: rank + 1]))
        fresh = torch.cat([torch.arange(length) < n for n, length in sizes])
        # Fresh rows before remembered ones, as in a batch of one process.
        order = (~fresh).to(torch.int8).argsort(stable=True)
        whole = None
        if hard is not None:
            owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
            number = all_rows(hard.batch.to(scores.device), lengths).cpu() * len(lengths) + owner
            whole = HardRows(hard.size)
            whole.batch, whole.n_fresh = number[order], int(fresh.sum())
        device_order = order.to(scores.device)
        target = all_rows(target.to(scores.dtype), lengths)[device_order]
        if weight is not None:
            weight = all_rows(weight, lengths)[device_order]
        values = arrays(all_rows(scores, lengths)[device_order], target, weight)
        located, known = self._locate(*values, whole, self.class_total)
        if hard is not None:
            known = order[torch.as_tensor(known, device="cpu")]
            known = known[(known >= mine.start) & (known < mine.stop)]
            hard.keep(known - mine.start)
        self.trace["threshold"].append(located[0])
        loss, gradient = self._errors(*values, located, self.mean_weight, int(fresh.sum()))
        gathered = scores.new_empty(len(order))
        gathered[device_order] = as_tensor(gradient)
        # Gradients are averaged over the processes afterwards.
        return loss, len(lengths) * gathered[mine]


def losses_of_members(criteria, scores, target, weight):
    """The losses of a batch by members of a network, each on the rows that it looks at.

    What :meth:`TopCriterion.loss_and_gradient` says of each, with the steps of one: a batch costs
    more by their number than by their size. Each remembers its hard rows.

    Parameters
    ----------
    criteria : sequence of TopCriterion
        Those of the members, of which `can_join` is true.
    scores, target, weight : Tensor of shape (n_members, n_samples)
        `weight` may be None.

    Returns
    -------
    loss, gradient, threshold : Tensor of shape (n_members,), like `scores`, and (n_members, 1)
    """
    values, one = arrays(scores, target, weight), criteria[0]
    own_rows, hard, n_fresh = [each.hard_rows for each in criteria], None, scores.shape[1]
    class_total = torch.stack([each.class_total for each in criteria], dim=1).unsqueeze(2)
    mean_weight = torch.stack([each.mean_weight for each in criteria], dim=1).unsqueeze(2)
    if own_rows[0] is not None and own_rows[0].batch is not None:
        hard, n_fresh = HardRows(own_rows[0].size), own_rows[0].n_fresh
        hard.n_fresh, hard.fresh_repeats = n_fresh, own_rows[0].fresh_repeats
        hard.index = torch.stack([own.index for own in own_rows])
        hard.batch = torch.stack([own.batch for own in own_rows])
    located, known = one._locate(*values, hard, class_total)
    if hard is not None:
        for own, positions in zip(own_rows, known, strict=True):
            own.keep(positions)
    loss, gradient = one._errors(*values, located, mean_weight, n_fresh)
    return as_tensor(loss), as_tensor(gradient).to(scores.dtype), as_tensor(located[0])


def can_join(criteria, scores):
    """Tell whether `losses_of_members` takes criteria and scores.

    Each must have as many rows to look at, in one process, and a threshold that sorting finds.
    Diverged scores are left to each alone.
    """
    one = criteria[0]
    if not isinstance(one, TopCriterion) or one.groups is not None or one.n_processes > 1:
        return False
    if getattr(one.threshold, "locate", None) is None:
        return False
    own_rows = [each.hard_rows for each in criteria]
    if own_rows[0] is not None and own_rows[0].batch is not None:
        n_rows = len(own_rows[0].batch)
        if any(len(own.index) != own.size or len(own.batch) != n_rows for own in own_rows):
            return False
    # A GPU need not be asked: its way knows what is undefined.
    return scores.device.type != "cpu" or bool(scores.max() < math.inf)


def standing(xp, batch, n_fresh, fresh_repeats):
    """Which rows of a joined batch, by their numbers, are remembered, and which repeat others.

    See :meth:`HardRows.standing`; a batch of shape (n_members, n_samples) has one of each member.
    """
    fresh, remembered = batch[..., :n_fresh], batch[..., n_fresh:]
    # Tensors may have remembered a row twice, in a group of few rows.
    if xp is np and not fresh_repeats:
        twice = remembered[..., np.newaxis] == fresh[..., np.newaxis, :]
        known = np.ones(batch.shape, dtype=bool)
        if not np.count_nonzero(twice):
            known[..., :n_fresh] = False
            return known, None
        known[..., :n_fresh] = twice.any(axis=-2)
        repeated = ~known
        repeated[..., :n_fresh], repeated[..., n_fresh:] = False, twice.any(axis=-1)
        return known, repeated
    if batch.ndim > 1:
        each = [standing(xp, own, n_fresh, fresh_repeats) for own in batch]
        return tuple(xp.stack(masks) for masks in zip(*each, strict=True))
    order = batch.argsort(stable=True)
    ordered = batch[order]
    repeated = xp.zeros_like(batch, dtype=xp.bool)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return xp.isin(batch, remembered), repeated


def rank_in_rows(threshold, n_of_class, class_total):
    """The rank of a threshold, counted in rows from the end of its group where the hard ones are.

    Of a function of which nothing is known it is 1, like that of the largest score.
    """
    if not isinstance(threshold, KthLargest | TopMean | SurrogateQuantile):
        return 1
    k = getattr(threshold, "k", None)
    of = {"negatives": slice(0, 1), "positives": slice(1, 2)}.get(threshold.of, slice(None))
    n_rows, weight = n_of_class[of].sum(), class_total[of].sum()
    if not weight:
        return 1
    share = threshold.tau if k is None else min(1.0, k / weight)
    n = math.ceil(share * n_rows * (1 - 1e-9))
    return max(1, math.ceil(n_rows) + 1 - n if threshold.of == "positives" else n)


def arrays(scores, target, weight):
    """Return the library and what it computes with: scores, mask of positives, weights.

    The scores have no gradient; half precision becomes float32.
    """
    scores = scores.detach()
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    positive = target if target.dtype == torch.bool else target == 1
    if scores.device.type != "cpu":
        return torch, scores, positive, weight
    weight = None if weight is None else weight.numpy()
    return np, scores.numpy(), positive.numpy(), weight


def as_arrays(xp, tensor):
    """A tensor as what `xp` computes with."""
    return tensor.numpy() if xp is np else tensor


def as_tensor(array):
    """An array or a number of NumPy, or a tensor, as a tensor."""
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(np.asarray(array))


def located_by_autograd(xp, threshold, scores, positive, order, counts):
    """Any threshold of a weighted sample with its gradient, from a call."""
    scores, positive, order, counts = map(torch.as_tensor, (scores, positive, order, counts))
    weight = torch.empty_like(scores)
    weight[order] = counts.to(scores.dtype)
    scores = scores.detach().requires_grad_()
    with torch.enable_grad():
        t = threshold(scores, positive, weight)
        share = None
        if t.requires_grad:
            (share,) = torch.autograd.grad(t, scores, allow_unused=True)
    share = torch.zeros_like(weight) if share is None else share
    t = t.detach().to(scores.dtype).reshape(1)
    return as_arrays(xp, t), slice(None), as_arrays(xp, share)
