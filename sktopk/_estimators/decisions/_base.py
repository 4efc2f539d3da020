"""What decisions on top of any classifier share: training it, rows to calibrate with."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sktopk._common._input import check_labels, class_counts, take_params, take_rows
from sktopk._common._notebook import ShownInNotebooks
from sktopk._common._scalars import check_flag, check_number, on_host, positive_label
from sktopk._common._splits import calibration_rows
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn
from sktopk.metrics._scorer import no_classifier

from ._any_classifier import GivenScores, out_of_fold_scores
from ._monitor import Monitor

# Hardly a classifier makes no error on so many rows that it has not seen.
_MANY_ROWS = 200


class Trained(NamedTuple):
    """A trained classifier, the rows to calibrate with, and the labels of those trained on.

    The latter are None unless rows were held out; so are the numbers of the rows trained on and
    of those held out. Where rows that were trained on calibrate, `y_score` has their decision
    scores, by what has not seen them.
    """

    estimator: Any
    X: Any
    y: np.ndarray
    training: np.ndarray | None
    train: np.ndarray | None
    held_out: np.ndarray | None
    y_score: np.ndarray | None = None


class Decision(ShownInNotebooks, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A decision on top of any classifier.

    A subclass has the parameter `estimator`, and owes

    - `_check_params`, called first in `fit`: it raises unless all parameters are allowed, those
      of this class by ``super()._check_params()``;
    - `fit`, which routes its parameters by `_routed`, gets the trained classifier from
      `_fitted_clone`, finds its own attributes, and hands all of them at once to `_replace_fitted`,
      `classes_` among them: a fit that fails leaves the earlier one whole.

    and names in `_fitted_names` the attributes of a fit that do not end with an underscore.

    Whatever it predicts, it asks `estimator_` for scores. Tags begin with those of rows; what
    kind of classifier it is, the subclass adds.

    To be watched by a `Monitor`, it says

    - `_watched_scores`: a finite score of each row of X, without labels;
    - `_reference_scores`: those of the calibration rows, or raises if it has not kept them;
    - `_promised_params`, an attribute of its fit: the parameters that say what was promised;
    - `_promises`: whether it promises a rate, and then `_promised`: given what is tolerated and
      a level, the `Promise` and the part of the level that is left to test it;
    - `_outcome`: given rows and labels, three masks: which of the rows count for the rate, which of
      these are good, and which are flagged.
    """

    _fitted_names = ()

    # Of a fit that an earlier version wrote into a file: there parameters are as they were set.
    _promised_params: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def from_scores(
        cls,
        y_score: ArrayLike,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        fit_params: dict[str, Any] | None = None,
        **params: Any,
    ) -> Self:
        """Calibrate with scores that are there, without a classifier.

        From then on scores take the place of X.

        Parameters
        ----------
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities of each class, whose columns follow the sorted labels. Of two classes
            one number per row will do: for a `BudgetClassifier` any real score of the positive
            class, for the others the probability of the second label. Of rows that the scores
            were not trained on.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels there are, if `y` may lack one.
        fit_params : dict, default=None
            Passed to `fit`, such as groups.
        **params : dict
            Parameters of the estimator.

        Returns
        -------
        estimator : estimator
            Fitted; ``predict`` and all else take scores of the same shape.

        Raises
        ------
        TypeError, ValueError
            If there is not a column for each class, or as in `fit`.
        """
        labels = check_labels(y)
        known = labels if classes is None else check_labels(classes, "classes")
        given = GivenScores().fit(None, known)
        shape, n_classes = np.shape(y_score), len(given.classes_)
        one_each = n_classes == 2 and len(shape) > 0 and shape[1:] in ((), (1,))
        if shape[1:] != (n_classes,) and not one_each:
            raise ValueError(
                "y_score must be one number per row for two classes, or one for each of the "
                f"{n_classes} classes {given.classes_.tolist()}; got shape {shape}"
            )
        if shape[0] != len(labels):
            raise ValueError(
                f"y_score must have a row for each label of y: y_score has {shape[0]} rows, y "
                f"{len(labels)}"
            )
        estimator = cls(FrozenEstimator(given), **params)
        if n_classes == 2 and hasattr(estimator, "pos_label"):
            count = class_counts(given.classes_, labels)
            given.pos_label_ = positive_label(estimator.pos_label, given.classes_, count)
        return estimator.fit(np.asarray(on_host(y_score, "y_score")), y, **(fit_params or {}))

    def monitor(
        self,
        reference: RowsLike | None = None,
        *,
        delta: float = 0.05,
        tolerance: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> Monitor:
        """Return what watches whether new rows are as they were, and the promise still holds.

        Parameters
        ----------
        reference : array-like of shape (n_reference, n_features), default=None
            Rows that new rows should be like, which trained nothing. None: the rows that
            calibrated, if their scores were kept.
        delta : float, default=0.05
            Probability in (0, 1) of a false alarm, over all time.
        tolerance : float, default=0.0
            How much worse than promised a rate may be before it counts, in [0, 1).
        random_state : int, RandomState or None, default=None
            Seed of the places of rows that tie.

        Returns
        -------
        monitor : Monitor
            Its `update` takes new rows, its `update_labels` labels as they come in.

        Raises
        ------
        TypeError, ValueError
            If there are no rows to compare with, or a parameter is not allowed.
        """
        params = {"delta": delta, "tolerance": tolerance, "random_state": random_state}
        return Monitor(self, reference, **params)

    def get_metadata_routing(self) -> Any:
        """Return where metadata goes: that of `fit` to the `fit` of `estimator`.

        Returns
        -------
        routing : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _check_params(self):
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(
                "estimator must be a classifier with fit and decision_function or predict_proba, "
                f"an instance of its class; got {self.estimator!r}"
            )
        # Before hours of training.
        if _kind(self.estimator) not in ("classifier", None):
            raise no_classifier(self.estimator)

    def _as_promised(self, name):
        """Return a parameter as it was in the fit, whatever is set later."""
        return self._promised_params.get(name, getattr(self, name))

    def _routed(self, fit_params):
        """Return what of the parameters of `fit` is for the `fit` of the classifier."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", **fit_params).estimator.fit
        return fit_params

    def _fitted_clone(self, X, y, fit_params):
        """Return a clone of the classifier, trained with all rows unless it is frozen."""
        estimator = clone(self.estimator)
        estimator.fit(X, y, **fit_params)
        return estimator

    def _replace_fitted(self, estimator, **fitted):
        """Put what was fitted in the place of all that an earlier fit left; return self."""
        columns = ("n_features_in_", "feature_names_in_")
        fitted |= {name: getattr(estimator, name) for name in columns if hasattr(estimator, name)}
        kept = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in self._fitted_names
        }
        # In one step: no moment between, in which an interrupt would leave half of each.
        self.__dict__ = kept | {"estimator_": estimator} | fitted
        return self


class CalibratedDecision(Decision):
    """A decision that is calibrated with rows that the classifier was not trained on.

    A subclass has the parameters `estimator`, `cross_fit`, `validation_fraction` and
    `random_state`. Its `fit` calls `_train_and_hold_out`, and finds its attributes from the rows
    that come back.
    """

    def _check_params(self):
        super()._check_params()
        check_flag(self.cross_fit, "cross_fit")
        if self.cross_fit and isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                "cross_fit=True trains the estimator with all rows, and a FrozenEstimator is not "
                "trained: take it out of that, or set cross_fit=False"
            )
        check_number(self.validation_fraction, "validation_fraction", 0, 1, bounds="neither")

    def _train_and_hold_out(self, X, y, fit_params, random, *, calibrates):
        """Train a clone of the classifier, with all rows if it `calibrates` with none.

        The row that comes back then serves to refuse a classifier without scores in `fit`.
        """
        X, _ = indexable(X, y)
        if self.cross_fit and calibrates:
            return self._cross_fitted(X, y, fit_params)
        train, held_out = self._split(y, random) if calibrates else (None, np.zeros(1, dtype=int))
        params = take_params(fit_params, train, len(y))
        estimator = self._fitted_clone(take_rows(X, train), take_rows(y, train), params)
        training = None if train is None else y[train]
        rows = take_rows(X, held_out), take_rows(y, held_out)
        return Trained(estimator, *rows, training, train, held_out)

    def _cross_fitted(self, X, y, fit_params):
        """Train a clone with all rows, which also calibrate where some of it has not seen them."""
        estimator = self._fitted_clone(X, y, fit_params)
        y_score = out_of_fold_scores(estimator)
        known = np.flatnonzero(np.isfinite(y_score.reshape(len(y), -1)).all(axis=1))
        if not len(known):
            raise ValueError("cross_fit=True needs rows that estimator left out; it left out none")
        rows = take_rows(X, known), take_rows(y, known)
        return Trained(estimator, *rows, y, None, known, y_score[known])

    def _split(self, y, random):
        """Return the rows to train with and those to calibrate with; None stands for all."""
        if isinstance(self.estimator, FrozenEstimator):
            return None, None
        mask = calibration_rows(y, self.validation_fraction, random)
        if not mask.any():
            raise ValueError(
                "y must have two rows of a class, to hold out one to calibrate with; got "
                f"n_samples={len(y)} and no class of two. Or freeze a fitted estimator by "
                "FrozenEstimator, and give fit rows of their own"
            )
        return np.flatnonzero(~mask), np.flatnonzero(mask)

    def _warn_if_seen(self, n_rows):
        """Warn that `n_rows` to calibrate with, all without an error, may be those of training."""
        if n_rows >= _MANY_ROWS and isinstance(self.estimator, FrozenEstimator):
            warn(
                f"estimator makes no error on any of {n_rows} calibration rows: if it was trained "
                "on them, nothing is promised for new rows. Give fit rows of their own, or an "
                "estimator that is not frozen, of which it holds out rows"
            )


def _kind(estimator):
    """What scikit-learn's tags say that an estimator is; None if it has none."""
    # Of what has none scikit-learn 1.7 warns.
    if not hasattr(estimator, "__sklearn_tags__"):
        return None
    try:
        return get_tags(estimator).estimator_type
    except AttributeError:
        return None
