"""Parameters of an estimator that trains a net, and copies of it without pickles inside."""

import torch
from sklearn.base import BaseEstimator

from sktopk._training._fitting import build_net, trainable
from sktopk._training._state import load_net_state, net_state

from ._parameter_checks import (
    ROUTED,
)


class NetEstimator(BaseEstimator):
    """An estimator that keeps its trained net as ``net_``."""

    def get_params(self, deep=True):
        """Return the parameters, with the routed keys of `net_params` among the deep ones."""
        params = super().get_params(deep)
        if deep and isinstance(self.net_params, dict):
            routed = {k: v for k, v in self.net_params.items() if str(k).startswith(ROUTED)}
            params.update(routed)
        return params

    def set_params(self, **params):
        """Set parameters; ``module__``, ``optimizer__``, ``callbacks__`` go to `net_params`."""
        routed = {k: params.pop(k) for k in list(params) if k.startswith(ROUTED)}
        if routed:
            params["net_params"] = {**(params.get("net_params", self.net_params) or {}), **routed}
        return super().set_params(**params)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "net_")

    def __getstate__(self):
        # A skorch net carries a pickle inside its pickle: keep arrays and plain values, and
        # the parameters it was built from, which set_params may have changed since.
        state = dict(super().__getstate__())
        if "net_" in state:
            net = state.pop("net_")
            state["net_"], state["_params_of_net"] = net_state(net), net.params_of_net
        return state

    def __setstate__(self, state):
        state = dict(state)
        net, params = state.pop("net_", None), state.pop("_params_of_net", None)
        super().__setstate__(state)
        if net is None:
            return
        # A model from a machine with a GPU still loads where there is none.
        device = None if torch.cuda.is_available() else torch.device("cpu")
        with trainable():
            self.net_ = build_net(self._as_fitted(params), net["dtype"], seed=0, device=device)
            load_net_state(self.net_, net)

    def _as_fitted(self, params):
        """This estimator with the parameters of its fit, which set_params may have changed."""
        fitted = type(self)(**params)
        vars(fitted).update({k: v for k, v in vars(self).items() if k.endswith("_")})
        return fitted
