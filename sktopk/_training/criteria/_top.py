"""Accuracy at the top on minibatches, with an estimate of the training set's threshold."""

import math

import numpy as np
import torch

from sktopk._training._process import all_objects, all_rows
from sktopk.losses._accuracy_at_top import along, check_errors, errors_and_gradient
from sktopk.losses._thresholds import Largest, falling

from ._base import TwoClassCriterion


class HardRows:
    """The `size` hardest samples of earlier minibatches, which are added to every minibatch.

    Only the indices of the samples are stored. Each minibatch recomputes the scores, so that the
    gradient is correct (Adam, Macha, Smidl 2020, algorithm 3.1, step 4).

    On a GPU, exactly `size` indices are stored: a variable number would need synchronization.
    They can include samples that do not affect the threshold, such as negatives if the threshold
    depends on positives only. Such samples get weight 0 in the next minibatch.
    """

    def __init__(self, size):
        self.size = size
        # `MemberHardRows.each` lists one `HardRows` per ensemble member. Here, there is only one.
        self.each = [self]
        self.forget()

    def forget(self):
        """Discard the hard examples, and the sample indices of the current minibatch."""
        self.index = torch.empty(0, dtype=torch.long)
        self.batch, self.n_fresh, self.carried = None, None, None
        # Whether a minibatch may contain the same new sample twice.
        self.fresh_repeats = True

    def carry(self, rows, target, weight):
        """Copy the hard examples, so that the next call of `partial_fit` can use them."""
        weight = torch.ones(len(target), dtype=torch.float32) if weight is None else weight
        index = self._distinct()
        parts = {"rows": rows[index], "target": target[index.to(target.device)]}
        parts["weight"] = weight[index.to(weight.device)]
        self.carried = {name: part.cpu() for name, part in parts.items()}

    def join(self, index):
        """Append the indices of the hard examples to the sample indices of a minibatch."""
        self.n_fresh = len(index)
        self.batch = torch.cat([index, self.index.to(index.device)])
        return self.batch

    def keep(self, positions):
        """Store the samples at these positions of the minibatch as the next hard examples."""
        if isinstance(positions, torch.Tensor):
            self.index = self.batch[positions.to(self.batch.device)]
        else:
            self.index = torch.from_numpy(self.batch.numpy()[positions])

    def masks(self, xp):
        """Return two masks of the minibatch: hard examples, and repeated samples (None if none)."""
        return masks_of_batch(xp, as_arrays(xp, self.batch), self.n_fresh, self.fresh_repeats)

    def get_state(self):
        """Return a dict with the indices of the hard examples, and the copies made by `carry`."""
        return {"index": self._distinct(), "carried": self.carried}

    def _distinct(self):
        """Return the distinct indices of the hard examples, hardest first, on the CPU."""
        return torch.tensor(list(dict.fromkeys(self.index.tolist())), dtype=torch.long)

    def set_state(self, state):
        """Restore the result of `get_state`."""
        self.index, self.carried = state["index"].cpu(), state["carried"]


class TopCriterion(TwoClassCriterion):
    r"""Loss of samples on the wrong side of a threshold, estimated for the whole training set.

    A minibatch contains new samples and hard examples from earlier minibatches. Its class
    proportions differ from the training set. The threshold is therefore computed with weights: hard
    examples keep their sample weights, and the weights of new samples of class c are multiplied by

    .. math:: \frac{N_c - W_c(\text{hard})}{W_c(\text{new})}

    where :math:`N_c` is the total weight of the class in the training set, and W is the total
    weight in the minibatch. The threshold is exact if it lies among the hard examples. Otherwise it
    estimates the same quantile. Even new samples with very high scores get the factor, because they
    also represent samples that were not drawn. Only new samples count as errors.

    Parameters
    ----------
    threshold : callable
        A threshold of :mod:`sktopk.losses`, or a function of scores, mask of the positives and
        weights (as defined above) that returns a scalar with a gradient.
    errors : {"false_negatives", "false_positives"} or dict
        The kind of errors, or a dict with the weight of each kind.
    surrogate : str
    buffer_size : int
        Number of hard examples: those with the largest scores among the samples that determine the
        threshold. For a quantile of the positives, those with the smallest scores.
    """

    def __init__(self, threshold, errors, surrogate, buffer_size):
        super().__init__()
        self.threshold, self.surrogate = threshold, surrogate
        self.kinds = check_errors(errors)
        self.hard_rows = HardRows(buffer_size) if buffer_size else None
        self.trace, self.groups = {"threshold": []}, None

    def set_groups(self, make):
        if self.groups is not None:
            # Do not use hard examples of groups: they may be easy in the whole training set.
            self.groups, self.hard_rows = None, self._without_groups
            if self.hard_rows is not None:
                self.hard_rows.forget()
        if make is not None:
            self._without_groups = self.hard_rows
            size = 0 if self.hard_rows is None else self.hard_rows.size
            self.groups = self.hard_rows = make(0)
            self.groups.hold(size)

    def begin(self, class_total, mean_weight, *, resumed=False):
        if self.hard_rows is not None and not resumed:
            self.hard_rows.forget()
        super().begin(class_total, mean_weight, resumed=resumed)

    def get_extra_state(self):
        return None if self.hard_rows is None else self.hard_rows.get_state()

    def set_extra_state(self, state):
        if self.hard_rows is not None:
            self.hard_rows.set_state(state)

    def forward(self, scores, target, sample_weight=None):
        values = arrays(scores.flatten(), target, sample_weight)
        located, _ = self._locate(*values, None, self.class_total)
        return as_tensor(self._errors(*values, located, self.mean_weight)[0])

    def gradient(self, scores, target, weight):
        """Return the loss of a minibatch and its gradient, and store the next hard examples."""
        if self.groups is not None:
            loss, gradient, t = self.groups.loss_and_gradient(self, scores.detach(), target, weight)
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
        return as_tensor(loss), as_tensor(gradient.reshape(scores.shape)).to(scores.dtype)

    def _errors(self, xp, scores, positive, weight, located, mean_weight, n_fresh=None):
        """Return the loss of errors among the first `n_fresh` samples, and its gradient."""
        found = None
        for kind, factor in self.kinds:
            above = kind == "false_positives"
            counted = positive ^ above
            if n_fresh is not None:
                counted[..., n_fresh:] = False
            if weight is None:
                total = counted.sum(-1, keepdims=True)
            elif n_fresh is None:
                total = (weight * counted).sum(-1, keepdims=True)
            else:
                # Estimate the total weight: number of samples times mean weight (training set).
                n_counted = (counted & (weight > 0)).sum(-1, keepdims=True)
                total = n_counted * as_arrays(xp, mean_weight)[int(not above)]
            values = scores, counted, weight, total, located, kind, self.surrogate
            value, gradient = (factor * each for each in errors_and_gradient(xp, *values))
            found = (value, gradient) if found is None else (found[0] + value, found[1] + gradient)
        return found

    def _locate(self, xp, scores, positive, weight, hard, class_total):
        """Return the threshold with its gradient, and the positions of the next hard examples."""
        of, largest = getattr(self.threshold, "of", "all"), isinstance(self.threshold, Largest)
        size = 0 if hard is None else hard.size
        own = positive if of == "positives" else ~positive if of == "negatives" else None
        # If a new sample is also a hard example, count it once. Duplicates do not change a maximum.
        remembered = repeated = None
        if size > (1 if largest else 0):
            remembered, repeated = hard.masks(xp)
        if repeated is not None:
            own = ~repeated if own is None else own & ~repeated
        if weight is not None:
            own = weight if own is None else own * weight
        elif own is None:
            own = xp.ones_like(positive)
        # Hard examples have the largest scores, or the smallest scores for a quantile of positives.
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
            # Drop samples of weight 0, which do not affect the threshold.
            known = known[own[known] > 0]
        return located, known

    def _counts(self, xp, own, positive, remembered, class_total):
        """Return the weight of each sample in the threshold (formula in the class docstring)."""
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
        """Return the loss of all processes' minibatches, and the gradient for this process."""
        sizes, rank = all_objects((n_fresh, len(scores))), torch.distributed.get_rank()
        lengths = [length for _, length in sizes]
        mine = slice(sum(lengths[:rank]), sum(lengths[: rank + 1]))
        fresh = torch.cat([torch.arange(length) < n for n, length in sizes])
        # Put the new samples of all processes first, followed by the hard examples.
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
        # Multiply by the number of processes, because gradients are later averaged over processes.
        return loss, len(lengths) * gathered[mine]


def losses_of_members(criteria, scores, target, weight):
    """Return losses, gradients and thresholds of all ensemble members in one computation.

    The result equals :meth:`TopCriterion.gradient` of each member. Call this function only
    if `can_join` returns True. Scores, target and weight have shape (n_members, n_samples).
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
    """Return whether `losses_of_members` can compute the losses of these criteria together."""
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
    # Do not check scores on a GPU, because reading scores would synchronize with the CPU.
    return scores.device.type != "cpu" or bool(scores.max() < math.inf)


def masks_of_batch(xp, batch, n_fresh, fresh_repeats):
    """Return the masks of :meth:`HardRows.masks`. `batch` may have one row per ensemble member."""
    fresh, remembered = batch[..., :n_fresh], batch[..., n_fresh:]
    # If new samples are distinct, compare each hard example with each new sample.
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
        each = [masks_of_batch(xp, own, n_fresh, fresh_repeats) for own in batch]
        return tuple(xp.stack(masks) for masks in zip(*each, strict=True))
    order = batch.argsort(stable=True)
    ordered = batch[order]
    repeated = xp.zeros_like(batch, dtype=xp.bool)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return (batch[..., None] == remembered).any(-1), repeated


def arrays(scores, target, weight):
    """Return numpy (on a CPU) or torch, and scores, positives and weights of this array type."""
    scores = scores.detach()
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    positive = target if target.dtype == torch.bool else target == 1
    if scores.device.type != "cpu":
        return torch, scores, positive, weight
    weight = None if weight is None else weight.numpy()
    return np, scores.numpy(), positive.numpy(), weight


def as_arrays(xp, tensor):
    """Return a tensor as an array of `xp`, which is numpy or torch."""
    return tensor.numpy() if xp is np else tensor


def as_tensor(array):
    """Convert an array or a NumPy number to a tensor. Tensors are returned unchanged."""
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(np.asarray(array))


def located_by_autograd(xp, threshold, scores, positive, order, counts):
    """Return a threshold and its gradient, for threshold functions without a method `locate`."""
    scores, positive, order, counts = map(torch.as_tensor, (scores, positive, order, counts))
    weight = torch.empty_like(counts)
    weight[order] = counts
    t, share = with_gradient(threshold, scores, positive, weight)
    t = t.to(scores.dtype).reshape(1)
    return as_arrays(xp, t), slice(None), as_arrays(xp, share)


def with_gradient(threshold, scores, *args):
    """Return the thresholds, and the gradient of their sum (without thresholds of -infinity)."""
    leaf = scores.detach().requires_grad_()
    with torch.enable_grad():
        t, share = threshold(leaf, *args), None
        if t.requires_grad:
            total = torch.where(t == -math.inf, 0.0, t).sum() if t.ndim else t
            (share,) = torch.autograd.grad(total, leaf, allow_unused=True)
    return t.detach(), torch.zeros_like(leaf) if share is None else share
