"""Methods that an estimator has only under a condition, such as two classes."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable)


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
    """Return a decorator that makes a method available only if ``check(instance)`` is true.

    Unlike in scikit-learn's `available_if`, the error message is the message that `check` raises.
    """
    # The cast tells type checkers that the decorator does not change the type of the method.
    return lambda method: cast(Method, AvailableMethod(method, check))


def ranks(classifier):
    """Return True, or raise `AttributeError` if a fitted classifier has more than two classes."""
    return _has_classes(classifier, True, "predict_top", "predict_topk(X, k)")


def chooses_labels(classifier):
    """Return True, or raise `AttributeError` if a fitted classifier has only two classes."""
    return _has_classes(classifier, False, "predict_topk", "predict_top(X, n)")


def _has_classes(classifier, two, name, other):
    fitted = getattr(classifier, "classes_", None)
    if fitted is not None and (len(fitted) == 2) != two:
        raise AttributeError(f"{name} is not available for {len(fitted)} classes: use {other}")
    return True
