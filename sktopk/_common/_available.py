"""Methods that an object has or has not."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable)


class AvailableMethod:
    """A method that is there only where `check` says so; see `available_if`."""

    def __init__(self, method, check):
        self.method, self.check = method, check
        update_wrapper(self, method)

    def __get__(self, instance, owner=None):
        if instance is None:
            # What documentation and metadata routing look at.
            return self.method
        try:
            available = self.check(instance)
        except AttributeError as reason:
            raise AttributeError(f"{owner.__name__}: {reason}") from None
        if not available:
            raise AttributeError(f"{owner.__name__} has no {self.method.__name__}")
        return MethodType(self.method, instance)


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """As scikit-learn's, but the last line of the error has the reason that `check` raises.

    There it is the cause of an error that says no more than that the attribute is missing, so
    that the way out stands two exceptions up.
    """
    # To type checkers it is the method.
    return lambda method: cast(Method, AvailableMethod(method, check))


def ranks(classifier):
    """Whether a fitted classifier, of two classes, has an order of rows; for `available_if`."""
    return _has_classes(classifier, True, "predict_top", "predict_topk(X, k)")


def chooses_labels(classifier):
    """Whether a fitted classifier, of several classes, has labels to choose from."""
    return _has_classes(classifier, False, "predict_topk", "predict_top(X, n)")


def _has_classes(classifier, two, name, other):
    fitted = getattr(classifier, "classes_", None)
    if fitted is not None and (len(fitted) == 2) != two:
        raise AttributeError(f"{name} is not there for {len(fitted)} classes: use {other}")
    return True
