"""Training on a few of very many classes at a time."""

from contextlib import contextmanager

import torch

from sktopk.modules import Members

from ._class_blocks import CutNetwork, class_axis, cut, last_layers
from ._net import Net
from ._process import world_size
from .criteria._sampled import SampledLoss

# Room for the labels of a chunk among its columns: with it, a chunk has at most half as many rows.
_CHUNK_LABELS = 1 << 11


class CandidateNet(Net):
    """A net of which a training step sees the candidates of its batch alone.

    For the length of a step the rows of the candidates take the place of the last layer's
    parameters, and of what the optimizer remembers of them; then they are written back. So
    everything that has a part in a step costs what a few classes cost, and the rows of all other
    classes stay as they are: no gradient, no weight decay, no decay of moments.

    Several members share the draws of a step, and with them one copy of the rows there and back and
    one product: each estimates its own loss, and the mean of the losses asks for nothing that draws
    of their own would add. A label that no row of a member has is no candidate of that member.
    """

    def check_last_layer(self, rows):
        """Raise unless the rows of the last layer are the classes, and nothing comes behind it."""
        if world_size() > 1:
            raise ValueError(
                "n_candidates is for one process: each of several would train rows of its own; "
                f"got {world_size()} processes"
            )
        if cut(self, rows) is None:
            network = self.network
            network = network[0] if self.n_members > 1 and type(network) is Members else network
            raise ValueError(
                "n_candidates needs a module that ends in an nn.Linear (or NormalizedLinear; of "
                f"members in one, MemberLinear), registered last, with {self.n_outputs} outputs, "
                "one per class, whose parameters no other layer uses; got "
                f"{type(network).__name__}, which ends otherwise"
            )

    def step(self, batch):
        """One step of the optimizer on the candidates; returns the loss and their scores."""
        rows, (target, weight) = batch
        # With a column of weights for each member, they have rows of their own.
        seen = weight > 0 if weight is not None and weight.ndim > 1 else None
        candidates = self._losses[0].draw(target, seen)
        n_classes = len(candidates.classes)
        if n_classes == self.n_outputs:
            return super().step(batch)
        own = None if seen is None else candidates.log_weight > -torch.inf
        with self._only(candidates.classes, own), self._weighing(candidates.log_weight):
            batch = rows, (candidates.target, weight)
            loss, scores = super().step(batch, self.n_members * n_classes)
            # Without its graph, which would hold on to parameters of this shape.
            return loss, scores.detach()

    def mean_loss(self, X, y):
        """Mean loss of rows whose class was seen in training, each chunk on its own candidates."""
        parts, rows = CutNetwork(self), self.rows(X)
        sampled = self._losses[0]
        state, total, n_known = sampled.generator.get_state(), 0.0, 0
        # The labels of its rows, too, are columns of the scores.
        n_columns = sampled.n_candidates + _CHUNK_LABELS
        for chunk in rows.chunks(self.n_members * n_columns):
            target = torch.from_numpy(y[chunk]).to(rows.device)
            known = target >= 0
            if not known.any():
                continue
            candidates = sampled.draw(target[known])
            scores = parts.scores(parts.features(rows[chunk]), candidates.classes)
            n_rows = int(known.sum())
            with self._weighing(candidates.log_weight):
                total += self.criterion_(scores[known], candidates.target).item() * n_rows
            n_known += n_rows
        sampled.generator.set_state(state)
        return total / max(n_known, 1)

    @property
    def _losses(self):
        """The losses of candidates within the criterion, which share their draws."""
        return [each for each in self.criterion_.modules() if isinstance(each, SampledLoss)]

    @contextmanager
    def _weighing(self, log_weight):
        """Let the losses be given scores of candidates that stand for so many classes."""
        for each in self._losses:
            each.log_weight = log_weight
        try:
            yield
        finally:
            for each in self._losses:
                each.log_weight = None

    @contextmanager
    def _only(self, classes, own=None):
        """Let the last layer have the rows of `classes`, in ascending order, and no others.

        Of these, `own` (n_members, m) tells which change: those of each member. None is all.
        """
        layers = last_layers(self)
        # One layer of all members, or one of each.
        each = [None] * len(layers) if own is None else own.chunk(len(layers))
        taken = [
            TakenRows(self.optimizer_, parameter, class_axis(layer), classes, which)
            for layer, which in zip(layers, each, strict=True)
            for parameter in layer.parameters()
        ]
        try:
            yield
        finally:
            for each in taken:
                each.put_back()


class TakenRows:
    """Rows of a parameter that take its place, until they are put back.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Adam, AdamW or SGD.
    parameter : Parameter
    axis : int
        That of the classes.
    classes : Tensor of shape (m,)
        In ascending order.
    own : Tensor of bool of shape (n_members, m), or None
        Which of them change, in the layer of so many members; None is all.
    """

    def __init__(self, optimizer, parameter, axis, classes, own):
        self.optimizer, self.parameter, self.axis = optimizer, parameter, axis
        self.classes, self.own = classes, own
        # Of a class that is there several times, the first row counts.
        self.first = torch.searchsorted(classes, classes)
        self.data, self.before = parameter.data, dict(optimizer.state.get(parameter, {}))
        for name, value in self.before.items():
            if self._has_shape(value, self.data):
                optimizer.state[parameter][name] = value.index_select(axis, classes)
        parameter.data = self.data.index_select(axis, classes)

    def put_back(self):
        """Write the rows, and what the optimizer remembers of them, back where they were."""
        parameter, rows = self.parameter, self.parameter.data
        self._write(self.data, rows)
        state = self.optimizer.state.get(parameter, {})
        for name, value in state.items():
            if self._has_shape(value, rows):
                # Adam, AdamW and SGD start from zeros.
                known = self.before.get(name)
                state[name] = torch.zeros_like(self.data) if known is None else known
                self._write(state[name], value)
        parameter.grad, parameter.data = None, self.data

    def _write(self, whole, rows):
        rows = rows.index_select(self.axis, self.first)
        if self.own is not None:
            shape = *rows.shape[: self.axis + 1], *[1] * (rows.ndim - self.axis - 1)
            own = self.own[:, self.first].view(shape)
            rows = torch.where(own, rows, whole.index_select(self.axis, self.classes))
        whole.index_copy_(self.axis, self.classes, rows)

    @staticmethod
    def _has_shape(value, like):
        return isinstance(value, torch.Tensor) and value.shape == like.shape
