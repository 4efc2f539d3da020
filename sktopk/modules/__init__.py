"""Networks: plain torch modules, usable without the estimators."""

from ._convnet import ConvNet
from ._densenet import DenseNet
from ._mlp import MLP
from ._normalized_linear import NormalizedLinear
from ._resnet import ResNet18
from ._scaled_scores import ScaledScores

__all__ = ["MLP", "ConvNet", "DenseNet", "NormalizedLinear", "ResNet18", "ScaledScores"]
