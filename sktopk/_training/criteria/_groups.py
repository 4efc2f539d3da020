"""Accuracy at the top within groups, for minibatches of whole groups or parts of groups."""

import math

import numpy as np
import torch

from sktopk.losses._accuracy_at_top import SLOPES, SURROGATES, distance, largest_score
from sktopk.losses._groups import Ordered, sum_in
from sktopk.losses._loss import nan_above
from sktopk.losses._thresholds import Largest, falling

from ._top import HardRows, with_gradient


class GroupRows(HardRows):
    r"""Loss averaged over groups of samples, and hard examples of groups larger than a minibatch.

    .. math:: L = \frac{1}{G} \sum_g L_g, \qquad
        L \approx \frac{B}{G} \sum_{g \text{ in the minibatch}} \frac{L_g}{P_g}

    where :math:`L_g` is the loss of group g, :math:`P_g` its number of parts, B the number of
    minibatches and G the number of groups that can have errors. The threshold of a whole group is
    exact. For a part, the threshold is an estimate with hard examples (see :class:`TopCriterion`).

    Parameters
    ----------
    codes : Tensor of int of shape (n_samples,)
        Group number of each sample.
    n_parts : ndarray of int of shape (n_groups,)
        Number of minibatches per epoch that contain samples of the group.
    n_batches : int
    class_total, mean_weight : ndarray of shape (2, n_groups)
        Sum and mean of sample weights by class and group, see :meth:`Criterion.begin`.
    """

    def __init__(self, codes, n_parts, n_batches, class_total, mean_weight):
        self.codes, self.n_batches = codes, n_batches
        self.n_parts, self.n_cut = n_parts, int(np.count_nonzero(n_parts > 1))
        place = np.where(n_parts > 1, np.cumsum(n_parts > 1) - 1, -1)
        self.place = torch.from_numpy(place).to(codes.device)
        self._totals = class_total, mean_weight
        self.class_total = torch.from_numpy(class_total).to(codes.device)
        self._shares = {}
        super().__init__(0)

    def hold(self, size):
        """Set the number of hard examples for each group that is larger than a minibatch."""
        self.size = size if self.n_cut else 0
        self.forget()

    def forget(self):
        super().forget()
        self.of_group = torch.full((self.n_cut, self.size), -1, device=self.codes.device)

    def carry(self, rows, target, weight):
        """Do nothing: hard examples of a group are useless for data with other groups."""

    def join(self, index):
        index = index.to(self.codes.device)
        if self.size:
            place = self.place[self.codes[index]]
            present = torch.zeros(self.n_cut, dtype=torch.bool, device=index.device)
            present[place[place >= 0]] = True
            self.index = self.of_group[present].flatten()
            self.index = self.index[self.index >= 0]
        return super().join(index)

    def get_state(self):
        return {"index": self.of_group.cpu(), "carried": None}

    def set_state(self, state):
        self.of_group = state["index"].to(self.codes.device)

    def loss_and_gradient(self, criterion, scores, target, weight):
        """Return three tensors: the loss of a minibatch, its gradient and the mean threshold."""
        batch, n_fresh = self.batch, self.n_fresh
        values = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        values = values.flatten()
        positive = target if target.dtype == torch.bool else target == 1
        present, codes, own = self._in_batch(weight)
        n_groups = len(present)
        remembered = None
        if n_fresh < len(batch):
            remembered, repeated = self.masks(torch)
            own = own.masked_fill(repeated, 0.0)
        counts = self._counts(own, positive, remembered, codes, present)
        of, threshold = getattr(criterion.threshold, "of", "all"), criterion.threshold
        if of != "all":
            counts = counts.masked_fill(positive != (of == "positives"), 0.0)
        t, index, share, of_share = self._located(
            threshold, values, positive, counts, codes, n_groups
        )
        if self.size:
            smallest = of == "positives" and not isinstance(threshold, Largest)
            self._keep(values if smallest else -values, counts > 0, codes, present)
        # Only new samples of the minibatch count as errors. Hard examples do not count.
        loss, gradient = 0.0, 0.0
        for kind, factor in criterion.kinds:
            above = kind == "false_positives"
            counted = positive ^ above
            counted[n_fresh:] = False
            if weight is not None:
                counted &= weight > 0
            n_rows = sum_in(codes, n_groups, counted.double())
            scale = factor * self._share_of(int(not above))[present] / n_rows.clamp(min=1)
            scale = scale[codes] if weight is None else scale[codes] * weight
            scale = scale.to(values.dtype)
            wrong = distance(torch, t[codes], values, counted, kind)
            loss = loss + (scale * SURROGATES[criterion.surrogate](torch, wrong)).sum()
            slope = scale * SLOPES[criterion.surrogate](torch, wrong)
            gradient = gradient + (slope if above else -slope)
        back = share * sum_in(codes, n_groups, gradient)[of_share]
        gradient = gradient.index_add(0, index, -back.to(gradient.dtype))
        largest = largest_score(torch, values, weight)
        found = t[t > -math.inf]
        mean_t = found.mean() if len(found) else t.new_tensor(-math.inf)
        gradient = nan_above(gradient, largest).view_as(scores).to(scores.dtype)
        return nan_above(loss, largest), gradient, mean_t.reshape(1)

    def in_proportion(self, positive, weight):
        """Return the group and the weight of each sample, and a factor that multiplies the loss.

        With these weights, each group has the same class proportions in the minibatch as in the
        whole training set.
        """
        present, codes, own = self._in_batch(weight)
        counts = self._counts(own, positive, None, codes, present)
        defined = (self._totals[0] > 0).all(0)
        share = defined * self.n_batches / (np.maximum(self.n_parts, 1) * max(1, defined.sum()))
        return codes, counts, torch.from_numpy(share).to(codes.device)[present].sum()

    def _in_batch(self, weight):
        """Return the distinct groups, each sample's index into this list, and weights."""
        present, codes = torch.unique(self.codes[self.batch], return_inverse=True)
        own = torch.ones_like(codes, dtype=torch.float64) if weight is None else weight.double()
        return present, codes, own

    def _share_of(self, label):
        """Return the factor B / (G P_g) of each group (see the class), over the mean weight."""
        if label not in self._shares:
            counts = self._totals[0][label] > 0
            n_parts = np.maximum(self.n_parts, 1)
            share = counts * self.n_batches / (max(1, np.count_nonzero(counts)) * n_parts)
            # Divide by the mean weight. The caller divides by the number of samples.
            share = share / np.where(counts, self._totals[1][label], 1.0)
            self._shares[label] = torch.from_numpy(share).to(self.codes.device)
        return self._shares[label]

    def _counts(self, own, positive, remembered, codes, present):
        """Return each sample's weight in the threshold of its group, as `TopCriterion` defines."""
        known = torch.zeros_like(own) if remembered is None else own * remembered
        others, counts = own - known, known
        for label, mine in enumerate((~positive, positive)):
            there = sum_in(codes, len(present), others * mine)
            missing = self.class_total[label][present]
            missing = missing - sum_in(codes, len(present), known * mine)
            factor = missing.clamp(min=0) / torch.where(there == 0, 1.0, there)
            counts = counts + factor[codes] * others * mine
        return counts

    def _located(self, threshold, values, positive, counts, codes, n_groups):
        """Return four tensors: thresholds, and the sample, value and group of each derivative."""
        if hasattr(threshold, "locate_each"):
            key = falling(torch, values, counts)
            return threshold.locate_each(key, counts, codes, n_groups)
        t, share = with_gradient(threshold, values, positive, counts.to(values.dtype), codes)
        return t, torch.arange(len(values), device=values.device), share, codes

    def _keep(self, key, candidates, codes, present):
        """Store the hard examples of each large group: the candidates with the smallest keys."""
        place = self.place[present]
        self.of_group[place[place >= 0]] = -1
        rows = (candidates & (place[codes] >= 0)).nonzero().squeeze(1)
        weight = torch.ones(len(rows), dtype=torch.float64, device=rows.device)
        ordered = Ordered(key[rows], weight, codes[rows], len(present))
        rank = ordered.within().long() - 1
        hardest = rank < self.size
        rows = rows[ordered.order][hardest]
        self.of_group[place[codes[rows]], rank[hardest]] = self.batch[rows]
