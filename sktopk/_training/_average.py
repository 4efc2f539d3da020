"""Exponential moving average of the weights of a network."""

import torch


class WeightAverage:
    """Exponential moving average of weights and buffers, over about `n_steps` steps.

    The average of the first t steps has weights proportional to ``decay ** (t - i)``. With one
    step, the average is the last value.

    Parameters
    ----------
    module : nn.Module
    n_steps : int
        Number of steps whose weights are averaged, at least 1.

    Attributes
    ----------
    applied : bool
        Whether the module has the average. Otherwise, it has the weights that are trained.
    """

    def __init__(self, module, n_steps):
        tensors = [*module.parameters(), *module.buffers()]
        # Constants such as masks may be infinite, which gives NaN in a mean.
        self._tensors = [
            each.detach() for each in tensors if each.is_floating_point() and each.isfinite().all()
        ]
        self._others = [each.clone() for each in self._tensors]
        self._decay, self._n_updates, self.applied = 1 - 1 / n_steps, 0, False

    def update(self):
        """Add the present weights to the average."""
        self._n_updates += 1
        share = (1 - self._decay) / (1 - self._decay**self._n_updates)
        if self._tensors:
            torch._foreach_lerp_(self._others, self._tensors, share)

    def apply(self, applied=True):
        """Put the average into the module, or the trained weights if `applied` is False."""
        if applied == self.applied:
            return
        for one, other in zip(self._tensors, self._others, strict=True):
            copy = one.clone()
            one.copy_(other)
            other.copy_(copy)
        self.applied = applied

    def state_dict(self):
        """Return the state for a checkpoint. The module's state is saved elsewhere."""
        return {"others": self._others, "n_updates": self._n_updates, "applied": self.applied}

    def load_state_dict(self, state):
        for one, saved in zip(self._others, state["others"], strict=True):
            one.copy_(saved)
        self._n_updates, self.applied = state["n_updates"], state["applied"]
