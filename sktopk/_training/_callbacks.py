"""Callbacks of the skorch net."""

import copy

import numpy as np
import torch
from skorch.callbacks import (
    BatchScoring,
    Callback,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    PassthroughScoring,
)

from sktopk._common._process import apart, joined, total
from sktopk._common._samples import is_significant
from sktopk._common._warnings import warn

HOLD_OUT = "pass X_val and y_val, or set calibration or n_iter_no_change"


def copied_weights(module):
    state = module.state_dict()  # a module may add values of any type to its state
    return {k: v.clone() if torch.is_tensor(v) else copy.deepcopy(v) for k, v in state.items()}


class ProgressBar(Callback):
    """Progress bar over the epochs of a fit, with the last loss and validation score."""

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        from tqdm.auto import tqdm  # this import warns in Jupyter without ipywidgets

        self.bar_ = tqdm(total=self.n_epochs, desc="Training", unit="epoch")
        self.n_before_ = len(net.history)  # epochs of earlier calls of `partial_fit`

    def on_epoch_end(self, net, **kwargs):
        shown = {"train_loss": f"{net.history[-1, 'batches', -1, 'train_loss']:.4g}"}
        if "valid_score" in net.history[-1]:
            shown["valid_score"] = f"{net.history[-1, 'valid_score']:.4g}"
        self.bar_.set_postfix(shown, refresh=False)
        # A checkpoint can add several epochs to the history at once.
        self.bar_.update(len(net.history) - self.n_before_ - self.bar_.n)

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.bar_.total = self.bar_.n  # early stopping ends with fewer steps than planned
        self.bar_.close()
        del self.bar_, self.n_before_


class Validation(Callback):
    """Score held-out samples after each epoch, and choose the epoch whose weights are kept.

    After `patience` epochs without improvement, training stops, and the best epoch is kept. If
    `patience` is None, the last epoch is kept, unless the best is better by > 2 standard errors.

    ``values(net)`` returns ``(value, weight, cluster, loss)``: three arrays with one entry for each
    held-out sample, and the mean loss or None. The validation score is the weighted mean of
    `value`. For the standard error, samples with the same number in `cluster` count as one sample.
    """

    def __init__(self, values, patience):
        self.values, self.patience = values, patience

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.best_, self.weights_, self.epoch_, self.keeps_best_ = None, None, 0, False
        self.best_loss_ = np.inf

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        value, weight, cluster, loss = self.values(net)
        value, weight, cluster = joined(value, weight, apart(cluster))  # processes share no cluster
        if loss is not None:
            # Callbacks of skorch read `valid_loss` and `valid_loss_best` from the history.
            loss, n_processes = total(np.array([loss, 1.0]))
            loss = float(loss / n_processes)
            net.history.record("valid_loss", loss)
            net.history.record("valid_loss_best", loss < self.best_loss_)
            self.best_loss_ = min(loss, self.best_loss_)
        if not weight.any():
            return
        n_epochs, score = len(net.history), np.average(value, weights=weight)
        net.history.record("valid_score", float(score))
        # Ignore rounding errors: scores of the same ranking can differ slightly.
        if self.best_ is None or score > np.average(self.best_, weights=weight) + 1e-9:
            self.best_, self.epoch_ = value, n_epochs
            self.weights_ = copied_weights(net.module_)
        net.history.record("valid_score_best", self.epoch_ == n_epochs)
        waits = self.patience is not None
        self.keeps_best_ = waits or is_significant(self.best_ - value, weight, cluster)
        net.stop_training |= waits and n_epochs - self.epoch_ >= self.patience

    def on_train_end(self, net, X=None, y=None, **kwargs):
        if not self.keeps_best_:
            self.epoch_ = len(net.history)
        elif self.epoch_ < len(net.history):
            net.module_.load_state_dict(self.weights_)

    def state_dict(self):
        state = {"epoch": self.epoch_, "keeps_best": self.keeps_best_, "weights": self.weights_}
        best = None if self.best_ is None else torch.from_numpy(self.best_)
        return state | {"best": best, "best_loss": self.best_loss_}

    def load_state_dict(self, state):
        self.epoch_, self.keeps_best_ = state["epoch"], state["keeps_best"]
        self.weights_, self.best_loss_ = state["weights"], state["best_loss"]
        self.best_ = None if state["best"] is None else state["best"].numpy()


def kept_epoch(callbacks, history):
    """Return the number (1 for the first epoch) of the epoch whose weights the network keeps."""
    epoch = len(history)
    for _, each in callbacks:
        if isinstance(each, Validation):
            epoch = each.epoch_
        elif isinstance(each, EarlyStopping) and each.load_best:
            epoch = each.best_epoch_ if 0 < each.best_epoch_ < len(history) else epoch
        elif isinstance(each, Checkpoint) and each.load_best and each.monitor and each.event_name:
            saved = [i for i, row in enumerate(history, 1) if row.get(each.event_name)]
            epoch = saved[-1] if saved else epoch
    return epoch


def without_old_best(callbacks):
    """Omit callbacks with ``load_best=True``, because they would load weights of earlier calls."""
    loading = EarlyStopping, Checkpoint
    kept = [each for each in callbacks if not (isinstance(each[1], loading) and each[1].load_best)]
    if len(kept) < len(callbacks):
        warn("partial_fit ignores callbacks with load_best=True: they would load earlier weights")
    return kept


def check_what_is_read(callbacks, has_val, is_fit):
    """Raise an error or warn if a callback of skorch cannot compute its score."""
    for _, each in callbacks:
        kind = type(each).__name__
        is_train_loss = isinstance(each, PassthroughScoring) and each.on_train
        if isinstance(each, BatchScoring | PassthroughScoring) and not is_train_loss:
            raise ValueError(
                f"callbacks must not have {kind}: minibatches are not scored. Use EpochScoring"
            )
        if isinstance(each, EpochScoring) and not each.on_train and not has_val:
            if is_fit:
                raise ValueError(
                    f"callbacks: {kind} without on_train=True needs held-out samples: {HOLD_OUT}"
                )
            warn(f"callbacks: {kind} records no score, because partial_fit holds out no samples")


def has_monitored(callback, net, has_val, is_fit):
    """Return whether the history has the entry that a callback of skorch monitors."""
    monitor, last = getattr(callback, "monitor", None), net.history[-1]
    is_plateau = getattr(callback, "policy_", None) is torch.optim.lr_scheduler.ReduceLROnPlateau
    monitors = is_plateau or isinstance(callback, EarlyStopping | Checkpoint)
    if not monitors or not isinstance(monitor, str) or monitor in last:
        return True
    if is_fit:
        entries = ", ".join(sorted(last.keys() - {"batches"}))
        advice = f"Set monitor to {'another entry' if has_val else 'one of these'}"
        raise ValueError(
            f"callbacks: {type(callback).__name__} monitors {monitor!r}, which is not in the "
            f"history ({entries}). {advice}" + ("" if has_val else f", or {HOLD_OUT}")
        )
    return False
