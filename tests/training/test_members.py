"""Each network of an ensemble learns independently, from the samples that it does not hold out."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import sktopk
from sktopk import TopKClassifier
from sktopk._common._samples import deal, shuffled_order
from sktopk.modules import MLP, TabularMLP
from sktopk.modules._tabular_mlp import Members

RNG = np.random.default_rng(0)
N, M = 60, 3
X = RNG.standard_normal((N, 4))
Y = (X @ RNG.standard_normal((4, 5)) + RNG.standard_normal((N, 5))).argmax(1)
POSITIVE = (X[:, 0] + RNG.standard_normal(N) > 0.7).astype(int)
WEIGHT = RNG.integers(1, 4, N).astype(float)
SMALL = {"hidden_layer_sizes": (3,), "max_epochs": 3, "random_state": 0}


def test_the_scores_are_the_mean_of_the_scores_of_the_networks():
    clf = TopKClassifier(k=1, n_estimators=M, module=MLP, **SMALL).fit(X, Y)
    assert isinstance(clf.net_.module_, Members)
    each = clf.net_.module_(torch.from_numpy(X))
    assert each.shape == (N, M, 5)
    np.testing.assert_allclose(clf.decision_function(X), each.mean(1).detach())


def own_weights(clf, m):
    module = clf.net_.module_
    if isinstance(module, Members):
        return module[m].state_dict()
    return {name: parameter.detach()[m] for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("module", [TabularMLP, MLP])
@pytest.mark.parametrize(
    "clf",
    [
        TopKClassifier(k=2),
        TopKClassifier("logit_adjusted", k=1),
        sktopk.PatMatClassifier(tau=0.1, buffer_size=5),
        sktopk.FScoreClassifier(),
    ],
    ids=["smooth_topk", "logit_adjusted", "PatMat", "FScore"],
)
def test_a_network_never_learns_from_the_samples_that_it_holds_out(clf, module, monkeypatch, rng):
    y = Y if isinstance(clf, TopKClassifier) else POSITIVE
    fold = deal(shuffled_order(X, 0), y, M)
    monkeypatch.setattr("sktopk._estimators._fit.deal", lambda *args: fold)
    clf.set_params(**SMALL, n_estimators=M, module=module, batch_size=N)
    whole = clf.fit(X, y, sample_weight=WEIGHT).__getstate__()
    before = [copy.deepcopy(own_weights(clf, m)) for m in range(M)]
    assert "oob_score_" in whole
    other, weight = y.copy(), WEIGHT.copy()
    out = np.flatnonzero(fold == 0)
    other[out] = np.roll(y[out], 1)  # each fold keeps its classes
    # TabularMLP scales columns by the weights of all samples, so only MLP gets other weights.
    if module is MLP:
        weight[out] *= rng.integers(1, 9, len(out))
    clf.fit(X, other, sample_weight=weight)
    for m in range(M):
        now = own_weights(clf, m)
        same = all(torch.allclose(now[key], before[m][key], rtol=1e-7, atol=1e-9) for key in now)
        assert same == (m == 0)


def test_equal_samples_lie_in_one_fold_whatever_their_labels(rng):
    rows, y = rng.integers(0, 3, (200, 3)).astype(float), np.r_[rng.integers(0, 3, 196), 3, 3, 4, 5]
    rows[-4:] = [[9, 9, 9], [9, 9, 9], [8, 8, 8], rows[0]]
    clf = TopKClassifier(k=1, n_estimators=3, max_epochs=1, random_state=0).fit(rows, y)
    out = np.isnan(clf.oob_decision_function_).any(axis=1)
    # A class in a single fold is not held out, nor are samples that equal samples of this class.
    expected = np.isin(y, (3, 4, 5)) | (rows == rows[0]).all(axis=1)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("name", ["labels", "two classes", "ranker"])
def test_each_out_of_fold_score_is_the_score_of_one_network_in_a_loop(name):
    y, clf = {
        "labels": (Y, TopKClassifier(k=2)),
        "two classes": (POSITIVE, TopKClassifier("cross_entropy", k=1)),
        "ranker": (POSITIVE, sktopk.PatMatClassifier(tau=0.1)),
    }[name]
    rows, y = X.copy(), y.copy()
    rows[1], y[1] = rows[0], y[0]
    clf.set_params(**SMALL, n_estimators=M)
    clf.fit(rows, y, sample_weight=np.r_[0.0, WEIGHT[1:]])
    scores = clf.net_.module_.eval()(torch.from_numpy(rows[1:])).detach().numpy()
    found = clf.oob_decision_function_
    assert np.isnan(found[0]).all()  # sample of weight 0
    for i in range(N - 1):
        expected = scores[i, :, :]
        if name == "two classes":
            expected = expected[:, 1:] - expected[:, :1]
        elif name == "ranker":
            expected = expected - clf.threshold_
        # The seed decides which network holds out a sample, so compare with the nearest score.
        distance = np.abs(expected - found[i + 1]).max(axis=1)
        assert distance.min() < 1e-9
    own = found[1:]
    if name == "labels":
        hit = (np.argsort(-own, axis=1)[:, :2] == y[1:, None]).any(1)
        assert clf.oob_score_ == pytest.approx(np.average(hit, weights=WEIGHT[1:]))
    elif name == "two classes":
        assert clf.oob_score_ == pytest.approx(np.average((own > 0) == y[1:], weights=WEIGHT[1:]))


class Together(nn.Module):
    def __init__(self, n_features, n_outputs, n_members=4):
        super().__init__()
        self.shape = n_members, n_outputs
        self.linear = nn.Linear(n_features, n_members * n_outputs)

    def forward(self, x):
        return self.linear(x).view(len(x), *self.shape)


def test_a_module_that_holds_all_networks_of_the_ensemble_is_built_once():
    clf = TopKClassifier(k=2, n_estimators=4, max_epochs=1, module=Together)
    assert type(clf.fit(X, Y).net_.module_) is Together
    # Networks with shared weights stop at the same epoch.
    clf.set_params(n_iter_no_change=1, max_epochs=9, learning_rate=0.3).fit(X, Y)
    assert clf.decision_function(X).shape == (N, 5)
    clf.set_params(module=lambda n_features, n_outputs: Together(n_features, n_outputs))
    with pytest.raises(ValueError, match=r"\(n_samples, 5\); got shape \(2, 1, 4, 5\)"):
        clf.fit(X, Y)
