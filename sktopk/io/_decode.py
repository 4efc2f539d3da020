"""Estimators from plain values and arrays, each checked before it is used."""

import inspect
import re

import numpy as np
import pandas as pd

from sktopk._common._values import Decoder

from ._classes import class_of, is_net
from ._encode import TYPES
from ._fitted import check_inner, check_state
from ._monitor import restored
from ._steps import check_step

# Estimators within estimators, and what a walk through all of them visits: each that is referred
# to is visited again, with all it holds.
_MAX_DEPTH = 20
_MAX_VISITS = 1000
_DTYPES = re.compile(r"[<|](b1|[iu][1248]|f[248]|[US]\d{1,6}|O)")


class EstimatorDecoder(Decoder):
    """Undo what `EstimatorEncoder` did.

    Parameters
    ----------
    arrays : dict of ndarray
    given : dict
        Values of the parameters that were left out, and perhaps a `device`.
    trusted : bool
        As in `load`.
    """

    def __init__(self, arrays, given, trusted):
        super().__init__(arrays)
        self.given, self.trusted = given, trusted
        self._estimators, self._depth, self._n_visits = [], 0, 0
        self.kinds |= {
            "device": self._device,
            "dtype": self._dtype,
            "estimator": self._estimator,
            "frame": self._frame,
            "module": lambda name: class_of("modules", name),
            "monitor": lambda state: restored(self._named(state)),
            "omitted": lambda name: self.given[name],
            "optimizer": self._optimizer,
            "record": self._record,
            "same": self._same,
            "series": lambda parts: pd.Series(self.decode(parts[1]), index=self.decode(parts[0])),
            "slice": lambda ends: slice(*self._items(ends)),
            "type": lambda name: TYPES[name],
        }
        # On whatever device the file says.
        del self.kinds["tensor"]

    def _named(self, values):
        return {name: self.decode(value) for name, value in values.items()}

    def _dtype(self, name):
        if not _DTYPES.fullmatch(name):
            raise ValueError(f"it holds an unknown dtype {name!r:.40}")
        return np.dtype(name)

    def _frame(self, parts):
        names, index, columns = parts
        columns = dict(enumerate(self._items(columns)))
        frame = pd.DataFrame(columns, index=self.decode(index))
        return frame.set_axis(self.decode(names), axis=1)

    def _device(self, name):
        import torch

        return torch.device(name)

    def _optimizer(self, name):
        import torch

        optimizer = getattr(torch.optim, str(name), None)
        if not (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)):
            raise ValueError(f"it holds an unknown optimizer {name!r:.40}")
        return optimizer

    def _record(self, node):
        return class_of("records", node["record"])(**self._named(node["fields"]))

    def _visit(self, n):
        self._n_visits += n
        if self._n_visits > _MAX_VISITS or self._depth > _MAX_DEPTH:
            raise ValueError(
                f"its estimators refer to each other more than {_MAX_VISITS} times, or are more "
                f"than {_MAX_DEPTH} deep"
            )

    def _same(self, number):
        known = range(len(self._estimators))
        if type(number) is not int or number not in known or self._estimators[number] is None:
            raise ValueError(f"it refers to an estimator {number!r:.40} that it does not hold")
        estimator, n_visits = self._estimators[number]
        self._visit(n_visits)
        return estimator

    def _estimator(self, node):
        name, place, before = node["estimator"], len(self._estimators), self._n_visits
        cls = class_of("estimators", name)
        self._estimators.append(None)
        self._depth += 1
        self._visit(1)
        estimator = cls(**self._params(cls, node["params"]))
        check_inner(estimator)
        built = self._params(cls, node["params_of_net"]) if "params_of_net" in node else None
        fitted = self._named(node["fitted"])
        if (built is not None) != (is_net(cls) and "net_" in fitted):
            raise ValueError(f"net_ and params_of_net of {name} do not belong together")
        check_state(estimator, fitted, None if built is None else cls(**built))
        if built is not None:
            fitted["_params_of_net"] = built
        if fitted:
            estimator.__setstate__({**vars(estimator), **fitted})
        if not cls.__module__.startswith("sktopk"):
            check_step(estimator, self.trusted)
        self._depth -= 1
        self._estimators[place] = estimator, self._n_visits - before
        return estimator

    def _params(self, cls, encoded):
        known = inspect.signature(cls).parameters
        unknown = sorted(set(encoded) - set(known))
        if unknown:
            raise ValueError(f"{cls.__name__} has no parameters {unknown}: upgrade sktopk")
        params = self._named(encoded)
        if is_net(cls) and "device" in self.given:
            params["device"] = self.given["device"]
        return params
