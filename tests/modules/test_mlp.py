"""The default network for tables."""

from sktopk.modules import MLP


def test_the_molecule_network_has_its_layers():
    network = MLP(100, 1, hidden_layer_sizes=(50, 25), batch_norm=True)
    dense = (100 * 50 + 50) + (50 * 25 + 25) + (25 + 1)
    assert sum(p.numel() for p in network.parameters()) == dense + 2 * 50 + 2 * 25
