"""net_params={"precision": "bf16"}: the network in half precision, losses in float32."""

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback

from tests.test_no_waiting import OF_CLASSES, RANKERS


class Dtypes(Callback):
    def __init__(self):
        self.of_loss, self.of_network = set(), set()

    def on_train_begin(self, net, **kwargs):
        self.hook = net.module_.register_forward_hook(lambda m, x, s: self.of_network.add(s.dtype))

    def on_batch_end(self, net, y_pred, training, **kwargs):
        self.of_loss.add(y_pred.dtype)

    def on_train_end(self, net, **kwargs):
        self.hook.remove()


def losses_of(clf, n_classes, precision, callbacks=None):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 4)).astype(np.float32), np.arange(150) % n_classes
    y = (y == 0).astype(int) if clf in RANKERS.values() else y
    clf.set_params(net_params={"precision": precision}, max_epochs=2, batch_size=50)
    clf.set_params(hidden_layer_sizes=(5,), calibration=None, random_state=0, callbacks=callbacks)
    scores = clf.fit(X, y).decision_function(X)
    # Predictions are in float32: nearly all scores differ, unlike rounded scores in bfloat16.
    assert scores.dtype == np.float32
    assert len(np.unique(scores)) > 0.98 * scores.size
    return [row["train_loss"] for row in clf.history_]


@pytest.mark.parametrize("name", RANKERS | OF_CLASSES)
def test_a_classifier_trains_in_bfloat16_with_losses_in_float32(name):
    clf, dtypes = (RANKERS | OF_CLASSES)[name], Dtypes()
    n_classes = 10 if name in RANKERS else 6
    half = losses_of(clf, n_classes, "bf16", [dtypes])
    assert torch.bfloat16 in dtypes.of_network
    assert dtypes.of_loss == {torch.float32}
    assert half == pytest.approx(losses_of(clf, n_classes, None), rel=0.1)
