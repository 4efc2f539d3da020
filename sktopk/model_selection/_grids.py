"""What each loss may try: as many settings for one as for another."""

import inspect
from collections.abc import Mapping
from numbers import Real

from sklearn.model_selection import ParameterGrid

from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators.labels._losses import LOSSES, own_parameters
from sktopk._estimators.labels._topk_classifier import TopKClassifier
from sktopk.losses import focal_loss

# Steps of the learning rate for a loss that has nothing else to tune, and for one that has.
_RATES = (1 / 3, 1.0, 3.0, 10.0)
_RATES_BESIDE_ANOTHER = (1.0, 3.0)
# A second value of what a loss has of its own, as a factor.
_SECOND = {"tau": 0.1, "sigma": 5.0, "loss__gamma": 0.5}
_GAMMA = inspect.signature(focal_loss).parameters["gamma"].default


def candidates_of(estimators, grid):
    """Return the settings to try for each estimator, lists of dicts of the same length.

    Parameters
    ----------
    estimators : dict of str to estimator
    grid : "default", None or dict
        As in `compare_losses`.
    """
    if grid is None:
        return {name: [{}] for name in estimators}
    given = {}
    if isinstance(grid, Mapping):
        unknown = [name for name in grid if name not in estimators]
        if unknown:
            raise ValueError(
                f"grid must have losses of the comparison as keys, {list(estimators)}; "
                f"got {unknown}"
            )
        given = {name: _listed(name, each, estimators[name]) for name, each in grid.items()}
    elif grid != "default":
        raise ValueError(
            f'grid must be "default", None or a dict of settings for each loss; got {grid!r}'
        )
    defaults = {n: default_candidates(each) for n, each in estimators.items() if n not in given}
    candidates = {name: given.get(name) or defaults[name] for name in estimators}
    # What has no learning rate is fitted as it is; all others get the same number of tries.
    sizes = {name: len(each) for name, each in candidates.items() if each != [{}]}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"grid must give every loss as many settings, to be fair; got {sizes}. Losses that "
            f"are not named have {len(_RATES)}"
        )
    return candidates


def default_candidates(estimator):
    """Return four settings: steps of the learning rate, and of what the loss has of its own."""
    params = estimator.get_params(deep=True)
    prefix, classifier = _tuned_part(estimator, params)
    rate = getattr(classifier, "learning_rate", None)
    if isinstance(classifier, NetClassifier):
        rate = classifier._settings(classifier._suits_tables).learning_rate
    if not isinstance(rate, Real):
        return [{}]
    rate_name = f"{prefix}learning_rate"
    loss = getattr(classifier, "loss", None)
    own = None
    if isinstance(classifier, TopKClassifier) and isinstance(loss, str) and loss in LOSSES:
        known = {*LOSSES[loss].params, *(f"loss__{name}" for name in own_parameters(loss))}
        own = next((name for name in _SECOND if name in known), None)
    if own is None:
        return [{rate_name: rate * step} for step in _RATES]
    value = classifier.get_params().get(own, _GAMMA)
    return [
        {rate_name: rate * step, f"{prefix}{own}": second}
        for step in _RATES_BESIDE_ANOTHER
        for second in (value, value * _SECOND[own])
    ]


def _tuned_part(estimator, params):
    """The prefix and the estimator that trains: ours, or else the only one with a rate."""
    parts = {"": estimator}
    parts |= {f"{name}__": each for name, each in params.items() if hasattr(each, "get_params")}
    found = [(p, each) for p, each in parts.items() if isinstance(each, NetClassifier)]
    found = found or [(p, each) for p, each in parts.items() if hasattr(each, "learning_rate")]
    return found[0] if len(found) == 1 else ("", None)


def _listed(name, settings, estimator):
    """Settings as a list of dicts, from such a list or a dict of lists."""
    if isinstance(settings, Mapping):
        settings = list(ParameterGrid(dict(settings)))
    if not isinstance(settings, list | tuple) or not settings:
        raise ValueError(
            f"grid[{name!r}] must be a dict of lists of values or a list of dicts; got {settings!r}"
        )
    allowed = estimator.get_params(deep=True)
    for each in settings:
        if not isinstance(each, Mapping):
            raise ValueError(f"grid[{name!r}] must hold dicts of parameters; got {each!r}")
        unknown = [
            key
            for key in each
            if key not in allowed and not {"module", "loss"} & {*key.split("__")[:-1]}
        ]
        if unknown:
            raise ValueError(
                f"grid[{name!r}] must name parameters of {type(estimator).__name__}, in a "
                f"pipeline with the step in front; got {unknown}"
            )
    return [dict(each) for each in settings]
