"""Our own callbacks of the skorch net."""

from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback
from tqdm.auto import tqdm

from sktopk.modules._members import of_member

from ._process import all_objects
from ._state import copied_weights
from .criteria._top import TopCriterion
from .criteria._warm_up import WarmUp

# What the learning rate is multiplied by when the warm-up is over.
RATE_AFTER_WARM_UP = 0.25


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
        When training begins, if the loss has no threshold, or one for each group.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import DeepTopPushClassifier
    >>> from sktopk.callbacks import TrueThreshold
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> from sktopk.modules import MLP
    >>> clf = DeepTopPushClassifier(module=MLP, callbacks=[TrueThreshold()], max_epochs=2)
    >>> clf.fit(scale(X), y).history_[0]["true_threshold"].shape
    (5,)
    """

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        criterion = net.criterion_.losses[0]
        if not isinstance(criterion, TopCriterion):
            raise TypeError(
                "callbacks must have no TrueThreshold where the loss has no threshold; got one "
                f"for {type(criterion).__name__}"
            )
        if criterion.groups is not None:
            raise TypeError("callbacks must have no TrueThreshold with groups, which have many")
        rows, positive, weight = net.rows(X), torch.from_numpy(np.asarray(y) == 1), net.weight_

        def threshold():
            scores = torch.cat([each.cpu() for _, each in net.score_members(rows)]).double()
            # The mean over the members.
            members = scores.view(len(scores), -1).unbind(1)
            return sum(criterion.threshold(each, positive, weight) for each in members) / len(
                members
            )

        self.threshold_ = threshold

    def on_batch_begin(
        self, net: Any, batch: Any = None, training: bool = False, **kwargs: Any
    ) -> None:
        if isinstance(net.criterion_, WarmUp) and not net.criterion_.warm:
            return  # cross-entropy has none
        trace = net.criterion_.trace.setdefault("true_threshold", [])
        trace.append(self.threshold_().reshape(1))

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:
        # It holds on to the rows.
        del self.threshold_


class Validation(Callback):
    """Score rows that were not trained on after each epoch; keep the best weights, stop in time.

    Parameters
    ----------
    score : callable
        Returns a float, the larger the better, or a list of them with one for each member of the
        network, which then keeps its own best weights.
    patience : int or None
        Epochs without an improvement of more than `tol`, of any member, after which to stop and
        put the best weights back; None only records.
    tol : float
    n_averaged : int, default=1
        Each epoch is judged by the mean of its score and those before it, of so many in all.
    """

    def __init__(self, score, patience, tol, n_averaged=1):
        self.score, self.patience, self.tol = score, patience, tol
        self.n_averaged = n_averaged

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.best_, self.age_, self.weights_ = -np.inf, 0, None
        self.best_loss_, self.recent_ = np.inf, []

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        # Processes that train together decide together.
        scores = all_objects(self.score())
        for score in scores:
            for each in score if isinstance(score, list) else [score]:
                if not _is_number(each):
                    raise ValueError(f"scoring must return a finite number; got {each!r}")
        scores = np.mean(scores, axis=0)
        net.history.record("valid_score", float(scores.mean()))
        if dataset_valid is not None:
            # What skorch's callbacks look for.
            loss = float(np.mean(all_objects(net.mean_loss(dataset_valid.X, dataset_valid.y))))
            net.history.record("valid_loss", loss)
            net.history.record("valid_loss_best", loss < self.best_loss_)
            self.best_loss_ = min(loss, self.best_loss_)
        if self.patience is None:
            return
        self.recent_ = [*self.recent_, scores][-self.n_averaged :]
        scores = np.mean(self.recent_, axis=0)
        # The same ranks in other rows are no better by the last digit of a sum.
        rounding = 1e-9 * np.abs(np.nan_to_num(self.best_, neginf=0.0))
        better = scores > self.best_ + rounding
        if better.any():
            # Any gain is kept, but only one above tol buys more time.
            if (scores > self.best_ + self.tol).any():
                self.age_ = -1
            self.best_ = np.where(better, scores, self.best_)
            self._keep(net.module_, better)
        self.age_ += 1
        net.stop_training = self.age_ >= self.patience

    def _keep(self, module, better):
        """Copy the weights of the whole network, or of the members that are better."""
        if better.ndim == 0 or better.all():
            self.weights_ = copied_weights(module)
            return
        now = module.state_dict()
        for m in np.flatnonzero(better):
            for name, index in of_member(module, m).items():
                self.weights_[name][index] = now[name][index]

    def put_back(self, net):
        """Give the network the best weights so far."""
        if self.weights_ is not None:
            net.alone(net.module_.load_state_dict, self.weights_)

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.put_back(net)


def _is_number(score):
    """Whether a score, which may be anything, is a finite number."""
    values = np.asarray(score)
    return values.ndim == 0 and values.dtype.kind in "biuf" and bool(np.isfinite(values))


class WarmUpEnd(Callback):
    """End the warm-up after so many epochs, or when validation rows ask for it.

    The loss that follows starts from the best weights, at a lower rate, and with no moments.

    Parameters
    ----------
    n_epochs : int
    validation : Validation or None
        Comes before this callback.
    """

    def __init__(self, n_epochs, validation):
        self.n_epochs, self.validation = n_epochs, validation

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.n_done_, self.n_warm_ = 0, 0

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        self.n_done_ += 1
        if net.criterion_.warm or not (net.stop_training or self.n_done_ >= self.n_epochs):
            return
        net.stop_training = False
        self.n_warm_ = self.n_done_
        if self.validation is not None and self.validation.patience is not None:
            self.validation.put_back(net)
            self.validation.age_ = 0
        net.criterion_.end_warm_up(RATE_AFTER_WARM_UP)
        net.optimizer_.state.clear()
        net.scale_rate(RATE_AFTER_WARM_UP)

    def no_gain(self, net):
        """After a training, say so if validation rows scored as high before the loss began."""
        n_after = self.n_done_ - self.n_warm_
        if self.validation is None or not self.n_warm_ or not n_after:
            return None
        scores = net.history[-self.n_done_ :, "valid_score"]
        before, after = max(scores[: self.n_warm_]), max(scores[self.n_warm_ :])
        if after > before:
            return None
        return (
            f"On rows not trained on, cross-entropy alone scored {before:.4g} at best in the "
            f"warm-up of {self.n_warm_} epochs, and the loss after it {after:.4g} in "
            f"{n_after}: it has not beaten cross-entropy here"
        )
