"""Methods that are available only under a condition."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable)


class AvailableMethod:
    """Descriptor of a method that is available only if `check` allows it; see `available_if`."""

    def __init__(self, method, check):
        self.method, self.check = method, check
        update_wrapper(self, method)

    def __get__(self, instance, owner=None):
        if instance is None:
            # Access on the class returns the plain method, for documentation and metadata routing.
            return self.method
        try:
            available = self.check(instance)
        except AttributeError as reason:
            raise AttributeError(f"{owner.__name__}: {reason}") from None
        if not available:
            raise AttributeError(f"{owner.__name__} has no {self.method.__name__}")
        return MethodType(self.method, instance)


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Return a decorator like scikit-learn's, whose error message contains the reason.

    The error message of scikit-learn lacks the reason. Only the cause of the error states it.
    """
    # Type checkers treat the result as the method itself.
    return lambda method: cast(Method, AvailableMethod(method, check))


def ranks(classifier):
    """Check for `available_if` that a fitted classifier has two classes: scores rank samples."""
    return _has_classes(classifier, True, "predict_top", "predict_topk(X, k)")


def chooses_labels(classifier):
    """Check for `available_if` that a fitted classifier has more than two classes."""
    return _has_classes(classifier, False, "predict_topk", "predict_top(X, n)")


def _has_classes(classifier, two, name, other):
    fitted = getattr(classifier, "classes_", None)
    if fitted is not None and (len(fitted) == 2) != two:
        raise AttributeError(f"{name} is not available for {len(fitted)} classes: use {other}")
    return True
