"""Initial weights of the convolutional networks."""

from torch import nn


def initialise_convolutions(network):
    r"""Draw the weights of convolutions from N(0, 2 / fan out), in place.

    The variance of gradients then neither grows nor shrinks through layers with a ReLU (He et
    al., "Delving Deep into Rectifiers", ICCV 2015). Batch normalisation starts at scale 1 and
    shift 0 as torch leaves it.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
