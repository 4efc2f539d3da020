"""Additional skorch callback for the networks of this package."""

from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback

from ._training._objectives import TopLoss
from ._training._scores import score_chunks

__all__ = ["TrueThreshold"]


class TrueThreshold(Callback):
    """Record the threshold of the loss, computed from all training samples before each step.

    Each epoch in `history_` gets an array `true_threshold` with one value per step, in the scale of
    the network's scores. Compare it with the array `threshold`, which contains the estimates from
    minibatches. Each step takes an additional pass over the data.

    Raises
    ------
    TypeError
        In `fit`, if the loss has no threshold, or if `fit` gets `groups`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sktopk import DeepTopPushClassifier
    >>> from sktopk.callbacks import TrueThreshold
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = DeepTopPushClassifier(callbacks=[TrueThreshold()], max_epochs=2, batch_size=128)
    >>> clf.fit(X, y).history_[-1]["true_threshold"].shape
    (5,)
    """

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        objective = getattr(net.criterion_, "named", net.criterion_)
        if not isinstance(objective, TopLoss):
            raise TypeError(
                "TrueThreshold needs an estimator of sktopk whose loss has a threshold; got "
                f"{type(objective).__name__}"
            )
        if net.run.batches.groups is not None:
            raise TypeError("callbacks must not have TrueThreshold if fit gets groups")
        positive, weight = torch.from_numpy(np.asarray(y) == 1), net.run.weight

        def threshold():
            scores = torch.cat([each.cpu() for each in score_chunks(net, X)]).double()
            members = scores.view(len(scores), -1).unbind(1)
            each = [objective.threshold(scores, positive, weight) for scores in members]
            return sum(each) / len(each)

        self.threshold_, self.values_ = threshold, []

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        self.values_.append(float(self.threshold_()))

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        net.history.record_batch("true_threshold", self.values_)
        self.values_ = []

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        del self.threshold_, self.values_
