"""The settings that each loss may try: the same number for every loss."""

from collections.abc import Mapping
from numbers import Real

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

# Factors of the learning rate: without another parameter to choose, and together with tau.
_RATES = (1 / 3, 1.0, 3.0, 10.0)
_RATES_WITH_TAU = (1.0, 3.0)
_TAUS = (1.0, 0.1)


def candidates_of(estimators, grid, uses_tau):
    """Return the settings to try for each estimator by name, lists of dicts of the same length.

    `uses_tau` names the estimators that train a loss with a temperature tau.
    """
    if grid is None:
        return {name: [{}] for name in estimators}
    given = {}
    if isinstance(grid, Mapping):
        unknown = [name for name in grid if name not in estimators]
        if unknown:
            names = list(estimators)
            raise ValueError(
                f"grid must have losses of the comparison as keys, {names}; got {unknown}"
            )
        given = {name: _listed(name, each, estimators[name]) for name, each in grid.items()}
    elif grid != "default":
        raise ValueError(f'grid must be "default", None or a dict of settings; got {grid!r}')
    candidates = {
        name: given.get(name) or default_candidates(each, name in uses_tau)
        for name, each in estimators.items()
    }
    # Estimators without a learning rate are fitted as they are.
    sizes = {name: len(each) for name, each in candidates.items() if each != [{}]}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"grid must give every loss the same number of settings, {len(_RATES)} unless all "
            f"losses are named; got {sizes}"
        )
    return candidates


def default_candidates(estimator, uses_tau):
    """Return four settings of the learning rate, and of tau if the loss has it."""
    params = estimator.get_params(deep=True)
    rates = _numbers(params, "learning_rate")
    if len(rates) != 1:
        return [{}]
    ((rate_name, rate),) = rates.items()
    taus = {name: tau for name, tau in _numbers(params, "tau").items() if uses_tau}
    if len(taus) != 1:
        return [{rate_name: rate * step} for step in _RATES]
    ((tau_name, tau),) = taus.items()
    return [
        {rate_name: rate * step, tau_name: tau * factor}
        for step in _RATES_WITH_TAU
        for factor in _TAUS
    ]


def _numbers(params, name):
    """Return the parameters called `name`, at any depth, that are numbers."""
    return {
        key: value
        for key, value in params.items()
        if key.split("__")[-1] == name and isinstance(value, Real)
    }


def _listed(name, settings, estimator):
    """Return settings as a list of dicts, from such a list or a dict of lists."""
    if isinstance(settings, Mapping):
        settings = list(ParameterGrid(dict(settings)))
    if not isinstance(settings, list | tuple) or not settings:
        raise ValueError(
            f"grid[{name!r}] must be a dict of lists of values or a list of dicts; got {settings!r}"
        )
    for each in settings:
        if not isinstance(each, Mapping):
            raise ValueError(f"grid[{name!r}] must hold dicts of parameters; got {each!r}")
        clone(estimator).set_params(**each)  # raises if a parameter is unknown
    return [dict(each) for each in settings]
