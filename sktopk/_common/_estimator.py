"""Common parts of estimators: public names, optional methods, version and fitted attributes."""

import warnings
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

from sklearn.exceptions import InconsistentVersionWarning

from sktopk import __version__

Named = TypeVar("Named")
Method = TypeVar("Method", bound=Callable)

_KEY = "_sktopk_version"


def public(named: Named) -> Named:
    """Set ``__module__`` to "sktopk", the name that pickles, errors and documentation show."""
    named.__module__ = "sktopk"
    return named


class AvailableMethod:
    """Descriptor of a method that is available only if ``check(instance)`` is true."""

    def __init__(self, method, check):
        self.method, self.check = method, check
        update_wrapper(self, method)

    def __get__(self, instance, owner=None):
        if instance is None:
            # Documentation tools and metadata routing read the method from the class.
            return self.method
        try:
            available = self.check(instance)
        except AttributeError as reason:
            raise AttributeError(f"{owner.__name__}: {reason}") from None
        if not available:
            raise AttributeError(f"{owner.__name__} has no {self.method.__name__}")
        return MethodType(self.method, instance)


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Work like scikit-learn's `available_if`, but show the reason if `check` raises an error."""
    # The cast tells type checkers that the decorator does not change the type of the method.
    return lambda method: cast(Method, AvailableMethod(method, check))


class Versioned:
    """Mixin that stores the version of sktopk in pickles, and warns if the versions differ."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(super().__getstate__()) | {_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop(_KEY, "before 0.3.0")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=f"{type(self).__name__} of sktopk",
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
    """Replace all fitted attributes at once: other threads never see old and new ones mixed."""
    before = fitted_attributes(estimator)
    estimator.__dict__ = {k: v for k, v in vars(estimator).items() if k not in before} | fitted


def present(estimator):
    """Return a snapshot of the estimator, which does not change if another thread calls `fit`."""
    now = object.__new__(type(estimator))
    now.__dict__ = estimator.__dict__
    return now
