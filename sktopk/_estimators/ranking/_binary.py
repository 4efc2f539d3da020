"""What the classifiers of two classes share: one score a row, and a threshold on it."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktopk._common._labels import (
    check_classes,
    encode,
)
from sktopk._common._lazy_rows import own_labels
from sktopk._common._scalars import (
    check_number,
    check_option,
)
from sktopk._common._streams import parts
from sktopk._common._warnings import (
    warn,
)
from sktopk._estimators._best_rows import BestRows
from sktopk._estimators._calibration import CALIBRATIONS, calibrate, calibrated_proba
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators._parameter_checks import (
    check_training_params,
)
from sktopk._estimators._training_parameters import K_ATTRIBUTE, TRAINING_PARAMETERS
from sktopk._training._batches import MiniBatches, RowsAndMore, ShuffledBatches
from sktopk._training._distributed import all_objects, check_equal_batches, joined, share_totals
from sktopk._training._fitting import batch_size
from sktopk.metrics import make_top_scorer
from sktopk.samplers import StratifiedBatchSampler


def has_proba(estimator):
    """Return True if `predict_proba` means something, else raise with the way out."""
    fitted = hasattr(estimator, "net_")
    if not (hasattr(estimator, "calibration_") if fitted else estimator.calibration is not None):
        raise AttributeError(
            "predict_proba is not available without calibration: scores above a threshold are "
            "not probabilities. Set calibration='temperature' or 'sigmoid' and fit"
        )
    return True


# The fields make an __init__ with explicit parameters that stores them and nothing else,
# which estimators with one parameter more then need not repeat.
@dataclass(eq=False, repr=False)
class BinaryNetClassifier(NetClassifier):
    """A classifier that scores rows; subclasses say with which loss and threshold.

    A subclass defines ``_criterion()``, ``_scorer()`` (name and parameters of
    `make_top_scorer`) and ``_score_threshold(scores, positive, weight)``, the score t of the
    last row that is flagged.
    """

    _stratify = True
    # What the history of the subclass has in addition.
    _history = ""

    _: KW_ONLY
    min_positives: int = 5
    module: object = None
    hidden_layer_sizes: tuple = (100,)
    normalize: bool = False
    score_scale: object = "auto"
    optimizer: object = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    batch_size: object = "auto"
    max_epochs: int = 100
    early_stopping: bool = False
    scoring: object = None
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    calibration: str | None = None
    callbacks: list | None = None
    net_params: dict | None = None
    device: object = "auto"
    dtype: str = "auto"
    precision: str | None = None
    compile: bool = False
    checkpoint: object = None
    checkpoint_every: int = 1
    warm_start: bool = False
    verbose: int = 0
    random_state: object = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            text = TRAINING_PARAMETERS.replace("@@HISTORY@@", cls._history)
            text = text.replace("@@K@@", K_ATTRIBUTE if "k" in vars(cls) else "")
            cls.__doc__ = cls.__doc__.replace("    <training parameters>\n", text)

    def decision_function(self, X):
        """Score every row, relative to the threshold.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples,)
            Score minus `threshold_`, in the float type of the network: positive means
            ``classes_[1]``.
        """
        scores = self._scores(X)
        # In float64, where the difference of two scores cannot vanish.
        return (scores.astype(np.float64) - getattr(self, "threshold_", 0.0)).astype(scores.dtype)

    def predict(self, X):
        """Return the label of each row: ``classes_[1]`` above the threshold.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`.
        """
        above = self.decision_function(X) > 0
        return self.classes_[above.astype(np.intp)]

    def predict_top(self, X, n):
        """Return the rows of highest score.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            Or a stream: an iterable without shape and indexing of such tables, or of tuples
            that begin with one. Of it, no more than a piece is in memory, and n rows' scores.
        n : int
            How many, 1 <= n <= n_samples.

        Returns
        -------
        index : ndarray of shape (n,)
            Row numbers, best first; tied rows in the order of X. Those of a stream go on from
            piece to piece.

        Raises
        ------
        TypeError, ValueError
            If n is not an integer or out of range.
        """
        check_is_fitted(self)
        check_number(n, "n", 1, integer=True)
        best = BestRows(n).add_all(map(self._scores, parts(X)))
        if n > best.n_rows:
            raise ValueError(f"n={n} must be at most the number of rows of X ({best.n_rows})")
        return best.index

    def score(self, X, y=None, sample_weight=None):
        """Return the metric that the estimator optimises; see the class.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels; None only for a Dataset that has them.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            The larger, the better; NaN, with a warning, where y lacks the class it needs.
        """
        check_is_fitted(self)
        fitted = self._as_fitted(self.net_.params_of_net)
        y = own_labels(X, y, needed=True)
        return fitted._default_scorer()(fitted, X, y, sample_weight=sample_weight)

    @available_if(has_proba)
    def predict_proba(self, X):
        """Return the probability of each class; available with `calibration`.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, 2)
            Rows sum to 1; columns in the order of `classes_`.
        """
        check_is_fitted(self)
        return calibrated_proba(*self.calibration_, _columns(self.decision_function(X)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check_params(self):
        check_training_params(self)
        check_number(self.min_positives, "min_positives", 0, integer=True)
        if self.min_positives >= batch_size(self):
            raise ValueError(
                f"min_positives={self.min_positives} must be smaller than "
                f"batch_size={batch_size(self)}"
            )
        check_option(self.calibration, "calibration", CALIBRATIONS)

    def _begin(self, partial):
        """Note nothing of the parameters."""

    def _go_on(self, count, partial=False):
        super()._go_on(count, partial)
        # A rank is clipped to the rows there are now.
        self._begin(partial)
        criterion = self.net_.criterion_
        if hasattr(criterion, "threshold"):
            criterion.threshold = self._threshold()

    def _check_classes(self, y, name="y"):
        classes = check_classes(y, name)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass: {name} must have 2 classes; got {len(classes)}"
            )
        return classes

    def _n_outputs(self):
        return 1

    def _score_scale(self):
        return 1.0 if self.score_scale == "auto" else self.score_scale

    def _default_scorer(self):
        name, params = self._scorer()
        return make_top_scorer(name, **params)

    def _scores(self, X):
        check_is_fitted(self)
        return self._map_rows(X, (), None, lambda scores: scores.flatten())

    def _make_batches(self, X, target, weight, partial):
        net, size, n_rows = self.net_, batch_size(self), len(target)
        hard = getattr(net.criterion_, "hard_rows", None)
        positive, sampler = target == 1, None
        if size < n_rows and positive.any():
            sampler = StratifiedBatchSampler(
                positive, size, min_positives=self.min_positives, generator=net.generator
            )
        elif size < n_rows:
            sampler = ShuffledBatches(n_rows, size, net.generator)
        elif partial and hard is not None:
            sampler = [torch.arange(n_rows)]
        rows = net.rows(X, resident=True)
        if hard is not None and partial:
            rows, positive, weight = self._with_carried(hard, rows, positive, weight)
        check_equal_batches(1 if sampler is None else len(sampler))
        share_totals(
            net.criterion_,
            self.class_count_,
            np.bincount(target, weight[:n_rows], minlength=2),
            np.bincount(target, minlength=2),
            partial,
        )
        if hard is not None:
            hard.fresh_repeats = getattr(sampler, "repeats_positives", False)
        device = torch.device(net.device)
        weighted = any(all_objects(bool(np.any(weight != 1))))
        weight = torch.from_numpy(weight).to(device, net.dtype) if weighted else None
        return MiniBatches(
            rows,
            torch.from_numpy(positive).to(device),
            weight,
            sampler,
            hard if sampler is not None else None,
        )

    def _with_carried(self, hard, rows, positive, weight):
        """The data followed by the rows that earlier pieces left behind."""
        carried, hard.batch = hard.carried, None
        if carried is None:
            hard.index = hard.index[:0]
            return rows, positive, weight
        hard.index = torch.arange(len(positive), len(positive) + len(carried["rows"]))
        positive = np.concatenate([positive, carried["target"].numpy()])
        weight = np.concatenate([weight, carried["weight"].numpy()])
        return RowsAndMore(rows.dense(), carried["rows"]), positive, weight

    def _check_validation(self, X_val, y_val, classes):
        X_val, y_val, weight = super()._check_validation(X_val, y_val, classes)
        if not np.array_equal(np.unique(y_val), classes):
            raise ValueError(
                f"y_val must have rows of both classes, {classes.tolist()}, and no others; "
                f"got {np.unique(y_val).tolist()}"
            )
        return X_val, y_val, weight

    def _settle(self, X, y, weight, validation=None, final=True):
        scores, positive = self._scores(self.net_.rows(X)), encode(self.classes_, y) == 1
        scores, positive, weight = joined(scores, positive, weight)
        tensors = torch.from_numpy(scores).double(), *map(torch.from_numpy, (positive, weight))
        t = self._score_threshold(*tensors).item()
        if np.isfinite(t):
            self.threshold_ = self._midway(scores, t)
        elif not hasattr(self, "threshold_"):
            # Of a piece without the rows that the threshold is computed from.
            self.threshold_ = 0.0
        if final:
            self._warn_of_threshold(*tensors)
            self._warn_of_equal_scores(scores)
            self._warn_of_one_class()

    def _warn_of_threshold(self, scores, positive, weight):
        """Say what the final threshold lacks; nothing in most cases."""

    def _warn_of_equal_scores(self, scores):
        # The unit of the losses is the distance that scores should keep.
        spread, unit = float(scores.std()), getattr(self, "margin", 1.0)
        if len(scores) > 1 and spread < 0.01 * unit:
            warn(
                "The network gives every row nearly the same score (their standard deviation is "
                f"{spread:.2g}, where the loss asks for distances of {unit:g}): it has not "
                "learned to rank. Raise learning_rate, max_epochs or batch_size, let more rows "
                "stay on top (a larger k or tau), or check that X tells the classes apart",
                ConvergenceWarning,
            )

    def _warn_of_one_class(self):
        criterion = self.net_.criterion_
        n_without = int(getattr(criterion, "n_without_class", 0))
        if n_without:
            warn(
                f"{n_without} of {int(criterion.n_batches)} batches had rows of one class only, "
                "whose loss is zero: raise batch_size or min_positives",
                ConvergenceWarning,
            )
            criterion.n_without_class.zero_()
            criterion.n_batches.zero_()

    def _midway(self, scores, t):
        """The number between the score t and the next lower one, so that rows at t are flagged."""
        below = scores[scores < t].max(initial=-np.inf)
        if below == -np.inf:
            return t - digits(scores, t)
        middle = (t + float(below)) / 2
        return middle if middle < t else float(below)

    def _calibrate(self, X, y, weight):
        calibrate(self, _columns(self.decision_function(self.net_.rows(X))), y, weight)


def _columns(y_score):
    """A decision score as two, whose softmax is its sigmoid; those of several classes."""
    return y_score if y_score.ndim == 2 else np.column_stack([-y_score / 2, y_score / 2])


def digits(scores, t):
    """What scores of the same row may differ by between batches."""
    return 8 * float(np.spacing(np.abs(scores.dtype.type(t))))
