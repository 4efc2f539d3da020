"""precision="bfloat16": the network in half precision, losses and thresholds in float32."""

import numpy as np
import pytest
import torch
from torch import nn

from sktopk import RecallAtPrecisionClassifier, TopKClassifier
from sktopk._training._net import Net
from tests.test_no_waiting import OF_CLASSES, RANKERS, table

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def dtypes(monkeypatch):
    """Dtypes of the scores that losses get, and of the network's output."""
    seen, backward = {"loss": set(), "network": set()}, Net._backward

    def noting(net, scores, target, weight):
        seen["loss"].add(scores.dtype)
        net.module_.register_forward_hook(
            lambda module, rows, output: seen["network"].add(output.dtype)
        )
        return backward(net, scores, target, weight)

    monkeypatch.setattr(Net, "_backward", noting)
    return seen


def losses_of(clf, n_classes, precision):
    name = "autocast" if isinstance(clf, RecallAtPrecisionClassifier) else "precision"
    clf.set_params(**{name: precision}, max_epochs=5, batch_size=32, random_state=0)
    clf.set_params(hidden_layer_sizes=(5,), optimizer="adam", device="cpu")
    X, y = table(n_classes)
    y = (y == 0).astype(int) if n_classes == 10 else y
    clf.fit(X.astype(np.float32), y)
    assert clf.decision_function(X).dtype == np.float32
    return [row["train_loss"] for row in clf.history_]


@pytest.mark.parametrize("name", [*RANKERS, *OF_CLASSES])
def test_every_classifier_trains_in_bfloat16_with_losses_in_float32(name, dtypes):
    clf, n_classes = (RANKERS[name], 10) if name in RANKERS else (OF_CLASSES[name], 6)
    half = losses_of(clf, n_classes, "bfloat16")
    assert dtypes == {"loss": {torch.float32}, "network": {torch.bfloat16}}
    assert half == pytest.approx(losses_of(clf, n_classes, None), rel=0.05)


class Noting(nn.CrossEntropyLoss):
    """A loss of somebody else."""

    dtype = None

    def forward(self, scores, target):
        type(self).dtype = scores.dtype
        return super().forward(scores, target)


def test_losses_of_others_get_float32(dtypes):
    losses_of(TopKClassifier(Noting(), k=3), 6, "bfloat16")
    assert dtypes["network"] == {torch.bfloat16}
    assert Noting.dtype == torch.float32
