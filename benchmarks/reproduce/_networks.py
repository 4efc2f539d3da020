"""The networks of the papers, and the parameters that train estimators as the papers do.

Each network has `n_channels` input channels and `n_outputs` scores.
"""

from itertools import pairwise

import torch
from skorch.callbacks import LRScheduler
from torch import nn
from torch.nn import functional as F

from sktopk.modules import MLP

# Constant learning rate. Without this callback, an estimator trains one cycle of the learning rate.
CONSTANT_RATE = LRScheduler(policy=torch.optim.lr_scheduler.ConstantLR, factor=1.0)
# Parameters for training as in the papers: one network, the named loss only.
AS_PUBLISHED = {
    "log_loss_share": 0,
    "n_estimators": 1,
    "calibration": None,
    "n_iter_no_change": None,
    "callbacks": [CONSTANT_RATE],
}
# Settings that are common for small networks.
ADAM = {
    "learning_rate": 1e-3,
    "batch_size": 128,
    "net_params": {"optimizer": torch.optim.Adam, "optimizer__weight_decay": 1e-4},
}


class Scaled(nn.Module):
    """A network whose scores are multiplied by a factor. The initial scores do not depend on it."""

    def __init__(self, network, factor):
        super().__init__()
        self.network, self.factor = network, factor
        with torch.no_grad():
            for parameter in network[-1].parameters():
                parameter.div_(factor)

    def forward(self, X):
        return self.factor * self.network(X)


def scaled_mlp(n_features, n_outputs, width, factor):
    """Return a network with one hidden layer and scores multiplied by a factor."""
    return Scaled(MLP(n_features, n_outputs, (width,)), factor)


class ConvNet(nn.Sequential):
    r"""Small convolutional network of the accuracy-at-the-top experiments [1]_.

    .. math::
        x_{l+1} = \mathrm{maxpool}_2(\max(0, W_l * x_l + b_l)), \qquad
        s = V \, \mathrm{flat}(x_m) + b

    The networks of [1]_, appendix D:

    - ``channels=(20, 50), kernel_size=5, padding=0``, the default, for MNIST and Fashion-MNIST
      (28 x 28 pixels). The published code has another linear layer of 500 outputs before the
      last layer. It has no activation, so both networks represent the same functions.
    - ``channels=(64, 128, 128), kernel_size=3, padding=1`` for CIFAR and SVHN (32 x 32).

    With these sizes, the last convolution has outputs of 4 x 4 pixels. For other sizes, average
    pooling reduces the outputs to 4 x 4, so the number of weights does not depend on the size.

    Parameters
    ----------
    channels : tuple of int, default=(20, 50)
        Channels of each convolution.
    kernel_size : int, default=5
        Side of the kernels in pixels.
    padding : int, default=0
        Zeros around the image before each convolution.

    References
    ----------
    .. [1] Adam, Mácha, Šmídl. "DeepTopPush: Simple and Scalable Method for Accuracy at the
       Top", 2020, appendix D.
    """

    def __init__(self, n_channels, n_outputs, channels=(20, 50), kernel_size=5, padding=0):
        layers = []
        for n_in, n_out in pairwise((n_channels, *channels)):
            layers += [nn.Conv2d(n_in, n_out, kernel_size, padding=padding), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
        layers += [nn.AdaptiveAvgPool2d(4), nn.Flatten()]
        super().__init__(*layers, nn.Linear(4 * 4 * channels[-1], n_outputs))


class DenseNet(nn.Sequential):
    r"""Densely connected network [1]_ for images of 32 x 32 pixels.

    Each layer adds `growth_rate` channels, computed from all channels before it:

    .. math::
        x_{l+1} = [x_l, H_l(x_l)], \qquad
        H_l = \text{convolution} \circ \text{ReLU} \circ \text{batch normalisation}

    The network has three blocks of such layers. Between the blocks are a 1 x 1 convolution and
    average pooling that halves the image. At the end are the mean over pixels and a linear layer.

    These sizes, written as depth-growth, are used with 100 classes:

    - 40-12 is the default, for the temperature experiment of [2]_ (1.06 million
      parameters).
    - 40-40 is the network of the label noise experiments of [2]_ and [3]_. The published code
      of both builds it with bottlenecks, which the papers do not mention:
      ``growth_rate=40, bottleneck=True`` (1.94 million parameters; 10.7 million without
      bottlenecks).

    Parameters
    ----------
    depth : int, default=40
        Number of layers with weights: 4 more than a multiple of 3 (of 6 with `bottleneck`).
    growth_rate : int, default=12
        Number of channels that a layer adds.
    bottleneck : bool, default=False
        Whether to build a DenseNet-BC. It has half the number of layers, and each begins with a
        1 x 1 convolution to 4 `growth_rate` channels. Half of the channels are kept between
        blocks. The first convolution has 2 `growth_rate` channels instead of 16.

    Raises
    ------
    ValueError
        If layers of this `depth` cannot be divided into three equal blocks.

    References
    ----------
    .. [1] Huang, Liu, van der Maaten, Weinberger. "Densely Connected Convolutional Networks",
       CVPR 2017, table 2.
    .. [2] Berrada, Zisserman, Kumar. "Smooth Loss Functions for Deep Top-k Classification",
       ICLR 2018, sections 3.3 and 5.1.
    .. [3] Garcin, Servajean, Joly, Salmon. "Stochastic smoothing of the top-K calibrated hinge
       loss for deep imbalanced classification", ICML 2022, section 4.4.
    """

    def __init__(self, n_channels, n_outputs, depth=40, growth_rate=12, bottleneck=False):
        per_layer = 2 if bottleneck else 1
        n_layers, rest = divmod(depth - 4, 3 * per_layer)
        if n_layers < 1 or rest:
            raise ValueError(
                f"depth={depth} must be 4 more than a multiple of {3 * per_layer} (three blocks"
                f"{', two convolutions a layer' if bottleneck else ''})"
            )
        width = 2 * growth_rate if bottleneck else 16
        stages = [nn.Conv2d(n_channels, width, 3, padding=1, bias=False)]
        for block in range(3):
            if block > 0:
                kept = width // 2 if bottleneck else width
                stages.append(_transition(width, kept))
                width = kept
            for _ in range(n_layers):
                stages.append(_DenseLayer(width, growth_rate, bottleneck))
                width += growth_rate
        head = [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        super().__init__(*stages, *head, nn.Linear(width, n_outputs))
        _initialise_convolutions(self)
        nn.init.zeros_(self[-1].bias)


class _DenseLayer(nn.Sequential):
    """Append `growth_rate` channels to the input."""

    def __init__(self, width, growth_rate, bottleneck):
        layers = []
        if bottleneck:
            layers += [nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.Conv2d(width, 4 * growth_rate, 1, bias=False)]
            width = 4 * growth_rate
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        super().__init__(*layers, nn.Conv2d(width, growth_rate, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, super().forward(x)], dim=1)


def _transition(width, kept):
    """Return layers that halve the image and keep `kept` channels."""
    return nn.Sequential(
        nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, kept, 1, bias=False), nn.AvgPool2d(2)
    )


class ResNet18(nn.Sequential):
    r"""Residual network of 18 layers [1]_ in the form used for images of 32 x 32 pixels.

    .. math::
        x_{l+1} = \max(0, x_l + F_l(x_l)), \qquad
        F_l: \text{two } 3 \times 3 \text{ convolutions with batch normalisation}

    The network has four groups of two such blocks, with 64, 128, 256 and 512 channels (times
    `width` / 64). The image is halved before each group except the first. At the end are the mean
    over all pixels and a linear layer. The first convolution is 3 x 3 with stride 1, without
    pooling; the ResNet for large images begins by shrinking them to a quarter. With `width=64` and
    100 classes it is the ResNet18 of the CIFAR-100 experiments of [2]_ (11.2 million parameters).

    Parameters
    ----------
    width : int, default=64
        Number of channels of the first group. Use 16 for experiments on a CPU.

    References
    ----------
    .. [1] He, Zhang, Ren, Sun. "Deep Residual Learning for Image Recognition", CVPR 2016.
    .. [2] Sawada, Kaneko, Sagi. "Trade-offs in Top-k Classification Accuracies on Losses for
       Deep Learning", 2020, section V.
    """

    def __init__(self, n_channels, n_outputs, width=64):
        stages = [nn.Conv2d(n_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
        stages.append(nn.ReLU())
        n_in = width
        for group in range(4):
            n_out = width * 2**group
            stages.append(_ResidualBlock(n_in, n_out, stride=1 if group == 0 else 2))
            stages.append(_ResidualBlock(n_out, n_out, stride=1))
            n_in = n_out
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_outputs)]
        super().__init__(*stages, *head)
        _initialise_convolutions(self)


class _ResidualBlock(nn.Module):
    """Two convolutions and a shortcut, which is a 1 x 1 convolution if the shape changes."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.residual(x))


def _initialise_convolutions(network):
    r"""Draw the weights of convolutions from N(0, 2 / fan out), in place.

    The variance of gradients then neither grows nor shrinks through layers with a ReLU (He et
    al., "Delving Deep into Rectifiers", ICCV 2015). Batch normalisation starts at scale 1 and
    shift 0 as torch leaves it.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
