"""Callbacks of the skorch net."""

from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback
from tqdm.auto import tqdm

from ._process import all_objects
from ._state import copied_weights
from .criteria._top import TopCriterion


class ProgressBar(Callback):
    """Progress bar over the epochs of a fit, with the last loss and validation score."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.bar_ = tqdm(total=self.n_epochs, desc="Training", unit="epoch")

    def on_epoch_end(self, net, **kwargs):
        shown = {
            "train_loss": net.history[-1, "batches", -1, "train_loss"],
            "valid_score": net.history[-1].get("valid_score"),
        }
        self.bar_.set_postfix({k: f"{v:.4g}" for k, v in shown.items() if v is not None})
        self.bar_.update(len(net.history) - self.bar_.n if self.bar_.n else 1)

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.bar_.close()
        del self.bar_


class TrueThreshold(Callback):
    """Record the threshold of the loss, computed from all training samples, before each step.

    Each epoch in `history_` gets an array `true_threshold` with one value per step. Compare it with
    the array `threshold`, which contains the estimates from minibatches. Thresholds are on the
    scale of the network's scores. The loss must have a threshold, as in
    :class:`sktopk.DeepTopPushClassifier`. Each step takes an additional pass over the data.

    Raises
    ------
    TypeError
        In `fit`, if the loss has no threshold, or a separate threshold for each group.

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
        criterion = net.criterion_.losses[0]
        if not isinstance(criterion, TopCriterion):
            raise TypeError(
                "callbacks must not have TrueThreshold if the loss has no threshold; got "
                f"{type(criterion).__name__}"
            )
        if criterion.groups is not None:
            raise TypeError("callbacks must not have TrueThreshold with groups of samples")
        rows, positive, weight = net.rows(X), torch.from_numpy(np.asarray(y) == 1), net.weight_

        def threshold():
            scores = torch.cat([each.cpu() for _, each in net.score_chunks(rows)]).double()
            members = scores.view(len(scores), -1).unbind(1)
            each = [criterion.threshold(scores, positive, weight) for scores in members]
            return sum(each) / len(each)

        self.threshold_ = threshold

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        if getattr(net.criterion_, "pretraining", False):
            return  # cross-entropy has no threshold
        trace = net.criterion_.trace.setdefault("true_threshold", [])
        trace.append(self.threshold_().reshape(1))

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        del self.threshold_


class Validation(Callback):
    """Early stopping: score held-out samples after each epoch and keep the best weights.

    The pretraining does not stop early, and its weights are never kept.

    Parameters
    ----------
    score : callable
        Called with the net. Returns a score, the larger the better, or a list of one score per
        ensemble member. Each member then keeps its own best weights.
    patience : int or None
        Number of epochs without improvement after which training stops. None only records scores.
    watched : bool
        Whether to record scores in the pretraining, too.
    """

    def __init__(self, score, patience, watched):
        self.score, self.patience, self.watched = score, patience, watched

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.best_, self.age_, self.weights_, self.best_loss_ = -np.inf, 0, None, np.inf

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        pretraining = getattr(net.criterion_, "pretraining", False)
        if pretraining and not self.watched:
            return
        # Use the mean over processes, so that all processes stop in the same epoch.
        scores = np.mean(all_objects(self.score(net)), axis=0)
        net.history.record("valid_score", float(np.mean(scores)))
        if dataset_valid is not None:
            # Callbacks of skorch read these entries of the history.
            loss = float(np.mean(all_objects(net.loss_of(dataset_valid.X, dataset_valid.y))))
            net.history.record("valid_loss", loss)
            net.history.record("valid_loss_best", loss < self.best_loss_)
            self.best_loss_ = min(loss, self.best_loss_)
        if self.patience is None or pretraining:
            return
        if not hasattr(net.module_, "of_member"):
            # Use the mean score: in a custom network, the weights of a single member are unknown.
            scores = np.mean(scores)
        # Ignore rounding errors: scores of the same ranking can differ slightly.
        rounding = 1e-9 * np.abs(np.nan_to_num(self.best_, neginf=0.0))
        better = scores > self.best_ + rounding
        if np.any(better):
            self.age_ = -1
            self.best_ = np.where(better, scores, self.best_)
            self._keep(net.module_, better)
        self.age_ += 1
        net.stop_training = self.age_ >= self.patience

    def _keep(self, module, better):
        """Copy the weights of all members m for which ``better[m]`` is True."""
        if self.weights_ is None or np.all(better):
            self.weights_ = copied_weights(module)
            return
        now = module.state_dict()
        for m in np.flatnonzero(better):
            for name, index in module.of_member(m).items():
                self.weights_[name][index] = now[name][index]

    def on_train_end(self, net, X=None, y=None, **kwargs):
        if self.weights_ is not None:
            net.module_.load_state_dict(self.weights_)

    def state_dict(self):
        """Return the state for a checkpoint."""
        best = torch.as_tensor(np.asarray(self.best_, dtype=np.float64))
        state = {"best": best, "age": self.age_, "weights": self.weights_}
        return state | {"best_loss": self.best_loss_}

    def load_state_dict(self, state):
        self.best_, self.age_ = state["best"].numpy(), state["age"]
        self.weights_, self.best_loss_ = state["weights"], state["best_loss"]
