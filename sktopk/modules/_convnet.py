"""Small convolutional networks."""

from itertools import pairwise

from torch import nn


class ConvNet(nn.Sequential):
    r"""Small convolutional network of the accuracy-at-the-top experiments [1]_.

    .. math::
        x_{l+1} = \mathrm{maxpool}_2(\max(0, W_l * x_l + b_l)), \qquad
        s = V \, \mathrm{flat}(x_m) + b

    The networks of [1]_, appendix D:

    - ``channels=(20, 50), kernel_size=5, padding=0``, the default, for MNIST and Fashion-MNIST
      (28 x 28 pixels). The published code puts a linear layer of 500 outputs without
      activation before the last one, which represents the same functions.
    - ``channels=(64, 128, 128), kernel_size=3, padding=1`` for CIFAR and SVHN (32 x 32).

    At these sizes the last convolution leaves 4 x 4 pixels; images of other sizes are brought to
    4 x 4 by average pooling, so that the number of weights does not depend on the size.

    Parameters
    ----------
    n_channels : int
        Number of input channels.
    n_outputs : int
        Number of scores: one per class, 1 for the binary estimators.
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

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import ConvNet
    >>> ConvNet(1, 1)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 1])
    """

    def __init__(self, n_channels, n_outputs, channels=(20, 50), kernel_size=5, padding=0):
        layers = []
        for n_in, n_out in pairwise((n_channels, *channels)):
            layers += [nn.Conv2d(n_in, n_out, kernel_size, padding=padding), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
        layers += [nn.AdaptiveAvgPool2d(4), nn.Flatten()]
        super().__init__(*layers, nn.Linear(4 * 4 * channels[-1], n_outputs))
