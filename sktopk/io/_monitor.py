"""A Monitor as plain values and arrays, and back, each checked before it is used."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktopk import BudgetClassifier, Monitor, SetClassifier
from sktopk._common._scalars import check_number
from sktopk._estimators.decisions._betting import ScoreBins

_OF_BETS = {"rows": ("urn", "remembered"), "promise": ()}
_OF_TEST = ("n_rows", "highest", "alarm", "names", "log_e")


def state_of(monitor):
    """Return what a file keeps of a monitor, by name."""
    bins = monitor._bins
    return {
        "decision": monitor.decision,
        "delta": monitor.delta,
        "tolerance": monitor.tolerance,
        "random": monitor._random,
        "bins": {"scores": bins.scores, "places": bins.places, "mass": bins.mass},
        "limit": None if monitor._promise is None else monitor._promise.limit,
        "tests": {name: _state_of_test(name, test) for name, test in monitor._tests.items()},
        "labelled": monitor._labelled,
    }


def _state_of_test(name, test):
    capital = test.bets.capital
    bets = {key: getattr(test.bets, key) for key in _OF_BETS[name]}
    log = {"t": capital.t, "in_play": capital._in_play, "log": np.asarray(capital.log)}
    return {key: getattr(test, key) for key in _OF_TEST} | bets | log


def restored(state):
    """Return the monitor of a state: it begins anew, and then remembers what it had seen.

    Raises
    ------
    ValueError
        If a part is missing, or of the wrong type, shape or range.
    """
    decision = state["decision"]
    if not isinstance(decision, BudgetClassifier | SetClassifier):
        raise ValueError(f"decision of Monitor must be one; got {decision!r:.80}")
    check_is_fitted(decision, "estimator_")
    _require(type(state["random"]) is np.random.RandomState, "random")
    monitor = object.__new__(Monitor)
    bins = state["bins"]
    n_cuts = np.size(bins["scores"])
    _require(all(_are_floats(bins[key], n_cuts) for key in ("scores", "places")), "bins")
    _require(_are_floats(bins["mass"], n_cuts + 1) and (bins["mass"] > 0).all(), "bins")
    check_number(state["delta"], "delta", 0, 1, bounds="neither")
    check_number(state["tolerance"], "tolerance", 0, 1, bounds="left")
    watched = decision, state["delta"], state["tolerance"], state["random"], ScoreBins(**bins)
    monitor._begin(*watched)
    _require(set(state["tests"]) == set(monitor._tests), "tests")
    if monitor._promise is not None:
        _require(type(state["limit"]) is float and 0 < state["limit"] < 1, "limit")
        monitor._promise.limit = state["limit"]
        monitor._tests["promise"].promise = str(monitor._promise)
        monitor._tests["promise"].bets = monitor._promise.bets()
    for name, test in monitor._tests.items():
        _remember(name, test, state["tests"][name])
    _require(isinstance(state["labelled"], list), "labelled")
    _require(all(map(_is_labelled, state["labelled"])), "labelled")
    monitor._labelled = state["labelled"]
    return monitor


def _remember(name, test, state):
    """Put into a new test what it had seen."""
    bets, n_batches = test.bets, np.size(state["log_e"])
    for key in _OF_BETS[name]:
        value = state[key]
        _require(_are_floats(value, *getattr(bets, key).shape) and (value >= 0).all(), key)
        setattr(bets, key, value)
    _require(name != "rows" or (bets.urn > 0).all(), "urn")
    capital = bets.capital
    _require(_is_count(state["t"]) and state["t"] == n_batches, "t")
    # Minus infinity is what all strategies have in play before the first batch.
    in_play = state["in_play"]
    _require(_is_array(in_play, *capital._in_play.shape) and (in_play < np.inf).all(), "in_play")
    _require(_are_floats(state["log"]), "log")
    capital.t, capital._in_play, capital.log = state["t"], in_play, state["log"][()]
    _require(_is_count(state["n_rows"]), "n_rows")
    _require(type(state["highest"]) is float and np.isfinite(state["highest"]), "highest")
    names, log_e = state["names"], state["log_e"]
    _require(isinstance(names, list) and isinstance(log_e, list), "names")
    _require(len(names) == n_batches, "names")
    _require(all(type(each) is float for each in log_e), "log_e")
    _require(np.isfinite(log_e).all(), "log_e")
    _require(all(isinstance(each, str | int | float) for each in names), "names")
    _require(state["alarm"] is None or state["alarm"] in names, "alarm")
    for key in _OF_TEST:
        setattr(test, key, state[key])


def _is_labelled(part):
    """Whether these are a name, rows, their labels, propensities, and which were flagged.

    Of a batch without rows these are None.
    """
    if not isinstance(part, tuple) or len(part) != 5:
        return False
    name, X, y, propensity, flagged = part
    if not isinstance(name, str | int | float) or not isinstance(y, np.ndarray) or y.ndim != 1:
        return False
    n_known = len(X) if hasattr(X, "iloc") or isinstance(X, np.ndarray | list) else 0
    return (
        (n_known > 0 or X is None)
        and n_known == len(y)
        and _are_floats(propensity, len(y))
        and bool((propensity > 0).all() and (propensity <= 1).all())
        and isinstance(flagged, np.ndarray)
        and flagged.shape == y.shape
        and flagged.dtype == bool
    )


def _require(is_right, name):
    if not is_right:
        raise ValueError(f"{name} of Monitor has a wrong type, shape or value")


def _is_count(value):
    return type(value) is int and value >= 0


def _is_array(value, *shape):
    is_array = isinstance(value, np.ndarray | np.float64) and value.dtype == np.float64
    return is_array and value.shape == shape


def _are_floats(value, *shape):
    return _is_array(value, *shape) and bool(np.isfinite(value).all())
