"""Models on disk: files that run no code when they are loaded, and ONNX graphs."""

from ._classes import TRUSTED_TYPES as TRUSTED_TYPES
from ._model import dump, load
from ._onnx import to_onnx
from ._steps import STEPS as STEPS

__all__ = ["dump", "load", "to_onnx"]
