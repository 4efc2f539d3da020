"""Calibration of probabilities on held-out samples, without a change of the order."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

from ._losses import loss_models_proba


def fit_calibration(scores, target, weight):
    """Return the slope and the intercept that calibrate scores.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Scores of class 1 of two classes, or a score for each class.
    target : ndarray of int of shape (n_samples,)
        Class indices.
    weight : ndarray of shape (n_samples,)
        Sample weights.
    """
    scores = scores.astype(np.float64)
    return (fit_sigmoid if scores.ndim == 1 else fit_temperature)(scores, target, weight)


def fit_temperature(scores, target, weight):
    """Return the slope 1 / T that minimizes the cross-entropy of softmax(scores / T), and 0."""
    # CalibratedClassifierCV(method="temperature") of scikit-learn 1.8 could replace this function.
    # Masked classes have the score -inf for every slope.
    present = scores > -np.inf
    distance = np.abs(scores - scores.mean(1, keepdims=True, where=present))
    spread = max(distance.max(where=present, initial=0.0), 1e-300)
    rows = np.flatnonzero(weight)  # 0 * inf would be NaN

    def cross_entropy(log_slope):
        log_proba = log_softmax(np.exp(log_slope) * scores, axis=1)
        return -np.average(log_proba[rows, target[rows]], weights=weight[rows])

    # The softmax is nearly uniform at the lower bound, and nearly one-hot at the upper bound.
    bounds = np.log(1e-3 / spread), np.log(1e4 / spread)
    return float(np.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded").x)), 0.0


def fit_sigmoid(scores, target, weight):
    """Return slope and intercept of Platt's sigmoid.

    The targets (n_pos + 1) / (n_pos + 2) and 1 / (n_neg + 2) keep the slope finite if the classes
    are separable. There, n_pos and n_neg are sums of weights, so that a sample of weight 2 has the
    effect of two samples. Weights with a mean below 1 are divided by their mean.
    """
    # Import this class only if it is needed: the import takes a tenth of a second.
    from sklearn.linear_model import LogisticRegression

    mean_weight = weight[weight > 0].mean()
    weight = weight / mean_weight
    # Standardize the scores, because the stopping criterion of the solver depends on the scale.
    mean = np.average(scores, weights=weight)
    spread = np.sqrt(np.average((scores - mean) ** 2, weights=weight))
    spread = spread if np.ptp(scores[weight > 0]) else 1.0
    positive, unit = target == 1, max(mean_weight, 1.0)
    n_pos, n_neg = unit * weight[positive].sum(), unit * weight[~positive].sum()
    soft = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))
    platt = LogisticRegression(C=np.inf).fit(
        np.tile((scores[:, np.newaxis] - mean) / spread, (2, 1)),
        np.repeat([1, 0], len(target)),
        sample_weight=np.concatenate([weight * soft, weight * (1 - soft)]),
    )
    slope, middle = float(platt.coef_[0, 0] / spread), float(platt.intercept_[0])
    if slope <= 0:
        # Few held-out samples can be ranked worse than at random. The order is kept: nearly
        # constant probabilities.
        share = np.average(soft, weights=weight)
        slope, middle = 1e-3 / spread, float(np.log(share / (1 - share)))
    return float(slope), float(middle - slope * mean)


def calibrated_proba(slope, intercept, scores):
    """Return probabilities of shape (n_samples, n_classes) in the dtype of the scores.

    Scores of shape (n_samples,) belong to class 1 of two classes.
    """
    calibrated = slope * scores.astype(np.float64) + intercept
    if scores.ndim == 1:
        proba = np.column_stack([expit(-calibrated), expit(calibrated)])
    else:
        proba = softmax(calibrated, axis=1)
    return proba.astype(scores.dtype)


def models_proba(estimator):
    """Return whether the scores are trained to give probabilities without calibration."""
    return estimator.log_loss_share > 0 or loss_models_proba(getattr(estimator, "loss", None))


def has_proba(estimator):
    """Return True if `predict_proba` is available, else raise AttributeError."""
    if hasattr(estimator, "net_"):
        available = hasattr(estimator, "calibration_") or estimator._task_.models_proba
    else:
        available = estimator.calibration is not None or models_proba(estimator)
    if available:
        return True
    raise AttributeError(
        "predict_proba is not available: the scores of this loss are not probabilities, and no "
        f"samples were held out for calibration={estimator.calibration!r}. Set log_loss_share "
        f"above 0, or calibration={type(estimator).calibration!r}"
    )
