"""The baselines of every comparison."""

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktopk._common._scalars import check_random

from ._runs import Rows, fit_rows
from ._splits import hold_out

# Boosting grows a tree per class and round: with more classes it costs more than all losses.
MOST_CLASSES_TO_BOOST = 30
# Size of sparse rows as an array of float64, which scikit-learn's boosting needs.
MOST_BYTES_TO_BOOST = 1 << 29
_MOST_THRESHOLDS = 100


def make_baselines(estimator, prefix, with_loss, n_classes, scorer, X):
    """Return the baselines by name, and the reasons for those that are missing.

    Parameters
    ----------
    estimator : estimator
    prefix : str
        Prefix of the parameters of its TopKClassifier, such as "clf__".
    with_loss : callable
        Returns a copy of the estimator with the loss of this name.
    n_classes : int
    scorer : callable
    X : {array, sparse matrix, frame, list}
        Some samples, to see what reaches the classifier.

    Returns
    -------
    baselines : dict of str to estimator
    omitted : dict of str to str
    """
    weighted = with_loss("cross_entropy").set_params(**{f"{prefix}class_weight": "balanced"})
    if n_classes == 2:
        weighted = ThresholdTuned(weighted, scoring=scorer)
    baselines = {
        "cross_entropy": with_loss("cross_entropy"),
        "logit_adjusted": with_loss("logit_adjusted"),
        "weighted_cross_entropy": weighted,
    }
    seen, reason = _what_reaches(estimator, prefix, n_classes, X)
    if reason:
        return baselines, {"hist_gradient_boosting": reason}
    rivals, omitted = _boosting(seen)
    for name, steps in rivals.items():
        baselines[name] = _in_place_of_the_last(estimator, prefix, steps)
    return baselines, omitted


def _what_reaches(estimator, prefix, n_classes, X):
    """Return the samples that reach the classifier, and why trees cannot take them or None."""
    if n_classes > MOST_CLASSES_TO_BOOST:
        return None, (
            f"{n_classes} classes, a tree for each in every step; at most {MOST_CLASSES_TO_BOOST}"
        )
    if prefix.count("__") > 1 or (prefix and not hasattr(estimator, "steps")):
        return None, f"{type(estimator).__name__} is no pipeline whose last step it could take"
    if prefix and len(estimator.steps) > 1:
        X = clone(estimator[:-1]).fit_transform(X)
    if issparse(X):
        return X, None
    values = np.asarray(X)
    if values.ndim != 2:
        return None, f"it takes tables; X has {values.ndim} dimensions"
    return (X, None) if values.dtype.kind in "fiub" else (None, "it takes numbers only")


def _boosting(X):
    """Return lists of steps that boost trees on such samples, and the reasons against others."""
    rivals, omitted = {}, {}
    n_bytes = 8 * X.shape[0] * X.shape[1]
    if not issparse(X) or n_bytes <= MOST_BYTES_TO_BOOST:
        steps = [PlainNumbers(dense=True), HistGradientBoostingClassifier()]
        rivals["hist_gradient_boosting"] = steps
    else:
        omitted["hist_gradient_boosting"] = (
            f"it takes dense rows, and these would be {n_bytes / 2**20:.3g} MiB; at "
            f"most {MOST_BYTES_TO_BOOST / 2**20:.3g}"
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
    """Make samples an array, or a CSR matrix without duplicates, that boosting can take.

    Columns without any known value in `fit` become 0: scikit-learn's boosting fails on them.

    Parameters
    ----------
    dense : bool, default=False
        Whether sparse samples become an array.
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


class ThresholdTuned(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Binary classifier with the threshold that scores best on held-out samples.

    A quarter of the samples is held out; the threshold is one of at most 100 midpoints of their
    scores. The classifier is then fitted to all samples.

    Parameters
    ----------
    estimator : estimator
        Binary classifier with `decision_function`.
    scoring : str or callable, default=None
        What the threshold is tuned for. None is `score` of the classifier. Scorers that depend
        on the ranking only leave the threshold at 0.
    random_state : int, RandomState or None, default=None
        Seed of the held-out samples.
    """

    def __init__(self, estimator, scoring=None, random_state=None):
        self.estimator = estimator
        self.scoring = scoring
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Find the threshold, then fit the classifier to all samples."""
        rows = Rows(X, np.asarray(y), sample_weight)
        others, held = hold_out(rows.y, check_random(self.random_state))
        self.estimator_ = fit_rows(clone(self.estimator), rows.take(others))
        self.classes_ = self.estimator_.classes_
        X_held, y_held, *_ = rows.take(held)
        scorer = check_scoring(self, scoring=self.scoring)
        scores = np.unique(self.estimator_.decision_function(X_held))
        cuts = (scores[1:] + scores[:-1]) / 2
        if len(cuts) > _MOST_THRESHOLDS:
            cuts = cuts[np.linspace(0, len(cuts) - 1, _MOST_THRESHOLDS).round().astype(int)]
        # Among ties the threshold nearest to 0, which training aims at.
        cuts = [0.0, *sorted(cuts, key=abs)]
        found = []
        for self.threshold_ in cuts:
            found.append(scorer(self, X_held, y_held))
        self.threshold_ = float(cuts[int(np.argmax(found))])
        self.estimator_ = fit_rows(clone(self.estimator), rows)
        return self

    def decision_function(self, X):
        """Return the scores of the classifier minus the threshold."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X) - self.threshold_

    def predict(self, X):
        """Return the second class where the score is above the threshold."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X):
        """Return the probabilities of the classifier, which know no threshold."""
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)
