"""Probabilities from scores, fitted on held-out rows."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

from sktopk._common._input import encode
from sktopk._training._process import joined, total

METHODS = ("temperature", "sigmoid")
CALIBRATIONS = (None, "auto", *METHODS)


def is_planned(estimator):
    """Whether a fit will end with calibrated scores, as far as its parameters tell."""
    if estimator.calibration == "auto":
        settings = estimator._settings()
        return settings.cross_fit or settings.early_stopping
    return estimator.calibration is not None


def way_out(estimator):
    """What to set where probabilities are missing, in words."""
    if is_planned(estimator):
        return (
            f"The last training left out no rows for calibration={estimator.calibration!r}, as it "
            "was interrupted, had a piece of the data or other rows than the one it went on from, "
            "or no two rows of a class that differ: fit anew, with warm_start=False"
        )
    settings = estimator._settings()
    if settings.cross_fit or settings.early_stopping:
        return (
            "Set calibration='temperature' or 'sigmoid', or 'auto' for the one that suits: they "
            "take the rows that are left out of the training anyway"
        )
    return (
        "Set calibration='temperature' or 'sigmoid', for which fit holds rows out, or 'auto' with "
        "cross_fit=True or early_stopping=True, which have rows left out anyway"
    )


def calibrate(estimator, scores, y, weight):
    """Set `calibration_` from scores of held-out rows, one column per class.

    Raises
    ------
    ValueError
        If no row, of all processes, has a label of the training data.
    """
    target = encode(estimator.classes_, y)
    known = target >= 0
    if not total(np.count_nonzero(known)):
        raise ValueError("y_val has no label of the training data to calibrate with")
    rows = joined(scores[known], target[known], weight[known])
    method = estimator.calibration
    method = estimator._auto_calibration if method == "auto" else method
    estimator.calibration_ = (method, *fit_calibration(method, *rows))


def fit_calibration(method, scores, target, weight):
    """Return slope and intercept, each of shape (1,) or (n_classes,).

    "temperature" minimises the cross-entropy of softmax(scores / T): slope 1 / T, one number.
    "sigmoid" is Platt's, one class against the others: targets (n_pos + 1) / (n_pos + 2) and
    1 / (n_neg + 2) instead of 1 and 0 keep the slopes finite on separable rows. The weights count
    in units of their mean over the rows that have some, for 1 / n is a usual one.
    """
    weight = weight / weight[weight > 0].mean()
    scores = scores.astype(np.float64)
    # scikit-learn has it since 1.8, CalibratedClassifierCV(method="temperature"); the oldest that
    # pyproject.toml supports is 1.7. Its place is here once that is 1.8.
    if method == "temperature":
        spread = max(np.abs(scores - scores.mean(1, keepdims=True)).max(), 1e-300)
        rows = np.arange(len(target))

        def cross_entropy(log_slope):
            log_proba = log_softmax(np.exp(log_slope) * scores, axis=1)
            return -np.average(log_proba[rows, target], weights=weight)

        # From a flat softmax to a hard one, whatever the unit of the scores.
        bounds = np.log(1e-3 / spread), np.log(1e4 / spread)
        found = minimize_scalar(cross_entropy, bounds=bounds, method="bounded")
        return np.array([np.exp(found.x)]), np.zeros(1)
    # Imported where it is needed: it takes a tenth of a second.
    from sklearn.linear_model import LogisticRegression

    slope, intercept = np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
    for c in range(scores.shape[1]):
        # The solver stops by the size of a gradient, which hangs on the unit of the scores.
        mean = np.average(scores[:, c], weights=weight)
        spread = np.sqrt(np.average((scores[:, c] - mean) ** 2, weights=weight))
        spread = spread if np.ptp(scores[weight > 0, c]) else 1.0
        positive = target == c
        n_pos, n_neg = weight[positive].sum(), weight[~positive].sum()
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
    """Probabilities of shape (n_samples, n_classes) in the float type of the scores."""
    calibrated = slope * scores.astype(np.float64) + intercept
    if method == "sigmoid":
        proba = expit(calibrated)
        proba /= proba.sum(axis=1, keepdims=True)
    else:
        proba = softmax(calibrated, axis=1)
    return proba.astype(scores.dtype)


def columns_of_score(y_score):
    """A decision score as two, whose softmax is its sigmoid; those of several classes."""
    return y_score if y_score.ndim == 2 else np.column_stack([-y_score / 2, y_score / 2])
