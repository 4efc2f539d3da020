"""The metrics (jobs) of the comparison."""

import time
import warnings

from sklearn.metrics import average_precision_score

from sktopk.metrics import (
    positives_at_top_score,
    precision_at_k_score,
    topk_accuracy_score,
    true_positive_rate_at_fpr_score,
)
from sktopk.metrics._scorer import predict_scores

BINARY = {
    "precision at 1 %": lambda y, s: precision_at_k_score(y, s, k=0.01),
    "precision at 100": lambda y, s: precision_at_k_score(y, s, k=100),
    "recall at 1 % false positives": lambda y, s: true_positive_rate_at_fpr_score(y, s, fpr=0.01),
    "positives above every negative": positives_at_top_score,
    "average precision": average_precision_score,
}


def _topk(k, average="micro"):
    def score(y, y_score, labels):
        return topk_accuracy_score(y, y_score, k=k, labels=labels, average=average)

    return score


MULTICLASS = {
    "top-1": _topk(1),
    "top-3": _topk(3),
    "top-5": _topk(5),
    "macro top-5": _topk(5, "macro"),
}
# Test labels are correct. On the long tail all classes count equally.
JOBS = {
    "binary": BINARY,
    "multiclass": MULTICLASS,
    "wrong labels": {f"top-{k}": _topk(k) for k in (1, 3, 5)},
    "long tail": {f"macro top-{k}": _topk(k, "macro") for k in (1, 3, 5)},
}


def scores_of(kind, y, y_score, labels):
    """Return all metrics of the test samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "binary":
            return {job: float(score(y, y_score)) for job, score in BINARY.items()}
        return {job: float(score(y, y_score, labels)) for job, score in JOBS[kind].items()}


def fit_and_score(estimator, rows, kind):
    """Fit an estimator and score the test samples.

    Returns
    -------
    fit_s, predict_s : float
        CPU seconds, because other processes may use the machine.
    scores : dict
        All metrics by name.
    """
    begin = time.process_time()
    estimator.fit(rows.X, rows.y)
    fitted = time.process_time()
    labels, y_score = predict_scores(estimator, rows.X_test)
    predicted = time.process_time()
    if kind == "binary" and y_score.ndim == 2:
        y_score = y_score[:, 1]
    return fitted - begin, predicted - fitted, scores_of(kind, rows.y_test, y_score, labels)
