"""The baselines of every comparison."""

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
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
    reason = _reason_against_trees(estimator, prefix, n_classes)
    if not reason:
        if prefix and len(estimator.steps) > 1:
            X = clone(estimator[:-1]).fit_transform(X)
        X = X if issparse(X) else np.asarray(X)
        if X.ndim != 2:
            reason = f"it takes tables; X has {X.ndim} dimensions"
        elif X.dtype.kind not in "fiub":
            reason = "it takes numbers only"
    if reason:
        return baselines, {"hist_gradient_boosting": reason}
    rivals, omitted = _boosting(X)
    for name, steps in rivals.items():
        baselines[name] = _in_place_of_the_last(estimator, prefix, steps)
    return baselines, omitted


def _reason_against_trees(estimator, prefix, n_classes):
    """Return why trees cannot replace the classifier, or None."""
    if n_classes > MOST_CLASSES_TO_BOOST:
        return f"it grows a tree per class, for at most {MOST_CLASSES_TO_BOOST}; y has {n_classes}"
    if prefix.count("__") > 1 or (prefix and not hasattr(estimator, "steps")):
        return f"{type(estimator).__name__} is no pipeline whose last step it could replace"
    return None


def _boosting(X):
    """Return lists of steps that boost trees on such samples, and the reasons against others."""
    rivals, omitted = {}, {}
    n_bytes = 8 * X.shape[0] * X.shape[1]
    if not issparse(X) or n_bytes <= MOST_BYTES_TO_BOOST:
        steps = [PlainNumbers(dense=True), HistGradientBoostingClassifier()]
        rivals["hist_gradient_boosting"] = steps
    else:
        omitted["hist_gradient_boosting"] = (
            f"it takes dense samples of at most {MOST_BYTES_TO_BOOST / 2**20:.3g} MiB; these "
            f"would be {n_bytes / 2**20:.3g}"
        )
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return rivals, omitted
    # The number of threads of the networks: more than idle cores make LightGBM very slow.
    boosting = LGBMClassifier(n_jobs=torch.get_num_threads(), verbosity=-1)
    rivals["lightgbm"] = [PlainNumbers(), boosting]
    return rivals, omitted


class PlainNumbers(TransformerMixin, BaseEstimator):
    """Make samples an array, or without `dense` a CSR matrix without duplicates, for boosting.

    Columns without any known value in `fit` become 0: scikit-learn's boosting fails on them.
    """

    def __init__(self, dense=False):
        self.dense = dense

    def fit(self, X, y=None):
        """Find the columns without a known value."""
        X = self._plain(X)
        self.empty_ = np.zeros(X.shape[1], dtype=bool)
        if not issparse(X) and X.dtype.kind == "f":
            self.empty_ = np.isnan(X).all(axis=0)
        return self

    def transform(self, X):
        """Return the samples."""
        X = self._plain(X)
        return np.where(self.empty_, 0.0, X) if self.empty_.any() else X

    def _plain(self, X):
        if not issparse(X):
            return np.asarray(X)
        if self.dense:
            return X.toarray()
        X = csr_matrix(X, copy=True)
        X.sum_duplicates()
        return X


def _in_place_of_the_last(estimator, prefix, steps):
    """Return the pipeline with other steps in place of its last one, which keeps its name."""
    plain, boosting = steps
    if prefix:
        copy = clone(estimator)
        last = copy.steps[-1][0]
        return copy.set_params(steps=[*copy.steps[:-1], ("plain", plain), (last, boosting)])
    return Pipeline([("plain", plain), ("boosting", boosting)])
