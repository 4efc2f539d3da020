"""What every estimator shares: the fit and the scores."""

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sktopk._common._labels import (
    check_classes,
    check_labels,
    check_length,
    class_count,
    encode,
)
from sktopk._common._lazy_rows import LazyRows, is_stream, own_labels
from sktopk._common._splits import (
    held_out,
)
from sktopk._common._streams import partial_fit_pieces
from sktopk._common._tables import (
    check_rows,
    check_validation,
    check_weight,
    take,
)
from sktopk._training._batches import Rows
from sktopk._training._distributed import all_objects, total, world_size
from sktopk._training._fitting import (
    build_net,
    columns,
    columns_kept,
    make_batches,
    make_callbacks,
    plain_row,
    probe,
    take_changes,
    trainable,
    undoing,
    warn_unsettled,
)
from sktopk._training._gpu_worker import one_worker
from sktopk._training._net import DivergedError
from sktopk._training.checkpoint._checkpoint import Checkpoint, CheckpointError, describe_call

from ._net_estimator import NetEstimator
from ._parameter_checks import (
    check_partial_fit,
)


class NetClassifier(ClassifierMixin, NetEstimator):
    """A classifier that trains a network; subclasses say with which loss.

    A subclass stores the training parameters and defines ``_check_params()``,
    ``_begin(partial)`` (what to note of the parameters), ``_criterion()``, ``_score_scale()``,
    ``_default_scorer()`` and ``_calibrate()``. It may have its own batches, number of
    outputs, and something to settle once the network is trained.
    """

    # Whether rows held out for validation have a share of each class.
    _stratify = False
    # Whether the metric of `score` needs more than the network's scores.
    _scores_labels = False

    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        """Train the network.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            Finite numbers; float memory maps are read batch by batch, and map-style Datasets of
            torch, of (row, label, ...) or rows. With `module`, also (n_samples, channels, height,
            width). float64 or float32; anything else becomes float64.
        y : array-like of shape (n_samples,), default=None
            Class labels: integers, strings, booleans or categories; at least two classes. None
            reads those of a Dataset: in one pass over its items, or from `targets` (`tensors` of
            a TensorDataset, also in a Subset) if three items show that they are the labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights; weight 2 equals the row given twice, weight 0 its absence.
        X_val, y_val : array-like, default=None
            Validation rows, as X and y, scored after each epoch (see `history_`). With
            ``early_stopping=True`` they take the place of rows held out from X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not allowed, before any training; rows of a Dataset
            are refused when they are read, during training. ValueError if the loss becomes NaN
            or infinite, with the weights of the last good epoch kept.
            ValueError if the file `checkpoint` is damaged or belongs to another call.
        OSError
            If `checkpoint` cannot be read or written, before training where that shows, with
            the weights of the last (or, with early stopping, best) epoch kept where it does not.
        KeyboardInterrupt
            At Ctrl-C, with the weights of the last (or, with early stopping, best) epoch kept
            and a warning that says so.

        Notes
        -----
        With `checkpoint`, the progress is written before the first epoch and after every
        `checkpoint_every` of them, each time whole or not at all. The same call of fit finds the
        file and goes on from it: network, optimizer, callbacks (learning-rate schedules), random
        generators (also those of ``random_state=None``), hard rows, early stopping and history
        are as they were, so that it ends with the weights of a fit that was never interrupted,
        bit for bit on the same machine with as many threads.

        The same call has the same parameters (but for `checkpoint`, `checkpoint_every` and
        `verbose`; functions and classes go by name), the same versions of sktopk, torch, skorch,
        scikit-learn and NumPy, the same y and weights, and X and X_val of the same shape, dtype
        and SHA-256 (of evenly spaced rows, 64 MiB of them, if they are larger). With
        ``warm_start=True`` it starts from the same fit. Anything else is refused, not restarted.

        The file stands for a fit that is not over. It is removed when fit returns, so that the
        same call then trains anew, as it does without `checkpoint`: save the estimator itself to
        keep it. It is also removed if training diverges, and stays after Ctrl-C and other errors.
        """
        self._check_params()
        new = not (self.warm_start and hasattr(self, "net_"))
        with columns_kept(self):
            # Labels before X, whose columns are noted even on an estimator that was fitted before.
            y = check_labels(own_labels(X, y))
            if len(y):
                self._all_classes(y)
            X, y, weight = self._check_data(X, y, sample_weight, reset=new)
            classes = self._all_classes(y)
            if not new and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"warm_start=True continues with the classes {self.classes_}; y has {classes}"
                )
            validation, origin, checkpoint = None, "X_val", None
            everything = X, y, weight
            if X_val is not None or y_val is not None:
                validation = self._check_validation(X_val, y_val, classes)
            random = check_random_state(self.random_state)
            if self.checkpoint is not None:
                after = None if new else self.net_
                call = describe_call(self, after, *everything, validation)
                checkpoint = Checkpoint(self.checkpoint, self.checkpoint_every, call)
                random = checkpoint.random(self.random_state)
            seed = all_objects(random.randint(np.iinfo(np.int32).max))[0]
            if validation is None and (self.early_stopping or self.calibration is not None):
                mask = held_out(y, self.validation_fraction, random, self._stratify)
                validation, origin = (take(X, mask), y[mask], weight[mask]), "rows held out of X"
                X, y, weight = take(X, ~mask), y[~mask], weight[~mask]
        target = encode(classes, y)
        count = total(class_count(target, weight, len(classes)))
        if new:
            self._start(X, classes, count, seed)
        given = validation if X_val is not None else None

        def settle(final=False):
            self._settle(*everything, validation=given, final=final)

        epochs = self.max_epochs
        self._train(X, target, weight, count, epochs, new, settle, validation, origin, checkpoint)
        warn_unsettled(self, validation is not None and self.early_stopping)
        if self.calibration is not None:
            self._calibrate(*validation)
        if checkpoint is not None:
            checkpoint.remove()
        return self

    def partial_fit(self, X, y=None, classes=None, sample_weight=None):
        """Train for one epoch on a piece of the data.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`. Or X alone, a stream: a generator, DataLoader, IterableDataset or other
            iterable of pieces (X, y) or (X, y, sample_weight); the same as a call for each.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed in the first call unless y has them all.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and ValueError if y has a label that the first call did not announce,
            or a piece of a stream has no labels. What pieces before it have taught stays.
        """
        self._check_params()
        check_partial_fit(self)
        if is_stream(X):
            return partial_fit_pieces(self, X, y, classes, sample_weight)
        new = not hasattr(self, "net_")
        y = check_labels(own_labels(X, y))
        X, y, weight = self._check_data(X, y, sample_weight, reset=new)
        announced = None
        if classes is not None:
            announced = self._check_classes(check_labels(classes, "classes"), "classes")
        if not new:
            known = self.classes_
            if announced is not None and not np.array_equal(announced, known):
                raise ValueError(f"classes must be those of the first call, {known}; got {classes}")
        else:
            known = self._all_classes(y) if announced is None else announced
        unseen = np.setdiff1d(y, known)
        if len(unseen):
            raise ValueError(f"y has labels {unseen} that are not among the classes {known}")
        target = encode(known, y)
        count = total(class_count(target, weight, len(known)))
        if new:
            random = check_random_state(self.random_state)
            seed = all_objects(random.randint(np.iinfo(np.int32).max))[0]
            self._start(X, known, count, seed, partial=True)
        else:
            count += self.class_count_

        def settle(final=False):
            self._settle(X, y, weight, final=final)

        self._train(X, target, weight, count, 1, new, settle, partial=True)
        return self

    def decision_function(self, X):
        """Score every class of every row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores in the float type of the network, columns in the order of `classes_`. For
            two classes the second score minus the first: positive means ``classes_[1]``.
        """
        check_is_fitted(self)
        if len(self.classes_) > 2:
            return self._scores(X)
        return self._map_rows(X, (), None, lambda scores: scores[:, 1] - scores[:, 0])

    def predict(self, X):
        """Return the label of the highest score of each row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`; the first of tied labels.
        """
        index = self._map_rows(X, (), np.intp, lambda scores: scores.argmax(1))
        return self.classes_[index]

    def score(self, X, y=None, sample_weight=None):
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        score : float
            Share of the rows, or of their weight, that get their label.
        """
        return super().score(X, own_labels(X, y, needed=True), sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_data(self, X, y, sample_weight, *, reset):
        X = check_rows(self, X, reset=reset)
        check_length(y, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0])
        mask = weight > 0
        return (X, y, weight) if mask.all() else (take(X, mask), y[mask], weight[mask])

    def _check_validation(self, X_val, y_val, classes):
        return check_validation(self, X_val, y_val)

    def _forget(self):
        """Become unfitted."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _start(self, X, classes, count, seed, partial=False):
        """Put a new net in the place of whatever was fitted before."""
        known = columns(self)
        self._forget()
        vars(self).update(known)
        self.classes_, self.class_count_ = classes, count
        try:
            self._begin(partial)
            with trainable():
                net = build_net(self, X.dtype.name, seed)
            probe(net, X)
        except BaseException:
            self._forget()
            raise
        self.net_ = net

    def _go_on(self, count, partial=False):
        """Prepare the net for more training with what may change between."""
        take_changes(self)
        vars(self).pop("calibration_", None)
        self.class_count_ = count

    def _train(
        self,
        X,
        target,
        weight,
        count,
        epochs,
        new,
        settle,
        validation=None,
        origin=None,
        checkpoint=None,
        partial=False,
    ):
        net, undo, ended = self.net_, undoing(self), False
        if not new:
            self._go_on(count, partial)
        try:
            data = {"X": X, "y": target}
            if validation is not None:
                X_val, y_val, _ = validation
                if not isinstance(X_val, LazyRows):
                    X_val = X_val.astype(self._numpy_dtype(), copy=False)
                data |= {"X_val": X_val, "y_val": encode(self.classes_, y_val)}
            callbacks = make_callbacks(self, validation, origin, epochs, settle)
            callbacks |= self._make_callbacks(X, target, weight)
            with trainable(), one_worker(torch.device(net.device)):
                batches = self._make_batches(X, target, weight, partial)
                net.train(batches, epochs, callbacks, checkpoint, **data)
                batches.carry()
            ended = True
        except BaseException as error:
            # Either weights that were good are back, or there is no fit.
            interrupted = isinstance(error, DivergedError | KeyboardInterrupt | CheckpointError)
            if checkpoint is not None and isinstance(error, DivergedError):
                # It would diverge again.
                checkpoint.remove()
            if not net.history_ or (new and not interrupted):
                self._forget()
            undo()
            raise
        finally:
            if hasattr(self, "net_"):
                self.history_ = [plain_row(row) for row in net.history_.to_list()]
                self.n_iter_ = len(self.history_)
                # Other processes do not settle while this one breaks off.
                if ended or world_size() == 1:
                    settle(final=True)

    def _make_batches(self, X, target, weight, partial):
        return make_batches(self, X, target, weight)

    def _validation_scorer(self, y_val):
        return self._default_scorer()

    def _make_callbacks(self, X, target, weight):
        return {}

    def _settle(self, X, y, weight, validation=None, final=True):
        """Derive from the trained network what predictions need besides it."""

    def _check_classes(self, y, name="y"):
        return check_classes(y, name)

    def _all_classes(self, y):
        """The classes of y, and of that of every other process that trains with this one."""
        return self._check_classes(np.concatenate(all_objects(np.unique(y))))

    def _autocast(self):
        return self.precision

    def _n_outputs(self):
        return len(self.classes_)

    def _numpy_dtype(self):
        return np.dtype(str(self.net_.dtype).removeprefix("torch."))

    def _rows(self, X):
        """X, checked, as rows to predict."""
        check_is_fitted(self)
        return self.net_.rows(check_rows(self, X, reset=False))

    def _map_rows(self, X, shape, dtype, function):
        """Apply `function` to the scores of chunks of rows; X may be checked `Rows`."""
        rows = X if isinstance(X, Rows) else self._rows(X)
        out = np.empty((len(rows), *shape), self._numpy_dtype() if dtype is None else dtype)
        for chunk, scores in self.net_.score_rows(rows):
            out[chunk] = function(scores).cpu().numpy()
        return out

    def _scores(self, X):
        """Scores of every class, also of two."""
        check_is_fitted(self)
        return self._map_rows(X, (len(self.classes_),), None, lambda scores: scores)
