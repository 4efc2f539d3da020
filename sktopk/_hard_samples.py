"""Rows that later batches are judged against, by row number."""

import math

import numpy as np
import torch


class HardSamples:
    """Remember the hardest rows so far and join them to each batch.

    The rows are known by their number: their scores are computed anew in each batch, so that
    the gradient through them is right (Adam, Macha, Smidl 2020, algorithm 3.1, step 4).

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
        self.carried = {
            "rows": rows[self.index].cpu(),
            "target": target[self.index].cpu(),
            "weight": weight[self.index].cpu(),
        }

    def join(self, index):
        """Row numbers of a batch followed by the remembered ones."""
        self.n_fresh = len(index)
        self.n_seen += self.n_fresh
        self.batch = torch.cat([index, self.index])
        return self.batch

    def keep(self, positions):
        """Remember the rows at these positions of the joined batch."""
        if isinstance(positions, torch.Tensor):
            positions = positions.cpu().numpy()
        self.index = torch.from_numpy(self.batch.numpy()[positions])

    def members(self, positions, scores):
        """The positions of finite score: a group may have fewer rows than are remembered."""
        if len(self.index) < self.size:
            positions = positions[abs(scores) < math.inf]
        return positions

    def repeated(self):
        """Mask of the positions of the joined batch whose row stands at an earlier one, or None."""
        batch = self.batch.numpy()
        if not self.fresh_repeats:
            twice = batch[self.n_fresh :, np.newaxis] == batch[: self.n_fresh]
            if not twice.any():
                return None
            return np.append(np.zeros(self.n_fresh, dtype=bool), twice.any(axis=1))
        order = batch.argsort(kind="stable")
        ordered = batch[order]
        mask = np.zeros(len(batch), dtype=bool)
        mask[order[1:]] = ordered[1:] == ordered[:-1]
        return mask

    def get_state(self):
        """The row numbers and copies of rows, however many, as plain values."""
        return {"index": self.index, "carried": self.carried, "n_seen": self.n_seen}

    def set_state(self, state):
        """Put back what `get_state` returned."""
        self.index, self.carried = state["index"].cpu(), state["carried"]
        self.n_seen = state["n_seen"]
