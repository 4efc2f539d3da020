"""State of estimators: the version of sktopk, and fitted attributes."""

import warnings
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from sktopk import __version__

_KEY = "_sktopk_version"


class Versioned:
    """Mixin that stores the version of sktopk in the state, as scikit-learn's estimators do.

    `__setstate__` warns if another version wrote the state.
    """

    def __getstate__(self) -> dict[str, Any]:
        return dict(super().__getstate__()) | {_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop(_KEY, "before 0.3.0")
        if version != __version__:
            name = f"{type(self).__name__} of sktopk"
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=name,
                    current_sklearn_version=__version__,
                    original_sklearn_version=version,
                ),
                stacklevel=2,
            )
        super().__setstate__(state)


def fitted_attributes(estimator):
    """Return the attributes that `fit` sets: those whose names end with an underscore."""
    return {k: v for k, v in vars(estimator).items() if k.endswith("_") and not k.endswith("__")}


def assign(estimator, fitted):
    """Replace all fitted attributes in one step, so that other threads see the old or the new."""
    before = fitted_attributes(estimator)
    own = {name: value for name, value in vars(estimator).items() if name not in before}
    estimator.__dict__ = own | fitted_attributes(fitted)


def present(estimator):
    """Return the estimator in its present state, whatever a `fit` in another thread does."""
    now = object.__new__(type(estimator))
    now.__dict__ = estimator.__dict__
    return now
