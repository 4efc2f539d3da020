"""Several networks side by side, as one."""

import inspect

import torch
from torch import nn

from ._scaled_scores import ScaledScores


class Members(nn.ModuleList):
    r"""Networks with weights of their own that score the same rows.

    .. math::
        f(x) = (f_1(x), \dots, f_M(x))

    Parameters
    ----------
    networks : iterable of nn.Module
        Each returns scores of shape (n_samples, n_outputs), or (n_samples,) for one output.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import MLP, Members
    >>> Members(MLP(4, 3) for _ in range(2))(torch.zeros(5, 4)).shape
    torch.Size([5, 2, 3])
    """

    def forward(self, x):
        """Return the scores of all members, of shape (n_samples, n_members, n_outputs)."""
        scores = torch.stack([network(x) for network in self], dim=1)
        return scores if scores.ndim == 3 else scores.unsqueeze(2)

    def of_member(self, m):
        """Which entries of the state dict are those of member m alone: their index by name."""
        return {f"{m}.{name}": ... for name in self[m].state_dict()}


def of_member(module, m):
    """Which entries of `module.state_dict()` belong to member m alone, and where in them.

    Parameters
    ----------
    module : nn.Module
        With a method `of_member(m)`, as :class:`Members` and networks that pack their members
        into one have; perhaps within a `ScaledScores`.
    m : int

    Returns
    -------
    index : dict
        By name, an index of the entry: ``...`` for all of it.

    Raises
    ------
    TypeError
        If the members of `module` share weights, as far as is known.
    """
    if isinstance(module, ScaledScores):
        inner = of_member(module.module, m)
        return {f"module.{name}": index for name, index in inner.items()}
    if not hasattr(module, "of_member"):
        raise TypeError(
            "module must have a method of_member(m), which says by name what of its state_dict "
            f"belongs to member m alone; got {type(module).__name__}, whose members may share "
            "weights"
        )
    return module.of_member(m)


def packs_members(module):
    """Whether a callable that builds networks builds all members in one."""
    try:
        return "n_members" in inspect.signature(module).parameters
    except (TypeError, ValueError):  # some builtins
        return False
