"""What every comparison holds the losses against."""

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sktopk._common._scalars import check_random
from sktopk._estimators.labels._comparison import Rows, fit_rows, with_params
from sktopk._estimators.labels._losses import params_for

from ._splits import hold_out

# Boosting grows a tree per class and step: beyond, it costs more than all losses together.
MOST_CLASSES_TO_BOOST = 30
# Of a sparse table as an array of float64, which scikit-learn's boosting needs.
MOST_BYTES_TO_BOOST = 1 << 29
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
    seen, reason = _what_reaches(estimator, prefix, n_classes, X)
    if reason:
        return baselines, {"hist_gradient_boosting": reason}
    rivals, omitted = _boosting(seen)
    for name, steps in rivals.items():
        baselines[name] = _in_place_of_the_last(estimator, prefix, steps)
    return baselines, omitted


def _what_reaches(estimator, prefix, n_classes, X):
    """Return the table that the classifier of `estimator` gets, and why no tree may have it."""
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
    """Return what boosts trees on such rows, lists of steps by name, and why others do not."""
    rivals, omitted = {}, {}
    n_bytes = 8 * X.shape[0] * X.shape[1]
    boosting = HistGradientBoostingClassifier()
    if not issparse(X):
        rivals["hist_gradient_boosting"] = [boosting]
    elif n_bytes <= MOST_BYTES_TO_BOOST:
        rivals["hist_gradient_boosting"] = [_as_step(as_dense), boosting]
    else:
        omitted["hist_gradient_boosting"] = (
            f"it takes dense rows, and these would be {n_bytes / 2**20:.3g} MiB; at "
            f"most {MOST_BYTES_TO_BOOST / 2**20:.3g}"
        )
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return rivals, omitted
    plain = isinstance(X, np.ndarray)
    # As many threads as the networks have, whatever the machine has: idle ones that wait for each
    # other on busy cores take a hundred times as long.
    boosting = LGBMClassifier(n_jobs=torch.get_num_threads(), verbosity=-1)
    rivals["lightgbm"] = [boosting] if plain else [_as_step(as_plain), boosting]
    return rivals, omitted


def _as_step(function):
    return FunctionTransformer(function, accept_sparse=True)


def as_dense(X):
    """Return sparse rows as an array."""
    return X.toarray()


def as_plain(X):
    """Return rows as LightGBM takes them: sparse ones as a matrix, others without names."""
    return csr_matrix(X) if issparse(X) else np.asarray(X)


def _in_place_of_the_last(estimator, prefix, steps):
    """Return the pipeline with other steps in the place of its last one, which keeps its name."""
    *before, last = steps
    named = [(step.func.__name__, step) for step in before]
    if prefix:
        copy = clone(estimator)
        return copy.set_params(steps=[*copy.steps[:-1], *named, (copy.steps[-1][0], last)])
    return Pipeline([*named, ("boosting", last)]) if named else last


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
