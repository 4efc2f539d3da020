"""Scores of the k rows of highest score."""

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_flag
from sktopk._common._types import Label
from sktopk._common._warnings import warn

from ._ranking import Ranking, check_rate, check_value, estimated, undefined, warn_of_few


def precision_at_k_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int | float,
    pos_label: Label | None = None,
    ties: str = "expected",
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    normalize: bool = False,
) -> float:
    r"""Share of positives among the k rows of highest score.

    .. math::
        \frac{1}{k} \sum_{i=1}^n w_i y_i a_i,
        \qquad a_i = \min\Bigl(1, \max\Bigl(0, \frac{k - g_i}{m_i}\Bigr)\Bigr)

    where :math:`g_i` is the weight of the rows whose score is greater than that
    of row i and :math:`m_i` the weight of those whose score equals it, its own
    included: :math:`a_i` is the part of row i that is looked at. With `groups`
    the k best of each group are, and positives and places are summed over all
    groups (micro average).

    Of a log, where only some rows have a label, `propensity` :math:`\pi_i` makes
    :math:`y_i / \pi_i` of a known label and 0 of an unknown one [1]_. If each row's label came
    to be known with that probability, whatever the label is, the score has the precision of all
    rows as its mean over what might have come to be known; every row must have had a chance.
    With `normalize` the places are counted in the same way, by :math:`1 / \pi_i` of known
    labels: a ratio, with less variance as a rule, and a bias that vanishes with the number of
    rows.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive; plus and minus infinity
        are allowed. The `decision_function` of a classifier is of ``classes_[1]``: where
        ``classes_[0]`` is positive, such as "fraud" beside "ok", pass its negative, or take
        `make_top_scorer`. Scores that rank such a label clearly last warn.
    k : int or float
        Number of rows looked at, at least 1, or a fraction in (0, 1) of the rows,
        rounded up: ``ceil(k * n_samples)``. With `groups` of each group.
    pos_label : int, float, bool or str, default=None
        Label of the positives. None is 1 or True, where the others are 0, -1 or False; any other
        labels, such as "fraud" and "ok", do not tell, and are refused without it.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Which rows are looked at among those tied at the k-th place: a random
        choice, scored by its expectation, or positives first, or negatives first.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as its day: k reviews a day. None: one group.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights, which count as numbers of rows: a weight of 2 equals
        the row twice, k is a sum of weights, and the row at which the sum exceeds
        k is looked at in part. So weights that sum to 1 make a single row, which any number k
        takes whole: let them sum to the number of rows. Of a fraction that is less than one row,
        the mean weight is rounded up to in place of 1.
    propensity : array-like of shape (n_samples,), default=None
        Of a log: the probability in (0, 1] with which the label of each row came to be known, as
        `BudgetClassifier.predict_queue` returns it; NaN where it did not, whatever
        `y_true` is there. None: all labels are known.
    normalize : bool, default=False
        Whether to count places by propensity, too; needs it.

    Returns
    -------
    score : float
        In [0, 1]; with a propensity possibly more, unless `normalize`. NaN, with an
        `UndefinedMetricWarning`, if there are no
        positives (of positive weight): then no order of the rows is better than
        another; with a propensity that is 0, and only `normalize` without a known label among
        the k is NaN. If there are fewer rows than k (in a group, too) the places left
        empty count as misses, because precision divides by k, and a warning says
        how many there are.

    Raises
    ------
    TypeError
        If k is not a number.
    ValueError
        If `y_true` does not hold two labels, `y_score` holds NaN, shapes disagree or an
        argument is out of its range.

    See Also
    --------
    budget_table : Several budgets, with intervals, of logs, too.
    recall_at_k_score : Share of the positives that is found.
    mean_value_at_k_score : Mean of a value, such as money, instead of labels.
    precision_quantile_curve : All k at once.
    make_top_scorer : The same for grid search and cross-validation.

    References
    ----------
    .. [1] D. G. Horvitz, D. J. Thompson. A generalization of sampling without replacement from a
       finite universe. Journal of the American Statistical Association 47(260), 663-685, 1952.

    Examples
    --------
    >>> import numpy as np
    >>> from sktopk.metrics import precision_at_k_score
    >>> fraud = [1, 0, 1, 0, 0, 1]
    >>> y_score = [0.9, 0.8, 0.7, 0.3, 0.3, 0.3]
    >>> precision_at_k_score(fraud, y_score, k=2)
    0.5
    >>> day = ["Mon", "Mon", "Mon", "Tue", "Tue", "Tue"]
    >>> precision_at_k_score(fraud, y_score, k=2, groups=day)  # 1 of 2, and 2/3 of 2
    0.4166...

    The first row was looked at for sure, two of the others by lot:

    >>> propensity = [1, None, 0.4, None, 0.4, None]
    >>> propensity = np.array(propensity, dtype=float)
    >>> precision_at_k_score([1, None, 1, None, 0, None], y_score, k=3, propensity=propensity)
    1.1666...
    """
    check_flag(normalize, "normalize")
    if normalize and propensity is None:
        raise ValueError("normalize=True needs propensity; got None")
    ranking = Ranking.from_labels(
        y_true, y_score, pos_label, sample_weight, ties, groups, propensity
    )
    found, looked_at, places = ranking.best(k)
    if propensity is None and not ranking.total_value:
        return undefined("precision_at_k_score", "no positives")
    if normalize:
        known = estimated(y_true, pos_label, propensity).known
        n_known = Ranking.from_values(known, y_score, sample_weight, ties, groups).best(k)[0]
        if not n_known:
            return undefined("precision_at_k_score", "no known label among the k best")
        found *= looked_at / n_known
    n_places = places.sum()
    if n_places - looked_at > 1e-9 * n_places:
        warn(
            f"precision_at_k_score: k={k!r} exceeds the number of rows; {looked_at:g} are looked "
            f"at, and the other {n_places - looked_at:g} of {n_places:g} places count as misses"
        )
    return float(found / n_places)


def recall_at_k_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int | float,
    pos_label: Label | None = None,
    ties: str = "expected",
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
) -> float:
    r"""Share of all positives that is found among the k rows of highest score.

    .. math::
        \frac{\sum_i w_i y_i a_i}{\sum_i w_i y_i}

    where :math:`a_i` is the part of row i that is looked at, as in
    `precision_at_k_score`: 1 above the k-th place, 0 below it.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    k : int or float
        Number of rows looked at, at least 1, or a fraction in (0, 1) of the rows,
        rounded up. With `groups` of each group.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Which of the rows tied at the k-th place are looked at, as in
        `precision_at_k_score`.
    groups : array-like of shape (n_samples,), default=None
        Group of each row: the k best of each are looked at, and what is found
        is divided by the positives of all groups. None: one group.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights, which count as numbers of rows.
    propensity : array-like of shape (n_samples,), default=None
        Of a log, as in `precision_at_k_score`: the probability in (0, 1] with which a label came
        to be known, NaN where it did not. Both sums are then estimates without bias; their ratio
        has one that vanishes with the number of rows. It warns if only sure rows have labels.

    Returns
    -------
    score : float
        In [0, 1]; 1 if k is the number of rows or more, with a warning if it is
        more (in each group). NaN, with an `UndefinedMetricWarning`, if there are no
        positives (of positive weight).

    Raises
    ------
    TypeError
        If k is not a number.
    ValueError
        As in `precision_at_k_score`.

    See Also
    --------
    precision_at_k_score : Share of positives among those looked at.
    enrichment_factor_score : Recall at a fraction, divided by that of chance.
    EnrichmentDisplay : All k at once, drawn.

    Examples
    --------
    >>> from sktopk.metrics import recall_at_k_score
    >>> recall_at_k_score([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.3], k=2)
    0.5
    >>> recall_at_k_score([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5], k=3)
    0.75
    """
    ranking = Ranking.from_labels(
        y_true, y_score, pos_label, sample_weight, ties, groups, propensity
    )
    if propensity is not None:
        estimated(y_true, pos_label, propensity).warn_if_blind("recall_at_k_score")
    found, looked_at, places = ranking.best(k)
    if not ranking.total_value:
        return undefined("recall_at_k_score", "no positives")
    if _has_spare_places(looked_at, places, ranking):
        warn_of_few("recall_at_k_score", k, looked_at, "rows")
    return float(found / ranking.value.sum())


def mean_value_at_k_score(
    y_value: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int | float,
    ties: str = "expected",
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Mean value, such as activity or money, of the k rows of highest score.

    .. math::
        \frac{\sum_i w_i v_i a_i}{\sum_i w_i a_i}

    where :math:`v_i` is the value of row i and :math:`a_i` the part of it that is
    looked at, as in `precision_at_k_score`. For values 0 and 1 and no more places
    than rows this is the precision.

    Parameters
    ----------
    y_value : array-like of shape (n_samples,)
        Finite value of each row, for example measured activities.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the more worth looking at.
    k : int or float
        Number of rows looked at, at least 1, or a fraction in (0, 1) of the rows,
        rounded up. With `groups` of each group.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Which of the rows tied at the k-th place are looked at: a random choice,
        scored by its expectation, or those of greatest, or of least value.
    groups : array-like of shape (n_samples,), default=None
        Group of each row: the k best of each are looked at, and the mean is
        over all of them. None: one group.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights, which count as numbers of rows.

    Returns
    -------
    score : float
        In the unit of `y_value`. If there are fewer rows than k, the mean over
        all of them, with a warning: an empty place has no value, and unlike for
        precision is no miss. NaN, with an `UndefinedMetricWarning`, if there are no rows of
        positive weight.

    Raises
    ------
    TypeError
        If k is not a number.
    ValueError
        If `y_value` is not one finite number per row, `y_score` holds NaN, shapes
        disagree or an argument is out of its range.

    See Also
    --------
    precision_at_k_score : For labels instead of values.

    Examples
    --------
    >>> from sktopk.metrics import mean_value_at_k_score
    >>> activity = [7.5, 4.0, 6.5, 5.0]
    >>> mean_value_at_k_score(activity, [0.9, 0.8, 0.7, 0.3], k=2)
    5.75
    """
    y_value = check_value(y_value)
    # A power of two changes no digit; without it large values overflow in a sum.
    unit = 2.0 ** (np.frexp(np.abs(y_value.astype(np.float64)).max(initial=1.0))[1] - 1)
    ranking = Ranking.from_values(y_value / unit, y_score, sample_weight, ties, groups)
    found, looked_at, places = ranking.best(k)
    if not looked_at:
        return undefined("mean_value_at_k_score", "no row of positive weight")
    if _has_spare_places(looked_at, places, ranking):
        warn_of_few("mean_value_at_k_score", k, looked_at, "rows")
    return float(found / looked_at * unit)


def _has_spare_places(looked_at, places, ranking):
    """Return whether every row is looked at, and there are places for more."""
    return ranking.total_weight * (1 - 1e-9) <= looked_at < places.sum() * (1 - 1e-9)


def enrichment_factor_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    fraction: float,
    pos_label: Label | None = None,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Precision among the top fraction of the rows, divided by the share of positives.

    .. math::
        \mathrm{EF} = \frac{1}{k} \sum_i w_i y_i a_i \Big/
        \frac{\sum_i w_i y_i}{\sum_i w_i}, \qquad k = \lceil f \sum_i w_i \rceil

    where :math:`a_i` is the part of row i among the k best, as in
    `precision_at_k_score`: how many times more positives are found than by
    looking at as many rows at random.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    fraction : float
        Share f of the rows looked at, in (0, 1], rounded up to whole rows.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Which of the rows tied at the k-th place are looked at, as in
        `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights, which count as numbers of rows.

    Returns
    -------
    score : float
        From 0 to the smaller of n / k and n over the number of positives; 1 is
        chance, and what all scores tied give. NaN, with an
        `UndefinedMetricWarning`, if there are no positives (of positive weight).

    Raises
    ------
    TypeError
        If `fraction` is not a number.
    ValueError
        If `fraction` is not in (0, 1], or as in `precision_at_k_score`.

    See Also
    --------
    bedroc_score : Enrichment with weights that fall with the rank, in [0, 1].
    EnrichmentDisplay : All fractions at once, drawn.

    Examples
    --------
    >>> from sktopk.metrics import enrichment_factor_score
    >>> active = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    >>> y_score = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    >>> enrichment_factor_score(active, y_score, fraction=0.2)
    2.5
    """
    check_rate(fraction, "fraction")
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties)
    if not ranking.total_value:
        return undefined("enrichment_factor_score", "no positives")
    if fraction == 1:
        return 1.0
    found, looked_at, _ = ranking.best(float(fraction))
    return float(found / looked_at * (ranking.weight.sum() / ranking.value.sum()))
