"""Methods that an object has or has not."""

from functools import update_wrapper
from types import MethodType


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


def available_if(check):
    """As scikit-learn's, but the last line of the error has the reason that `check` raises.

    There it is the cause of an error that says no more than that the attribute is missing, so
    that the way out stands two exceptions up.
    """
    return lambda method: AvailableMethod(method, check)
