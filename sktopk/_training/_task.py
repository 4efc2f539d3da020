"""What a training consists of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .criteria._base import Criterion


@dataclass(frozen=True)
class Task:
    """What an estimator asks of a training: its network, its loss, its optimizer.

    Parameters
    ----------
    net : type
        Subclass of Net.
    n_features, n_outputs, n_classes : int
        Columns (or channels) of a row, scores of the network for it, classes of the labels.
    k_ordered : int or None
        With two heads: how many classes the first puts in front, see `Answer`.
    n_members : int
        Networks that are trained side by side. With several, `criterion` is a `MemberLoss`.
    criterion : Criterion
        The loss, new or as it was left by trainings before.
    module : callable
        Called as ``module(n_features, n_outputs, **module_params)``; returns an nn.Module.
    module_params : dict
    score_scale : float
        Factor on what the module returns.
    draws : bool
        Whether module or loss draw from torch's generator: then the net is built, and each
        training runs, inside `isolated_rng`, where the last one left off. If not, the module is
        an MLP, with a generator of its own.
    optimizer : type
        Subclass of torch.optim.Optimizer.
    learning_rate, weight_decay : float
    callbacks : list
        Of skorch.
    net_params : dict
        Further arguments of skorch's net.
    device : torch.device
    dtype : torch.dtype
        Of rows and weights.
    precision : str or None
        Of the forward pass, if it is another.
    compile : bool
    verbose : int
    """

    net: type
    n_features: int
    n_outputs: int
    n_classes: int
    k_ordered: int | None
    n_members: int
    criterion: Criterion
    module: Callable
    module_params: dict[str, Any]
    score_scale: float
    draws: bool
    optimizer: type
    learning_rate: float
    weight_decay: float
    callbacks: list
    net_params: dict[str, Any]
    device: torch.device
    dtype: torch.dtype
    precision: str | None
    compile: bool
    verbose: int
