"""Several networks side by side, as one."""

import inspect
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ._scaled_scores import ScaledScores


class Members(nn.ModuleList):
    r"""Networks with weights of their own that score the same rows.

    .. math::
        f(x) = (f_1(x), \dots, f_M(x))

    Parameters
    ----------
    modules : iterable of nn.Module
        The networks. Each returns scores of shape (n_samples, n_outputs), or (n_samples,) for
        one output.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import MLP, Members
    >>> Members(MLP(4, 3) for _ in range(2))(torch.zeros(5, 4)).shape
    torch.Size([5, 2, 3])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of all members, of shape (n_samples, n_members, n_outputs)."""
        scores = torch.stack([network(x) for network in self], dim=1)
        return scores if scores.ndim == 3 else scores.unsqueeze(2)

    def of_member(self, m: int) -> dict[str, Any]:
        """Which entries of the state dict are those of member m alone: their index by name."""
        return {f"{m}.{name}": ... for name in self[m].state_dict()}


class Answer:
    r"""One vector of scores from those of several members, and of two heads.

    The members' scores are averaged. Of two heads, s and o, the first says which k classes stand
    before all others, the second in which order, inside and outside:

    .. math::
        f_j = o_j + c\,[s_j \text{ is among the } k \text{ largest of } s]

    where c is as small as it may be: 0 where the k largest of o are the same.

    Parameters
    ----------
    k : int or None, default=None
        None if there is one head.
    """

    def __init__(self, k=None):
        self.k, self.n_heads = k, 1 if k is None else 2

    def __call__(self, scores):
        """Return scores (n_samples, n_classes) from (n_samples, [n_members,] n_outputs)."""
        scores = mean_of_members(scores)
        return scores if self.k is None else ordered_sets(*scores.chunk(2, dim=1), self.k)

    def in_order(self, scores):
        """Return the scores of the last head alone."""
        return mean_of_members(scores).chunk(self.n_heads, dim=-1)[-1]


def mean_of_members(scores):
    """Scores of shape (n_samples, n_outputs), or (n_samples,), that may be those of members."""
    return scores.mean(1) if scores.ndim == 3 else scores


def ordered_sets(sets, order, k):
    """The scores `order`, raised by a number in each row for the k largest of `sets`.

    Parameters
    ----------
    sets, order : Tensor of shape (n_samples, n_classes)
    k : int
        Tied classes are taken in order.

    Returns
    -------
    scores : Tensor of shape (n_samples, n_classes)
    """
    columns = sets.sort(dim=1, descending=True, stable=True).indices[:, :k]
    inside = torch.zeros_like(sets, dtype=torch.bool).scatter(1, columns, True)
    lowest = order.masked_fill(~inside, torch.inf).amin(1, keepdim=True)
    highest = order.masked_fill(inside, -torch.inf).amax(1, keepdim=True)
    # Well above, so that rounding does not make ties.
    room = (lowest.abs() + highest.abs() + 1) * 2.0**-10
    raised = torch.where(highest >= lowest, highest - lowest + room, 0)
    return torch.where(inside, order + raised, order)


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


def member(module, m):
    """Return member m of a network alone, called on rows, or None if that cannot be told."""
    if isinstance(module, ScaledScores):
        inner = member(module.module, m)
        return None if inner is None else lambda x: module.scale * inner(x)
    if isinstance(module, Members):
        return lambda x: _two_dim(module[m](x))
    return partial(module.score_member, m=m) if hasattr(module, "score_member") else None


def _two_dim(scores):
    return scores if scores.ndim == 2 else scores.unsqueeze(1)


def packs_members(module):
    """Whether a callable that builds networks builds all members in one."""
    try:
        return "n_members" in inspect.signature(module).parameters
    except (TypeError, ValueError):  # some builtins
        return False
