"""The best classes of each row, found without the scores of all classes at once."""

import copy
from itertools import chain

import torch
from torch import nn
from torch.func import functional_call

from sktopk.losses._elementary_symmetric import largest
from sktopk.modules import MemberLinear, Members, ScaledScores
from sktopk.modules._members import mean_of_members
from sktopk.modules._scaled_scores import last_layer

from ._process import note_threads

# Classes scored at a time: a block of them and of rows fits the cache.
BLOCK_CLASSES = 1 << 13


def class_axis(layer):
    """The axis of the parameters of a last linear layer that is that of the classes."""
    return 1 if isinstance(layer, MemberLinear) else 0


def last_layers(net):
    """The last linear layer of the network, or of each of several that share none; or None."""
    module = net.module_
    modules = module if isinstance(module, Members) else [module]
    return [last_layer(each, net.n_outputs) for each in modules]


class _LastInput(nn.Module):
    """In the place of a last layer: keeps what that is given."""

    def forward(self, x):
        self.seen = x
        return x


class CutModule:
    """A module before and in its last layer, to score some classes alone.

    Both parts are new modules around the parameters of the module, which is left alone: threads
    may each have their own.

    Parameters
    ----------
    module : nn.Module
    layer : nn.Linear, NormalizedLinear or MemberLinear
        The last of its layers.
    """

    def __init__(self, module, layer):
        self.scale = 1
        if isinstance(module, ScaledScores):
            module, self.scale = module.module, module.scale
        self.axis, self.parameters = class_axis(layer), dict(layer.named_parameters())
        # What a deep copy is told to have seen already, it shares.
        shared = {id(each): each for each in chain(module.parameters(), module.buffers())}
        self.end = _LastInput()
        self.before = copy.deepcopy(module, {id(layer): self.end, **shared}).eval()
        self.layer = copy.deepcopy(layer, shared).eval()

    def features(self, rows):
        """What the last layer is given for `rows`."""
        self.before(rows)
        return vars(self.end).pop("seen")

    def scores(self, features, classes):
        """Scores (n_samples, m), of several in a MemberLinear (n_samples, n_members, m)."""
        index = (slice(None),) * self.axis + (classes,)
        rows = {name: value[index] for name, value in self.parameters.items()}
        scores = functional_call(self.layer, rows, (features,))
        if self.axis:
            scores = scores[0] if len(scores) == 1 else scores.transpose(0, 1)
        return scores if self.scale == 1 else self.scale * scores


class CutNetwork:
    """A trained network before and in its last layer, or in those of its members.

    Parameters
    ----------
    net : Net
        Its module must end in a linear layer, or in one for each member, see `cut`.
    """

    def __init__(self, net):
        self.net, layers = net, last_layers(net)
        if None in layers:
            raise ValueError("there is no last linear layer with one output per class")
        modules = net.module_ if isinstance(net.module_, Members) else [net.module_]
        self.parts = [CutModule(*each) for each in zip(modules, layers, strict=True)]

    @torch.inference_mode()
    def features(self, rows):
        """What each last layer is given for `rows`."""
        with self.net.autocast():
            return [part.features(rows) for part in self.parts]

    @torch.inference_mode()
    def member_scores(self, features, classes):
        """Scores of the m classes of an index or slice, in the shape of those of the module.

        That is (n_samples, m) or, of several members, (n_samples, n_members, m).
        """
        pairs = zip(self.parts, features, strict=True)
        with self.net.autocast():
            scores = [part.scores(each, classes) for part, each in pairs]
        scores = scores[0] if len(scores) == 1 else torch.stack(scores, dim=1)
        return scores.to(self.net.dtype)

    def scores(self, features, classes):
        """Scores (n_samples, m) of the m classes of an index or slice, the mean of the members'."""
        return mean_of_members(self.member_scores(features, classes))

    def is_true(self, rows):
        """Tell whether the parts give the scores of the whole, for all classes and for few.

        The whole has to be in the mode of evaluation.
        """
        before = {id(each) for part in self.parts for each in part.before.parameters()}
        last = [(part.axis, each) for part in self.parts for each in part.parameters.values()]
        numbers = {id(each) for _, each in last}
        # Each is used once, and has a row for each class.
        if before & numbers or len(numbers) < len(last):
            return False
        if any(each.ndim <= axis or each.shape[axis] != self.net.n_outputs for axis, each in last):
            return False
        with torch.inference_mode(), self.net.autocast():
            whole = self.net.module_(rows).to(self.net.dtype)
        features = self.features(rows)
        if not torch.equal(whole, self.member_scores(features, slice(None))):
            return False
        few = torch.tensor([0, self.net.n_outputs - 1], device=whole.device)
        difference = (whole[..., few] - self.member_scores(features, few)).abs().max()
        return bool(difference <= 0.01 * whole.abs().max())


def cut(net, rows):
    """Return the `CutNetwork` of a net, or None where the first rows show that it is another.

    That a module ends in its last linear layer, with nothing behind that, can only be seen by its
    scores.
    """
    if net.answer.n_heads > 1:
        return None
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
    few = k < BLOCK_CLASSES and net.n_outputs > 4 * BLOCK_CLASSES
    if few and len(rows) and not net.is_limited:
        parts = cut(net, rows)
    if parts is None:
        for chunk, scores in net.score_rows(rows):
            yield chunk, first_largest(scores, k)[1]
        return
    for chunk in rows.chunks(net.n_members * BLOCK_CLASSES):
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
