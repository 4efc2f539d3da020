"""Scores and probabilities of any scikit-learn classifier, including out-of-fold scores."""

import inspect

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from sktopk._common._input import listed
from sktopk._common._scalars import check_order, on_host
from sktopk.metrics._scorer import no_classifier, predict_scores
from sktopk.metrics._top_scorer import positive_scores


class GivenScores(ClassifierMixin, BaseEstimator):
    """Classifier for `from_scores`: X contains existing scores or probabilities."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def checked(self, scores, name, advice):
        """Return scores as an array. Check that they are finite and match `classes_` in shape."""
        check_order(scores, self.classes_.tolist(), name)
        scores = np.asarray(on_host(scores, name))
        if scores.dtype == object:  # nullable numbers, for which NumPy can choose another dtype
            scores = np.array(scores.tolist())
        n_classes, shape = len(self.classes_), scores.shape
        single = n_classes == 2 and len(shape) > 0 and shape[1:] in ((), (1,))
        if shape[1:] != (n_classes,) and not single:
            raise ValueError(
                f"{name} must have one column per class {self.classes_.tolist()}, or one "
                f"dimension for two classes; got shape {shape}. {advice}"
            )
        if scores.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold real numbers; got dtype {scores.dtype}")
        refused = np.argwhere(~np.isfinite(scores))
        if len(refused):
            first = refused[0, 0]
            raise ValueError(f"{name} must be finite; got {scores[first]} for sample {first}")
        return scores

    def decision_function(self, X):
        """Return X as scores of shape (n_samples,) or (n_samples, n_classes)."""
        # Adding 0.0 converts to floats, because bool and unsigned numbers cannot be negated.
        scores = self.checked(X, "X", "Pass scores, not features") + 0.0
        scores = scores[:, 0] if scores.shape[1:] == (1,) else scores
        # 1-D scores are for the positive class. Negate the scores if this class is the first class.
        turned = scores.ndim == 1 and getattr(self, "pos_label_", None) == self.classes_[0]
        return -scores if turned else scores

    def predict_proba(self, X):
        """Return X as probabilities. One-dimensional X has probabilities of the second class."""
        scores = self.decision_function(X)
        proba = scores if scores.ndim == 2 else np.column_stack([1 - scores, scores])
        refused = np.flatnonzero(((proba < 0) | (proba > 1.001)).any(axis=1))
        if len(refused):
            of = f" of {self.classes_.tolist()[1]!r}" if scores.ndim == 1 else ""
            raise ValueError(
                f"scores must be probabilities{of} in [0, 1]; got {scores[refused[0]]} for "
                f"sample {refused[0]}. Convert other scores with expit or softmax of scipy.special"
            )
        return proba

    def predict(self, X):
        scores = self.decision_function(X)
        if scores.ndim == 1 and not hasattr(self, "pos_label_"):
            scores = self.predict_proba(X)
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best.astype(np.intp)]


def finite_scores(estimator, X, pos_label, methods):
    """Return the scores of a fitted classifier for `pos_label`, and check that they are finite."""
    _, scores = positive_scores(estimator, X, pos_label, methods)
    if scores is None:
        found = np.asarray(estimator.classes_).tolist()
        raise ValueError(f"estimator must be trained with two classes; got only {found}: check y")
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    refused = np.flatnonzero(~np.isfinite(scores))
    if len(refused):
        raise ValueError(
            f"estimator must give finite scores; got {scores[refused[0]]} for sample "
            f"{refused[0]} of X from {type(estimator).__name__}"
        )
    return scores


def sorted_classes(estimator):
    """Return the labels of a fitted classifier as an array, and check that they are sorted."""
    if not hasattr(estimator, "classes_"):
        raise no_classifier(estimator)
    classes = np.asarray(on_host(estimator.classes_, "classes_ of estimator"))
    if (classes[1:] <= classes[:-1]).any():
        raise ValueError(f"classes_ of estimator must be sorted; got {listed(classes)}")
    return classes


def predict_class_proba(estimator, X, *, use_scores=False):
    """Return class probabilities. `use_scores` prefers the softmax of scores to `predict_proba`."""
    name = type(estimator).__name__
    has_proba = hasattr(estimator, "classes_") and hasattr(estimator, "predict_proba")
    if has_proba and not (use_scores and hasattr(estimator, "decision_function")):
        proba = np.asarray(on_host(estimator.predict_proba(X), "probabilities of estimator"))
        source = "predict_proba"
    else:
        _, scores = predict_scores(estimator, X)
        proba, source = proba_of_scores(scores), "decision_function"
    if proba.shape[1:] != (len(estimator.classes_),):
        raise ValueError(
            f"{source} of estimator must return {len(estimator.classes_)} columns, one per class; "
            f"got shape {proba.shape} from {name}"
        )
    refused = np.flatnonzero(~(proba.sum(axis=1) > 0))
    if len(refused):
        what = "NaN" if np.isnan(proba[refused[0]]).any() else "probabilities that sum to 0"
        raise ValueError(
            f"{source} of estimator must return probabilities with a positive sum; got {what} for "
            f"sample {refused[0]} of X from {name}"
        )
    return proba


def last_step(estimator):
    """Return the last step of a (nested) pipeline, or the estimator itself."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def out_of_fold_scores(estimator, n_samples):
    """Return the out-of-fold scores of the training samples; NaN for samples without scores."""
    last = last_step(estimator)
    y_score = getattr(last, "oob_decision_function_", None)
    if y_score is None:
        raise ValueError(
            "cross_fit=True needs an estimator with oob_decision_function_, such as "
            f"TopBoostClassifier() or RandomForestClassifier(oob_score=True); got {last!r}"
        )
    y_score = np.asarray(y_score)
    if len(y_score) != n_samples:
        raise ValueError(
            f"cross_fit=True needs an out-of-fold score for each of the {n_samples} samples; got "
            f"{len(y_score)} from {last!r}, because a step resamples: set cross_fit=False"
        )
    if hasattr(last, "decision_function"):
        # In scikit-learn, `oob_decision_function_` contains probabilities, despite its name.
        if not any(kind.__module__.startswith("sklearn.ensemble") for kind in type(last).__mro__):
            return y_score
        raise ValueError(
            "cross_fit=True needs out-of-fold decision scores, but oob_decision_function_ "
            f"of {type(last).__name__} has probabilities: set cross_fit=False"
        )
    # A forest returns zeros for a sample that every tree was trained on. Replace them by NaN.
    return np.where(y_score.any(axis=1, keepdims=True), y_score, np.nan)


def proba_of_scores(y_score):
    """Return the softmax of decision scores, which can be one-dimensional for two classes."""
    if y_score.ndim == 1:
        y_score = np.column_stack([np.zeros_like(y_score), y_score])
    # Compute in float64: in float32, several small probabilities would become 0 and tie.
    return softmax(y_score.astype(np.float64), axis=1)


def name_in_fit(estimator, name, *, keywords=False):
    """Return the keyword of `fit` for `name`, such as "clf__groups" for "groups" of step clf.

    None means that `fit` has no parameter `name`. If `keywords`, ``**kwargs`` match any `name`.
    """
    if steps := getattr(estimator, "steps", None):
        step, last = steps[-1]
        found = name_in_fit(last, name, keywords=keywords)
        return found and f"{step}__{found}"
    if hasattr(estimator, "error_score") and name != "groups":  # a search
        return name_in_fit(estimator.estimator, name, keywords=keywords)
    params = inspect.signature(estimator.fit).parameters
    # A search takes groups for its splitter as a keyword argument of `fit`.
    keywords = keywords or hasattr(estimator, "error_score")
    any_keyword = keywords and any(p.kind == p.VAR_KEYWORD for p in params.values())
    return name if name in params or any_keyword else None


def weight_name(estimator):
    """Return the name of the `fit` parameter for sample weights, such as "clf__sample_weight"."""
    if name := name_in_fit(estimator, "sample_weight", keywords=True):
        return name
    last = type(last_step(estimator)).__name__
    raise ValueError(
        f"sample_weight must be None, because fit of {last} does not take "
        "sample_weight; got weights"
    )
