"""BudgetClassifier: which rows to look at, on top of any binary classifier."""

from numbers import Integral

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sktopk._common._input import check_classes, check_labels, check_weight
from sktopk._common._scalars import check_count, check_number, check_option, check_random
from sktopk._common._warnings import warn
from sktopk._estimators._best_rows import (
    BestRows,
    best_rows,
    check_groups,
    finite_scores,
    known_positives,
    rows_above,
    score_parts,
)
from sktopk.metrics import (
    precision_at_recall_score,
    recall_at_k_score,
    recall_at_precision_score,
    true_positive_rate_at_fpr_score,
)
from sktopk.metrics._ranking import encode_groups

from ._base import CalibratedDecision
from ._guarantees import calibrate, drift, separates

# What is to be had within a constraint on a rate.
_METRICS = {
    "fpr": true_positive_rate_at_fpr_score,
    "precision": recall_at_precision_score,
    "recall": precision_at_recall_score,
}


class BudgetClassifier(CalibratedDecision):
    r"""Classifier that flags the rows to look at, made from any binary classifier.

    With a threshold t on the scores s of the classifier, found on n calibration rows that it
    was not trained on, a row is flagged, that is predicted positive, if

    .. math::
        s(x) > t

    A `constraint` on a rate R (`"fpr"`, `"precision"` or `"recall"`) holds for new rows with
    high probability over the calibration rows [1]_, whatever the classifier and the
    distribution of the rows, if all are drawn independently from that:

    .. math::
        P\bigl( R(t) \text{ keeps the budget} \bigr) \ge 1 - \delta

    - "fpr": :math:`P(s > t \mid y = 0) \le` `budget`. The threshold is an order statistic of
      the :math:`n_-` negatives: x of them lie above it, with the largest x such that
      :math:`P(\mathrm{Binomial}(n_-, \text{budget}) \le x) \le \delta` [2]_. That is where
      fixed sequence testing [1]_ from the highest threshold downwards stops, with the p-values
      that belong to exact binomial limits [3]_.
    - "recall": :math:`P(s > t \mid y = 1) \ge` `budget`, by the order statistic of the
      positives in the same way. The largest such threshold is taken.
    - "precision": :math:`P(y = 1 \mid s > t) \ge` `budget`. Precision need not rise with
      the threshold, so a random fifth of the calibration rows says where to begin, and fixed
      sequence testing [1]_ on the others goes down from there with exact binomial p-values.

    Where the calibration rows are too few to promise that, nothing is flagged ("recall":
    everything), and a warning says how many it takes. ``constraint="count"`` keeps to a number
    of rows: of calibration rows with a fixed threshold, without a guarantee for new rows, or
    of each batch or group.

    Parameters
    ----------
    estimator : estimator
        Binary classifier with `decision_function` or `predict_proba`. `fit` trains a clone on
        a part of its rows and finds the threshold on the others; a fitted classifier in a
        :class:`~sklearn.frozen.FrozenEstimator` is kept, and all rows given to `fit`
        calibrate.
    budget : int or float, default=0.1
        With "count" the rows to flag: a fraction in (0, 1), rounded up to whole rows, or a
        number of at least 1, which with ``per="fit"`` means so many among as many rows as
        `fit` gets. Otherwise the bound on the rate, in (0, 1).
    constraint : {"count", "fpr", "precision", "recall"}, default="count"
        What `budget` bounds: the number of flagged rows or the false positive rate from above,
        precision or recall from below.
    per : {"fit", "batch", "group"}, default="fit"
        "fit" keeps one threshold, so that `predict` treats rows one by one. "batch" flags
        exactly `budget` of the rows that `predict` gets, "group" of each of their groups. The
        last two are for "count", need no calibration rows and train `estimator` on all rows.
    delta : float, default=0.05
        Probability, in (0, 1), that a rate may break its budget, over the calibration rows.
        `rates_` has intervals at level 1 - delta.
    validation_fraction : float, default=0.2
        Share of the rows given to `fit` that is held out to calibrate, drawn by class, unless
        `estimator` is frozen or `per` is not "fit".
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows and of the fifth that precision begins with.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (2,)
        Its labels; the second is the positive one.
    threshold_ : float
        Midway between two scores where possible; plus or minus infinity where nothing or
        everything is flagged. Only with ``per="fit"``.
    rates_ : dict
        What the threshold does to the calibration rows, only with ``per="fit"``: "flagged",
        "fpr", "precision" and "recall", each as a named tuple (count, n, value, low, high)
        with the exact interval of Clopper and Pearson [3]_. Of the rate that chose the
        threshold the interval has two sides, unlike the guarantee, so that its end may
        lie a little beyond `budget`. A rate that no row belongs to is left out.
    n_samples_fit_ : int
        Number of rows given to `fit`, among which an integer `budget` was.
    n_features_in_ : int
        Number of features seen in `fit`, if `estimator_` knows it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features seen in `fit`, if `estimator_` knows them.

    See Also
    --------
    sktopk.metrics.BudgetCurveDisplay : What every budget would bring.
    SetClassifier : Labels per row, instead of rows.

    Notes
    -----
    Where scores tie at the cut, a fixed threshold flags all or none of them; it flags none, or
    with "recall" all. Batches and groups break ties by row order. Both warn. If all scores
    tie, "count" and "fpr" thus flag nothing with a fixed threshold.

    A frozen classifier must not have seen the rows that calibrate. `fit` warns if it separates
    many of them without an error; of one that learns its rows less well nothing tells.

    With ``per="fit"``, `predict` warns if it flags a share of its rows that, after the share
    of the calibration rows, had a probability below 1e-6 (Fisher's exact test): the scores
    have drifted, or the classifier was trained on these rows. There is no `predict_proba`: the
    probabilities of `estimator_` know no threshold, and would contradict `predict`.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan, L. Lei. Learn then test:
       calibrating predictive algorithms to achieve risk control. arXiv:2110.01052, 2021.
    .. [2] X. Tong, Y. Feng, J. J. Li. Neyman-Pearson classification algorithms and NP receiver
       operating characteristics. Science Advances 4(2), eaao1659, 2018.
    .. [3] C. J. Clopper, E. S. Pearson. The use of confidence or fiducial limits illustrated in
       the case of the binomial. Biometrika 26(4), 404-413, 1934.

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

    Five reviews a day, best first:

    >>> clf = BudgetClassifier(inner, budget=5, per="batch").fit(X[1000:2000], y[1000:2000])
    >>> clf.predict_top(X[2000:2100])
    array([71, 38, 70, 79, 78])
    """

    # Without groups per="group" can do nothing: nobody should have to request them.
    __metadata_request__predict = {"groups": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        estimator,
        *,
        budget=0.1,
        constraint="count",
        per="fit",
        delta=0.05,
        validation_fraction=0.2,
        random_state=None,
    ):
        self.estimator = estimator
        self.budget = budget
        self.constraint = constraint
        self.per = per
        self.delta = delta
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X, y, **fit_params):
        """Train the classifier on a part of the rows and find the threshold on the others.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Whatever `estimator` takes.
        y : array-like of shape (n_samples,)
            Two labels, the second in sorted order the positive one. With a frozen estimator
            one of them may be absent.
        **fit_params : dict
            Passed to the `fit` of `estimator`, those with one value per row for its rows. With
            metadata routing enabled, what it requests. Calibration counts rows, whatever
            their weights.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or y is not allowed, if no rows can be held out, or if the
            classifier has no scores or gives scores that are not finite.
        """
        self._check_params()
        y, fit_params = check_labels(y), self._routed(fit_params)
        self._check_two_classes(y, fit_params.get("sample_weight"))
        random = check_random(self.random_state)
        trained = self._train(X, y, fit_params, random, calibrates=self.per == "fit")
        scores = finite_scores(trained.estimator, trained.X)
        fitted = {"classes_": trained.estimator.classes_, "n_samples_fit_": len(y)}
        if self.per == "fit":
            positive = known_positives(trained.y, fitted["classes_"])
            if separates(scores, positive):
                self._warn_if_seen(len(scores))
            fitted["threshold_"], fitted["rates_"], problems = calibrate(
                scores,
                positive,
                len(y),
                constraint=self.constraint,
                budget=self.budget if isinstance(self.budget, Integral) else float(self.budget),
                delta=float(self.delta),
                random=random,
            )
            _warn(problems)
        return self._replace_fitted(trained.estimator, **fitted)

    def decision_function(self, X):
        """Score every row, relative to the threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples,)
            Score of the classifier minus `threshold_`: positive means flagged, infinite if
            `threshold_` is. For batches and groups, without a threshold, the score itself.
        """
        scores = self._scores(X)
        if self.per != "fit":
            return scores
        # In float64, where the difference of two scores cannot vanish.
        return (scores.astype(np.float64) - self.threshold_).astype(scores.dtype)

    def predict(self, X, groups=None):
        """Return the label of each row: ``classes_[1]`` where it is flagged.

        It warns of ties that were broken by row order, of fewer rows than the budget and, with
        ``per="fit"``, of a share of flagged rows that is wildly improbable.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for ``per="group"``; with metadata routing pipelines pass it on.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`.

        Raises
        ------
        ValueError
            If groups are missing, or given where they are not used, or the classifier gives
            scores that are not finite.
        """
        flagged, problems = self._flagged(self._scores(X), groups)
        if self.per == "fit" and np.isfinite(self.threshold_):
            problems += drift(flagged, self.rates_["flagged"])
        _warn(problems)
        return self.classes_[flagged.astype(np.intp)]

    def predict_top(self, X, n=None, groups=None):
        """Return the rows to look at, best first.

        It warns of ties that were broken by row order and of fewer rows than n or the budget.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or Dataset of shape (n_samples, n_features)
            Or a stream: an iterable without shape and indexing of such tables, or of tuples
            that begin with one. No more than a piece of it is in memory, and the scores of the
            rows that are returned (of all rows for groups, and for a fraction of a batch).
        n : int, default=None
            How many rows, with ``per="group"`` of each group. None: those that are flagged.
        groups : array-like of shape (n_samples,), default=None
            Group of each row; for ``per="group"``, which needs them.

        Returns
        -------
        index : ndarray of shape (n_top,)
            Row numbers, of the highest score first, also across groups; tied rows in the order
            of X. Those of a stream go on from piece to piece.

        Raises
        ------
        TypeError, ValueError
            If n is not an integer of at least 1, or as in `predict`.
        """
        if n is not None:
            check_count(n, "n")
        check_is_fitted(self, "threshold_" if self.per == "fit" else "estimator_")
        check_groups(groups, self.per)
        each = score_parts(self.estimator_, X)
        if self.per == "fit" and n is None:
            return rows_above(each, self.threshold_)
        kept, name = (self.budget, "budget") if n is None else (n, "n")
        if groups is None and isinstance(kept, Integral):
            best = BestRows(kept).add_all(each)
            _warn(best.problems(name, kept))
            return best.index
        scores = np.concatenate(list(each))
        flagged, problems = self._flagged(scores, groups, n)
        _warn(problems)
        order = np.argsort(-scores, kind="stable")
        return order[flagged[order]]

    def score(self, X, y, sample_weight=None, groups=None):
        """Return what the rows bring at the `budget`, the metric that its `constraint` names.

        It ranks the rows anew, whatever `threshold_` is: an estimator whose threshold breaks the
        budget gains nothing by that. Not the accuracy of `predict`, by which flagging nothing is
        hard to beat; ``scoring="accuracy"`` asks for that.

        - "count": :func:`sktopk.metrics.recall_at_k_score` at k = `budget`, the share of all
          positives that are found; with ``per="fit"`` at the share of the rows that `budget` was
          of those given to `fit`, with ``per="group"`` in each group;
        - "fpr": :func:`sktopk.metrics.true_positive_rate_at_fpr_score`;
        - "precision": :func:`sktopk.metrics.recall_at_precision_score`;
        - "recall": :func:`sktopk.metrics.precision_at_recall_score`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels; those that are not ``classes_[1]`` are negative.
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Group of each row; for ``per="group"``, which needs them.

        Returns
        -------
        score : float
            In [0, 1], the larger the better; NaN, with a warning, where y lacks the class it needs.

        Raises
        ------
        ValueError
            If groups are missing, or given where they are not used, or the classifier gives
            scores that are not finite.
        """
        scores = self._scores(X)
        check_groups(groups, self.per)
        y = check_labels(y) == self.classes_[1]
        if self.constraint != "count":
            metric = _METRICS[self.constraint]
            bound = {self.constraint: self.budget}
            return metric(y, scores, sample_weight=sample_weight, **bound)
        k = self.budget
        if self.per == "fit" and isinstance(k, Integral):
            k = k / self.n_samples_fit_ if k < self.n_samples_fit_ else len(y)
        return recall_at_k_score(y, scores, k=k, groups=groups, sample_weight=sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Who flags a tenth of the rows has no good accuracy where half of them are positive.
        tags.classifier_tags.poor_score = True
        return tags

    def _check_params(self):
        super()._check_params()
        check_option(self.constraint, "constraint", ("count", "fpr", "precision", "recall"))
        check_option(self.per, "per", ("fit", "batch", "group"))
        if self.per != "fit" and self.constraint != "count":
            raise ValueError(
                f'per={self.per!r} takes constraint="count" only; got {self.constraint!r}'
            )
        if self.constraint == "count" and isinstance(self.budget, Integral):
            check_number(self.budget, "budget", 1, integer=True)
        else:
            check_number(self.budget, "budget", 0, 1, bounds="neither")
        check_number(self.delta, "delta", 0, 1, bounds="neither")

    def _check_two_classes(self, y, sample_weight):
        if isinstance(self.estimator, FrozenEstimator):
            return
        if (n_classes := len(check_classes(y))) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y must have 2 classes; got {n_classes}"
            )
        if sample_weight is not None:
            weight = check_weight(sample_weight, len(y))
            check_classes(y[weight > 0], "y of the rows with positive sample_weight")

    def _scores(self, X):
        check_is_fitted(self, "threshold_" if self.per == "fit" else "estimator_")
        return finite_scores(self.estimator_, X)

    def _flagged(self, scores, groups, n=None):
        """Return the mask of the n best rows or, for None, of the budget, and what to warn of."""
        check_groups(groups, self.per)
        if self.per == "fit" and n is None:
            return scores.astype(np.float64) > self.threshold_, []
        group = np.zeros(len(scores), dtype=np.intp)
        if groups is not None:
            group = encode_groups(groups, len(scores))
        return best_rows(scores, group, *((self.budget, "budget") if n is None else (n, "n")))


def _warn(problems):
    for problem in problems:
        warn(problem)
