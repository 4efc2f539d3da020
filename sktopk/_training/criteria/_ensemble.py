"""The loss of several networks: the mean of their losses, each on its own scores."""

import copy

import torch
from torch import nn

from ._base import Criterion
from ._phases import TwoClassCrossEntropy, cross_entropy_of_members
from ._top import can_join, losses_of_members


class EnsembleLoss(Criterion):
    r"""Train the members of a network side by side, each as if it were alone.

    .. math::
        \frac{1}{M} \sum_{m=1}^M L\bigl(f_m(x), y, w_m\bigr)

    and not the loss of their mean, which would make them depend on each other.

    A loss of rows takes the scores of all members as so many rows; one of a batch as a whole has
    a criterion for each member, with a threshold and hard rows of its own, and so has one that
    depends on the totals of classes if each member has totals of its own.

    Scores have shape (n_samples, n_members, n_outputs), weights that of the rows, or
    (n_samples, n_members) where each member has its own. Rows that are no batch have the mean of
    the scores, and the loss of that.

    Parameters
    ----------
    criterion : Criterion
        That of one member.
    n_members : int
    own_rows : bool, default=False
        Whether each member has rows of its own.
    """

    def __init__(self, criterion, n_members, own_rows=False):
        super().__init__()
        self.n_members, self.is_mean = n_members, criterion.is_mean
        self.joins = criterion.of_rows and not (own_rows and criterion.has_totals)
        n_criteria = 1 if self.joins else n_members
        each = [criterion, *(copy.deepcopy(criterion) for _ in range(n_criteria - 1))]
        self.criteria = nn.ModuleList(each)
        self.losses = list(self.criteria)
        self.draws, self.remedies = criterion.draws, criterion.remedies
        self.takes_scores = criterion.takes_scores
        self._join_hard_rows()

    def _join_hard_rows(self):
        hard = [each.hard_rows for each in self.criteria if each.hard_rows is not None]
        self.hard_rows = MemberHardRows(hard) if hard else None

    def set_groups(self, make):
        """Take a mean over groups in the loss of each member; see the base."""
        for m, criterion in enumerate(self.criteria):
            criterion.set_groups(None if make is None else lambda _, m=m: make(m))
        self._join_hard_rows()

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        """Take note of the rows in training, for each member; see :meth:`Criterion.begin`.

        With members that leave out rows, `class_total` and `mean_weight` have shape
        (n_classes, n_members).
        """
        each = class_total.ndim > 1
        for m, criterion in enumerate(self.criteria):
            criterion.n_processes = self.n_processes
            total, mean = class_total, mean_weight
            if each:
                total, mean = total[:, m], mean[:, m]
            criterion.begin(total, mean, n_rows, resumed=resumed)

    def seed(self, generator):
        super().seed(generator)
        for criterion in self.criteria:
            criterion.seed(generator)

    def get_extra_state(self):
        """Nothing: the criteria of the members keep their state, the generator among it."""
        return None

    def set_extra_state(self, state):
        """Take back nothing."""

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are no batch, from the mean scores of the members."""
        return self.criteria[0](scores, target, sample_weight)

    def backward(self, scores, target, weight):
        """Send the gradient of the mean of the losses into the network; see the base."""
        if self.joins:
            target = target.repeat_interleave(self.n_members)
            if weight is not None:
                weight = weight.unsqueeze(1) if weight.ndim == 1 else weight
                weight = weight.expand(-1, self.n_members).flatten()
            return self.criteria[0].backward(scores.flatten(0, 1), target, weight)
        loss, gradient = self.gradient(scores, target, weight)
        scores.backward(gradient)
        return loss

    def gradient(self, scores, target, weight):
        """Return the mean of the losses and its gradient; see the base."""
        if self.joins:
            return super().gradient(scores, target, weight)
        if self.hard_rows is None and isinstance(self.criteria[0], TwoClassCrossEntropy):
            # A batch of small steps costs more by their number than by their size.
            loss, gradient = cross_entropy_of_members(self.criteria, scores, target, weight)
            return loss, gradient / self.n_members
        places = [torch.arange(len(scores), device=scores.device)] * self.n_members
        if self.hard_rows is not None:
            places = self.hard_rows.places(len(scores), scores.device)
        if can_join(self.criteria, scores.detach()):
            return self._at_once(scores, target, weight, torch.stack(places))
        losses, gradient = [], torch.zeros_like(scores)
        for m, (criterion, place) in enumerate(zip(self.criteria, places, strict=True)):
            own_weight = weight
            if weight is not None:
                own_weight = (weight if weight.ndim == 1 else weight[:, m])[place]
            own = scores.detach()[place, m], target[place], own_weight
            loss, own_gradient = criterion.gradient(*own)
            losses.append(loss)
            gradient[:, m].index_add_(0, place, own_gradient)
        for name, found in self.criteria[0].trace.items():
            if found:
                # The mean over the members.
                values = [torch.as_tensor(each.trace[name].pop()) for each in self.criteria]
                self.trace.setdefault(name, []).append(torch.stack(values).mean(0))
        loss = torch.stack([torch.as_tensor(loss) for loss in losses]).mean()
        return loss, gradient / self.n_members

    def _at_once(self, scores, target, weight, places):
        """What `gradient` returns, where the members look at these rows (n_members, n_samples)."""
        own = scores.detach().squeeze(2).T.gather(1, places)
        if weight is not None:
            weight = weight[places] if weight.ndim == 1 else weight.T.gather(1, places)
        losses, own_gradient, t = losses_of_members(self.criteria, own, target[places], weight)
        self.trace.setdefault("threshold", []).append(t.mean(0))
        gradient = torch.zeros_like(scores)
        gradient.squeeze(2).T.scatter_add_(1, places, own_gradient)
        return losses.mean(), gradient / self.n_members


class MemberHardRows:
    """The hard rows of all members, joined to each batch one member after the other.

    Parameters
    ----------
    each : list of HardRows

    Attributes
    ----------
    index : Tensor
        Row numbers of the remembered rows that joined the last batch.
    """

    def __init__(self, each):
        self.each = each

    @property
    def size(self):
        """Most rows that are joined to a batch."""
        return sum(hard.size for hard in self.each)

    def join(self, index):
        """Row numbers of a batch followed by the remembered ones, each once where that is free."""
        n_fresh = len(index)
        of_member = [hard.join(index)[n_fresh:] for hard in self.each]
        lengths = [len(own) for own in of_member]
        own = self.index = torch.cat(of_member)
        place = torch.arange(len(own), device=own.device)
        if own.device.type == "cpu":
            # Members find the same rows hard; a GPU would have to wait for their number.
            self.index, place = own.unique(return_inverse=True)
        self._places = [n_fresh + part for part in place.split(lengths)]
        return torch.cat([index, self.index.to(index.device)])

    def n_fresh_of(self, n_rows):
        """How many of the rows of a batch did not join it for being hard."""
        return self.each[0].n_fresh_of(n_rows)

    def places(self, n_rows, device):
        """Where the rows stand in a joined batch of `n_rows` that each member looks at."""
        fresh = torch.arange(self.n_fresh_of(n_rows), device=device)
        if self.each[0].batch is None:
            return [fresh] * len(self.each)
        return [torch.cat([fresh, own]) for own in self._places]
