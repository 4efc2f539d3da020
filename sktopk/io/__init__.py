"""Save and load models: skops files, which do not use pickle, and ONNX graphs."""

from ._onnx._to_onnx import to_onnx
from ._skops import dump, load

__all__ = ["dump", "load", "to_onnx"]
