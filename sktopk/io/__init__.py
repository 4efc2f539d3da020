"""Models on disk: files that run no code when they are loaded, and ONNX graphs."""

from typing import TYPE_CHECKING

from ._model import dump, load
from ._steps import STEPS as STEPS

__all__ = ["dump", "load", "register_onnx_converters", "to_onnx"]

if TYPE_CHECKING:  # Editors and type checkers read what `__getattr__` does.
    from ._onnx._register import register_onnx_converters
    from ._onnx._to_onnx import to_onnx

    TRUSTED_TYPES: tuple[str, ...]


def __getattr__(name):
    # These take a while to import; those that name the networks load torch as well.
    if name == "to_onnx":
        from ._onnx._to_onnx import to_onnx

        return globals().setdefault(name, to_onnx)
    if name == "register_onnx_converters":
        from ._onnx._register import register_onnx_converters

        return globals().setdefault(name, register_onnx_converters)
    if name == "TRUSTED_TYPES":
        from ._classes import trusted_types

        return globals().setdefault(name, trusted_types())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*__all__, "STEPS", "TRUSTED_TYPES"])
