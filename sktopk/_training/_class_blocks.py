"""The best classes of each row, found without the scores of all classes at once."""

import copy
from itertools import chain

import torch
from torch import nn
from torch.func import functional_call

from sktopk.losses._elementary_symmetric import largest
from sktopk.modules import MemberLinear, ScaledScores
from sktopk.modules._scaled_scores import last_layer

from ._process import note_threads

# Classes scored at a time: a block of them and of rows fits the cache.
BLOCK_CLASSES = 1 << 13


class CutNetwork:
    """A trained network before and in its last layer, to score some classes alone.

    Both parts are new modules around the parameters of the network, which is left alone:
    threads may each have their own.

    Parameters
    ----------
    net : Net
        Its module must end in a linear layer, see `cut`.
    """

    def __init__(self, net):
        self.net, module, self.scale = net, net.module_, 1
        if isinstance(module, ScaledScores):
            module, self.scale = module.module, module.scale
        layer = last_layer(module, net.n_outputs)
        # The rows of a MemberLinear are its members, not the classes.
        if layer is None or isinstance(layer, MemberLinear):
            raise ValueError("there is no last linear layer with one output per class")
        self.parameters = dict(layer.named_parameters())
        # What a deep copy is told to have seen already, it shares.
        shared = {id(each): each for each in chain(module.parameters(), module.buffers())}
        self.before = copy.deepcopy(module, {id(layer): nn.Identity(), **shared}).eval()
        self.layer = copy.deepcopy(layer, shared).eval()

    @torch.inference_mode()
    def features(self, rows):
        """What the last layer is given for `rows`."""
        with self.net.autocast():
            return self.before(rows)

    @torch.inference_mode()
    def scores(self, features, classes):
        """Scores (n_samples, m) of the m classes of an index or slice."""
        rows = {name: value[classes] for name, value in self.parameters.items()}
        with self.net.autocast():
            scores = functional_call(self.layer, rows, (features,))
            scores = scores if self.scale == 1 else self.scale * scores
        return scores.to(self.net.dtype)

    def is_true(self, rows):
        """Tell whether the parts give the scores of the whole, for all classes and for few.

        The whole has to be in the mode of evaluation.
        """
        used_twice = {*map(id, self.before.parameters())} & {*map(id, self.parameters.values())}
        if used_twice or {len(value) for value in self.parameters.values()} != {self.net.n_outputs}:
            return False
        with torch.inference_mode(), self.net.autocast():
            whole = self.net.module_(rows).to(self.net.dtype)
        features = self.features(rows)
        if not torch.equal(whole, self.scores(features, slice(None))):
            return False
        few = torch.tensor([0, self.net.n_outputs - 1], device=whole.device)
        difference = (whole[:, few] - self.scores(features, few)).abs().max()
        return bool(difference <= 0.01 * whole.abs().max())


def cut(net, rows):
    """Return the `CutNetwork` of a net, or None where the first rows show that it is another.

    That a module ends in its last linear layer, with nothing behind that, can only be seen by its
    scores.
    """
    first = rows[:2]

    def parts_of():
        parts = CutNetwork(net)
        return parts if parts.is_true(first) else None

    try:
        return net.evaluated(parts_of)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None


def first_largest(scores, k):
    """The `k` largest scores of each row, best first, and their columns; tied ones in order."""
    if k == 1:
        return scores.max(1, keepdim=True)
    values, columns = largest(scores, min(k + 1, scores.shape[1]))
    tied = (values[:, k - 1 : k] == values[:, k:]).any(1)
    columns = columns[:, :k]
    if tied.any():
        columns = columns.clone()
        columns[tied] = _first_columns(scores[tied], values[tied, k - 1].unsqueeze(1), k)
    columns = columns.sort(1).values
    values, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, order)


def _first_columns(scores, kth, k):
    """Columns of the `k` largest scores where the k-th stands more than once."""
    above = ~(scores <= kth)
    level = scores == kth
    room = k - above.sum(1, keepdim=True)
    kept = above | (level & (level.cumsum(1, dtype=torch.int32) <= room))
    return kept.nonzero()[:, 1].view(-1, k)


def best_classes(net, rows, k):
    """Yield ``(slice, classes)`` over chunks of rows: the `k` classes of highest score.

    They come best first, tied ones in their order. Of more than a few `BLOCK_CLASSES` classes a
    network that ends in a linear layer scores one block after another.

    Parameters
    ----------
    net : Net
    rows : Rows
    k : int
    """
    note_threads()
    parts = None
    # Of fewer classes, as many rows as there are room for are as fast whole.
    if k < BLOCK_CLASSES and net.n_outputs > 4 * BLOCK_CLASSES and len(rows):
        parts = cut(net, rows)
    if parts is None:
        for chunk, scores in net.score_rows(rows):
            yield chunk, first_largest(scores, k)[1]
        return
    for chunk in rows.chunks(BLOCK_CLASSES):
        values = rows[chunk]
        yield chunk, net.evaluated(lambda values=values: _best_of_blocks(parts, values, k))


def _best_of_blocks(parts, rows, k):
    """The `k` classes of highest score of each row, by the blocks of a `CutNetwork`."""
    features, n_outputs = parts.features(rows), parts.net.n_outputs
    values, classes = first_largest(parts.scores(features, slice(BLOCK_CLASSES)), k)
    for start in range(BLOCK_CLASSES, n_outputs, BLOCK_CLASSES):
        scores = parts.scores(features, slice(start, start + BLOCK_CLASSES))
        # Of tied classes those found before stay: they have lower numbers.
        better = (scores.amax(1) > values[:, -1]).nonzero().squeeze(1)
        if len(better):
            found, columns = first_largest(scores[better], min(k, scores.shape[1]))
            found = torch.cat([values[better], found], dim=1)
            columns = torch.cat([classes[better], columns + start], dim=1)
            values[better], order = first_largest(found, k)
            classes[better] = columns.gather(1, order)
    return classes
