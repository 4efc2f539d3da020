"""Base class of all estimators with a network."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sktopk._common._available import available_if
from sktopk._common._input import check_labelled, check_rows, check_validation, columns_with_missing
from sktopk._common._labels import check_classes, check_labels, encode
from sktopk._common._scalars import check_random
from sktopk._common._types import RowsLike
from sktopk._common._versioned import Versioned
from sktopk._common._warnings import warn
from sktopk._training._batches import make_batches
from sktopk._training._callbacks import ProgressBar, Validation, kept_epoch
from sktopk._training._checkpoint import Checkpoint, describe_call
from sktopk._training._folds import HeldOutRows
from sktopk._training._net import OURS, DivergedError, build_net
from sktopk._training._process import all_objects, check_device, joined, world_size
from sktopk.modules import TabularMLP

from ._calibration import calibrated_proba, fit_calibration, has_proba
from ._held_out import (
    ensemble_scores_as_unseen,
    finite,
    held_out_by_fold,
    hold_out,
    values_of,
)
from ._parameters import (
    batches_and_epochs,
    check_net_parameters,
    n_networks,
    routed,
    routed_entries,
    split_net_params,
    weight_and_row_dtypes,
)
from ._state import packed, unchanged_on_error, unpacked
from ._weights import times_class_weight

# Above MOST_SCORES out-of-fold scores, only about PART_OF_SCORES are computed, to save memory.
MOST_SCORES, PART_OF_SCORES = 1 << 27, 1 << 25


@dataclass(eq=False, repr=False)
class BaseNetClassifier(ClassifierMixin, Versioned, BaseEstimator):
    """Base class of classifiers with a network. A head object defines the task of a subclass.

    `fit` validates the data, builds the network and trains it. Then `fit` computes attributes from
    the scores of the network, such as `threshold_`. A subclass may override these methods:

    - `_check_params()`: checks all parameters;
    - `_check_classes(y, name)`: checks the labels, and returns them sorted;
    - `_make_head()`: returns the head, see :mod:`sktopk._estimators._heads`. It is called when
      `classes_` and `class_count_` are known, and may set fitted attributes such as `k_`;
    - `_decision(scores)`: returns the result of `decision_function` for scores of the network.

    Parameters
    ----------
    log_loss_share : float, default=0.6
        Share of cross-entropy in the training loss, in [0, 1]. The loss is ``(1 - log_loss_share)``
        times the estimator's loss plus `log_loss_share` times the cross-entropy of the same scores.
        0 trains the estimator's loss alone, as in the papers.
    n_estimators : int or "auto", default="auto"
        Number of networks whose scores are averaged. They have different initial weights and hold
        out different folds. "auto" is 8 or, with a warning, 1 for more than 1000 classes.
    module : callable, default=TabularMLP
        Class or function ``(n_features, n_outputs) -> nn.Module``. The default scales columns,
        handles missing values and categories, and in rankers with hidden layers bins columns.
        Other networks need scaled data. A module with `n_members` builds the whole ensemble.
    hidden_layer_sizes : tuple of int, default=(128, 128)
        Widths of the hidden layers of TabularMLP or MLP. ``()`` is a linear model.
    learning_rate : float, default=0.03
        Largest learning rate. It increases linearly during the first tenth of the steps, then
        decreases along a half cosine. A skorch LRScheduler in `callbacks` replaces this schedule.
    weight_decay : float, default=0.2
        Weight decay of AdamW, in the default network for hidden layers only. With another
        optimizer, set "optimizer__weight_decay" in `net_params` instead.
    batch_size : int or "auto", default="auto"
        Samples per minibatch. "auto" is 1/20 of the samples, clipped to [64, 256].
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto": at least 18 epochs and 360 steps; rankers 24 epochs and 200 steps.
    n_iter_no_change : int or None, default=None
        Stop after this number of epochs without improvement on held-out samples, and keep the best
        epoch. None trains all epochs. Then the best epoch is kept if it is better than the last by
        two standard errors, else the last.
    calibration : "temperature" or None, default="temperature"
        Calibration of `predict_proba` on held-out samples by temperature scaling, which keeps the
        order of the classes. With None and without `n_iter_no_change`, no samples are held out, and
        the last epoch is kept.
    callbacks : list, default=None
        skorch callbacks or ``(name, callback)`` pairs. They get class indices as labels.
    net_params : dict, default=None
        Other arguments of skorch's net, such as "optimizer", "precision" ("bf16"), "compile",
        "module__x" and "optimizer__x". Names with "__" are also parameters of `set_params`.
    device : str or torch.device, default="auto"
        "auto" is the first GPU that torch finds, or else the CPU.
    verbose : int, default=0
        1 shows a progress bar, 2 prints a line per epoch.
    random_state : int, RandomState or None, default=None
        Seed of initial weights, dropout, minibatches, noise and folds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class, without `class_weight`.
    n_features_in_ : int
        Number of columns of X (channels of images).
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a frame with string names.
    n_estimators_, batch_size_, max_epochs_ : int
        Number of networks, batch size and number of epochs that `fit` used.
    n_iter_ : int
        Number of epochs that were trained.
    kept_epoch_ : int
        Epoch, from 1, whose weights the network has. They are averages over about one epoch.
    history_ : list of dict
        One entry per epoch: `train_loss`, `dur` (seconds), `valid_score` if samples are held out,
        `valid_loss` with `callbacks`, `X_val` or a single network, and values from callbacks.
        `valid_score` is the mean of top-1 and top-k accuracy on held-out samples (with losses that
        correct for class frequencies, the mean over classes). In rankers, it is the area under the
        ROC curve with a logarithmic scale of the false-positive rate.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Result of `decision_function` for each sample of `fit`, from the networks that held it out,
        or NaN. Only for ensembles that hold out samples and have at most 2**27 outputs for them.
    oob_score_ : float
        The metric of `score` for these out-of-fold scores (a part of them, if there are more).
    calibration_ : tuple (float, float)
        Slope and intercept of the calibration.
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

    # Methods that a subclass may override, besides prediction methods.

    def _check_params(self):
        check_net_parameters(self)

    def _check_classes(self, y, name="y"):
        return check_classes(y, name)

    def _make_head(self):
        raise NotImplementedError(f"{type(self).__name__} must define _make_head")

    def _decision(self, scores):
        return self._head.decide(scores)

    # Training.

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: RowsLike | None = None,
        y_val: ArrayLike | None = None,
        checkpoint: Any = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            float32 or float64. Weights are float32, unless one minibatch holds all samples. The
            default network accepts missing values and frames with categories. Memory maps and torch
            Datasets are read in minibatches, without worker processes: a Dataset with the method
            ``__getitems__(indices)`` can read a minibatch in parallel. Items of a Dataset are
            samples or tuples (sample, label, ...). A custom `module` also accepts images
            (n_samples, channels, height, width).
        y : array-like of shape (n_samples,), default=None
            Labels: integers, strings, booleans or categories. None uses the labels of a Dataset.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights. A sample of weight 2 counts like two identical samples.
        X_val, y_val : array-like, default=None
            Samples for early stopping and calibration. `fit` then holds out no other samples.
        checkpoint : str or os.PathLike, default=None
            File that stores the progress after each epoch. After a crash, the same call continues
            from it with bit-identical weights, unless a Dataset draws random numbers, such as for
            augmentation. The file is deleted when `fit` returns.

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
            After Ctrl-C, with a warning. The estimator is fitted with the network of the last
            epoch or, with `n_iter_no_change`, of the best epoch.
        """
        return self._fit(X, y, sample_weight, None, X_val, y_val, checkpoint)

    def _fit(self, X, y, sample_weight, groups, X_val, y_val, checkpoint):
        self._check_params()
        with unchanged_on_error(self), torch.inference_mode(False), torch.enable_grad():
            data = self._validate(X, y, sample_weight, groups)
            self._head = self._make_head()
            validation = None
            if X_val is not None or y_val is not None:
                validation = check_validation(self, X_val, y_val, self.classes_)
            seed = check_random(self.random_state).randint(np.iinfo(np.int32).max)
            if checkpoint is not None:
                checkpoint = Checkpoint(checkpoint, describe_call(self, data, validation))
                seed = checkpoint.seed(seed)
            train, held_out, folds = self._hold_out(data, validation, seed)
            self._build(train, seed, own_rows=folds is not None)
            try:
                interrupted = self._train(train, held_out, folds, checkpoint)
            except DivergedError:
                if checkpoint is not None:
                    checkpoint.remove()  # a repetition would diverge again
                raise
            self._finish(data, held_out, folds)
            self._head.check_learned(self.net_, self._target(data.y), data.weight, self.history_)
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
        """Train for one epoch on a part of the data, at a constant learning rate.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like of shape (n_classes,), default=None
            All possible labels. Required in the first call, unless y contains all of them.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and ValueError if y contains a label that is not in `classes_`.
        """
        return self._partial_fit(X, y, classes, sample_weight, None)

    def _partial_fit(self, X, y, classes, sample_weight, groups):
        self._check_params()
        new = not hasattr(self, "net_")
        unchanged = unchanged_on_error(self, resumed=not new)
        with unchanged, torch.inference_mode(False), torch.enable_grad():
            data = self._validate(X, y, sample_weight, groups, classes, resumed=not new)
            if new:
                seed = check_random(self.random_state).randint(np.iinfo(np.int32).max)
                self._head = self._make_head()
                self._build(data, seed, own_rows=False)
            interrupted = self._train(data, None, None, None, resumed=True)
            self._finish(data, None, None)
            # Delete out-of-fold scores of an earlier `fit`: the networks now train on all samples.
            for name in ("oob_score_", "oob_decision_function_"):
                vars(self).pop(name, None)
        if interrupted is not None:
            raise interrupted
        return self

    def _validate(self, X, y, sample_weight, groups, classes=None, resumed=False):
        """Return the validated samples, and set attributes that describe columns and classes."""
        if not resumed:
            for name in [name for name in vars(self) if name.endswith("_")]:
                delattr(self, name)
            self._fit_params = self.get_params(deep=False)
        takes = {"takes_tables": self.module is TabularMLP}
        takes["takes_images"] = self.module not in OURS
        data = check_labelled(self, X, y, sample_weight, groups, reset=not resumed, **takes)
        if hasattr(self, "categories_") and world_size() > 1:
            raise ValueError("X must hold numbers where several processes train: encode categories")
        found = self.classes_ if resumed else None
        if classes is not None:
            found = self._check_classes(check_labels(classes, "classes"), "classes")
        elif not resumed:
            found = np.concatenate(all_objects(np.unique(data.y)))
            found = self._check_classes(np.unique(found))
        if resumed and not np.array_equal(found, self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_}; got {found}"
            )
        self.classes_ = found
        if not resumed:
            self.n_estimators_ = n_networks(self)
        target = encode(self.classes_, data.y)
        if (target < 0).any():
            raise ValueError(
                f"y has labels {np.unique(data.y[target < 0])} that are not among the classes "
                f"{self.classes_}: the first call needs all of them in `classes`"
            )
        weight, n_classes = data.weight, len(self.classes_)
        count = total = sum(all_objects(np.bincount(target, weight, n_classes)))
        if getattr(self, "class_weight", None) is not None:
            weight = times_class_weight(weight, target, self.class_weight, self.classes_, count)
            total = sum(all_objects(np.bincount(target, weight, n_classes)))
        self.class_count_ = count + (self.class_count_ if resumed else 0)
        self._class_total_ = total + (self._class_total_ if resumed else 0)
        if self._missing_ is not None and not resumed:
            missing = all_objects(columns_with_missing(data.X))
            self._missing_ = tuple(sorted(set().union(*missing)))
        return data._replace(weight=weight)

    def _in_fit(self, name):
        """Return the value of a parameter in the last `fit`, before any later `set_params`."""
        return self._fit_params[name]

    def _target(self, y):
        """Return class indices. For rankings, the index of the positive label is 1."""
        return encode(self.classes_, y)

    def _hold_out(self, data, validation, seed):
        """Return training samples, held-out samples or None, and folds of the ensemble or None."""
        needed = self.calibration is not None or self.n_iter_no_change is not None
        if validation is not None or not needed:
            return data, validation, None
        ranks = self._head.n_outputs(2) == 1
        return hold_out(data, self._target(data.y), self.n_estimators_, is_ranking=ranks, seed=seed)

    def _build(self, data, seed, own_rows):
        """Create the network, compute its column scaling from the data, and check its output."""
        seed = all_objects(seed)[0]
        self.batch_size_, self.max_epochs_ = batches_and_epochs(self, len(data.y))
        dtypes = weight_and_row_dtypes(data.X, self.batch_size_)
        self._make_net(dtypes, seed, own_rows, check_device(self.device))
        self.net_.show_data(data.X, data.weight)
        with self.net_.isolated():
            self.net_.check_output(data.X)

    def _make_net(self, dtypes, seed, own_rows, device):
        """Create an untrained net as `net_`. `dtypes`: of the weights and of X."""
        head = self._head
        module_params, net_params = split_net_params(self)
        if head.cosines_for and self.module in OURS:
            module_params.setdefault("normalize", True)
        if self.module is TabularMLP:
            module_params.setdefault("n_bins", head.n_bins if len(self.hidden_layer_sizes) else 0)
            module_params.setdefault("missing_indicator", self._missing_ or ())
            if hasattr(self, "categories_"):
                module_params.setdefault("n_categories", self.categories_.sizes)
        self.net_ = build_net(
            self.module,
            head.criterion(self.n_estimators_, own_rows),
            head,
            n_features=self.input_shape_[0],
            n_outputs=head.n_outputs(len(self.classes_)),
            n_classes=len(self.classes_),
            n_members=self.n_estimators_,
            module_params=module_params,
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.weight_decay),
            callbacks=self.callbacks,
            net_params=net_params,
            device=device,
            dtypes=dtypes,
            verbose=self.verbose,
            seed=seed,
        )
        self.net_.own_rows = own_rows

    def _train(self, data, held_out, folds, checkpoint, resumed=False):
        """Train the network. Return the KeyboardInterrupt that ended the training, or None."""
        net, head, target = self.net_, self._head, self._target(data.y)
        callbacks, given = {}, {"X": data.X, "y": target, "weight": data.weight}
        if held_out is not None or folds is not None:
            unseen = held_out if folds is None else held_out_by_fold(data, folds)
            given |= {"X_val": unseen.X, "y_val": self._target(unseen.y)}
            with_loss = bool(self.callbacks) or folds is None
            values = values_of(head, unseen, given["y_val"], folds, with_loss=with_loss)
            callbacks["validation"] = Validation(values, self.n_iter_no_change)
        n_epochs = 1 if resumed else self.max_epochs_
        if self.verbose == 1:
            callbacks["progress"] = ProgressBar(n_epochs)
        weight = head.weights(data.weight)
        if folds is not None:
            weight = folds.own_weights(target, data.weight, lambda _, own: head.weights(own))
        class_total = self._class_totals()
        if held_out is not None:
            class_total = sum(all_objects(np.bincount(target, data.weight, len(class_total))))
        batches = make_batches(
            net,
            data.X,
            target,
            weight,
            class_total,
            batch_size=batches_and_epochs(self, len(target))[0] if resumed else self.batch_size_,
            min_positives=head.min_positives,
            resumed=resumed,
            folds=folds,
            groups=data.groups,
        )
        try:
            interrupted = net.train(
                batches,
                n_epochs,
                callbacks,
                cycle=not resumed,
                checkpoint=checkpoint,
                data=given,
            )
            batches.carry()
        finally:
            net.criterion_.set_groups(None)
        self.history_ = net.plain_history()
        self.n_iter_ = len(self.history_)
        self.kept_epoch_ = kept_epoch([*callbacks.items(), *net.callbacks_], self.history_)
        return interrupted

    def _class_totals(self):
        """Return the total weight of each class. For rankings, the negative class is the first."""
        return self._class_total_

    def _finish(self, data, held_out, folds):
        """Set the attributes that depend on scores: `threshold_`, `calibration_`, `oob_*`."""
        head, net, target = self._head, self.net_, self._target(data.y)
        with net.isolated():
            if folds is not None:
                return self._finish_out_of_fold(data, target, folds)
            if held_out is not None:
                own, scores = self._target(held_out.y), net.scores(held_out.X)
            if head.n_outputs(2) == 1:
                of_all = net.scores(data.X)
                vars(self).update(head.finish(of_all, target, data.weight, data.groups))
            if held_out is not None and self.calibration is not None:
                self._calibrate(scores, own, held_out.weight)

    def _finish_out_of_fold(self, data, target, folds):
        head, net = self._head, self.net_
        n_scores = len(target) * head.n_outputs(len(self.classes_))
        if n_scores > MOST_SCORES:
            part = np.random.RandomState(0).random(len(target)) < PART_OF_SCORES / n_scores
            data, target, folds = data.take(part), target[part], folds.take(part)
        rows, known = HeldOutRows(data.X, folds), folds.fold >= 0
        own = net.scores(rows)[np.argsort(rows.index)]
        target, weight = target[known], data.weight[known]
        if head.n_outputs(2) == 1:
            fresh = ensemble_scores_as_unseen(net, data.X, folds, target, weight)
            groups = None if data.groups is None else data.groups[known]
            vars(self).update(head.finish(fresh, target, weight, groups))
        decision = self._decision(own)
        if n_scores <= MOST_SCORES:
            of_all = np.full((len(known), *decision.shape[1:]), np.nan, decision.dtype)
            of_all[known] = decision
            self.oob_decision_function_ = data.as_given(of_all)
        self.oob_score_ = float(head.scorer()(target, own, weight))
        if self.calibration is not None:
            self._calibrate(own, target, weight)

    def _calibrate(self, scores, target, weight):
        known = target >= 0
        scores, target, weight = scores[known], target[known], weight[known]
        scores = self._head.calibration_scores(scores)
        samples = joined(scores, target, self._head.calibration_weights(target, weight))
        self.calibration_ = fit_calibration(*samples)

    # Predictions.

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return a score for each class and sample.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes, the score of the second class minus the first.
        """
        return self._decision(self._scores(X))

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict the label with the highest score.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        y_score = self.decision_function(X)
        index = y_score > 0 if y_score.ndim == 1 else y_score.argmax(axis=1)
        return self.classes_[index.astype(np.intp)]

    @available_if(has_proba)
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Estimate the probability of each class.

        Not available with ``calibration=None`` and ``log_loss_share=0``, unless the loss models
        probabilities. The order of the classes is that of `decision_function`. Losses that correct
        for class frequencies estimate probabilities for classes of equal frequency.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Each row sums to 1. The columns are in the order of `classes_`.
        """
        scores = self._scores(X)  # raises NotFittedError before the head is used
        slope, intercept = getattr(self, "calibration_", (1.0, 0.0))
        proba = calibrated_proba(slope, intercept, self._head.calibration_scores(scores))
        return proba[:, ::-1] if self._turned() else proba

    @available_if(has_proba)
    def predict_log_proba(self, X: RowsLike) -> np.ndarray:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _turned(self):
        """Return whether the classifier is a ranking whose positive class is ``classes_[0]``."""
        return False

    def _plans_proba(self):
        """Return whether the parameters allow `predict_proba` without calibration."""
        return self.log_loss_share > 0

    def _scores(self, X):
        """Return the mean scores of the ensemble, of shape (n_samples, n_outputs)."""
        check_is_fitted(self)
        return finite(self.net_.scores(check_rows(self, X, reset=False)))

    # State and parameters.

    def __sklearn_is_fitted__(self):
        return hasattr(self, "net_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.module is TabularMLP
        return tags

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_head", None)
        if "net_" in state:
            state["net_"] = packed(state["net_"])
        return state

    def __setstate__(self, state):
        state = dict(state)
        net = state.pop("net_", None)
        super().__setstate__(state)
        if net is not None:
            self.net_, self._head = unpacked(self, net)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters. `deep` adds the entries of `net_params` and `loss_params`."""
        params = super().get_params(deep)
        return params | routed_entries(params) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including names such as "module__x", "optimizer__x" or "loss__x"."""
        return super().set_params(**routed(self, params))
