"""Estimators as plain values and arrays."""

import dataclasses
import math
from pathlib import PurePath

import numpy as np
import torch
from sklearn.base import BaseEstimator

from ._classes import ESTIMATORS, NETS, RECORDS, SCALARS
from ._fitted import attributes_of
from ._steps import write_step

# Longer lists of floats, such as the losses of all steps, are arrays in the file.
_SHORT = 16
_PLAIN = (type(None), bool, int, str)
CAN_HOLD = (
    "a file can hold: plain values, arrays, sktopk's classifiers, Pipeline, FrozenEstimator and "
    "the steps in sktopk.io.STEPS (of a search, dump best_estimator_)"
)


class Encoder:
    """Turn an estimator into JSON values and arrays, and remember what was left out.

    JSON objects are always tagged, ``{"tuple": [...]}`` for example, so that no value of a user
    can look like something else.

    Parameters
    ----------
    omit : collection of str
        Parameters of estimators that may be left out where they hold code.
    """

    def __init__(self, omit):
        self.omit, self.omitted, self.params = frozenset(omit), set(), set()
        self.arrays = {}
        # Estimators by identity: a frozen classifier is there as `estimator` and `estimator_`.
        self._seen = {}

    def encode(self, value, name):
        """Return JSON values for `value`, which the user knows as `name`."""
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": repr(value)}
        if kind is list:
            if len(value) > _SHORT and all(type(item) is float for item in value):
                return {"floats": self._array(np.array(value), name)}
            return [self.encode(item, name) for item in value]
        if kind is tuple:
            return {"tuple": [self.encode(item, name) for item in value]}
        if kind is dict:
            return {"dict": self._pairs(value, name)}
        if kind is np.ndarray:
            return self._encode_array(value, name)
        if isinstance(value, np.generic):
            return self._encode_scalar(value, name)
        if isinstance(value, PurePath):
            return str(value)
        if kind is torch.device:
            return {"device": str(value)}
        if kind is np.random.RandomState:
            return {"random_state": self.encode(value.get_state(legacy=False), name)}
        if kind in RECORDS.values():
            return {"record": kind.__name__, "fields": self._pairs(_fields(value), name)}
        if kind in ESTIMATORS.values():
            return self._encode_estimator(value)
        if isinstance(value, BaseEstimator) and kind.__module__.startswith("sklearn."):
            data = np.frombuffer(write_step(value, name), np.uint8)
            return {"step": self._array(data, name)}
        if isinstance(value, type) and getattr(torch.optim, value.__name__, None) is value:
            return {"optimizer": value.__name__}
        raise CodeError(f"{name}={value!r:.80} ({kind.__name__})")

    def _pairs(self, value, name):
        return [[self.encode(key, name), self.encode(item, name)] for key, item in value.items()]

    def _array(self, value, name):
        """Keep an array that safetensors can hold, and return its key."""
        if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
            raise ValueError(f"{name} has dtype {value.dtype}, which a file cannot hold")
        key = str(len(self.arrays))
        little = value.dtype.newbyteorder("<")
        self.arrays[key] = np.ascontiguousarray(value, little).reshape(value.shape)
        return key

    def _encode_array(self, value, name):
        if value.dtype.kind == "U":
            # As code points: NumPy keeps 4 bytes for each.
            length = value.dtype.itemsize // 4
            points = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
            points = np.frombuffer(points.tobytes(), "<u4").reshape(*value.shape, length)
            return {"strings": self._array(points, name)}
        if value.dtype.kind == "O":
            items = [self.encode(item, name) for item in value.ravel().tolist()]
            return {"objects": items, "shape": list(value.shape)}
        return {"array": self._array(value, name)}

    def _encode_scalar(self, value, name):
        dtype = "str_" if value.dtype.kind == "U" else value.dtype.name
        if dtype not in SCALARS:
            raise ValueError(f"{name} has dtype {dtype}, which a file cannot hold")
        return {"scalar": dtype, "value": self.encode(value.item(), name)}

    def _encode_estimator(self, estimator):
        if id(estimator) in self._seen:
            return {"same": self._seen[id(estimator)][0]}
        # Kept with its number: an object that is gone leaves its id to the next.
        self._seen[id(estimator)] = len(self._seen), estimator
        name = type(estimator).__name__
        params = estimator.get_params(deep=False)
        if name == "Pipeline":
            # A cache for fits: a folder of this machine.
            params["memory"] = None
        can_omit = type(estimator) in NETS
        encoded = {"estimator": name, "params": self._encode_params(params, name, can_omit)}
        state = estimator.__getstate__()
        fitted = {
            key: value
            for key, value in state.items()
            if key not in params and key not in ("_sklearn_version", "_metadata_request")
        }
        unknown = sorted(set(fitted) - attributes_of(estimator) - {"_params_of_net"})
        if unknown:
            raise ValueError(f"{name} has attributes of its own, {unknown}: delete them to dump it")
        if "net_" in fitted:
            built = fitted.pop("_params_of_net")
            encoded["params_of_net"] = self._encode_params(built, name, can_omit)
        encoded["fitted"] = {
            key: self._encode_fitted(value, f"{key} of {name}") for key, value in fitted.items()
        }
        return encoded

    def _encode_params(self, params, name, can_omit):
        encoded = {}
        self.params |= set(params) if can_omit else set()
        for key, value in params.items():
            n_arrays = len(self.arrays)
            try:
                encoded[key] = self.encode(value, key)
            except CodeError as error:
                if not can_omit:
                    raise ValueError(f"{error} of {name} is not what {CAN_HOLD}") from error
                if key not in self.omit:
                    raise ValueError(
                        f"{error} of {name} is code, which a file cannot hold: leave it out by "
                        f"dump(..., omit=[{key!r}]) and give it back by load(path, {key}=...)"
                    ) from error
                self.omitted.add(key)
                encoded[key] = {"omitted": key}
                for extra in list(self.arrays)[n_arrays:]:
                    del self.arrays[extra]
        return encoded

    def _encode_fitted(self, value, name):
        try:
            return self.encode(value, name)
        except CodeError as error:
            raise ValueError(f"{error} is not what {CAN_HOLD}") from error


class CodeError(ValueError):
    """A value that is neither plain nor an estimator that a file can hold."""


def _fields(record):
    if dataclasses.is_dataclass(record):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    if isinstance(record, tuple):
        return record._asdict()
    return record.get_params(deep=False)
