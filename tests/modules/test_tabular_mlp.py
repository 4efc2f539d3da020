"""TabularMLP: independent networks, and columns that are scaled and encoded inside."""

import math
import re

import numpy as np
import pytest
import torch

from sktopk.modules import TableEncoder, TabularMLP

NAN, INF = math.nan, math.inf


def table(n=300, d=5, seed=0, dtype=torch.float64):
    """Columns of several kinds: normal, heavy-tailed, few values, mostly one value, binary."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn((n, d), generator=generator, dtype=dtype)
    x[:, 1] = x[:, 1].mul(4).exp()
    x[:, 2] = x[:, 2].mul(2).round().clamp(-2, 2)
    x[:, 3] = x[:, 3].sub(1).clamp(min=0)
    x[:, 4] = (x[:, 4] > 1).to(dtype)
    return x


def network(X, n_outputs=3, seed=0, **params):
    torch.manual_seed(seed)
    return TabularMLP(X.shape[1], n_outputs, **params).to(X.dtype).from_data(X)


def test_networks_have_different_initial_weights_distributed_as_in_linear_layers():
    for layer in network(table(), n_members=50, hidden_layer_sizes=(40,)).layers:
        for values in (layer.weight, layer.bias):
            assert len({tuple(v.flatten().tolist()) for v in values}) == 50
            bound = layer.in_features**-0.5
            assert values.abs().max() <= bound
            # A uniform distribution has the standard deviation bound / sqrt(3).
            assert values.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_dropout_drops_a_share_of_units_and_scales_the_others():
    X = table()
    net = network(X, n_members=2, dropout=0.4, hidden_layer_sizes=(200,))
    net.layers[-1].weight.data.fill_(1 / 200)
    net.layers[0].weight.data.zero_()
    net.layers[0].bias.data.fill_(1.0)
    kept = net(X)[..., 0] - net.layers[-1].bias[:, 0]
    assert kept.mean().item() == pytest.approx(1, abs=0.02)
    # Each value is a mean of 200 units, which are 0 (with probability 0.4) or 1 / 0.6.
    assert kept.std().item() == pytest.approx((0.4 / 0.6 / 200) ** 0.5, rel=0.2)
    assert torch.equal(net.eval()(X), net(X))
    net.dropout.train()
    assert not torch.equal(net(X), net(X))


def encoded(net, X, j):
    encoder, d = net.encoder, net.n_features
    out, own = encoder(X), (encoder.bin_column == j) & (encoder.bin_slope > 0)
    _, bins, indicators = out.split([d, encoder.n_encoded, out.shape[1] - d - encoder.n_encoded], 1)
    return out[:, j], bins[:, own], indicators[:, j] if len(encoder.missing_column) else None


def test_a_single_distant_value_does_not_determine_the_scale_of_a_column():
    X = torch.arange(1000.0).unsqueeze(1) % 10
    X[0] = 1e7
    assert TabularMLP(1, 1).from_data(X).encoder.scale.item() == pytest.approx(0.2)


def edges_of(net, j):
    encoder = net.encoder
    own = (encoder.bin_column == j) & (encoder.bin_slope > 0)
    start, end = encoder.bin_start[own], (encoder.bin_start + 1 / encoder.bin_slope)[own]
    return torch.cat([start, end[-1:]]) / encoder.scale[j] + encoder.center[j]


def test_bins_equal_the_bins_of_rtdl_num_embeddings_but_the_outer_bins_are_closed(default_dtype):
    """Compare with the package of Gorishniy et al., whose buffers have torch's default dtype."""
    default_dtype(torch.float64)
    rtdl = pytest.importorskip("rtdl_num_embeddings")
    X = table(n=401)
    net = network(X, n_bins=8)
    # The quantiles 0, 1/8, ..., 1 of 401 distinct values are every 50th of the sorted values.
    torch.testing.assert_close(edges_of(net, 1), X[:, 1].sort().values[::50])
    theirs = rtdl.PiecewiseLinearEncoding([edges_of(net, j) for j in range(4)])
    new = 2 * table(n=300, seed=1)
    inside = new.clamp(X.amin(0), X.amax(0))
    for rows in (X, inside, new):
        ours = net.encoder(rows)[:, 5 : 5 + net.encoder.n_encoded][:, net.encoder.bin_slope > 0]
        code = theirs(rows[:, :4])
        # The first and the last bin of rtdl are unbounded. Those of TabularMLP are bounded.
        assert ((code.clamp(0, 1) - code).abs().max() > 1e-6) == (rows is new)
        torch.testing.assert_close(ours, code.clamp(0, 1), rtol=0, atol=1e-6)


def test_the_smooth_clip_equals_its_formula():
    X = table()
    net = network(X)
    q = X[:, 0].quantile(torch.tensor([0.25, 0.5, 0.75], dtype=X.dtype), interpolation="midpoint")
    z = (X[:, 0] - q[1]) / (q[2] - q[0])
    torch.testing.assert_close(encoded(net, X, 0)[0], z / (1 + (z / 3) ** 2).sqrt())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("factor", "shift"), [(1e4, 0.0), (-1e-6, 0.0), (1e9, 0.0), (2.0, 100.0)])
def test_the_unit_of_a_column_does_not_matter(dtype, factor, shift):
    X = table(dtype=dtype)
    Y, tolerance = X * factor + shift, {torch.float32: 1e-4, torch.float64: 1e-9}[dtype]
    for j in (0, 2, 3, 4):
        a, bins_a, _ = encoded(network(X), X, j)
        b, bins_b, _ = encoded(network(Y), Y, j)
        if factor > 0:
            torch.testing.assert_close(bins_a, bins_b, atol=tolerance * 10, rtol=0)
        torch.testing.assert_close(a, math.copysign(1, factor) * b, atol=tolerance, rtol=0)


COLUMNS = {
    "constant": [5.0] * 8,
    "constant and huge": [1e38] * 8,
    "binary": [0.0, 1.0] * 4,
    "one row differs": [0.0] * 7 + [1e-9],
    "noise around a value, and one far away": [1.0, 1 + 1e-15, 1 - 1e-15, 1.0, 1.0, 1.0, 1.0, 1e9],
    "infinite": [0.0, 1.0, 2.0, 3.0, INF, -INF, 4.0, 5.0],
    "nothing but infinite": [INF, -INF] * 4,
    "missing": [NAN] * 8,
    "one value": [NAN] * 7 + [3.0],
    "smallest numbers": [0.0, 1e-45, 2e-45, 3e-45, 4e-45, 5e-45, 6e-45, 7e-45],
    "whole range": [-3e38, 3e38, 0.0, 1.0, -1.0, 1e30, -1e30, 1e-30],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_any_column_is_encoded_as_finite_numbers(name):
    column = torch.tensor(COLUMNS[name]).unsqueeze(1)
    net = network(column, n_bins=4, missing_indicator=True)
    extreme = torch.tensor([NAN, INF, -INF, 1e38, -1e38, 0.0]).unsqueeze(1)
    for rows in (column, extreme):
        assert net.encoder(rows).abs().max() <= 3
    assert all(buffer.isfinite().all() for buffer in net.buffers())


def test_a_missing_value_is_replaced_by_the_median_and_has_an_indicator():
    X = table(n=301)
    X[::5, 0] = NAN
    net, missing, filled = network(X, missing_indicator=True), X[:, 0].isnan(), X.clone()
    filled[missing, 0] = X[~missing, 0].quantile(0.5)
    *found, indicator = encoded(net, X, 0)
    torch.testing.assert_close(found, [*encoded(net, filled, 0)[:2]])
    assert indicator.tolist() == missing.double().tolist()


def test_missing_indicator_can_be_limited_to_some_columns():
    X = table(n=301)
    X[::5, 0], X[::7, 3] = NAN, NAN
    net, whole = (network(X, missing_indicator=each) for each in ([3], True))
    d, out = 5 + net.encoder.n_encoded, net.encoder(X)
    torch.testing.assert_close(out[:, :d], whole.encoder(X)[:, :d])
    assert out[:, d:].tolist() == X[:, 3:4].isnan().double().tolist()


def test_categories_are_one_hot_encoded_with_their_mean_for_nan_and_zeros_for_other_values():
    X = table(n=40)
    X[:, 1] = torch.arange(40) % 3
    X[0, 1], X[1, 1], X[2, 1], X[3, 1] = NAN, -1.0, 3.0, 0.5
    net, without = (network(X, n_categories=each) for each in ({1: 3}, None))
    assert net.encoder.n_encoded == without.encoder.n_encoded - net.encoder.n_bins
    out = net.encoder(X)
    of_categories = out[:, 5 + net.encoder.n_encoded :]
    for row, value in enumerate(X[:, 1].tolist()):
        expected = [(1 / 3 if value != value else max(value, 0) == j) / 3**0.5 for j in range(3)]
        assert of_categories[row].tolist() == pytest.approx(expected)
    # The scaled value of the categorical column is 0, also for values that are no category.
    assert (out[:, 1] == 0).all()
    torch.testing.assert_close(out[:, [0, 2, 3, 4]], without.encoder(X)[:, [0, 2, 3, 4]])
    X[:, 1] = INF
    assert (net.encoder(X)[:, 5 + net.encoder.n_encoded :] == 0).all()
    assert (net.encoder(X)[:, 1] == 0).all()
    of_parameters = {"category_column", "category_value", "category_scale", "missing_column"}
    assert not net.state_dict().keys() & of_parameters


def test_samples_of_a_wrong_shape_raise():
    for shape in [(0, 5), (4, 6), (5,)]:
        with pytest.raises(ValueError, match=r"X must have shape \(n_samples, 5\)"):
            TabularMLP(5, 2).from_data(torch.zeros(shape))
    for shape in [(4, 1), (4, 6), (6,), ()]:
        for network in (TableEncoder(5), TabularMLP(5, 2, n_bins=4)):
            with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., 5\); got \("):
                network(torch.zeros(shape))


@pytest.mark.parametrize("weight", [[1, NAN, 1], [1, -1, 2], [1, INF, 1], [1.0] * 4, [1.0] * 2])
def test_wrong_sample_weights_raise(weight):
    message = "have shape (3,); got" if len(weight) != 3 else "be in [0, inf); got"
    with pytest.raises(ValueError, match=re.escape(f"sample_weight must {message}")):
        TabularMLP(5, 2).from_data(torch.zeros(3, 5), torch.tensor(weight))


def test_an_encoder_raises_for_wrong_parameters():
    wrong = {"n_categories": {5: 2}, "missing_indicator": [0, 7], "n_bins": -2}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"{name}.* must "):
            TableEncoder(3, **{name: value})


@pytest.mark.parametrize("n_distinct", [3, 12, 400])
def test_sample_weights_equal_repetitions_of_samples(n_distinct, rng):
    X = torch.from_numpy(rng.integers(0, n_distinct, (200, 3)) ** 1.5)
    weight = rng.integers(0, 4, 200)
    weighted = TabularMLP(3, 2).from_data(X, torch.from_numpy(0.37 * weight))
    repeated = TabularMLP(3, 2).from_data(X[np.repeat(np.arange(200), weight)])
    for name, buffer in repeated.named_buffers():
        assert torch.equal(buffer, weighted.get_buffer(name)), name
    if n_distinct == 400:
        unweighted = TabularMLP(3, 2).from_data(X)
        assert not torch.equal(repeated.encoder.center, unweighted.encoder.center)


def test_a_column_that_mixes_continuous_values_with_zeros_and_ones_has_all_bins(rng):
    kind = np.arange(30_000) % 4
    X = torch.from_numpy(np.where(kind % 2, rng.normal(100, 10, 30_000), kind / 2))[:, None]
    assert TabularMLP(1, 2, n_bins=8).from_data(X).encoder.bin_slope.count_nonzero() == 8


UNIFORM = torch.rand(3_000, generator=torch.Generator().manual_seed(1)).double()
WEIGHTS = {
    "light at the top": lambda values: torch.where(values == values.max(), 1e-6, 1.0),
    "halved again and again": lambda values: 0.5 ** (40 * values.argsort().argsort() / 3_000),
    "of any magnitude": lambda values: 10 ** (600 * UNIFORM - 300),
    "heavy values": lambda values: torch.where(values.abs() < 0.002, 1e9, 1e-9),
}


@pytest.mark.parametrize("n_bins", [2, 3, 8])
@pytest.mark.parametrize("decimals", [2, 15])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_column_has_at_most_n_bins_with_very_unequal_sample_weights(weights, decimals, n_bins):
    X = table(n=3_000)[:, 0].round(decimals=decimals)
    net = TabularMLP(1, 2, n_bins=n_bins, dtype=torch.float64)
    net.from_data(X.unsqueeze(1), WEIGHTS[weights](X))
    assert 0 < int((net.encoder.bin_slope > 0).sum()) <= n_bins
    # With any weights, the outer bins end at the extreme values (scaled and clipped to 1e6).
    center, scale = net.encoder.center, net.encoder.scale
    ends = ((torch.stack([X.min(), X.max()]) - center) * scale).clamp(-1e6, 1e6)
    torch.testing.assert_close((edges_of(net, 0)[[0, -1]] - center) * scale, ends)


@pytest.mark.parametrize("column", [-1, 2, 2**40])
def test_load_state_dict_raises_for_the_index_of_a_column_that_does_not_exist(column):
    network = TabularMLP(2, 3, n_bins=4)
    state = network.state_dict()
    network.load_state_dict(state)
    state["encoder.bin_column"] = torch.full_like(state["encoder.bin_column"], column)
    with pytest.raises(ValueError, match=r"bin_column must have column indices in \[0, 2\)"):
        network.load_state_dict(state)
