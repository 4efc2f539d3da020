"""BudgetClassifier: select samples to review by the scores of a binary classifier."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sktopk._common._estimator import present, public
from sktopk._common._input import (
    check_labels,
    check_table,
    check_two_classes,
    class_counts,
    known_codes,
)
from sktopk._common._samples import encode_groups, rows_of_groups
from sktopk._common._scalars import (
    check_count,
    check_pos_label,
    check_random,
    negative_first,
    number,
    option,
    place_of,
    positive_label,
)
from sktopk._common._types import Label, RowsLike
from sktopk._common._warnings import warn, warn_of_order
from sktopk._estimators._best_rows import rows_on_top
from sktopk.metrics._scorer import METHODS, attribute_of
from sktopk.metrics._top_scorer import scores_of_class

from . import _guarantees
from ._any_classifier import finite_scores, sorted_classes
from ._base import CalibratedDecision
from ._constraints import CONSTRAINTS


@public
@dataclass(eq=False, repr=False)
class BudgetClassifier(CalibratedDecision):
    r"""Select samples to review by a threshold for the scores of any binary classifier.

    A sample x with the score s(x) is flagged, that is, predicted positive, if

    .. math::
        s(x) > t.

    `fit` computes the threshold t from calibration samples that the classifier is not trained on.
    `predict` decides on each sample independently of the others in X. `predict_top(X, n)` selects
    the n samples of X with the highest scores. With `groups`, it selects n samples of each group.

    Parameters
    ----------
    estimator : estimator
        Binary classifier with `decision_function` or `predict_proba`. `fit` trains a clone on one
        part of the samples and calibrates with the other part. For a fitted classifier in a
        :class:`~sklearn.frozen.FrozenEstimator`, `fit` calibrates with all samples.
    budget : int or float, default=0.1
        Limit of the rate that `constraint` names, in (0, 1). Tune neither: `score` depends on both.
        For "count", an integer n means n divided by the number of samples in `fit`.
    constraint : {"count", "fpr", "precision", "recall", "fdr"}, default="fpr"
        Rate to limit. "count" (share of flagged samples), "fpr" (false positive rate) and "fdr"
        (false discovery rate) are at most `budget`. "precision" and "recall" are at least `budget`.
    delta : float, default=0.05
        Largest allowed probability of failure, in (0, 1), for the guarantees "fpr", "precision" and
        "recall", and for `hits_interval` [6]_. Smaller values need more samples.
    cross_fit : bool, default=False
        If True, train `estimator` on all samples, and calibrate with its out-of-fold scores
        `oob_decision_function_`. The guarantee is then not proven. This works for ensembles of this
        package, and for forests and bagging with ``oob_score=True``. "fdr" raises an error.
    validation_fraction : float, default=0.2
        Share of the samples that is held out for calibration, stratified by class. Ignored for a
        frozen estimator and with ``cross_fit=True``.
    pos_label : int, float, bool or str, default=None
        Label of the samples to flag. None means `pos_label_` of `estimator`. Without `pos_label_`,
        None means 1 or True if the other label is 0, -1 or False. For other labels, a warning names
        the label that `fit` uses. If `estimator` has ``pos_label=None``, it gets your `pos_label`.
    random_state : int, RandomState or None, default=None
        Seed for the choice of calibration samples, and for the order of ties in `hits_interval`.
        For "precision", also for the split of the calibration samples into two parts.

    Attributes
    ----------
    estimator_ : estimator
        Fitted classifier. For probabilities, call its `predict_proba`, if available.
    classes_ : ndarray of shape (2,)
        Sorted labels of `estimator_`.
    pos_label_ : int, float, bool or str
        Label of the samples to flag.
    threshold_ : float
        Samples with a score above `threshold_` are flagged: all if it is -inf, none if it is inf.
        The score is the decision function of `estimator_`, times -1 if `pos_label_` is
        ``classes_[0]``. Without a decision function, the score is the probability of `pos_label_`.
    rates_ : dict
        Rates of the calibration samples: "flagged", "fpr", "precision" and "recall". Each is a
        named tuple (count, n, value, low, high): value is count / n, and [low, high] is its
        two-sided confidence interval [3]_ of level about 1 - `delta`. The interval of "precision"
        has a lower level if `constraint` is "precision" or "fdr". Rates with n = 0 are omitted.
    n_samples_fit_ : int
        Number of samples of `fit` with positive weight.
    calibration_scores_ : ndarray of shape (n_calibration,)
        Scores of the calibration samples for `pos_label_`. Absent with ``cross_fit=True``.
    calibration_positive_ : ndarray of bool of shape (n_calibration,)
        Whether each calibration sample is positive. Absent with ``cross_fit=True``.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number and names of the features, if `estimator_` has these attributes.

    See Also
    --------
    sktopk.metrics.BudgetCurveDisplay : Precision and recall for every budget.
    SetClassifier : Predict a set of labels for each sample.

    Notes
    -----
    The guarantees hold for any classifier if calibration samples and new samples are drawn
    independently from the same distribution:

    - "fpr", "recall" and "precision": the rate satisfies the budget with probability 1 - `delta`
      over random calibration samples. The threshold is an order statistic of scores of negatives
      ("fpr" [2]_) or positives ("recall"). "precision" uses fixed sequence testing [1]_.
    - "fdr": the expected share of negatives among the flagged samples of a batch is at most the
      budget. The guarantee holds for `predict` and for ``predict_top(X)`` (conformal selection [4]_
      [5]_). The threshold of `predict` is the lowest t for which (1 + negatives above t) / (1 +
      samples above t) is at most the budget. Both numbers count calibration samples.
    - "count": there is no guarantee. The threshold is a quantile of the calibration scores.

    If there are too few calibration samples for a guarantee, `fit` warns, and no sample is flagged
    (for "recall": every sample). A sample whose score equals the threshold is not flagged.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan, L. Lei. Learn then test:
       calibrating predictive algorithms to achieve risk control. arXiv:2110.01052, 2021.
    .. [2] X. Tong, Y. Feng, J. J. Li. Neyman-Pearson classification algorithms and NP receiver
       operating characteristics. Science Advances 4(2), eaao1659, 2018.
    .. [3] C. J. Clopper, E. S. Pearson. The use of confidence or fiducial limits illustrated in
       the case of the binomial. Biometrika 26(4), 404-413, 1934.
    .. [4] Y. Jin, E. J. Candès. Selection by prediction with conformal p-values. Journal of
       Machine Learning Research 24(244), 1-41, 2023.
    .. [5] Y. Benjamini, Y. Hochberg. Controlling the false discovery rate: a practical and
       powerful approach to multiple testing. JRSS B 57(1), 289-300, 1995.
    .. [6] A. R. Thatcher. Relationships between Bayesian and confidence limits for predictions.
       JRSS B 26(2), 176-210, 1964.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sktopk import BudgetClassifier
    >>> X, y = make_classification(3000, weights=[0.9], random_state=0)
    >>> inner = FrozenEstimator(LogisticRegression().fit(X[:1000], y[:1000]))
    >>> clf = BudgetClassifier(inner, budget=0.05, constraint="fpr").fit(X[1000:2000], y[1000:2000])
    >>> rate = clf.rates_["fpr"]
    >>> print(f"{rate.count} of {rate.n}: {rate.value:.3f} in [{rate.low:.3f}, {rate.high:.3f}]")
    34 of 901: 0.038 in [0.026, 0.052]
    >>> clf.predict_top(X[2000:2100], 5)  # the best five samples
    array([71, 38, 70, 79, 78])
    >>> clf.hits_interval(X[2000:], 50)  # bounds on the positives among the best 50
    (38, 50)
    """

    _checks: ClassVar = {
        "constraint": option(*CONSTRAINTS),
        "delta": number(0, 1, "neither"),
        "pos_label": check_pos_label,
    }

    estimator: Any
    _: KW_ONLY
    budget: float = 0.1
    constraint: str = "fpr"
    delta: float = 0.05
    cross_fit: bool = False
    validation_fraction: float = 0.2
    pos_label: Label | None = None
    random_state: int | np.random.RandomState | None = None

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier on one part of the samples, and calibrate with the other part.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Samples in a format that `estimator` accepts.
        y : array-like of shape (n_samples,)
            Two labels (see `pos_label`). With a frozen estimator, one label can be absent.
        sample_weight : array-like of shape (n_samples,), default=None
            Training weights. Calibration ignores weights, but drops samples of weight 0.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, such as its customer, if samples of a group are alike. Whole
            groups are held out, and one sample of each held-out group is used for calibration. The
            guarantee holds for one random sample of a new group. With ``cross_fit=True``, groups
            require a `TopKClassifier`. To train a ranker with groups, fit it first, and freeze it.
        **fit_params : dict
            Arguments for the `fit` of `estimator` (none if frozen). Arrays of length n_samples are
            split with the samples. With metadata routing, pass what `estimator` requests.

        Returns
        -------
        self : BudgetClassifier
        """
        self._check_params()
        fit_params = self._with_groups(groups, fit_params)
        X, y, groups, fit_params = self._checked(X, y, sample_weight, groups, fit_params)
        units = None if groups is None else encode_groups(groups, len(y))
        if not isinstance(self.estimator, FrozenEstimator):
            check_two_classes(y, self.pos_label)
        random = check_random(self.random_state)
        trained = self._train_and_hold_out(X, y, fit_params, random, groups=units)
        if units is not None:
            trained = trained.one_of_each(units, random)
        classes = sorted_classes(trained.estimator)
        own = attribute_of(trained.estimator, "pos_label_")
        pos_label = own if self.pos_label is None else self.pos_label
        if own is not None and own != pos_label:
            what = f"pos_label={pos_label!r} differs from pos_label_={own!r} of estimator"
            warn(f"{what}: set pos_label={own!r}, or train estimator with pos_label={pos_label!r}")
        if len(classes) == 2:
            pos_label = positive_label(pos_label, classes, class_counts(classes, y))
        # Store the method, because a new version of a library may add another one.
        methods = [name for name in METHODS if hasattr(trained.estimator, name)][:1]
        if trained.y_score is None:
            scores = finite_scores(trained.estimator, trained.X, pos_label, methods)
        else:
            scores = scores_of_class(trained.y_score, place_of(pos_label, classes))
        # In float64, there is a threshold between any two different float32 scores.
        scores = scores.astype(np.float64)
        positive = known_codes(classes, trained.y) == place_of(pos_label, classes)
        self._warn_of_ranking(trained.y, scores, positive)
        threshold, problem = self._bound().find_threshold(scores, positive, len(y), random)
        flagged = scores > threshold
        if problem is not None and np.isinf(threshold) and self.constraint != "count":
            if units is not None:
                problem += ". One sample of each group calibrates"
            problem += f". {'No' if threshold > 0 else 'Every'} sample will be flagged"
            if self.constraint == "fdr":
                problem += " by predict, but predict_top(X) may select some"
        elif problem is None and (not flagged.any() or (flagged.all() and threshold > -np.inf)):
            problem = f"{'every' if flagged[0] else 'no'} calibration sample is above the threshold"
        if problem is not None:
            warn(problem)
        elif not positive.any():
            warn("no calibration sample is positive: check y for missing or delayed labels")
        held_out = {"calibration_scores_": scores, "calibration_positive_": positive}
        return self._replace_fitted(
            trained.estimator,
            classes_=classes,
            pos_label_=pos_label,
            n_samples_fit_=len(y),
            threshold_=float(threshold),
            rates_=_guarantees.calibration_rates(flagged, positive, 1 - float(self.delta)),
            _seed_=random.randint(np.iinfo(np.int32).max),
            _methods_=methods,
            _given_={name: getattr(self, name) for name in ("budget", "constraint", "delta")},
            **({} if self.cross_fit else held_out),
        )

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return scores minus `threshold_`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples,)
            Above 0 for flagged samples. If `threshold_` is infinite, values are finite and increase
            with the score, but rounding can make the values of different scores equal. If
            `pos_label_` is ``classes_[0]``, the sign of all values is reversed.
        """
        now, scores = self._scored(X)
        # Subtract in float64: in float32, rounding could change a small difference to 0.
        scores, sign = scores.astype(np.float64), np.sign(now.threshold_)
        if np.isfinite(now.threshold_):
            scores -= now.threshold_
        else:  # use an increasing function without a zero, negative if the threshold is inf
            scores *= sign
            scores = sign * (np.minimum(scores, 0) - 1 / (1 + np.maximum(scores, 0)))
        return -scores if place_of(now.pos_label_, now.classes_) == 0 else scores

    @property
    def predict_proba(self):
        """Not available, because `predict` does not choose the most probable label."""
        raise AttributeError("no predict_proba: use estimator_.predict_proba(X) after fit")

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict `pos_label_` for flagged samples, and the other label for all others.

        The method warns if the share of flagged samples in X differs from the share in the
        calibration samples with a p-value below 1e-6 (Fisher's exact test).

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        now, scores = self._scored(X)
        return negative_first(now.classes_, now.pos_label_)[now._flagged(scores).astype(np.intp)]

    def predict_top(
        self, X: RowsLike, n: int | None = None, groups: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the positions in X of the samples to review, best first (for ``X.iloc[index]``).

        Parameters
        ----------
        X : array-like, sparse matrix, frame or Dataset of shape (n_samples, n_features)
        n : int, default=None
            Number of samples to return from X or each group, at least 1. None returns the samples
            that `predict` flags or, for "fdr", a conformal selection with the same guarantee.
        groups : array-like of shape (n_samples,), default=None
            Group (batch) of each sample, such as its day. Requires `n` or ``constraint="fdr"``.

        Returns
        -------
        index : ndarray of int of shape (n_top,)
            Positions by decreasing score. Tied samples are in the order of X.
        """
        now, scores = self._scored(X)
        if n is not None:
            return rows_on_top(scores, n, groups)
        flagged = now._flagged(scores)
        if now.constraint == "fdr":
            known = now.calibration_scores_, now.calibration_positive_
            batches = [slice(None)]
            if groups is not None:
                batches = rows_of_groups(encode_groups(groups, len(scores)))
            flagged = _guarantees.conformal_selection(*known, scores, float(now.budget), batches)
        elif groups is not None:
            raise ValueError(
                'groups need n (or constraint="fdr"), because groups alone do not change the '
                "selection; got groups without n: pass n, or groups=None"
            )
        order = np.argsort(-scores, kind="stable")
        return order[flagged[order]]

    def hits_interval(
        self, X: RowsLike, n: ArrayLike, groups: ArrayLike | None = None
    ) -> tuple[Any, Any]:
        r"""Return bounds on the number of positives among the n best samples.

        If calibration samples and samples of X are exchangeable, tied samples of X are in random
        order, and :math:`\delta` is `delta`,

        .. math::
            P\bigl( \text{low} \le \text{positives among the } n \text{ best samples of X}
            \le \text{high} \bigr) \ge 1 - \delta.

        Choose n before you see any interval. Like `predict`, the method warns if the shares of
        samples above `threshold_` (if infinite: the 0.9 quantile of calibration scores) differ.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            All samples of the batch.
        n : int or array-like of int of shape (n_numbers,)
            Number of best samples (all, if X has fewer). With several n, all bounds hold at once.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, such as its day. Each group has its own interval of level
            1 - `delta`, for its n best samples, or all if the group is smaller. n must be an int.

        Returns
        -------
        low, high : int, or ndarray of int of shape (n_numbers,) or (n_groups,)
            Bounds for each n, or for each group in the order of ``pandas.unique(groups)``.

        Notes
        -----
        K is the number of calibration samples that score above the (n + 1)-th best sample of X. If
        m of the n best samples of X are positive, the number of positives among the K samples has a
        hypergeometric distribution, given the number of positives in both groups together. The
        interval for a single n has all m that two one-sided tests of level :math:`\delta/2` accept.
        """
        each = np.ravel(n).tolist()
        for value in each or [n]:
            check_count(value, "n")
        now, scores = self._scored(X)
        if groups is None:
            batches = [scores]
            if max(each) > len(scores):
                warn(f"n={max(each)} exceeds the number of samples of X ({len(scores)})")
        else:
            check_count(n, "n")
            batches = [scores[rows] for rows in rows_of_groups(encode_groups(groups, len(scores)))]
        if not hasattr(now, "calibration_scores_"):
            raise ValueError(
                "hits_interval needs held-out calibration samples; got cross_fit=True. Set "
                "cross_fit=False and fit again"
            )
        old, positive = now.calibration_scores_, now.calibration_positive_
        # An infinite threshold cannot show that X is not like the calibration samples.
        cut, what = now.threshold_, "flagged"
        if not np.isfinite(cut):
            cut, what = np.quantile(old, 0.9), "above the 0.9 quantile of the calibration"
        _guarantees.warn_of_drift(scores.astype(np.float64) > cut, old > cut, what)
        # Create a generator for each call, so that the interval is reproducible.
        random, delta = np.random.default_rng(now._seed_), float(now.delta)
        bounds = [
            _guarantees.simultaneous_hits(old, positive, batch, each, delta, random)
            for batch in batches
        ]
        low, high = np.hstack(bounds) if bounds else np.empty((2, 0), dtype=int)
        if (low > high).any():
            what = "a lower bound is above its upper bound: X is not like the calibration samples"
            warn(f"{what}. Calibrate with samples like X")
        return (int(low[0]), int(high[0])) if groups is None and np.ndim(n) == 0 else (low, high)

    def score(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return a metric of the ranking, which does not depend on `threshold_`.

        For the accuracy of `predict`, use ``scoring="accuracy"``. The metric for each `constraint`:

        - "count": :func:`sktopk.metrics.recall_at_k_score` with `budget` as the share k of samples;
        - "fpr": :func:`sktopk.metrics.true_positive_rate_at_fpr_score`;
        - "precision": :func:`sktopk.metrics.recall_at_precision_score`;
        - "recall": :func:`sktopk.metrics.precision_at_recall_score`;
        - "fdr": :func:`sktopk.metrics.recall_at_precision_score` at a precision of 1 - `budget`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            From 0 to 1 (best). NaN, with a warning, if y lacks a class that the metric requires.
        """
        now, scores = self._scored(X)
        warn_of_order(X, y=y, sample_weight=sample_weight)
        y = check_labels(y)
        known_codes(now.classes_, y)  # raises for other labels
        return now._bound().score(y == now.pos_label_, scores, now.n_samples_fit_, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Accuracy can be poor, because the default budget flags only 10 % of the samples.
        tags.classifier_tags.poor_score = True
        return tags

    def _check_params(self):
        super()._check_params()
        if self.cross_fit and self.constraint == "fdr":
            raise ValueError(
                'constraint must be "count", "fpr", "precision" or "recall" with cross_fit=True; '
                "got 'fdr', which needs held-out calibration samples"
            )
        CONSTRAINTS[self.constraint](self.budget, self.delta).check(self.constraint)
        if self.constraint == "recall" and self.budget <= 0.2:
            low = f"budget={self.budget:g} is the lowest recall that is allowed"
            missed = f"at most {100 * self.budget:.3g} % of the positives"
            warn(f"{low}. If {missed} may be missed, set budget={1 - self.budget:.3g}")
        if self.constraint in ("fpr", "fdr") and self.budget >= 0.8:
            warn(f"budget={self.budget:g} allows many errors: set a small limit, such as 0.05")
        if self.delta > 0.5:
            warn(
                f"delta={self.delta:g} is the probability that the guarantee fails: for a "
                f"guarantee with probability {self.delta:g}, set delta={1 - self.delta:.3g}"
            )

    def _bound(self):
        budget = self.budget if isinstance(self.budget, Integral) else float(self.budget)
        return CONSTRAINTS[self.constraint](budget, float(self.delta))

    def _flagged(self, scores):
        """Return a mask of flagged samples. Warn if their share in calibration clearly differed."""
        flagged = scores.astype(np.float64) > self.threshold_
        if np.isfinite(self.threshold_) and hasattr(self, "calibration_scores_"):
            _guarantees.warn_of_drift(flagged, self.calibration_scores_ > self.threshold_)
        return flagged

    def _scored(self, X):
        """Return two values: a copy of the fitted estimator, and its scores of X."""
        check_is_fitted(now := present(self), "threshold_")
        now.__dict__ = vars(now) | getattr(now, "_given_", {})  # later set_params has no effect
        check_table(X)
        return now, finite_scores(now.estimator_, X, now.pos_label_, now._methods_)
