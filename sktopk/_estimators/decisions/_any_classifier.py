"""What wrapping any scikit-learn classifier takes: its probabilities, rows of any container."""

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from sktopk._common._scalars import on_host
from sktopk.metrics._scorer import predict_scores


class GivenScores(ClassifierMixin, BaseEstimator):
    """Stands where a classifier would: its rows are scores or probabilities already."""

    def fit(self, X, y):
        """Note the labels."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        """Return the rows: a score each, or one per class."""
        scores = np.asarray(on_host(X, "X"))
        scores = scores[:, 0] if scores.shape[1:] == (1,) else scores
        # One score is that of the positive class, which may be the first.
        turned = scores.ndim == 1 and getattr(self, "pos_label_", None) == self.classes_[0]
        return -scores if turned else scores

    def predict_proba(self, X):
        """Return the rows, probabilities of each class; or of one each, that of the second, both.

        Raises
        ------
        ValueError
            If one number per row is no probability.
        """
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return scores
        refused = np.flatnonzero(~((scores >= 0) & (scores <= 1)))
        if len(refused):
            raise ValueError(
                "y_score of one number per row must be the probability of the label "
                f"{self.classes_.tolist()[1]!r}, in [0, 1]; got {scores[refused[0]]} for row "
                f"{refused[0]}. Of another score give scipy.special.expit(y_score)"
            )
        return np.column_stack([1 - scores, scores])

    def predict(self, X):
        """Return the label of the highest score; of a score each, the second from 0 up.

        Without a positive class one number each is a probability.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1 and not hasattr(self, "pos_label_"):
            scores = self.predict_proba(X)
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best.astype(np.intp)]

    def _check_params(self):
        """It has none."""


def predict_class_proba(estimator, X):
    """Return the classes of a fitted classifier and probabilities, or the softmax of scores."""
    name = type(estimator).__name__
    if hasattr(estimator, "classes_") and hasattr(estimator, "predict_proba"):
        classes = on_host(estimator.classes_, "classes_ of estimator")
        proba = np.asarray(on_host(estimator.predict_proba(X), "probabilities of estimator"))
        source = "predict_proba"
    else:
        classes, scores = predict_scores(estimator, X)
        proba, source = proba_of_scores(scores), "decision_function"
    if proba.shape[1:] != (len(classes),):
        raise ValueError(
            f"{source} of estimator must have a column for each of its {len(classes)} classes; "
            f"got shape {proba.shape} from {name}"
        )
    refused = np.flatnonzero(~(proba.sum(axis=1) > 0))
    if len(refused):
        what = "NaN" if np.isnan(proba[refused[0]]).any() else "probabilities that sum to 0"
        raise ValueError(
            f"{source} of estimator must not give NaN or only zeros; got {what} for row "
            f"{refused[0]} of X from {name}"
        )
    return classes, proba


def out_of_fold_scores(estimator):
    """What a classifier fitted just now scores the rows of that fit by what has not seen them.

    Returns
    -------
    y_score : ndarray of shape (n_samples,) or (n_samples, n_classes)
        As `predict_scores` has them of new rows; NaN where all of the classifier has seen a row.
    """
    last = _last_step(estimator)
    y_score = getattr(last, "oob_decision_function_", None)
    if y_score is None:
        raise ValueError(
            "cross_fit=True needs an estimator that scores the rows of fit by what has not seen "
            "them, in oob_decision_function_: a cross-fitted network of sktopk, such as "
            "TopKClassifier(), or RandomForestClassifier(oob_score=True); got "
            f"{last!r}"
        )
    if _has_out_of_fold_proba(last) and hasattr(last, "decision_function"):
        raise ValueError(
            "cross_fit=True needs out-of-fold scores that are those of decision_function; in "
            f"oob_decision_function_ of {type(last).__name__} are probabilities"
        )
    y_score = np.asarray(y_score)
    if _has_out_of_fold_proba(last):
        # Forests have probabilities of 0 for a row that no tree left out.
        y_score = np.where(y_score.any(axis=1, keepdims=True), y_score, np.nan)
    return y_score


def out_of_fold_proba(estimator, y_score):
    """Probabilities of all classes from `out_of_fold_scores`, as `predict_class_proba` has them."""
    last = _last_step(estimator)
    if _has_out_of_fold_proba(last):
        return y_score
    if getattr(last, "_k_ordered", None) is not None:
        raise ValueError(
            f"cross_fit=True needs order=None; got order={last.order!r}, whose out-of-fold scores "
            "have no probabilities"
        )
    has_own = hasattr(last, "predict_proba") and hasattr(last, "_proba_of")
    return last._proba_of(y_score) if has_own else proba_of_scores(y_score)


def _last_step(estimator):
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def _has_out_of_fold_proba(classifier):
    """Whether its `oob_decision_function_` has probabilities, as in all of scikit-learn."""
    is_theirs = type(classifier).__module__.startswith("sklearn.")
    return is_theirs or not hasattr(classifier, "decision_function")


def proba_of_scores(y_score):
    """The softmax of decision scores."""
    if y_score.ndim == 1:
        y_score = np.column_stack([np.zeros_like(y_score), y_score])
    # float32 would round small probabilities to zero, and let them tie.
    return softmax(y_score.astype(np.float64), axis=1)
