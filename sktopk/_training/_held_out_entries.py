"""Checks that the held-out samples exist which callbacks of skorch read."""

from skorch.callbacks import (
    BatchScoring,
    Checkpoint,
    EarlyStopping,
    EpochScoring,
    LRScheduler,
    PassthroughScoring,
)

from sktopk._common._warnings import warn

HOLD_OUT = "pass X_val and y_val, or set calibration or n_iter_no_change"


def check_what_is_read(callbacks, has_val, is_fit):
    """Raise ValueError if callbacks of skorch read minibatches or samples that do not exist.

    skorch would record nothing, without an error. `partial_fit`, which holds out no samples, warns
    instead, because a network keeps its callbacks.

    Parameters
    ----------
    callbacks : list of tuple (name, callback)
    has_val : bool
        Whether samples are held out.
    is_fit : bool
        Whether the caller is `fit` and not `partial_fit`.
    """
    for _, each in callbacks:
        kind = type(each).__name__
        is_train_loss = isinstance(each, PassthroughScoring) and each.on_train
        if isinstance(each, BatchScoring | PassthroughScoring) and not is_train_loss:
            raise ValueError(
                f"callbacks must not have {kind}: minibatches have no scores. Use EpochScoring"
            )
        if isinstance(each, EpochScoring) and not each.on_train and not has_val:
            if is_fit:
                raise ValueError(
                    f"callbacks: {kind} needs held-out samples. Set on_train=True, or {HOLD_OUT}"
                )
            warn(f"callbacks: {kind} adds no entry, because partial_fit holds out no samples")


def has_monitored(callback, net, has_val, is_fit):
    """Return whether the history has the entry that a callback of skorch monitors.

    If the entry is missing, `fit` raises ValueError. `partial_fit` trains only one epoch.
    """
    monitor, last = getattr(callback, "monitor", None), net.history[-1]
    monitors = isinstance(callback, EarlyStopping | Checkpoint) or (
        isinstance(callback, LRScheduler) and callback.policy == "ReduceLROnPlateau"
    )
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
