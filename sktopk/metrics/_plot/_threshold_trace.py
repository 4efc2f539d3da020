"""Display of the threshold in each training step."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sktopk._common._scalars import check_count

from ._base import LEVEL_STYLE, Display, draw_curves, draw_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Moving averages have windows of 1/50 of the training steps.
_N_WINDOWS = 50


@dataclass(eq=False, repr=False)
class ThresholdTraceDisplay(Display):
    r"""Curves of the estimated and the true threshold in each training step.

    Each minibatch gives an estimate of the threshold of all training samples. If this is the
    largest score of a negative, the estimate is

    .. math::
        \hat t = \max_{j \in B \cup H,\; y_j = 0} s_j \;\le\; t = \max_{j : y_j = 0} s_j

    where B contains the samples of the minibatch, and H the `buffer_size` hard examples that are
    kept from earlier minibatches (Figure 3 of [1]_). With batch normalization or dropout the
    inequality can fail, because estimates are computed in training mode and true thresholds in
    evaluation mode. :class:`sktopk.callbacks.TrueThreshold` records the true thresholds. Create the
    display with `from_estimator`.

    Parameters
    ----------
    step, threshold : array-like of shape (n_steps,)
        Number of each training step (1 for the first), and the estimated threshold in this step.
    true_threshold : array-like of shape (n_steps,), default=None
        Threshold of all training samples before each step. NaN if not recorded. None means no line.
    name : str, default=None
        Name of the curve in the legend. None means no legend entry.

    Attributes
    ----------
    ax_, figure_, line_, true_line_, band_ : matplotlib artists
        Axes, figure, estimates, true thresholds, and range of the estimates; None if not drawn.
        With 100 or more steps, lines are moving averages over 1/50 of the steps.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method for accuracy at the
       top. 2020, Figure 3 and section 4.4.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sktopk import DeepTopPushClassifier
    >>> from sktopk.callbacks import TrueThreshold
    >>> from sktopk.metrics import ThresholdTraceDisplay
    >>> from sktopk.modules import MLP
    >>> X, y = make_classification(300, weights=[0.9], random_state=0)
    >>> params = {"module": MLP, "batch_size": 32, "max_epochs": 2, "random_state": 0}
    >>> clf = DeepTopPushClassifier(callbacks=[TrueThreshold()], **params).fit(X, y)
    >>> display = ThresholdTraceDisplay.from_estimator(clf, epoch=2)
    >>> bool((display.threshold <= display.true_threshold + 1e-6).all())
    True
    """

    step: ArrayLike
    threshold: ArrayLike
    _: KW_ONLY
    true_threshold: ArrayLike | None = None
    name: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        epoch: int | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the thresholds that a classifier recorded during its training.

        Parameters
        ----------
        estimator : object
            Fitted classifier, such as a `DeepTopPushClassifier` or the last step of a pipeline. Its
            ``history_`` must contain "threshold" and can contain "true_threshold".
        epoch : int or (int, int), default=None
            An epoch, or the first and the last epoch, counted from 1. None means all epochs.
        name, ax, **kwargs
            As in `plot`. The default of `name` is the class name of the estimator.

        Returns
        -------
        display : ThresholdTraceDisplay
            This display, drawn on `ax_`. True thresholds are NaN in epochs without recorded values.

        Raises
        ------
        TypeError, ValueError
            If the history contains no thresholds, or if `epoch` does not exist.
        """
        history = _threshold_history(estimator)
        first, last = _first_and_last(epoch, len(history))
        rows = history[first - 1 : last]
        n_before = sum(len(row["threshold"]) for row in history[: first - 1])
        threshold = np.concatenate([row["threshold"] for row in rows])
        true_threshold = None
        if any("true_threshold" in row for row in rows):
            absent = (np.full(len(row["threshold"]), np.nan) for row in rows)
            pairs = zip(rows, absent, strict=True)
            true_threshold = np.concatenate([row.get("true_threshold", nan) for row, nan in pairs])
        step = n_before + np.arange(1, len(threshold) + 1)
        name = type(estimator).__name__ if name is None else name
        return cls(step, threshold, true_threshold=true_threshold, name=name).plot(ax, **kwargs)

    def _plot(self, ax, label, **kwargs):
        window = max(1, len(self.step) // _N_WINDOWS)
        style = {"label": label, "markevery": max(1, len(self.step) // 10), **kwargs}
        self.line_ = draw_curves(ax, self.step, moving(self.threshold, window, np.mean), style)
        self.band_ = self.true_line_ = None
        if window > 1:
            ends = (moving(self.threshold, window, each) for each in (np.min, np.max))
            color = self.line_.get_color()
            self.band_ = ax.fill_between(self.step, *ends, color=color, alpha=0.2, linewidth=0)
        if self.true_threshold is not None:
            # With an explicit color and marker, this line does not advance the color cycle.
            style = {**LEVEL_STYLE, "color": self.line_.get_color(), "marker": "", "markevery": 1}
            style["label"] = None if label is None else f"{label}, true"
            true = moving(self.true_threshold, window, np.mean)
            (self.true_line_,) = ax.plot(self.step, true, **style)
        ax.locator_params(axis="x", integer=True)
        ax.set(xlabel="Training step", ylabel="Threshold")
        draw_legend(ax)


def moving(values, window, reduce):
    """Return `reduce` of each moving window. The first and the last value are repeated."""
    values = np.asarray(values, dtype=np.float64)
    before, after = (window - 1) // 2, window // 2
    padded = np.pad(values, (before, after), mode="edge")
    return reduce(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1)


def _threshold_history(estimator):
    """Return the training history of a classifier. Each epoch has an array of thresholds."""
    if not hasattr(estimator, "history_"):
        if hasattr(estimator, "fit"):
            check_is_fitted(estimator)
        missing = "has no history_"
    elif estimator.history_ and all("threshold" in row for row in estimator.history_):
        return estimator.history_
    else:
        missing = "has no 'threshold' in its history_"
    raise TypeError(
        "estimator must have the threshold of each training step in its history_, such as a "
        f"DeepTopPushClassifier; got {type(estimator).__name__}, which {missing}. For a pipeline, "
        "pass its last step"
    )


def _first_and_last(epoch, n_epochs):
    """Return the pair (first, last) for the parameter `epoch`: None, an integer or a pair."""
    epoch = (1, n_epochs) if epoch is None else epoch
    pair = tuple(epoch) if isinstance(epoch, tuple | list) else (epoch, epoch)
    if len(pair) != 2:
        raise TypeError(f"epoch must be an integer or a pair (first, last); got {epoch!r}")
    for each in pair:
        check_count(each, "epoch")
    first, last = pair
    if not first <= last <= n_epochs:
        raise ValueError(
            f"epoch must be from 1 to the number of epochs trained ({n_epochs}), and a pair "
            f"(first, last) must be increasing; got {epoch!r}"
        )
    return first, last
