"""The baselines of every comparison."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from ._splits import VALIDATION_SHARE

# Boosting grows a tree per class and round: with more classes it costs more than all losses.
MOST_CLASSES_TO_BOOST = 30
# Size of sparse samples as an array of float64, which scikit-learn's boosting needs.
MOST_BYTES_TO_BOOST = 1 << 29


def make_baselines(estimator, prefix, with_loss, n_classes, scorer, X, is_weighted):
    """Return the baselines by name, and the reasons for those that are missing.

    `prefix` is that of the parameters of the TopKClassifier in `estimator`, such as "clf__".
    `with_loss` returns a copy of the estimator with the loss of this name. X are some samples.
    """
    weighted = with_loss("cross_entropy").set_params(**{f"{prefix}class_weight": "balanced"})
    # TunedThresholdClassifierCV takes weights with metadata routing only.
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
        # The last step keeps its name.
        boosting = clone(estimator)
        *others, (last, _) = boosting.steps
        boosting.set_params(steps=[*others, steps[0], (last, steps[1][1])])
    return baselines | {"hist_gradient_boosting": boosting}, {}


def _reason_against_trees(estimator, prefix, n_classes, X):
    """Return why boosted trees cannot replace the classifier, or None."""
    if n_classes > MOST_CLASSES_TO_BOOST:
        return f"it grows a tree per class, for at most {MOST_CLASSES_TO_BOOST}; y has {n_classes}"
    if prefix.count("__") > 1 or (prefix and not hasattr(estimator, "steps")):
        return f"{type(estimator).__name__} is no pipeline whose last step it could replace"
    if prefix and len(estimator.steps) > 1:
        X = clone(estimator[:-1]).fit_transform(X)
    if not issparse(X):
        X = np.asarray(X)
    elif (n_bytes := 8 * X.shape[0] * X.shape[1]) > MOST_BYTES_TO_BOOST:
        most = MOST_BYTES_TO_BOOST / 2**20
        return f"it takes dense samples of at most {most:.3g} MiB; got {n_bytes / 2**20:.3g}"
    if X.ndim != 2:
        return f"it takes tables; X has {X.ndim} dimensions"
    return None if X.dtype.kind in "fiub" else "it takes numbers only"


class DenseNumbers(TransformerMixin, BaseEstimator):
    """Make samples an array, in which columns without a known value in `fit` are 0.

    scikit-learn's boosting fails on such columns.
    """

    def fit(self, X, y=None):
        """Find the columns without a known value."""
        X = self._dense(X)
        self.empty_ = np.isnan(X).all(axis=0) if X.dtype.kind == "f" else np.zeros(X.shape[1], bool)
        return self

    def transform(self, X):
        """Return the samples."""
        X = self._dense(X)
        return np.where(self.empty_, 0.0, X) if self.empty_.any() else X

    def _dense(self, X):
        return X.toarray() if issparse(X) else np.asarray(X)
