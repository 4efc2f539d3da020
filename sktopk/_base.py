"""What every estimator shares: the fit, the scores, the parameters of the net, copies."""

import copy
import inspect
import warnings

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ._batches import MiniBatches, Rows
from ._data import (
    all_rows,
    check_classes,
    check_labels,
    check_rows,
    check_weight,
    class_count,
    class_weights,
    held_out,
    take,
)
from ._net import DivergedError, Net, ProgressBar, Validation, load_net_state, net_state
from ._params import ROUTED, check_device, check_optimizer
from .modules import MLP, ScaledScores


class NetClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that trains a network; subclasses say with which loss.

    A subclass stores the training parameters and defines ``_check_params()``,
    ``_criterion()``, ``_score_scale()`` and ``_default_scorer()``.
    """

    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None):
        """Train the network.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame} of shape (n_samples, n_features)
            Finite numbers; memory maps are read batch by batch. With `module`, also
            (n_samples, channels, height, width). float64 or float32; anything else
            becomes float64.
        y : array-like of shape (n_samples,)
            Class labels: integers, strings, booleans or categories; at least two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights; weight 2 equals the row given twice, weight 0 its absence.
        X_val, y_val : array-like, default=None
            Validation rows, scored after each epoch (see `history_`). With
            ``early_stopping=True`` they take the place of rows held out from X.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not allowed, before any training; ValueError if
            the loss becomes NaN or infinite, with the weights of the last good epoch kept.
        """
        self._check_params()
        new = not (self.warm_start and hasattr(self, "net_"))
        X, y, weight = self._check_data(X, y, sample_weight, reset=new)
        classes = check_classes(y)
        if not new and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start=True continues with the classes {self.classes_}; y has {classes}"
            )
        random = check_random_state(self.random_state)
        seed = random.randint(np.iinfo(np.int32).max)
        validation = None
        if X_val is not None or y_val is not None:
            validation = self._check_validation(X_val, y_val)
        elif self.early_stopping or self.calibration is not None:
            mask = held_out(y, self.validation_fraction, random)
            validation = take(X, mask), y[mask], weight[mask]
            X, y, weight = take(X, ~mask), y[~mask], weight[~mask]
        self.class_count_ = class_count(classes, y, weight)
        if new:
            self._start(X, classes, seed)
        self._train(X, y, weight, self.max_epochs, validation)
        self._warn_unsettled(validation is not None and self.early_stopping)
        if self.calibration is not None:
            self._calibrate(*validation)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch on a piece of the data.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed in the first call unless y has them all.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and ValueError if y has a label that the first call did not announce.
        """
        self._check_params()
        for name, value in (("class_weight", self.class_weight), ("calibration", self.calibration)):
            if isinstance(value, str):
                raise ValueError(
                    f"{name}={value!r} needs all data at once, which partial_fit does not have"
                )
        new = not hasattr(self, "net_")
        X, y, weight = self._check_data(X, y, sample_weight, reset=new)
        if new:
            known = check_classes(y if classes is None else classes)
        else:
            known = self.classes_
            if classes is not None and not np.array_equal(check_classes(classes), known):
                raise ValueError(f"classes must be those of the first call, {known}; got {classes}")
        unseen = np.setdiff1d(y, known)
        if len(unseen):
            raise ValueError(f"y has labels {unseen} that are not among the classes {known}")
        count = class_count(known, y, weight)
        self.class_count_ = count if new else self.class_count_ + count
        if new:
            random = check_random_state(self.random_state)
            self._start(X, known, random.randint(np.iinfo(np.int32).max))
        self._train(X, y, weight, 1, None)
        return self

    def decision_function(self, X):
        """Score every class of every row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores in the float type of the network, columns in the order of `classes_`. For
            two classes the second score minus the first: positive means ``classes_[1]``.
        """
        rows = self._rows(X)
        n_classes = len(self.classes_)
        binary = n_classes == 2
        out = np.empty(len(rows) if binary else (len(rows), n_classes), self._numpy_dtype())
        for chunk, scores in self.net_.score_rows(rows):
            out[chunk] = (scores[:, 1] - scores[:, 0] if binary else scores).cpu().numpy()
        return out

    def predict(self, X):
        """Return the label of the highest score of each row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`; the first of tied labels.
        """
        rows = self._rows(X)
        index = np.empty(len(rows), dtype=np.intp)
        for chunk, scores in self.net_.score_rows(rows):
            index[chunk] = scores.argmax(1).cpu().numpy()
        return self.classes_[index]

    def get_params(self, deep=True):
        """Return the parameters, with the routed keys of `net_params` among the deep ones."""
        params = super().get_params(deep)
        if deep and isinstance(self.net_params, dict):
            routed = {k: v for k, v in self.net_params.items() if k.startswith(ROUTED)}
            params.update(routed)
        return params

    def set_params(self, **params):
        """Set parameters; ``module__``, ``optimizer__``, ``callbacks__`` go to `net_params`."""
        routed = {k: params.pop(k) for k in list(params) if k.startswith(ROUTED)}
        if routed:
            params["net_params"] = {**(params.get("net_params", self.net_params) or {}), **routed}
        return super().set_params(**params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self):
        # A skorch net carries a pickle inside its pickle: keep arrays and plain values.
        state = dict(super().__getstate__())
        if "net_" in state:
            state["net_"] = net_state(state["net_"])
        return state

    def __setstate__(self, state):
        net = state.get("net_")
        super().__setstate__({k: v for k, v in state.items() if k != "net_"})
        if net is not None:
            # A model from a machine with a GPU still loads where there is none.
            device = torch.device("cpu") if not torch.cuda.is_available() else None
            self.net_ = self._build_net(net["dtype"], seed=0, device=device)
            load_net_state(self.net_, net)

    def _check_data(self, X, y, sample_weight, *, reset):
        X = check_rows(self, X, reset=reset)
        y = check_labels(y, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0])
        mask = all_rows(weight > 0)
        return take(X, mask), take(y, mask), take(weight, mask)

    def _check_validation(self, X_val, y_val):
        if X_val is None or y_val is None:
            missing = "X_val" if X_val is None else "y_val"
            raise ValueError(f"X_val and y_val must be passed together; {missing} is None")
        X_val = check_rows(self, X_val, reset=False)
        y_val = check_labels(y_val, X_val.shape[0], name="y_val")
        return X_val, y_val, np.ones(len(y_val))

    def _loss_counts(self):
        """Class counts for losses that weigh by them; a class still to come counts as one row."""
        return torch.from_numpy(np.maximum(self.class_count_, 1.0))

    def _start(self, X, classes, seed):
        """Put a new net in the place of whatever was fitted before."""
        vars(self).pop("net_", None)
        self.classes_ = classes
        self._set_k()
        net = self._build_net(X.dtype.name, seed=seed)
        rows = Rows(X[:2], torch.device(net.device), net.dtype)
        try:
            outputs = [scores for _, scores in net.score_rows(rows)]
        except (RuntimeError, TypeError, ValueError) as error:
            raise ValueError(f"module fails on rows of shape {rows.shape[1:]}: {error}") from error
        for scores in outputs:
            if tuple(scores.shape) != (len(rows), len(classes)):
                raise ValueError(
                    f"module must return scores of shape (n_samples, {len(classes)}), one per "
                    f"class; got shape {tuple(scores.shape)} for {len(rows)} rows"
                )
        self.net_ = net

    def _build_net(self, dtype, seed, device=None):
        device = check_device(self.device) if device is None else device
        n_classes = len(self.classes_)
        optimizer = check_optimizer(self.optimizer)
        options = {"optimizer__weight_decay": self.weight_decay, "optimizer__fused": True}
        accepted = inspect.signature(optimizer).parameters
        options = {k: v for k, v in options.items() if k.split("__")[1] in accepted}
        params = {**options, **(self.net_params or {})}
        module_params = {k[8:]: params.pop(k) for k in list(params) if k.startswith("module__")}
        if self.module is None:
            module_params.setdefault("hidden_layer_sizes", self.hidden_layer_sizes)
            module_params.setdefault("normalize", self.normalize)
        dtype = getattr(torch, dtype)

        def build():
            module = (self.module or MLP)(self.n_features_in_, n_classes, **module_params)
            if not isinstance(module, torch.nn.Module):
                raise TypeError(f"module must build an nn.Module; got {type(module).__name__}")
            scale = self._score_scale()
            return (module if scale == 1 else ScaledScores(module, n_classes, scale)).to(dtype)

        return Net.build(
            build,
            seed=seed,
            dtype=dtype,
            # Modules and losses of others may draw random numbers in every forward pass.
            draws=self.module is not None
            or not isinstance(self.loss, str)
            or bool(module_params.get("dropout")),
            precision=self.precision,
            compile=self.compile,
            criterion=self._criterion(),
            optimizer=optimizer,
            lr=self.learning_rate,
            callbacks=copy.deepcopy(list(self.callbacks or [])),
            classes=np.arange(n_classes),
            train_split=None,
            verbose=self.verbose,
            device=device,
            use_caching=False,
            **params,
        )

    def _callbacks(self, validation, epochs):
        """Our callbacks for one training, by name."""
        callbacks = {}
        if validation is not None:
            X_val, y_val, weight = validation
            scorer = self._default_scorer()
            if self.scoring is not None:
                scorer = check_scoring(self, scoring=self.scoring)
            params = {}
            if not np.all(weight == 1) and "sample_weight" in inspect.signature(scorer).parameters:
                params["sample_weight"] = weight
            patience = self.n_iter_no_change if self.early_stopping else None
            callbacks["validation"] = Validation(
                lambda: scorer(self, X_val, y_val, **params), patience, self.tol
            )
        if self.verbose == 1:
            callbacks["progress"] = ProgressBar(epochs)
        return callbacks

    def _train(self, X, y, weight, epochs, validation):
        net, classes = self.net_, self.classes_
        for name, buffer in net.criterion_.named_buffers():
            if name.endswith("class_counts"):
                buffer.copy_(self._loss_counts())
        try:
            batches = self._batches(X, y, weight)
            data = {"X": X, "y": np.searchsorted(classes, y)}
            if validation is not None:
                X_val, y_val, _ = validation
                # To skorch's callbacks a label unseen in training is -1.
                index = np.searchsorted(classes, y_val).clip(max=len(classes) - 1)
                data |= {"X_val": X_val, "y_val": np.where(classes[index] == y_val, index, -1)}
            net.train(batches, epochs, self._callbacks(validation, epochs), **data)
        except BaseException as error:
            # No weights are left that were finite, or a callback broke off: no fit.
            if not (isinstance(error, DivergedError) and net.history_):
                del self.net_
            raise
        finally:
            if hasattr(self, "net_"):
                self.history_ = [
                    {
                        name: value.item() if isinstance(value, np.generic) else value
                        for name, value in row.items()
                        if name != "batches"
                    }
                    for row in net.history_.to_list()
                ]
                self.n_iter_ = len(self.history_)

    def _batches(self, X, y, weight):
        net, classes = self.net_, self.classes_
        target = np.searchsorted(classes, y)
        weight = weight * class_weights(self.class_weight, classes, self.class_count_)[target]
        if not weight.any():
            raise ValueError("sample_weight times class_weight must not be 0 for every row")
        weight = weight / weight.mean()
        device = torch.device(net.device)
        rows = Rows(X, device, net.dtype, resident=True)
        return MiniBatches(
            rows,
            torch.from_numpy(target).to(device),
            None if np.all(weight == 1) else torch.from_numpy(weight).to(device, net.dtype),
            batch_size=min(128, len(rows)) if self.batch_size == "auto" else self.batch_size,
            generator=net.generator,
        )

    def _warn_unsettled(self, early_stopping):
        n = self.n_iter_no_change
        if early_stopping:
            if not self.net_.stop_training and not self.net_.interrupted:
                warnings.warn(
                    f"max_epochs={self.max_epochs} ended the training before the validation "
                    f"score stopped improving for n_iter_no_change={n} epochs: raise max_epochs",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            return
        loss = [row["train_loss"] for row in self.history_]
        if len(loss) > 2 * n and loss[-n - 1] - loss[-1] > 0.05 * loss[0]:
            warnings.warn(
                f"The training loss still fell from {loss[-n - 1]:.4g} to {loss[-1]:.4g} in the "
                f"last {n} of max_epochs={self.max_epochs} epochs: raise max_epochs or "
                f"learning_rate (now {self.learning_rate:g})",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _numpy_dtype(self):
        return np.dtype(str(self.net_.dtype).removeprefix("torch."))

    def _rows(self, X):
        """X, checked, as rows to predict."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        return Rows(X, torch.device(self.net_.device), self.net_.dtype)
