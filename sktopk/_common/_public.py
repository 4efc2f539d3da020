"""Public module names of classes."""

from typing import TypeVar

Named = TypeVar("Named")


def public(named: Named) -> Named:
    """Set the module of a class or function to `sktopk`, for pickles, errors and documentation."""
    named.__module__ = "sktopk"
    return named
