"""Rows that later batches are judged against, by row number."""

import math

import numpy as np
import torch

from ._errors_at_score import as_arrays


class HardSamples:
    """Remember the hardest rows so far and join them to each batch.

    The rows are known by their number: their scores are computed anew in each batch, so that
    the gradient through them is right (Adam, Macha, Smidl 2020, algorithm 3.1, step 4).

    The numbers stay on the device where the batches have them. There `size` rows are kept of
    every batch that has as many: how many of them belong to the group is known on the device
    alone, and those that do not count for nothing in the next batch.

    Parameters
    ----------
    size : int
        Number of rows to remember.
    """

    def __init__(self, size):
        self.size = size
        self.forget()

    def forget(self):
        """Remember nothing, not even of the batch at hand."""
        self.index = torch.empty(0, dtype=torch.long)
        self.batch, self.n_fresh, self.carried = None, None, None
        # How many rows there were to choose from.
        self.n_seen = 0
        # Whether a batch may have a row twice; in doubt it is looked for.
        self.fresh_repeats = True

    def carry(self, rows, target, weight):
        """Keep a copy of the remembered rows for data that will not have them."""
        weight = torch.ones(len(target)) if weight is None else weight
        index = self._distinct()
        self.carried = {
            "rows": rows[index].cpu(),
            "target": target[index.to(target.device)].cpu(),
            "weight": weight[index.to(weight.device)].cpu(),
        }

    def join(self, index):
        """Row numbers of a batch followed by the remembered ones."""
        self.n_fresh = len(index)
        self.n_seen += self.n_fresh
        self.batch = torch.cat([index, self.index.to(index.device)])
        return self.batch

    def keep(self, positions):
        """Remember the rows at these positions of the joined batch."""
        if isinstance(positions, torch.Tensor):
            self.index = self.batch[positions.to(self.batch.device)]
        else:
            self.index = torch.from_numpy(self.batch.numpy()[positions])

    def members(self, xp, positions, scores):
        """The positions of finite score: a group may have fewer rows than are remembered."""
        if xp is np and len(self.index) < self.size:
            positions = positions[abs(scores) < math.inf]
        return positions

    def repeated(self, xp):
        """Mask of the positions of the joined batch whose row stands at an earlier one, or None."""
        batch = as_arrays(xp, self.batch)
        # Tensors may have remembered a row twice, in a group of few rows.
        if xp is np and not self.fresh_repeats:
            twice = batch[self.n_fresh :, np.newaxis] == batch[: self.n_fresh]
            if not twice.any():
                return None
            return np.append(np.zeros(self.n_fresh, dtype=bool), twice.any(axis=1))
        order = batch.argsort(stable=True)
        ordered = batch[order]
        mask = xp.zeros_like(batch, dtype=xp.bool)
        mask[order[1:]] = ordered[1:] == ordered[:-1]
        return mask

    def get_state(self):
        """The row numbers and copies of rows, however many, as plain values."""
        return {"index": self._distinct(), "carried": self.carried, "n_seen": self.n_seen}

    def _distinct(self):
        """The row numbers on the CPU, the hardest first, each once."""
        return torch.tensor(list(dict.fromkeys(self.index.tolist())), dtype=torch.long)

    def set_state(self, state):
        """Put back what `get_state` returned."""
        self.index, self.carried = state["index"].cpu(), state["carried"]
        self.n_seen = state["n_seen"]
