"""Hyperparameter settings that are tried for each loss. Each loss has equally many settings."""

import inspect
from collections.abc import Mapping
from numbers import Real

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from sktopk.boosting._objective import LOSSES

# Default settings multiply the learning rate, and tau if the loss uses tau, by these factors.
_RATES = (1 / 3, 1.0, 3.0, 10.0)
_RATES_WITH_TAU = (1.0, 3.0)
_TAUS = (1.0, 0.1)


def candidates_of(estimators, grid):
    """Return a dict that maps each name to a list of settings. A setting is a parameter dict."""
    if grid is None:
        return {name: [{}] for name in estimators}
    if grid == "default":
        grid = {}
    if not isinstance(grid, Mapping):
        raise ValueError(f'grid must be "default", None or a dict of grids; got {grid!r}')
    if unknown := sorted(grid.keys() - estimators.keys()):
        names = list(estimators)
        raise ValueError(f"grid must have keys from the compared losses {names}; got {unknown}")
    candidates = {name: _default_candidates(each) for name, each in estimators.items()}
    for name, each in grid.items():
        candidates[name] = list(ParameterGrid(each))
        for params in candidates[name]:
            clone(estimators[name]).set_params(**params)  # raises if a parameter is unknown
    # Estimators without a learning rate are exempt: their only setting is the empty dict.
    sizes = {name: len(each) for name, each in candidates.items() if each != [{}]}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"grid must have the same number of settings for every loss (default {len(_RATES)}); "
            f"got {sizes}"
        )
    return candidates


def _default_candidates(estimator):
    """Return four settings: four learning rates, or two learning rates times two values of tau."""
    params = estimator.get_params(deep=True)
    rates = [name for name in params if name.split("__")[-1] == "learning_rate"]
    if len(rates) != 1 or not isinstance(params[rates[0]], Real):
        return [{}]
    rate = params[rates[0]]
    for name in params:
        loss = str(params.get(name.removesuffix("tau") + "loss"))
        if name.split("__")[-1] == "tau" and loss in LOSSES:
            if "tau" in inspect.signature(LOSSES[loss]).parameters:
                taus = [params[name] * factor for factor in _TAUS]
                grid = {rates[0]: [rate * step for step in _RATES_WITH_TAU], name: taus}
                return list(ParameterGrid(grid))
    return [{rates[0]: rate * step} for step in _RATES]
