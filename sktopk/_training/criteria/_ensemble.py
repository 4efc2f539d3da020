"""Loss of an ensemble of networks: the mean of the losses of its members."""

import copy

import torch
from torch import nn

from ._base import Criterion
from ._mixture import TwoClassCrossEntropy, cross_entropy_of_members
from ._top import can_join, losses_of_members


class EnsembleLoss(Criterion):
    r"""Loss that trains each ensemble member independently of the others.

    .. math::
        \frac{1}{M} \sum_{m=1}^M L\bigl(f_m(x), y, w_m\bigr)

    If each term of the loss depends on one sample, all members share one criterion. Otherwise each
    member has its own criterion, for example with its own threshold. Members also have their own
    criteria if the loss depends on class totals and the members hold out different samples. The
    validation loss is computed from the mean score of the members.

    Scores have shape (n_samples, n_members, n_outputs). Weights have shape (n_samples,) or, if each
    member has its own weights, (n_samples, n_members).

    `criterion` is the criterion of one member. `own_rows` tells whether members hold out samples.
    """

    def __init__(self, criterion, n_members, own_rows=False):
        super().__init__()
        self.n_members, self.draws = n_members, criterion.draws
        self.joins = criterion.of_rows and not (own_rows and criterion.has_totals)
        n_criteria = 1 if self.joins else n_members
        each = [criterion, *(copy.deepcopy(criterion) for _ in range(n_criteria - 1))]
        self.criteria = nn.ModuleList(each)
        self.losses = list(self.criteria)
        self._join_hard_rows()

    def _join_hard_rows(self):
        hard = [each.hard_rows for each in self.criteria if each.hard_rows is not None]
        self.hard_rows = MemberHardRows(hard) if hard else None

    def set_groups(self, make):
        for m, criterion in enumerate(self.criteria):
            criterion.set_groups(None if make is None else lambda _, m=m: make(m))
        self._join_hard_rows()

    def begin(self, class_total, mean_weight, *, resumed=False):
        # If members hold out samples, class_total and mean_weight have one column per member.
        for m, criterion in enumerate(self.criteria):
            criterion.n_processes = self.n_processes
            total, mean = class_total, mean_weight
            if total.ndim > 1:
                total, mean = total[:, m], mean[:, m]
            criterion.begin(total, mean, resumed=resumed)

    def seed(self, generator):
        super().seed(generator)
        for criterion in self.criteria:
            criterion.seed(generator)

    def get_extra_state(self):
        # Save nothing here: the criterion of each member saves its own state.
        return None

    def set_extra_state(self, state):
        pass

    def forward(self, scores, target, sample_weight=None):
        return self.criteria[0](scores, target, sample_weight)

    def gradient(self, scores, target, weight):
        scores, weight = scores.detach(), self._by_member(weight)
        if self.joins:
            target = target.repeat_interleave(self.n_members)
            weight = None if weight is None else weight.flatten()
            loss, gradient = self.criteria[0].gradient(scores.flatten(0, 1), target, weight)
            return loss, gradient.view_as(scores)
        if self.hard_rows is None and isinstance(self.criteria[0], TwoClassCrossEntropy):
            # One operation on the scores of all members is faster than one per member.
            values = self.criteria, scores, target, weight, self.criteria[0].n_processes
            loss, gradient = cross_entropy_of_members(*values)
            return loss, gradient / self.n_members
        places = [torch.arange(len(scores), device=scores.device)] * self.n_members
        if self.hard_rows is not None:
            places = self.hard_rows.places(len(scores), scores.device)
        gradient = torch.zeros_like(scores)
        if can_join(self.criteria, scores):
            places = torch.stack(places)
            own = scores.squeeze(2).T.gather(1, places)
            weight = None if weight is None else weight.T.gather(1, places)
            losses, own, t = losses_of_members(self.criteria, own, target[places], weight)
            gradient.squeeze(2).T.scatter_add_(1, places, own)
            self.trace.setdefault("threshold", []).append(t.mean(0))
            return losses.mean(), gradient / self.n_members
        losses = []
        for m, (criterion, place) in enumerate(zip(self.criteria, places, strict=True)):
            own_weight = None if weight is None else weight[place, m]
            loss, own = criterion.gradient(scores[place, m], target[place], own_weight)
            losses.append(torch.as_tensor(loss))
            gradient[:, m].index_add_(0, place, own)
        for name, found in self.criteria[0].trace.items():
            if found:
                values = [torch.as_tensor(each.trace[name].pop()) for each in self.criteria]
                self.trace.setdefault(name, []).append(torch.stack(values).mean(0))
        return torch.stack(losses).mean(), gradient / self.n_members

    def _by_member(self, weight):
        if weight is None:
            return None
        weight = weight.unsqueeze(1) if weight.ndim == 1 else weight
        return weight.expand(-1, self.n_members)


class MemberHardRows:
    """Hard examples of an ensemble. The list `each` contains one `HardRows` per member."""

    def __init__(self, each):
        self.each = each

    @property
    def size(self):
        """Return the maximum number of hard examples in a minibatch."""
        return sum(hard.size for hard in self.each)

    def join(self, index):
        """Append the indices of the hard examples to the sample indices of a minibatch."""
        n_fresh = len(index)
        of_member = [hard.join(index)[n_fresh:] for hard in self.each]
        lengths = [len(own) for own in of_member]
        own = self.index = torch.cat(of_member)
        place = torch.arange(len(own), device=own.device)
        if own.device.type == "cpu":
            # Append a hard example of several members once. On a GPU, `unique` would synchronize.
            self.index, place = own.unique(return_inverse=True)
        self._places = [n_fresh + part for part in place.split(lengths)]
        return torch.cat([index, self.index.to(index.device)])

    def places(self, n_rows, device):
        """Return each member's positions in the minibatch: new samples and its hard examples."""
        one = self.each[0]
        if one.batch is None:
            return [torch.arange(n_rows, device=device)] * len(self.each)
        fresh = torch.arange(one.n_fresh, device=device)
        return [torch.cat([fresh, own]) for own in self._places]
