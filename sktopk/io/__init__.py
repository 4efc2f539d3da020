"""Save and load models: skops files, which do not use pickle, and ONNX graphs."""

from typing import TYPE_CHECKING

from ._skops import dump, load

__all__ = ["dump", "load", "to_onnx"]

if TYPE_CHECKING:  # for editors and type checkers; see `__getattr__`
    from ._onnx._to_onnx import to_onnx


def __getattr__(name):
    # Import `to_onnx` only on access, because its module imports torch.
    if name == "to_onnx":
        from ._onnx._to_onnx import to_onnx

        return globals().setdefault(name, to_onnx)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
