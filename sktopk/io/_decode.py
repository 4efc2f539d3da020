"""Estimators from plain values and arrays, each checked before it is used."""

import inspect
import math

import numpy as np
import torch

from ._classes import ESTIMATORS, NETS, RECORDS, SCALARS
from ._fitted import check_fitted, check_inner, check_net, check_optimizer_state
from ._steps import read_step

_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Decoder:
    """Undo what `Encoder` did. Each array is taken once: a small file makes no large objects.

    Parameters
    ----------
    arrays : dict of ndarray
    given : dict
        Values of the parameters that were left out, and perhaps a `device`.
    """

    def __init__(self, arrays, given):
        self.arrays, self.given = dict(arrays), given
        self._estimators = []
        self._kinds = {
            "array": self._array,
            "device": torch.device,
            "dict": self._dict,
            "estimator": self._estimator,
            "float": lambda text: _FLOATS[text],
            "floats": lambda key: self._array(key).tolist(),
            "objects": self._objects,
            "omitted": lambda name: self.given[name],
            "optimizer": self._optimizer,
            "random_state": self._random_state,
            "record": self._record,
            "same": self._same,
            "scalar": self._scalar,
            "step": lambda key: read_step(self._array(key).tobytes()),
            "strings": self._strings,
            "tuple": lambda items: tuple(self.decode(items)),
        }

    def decode(self, value):
        """Return what JSON values stand for."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value), None)
        if kind not in self._kinds:
            raise ValueError(f"it holds a value of unknown kind {kind!r}")
        content = value[kind]
        return self._kinds[kind](content if len(value) == 1 else value)

    def _array(self, key):
        if key not in self.arrays:
            raise ValueError(f"its array {key!r} is missing or used twice")
        # A copy, as the values of the file are read-only.
        return np.array(self.arrays.pop(key))

    def _dict(self, pairs):
        return {self.decode(key): self.decode(value) for key, value in pairs}

    def _strings(self, key):
        points = self._array(key)
        *shape, length = points.shape
        if points.dtype != np.uint32 or points.max(initial=0) > 0x10FFFF:
            raise ValueError(f"its array {key!r} holds no text")
        if length == 0:
            return np.zeros(shape, "U1")
        return points.astype("<u4").view(f"<U{length}").reshape(shape).astype(f"U{length}")

    def _objects(self, node):
        items = np.empty(len(node["objects"]), dtype=object)
        for i, item in enumerate(node["objects"]):
            items[i] = self.decode(item)
        return items.reshape(node["shape"])

    def _scalar(self, node):
        if node["scalar"] not in SCALARS:
            raise ValueError(f"it holds a number of unknown kind {node['scalar']!r}")
        return getattr(np, node["scalar"])(self.decode(node["value"]))

    def _optimizer(self, name):
        optimizer = getattr(torch.optim, str(name), None)
        if not (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)):
            raise ValueError(f"it holds an unknown optimizer {name!r}")
        return optimizer

    def _random_state(self, state):
        state = self.decode(state)
        key, position = state["state"]["key"], state["state"]["pos"]
        # NumPy would read on behind the end of the key.
        if key.dtype != np.uint32 or key.shape != (624,) or position not in range(625):
            raise ValueError("its RandomState is at no possible position")
        random = np.random.RandomState()
        random.set_state(state)
        return random

    def _record(self, node):
        if node["record"] not in RECORDS:
            raise ValueError(f"it holds an unknown class {node['record']!r}")
        return RECORDS[node["record"]](**self._dict(node["fields"]))

    def _same(self, number):
        known = range(len(self._estimators))
        if type(number) is not int or number not in known or self._estimators[number] is None:
            raise ValueError(f"it refers to an estimator {number!r} that it does not hold")
        return self._estimators[number]

    def _estimator(self, node):
        name, place = node["estimator"], len(self._estimators)
        if name not in ESTIMATORS:
            raise ValueError(f"it holds an unknown class {name!r}")
        cls = ESTIMATORS[name]
        self._estimators.append(None)
        estimator = cls(**self._params(cls, node["params"]))
        check_inner(estimator)
        built = None
        if "params_of_net" in node:
            built = self._params(cls, node["params_of_net"])
        fitted = {key: self.decode(value) for key, value in node["fitted"].items()}
        if (built is not None) != (cls in NETS and "net_" in fitted):
            raise ValueError(f"net_ and params_of_net of {name} do not belong together")
        if built is not None:
            check_net(cls(**built), fitted)
        check_fitted(estimator, fitted)
        if built is not None:
            fitted["_params_of_net"] = built
        if fitted:
            estimator.__setstate__({**vars(estimator), **fitted})
        if built is not None:
            check_optimizer_state(estimator.net_, built["optimizer"])
        self._estimators[place] = estimator
        return estimator

    def _params(self, cls, encoded):
        known = inspect.signature(cls).parameters
        unknown = sorted(set(encoded) - set(known))
        if unknown:
            raise ValueError(f"{cls.__name__} has no parameters {unknown}: upgrade sktopk")
        params = {key: self.decode(value) for key, value in encoded.items()}
        if cls in NETS and "device" in self.given:
            params["device"] = self.given["device"]
        return params
