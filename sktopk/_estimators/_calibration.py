"""Calibration of probabilities on held-out samples."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

CALIBRATIONS = (None, "temperature", "sigmoid")


def fit_calibration(method, scores, target, weight, counts=False):
    """Return slopes and intercepts that calibrate the scores, of shape (1,) or (n_classes,).

    "temperature" minimizes the cross-entropy of softmax(scores / T). The slope is 1 / T. "sigmoid"
    is Platt's method for each class against the others. Its targets (n_pos + 1) / (n_pos + 2) and
    1 / (n_neg + 2) keep the slopes finite if the classes are separable. Weights are divided by
    their mean over samples of positive weight, so that their scale has no effect. If `counts` is
    True, n_pos and n_neg are sums of weights, so that a sample of weight 2 has the effect of two
    samples; only weights with a mean below 1 are divided by their mean.
    """
    mean_weight = weight[weight > 0].mean()
    unit = max(mean_weight, 1.0) if counts else 1.0
    weight = weight / mean_weight
    scores = scores.astype(np.float64)
    # CalibratedClassifierCV(method="temperature") of scikit-learn 1.8 could replace this branch.
    if method == "temperature":
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
        found = minimize_scalar(cross_entropy, bounds=bounds, method="bounded")
        return np.array([np.exp(found.x)]), np.zeros(1)
    # Import this class only if it is needed: the import takes a tenth of a second.
    from sklearn.linear_model import LogisticRegression

    slope, intercept = np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
    for c in range(scores.shape[1]):
        # Standardize the scores, because the stopping criterion of the solver depends on the scale.
        mean = np.average(scores[:, c], weights=weight)
        spread = np.sqrt(np.average((scores[:, c] - mean) ** 2, weights=weight))
        spread = spread if np.ptp(scores[weight > 0, c]) else 1.0
        positive = target == c
        n_pos, n_neg = unit * weight[positive].sum(), unit * weight[~positive].sum()
        soft = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))
        platt = LogisticRegression(C=np.inf).fit(
            np.tile((scores[:, [c]] - mean) / spread, (2, 1)),
            np.repeat([1, 0], len(target)),
            sample_weight=np.concatenate([weight * soft, weight * (1 - soft)]),
        )
        slope[c] = platt.coef_[0, 0] / spread
        intercept[c] = platt.intercept_[0] - slope[c] * mean
    return slope, intercept


def calibrated_proba(method, slope, intercept, scores):
    """Return probabilities of shape (n_samples, n_classes) in the dtype of the scores."""
    calibrated = slope * scores.astype(np.float64) + intercept
    if method == "sigmoid":
        proba = expit(calibrated)
        total = proba.sum(axis=1, keepdims=True)
        # If all sigmoids are 0, return equal probabilities, as scikit-learn does.
        uniform = np.full_like(proba, 1 / proba.shape[1])
        proba = np.divide(proba, total, out=uniform, where=total > 0)
    else:
        proba = softmax(calibrated, axis=1)
    return proba.astype(scores.dtype)


def has_proba(estimator):
    """Return True if `predict_proba` is available, else raise AttributeError."""
    if hasattr(estimator, "net_"):
        available = hasattr(estimator, "calibration_") or estimator._head.models_proba
    else:
        available = estimator.calibration is not None or estimator._plans_proba()
    if available:
        return True
    if estimator.calibration is not None:
        raise AttributeError(
            "predict_proba is not available: no samples could be held out for "
            f"calibration={estimator.calibration!r}. Pass X_val and y_val to fit"
        )
    raise AttributeError(
        "predict_proba is not available without calibration: the scores of this loss are "
        'not probabilities. Set calibration="temperature" or "sigmoid" and fit'
    )
