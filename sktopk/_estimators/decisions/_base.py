"""What BudgetClassifier and SetClassifier share: a trained classifier and calibration samples."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sktopk._common import _scalars
from sktopk._common._groups import encode_groups
from sktopk._common._input import check_table, take_params, take_rows
from sktopk._common._labels import check_labels, check_weight, class_counts
from sktopk._common._scalars import check_flag, check_number, on_host, positive_label
from sktopk._common._splits import calibration_rows
from sktopk._common._warnings import warn
from sktopk.metrics._scorer import no_classifier

from ._any_classifier import GivenScores, out_of_fold_scores, weight_name

# A classifier hardly makes no error on so many samples that it has not seen.
_MANY_SAMPLES = 200


class Trained(NamedTuple):
    """A trained classifier and the samples to calibrate with.

    `y_train` has the labels of the samples that trained, None for a frozen classifier. `index` says
    which samples of `fit` calibrate, None for all. `y_score` has out-of-fold scores of these, None
    where the classifier has not seen them.
    """

    estimator: Any
    X: Any
    y: np.ndarray
    y_train: np.ndarray | None
    index: np.ndarray | None
    y_score: np.ndarray | None = None


class CalibratedDecision(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A decision on top of any classifier, calibrated with samples that did not train it.

    A subclass has the parameters `estimator`, `cross_fit`, `validation_fraction` and
    `random_state`. Its `fit` calls `_checked`, `_train_and_hold_out` and, with all fitted
    attributes, `_replace_fitted`. `_fitted_names` lists those without a trailing underscore.
    """

    _fitted_names = ("_seed",)

    # Weights of 0 leave samples out, so that it uses weights itself.
    __metadata_request__fit = {"sample_weight": True}  # noqa: RUF012

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
        """Calibrate with existing scores, without a classifier.

        All methods of the returned estimator take scores in place of X.

        Parameters
        ----------
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities of each class, with columns in the order of the sorted labels. For two
            classes one number per sample is enough: any score of the positive class for a
            `BudgetClassifier`, the probability of the second label for a `SetClassifier`. The
            model that made the scores must not have been trained on these samples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels, if `y` may lack one.
        fit_params : dict, default=None
            Passed to `fit`, such as groups.
        **params : dict
            Parameters of the estimator.

        Returns
        -------
        estimator : estimator
            Fitted; `predict` and all other methods take scores of the same shape.
        """
        refuse_masked(y_score=y_score, y=y)
        labels = check_labels(y)
        given = GivenScores().fit(None, labels if classes is None else check_labels(classes))
        shape, n_classes = np.shape(y_score), len(given.classes_)
        single = n_classes == 2 and len(shape) > 0 and shape[1:] in ((), (1,))
        if shape[1:] != (n_classes,) and not single:
            raise ValueError(
                "y_score must be one number per sample for two classes, or one for each of the "
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

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing: metadata of `fit` goes to the `fit` of `estimator`."""
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
        check_flag(self.cross_fit, "cross_fit")
        if self.cross_fit and isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                "cross_fit=True trains the estimator with all samples, and a FrozenEstimator is "
                "not trained: pass the estimator without FrozenEstimator, or set cross_fit=False"
            )
        check_number(self.validation_fraction, "validation_fraction", 0, 1, bounds="neither")

    def _checked(self, X, y, sample_weight, groups, fit_params):
        """Return X, labels, groups and the parameters of the inner `fit`, without weights of 0."""
        refuse_masked(X=X, y=y, sample_weight=sample_weight, groups=groups)
        check_table(X)
        if hasattr(X, "compute") and hasattr(X, "dask"):
            raise TypeError(
                f"X must be a table in memory; got a {type(X).__name__} of dask: pass X.compute()"
            )
        y, present = check_labels(y), None
        X, _ = indexable(X, y)
        if groups is not None:
            encode_groups(groups, len(y))  # raises what are no groups
        if sample_weight is not None:
            sample_weight = check_weight(sample_weight, len(y))
            present = None if sample_weight.all() else np.flatnonzero(sample_weight)
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            fit_params = routed.estimator.fit
        elif sample_weight is not None and not isinstance(self.estimator, FrozenEstimator):
            fit_params = fit_params | {weight_name(self.estimator): sample_weight}
        params = take_params(fit_params, present, len(y))
        groups = groups if groups is None else take_rows(groups, present)
        return _take(X, present), take_rows(y, present), groups, params

    def _train_and_hold_out(self, X, y, fit_params, random, *, calibrates=True):
        """Train a clone of the classifier, and return it with the samples to calibrate with.

        Unless it `calibrates`, all samples train, and the one returned serves to raise errors about
        a classifier without scores in `fit`.
        """
        estimator = clone(self.estimator)
        if isinstance(estimator, FrozenEstimator):
            index = None if calibrates else np.zeros(1, dtype=int)
            return Trained(estimator, _take(X, index), take_rows(y, index), None, index)
        if not calibrates:
            estimator.fit(X, y, **fit_params)
            return Trained(estimator, _take(X, [0]), y[:1], None, None)
        if self.cross_fit:
            y_score = out_of_fold_scores(estimator.fit(X, y, **fit_params))
            known = np.flatnonzero(np.isfinite(y_score.reshape(len(y), -1)).all(axis=1))
            if not len(known):
                raise ValueError("cross_fit=True needs out-of-fold scores; estimator has only NaN")
            return Trained(estimator, _take(X, known), y[known], y, known, y_score[known])
        mask = calibration_rows(y, self.validation_fraction, random)
        if not mask.any():
            raise ValueError(
                "y must have two samples of a class, to hold out one for calibration; got "
                f"n_samples={len(y)} and no class of two. Or wrap a fitted estimator in "
                "FrozenEstimator, and pass other samples to fit"
            )
        train, index = np.flatnonzero(~mask), np.flatnonzero(mask)
        estimator.fit(_take(X, train), y[train], **take_params(fit_params, train, len(y)))
        return Trained(estimator, _take(X, index), y[index], y[train], index)

    def _replace_fitted(self, estimator, **fitted):
        """Replace all fitted attributes at once; return self."""
        columns = ("n_features_in_", "feature_names_in_")
        fitted |= {name: getattr(estimator, name) for name in columns if hasattr(estimator, name)}
        kept = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in self._fitted_names
        }
        # In one step, so that an interrupt cannot leave half of two fits.
        self.__dict__ = kept | {"estimator_": estimator} | fitted
        return self

    def _warn_if_seen(self, n_samples):
        """Warn that calibration samples without a single error may have trained the classifier."""
        if n_samples >= _MANY_SAMPLES and isinstance(self.estimator, FrozenEstimator):
            warn(
                f"estimator makes no error on any of {n_samples} calibration samples: if it was "
                "trained on them, there is no guarantee for new samples. Pass other samples to "
                "fit, or an estimator without FrozenEstimator"
            )


def refuse_masked(**arrays):
    """Raise if an array has masked entries."""
    for name, values in arrays.items():
        _scalars.refuse_masked(values, name)


def _take(X, index):
    """Return the samples of X, a table of any kind; all of them for None."""
    is_arrow = type(X).__module__.startswith("pyarrow")
    return X.take(index) if is_arrow and index is not None else take_rows(X, index)


def _kind(estimator):
    """Return what scikit-learn's tags say that an estimator is; None if it has none."""
    # scikit-learn 1.7 warns of estimators without tags.
    if not hasattr(estimator, "__sklearn_tags__"):
        return None
    try:
        return get_tags(estimator).estimator_type
    except AttributeError:
        return None
