"""Densely connected networks for small images."""

import torch
from torch import nn

from ._initialisation import initialise_convolutions


class DenseNet(nn.Sequential):
    r"""Densely connected network [1]_ for images of 32 x 32 pixels.

    Each layer adds `growth_rate` channels, computed from all channels before it:

    .. math::
        x_{l+1} = [x_l, H_l(x_l)], \qquad
        H_l = \text{convolution} \circ \text{ReLU} \circ \text{batch normalisation}

    Three blocks of such layers, between them a 1 x 1 convolution and average pooling that
    halves the image, at the end the mean over all pixels and a linear layer.

    Sizes in use, written depth-growth, and their number of parameters with 100 classes:

    - 40-12 is the default, for the temperature experiment of [2]_ (1.06 million).
    - 40-40 is the network of the label noise experiments of [2]_ and [3]_. The published code
      of both builds it with bottlenecks, which the papers do not mention:
      ``growth_rate=40, bottleneck=True`` (1.94 million; without them 10.7 million).

    Parameters
    ----------
    n_channels : int
        Number of input channels.
    n_outputs : int
        Number of scores, one per class.
    depth : int, default=40
        Number of layers with weights: 4 more than a multiple of 3 (of 6 with `bottleneck`).
    growth_rate : int, default=12
        Channels that a layer adds.
    bottleneck : bool, default=False
        Whether it is a DenseNet-BC: half as many layers, each with a 1 x 1 convolution to
        4 `growth_rate` channels first; between blocks half of the channels are kept; the first
        convolution has 2 `growth_rate` channels instead of 16.

    Raises
    ------
    ValueError
        If `depth` does not divide into three blocks.

    See Also
    --------
    ResNet18 : Wider and faster, with more parameters.

    References
    ----------
    .. [1] Huang, Liu, van der Maaten, Weinberger. "Densely Connected Convolutional Networks",
       CVPR 2017, table 2.
    .. [2] Berrada, Zisserman, Kumar. "Smooth Loss Functions for Deep Top-k Classification",
       ICLR 2018, sections 3.3 and 5.1.
    .. [3] Garcin, Servajean, Joly, Salmon. "Stochastic smoothing of the top-K calibrated hinge
       loss for deep imbalanced classification", ICML 2022, section 4.4.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import DenseNet
    >>> network = DenseNet(3, 100)
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    >>> sum(p.numel() for p in network.parameters())
    1060132

    In an estimator, here the 40-40 of the published code:

    >>> from sktopk import TopKClassifier
    >>> sizes = {"module__growth_rate": 40, "module__bottleneck": True}
    >>> clf = TopKClassifier(module=DenseNet, net_params=sizes)
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
        initialise_convolutions(self)
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
    """Half the image, `kept` channels."""
    return nn.Sequential(
        nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, kept, 1, bias=False), nn.AvgPool2d(2)
    )
