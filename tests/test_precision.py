"""precision="bfloat16": the network in half precision, losses and thresholds in float32."""

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch import nn

from sktopk import RecallAtPrecisionClassifier, TopKClassifier
from tests.test_no_waiting import OF_CLASSES, RANKERS, table

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Dtypes(Callback):
    """Dtypes of the scores that losses get, and of the network's output."""

    def __init__(self):
        self.of_loss, self.of_network = set(), set()

    def __deepcopy__(self, memo):
        return self

    def on_train_begin(self, net, **kwargs):
        self.hook = net.module_.register_forward_hook(self.note)

    def note(self, module, rows, output):
        self.of_network.add(output.dtype)

    def on_batch_end(self, net, y_pred, training, **kwargs):
        self.of_loss.add(y_pred.dtype)

    def on_train_end(self, net, **kwargs):
        self.hook.remove()


def losses_of(clf, n_classes, precision, dtypes=None):
    name = "autocast" if isinstance(clf, RecallAtPrecisionClassifier) else "precision"
    clf.set_params(**{name: precision}, max_epochs=5, batch_size=32, random_state=0)
    clf.set_params(hidden_layer_sizes=(5,), optimizer="adam", device="cpu")
    clf.set_params(callbacks=[dtypes] if dtypes else None)
    X, y = table(n_classes)
    y = (y == 0).astype(int) if n_classes == 10 else y
    clf.fit(X.astype(np.float32), y)
    assert clf.decision_function(X).dtype == np.float32
    return [row["train_loss"] for row in clf.history_]


@pytest.mark.parametrize("name", [*RANKERS, *OF_CLASSES])
def test_every_classifier_trains_in_bfloat16_with_losses_in_float32(name):
    clf, n_classes = (RANKERS[name], 10) if name in RANKERS else (OF_CLASSES[name], 6)
    dtypes = Dtypes()
    half = losses_of(clf, n_classes, "bfloat16", dtypes)
    assert (dtypes.of_loss, dtypes.of_network) == ({torch.float32}, {torch.bfloat16})
    assert half == pytest.approx(losses_of(clf, n_classes, None), rel=0.05)


class Noting(nn.CrossEntropyLoss):
    """A loss of somebody else."""

    dtype = None

    def forward(self, scores, target):
        type(self).dtype = scores.dtype
        return super().forward(scores, target)


def test_losses_of_others_get_float32():
    dtypes = Dtypes()
    losses_of(TopKClassifier(Noting(), k=3), 6, "bfloat16", dtypes)
    assert dtypes.of_network == {torch.bfloat16}
    assert Noting.dtype == torch.float32
