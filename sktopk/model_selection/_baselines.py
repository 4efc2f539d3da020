"""What every comparison holds the losses against."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import check_scoring
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktopk._common._scalars import check_random
from sktopk._estimators.labels._comparison import Rows, fit_rows, with_params
from sktopk._estimators.labels._losses import params_for

from ._splits import hold_out

# Boosting grows a tree per class and step: beyond, it costs more than all losses together.
MOST_CLASSES_TO_BOOST = 30
_MOST_THRESHOLDS = 100


def make_baselines(estimator, prefix, n_classes, scorer, X):
    """Return the baselines by name, and why those that are missing are.

    Parameters
    ----------
    estimator : estimator
    prefix : str
        Of the TopKClassifier in it, such as "clf__".
    n_classes : int
    scorer : callable
    X : {array, sparse matrix, frame, list}
        Some rows, to see what reaches the classifier.

    Returns
    -------
    baselines : dict of str to estimator
    omitted : dict of str to str
    """

    def with_loss(loss, **params):
        more = {f"{prefix}{key}": each for key, each in params.items()}
        return with_params(estimator, params_for(estimator, loss, prefix) | more)

    weighted = with_loss("cross_entropy", class_weight="balanced")
    if n_classes == 2:
        weighted = ThresholdTuned(weighted, scoring=scorer)
    baselines = {
        "cross_entropy": with_loss("cross_entropy"),
        "logit_adjusted": with_loss("logit_adjusted"),
        "weighted_cross_entropy": weighted,
    }
    reason = _why_not_boost(estimator, prefix, n_classes, X)
    if reason:
        return baselines, {"hist_gradient_boosting": reason}
    boosting = HistGradientBoostingClassifier()
    step = prefix.removesuffix("__")
    boosted = with_params(estimator, {step: boosting}) if step else boosting
    return baselines | {"hist_gradient_boosting": boosted}, {}


def _why_not_boost(estimator, prefix, n_classes, X):
    if n_classes > MOST_CLASSES_TO_BOOST:
        return (
            f"{n_classes} classes, a tree for each in every step; at most {MOST_CLASSES_TO_BOOST}"
        )
    if prefix.count("__") > 1 or (prefix and not hasattr(estimator, "steps")):
        return f"{type(estimator).__name__} is no pipeline whose last step it could take"
    if prefix and len(estimator.steps) > 1:
        X = clone(estimator[:-1]).fit_transform(X)
    if issparse(X) or any(hasattr(dtype, "subtype") for dtype in getattr(X, "dtypes", [])):
        return "it takes no sparse features"
    values = np.asarray(X)
    if values.ndim != 2:
        return f"it takes tables; X has {values.ndim} dimensions"
    return None if values.dtype.kind in "fiub" else "it takes numbers only"


class ThresholdTuned(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Binary classifier with the threshold that scores best on held-out rows.

    The threshold t is one of at most 100 cuts between the scores of a quarter of the rows,
    after a fit to the others; the classifier is then fitted to all rows.

    Parameters
    ----------
    estimator : estimator
        Binary classifier with `decision_function`.
    scoring : str or callable, default=None
        What the threshold is tuned for. None is the `score` of the classifier. A score that
        asks for the order of the rows only leaves t at zero.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows.
    """

    def __init__(self, estimator, scoring=None, random_state=None):
        self.estimator = estimator
        self.scoring = scoring
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        """Find the threshold, then fit the classifier to all rows."""
        rows = Rows(X, y, sample_weight)
        others, held = hold_out(np.asarray(y), check_random(self.random_state))
        self.estimator_ = fit_rows(clone(self.estimator), rows.take(others))
        self.classes_ = self.estimator_.classes_
        X_held, y_held, _ = rows.take(held)
        scorer = check_scoring(self, scoring=self.scoring)
        scores = np.unique(self.estimator_.decision_function(X_held))
        cuts = (scores[1:] + scores[:-1]) / 2
        if len(cuts) > _MOST_THRESHOLDS:
            cuts = cuts[np.linspace(0, len(cuts) - 1, _MOST_THRESHOLDS).round().astype(int)]
        # In case of doubt the threshold that training aims at, or the nearest to it.
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
