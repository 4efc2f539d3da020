"""Base class of BudgetClassifier and SetClassifier: training and calibration samples."""

import re
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from sktopk._common._estimator import Versioned, assign
from sktopk._common._input import (
    check_labels,
    check_table,
    check_weight,
    class_counts,
    listed,
    take_rows,
)
from sktopk._common._samples import calibration_rows, encode_groups, one_of_each_group
from sktopk._common._scalars import (
    check_flag,
    check_parameters,
    number,
    place_of,
    positive_label,
    refuse_masked,
)
from sktopk._common._warnings import warn, warn_of_order
from sktopk.metrics._ranking import warn_of_scores
from sktopk.metrics._scorer import no_classifier

from ._any_classifier import GivenScores, last_step, name_in_fit, out_of_fold_scores, weight_name
from ._guarantees import separates

# `fit` warns if a frozen classifier has no error on _MANY_SAMPLES or more calibration samples.
_MANY_SAMPLES = 200


class Trained(NamedTuple):
    """A trained classifier, its calibration samples, and their indices (None means all samples)."""

    estimator: Any
    X: Any
    y: np.ndarray
    y_train: np.ndarray | None  # training labels; None for a frozen classifier
    index: np.ndarray | None
    y_score: np.ndarray | None = None  # out-of-fold scores with `cross_fit`

    def one_of_each(self, groups, random):
        """Return a copy with only one random calibration sample of each group."""
        index = np.arange(len(groups)) if self.index is None else self.index
        rows = one_of_each_group(groups[index], random)
        y_score = None if self.y_score is None else self.y_score[rows]
        X, y = take_rows(self.X, rows), self.y[rows]
        return self._replace(X=X, y=y, index=index[rows], y_score=y_score)


def tags_of(estimator):
    """Return the scikit-learn tags of a classifier, or None if the classifier has no tags."""
    with suppress(AttributeError):  # `get_tags` of scikit-learn 1.7 warns without tags
        return get_tags(estimator) if hasattr(estimator, "__sklearn_tags__") else None


class CalibratedDecision(ClassifierMixin, MetaEstimatorMixin, Versioned, BaseEstimator):
    """Base class of meta-estimators that are calibrated on samples held out from the training."""

    # Functions that check each parameter. Subclasses have such a dict for their other parameters.
    _checks: ClassVar = {"cross_fit": check_flag, "validation_fraction": number(0, 1, "neither")}

    # `fit` needs weights to drop samples of weight 0. It does not request groups. Otherwise, groups
    # that a caller passes for a splitter would leave one calibration sample per group.
    __metadata_request__fit = {"sample_weight": True}  # noqa: RUF012

    @classmethod
    def from_scores(
        cls,
        y_score: ArrayLike,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Return a fitted estimator that is calibrated with existing scores.

        The methods of the returned estimator take scores in the format of `y_score` instead of X.

        Parameters
        ----------
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities of samples not used for training, one column per class in sorted order.
            For two classes, one number per sample is enough: any score of the positive class for
            `BudgetClassifier`, or the probability of the second label for `SetClassifier`. Pass
            scores of the same dtype to the methods of the returned estimator, because rounding can
            move a score across the threshold.
        y : array-like of shape (n_samples,)
            True labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that can occur. None means the labels in `y`.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, as in `fit`.
        **params : dict
            Parameters of the estimator.

        Returns
        -------
        estimator : BudgetClassifier or SetClassifier
        """
        labels = check_labels(y)
        known = labels if classes is None else check_labels(classes, "classes")
        given = GivenScores().fit(None, known)
        if classes is not None and not np.array_equal(given.classes_, known):
            raise ValueError(f"classes must be sorted without repetition; got {listed(known)}")
        estimator, advice = cls(FrozenEstimator(given), **params), "If y lacks labels, set classes"
        if (binary := hasattr(estimator, "pos_label")) and len(given.classes_) != 2:
            found = f"{listed(given.classes_)}. {advice}. To find one label, pass y == label"
            raise ValueError(f"y must have two classes; got {found}")
        warn_of_order(y_score, "y_score", y=y, groups=groups)
        scores = given.checked(y_score, "y_score", advice)
        if len(scores) != len(labels):
            raise ValueError(f"y_score must have {len(labels)} rows, as y; got {len(scores)}")
        if binary:
            count = class_counts(given.classes_, labels)
            given.pos_label_ = positive_label(estimator.pos_label, given.classes_, count)
            place = place_of(given.pos_label_, given.classes_)
            own = scores[:, place] if scores.shape[1:] == (2,) else scores.ravel()
            advice = "if low scores mean positive, pass -y_score, or exchange its two columns"
            warn_of_scores(labels, own, labels == given.pos_label_, advice=advice)
        return estimator.fit(scores, y, groups=groups)

    def get_metadata_routing(self) -> Any:
        """Return the metadata routing. `fit` passes metadata on to ``estimator.fit``."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), tags_of(self.estimator)
        tags.input_tags = tags.input_tags if inner is None else inner.input_tags
        return tags

    def _check_params(self):
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(
                "estimator must be an instance of a classifier with fit and decision_function or "
                f"predict_proba; got {self.estimator!r}"
            )
        inner = tags_of(self.estimator)  # check the type before the training
        if inner is not None and inner.estimator_type not in ("classifier", None):
            raise no_classifier(self.estimator)
        check_parameters(self)
        if self.cross_fit and isinstance(self.estimator, FrozenEstimator):
            raise ValueError(
                "cross_fit must be False for a FrozenEstimator, which is not trained; got True. "
                "Pass the estimator without FrozenEstimator, or set cross_fit=False"
            )

    def _checked(self, X, y, sample_weight, groups, fit_params):
        """Return the validated X, y, groups and fit parameters, without samples of weight 0."""
        refuse_masked(X=X, y=y, sample_weight=sample_weight, groups=groups)
        if X is None:
            raise ValueError("X must hold the samples; got None")
        check_table(X)
        if hasattr(X, "compute") and hasattr(X, "dask"):
            raise TypeError(f"X must be in memory; got a dask {type(X).__name__}. Pass X.compute()")
        warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
        y, present = check_labels(y), None
        X, _ = indexable(X, y)
        if groups is not None:
            encode_groups(groups, len(y))  # raises if groups are not valid
        if sample_weight is not None:
            sample_weight = check_weight(sample_weight, len(y))
            present = None if sample_weight.all() else np.flatnonzero(sample_weight)
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            fit_params = routed.estimator.fit
        elif isinstance(self.estimator, FrozenEstimator):
            if fit_params:
                names = ", ".join(fit_params)
                raise TypeError(f"fit_params must be empty for a FrozenEstimator; got {names}")
        elif sample_weight is not None:
            fit_params = fit_params | {weight_name(self.estimator): sample_weight}
        params = take_params(fit_params, present, len(y))
        groups = groups if groups is None else take_rows(groups, present)
        return take_rows(X, present), take_rows(y, present), groups, params

    def _with_groups(self, groups, fit_params):
        """Add `groups` to the fit parameters, if the classifier holds out whole groups."""
        if groups is None or isinstance(self.estimator, FrozenEstimator):
            return fit_params
        name = "groups" if get_config()["enable_metadata_routing"] else None
        # Pass no groups to a ranker (with `pos_label`): it would train one threshold per group.
        if name is None and not hasattr(last_step(self.estimator), "pos_label"):
            name = name_in_fit(self.estimator, "groups")
        return fit_params if name is None else fit_params | {name: groups}

    def _train_and_hold_out(self, X, y, fit_params, random, groups, calibrates=True):
        """Train a clone of the classifier, and return the clone with its calibration samples.

        If `calibrates` is False, train on all samples. Then, the result has only one sample, with
        which the caller checks the predictions.
        """
        estimator = clone(self.estimator)
        if isinstance(estimator, FrozenEstimator):
            index = None if calibrates else np.zeros(1, dtype=int)
            return Trained(estimator, take_rows(X, index), take_rows(y, index), None, index)
        self._warn_if_fitted()
        last, pos_label = last_step(estimator), getattr(self, "pos_label", None)
        if pos_label is not None and getattr(last, "pos_label", pos_label) is None:
            last.set_params(pos_label=pos_label)
        if not calibrates:
            estimator.fit(X, y, **fit_params)
            return Trained(estimator, take_rows(X, [0]), y[:1], None, None)
        if self.cross_fit:
            if groups is not None and not any(name.endswith("groups") for name in fit_params):
                raise ValueError(
                    "cross_fit=True with groups needs a classifier that holds out groups, such as "
                    f"TopKClassifier() (rankers do not); got {last!r}"
                )
            y_score = out_of_fold_scores(estimator.fit(X, y, **fit_params), len(y))
            known = np.flatnonzero(np.isfinite(y_score.reshape(len(y), -1)).all(axis=1))
            if not len(known):
                raise ValueError("all out-of-fold scores of estimator are NaN: set cross_fit=False")
            return Trained(estimator, take_rows(X, known), y[known], y, known, y_score[known])
        mask = calibration_rows(y, self.validation_fraction, random, groups)
        if not mask.any():
            name, unit = ("y", "samples") if groups is None else ("groups", "groups")
            raise ValueError(
                f"{name} must have more {unit} per class: training keeps at least one per class, "
                f"so no {unit} are held out for calibration; got n_samples={len(y)}. Add {unit}, "
                "or pass a fitted estimator as FrozenEstimator(estimator)"
            )
        train, index = np.flatnonzero(~mask), np.flatnonzero(mask)
        estimator.fit(take_rows(X, train), y[train], **take_params(fit_params, train, len(y)))
        return Trained(estimator, take_rows(X, index), y[index], y[train], index)

    def _replace_fitted(self, estimator, **fitted):
        columns = ("n_features_in_", "feature_names_in_")
        fitted |= {name: getattr(estimator, name) for name in columns if hasattr(estimator, name)}
        assign(self, {"estimator_": estimator, **fitted})
        return self

    def _warn_if_fitted(self):
        """Warn if the classifier is fitted already, because `fit` trains a clone of it."""
        if not hasattr(self.estimator, "__sklearn_tags__"):
            return
        with suppress(AttributeError):  # AttributeError is a base class of NotFittedError
            check_is_fitted(self.estimator)
            warn(
                "estimator is fitted, but fit trains a new copy of it with these samples. To only "
                "calibrate the fitted estimator, pass FrozenEstimator(estimator)"
            )

    def _warn_of_ranking(self, y, scores, positive):
        """Warn if the calibration samples seem to be training samples, or have reversed labels."""
        if separates(scores, positive):
            self._warn_if_seen(len(scores))
        if not isinstance(getattr(self.estimator, "estimator", None), GivenScores):
            warn_of_scores(y, scores, positive, "estimator", "check y and pos_label")

    def _warn_if_seen(self, n_samples):
        if n_samples >= _MANY_SAMPLES and isinstance(self.estimator, FrozenEstimator):
            warn(
                f"estimator makes no error on any of {n_samples} calibration samples. If they were "
                "used for training, there is no guarantee: pass other samples to fit, or an "
                "estimator without FrozenEstimator"
            )


def take_params(params, index, n_samples):
    """Return the fit parameters. Arrays with one entry per sample keep only the entries `index`."""

    def belongs(name, value):
        if re.search("(^|_)eval_|_val$", name):  # samples for early stopping
            return False
        shape = getattr(value, "shape", ())
        known = bool(shape) or isinstance(value, list | tuple)
        return known and (shape[0] if shape else len(value)) == n_samples

    return {
        name: take_rows(value, index) if belongs(name, value) else value
        for name, value in params.items()
    }
