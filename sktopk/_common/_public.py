"""Public module names of classes."""

from typing import TypeVar

Named = TypeVar("Named")


def public(named: Named) -> Named:
    """Set the module of a class or function to `sktopk`.

    Pickles, error messages and documentation then do not depend on the file of the definition.
    """
    named.__module__ = "sktopk"
    return named
