"""Models on disk: files of skops, which are read without pickle, and ONNX graphs."""

from typing import TYPE_CHECKING

from ._skops import dump, load

__all__ = ["dump", "load", "to_onnx"]

if TYPE_CHECKING:  # Editors and type checkers read what `__getattr__` does.
    from ._onnx._to_onnx import to_onnx


def __getattr__(name):
    # Imported on demand, as it loads torch.
    if name == "to_onnx":
        from ._onnx._to_onnx import to_onnx

        return globals().setdefault(name, to_onnx)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
