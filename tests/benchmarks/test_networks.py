"""The papers' networks: their published sizes, their definitions, their use in estimators."""

import numpy as np
import pytest
import torch
from _networks import ConvNet, DenseNet, ResNet18
from torch.nn import functional as F

from sktopk import DeepTopPushClassifier, TopKClassifier


def n_parameters(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("depth", "growth_rate", "bottleneck", "published"),
    [
        (40, 12, False, "1.0"),
        (100, 12, False, "7.0"),
        (100, 24, False, "27.2"),
        (100, 12, True, "0.8"),
        (250, 24, True, "15.3"),
        (190, 40, True, "25.6"),
    ],
)
def test_densenets_have_the_published_sizes(depth, growth_rate, bottleneck, published):
    """Huang et al., table 2, in millions; counted for the 10 classes of CIFAR-10."""
    with torch.device("meta"):
        network = DenseNet(3, 10, depth, growth_rate, bottleneck)
    assert f"{n_parameters(network) / 1e6:.1f}" == published


def test_densenets_of_the_experiments_have_their_sizes():
    assert n_parameters(DenseNet(3, 100)) == 1_060_132
    assert round(n_parameters(DenseNet(3, 100, growth_rate=40, bottleneck=True)) / 1e6, 2) == 1.94


def test_depth_counts_the_layers_with_weights():
    for depth, bottleneck in [(40, False), (40, True), (22, True)]:
        network = DenseNet(3, 10, depth, 4, bottleneck)
        layers = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
        assert len(layers) == depth


def test_a_dense_layer_sees_every_channel_before_it():
    network = DenseNet(3, 10, depth=13, growth_rate=4).eval()
    x = torch.randn(2, 3, 32, 32)
    first = network[0](x)
    second = network[1](first)
    third = network[2](second)
    torch.testing.assert_close(third[:, :16], first)
    torch.testing.assert_close(third[:, :20], second)
    norm, _, convolution = network[2]
    expected = F.conv2d(F.relu(norm(second)), convolution.weight, padding=1)
    torch.testing.assert_close(third[:, 20:], expected)


def test_resnet18_has_the_size_in_use():
    # 11.2 million, of which 512 + 1 for each class; by hand: 3 x 3 convolutions, their batch
    # normalisation, 1 x 1 shortcuts where the channels change.
    widths = [64, 128, 256, 512]
    expected = 3 * 64 * 9 + 2 * 64
    for n_in, n in zip([64, *widths], widths, strict=False):
        expected += 9 * (n_in * n + 3 * n * n) + 4 * 2 * n
        expected += 0 if n_in == n else n_in * n + 2 * n
    assert n_parameters(ResNet18(3, 100)) == expected + 513 * 100
    assert round(expected / 1e6, 1) == 11.2
    convolutions = [m for m in ResNet18(3, 100).modules() if isinstance(m, torch.nn.Conv2d)]
    assert len([c for c in convolutions if c.kernel_size == (3, 3)]) == 17


def test_a_residual_block_adds_its_input():
    network = ResNet18(3, 10, width=8).eval()
    block = network[3]
    for parameter in block.residual.parameters():
        torch.nn.init.zeros_(parameter)
    x = torch.randn(2, 8, 8, 8)
    torch.testing.assert_close(block(x), F.relu(x))


@pytest.mark.parametrize(
    ("shape", "options"),
    [((1, 28, 28), {}), ((3, 32, 32), {"channels": (6, 7, 8), "kernel_size": 3, "padding": 1})],
)
def test_convnet_is_convolutions_pooling_and_one_dense_layer(shape, options):
    network = ConvNet(shape[0], 3, **options)
    x = torch.randn(2, *shape)
    h = x
    for layer in network:
        if isinstance(layer, torch.nn.Conv2d):
            h = F.conv2d(h, layer.weight, layer.bias, padding=options.get("padding", 0))
            h = F.max_pool2d(F.relu(h), 2)
    assert h.shape[2:] == (4, 4)
    expected = h.flatten(1) @ network[-1].weight.T + network[-1].bias
    torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize(
    "network",
    [
        lambda c, n: DenseNet(c, n, depth=10, growth_rate=4, bottleneck=True),
        lambda c, n: ResNet18(c, n, width=8),
        ConvNet,
    ],
    ids=["DenseNet", "ResNet18", "ConvNet"],
)
def test_networks_learn_in_estimators_and_are_reproducible(network, rng):
    y = np.arange(48) % 3
    X = rng.normal(size=(48, 2, 16, 16)).astype(np.float32)
    X[:, 0] += 2 * y[:, None, None]
    clf = TopKClassifier(k=1, module=network, max_epochs=12, batch_size=16, random_state=0)
    scores = clf.fit(X, y).decision_function(X)
    assert np.mean(scores.argmax(1) == y) > 0.8
    np.testing.assert_array_equal(clf.fit(X, y).decision_function(X), scores)

    top = DeepTopPushClassifier(module=network, max_epochs=12, batch_size=16, random_state=0)
    assert top.fit(X, y == 2).score(X, y == 2) > 0.6


@pytest.mark.parametrize("network", [DenseNet, ResNet18, ConvNet])
def test_every_parameter_gets_a_gradient(network):
    module = network(3, 5)
    module(torch.randn(4, 3, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


@pytest.mark.parametrize(("depth", "bottleneck"), [(41, False), (4, False), (13, True), (0, True)])
def test_a_depth_that_does_not_divide_is_refused(depth, bottleneck):
    with pytest.raises(ValueError, match=rf"depth={depth} must be 4 more than a multiple of"):
        DenseNet(3, 10, depth=depth, bottleneck=bottleneck)
