"""Our own callbacks of the skorch net."""

from numbers import Real

import numpy as np
import torch
from skorch.callbacks import Callback
from tqdm.auto import tqdm

from ._process import all_objects
from ._state import copied_weights
from .criteria._top import TopCriterion


class ProgressBar(Callback):
    """One bar over the epochs of a fit, with the last loss and validation score."""

    def __init__(self, epochs, what):
        self.epochs, self.what = epochs, what

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.bar_ = tqdm(total=self.epochs, desc=self.what, unit="epoch")

    def on_epoch_end(self, net, **kwargs):
        shown = {
            "train_loss": net.history[-1, "batches", -1, "train_loss"],
            "valid_score": net.history[-1].get("valid_score"),
        }
        self.bar_.set_postfix({k: f"{v:.4g}" for k, v in shown.items() if v is not None})
        self.bar_.update()

    def state_dict(self):
        """How far the bar is."""
        return {"n": self.bar_.n}

    def load_state_dict(self, state):
        """Start where another bar was."""
        self.bar_.update(state["n"])

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.bar_.close()
        del self.bar_


class TrueThreshold(Callback):
    """Record the threshold over all training rows before each step, beside its estimate.

    For the classifiers whose loss has a threshold, such as :class:`sktopk.DeepTopPushClassifier`:
    `history_` then has `true_threshold` beside `threshold`, an array over the steps of each
    epoch, in units of the network's scores. Costs a pass over the data per step.

    Raises
    ------
    TypeError
        When training begins, if the loss has no threshold.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import DeepTopPushClassifier
    >>> from sktopk.callbacks import TrueThreshold
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = DeepTopPushClassifier(callbacks=[TrueThreshold()], max_epochs=2, random_state=0)
    >>> clf.fit(scale(X), y).history_[0]["true_threshold"].shape
    (5,)
    """

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        if not isinstance(net.criterion_, TopCriterion):
            raise TypeError(
                "callbacks must have no TrueThreshold where the loss has no threshold; got one "
                f"for {type(net.criterion_).__name__}"
            )
        rows, positive, weight = net.rows(X), torch.from_numpy(np.asarray(y) == 1), net.weight_

        def threshold():
            scores = torch.cat([each.flatten().cpu() for _, each in net.score_rows(rows)])
            return net.criterion_.threshold(scores.double(), positive, weight)

        self.threshold_ = threshold

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        trace = net.criterion_.trace.setdefault("true_threshold", [])
        trace.append(self.threshold_().reshape(1))

    def on_train_end(self, net, X=None, y=None, **kwargs):
        # It holds on to the rows.
        del self.threshold_


class Validation(Callback):
    """Score held-out rows after each epoch; keep the best weights, stop when they get old.

    Parameters
    ----------
    score : callable
        Returns a float, the larger the better.
    patience : int or None
        Epochs without an improvement of more than `tol` after which to stop and put the best
        weights back; None only records.
    tol : float
    """

    def __init__(self, score, patience, tol):
        self.score, self.patience, self.tol = score, patience, tol

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.best_, self.age_, self.weights_ = -np.inf, 0, None
        self.best_loss_ = np.inf

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        scores = all_objects(self.score())
        # Processes that train together decide together.
        score = scores[0] if len(scores) == 1 else float(np.mean(scores))
        if not isinstance(score, Real) or not np.isfinite(score):
            raise ValueError(f"scoring must return a finite number; got {score!r}")
        net.history.record("valid_score", float(score))
        # What skorch's callbacks look for.
        loss = float(np.mean(all_objects(net.mean_loss(dataset_valid.X, dataset_valid.y))))
        net.history.record("valid_loss", loss)
        net.history.record("valid_loss_best", loss < self.best_loss_)
        self.best_loss_ = min(loss, self.best_loss_)
        if self.patience is None:
            return
        if score > self.best_:
            # Any gain is kept, but only one above tol buys more time.
            if score > self.best_ + self.tol:
                self.age_ = -1
            self.best_ = score
            self.weights_ = copied_weights(net.module_)
        self.age_ += 1
        net.stop_training = self.age_ >= self.patience

    def on_train_end(self, net, X=None, y=None, **kwargs):
        if self.weights_ is not None:
            net.alone(net.module_.load_state_dict, self.weights_)
