"""Training on a few of very many classes at a time."""

from contextlib import contextmanager

import torch

from sktopk.modules._scaled_scores import last_layer

from ._class_blocks import CutNetwork, cut
from ._net import Net
from ._process import world_size

# Room for the labels of a chunk among its columns: with it, a chunk has at most half as many rows.
_CHUNK_LABELS = 1 << 11


class CandidateNet(Net):
    """A net of which a training step sees the candidates of its batch alone.

    For the length of a step the rows of the candidates take the place of the last layer's
    parameters, and of what the optimizer remembers of them; then they are written back. So
    everything that has a part in a step costs what a few classes cost, and the rows of all other
    classes stay as they are: no gradient, no weight decay, no decay of moments.
    """

    def check_last_layer(self, rows):
        """Raise unless the rows of the last layer are the classes, and nothing comes behind it."""
        if world_size() > 1:
            raise ValueError(
                "n_candidates is for one process: each of several would train rows of its own; "
                f"got {world_size()} processes"
            )
        if cut(self, rows) is None:
            raise ValueError(
                "n_candidates needs a module that ends in an nn.Linear (or NormalizedLinear), "
                f"registered last, with {self.n_outputs} outputs, one per class, whose parameters "
                f"no other layer uses; got {type(self.network).__name__}, which ends otherwise"
            )

    def step(self, batch):
        """One step of the optimizer on the candidates; returns the loss and their scores."""
        rows, (target, weight) = batch
        candidates = self.criterion_.draw(target)
        if len(candidates.classes) == self.n_outputs:
            return super().step(batch)
        with self._only(candidates.classes):
            loss, scores = super().step((rows, (candidates, weight)), len(candidates.classes))
            # Without its graph, which would hold on to parameters of this shape.
            return loss, scores.detach()

    def mean_loss(self, X, y):
        """Mean loss of rows whose class was seen in training, each chunk on its own candidates."""
        parts, rows = CutNetwork(self), self.rows(X)
        generator, total, n_known = self.criterion_.generator, 0.0, 0
        state = generator.get_state()
        # The labels of its rows, too, are columns of the scores.
        for chunk in rows.chunks(self.criterion_.n_candidates + _CHUNK_LABELS):
            target = torch.from_numpy(y[chunk]).to(rows.device)
            known = target >= 0
            if not known.any():
                continue
            candidates = self.criterion_.draw(target[known])
            scores = parts.scores(parts.features(rows[chunk]), candidates.classes)
            n_rows = int(known.sum())
            total += self.criterion_(scores[known], candidates).item() * n_rows
            n_known += n_rows
        generator.set_state(state)
        return total / max(n_known, 1)

    @contextmanager
    def _only(self, classes):
        """Let the last layer have the rows of `classes`, in ascending order, and no others."""
        parameters = list(last_layer(self.module_, self.n_outputs).parameters())
        whole = [(each.data, dict(self.optimizer_.state.get(each, {}))) for each in parameters]
        # Of a class that is there several times, the first row counts.
        first = torch.searchsorted(classes, classes)
        for parameter, (data, state) in zip(parameters, whole, strict=True):
            parameter.data = data[classes]
            for name, value in state.items():
                if _has_shape(value, data.shape):
                    self.optimizer_.state[parameter][name] = value[classes]
        try:
            yield
        finally:
            for parameter, (data, before) in zip(parameters, whole, strict=True):
                rows = parameter.data
                data.index_copy_(0, classes, rows[first])
                state = self.optimizer_.state.get(parameter, {})
                for name, value in state.items():
                    if _has_shape(value, rows.shape):
                        # Adam, AdamW and SGD start from zeros.
                        known = before.get(name)
                        kept = torch.zeros_like(data) if known is None else known
                        state[name] = kept.index_copy_(0, classes, value[first])
                parameter.grad, parameter.data = None, data


def _has_shape(value, shape):
    return isinstance(value, torch.Tensor) and value.shape == shape
