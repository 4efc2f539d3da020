"""Residual networks for small images."""

from torch import nn
from torch.nn import functional as F

from ._initialisation import initialise_convolutions


class ResNet18(nn.Sequential):
    r"""Residual network of 18 layers [1]_ in the form used for images of 32 x 32 pixels.

    .. math::
        x_{l+1} = \max(0, x_l + F_l(x_l)), \qquad
        F_l: \text{two } 3 \times 3 \text{ convolutions with batch normalisation}

    Four groups of two such blocks with 64, 128, 256 and 512 channels (times `width` / 64), the
    image halved before each but the first, then the mean over all pixels and a linear layer.
    The first convolution is 3 x 3 with stride 1 and no pooling follows, where the network for
    large images begins by shrinking them to a quarter. With `width=64` and 100 classes it has
    11.2 million parameters. It is the ResNet18 of the CIFAR-100 experiments of [2]_.

    Parameters
    ----------
    n_channels : int
        Number of input channels.
    n_outputs : int
        Number of scores, one per class.
    width : int, default=64
        Channels of the first group; 16 makes a network for experiments on a CPU.

    See Also
    --------
    DenseNet : Fewer parameters, more memory.

    References
    ----------
    .. [1] He, Zhang, Ren, Sun. "Deep Residual Learning for Image Recognition", CVPR 2016.
    .. [2] Sawada, Kaneko, Sagi. "Trade-offs in Top-k Classification Accuracies on Losses for
       Deep Learning", 2020, section V.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import ResNet18
    >>> network = ResNet18(3, 100)
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    >>> sum(p.numel() for p in network.parameters())
    11220132
    """

    def __init__(self, n_channels, n_outputs, width=64):
        stages = [nn.Conv2d(n_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
        stages.append(nn.ReLU())
        n_in = width
        for group in range(4):
            n_out = width * 2**group
            stages.append(_Block(n_in, n_out, stride=1 if group == 0 else 2))
            stages.append(_Block(n_out, n_out, stride=1))
            n_in = n_out
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_outputs)]
        super().__init__(*stages, *head)
        initialise_convolutions(self)


class _Block(nn.Module):
    """Two convolutions beside a shortcut, which is a 1 x 1 convolution where the shape changes."""

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
