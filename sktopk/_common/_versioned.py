"""Version of sktopk in the state of estimators."""

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
