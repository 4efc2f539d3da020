"""Base class of all estimators with a network."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sktopk._common._estimator import Versioned, assign, available_if, fitted_attributes, present
from sktopk._common._input import check_classes, check_rows
from sktopk._common._scalars import check_parameters, check_random, check_sizes, number, option
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn
from sktopk._persistence._checkpoint import Checkpoint, describe_call
from sktopk._training._net import DivergedError
from sktopk._training._scores import scores_of
from sktopk.modules import TabularMLP

from . import _finish, _fit
from ._parameters import check_callbacks, check_net_params, routed, routed_entries
from ._state import copied_net, packed, resumed, set_rate, unpacked, warn_of_changed


def has_proba(estimator):
    """Return True if `predict_proba` is available, else raise AttributeError."""
    if hasattr(estimator, "net_"):
        available = hasattr(estimator, "calibration_") or estimator._task_.models_proba
    else:
        available = estimator.calibration is not None or estimator._models_proba()
    if available:
        return True
    raise AttributeError(
        "predict_proba is not available: the scores of this loss are not probabilities, and no "
        f"samples were held out for calibration={estimator.calibration!r}. Set log_loss_share "
        f"above 0, or calibration={type(estimator).calibration!r}"
    )


@dataclass(eq=False, repr=False)
class BaseNetClassifier(ClassifierMixin, Versioned, BaseEstimator):
    """Base class of classifiers with a network.

    `fit` trains a new estimator with the same parameters, and then copies its fitted attributes. So
    a `fit` that fails does not change this estimator. A subclass may override these methods:

    - `_check_params()`: checks all parameters, by default with the functions in `_checks`;
    - `_check_classes(y, name)`: checks the labels, and returns them sorted;
    - `_models_proba()`: returns whether `predict_proba` is available without calibration;
    - `_make_task()`: returns the task (see :mod:`sktopk._estimators._task`), and sets fitted
      attributes such as `k_`. When `fit` calls this method, `classes_` and `class_count_` exist.

    Parameters
    ----------
    log_loss_share : float, default=0.6
        Weight of cross-entropy in the training loss, in [0, 1]. The loss of this classifier has the
        weight ``1 - log_loss_share``. With 0, there is no cross-entropy, as in the cited papers.
    n_estimators : int or "auto", default="auto"
        Number of networks, whose scores are averaged. Each network has its own initial weights and
        holds out its own fold. "auto" is 8. For over 1000 classes, "auto" is 1, and `fit` warns.
    module : callable, default=TabularMLP
        Class or function that creates a network: ``(n_features, n_outputs) -> nn.Module``. The
        default scales columns and handles missing values and categories. Other networks need scaled
        data, or must start with :class:`~sktopk.modules.TableEncoder`. If `module` has a parameter
        `n_members`, one call must create this number of networks, as in TabularMLP.
    hidden_layer_sizes : tuple of int, default=(128, 128)
        Widths of the hidden layers, for TabularMLP and MLP only. ``()`` is a linear model.
    learning_rate : float, default=0.03
        Largest learning rate. The rate increases linearly during the first tenth of the steps, then
        decreases along a half cosine. A skorch LRScheduler in `callbacks` replaces this schedule.
    weight_decay : float, default=0.2
        Weight decay of AdamW. In the default network, it applies to hidden layers only. For another
        optimizer, set "optimizer__weight_decay" in `net_params` instead.
    batch_size : int or "auto", default="auto"
        Number of samples per minibatch. "auto" is 1/20 of the samples, clipped to [64, 256].
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" is 18, or more if 18 epochs have less than 360 steps (minibatches).
    n_iter_no_change : int or None, default=None
        Training stops after this number of epochs without improvement on held-out samples, and
        keeps the best epoch. With None, all epochs are trained. The last epoch is then kept, unless
        the best epoch is better on held-out samples by more than two standard errors.
    calibration : "temperature" or None, default="temperature"
        Calibration of `predict_proba` on held-out samples. "temperature" is temperature scaling,
        which keeps the order of classes. With None, `predict_proba` is not calibrated. If
        `n_iter_no_change` is also None and `X_val` is not passed, `fit` holds out no samples and
        keeps the last epoch.
    callbacks : list, default=None
        skorch callbacks or ``(name, callback)`` pairs. Callbacks get class indices as labels y.
    net_params : dict, default=None
        Arguments of skorch's net such as "optimizer", "compile", "module__x" and "optimizer__x", or
        ``{"precision": "bf16"}`` for mixed precision. ``set_params(module__x=1)`` sets the entry
        "module__x" of `net_params`.
    device : str or torch.device, default="auto"
        Device of the networks. "auto" is the first GPU (CUDA or XPU), or else the CPU.
    verbose : int, default=0
        Amount of output: 0 prints nothing, 1 shows a progress bar, and 2 prints a line per epoch.
    random_state : int, RandomState or None, default=None
        Seed of initial weights, dropout, minibatches, noise and folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class. `class_weight` does not change this sum.
    n_features_in_ : int
        Number of columns of X or, for images, of channels.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a frame with string names.
    n_estimators_, batch_size_, max_epochs_ : int
        Integers that `fit` used for `n_estimators`, `batch_size` and `max_epochs`.
    n_iter_ : int
        Number of epochs that were trained.
    kept_epoch_ : int
        Epoch whose weights `fit` kept. The first epoch is 1.
    history_ : list of dict
        One dict per epoch, with `train_loss`, `dur` (seconds) and values of callbacks. If samples
        are held out, `valid_score` is the mean of top-1 and top-k accuracy on these samples. If the
        loss corrects for class frequencies, all classes have equal weight in `valid_score`.
        `valid_loss` is recorded only with `X_val`, `callbacks` or a single network.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        `decision_function` of each training sample, from the networks that held the sample out. NaN
        if no network held it out. Absent with one network, with `X_val` or for over 2**27 scores.
    oob_score_ : float
        `score` on the training samples, each scored by the networks that held it out. With over
        2**27 scores, a random part of the samples is used. `oob_score_` is too high if many classes
        have a single sample, because such samples are not counted.
    calibration_ : tuple (float, float)
        Slope and intercept that `predict_proba` applies to the scores. Absent without calibration.
    net_ : skorch net
        Trained net, with the torch network in ``module_``.
    """

    _: KW_ONLY
    log_loss_share: float = 0.6
    n_estimators: int | str = "auto"
    module: Callable = TabularMLP
    hidden_layer_sizes: Sequence[int] = (128, 128)
    learning_rate: float = 0.03
    weight_decay: float = 0.2
    batch_size: int | str = "auto"
    max_epochs: int | str = "auto"
    n_iter_no_change: int | None = None
    calibration: str | None = "temperature"
    callbacks: list | None = None
    net_params: dict | None = None
    device: str | torch.device = "auto"
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

    _checks: ClassVar = {
        "hidden_layer_sizes": check_sizes,
        "log_loss_share": number(0, 1),
        # The limit of 1000 networks prevents mistakes that would fill the memory.
        "n_estimators": number(1, 1000, integer=True, auto=True),
        "learning_rate": number(0, bounds="neither"),
        "weight_decay": number(0, bounds="left"),
        "batch_size": number(1, integer=True, auto=True),
        "max_epochs": number(1, integer=True, auto=True),
        "n_iter_no_change": number(1, integer=True, none=True),
        "calibration": option(None, "temperature"),
        "random_state": check_random,
    }

    def _check_params(self):
        if isinstance(self.module, torch.nn.Module) or not callable(self.module):
            raise TypeError(
                "module must be an nn.Module class or a callable (n_features, n_outputs) -> "
                f"nn.Module, not an instance; got {type(self.module).__name__}. To train copies of "
                "a trained network, pass a function that returns this network"
            )
        check_parameters(self)
        default = type(self).hidden_layer_sizes
        if self.module not in _fit.OURS and tuple(self.hidden_layer_sizes) != default:
            warn("hidden_layer_sizes is ignored, because module is not TabularMLP or MLP")
        if self.net_params is not None:
            check_net_params(self)
        if self.callbacks is not None:
            check_callbacks(self.callbacks)
        if not isinstance(self.verbose, Integral):
            raise TypeError(f"verbose must be an integer; got {self.verbose!r}")

    _check_classes = staticmethod(check_classes)

    def _models_proba(self):
        return self.log_loss_share > 0

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_val: RowsLike | None = None,
        y_val: ArrayLike | None = None,
        checkpoint: Any = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)
            Training samples, float32 or float64. In `predict`, new categories count as missing, or
            as an average category. A custom `module` also accepts images (n_samples, channels,
            height, width). Network weights are float32, or have the dtype of X if all samples are
            in one minibatch. Memory maps and Datasets are read in minibatches.

            Items of a Dataset are samples, or tuples that begin with (sample, label). If the
            Dataset has ``__getitems__(indices)``, one call reads a minibatch.
            ``net_params={"iterator_train__num_workers": 4}`` reads with four worker processes.
        y : array-like of shape (n_samples,), default=None
            Labels: integers, strings, booleans or categories. None if X is a Dataset with labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights. A sample of weight 2 counts like two identical samples. If weights
            are not counts, but for example amounts of money, divide them by their mean.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, such as the plant on a photo. A network holds out whole groups.
            GridSearchCV passes groups only to `cv`. To also pass groups to `fit`, use metadata
            routing or, for a pipeline, ``search.fit(X, y, groups=g, <step>__groups=g)``.
        X_val, y_val : array-like, default=None
            Samples and labels for early stopping and calibration, instead of held-out samples of X.
        checkpoint : str or os.PathLike, default=None
            File that stores the progress after each epoch. Each `fit` needs its own file. After a
            crash, repeat the call of `fit` to continue. The weights are then bit-identical to a fit
            without a crash, unless a Dataset draws random numbers. At its end, `fit` deletes it.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are invalid, if training diverges, or if `checkpoint` is
            damaged or belongs to another call. The estimator then keeps its previous state.
        OSError
            If `checkpoint` cannot be read or written.
        KeyboardInterrupt
            After Ctrl-C. If an epoch is complete, a warning tells that the estimator is fitted:
            it has the network of the last epoch or, with `n_iter_no_change`, of the best epoch.
        """
        return self._fit(X, y, sample_weight, groups, X_val, y_val, checkpoint)

    def _fit(self, X, y, sample_weight, groups, X_val, y_val, checkpoint):
        self._check_params()
        new = self._started()
        with torch.inference_mode(False), torch.enable_grad():
            data = _fit.validate(new, X, y, sample_weight, groups)
            train, validation, folds = data, None, None
            if X_val is not None or y_val is not None:
                validation = _fit.check_validation(new, X_val, y_val)
                if groups is not None:
                    warn(
                        "groups do not apply to X_val, which is held out and scored as a whole. To "
                        "hold out whole groups of X instead, omit X_val and y_val"
                    )
            seed = check_random(self.random_state).randint(np.iinfo(np.int32).max)
            if checkpoint is not None:
                checkpoint = Checkpoint(checkpoint, describe_call(new, data, validation), seed)
                seed = checkpoint.seed
            needed = self.calibration is not None or self.n_iter_no_change is not None
            if needed and validation is None:
                train, validation, folds = _fit.hold_out(new, data, seed)
                if folds is None and validation is None:
                    units = "samples" if groups is None else "groups"
                    warn(
                        f"no {units} are held out, because there are too few different {units} per "
                        "class: predict_proba is not calibrated, and the last epoch is kept. Add "
                        f"{units} or pass X_val"
                    )
            _fit.build(new, train, seed)
            try:
                interrupted, totals = _fit.train(new, train, validation, folds, checkpoint)
            except DivergedError:
                if checkpoint is not None:
                    checkpoint.remove()  # a fit from this file would diverge again
                raise
            _finish.finish(new, data, validation, folds, totals)
        assign(self, fitted_attributes(new))
        del new.net_  # its task refers to `new`: this cycle would keep the network in memory
        if interrupted is not None:
            warn(f"Training interrupted after epoch {self.n_iter_}: the network is kept")
            raise interrupted
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def partial_fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on a part of the data, at the constant rate `learning_rate`.

        To train a fitted estimator further, first set a lower `learning_rate`, such as 0.001.
        You can change `batch_size`, `class_weight` and `verbose`, but no other parameters.
        `predict_proba` keeps the calibration of `fit`, which becomes less accurate.

        Parameters
        ----------
        X, y, sample_weight
            Samples, labels and weights of a part of the data, in the formats of `fit`.
        classes : array-like of shape (n_classes,), default=None
            All possible labels. Required in the first call, unless y contains all of them.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            For the reasons in `fit`. ValueError also if y has a label that is not in `classes_`.
        """
        return self._partial_fit(X, y, classes, sample_weight, None)

    def _partial_fit(self, X, y, classes, sample_weight, groups):
        self._check_params()
        if resumes := hasattr(self, "net_"):
            warn_of_changed(self)
        new = resumed(self) if resumes else self._started()
        with torch.inference_mode(False), torch.enable_grad():
            data = _fit.validate(new, X, y, sample_weight, groups, classes, is_fit=False)
            if resumes:
                new.net_ = copied_net(new.net_, new._task_)
                new.net_.verbose = self.verbose
                if self.learning_rate != self._fit_params_["learning_rate"]:
                    set_rate(new.net_, float(self.learning_rate))
                    new._fit_params_ = new._fit_params_ | {"learning_rate": self.learning_rate}
            else:
                seed = check_random(self.random_state).randint(np.iinfo(np.int32).max)
                _fit.build(new, data, seed)
            interrupted, _ = _fit.train(new, data, resumed=True)
            if interrupted is not None:
                raise interrupted
            _finish.finish(new, data)
        assign(self, fitted_attributes(new))
        del new.net_
        return self

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return a score for each sample and class.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the score of the second class minus the score of the first.
        """
        now, scores = self._scored(X)
        return now._task_.decide(scores, now)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict the label with the highest score.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        now, scores = self._scored(X)
        return now._task_.labels(scores, now)

    @available_if(has_proba)
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Estimate the probability of each class.

        Requires either `calibration`, ``log_loss_share > 0``, or a loss such as "cross_entropy",
        with which the softmax of the scores estimates probabilities. Probabilities and scores have
        the same order. If the loss corrects for class frequencies, the probabilities assume equally
        frequent classes. With several networks, a sample's largest probability is often too low,
        because `fit` calibrates the scores of single networks, not their mean.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Each row sums to 1. The columns are in the order of `classes_`.
        """
        now, scores = self._scored(X)
        return now._task_.proba(scores, now)

    @available_if(has_proba)
    def predict_log_proba(self, X: RowsLike) -> np.ndarray:
        """Return the logarithm of `predict_proba`, an array of the same shape."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _started(self):
        """Return a new estimator with the same parameters, for `fit` to work on."""
        params = self.get_params(deep=False)
        # Copy the containers, because a user may change them after the fit.
        params |= {k: copy(v) for k, v in params.items() if isinstance(v, dict | list | np.ndarray)}
        new = type(self)(**params)
        new._fit_params_ = params
        return new

    def _scored(self, X):
        """Return two values: a snapshot of the estimator, and scores (n_samples, n_outputs)."""
        now = present(self)
        check_is_fitted(now)
        X = check_rows(now, X)
        return now, _fit.in_dtype_of(X, _fit.finite(scores_of(now.net_, X)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = bool(getattr(self.module, "takes_tables", False))
        return tags

    def __getstate__(self):
        state = super().__getstate__()
        state.pop("_task_", None)
        if "net_" in state:
            state["net_"] = packed(state["net_"])
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "net_" in state:
            self.net_, self._task_ = unpacked(self, state["net_"])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters. `deep` adds the entries of `net_params` and `loss_params`."""
        params = super().get_params(deep)
        return params | routed_entries(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including names such as "module__x", "optimizer__x" or "loss__x"."""
        return super().set_params(**routed(self, params))
