"""What wrapping any scikit-learn classifier takes: its probabilities, rows of any container."""

import numpy as np
from scipy.special import softmax

from sktopk.metrics._scorer import predict_scores


def predict_class_proba(estimator, X):
    """Return the classes of a fitted classifier and probabilities, or the softmax of scores."""
    name = type(estimator).__name__
    if hasattr(estimator, "classes_") and hasattr(estimator, "predict_proba"):
        classes, proba = estimator.classes_, np.asarray(estimator.predict_proba(X))
        source = "predict_proba"
    else:
        classes, scores = predict_scores(estimator, X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        # float32 would round small probabilities to zero, and let them tie.
        proba, source = softmax(scores.astype(np.float64), axis=1), "decision_function"
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
