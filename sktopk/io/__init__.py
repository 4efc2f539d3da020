"""Models on disk: files that run no code when they are loaded, and ONNX graphs."""

from typing import TYPE_CHECKING

from ._model import dump, load
from ._steps import STEPS as STEPS

__all__ = ["dump", "load", "to_onnx"]

if TYPE_CHECKING:  # Editors and type checkers read what `__getattr__` does.
    from ._onnx import to_onnx

    TRUSTED_TYPES: tuple[str, ...]


def __getattr__(name):
    # Both name the networks, which load torch: decisions are dumped and loaded without it.
    if name == "to_onnx":
        from ._onnx import to_onnx

        return globals().setdefault(name, to_onnx)
    if name == "TRUSTED_TYPES":
        from ._classes import trusted_types

        return globals().setdefault(name, trusted_types())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*__all__, "STEPS", "TRUSTED_TYPES"])
