"""Networks that mask classes with a score of minus infinity."""

import numpy as np
import pytest
import torch
from torch import nn

from sktopk import TopKClassifier

N_CLASSES = 5


class Masked(nn.Module):
    """A linear layer; the first class is possible only if the first feature is positive."""

    def __init__(self, n_features, n_outputs):
        super().__init__()
        self.layer = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        scores = self.layer(x)
        first = torch.arange(scores.shape[1]) % N_CLASSES == 0
        return scores.masked_fill(first & (x[:, :1] <= 0), -torch.inf)


def batch():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)).astype(np.float32)
    X[:, 0] = np.repeat([-1, 1], 150)
    utility = X @ rng.standard_normal((4, N_CLASSES))
    utility[:150, 0] = -np.inf
    return X, utility.argmax(1)


@pytest.mark.parametrize(
    "loss",
    ["cross_entropy", "smooth_topk", "topk_hinge_convex", "topk_grouping", "focal", "noised_topk"],
)
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_network_that_masks_classes_is_trained(loss, share):
    X, y = batch()
    clf = TopKClassifier(
        loss, k=2, log_loss_share=share, module=Masked, max_epochs=10, random_state=0
    )
    clf.fit(X, y)
    proba = clf.predict_proba(X)
    assert (proba[:150, 0] == 0).all()
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    assert (clf.predict_topk(X[:150]) != 0).all()
    assert clf.score(X, y) > 0.8
