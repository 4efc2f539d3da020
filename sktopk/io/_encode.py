"""Estimators as plain values and arrays."""

import dataclasses
import sys
from pathlib import PurePath

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from sktopk import Monitor
from sktopk._common._values import Encoder, NotPlainError

from ._classes import is_net, known_in_process
from ._fitted import check_params, is_kept
from ._monitor import state_of

CAN_HOLD = (
    "a file can hold: plain values, arrays, sktopk's classifiers, Pipeline, FrozenEstimator and "
    "the steps in sktopk.io.STEPS (of a search, dump best_estimator_)"
)
# Types and dtypes that steps are told to make, by name.
TYPES = {each.__name__: each for each in (bool, float, int, object, str)}
_NUMBERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
_NUMBERS += ["bool", "float16", "float32", "float64", "object_", "str_"]
TYPES |= {f"numpy.{name}": getattr(np, name) for name in _NUMBERS}
# Not kept: the version is in the file, and requests of metadata routing are of the program.
_NOT_KEPT = "_metadata_request"


class EstimatorEncoder(Encoder):
    """Turn an estimator into JSON values and arrays, and remember what was left out.

    Parameters
    ----------
    omit : collection of str
        Parameters of estimators that may be left out where they hold code.
    """

    def __init__(self, omit):
        super().__init__()
        self.omit, self.omitted, self.params = frozenset(omit), set(), set()
        # Estimators by identity: a frozen classifier is there as `estimator` and `estimator_`.
        self._seen = {}

    def other(self, value):
        """Encode records, estimators and classes that are on the lists."""
        kind, known = type(value), known_in_process()
        torch = sys.modules.get("torch")  # which has made its objects, if there are any
        if isinstance(value, PurePath):
            return str(value)
        if torch is not None and kind is torch.device:
            return {"device": str(value)}
        if kind is pd.DataFrame:
            columns = [self.encode(_values(value.iloc[:, i])) for i in range(value.shape[1])]
            names = self.encode(_values(value.columns))
            return {"frame": [names, self.encode(_values(value.index)), columns]}
        if kind is pd.Series:
            return {"series": [self.encode(_values(each)) for each in (value.index, value)]}
        if kind is slice:
            return {"slice": [self.encode(end) for end in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) and value.names is None:
            return {"dtype": value.str}
        if kind in known.records.values():
            return {"record": kind.__name__, "fields": self._named(_fields(value))}
        if kind in known.estimators.values():
            return self._estimator(value)
        if kind is Monitor:
            return {"monitor": self._attributes(state_of(value), "Monitor", can_omit=False)}
        if isinstance(value, type) and torch is not None:
            if getattr(torch.optim, value.__name__, None) is value:
                return {"optimizer": value.__name__}
            if known.modules.get(value.__name__) is value:
                return {"module": value.__name__}
        for name in (f"numpy.{value.__name__}", value.__name__) if isinstance(value, type) else ():
            if TYPES.get(name) is value:
                return {"type": name}
        raise NotPlainError(value)

    def _named(self, values):
        return {name: self.encode(value) for name, value in values.items()}

    def _estimator(self, estimator):
        if id(estimator) in self._seen:
            return {"same": self._seen[id(estimator)][0]}
        # Kept with its number: an object that is gone leaves its id to the next.
        self._seen[id(estimator)] = len(self._seen), estimator
        cls, name = type(estimator), type(estimator).__name__
        known = known_in_process().estimators
        (its_name,) = (each for each in known if known[each] is cls)
        params = estimator.get_params(deep=False)
        if isinstance(estimator, Pipeline):
            # A cache for fits: a folder of this machine.
            params["memory"] = None
        encoded = {"estimator": its_name, "params": self._params(params, cls)}
        state = estimator.__getstate__()
        fitted = {k: v for k, v in state.items() if k not in params and k != _NOT_KEPT}
        is_ours = cls.__module__.startswith("sktopk")
        if is_ours:
            fitted.pop("_sklearn_version", None)
        unknown = sorted({key for key in fitted if not is_kept(cls, key)} - {"_params_of_net"})
        if unknown:
            raise ValueError(f"{name} has attributes of its own, {unknown}: delete them to dump it")
        if is_ours and fitted:
            check_params(estimator)
        if "net_" in fitted:
            encoded["params_of_net"] = self._params(fitted.pop("_params_of_net"), cls)
        return encoded | {"fitted": self._attributes(fitted, name, can_omit=False)}

    def _params(self, params, cls):
        can_omit = is_net(cls)
        self.params |= set(params) if can_omit else set()
        return self._attributes(params, cls.__name__, can_omit)

    def _attributes(self, values, name, can_omit):
        encoded = {}
        for key, value in values.items():
            n_arrays = len(self.arrays)
            try:
                encoded[key] = self.encode(value)
            except NotPlainError as error:
                if not can_omit:
                    raise ValueError(refusal(f"{key} of {name}", error.value)) from error
                if key not in self.omit:
                    raise ValueError(
                        f"{key}={error.value!r:.80} of {name} is code, which a file cannot hold: "
                        f"leave it out by dump(..., omit=[{key!r}]) and give it back by "
                        f"load(path, {key}=...)"
                    ) from error
                self.omitted.add(key)
                encoded[key] = {"omitted": key}
                for extra in list(self.arrays)[n_arrays:]:
                    del self.arrays[extra]
        return encoded


def refusal(name, value):
    """Say which value no file can hold."""
    kind = type(value)
    refused = known_in_process().refused
    if kind in refused:
        return (
            f"{name}: {kind.__name__} cannot be kept in such a file, as {refused[kind]} its trees "
            "without checking them: keep it by pickle or joblib"
        )
    if isinstance(value, BaseEstimator) and kind.__module__.startswith("sklearn."):
        return f"{name}: {kind.__name__} cannot be kept in a file. What {CAN_HOLD}"
    return f"{name}: {value!r:.80} ({kind.__module__}.{kind.__name__}) is not what {CAN_HOLD}"


def _values(column):
    """Return a column of a frame as an array; texts and what is missing as objects and None."""
    values = column.to_numpy()
    if values.dtype.kind == "O":
        values = np.where(pd.isna(values), None, values)
    return values


def _fields(record):
    if dataclasses.is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if isinstance(record, tuple):
        return record._asdict()
    return record.get_params(deep=False)
