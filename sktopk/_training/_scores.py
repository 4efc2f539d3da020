"""Scores of a trained network for new or held-out samples, and the loss of held-out samples."""

import numpy as np
import torch

from sktopk._common._process import note_threads
from sktopk._common._samples import HeldOut
from sktopk.modules._tabular_mlp import mean_of_members, score_of_member

from ._batches import totals_of
from ._objectives import Drawn, Totals

# Number of scores per chunk when the loss of held-out samples is computed.
LOSS_NUMBERS = 1 << 23


def score_chunks(net, X, module=None):
    """Yield the scores chunk by chunk. The network stays in eval mode until the last chunk.

    X is a table of samples or a `Rows` object. Scores have shape (n[, n_members], n_outputs).
    """
    module, settings, rows = module or net.module_, net.settings, net.rows(X)
    note_threads()
    training = [part for part in net.module_.modules() if part.training]
    net.module_.eval()
    try:
        for x in rows.read(rows.chunks(settings.n_members * settings.task.n_outputs)):
            # Predict without mixed precision, because rounding would cause ties between scores.
            with torch.inference_mode():
                scores = module(x)
            yield scores.to(settings.dtype)
    finally:
        for part in training:
            part.training = True


def scores_of(net, X):
    """Return the scores averaged over networks, an array (n_samples, n_outputs).

    If X is a `HeldOut`, the score of a sample is the mean over the networks that hold it out.
    """
    if isinstance(X, HeldOut):
        return np.concatenate([scores for _, scores in scores_by_fold(net, X)])
    return concatenated((mean_of_members(each).cpu() for each in score_chunks(net, X)), X).numpy()


def scores_by_fold(net, X, encoded=None):
    """Yield two values per fold of a `HeldOut`: its slice, and the mean scores of its networks.

    `encoded` (None, or the encoded `Rows` of all samples) is used if this is faster.
    """
    sizes = [own.stop - own.start for own, members in X.parts for _ in members]
    if encoded is None or len(sizes) * max(sizes) > 2 * sum(sizes):
        for own, members in X.parts:
            rows = net.rows(X.part(own))
            each = (score_chunks(net, rows, score_of_member(net.module_, m)) for m in members)
            yield own, sum(concatenated(part, rows).cpu() for part in each).numpy() / len(members)
        return
    # All networks score at the same time, each its own fold. Sample 0 fills up shorter folds.
    index, found = torch.zeros(len(sizes), max(sizes), dtype=torch.long), []
    for own, members in X.parts:
        index[members, : own.stop - own.start] = torch.from_numpy(X.index[own])
    index = index.to(encoded.device) if encoded.resident else index
    with torch.inference_mode():
        for some in index.split(-(-encoded.chunks(1)[0].stop // len(index)), dim=1):
            x = encoded[some.flatten()].unflatten(0, some.shape)
            found.append(net.module_.forward(x, encoded=True).view(some.shape[1], len(index), -1))
    scores = torch.cat(found).cpu()
    for own, members in X.parts:
        yield own, scores[: own.stop - own.start, members].mean(1).numpy()


def scores_by_member(net, X):
    """Return the first output of each network, an array (n_samples, n_members)."""
    each = (scores.view(len(scores), net.settings.n_members, -1) for scores in score_chunks(net, X))
    return concatenated((scores[..., 0].cpu() for scores in each), X).numpy()


def concatenated(chunks, X):
    """Return the scores of all chunks of X as one tensor (n_samples, n_columns)."""
    # A list of scores would fragment the memory, so that each chunk needs new memory for its rows.
    start = 0
    for scores in chunks:
        if not start:
            found = scores.new_empty(X.shape[0], scores.shape[1:].numel())
        found[start : start + len(scores)] = scores.reshape(len(scores), -1)
        start += len(scores)
    return found[:start]


def loss_of(net, scores, target, weight, totals):
    """Return the mean loss of all samples except those with an unknown label (target -1)."""
    objective, known = net.criterion_, target >= 0
    noise = objective.generator
    state = None if noise is None else noise.get_state()
    scores, target, weight = scores[known], target[known], weight[known].astype(np.float64)
    if not (whole := weight.sum()):
        return 0.0
    device, weighted, loss = totals.unit.device, not (weight == 1).all(), 0.0
    mean = totals_of(target, weight, (1, len(totals.weight)), device).mean
    values = scores, target, weight
    # Use chunks to save memory, if the loss is a mean over samples.
    step = len(target) if objective.compares else max(1, LOSS_NUMBERS // scores.shape[1])
    for start in range(0, len(target), step):
        part = [torch.from_numpy(v[start : start + step]).to(device)[None] for v in values]
        # Objectives divide by the number of samples times `unit`, here the chunk's mean weight.
        drawn = Drawn(Totals(totals.weight[:, :1], mean, part[2].mean().reshape(1)))
        with torch.no_grad():
            value = objective(*part[:2], part[2] if weighted else None, drawn).item()
        loss += value * float(part[2].sum() / whole)
    if state is not None:
        noise.set_state(state)
    return loss
