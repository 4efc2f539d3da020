"""BudgetClassifier: which rows to look at, on top of any binary classifier."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from sktopk._common._input import (
    check_classes,
    check_labels,
    check_length,
    check_table,
    check_weight,
    class_counts,
)
from sktopk._common._public import public
from sktopk._common._row_keys import row_keys
from sktopk._common._scalars import (
    check_count,
    check_flag,
    check_k,
    check_number,
    check_option,
    check_pos_label,
    check_random,
    n_kept,
    negative_first,
    on_host,
    place_of,
    positive_label,
)
from sktopk._common._types import Label, RowsLike
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
from sktopk.metrics._scorer import no_classifier
from sktopk.metrics._top_scorer import own_pos_label

from ._base import CalibratedDecision
from ._expected_value import IsotonicProbability, SpendsBudget
from ._exploration import Queue, draw_rows, labelled_for, thinned
from ._guarantees import calibrate, drift, separates
from ._hits import BoundsHits
from ._likelihood_ratio import (
    calibration_ratio,
    check_likelihood_ratio,
    check_new_rows,
    fit_likelihood_ratio,
    ratio_of_rows,
)
from ._monitor import Promise
from ._selection import CalibrationRows, n_rows_needed_to_select, select_in_groups

_CONSTRAINTS = ("count", "fpr", "precision", "recall", "fdr", "cost")

# What is to be had within a constraint on a rate.
_METRICS = {
    "fpr": true_positive_rate_at_fpr_score,
    "precision": recall_at_precision_score,
    "recall": precision_at_recall_score,
}


@public
class BudgetClassifier(BoundsHits, SpendsBudget, CalibratedDecision):
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

    ``constraint="fdr"`` makes a promise about the rows that are chosen, by conformal selection
    [4]_. Of a batch of m new rows it flags the best, as many as the procedure of Benjamini and
    Hochberg [5]_ at level `budget` selects by the conformal p-values

    .. math::
        p_j = \frac{1 + |\{i : y_i = 0, s_i \ge s_j\}|}{n + 1},
        \qquad E \left[ \frac{\text{flagged rows that are negative}}
        {\max(1, \text{flagged rows})} \right] \le \text{budget},

    the mean over calibration rows and batches. It holds if these n calibration rows and the m
    new ones are exchangeable, with their labels. A calibration row of the same score counts as
    above, so that ties make it careful and break nothing; `randomized` ranks them instead. If
    new rows are drawn otherwise, but a row like them would have the same labels (covariate
    shift), it holds with weighted p-values and weighted conformal selection [6]_, given the
    `likelihood_ratio` of new rows to calibration rows.

    ``constraint="cost"`` spends money or minutes. Of a batch it flags the set S of rows of most
    expected value that costs no more than the `budget`,

    .. math::
        \max_S \sum_{i \in S} p(s_i) \, v_i
        \quad \text{with} \quad \sum_{i \in S} c_i \le \text{budget},

    given the cost :math:`c_i` of looking at each row and the value :math:`v_i` that it has if it is
    positive. p is the isotonic regression of the labels on the scores of calibration rows [8]_.
    The budget is never exceeded, whatever the classifier. No rule that knows scores, costs and
    values alone finds more value on average, as far as p is the probability at a score: that
    has to rise with the score, and be among new rows what it is among calibration rows.

    A desk that looks at the best rows only never learns about the others. With `explore` that many
    places b of a budget of B are drawn by lot among the m - B + b rows that are not the B - b best,
    so that each row's propensity, its chance to be looked at, is known:

    .. math::
        \pi_j = 1 \text{ for the } B - b \text{ best}, \qquad
        \pi_j = \frac{b}{m - B + b} \text{ for all others.}

    `predict_queue` returns it, and :func:`~sktopk.metrics.precision_at_k_score`, its peers and
    `fit` take it, as `propensity`: labels then weigh :math:`1 / \pi_j` [10]_, and tell about all
    rows.

    Whatever the constraint, `hits_interval` bounds how many of the n best rows of a batch are
    positive, by exact prediction limits [7]_.

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
        number of at least 1, by default of each batch, which with ``per="fit"`` means so many
        among as many rows as `fit` gets. With "cost" the sum to spend on a batch or group, above
        0, in the unit of `cost`. Otherwise the bound on the rate, in (0, 1).
    constraint : {"count", "fpr", "precision", "recall", "fdr", "cost"}, default="count"
        What `budget` bounds: the number of flagged rows, the false positive rate, the
        expected share of false ones among the flagged rows or what these cost from above,
        precision or recall from below.
    per : {"auto", "fit", "batch", "group"}, default="auto"
        "auto" is "batch" for a number of rows, and "fit" for a fraction of them or a rate. "fit"
        keeps one threshold, so that `predict` treats rows one by one. "batch" flags
        exactly `budget` of the rows that `predict` gets, "group" of each of their groups. The
        last two are for "count", need no calibration rows and train `estimator` on all rows;
        only those given to a frozen one are kept, for `hits_interval`.
        "fdr" and "cost" have no threshold: they look at a batch as a whole, with "group" at
        each group.
    delta : float, default=0.05
        Probability, in (0, 1), that a rate may break its budget, over the calibration rows; of
        `hits_interval`, that the bounds fail. `rates_` has intervals at level 1 - delta.
    explore : int, default=0
        With "count" per batch or group: how many rows of each budget are drawn by lot among all
        but the best, at least 0 and less than an integer `budget`; of a fraction at most
        what it comes to. A batch no larger than its budget is looked at as a whole.
    likelihood_ratio : callable or classifier, default=None
        Of "fdr": how much likelier a row is among new rows than among calibration rows, but for
        a factor. A function of X that returns a number of at least 0 per row; or a
        classifier with `predict_proba` that tells new rows, its second class, from those
        to calibrate with, whose odds are taken: trained in `fit` with `X_new`, or, in a
        :class:`~sklearn.frozen.FrozenEstimator`, before. None: new rows are like calibration
        rows, unless `fit` and `predict` get ratios as arrays.
    randomized : bool, default=False
        Of "fdr": whether rows of equal score are ranked by a hash of their content and a seed
        from `random_state`, calibration rows and new ones alike, instead of counting against
        each other; see Notes.
    cross_fit : bool, default=False
        Whether `estimator` is trained with all rows, and calibrated with what the parts of it say
        of rows that they have not seen, its `oob_decision_function_`. Of the networks of this
        package that is what their own `cross_fit` leaves behind, of scikit-learn's forests
        ``oob_score=True``. No row is lost, and less is promised: see Notes. It is for
        thresholds: ``per="fit"``, and not "fdr" or "cost".
    validation_fraction : float, default=0.2
        Share of the rows given to `fit` that is held out to calibrate, drawn by class, unless
        `estimator` is frozen or `per` is not "fit".
    pos_label : int, float, bool or str, default=None
        Label of the positives, the rows to flag. None is what `estimator` takes for positive, if
        it has a `pos_label_`; else 1 or True beside 0, -1 or False, with a warning where positives
        are at least twice as many as negatives. Of other labels, such as "fraud" and "ok", None
        is the rarer one in the y of `fit` (of two equally frequent ones the second), with a
        warning that names it.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows, of the fifth that precision begins with and of what is drawn
        to `explore`.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (2,)
        Its labels, sorted, whichever is the positive one.
    pos_label_ : int, float, bool or str
        Label of the positives.
    threshold_ : float
        On the scores of `pos_label_`: its probability, or the decision function, with its sign
        turned where `pos_label_` is ``classes_[0]``. Midway between two scores where possible;
        plus or minus infinity where nothing or everything is flagged. Only with ``per="fit"``,
        and not of "fdr" and "cost".
    rates_ : dict
        What the threshold does to the calibration rows, where there is one: "flagged",
        "fpr", "precision" and "recall", each as a named tuple (count, n, value, low, high)
        with the exact interval of Clopper and Pearson [3]_. Of the rate that chose the
        threshold the interval has two sides, unlike the guarantee, so that its end may
        lie a little beyond `budget`. A rate that no row belongs to is left out.
    likelihood_ratio_ : callable, classifier or None
        What gives the likelihood ratio of rows, only of "fdr".
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

    With ``cross_fit=True`` the promise on a rate has no proof, as new rows are scored by all
    members and those that calibrate by some, which have also stopped by them: it holds as far as
    the mean of all is no worse than its parts. In simulations, promised with .95, it held in .975
    to 1 of the draws, and a precision of .6 found 49 % of the positives instead of 21 % with
    networks of four members, 70 % instead of 39 % with forests (``benchmarks/cross_fit.py``). Where
    it has to be proven, leave it False, or freeze. A share ("count") is met less well at its
    extremes, as the scores of one member spread further than the mean of all: on two tables of
    1 500 rows, .05 and .2 within .021, .01 twice with next to none. ``per="batch"`` counts.
    There is then no `hits_interval`, and a :class:`Monitor` needs `reference` and watches no rate.

    With ``per="fit"``, `predict` warns if it flags a share of its rows that, after the share
    of the calibration rows, had a probability below 1e-6 (Fisher's exact test): the scores
    have drifted, or the classifier was trained on these rows. There is no `predict_proba`: the
    probabilities of `estimator_` know no threshold, and would contradict `predict`.

    The promise of "fdr" is about a mean, and a batch in which nothing is flagged counts as one
    without a false row. It is about the pairs of row and label: where new rows have a larger
    share of negatives than calibration rows, it fails. Of a batch with a single row it
    bounds the probability that the row is flagged and false. Small batches of few positives
    need many calibration rows: k rows of m can be flagged with n calibration rows only if
    :math:`k (n + 1) \ge m / \text{budget}`. A likelihood ratio that was fitted holds the promise as
    far as it is right; that of a classifier is kept in 1e-4 to 1e4. Weighted selection prunes
    at random ("hete" in [6]_) by a hash of each row and a seed from `random_state`: the same
    rows are flagged each time. For the hash the content of a row is that of
    :class:`~sktopk.SetClassifier`.

    For "cost" rows are taken by expected value per cost, and what no longer fits is left out. That
    is worth at least half of the best set, or one row takes its place, and lacks less than the
    expected value of one row [9]_. Rows that differ by more than this from the value per cost
    at which the budget ends are settled; among the others, if they are at most a thousand,
    integer programming (HiGHS) finds the best set, to the digits of its tolerance of 1e-6, or
    what a thousand nodes find: too few where values are costs and a constant, of which a case of
    300 rows left .1 % to be found at most. A row of no value is never flagged. So that no p is 0 or
    1, a positive counts as having the lowest calibration score, and a negative the highest. Flagged
    rows bring less than the sum of `expected_value`, since those whose p is too high are chosen
    first: in simulations (``benchmarks/expected_value.py``) the sum is 3 % too high on average with
    250 calibration rows, 2 % with 1 000 and 1 % with 4 000. It is not corrected, for what a single
    fit misses by chance, either way, is far more: 9 of 10 fits were within 21, 11 and 5 % for
    scores that tell much, and within 29, 15 and 7 % for scores that tell nothing.

    The rows to `explore` are a function of the batch and a seed from `random_state`, so that
    prediction changes nothing and `predict`, `predict_top` and `predict_queue` agree: the same
    rows in any order have the same queue, another batch has new draws. With a log, `fit` keeps the
    rows of known label. Those that train weigh 1 / propensity, times their `sample_weight` if
    given, so that the loss over them estimates that over all rows. Those that calibrate are
    thinned: each stays with the smallest propensity among them divided by its own. They are then a
    sample of all rows like any, and every promise holds with the same proof; but beside rows
    drawn by lot hardly any sure one is left.

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
       powerful approach to multiple testing. Journal of the Royal Statistical Society B 57(1),
       289-300, 1995.
    .. [6] Y. Jin, E. J. Candès. Model-free selective inference under covariate shift via
       weighted conformal p-values. arXiv:2307.09291, 2023.
    .. [7] A. R. Thatcher. Relationships between Bayesian and confidence limits for predictions.
       Journal of the Royal Statistical Society B 26(2), 176-210, 1964.
    .. [8] B. Zadrozny, C. Elkan. Transforming classifier scores into accurate multiclass
       probability estimates. KDD 2002.
    .. [9] G. B. Dantzig. Discrete-variable extremum problems. Operations Research 5(2), 266-288,
       1957.
    .. [10] D. G. Horvitz, D. J. Thompson. A generalization of sampling without replacement from a
       finite universe. Journal of the American Statistical Association 47(260), 663-685, 1952.

    Examples
    --------
    >>> import numpy as np
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

    One of the five drawn by lot, of the 96 rows that are not the four best:

    >>> clf = BudgetClassifier(inner, budget=5, per="batch", explore=1, random_state=0)
    >>> queue = clf.fit(X[1000:2000], y[1000:2000]).predict_queue(X[2000:2100])
    >>> queue.propensity.round(4)
    array([1.    , 1.    , 1.    , 1.    , 0.0104])

    How many of the 50 best of all are positive, with a probability of 0.95:

    >>> clf.hits_interval(X[2000:], 50)
    (38, 50)

    At most a fifth of the flagged rows is negative, on average:

    >>> clf = BudgetClassifier(inner, budget=0.2, constraint="fdr").fit(X[1000:2000], y[1000:2000])
    >>> clf.predict_top(X[2000:2100])
    array([71, 38, 70, 79, 78, 27, 57, 39, 55, 72, 47, 43, 97, 87,  3, 86, 49])

    Two hours for reviews of 5 to 60 minutes, of amounts of 10 to 1000:

    >>> rng = np.random.default_rng(0)
    >>> minutes, amount = rng.integers(5, 61, 100), rng.integers(10, 1001, 100)
    >>> clf = BudgetClassifier(inner, budget=120, constraint="cost").fit(X[1000:2000], y[1000:2000])
    >>> rows = clf.predict_top(X[2000:2100], cost=minutes, value=amount)
    >>> int(minutes[rows].sum()), int((amount * y[2000:2100])[rows].sum())
    (116, 3932)
    """

    _fitted_names = ("_calibration_rows", "_probability", "_promised_params", "_seed")

    # Without groups per="group" can do nothing: nobody should have to request them. Nor ratios,
    # which change what is promised and nothing else, nor costs and values.
    __metadata_request__fit = {  # noqa: RUF012
        "likelihood_ratio": True,
        "X_new": True,
        "propensity": True,
    }
    __metadata_request__predict = {  # noqa: RUF012
        "groups": True,
        "likelihood_ratio": True,
        "cost": True,
        "value": True,
    }
    __metadata_request__score = {"groups": True, "cost": True, "value": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        budget: float = 0.1,
        constraint: str = "count",
        per: str = "auto",
        delta: float = 0.05,
        explore: int = 0,
        likelihood_ratio: Any = None,
        randomized: bool = False,
        cross_fit: bool = False,
        validation_fraction: float = 0.2,
        pos_label: Label | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.budget = budget
        self.constraint = constraint
        self.per = per
        self.delta = delta
        self.explore = explore
        self.likelihood_ratio = likelihood_ratio
        self.randomized = randomized
        self.cross_fit = cross_fit
        self.validation_fraction = validation_fraction
        self.pos_label = pos_label
        self.random_state = random_state

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike,
        *,
        likelihood_ratio: ArrayLike | None = None,
        X_new: RowsLike | None = None,
        propensity: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier on a part of the rows and find the threshold on the others.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Whatever `estimator` takes.
        y : array-like of shape (n_samples,)
            Two labels, see `pos_label`. With a frozen estimator one of them may be absent.
        likelihood_ratio : array-like of shape (n_samples,), default=None
            Of "fdr": how much likelier each row is among new rows than among these, but for a
            factor. Then `predict` needs that of its rows.
        X_new : array-like, sparse matrix or frame of shape (n_new, n_features), default=None
            New rows without labels, of which the classifier in the parameter `likelihood_ratio`
            learns how they differ from those that train `estimator`, or of those given to
            a frozen one.
        propensity : array-like of shape (n_samples,), default=None
            For the log of a queue: the probability in (0, 1] with which the label of each row came
            to be known, NaN where it did not. Such rows are left out, whatever their y; see
            Notes for what the others weigh. `estimator` then has to take `sample_weight`, unless
            it is frozen. It warns if all known ones are 1: then no other row had a chance.
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
        # Before the training, which may take hours.
        if self.constraint == "fdr":
            check_new_rows(self.likelihood_ratio, X_new)
        elif likelihood_ratio is not None or X_new is not None:
            given = "X_new" if likelihood_ratio is None else "likelihood_ratio"
            raise ValueError(f'{given} is for constraint="fdr" only; got {self.constraint!r}')
        n_samples = None
        if propensity is not None:
            given = X, y, propensity, fit_params, likelihood_ratio
            log, likelihood_ratio = labelled_for(self.estimator, *given)
            n_samples, X, y, propensity, fit_params = log
        y, fit_params = check_labels(y), self._routed(fit_params)
        n_samples = len(y) if n_samples is None else n_samples
        self._check_two_classes(y, fit_params.get("sample_weight"))
        random = check_random(self.random_state)
        # All rows given to a frozen classifier can; hits are counted among them.
        calibrates = self._per == "fit" or self.constraint in ("fdr", "cost")
        calibrates = calibrates or isinstance(self.estimator, FrozenEstimator)
        trained = self._train_and_hold_out(X, y, fit_params, random, calibrates=calibrates)
        if propensity is not None and calibrates:
            trained = thinned(trained, propensity, random)
        pos_label = self._positive_label(trained.estimator, y)
        scores = self._calibration_scores(trained, pos_label)
        classes = on_host(trained.estimator.classes_, "classes_ of estimator")
        fitted = {"classes_": classes, "pos_label_": pos_label}
        fitted["n_samples_fit_"] = n_samples
        fitted["_promised_params"] = {"constraint": self.constraint}
        if self.constraint == "fdr":
            fitted["likelihood_ratio_"] = fit_likelihood_ratio(
                self.likelihood_ratio, X, X_new, trained.train
            )
        if self._has_threshold():
            positive = known_positives(trained.y, fitted["classes_"], pos_label)
            if separates(scores, positive):
                self._warn_if_seen(len(scores))
            fitted["threshold_"], fitted["rates_"], problems = calibrate(
                scores,
                positive,
                n_samples,
                constraint=self.constraint,
                budget=self.budget if isinstance(self.budget, Integral) else float(self.budget),
                delta=float(self.delta),
                random=random,
            )
            _warn(problems)
            # Without a threshold the budget is kept as it is when one predicts.
            fitted["_promised_params"] |= {"per": self.per, "budget": self.budget}
        if calibrates and trained.y_score is None:
            fitted |= self._calibration(scores, trained, likelihood_ratio, fitted, random, len(y))
        else:
            fitted["_seed"] = random.randint(np.iinfo(np.int32).max)
        return self._replace_fitted(trained.estimator, **fitted)

    def _calibration_scores(self, trained, pos_label):
        """The scores of `pos_label` of the rows that calibrate."""
        if trained.y_score is None:
            return finite_scores(trained.estimator, trained.X, pos_label)
        scores, place = trained.y_score, place_of(pos_label, trained.estimator.classes_)
        if scores.ndim == 2:
            return scores[:, place]
        return scores if place == 1 else -scores

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Score every row, relative to the threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples,)
            Score of the classifier minus `threshold_`, infinite if that is; for batches, groups,
            "fdr" and "cost", without a threshold, the score itself. A number above 0 means
            ``classes_[1]``, as everywhere in scikit-learn: flagged, or, where `pos_label_` is
            ``classes_[0]``, not flagged.
        """
        scores = self._scores(X)
        if self._has_threshold():
            # In float64, where the difference of two scores cannot vanish.
            scores = (scores.astype(np.float64) - self.threshold_).astype(scores.dtype)
        return -scores if place_of(self.pos_label_, self.classes_) == 0 else scores

    def predict(
        self,
        X: RowsLike,
        groups: ArrayLike | None = None,
        likelihood_ratio: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        value: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return the label of each row: `pos_label_` where it is flagged.

        It warns of ties that were broken by row order, of fewer rows than the budget and, with
        ``per="fit"``, of a share of flagged rows that is wildly improbable.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for ``per="group"``; with metadata routing pipelines pass it on.
        likelihood_ratio : array-like of shape (n_samples,), default=None
            That of each row, if `fit` got one; passed on in the same way.
        cost : array-like of shape (n_samples,), default=None
            What it takes to look at each row, nonnegative; for "cost", which needs it, and passed
            on in the same way.
        value : array-like of shape (n_samples,), default=None
            What each row is worth if it is positive, nonnegative, for "cost". None: 1 each.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`.

        Raises
        ------
        ValueError
            If groups or costs are missing, or given where they are not used, or the classifier
            gives scores that are not finite.
        """
        problems = []
        _refuse_unused(self.constraint, None, likelihood_ratio, cost, value)
        if self.constraint == "fdr":
            flagged = self._selected(X, groups, likelihood_ratio)[0]
        elif self.constraint == "cost":
            flagged, _, problems = self._afforded(X, groups, cost, value)
        else:
            flagged, problems = self._flagged(X, self._scores(X), groups)
        if self._is_watched() and np.isfinite(self.threshold_) and "flagged" in self.rates_:
            problems += drift(flagged, self.rates_["flagged"])
        _warn(problems)
        return negative_first(self.classes_, self.pos_label_)[flagged.astype(np.intp)]

    def predict_top(
        self,
        X: RowsLike,
        n: int | None = None,
        groups: ArrayLike | None = None,
        likelihood_ratio: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        value: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return the rows to look at, best first.

        It warns of ties that were broken by row order and of fewer rows than n or the budget.

        Parameters
        ----------
        X : array-like, sparse matrix, frame or Dataset of shape (n_samples, n_features)
            Or a stream: an iterable without shape and indexing of such tables, or of tuples
            that begin with one. No more than a piece of it is in memory, and the scores of the
            rows that are returned (of all rows for groups, and for a fraction of a batch). Not
            of "fdr" and "cost" without `n`.
        n : int, default=None
            How many rows, with ``per="group"`` of each group. None: those that are flagged.
        groups : array-like of shape (n_samples,), default=None
            Group of each row; for ``per="group"``, which needs them.
        likelihood_ratio, cost, value : array-like of shape (n_samples,), default=None
            As in `predict`; not used with `n`.

        Returns
        -------
        index : ndarray of shape (n_top,)
            Row numbers, of the highest score first, with "cost" and without `n` of the highest
            expected value per cost, also across groups; tied rows in the order of X. Those of a
            stream go on from piece to piece.

        Raises
        ------
        TypeError, ValueError
            If n is not an integer of at least 1, or as in `predict`.
        """
        if n is not None:
            check_count(n, "n")
        self._check_is_fitted()
        _refuse_unused(self.constraint, n, likelihood_ratio, cost, value)
        if self.constraint == "fdr" and n is None:
            return _in_order(*self._selected(X, groups, likelihood_ratio))
        if self.constraint == "cost" and n is None:
            flagged, per_cost, problems = self._afforded(X, groups, cost, value)
            _warn(problems)
            return _in_order(flagged, per_cost)
        check_groups(groups, self._per)
        if self.explore and n is None:
            return self.predict_queue(X, groups).rows
        each = score_parts(self.estimator_, X, self.pos_label_)
        if self._has_threshold() and n is None:
            return rows_above(each, self.threshold_)
        kept, name = (self.budget, "budget") if n is None else (n, "n")
        if groups is None and isinstance(kept, Integral):
            best = BestRows(kept).add_all(each)
            _warn(best.problems(name, kept))
            return best.index
        scores = np.concatenate(list(each))
        flagged, problems = self._flagged(X, scores, groups, n)
        _warn(problems)
        return _in_order(flagged, scores)

    def predict_queue(
        self,
        X: RowsLike,
        groups: ArrayLike | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> Queue:
        """Return the rows to look at, best first, and the probability with which each was chosen.

        It is a function of the fitted estimator and X, as all predictions are: asked again it
        gives the same queue, and there is no attribute that a second batch would overwrite. Keep
        what it returns: a label learned without its propensity tells about no other row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            A batch as a whole.
        groups : array-like of shape (n_samples,), default=None
            Group of each row; for ``per="group"``, which needs them.
        likelihood_ratio : array-like of shape (n_samples,), default=None
            As in `predict`.

        Returns
        -------
        rows : ndarray of shape (n_top,)
            Row numbers, those that `predict` flags: of the highest score first, ties in the order
            of X, those drawn by lot among them.
        propensity : ndarray of shape (n_top,)
            Probability in (0, 1]; 1 for all rows without `explore`.

        Raises
        ------
        TypeError, ValueError
            If X is a stream, or as in `predict`.
        """
        check_table(X)
        if not self.explore:
            rows = self.predict_top(X, None, groups, likelihood_ratio)
            return Queue(rows, np.ones(len(rows)))
        _refuse_unused(self.constraint, None, likelihood_ratio, None, None)
        scores = self._scores(X)
        flagged, chance, problems = self._queue(X, scores, groups)
        _warn(problems)
        order = np.argsort(-scores, kind="stable")
        rows = order[flagged[order]]
        return Queue(rows, chance[rows])

    def score(
        self,
        X: RowsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        value: ArrayLike | None = None,
    ) -> float:
        """Return what the rows bring at the `budget`, the metric that its `constraint` names.

        It ranks the rows anew, whatever `threshold_` is: an estimator whose threshold breaks the
        budget gains nothing by that. Not the accuracy of `predict`, by which flagging nothing is
        hard to beat; ``scoring="accuracy"`` asks for that.

        - "count": :func:`sktopk.metrics.recall_at_k_score` at k = `budget`, the share of all
          positives that are found; with ``per="fit"`` at the share of the rows that `budget` was
          of those given to `fit`, with ``per="group"`` in each group;
        - "fpr": :func:`sktopk.metrics.true_positive_rate_at_fpr_score`;
        - "precision": :func:`sktopk.metrics.recall_at_precision_score`;
        - "recall": :func:`sktopk.metrics.precision_at_recall_score`;
        - "fdr": :func:`sktopk.metrics.recall_at_precision_score` at a precision of 1 - `budget`;
        - "cost": the share of the value of all positives that the flagged rows bring.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels; those that are not `pos_label_` are negative.
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Group of each row; for ``per="group"``, which needs them.
        cost, value : array-like of shape (n_samples,), default=None
            As in `predict`.

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
        self._check_is_fitted()
        y = check_labels(y) == self.pos_label_
        _refuse_unused(self.constraint, None, None, cost, value)
        if self.constraint == "cost":
            return self._share_of_value(X, y, sample_weight, groups, cost, value)
        scores = self._scores(X)
        check_groups(groups, self._per)
        if self.constraint == "fdr":
            precision = 1 - float(self.budget)
            weight = {"sample_weight": sample_weight}
            return recall_at_precision_score(y, scores, precision=precision, **weight)
        if self.constraint != "count":
            metric = _METRICS[self.constraint]
            bound = {self.constraint: self.budget}
            return metric(y, scores, sample_weight=sample_weight, **bound)
        k = self.budget
        if self._per == "fit" and isinstance(k, Integral):
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
        check_option(self.constraint, "constraint", _CONSTRAINTS)
        check_option(self.per, "per", ("auto", "fit", "batch", "group"))
        if self._per != "fit" and self.constraint not in ("count", "fdr", "cost"):
            raise ValueError(
                f'per={self.per!r} takes constraint="count", "fdr" or "cost"; got '
                f"{self.constraint!r}"
            )
        if self.cross_fit and not self._has_threshold():
            raise ValueError(
                'cross_fit=True finds a fixed threshold, per="fit" and constraint="count", "fpr", '
                f'"precision" or "recall"; got per={self.per!r}, constraint={self.constraint!r} '
                f"and budget={self.budget!r}"
            )
        _check_budget(self.budget, self.constraint)
        check_number(self.delta, "delta", 0, 1, bounds="neither")
        check_number(self.explore, "explore", 0, integer=True)
        if self.explore and (self._per == "fit" or self.constraint != "count"):
            raise ValueError(
                'explore is for constraint="count" with per="batch" or "group"; got '
                f"explore={self.explore!r}, constraint={self.constraint!r} and per={self.per!r}"
            )
        if self.explore and isinstance(self.budget, Integral) and self.explore >= self.budget:
            raise ValueError(f"explore must be less than budget={self.budget}; got {self.explore}")
        check_likelihood_ratio(self.likelihood_ratio)
        check_flag(self.randomized, "randomized")
        check_pos_label(self.pos_label)

    def _check_two_classes(self, y, sample_weight):
        if isinstance(self.estimator, FrozenEstimator):
            return
        classes = check_classes(y)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y must have 2 classes; got {len(classes)}"
            )
        if self.pos_label is not None:
            place_of(self.pos_label, classes)  # raises if it is none of them
        if sample_weight is not None:
            weight = check_weight(sample_weight, len(y))
            check_classes(y[weight > 0], "y of the rows with positive sample_weight")

    @property
    def _per(self):
        if self.per != "auto":
            return self.per
        is_number = self.constraint == "count" and isinstance(self.budget, Integral)
        return "batch" if is_number else "fit"

    def _watched_scores(self, X):
        return self._scores(X)

    def _reference_scores(self):
        rows = self._rows_to_compare_with("monitor", "pass reference, rows to compare with, or ")
        return rows.scores

    def _promises(self):
        is_rate = self._as_promised("constraint") not in ("count", "cost")
        return is_rate and hasattr(self, "_calibration_rows")

    def _promised(self, tolerance, level):
        rate, budget = self._as_promised("constraint"), float(self._as_promised("budget"))
        at_least = rate in ("precision", "recall")
        limit = budget + (-tolerance if at_least else tolerance)
        return Promise(self, rate, limit, at_least), level

    def _outcome(self, X, y):
        scores = self._scores(X)
        check_length(y, len(scores))
        positive = known_positives(y, self.classes_, self.pos_label_)
        rate = self._as_promised("constraint")
        if rate == "fdr":
            return np.ones(len(y), dtype=bool), ~positive, np.ones(len(y), dtype=bool)
        flagged = scores.astype(np.float64) > self.threshold_
        counts = {"precision": flagged, "recall": positive, "fpr": ~positive}[rate]
        return counts, positive if rate == "precision" else flagged, flagged

    def _has_threshold(self):
        return self._per == "fit" and self.constraint not in ("fdr", "cost")

    def _is_watched(self):
        """Whether new rows are scored as those that calibrated, and should be flagged as often."""
        return self._has_threshold() and hasattr(self, "_calibration_rows")

    def _check_is_fitted(self):
        check_is_fitted(self, "threshold_" if self._has_threshold() else "estimator_")

    def _scores(self, X):
        self._check_is_fitted()
        return finite_scores(self.estimator_, X, self.pos_label_)

    def _positive_label(self, estimator, y):
        """The label of the positives, given the trained classifier."""
        if not hasattr(estimator, "classes_"):
            raise no_classifier(estimator)
        pos_label = own_pos_label(estimator) if self.pos_label is None else self.pos_label
        classes = np.asarray(on_host(estimator.classes_, "classes_ of estimator"))
        if len(classes) != 2:
            return pos_label  # whose scores are refused
        return positive_label(pos_label, classes, class_counts(classes, y))

    def _rows_to_compare_with(self, who, other_way=""):
        """Return the calibration rows, if there are some and new rows are like them."""
        rows = getattr(self, "_calibration_rows", None)
        if rows is None or rows.weight is not None:
            reason = "weights them by a likelihood_ratio" if rows else "kept none to calibrate with"
            raise ValueError(
                f"{who} needs calibration rows that new rows are like, but fit {reason}: "
                f'{other_way}choose per="fit" and cross_fit=False, or freeze a fitted estimator by '
                "FrozenEstimator"
            )
        return rows

    def _calibration(self, scores, trained, ratio, fitted, random, n_given):
        """Return what is kept of the rows that calibrate, by attribute."""
        weight, key = None, None
        seed = random.randint(np.iinfo(np.int32).max)
        positive = known_positives(trained.y, fitted["classes_"], fitted["pos_label_"])
        if self.constraint in ("fdr", "cost") and separates(scores, positive):
            self._warn_if_seen(len(scores))
        if self.constraint == "fdr":
            weight = calibration_ratio(fitted["likelihood_ratio_"], ratio, trained, n_given)
            key = row_keys(trained.X, seed) if self.randomized else None
            if len(scores) < (needed := n_rows_needed_to_select(float(self.budget))):
                warn(
                    f"fdr <= {float(self.budget):g} needs at least {needed} calibration rows; "
                    f"there are {len(scores)}. No row will be flagged"
                )
        rows = CalibrationRows(scores.astype(np.float64), positive, weight, key)
        kept = {"_calibration_rows": rows, "_seed": seed}
        if self.constraint == "cost":
            kept["_probability"] = IsotonicProbability.fit(scores, positive)
        return kept

    def _selected(self, X, groups, ratio):
        """Return the mask of the rows that conformal selection flags, and their scores."""
        check_table(X)
        scores = self._scores(X)
        if groups is not None or self._per == "group":
            check_groups(groups, self._per)
        rows = self._calibration_rows
        weight = ratio_of_rows(self.likelihood_ratio_, X, ratio, len(scores))
        if (weight is None) != (rows.weight is None):
            raise ValueError(
                "likelihood_ratio must be passed to fit and predict, or to neither; got one in "
                f"{'predict' if rows.weight is None else 'fit'} only"
            )
        needs_key = rows.key is not None or weight is not None
        key = row_keys(X, self._seed) if needs_key else None
        return select_in_groups(rows, scores, groups, float(self.budget), weight, key), scores

    def _flagged(self, X, scores, groups, n=None):
        """Return the mask of the n best rows or, for None, of the budget, and what to warn of."""
        check_groups(groups, self._per)
        if self._has_threshold() and n is None:
            return scores.astype(np.float64) > self.threshold_, []
        if self.explore and n is None:
            flagged, _, problems = self._queue(X, scores, groups)
            return flagged, problems
        kept = (self.budget, "budget") if n is None else (n, "n")
        return best_rows(scores, _numbered(groups, len(scores)), *kept)

    def _queue(self, X, scores, groups):
        """Return the mask of a budget of which some places are drawn, chances, what to warn of."""
        check_groups(groups, self._per)
        group = _numbered(groups, len(scores))
        certain, problems = best_rows(scores, group, self.budget, "budget", int(self.explore))
        places = np.array([n_kept(self.budget, n) for n in np.bincount(group)])
        free = np.maximum(places - np.bincount(group[certain], minlength=len(places)), 0)
        flagged, chance = draw_rows(certain, group, free, row_keys(X, self._seed), self._seed)
        return flagged, chance, problems


def _check_budget(budget, constraint):
    """Raise unless the budget is of the kind that the constraint takes."""
    allowed = "a rate in (0, 1)"
    try:
        if constraint == "count":
            allowed = "an integer >= 1 or a fraction in (0, 1)"
            check_k(budget, "budget")
        elif constraint == "cost":
            allowed = "a finite sum above 0"
            check_number(budget, "budget", 0, bounds="neither")
        else:
            check_number(budget, "budget", 0, 1, bounds="neither")
    except (TypeError, ValueError) as error:
        message = f"budget must be {allowed} for constraint={constraint!r}; got {budget!r}"
        raise type(error)(message) from None


def _numbered(groups, n_samples):
    """Return the number of each row's group, 0 for all without groups."""
    if groups is None:
        return np.zeros(n_samples, dtype=np.intp)
    return encode_groups(groups, n_samples)


def _refuse_unused(constraint, n, likelihood_ratio, cost, value):
    given = {"likelihood_ratio": likelihood_ratio, "cost": cost, "value": value}
    for name, array in given.items():
        needed = "fdr" if name == "likelihood_ratio" else "cost"
        if array is not None and (constraint != needed or n is not None):
            raise ValueError(f'{name} is for constraint="{needed}" without n; got {constraint!r}')


def _in_order(flagged, scores):
    """Return the flagged rows, that of the highest score first."""
    order = np.argsort(-scores, kind="stable")
    return order[flagged[order]]


def _warn(problems):
    for problem in problems:
        warn(problem)
