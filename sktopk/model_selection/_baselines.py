"""Baselines that `compare_losses` adds to every comparison."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from ._splits import VALIDATION_SHARE

# With more classes than this, omit boosting: one tree per class in each round would be slow.
MOST_CLASSES_TO_BOOST = 30
# Omit boosting for sparse data if the dense float64 array would need more bytes than this.
MOST_BYTES_TO_BOOST = 1 << 29


def make_baselines(estimator, prefix, with_loss, n_classes, scorer, X, is_weighted):
    """Return a dict of baseline estimators, and a dict with the reason for each omitted baseline.

    `prefix` is the parameter prefix of the TopKClassifier in a pipeline, such as "clf__".
    `with_loss` returns a copy of `estimator` with another loss. `X` are samples for checks.
    """
    weighted = with_loss("cross_entropy").set_params(**{f"{prefix}class_weight": "balanced"})
    # With sample weights, tuning the threshold would require metadata routing.
    of_labels = isinstance(scorer, type(get_scorer("accuracy")))
    if n_classes == 2 and of_labels and not is_weighted:
        weighted = TunedThresholdClassifierCV(weighted, scoring=scorer, cv=VALIDATION_SHARE)
    baselines = {
        "cross_entropy": with_loss("cross_entropy"),
        "logit_adjusted": with_loss("logit_adjusted"),
        "weighted_cross_entropy": weighted,
    }
    reason = _reason_against_trees(estimator, prefix, n_classes, X)
    if reason:
        return baselines, {"hist_gradient_boosting": reason}
    steps = [("dense", DenseNumbers()), ("boosting", HistGradientBoostingClassifier())]
    boosting = Pipeline(steps)
    if prefix:
        # Keep the preceding steps, but replace the classifier by two steps: "dense" and boosting.
        boosting = clone(estimator)
        *others, (last, _) = boosting.steps
        boosting.set_params(steps=[*others, steps[0], (last, steps[1][1])])
    return baselines | {"hist_gradient_boosting": boosting}, {}


def _reason_against_trees(estimator, prefix, n_classes, X):
    """Return the reason why boosted trees cannot replace the classifier, or None."""
    if n_classes > MOST_CLASSES_TO_BOOST:
        return f"y must have at most {MOST_CLASSES_TO_BOOST} classes; got {n_classes}"
    if prefix.count("__") > 1 or (prefix and not hasattr(estimator, "steps")):
        return f"estimator must be a classifier or a pipeline; got {type(estimator).__name__}"
    if prefix and len(estimator.steps) > 1:
        X = clone(estimator[:-1]).fit_transform(X)
    if not issparse(X):
        X = np.asarray(X)
    elif (n_bytes := 8 * X.shape[0] * X.shape[1]) > MOST_BYTES_TO_BOOST:
        most = MOST_BYTES_TO_BOOST / 2**20
        return f"dense X must have at most {most:.3g} MiB; got {n_bytes / 2**20:.3g}"
    if X.ndim != 2:
        return f"X must have 2 dimensions; got {X.ndim}"
    return None if X.dtype.kind in "fiub" else f"X must have numbers only; got dtype {X.dtype}"


class DenseNumbers(TransformerMixin, BaseEstimator):
    """Convert X to a dense array. Columns without any values in `fit` become zeros.

    scikit-learn's boosting fails if all values of a column are missing.
    """

    def fit(self, X, y=None):
        """Find the columns whose values are all missing."""
        X = self._dense(X)
        self.empty_ = np.isnan(X).all(axis=0) if X.dtype.kind == "f" else np.zeros(X.shape[1], bool)
        return self

    def transform(self, X):
        """Return the dense array."""
        X = self._dense(X)
        return np.where(self.empty_, 0.0, X) if self.empty_.any() else X

    def _dense(self, X):
        return X.toarray() if issparse(X) else np.asarray(X)
