"""Names by which classes are known outside."""

from typing import TypeVar

Named = TypeVar("Named")


def public(named: Named) -> Named:
    """Say that a class or function is of `sktopk`, whatever file it lives in.

    Pickles, error messages and documentation name that place, so that they outlive a move.
    """
    named.__module__ = "sktopk"
    return named
