"""What a few budgets bring, with intervals: the table to decide by."""

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count, check_number, check_random
from sktopk._common._types import Label

from ._logged import poisson_interval, recall_interval
from ._ranking import Ranking, check_score, estimated, is_positive, warn_of_scores

_LEAST_BOOTSTRAPS = 10


def budget_table(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    budgets: ArrayLike = (50, 100, 200),
    n_rows: int | None = None,
    confidence: float = 0.95,
    n_bootstraps: int = 500,
    pos_label: Label | None = None,
    random_state: int | np.random.RandomState | None = 0,
    propensity: ArrayLike | None = None,
) -> dict[str, np.ndarray]:
    r"""Say what each of a few budgets brings: hits, precision and recall, with intervals.

    Of n rows that the classifier was not trained on, a budget of b rows a day, out of `n_rows`
    that a day has, looks at the k best, and finds in a day

    .. math::
        \text{hits} = b \, \frac{1}{k} \sum_{i \le k} y_i, \qquad
        k = \frac{b}{n_\text{rows}} \, n, \qquad
        \text{precision} = \frac{\text{hits}}{b}, \qquad
        \text{recall} = \frac{\sum_{i \le k} y_i}{\sum_i y_i}

    with :math:`y_i \in \{0, 1\}`, best score first. Rows that tie count with what a random order
    of them brings on average, and a k between two numbers with what lies between them.

    The intervals are percentiles of bootstrap samples of the rows [1]_. They are of the mean
    over many days, and as wide as it is uncertain from n rows: the hits of a single day scatter
    around it by about the root of their number besides.

    Of a log, with a `propensity`, :math:`y_i` is the label divided by it, or 0 where that is not
    known, as in `precision_at_k_score`. Intervals are then those of a weighted sum of Poisson
    counts [2]_, which need no positive among the rows drawn by lot to be wide enough: of rows
    that are independent, and known independently of each other or drawn without replacement. In
    the simulations of that paper, and in ours, they cover at least as often as they say. Of
    recall both sums have theirs at half the error.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    budgets : int or array-like of shape (n_budgets,), default=(50, 100, 200)
        Numbers of rows that one can look at, integers from 1 to `n_rows`.
    n_rows : int, default=None
        Number of rows that a budget is spent on, such as those of a day. None: as many as are
        given.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).
    n_bootstraps : int, default=500
        Number of bootstrap samples, at least 10.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    random_state : int, RandomState or None, default=0
        Seed of the bootstrap samples.
    propensity : array-like of shape (n_samples,), default=None
        Of a log: the probability in (0, 1] with which the label of each row came to be known,
        as `BudgetClassifier.predict_queue` returns it; NaN where it did not, whatever
        `y_true` is there. None: all labels are known.

    Returns
    -------
    table : dict of str to ndarray of shape (n_budgets,)
        The columns budget, hits, hits_low, hits_high, precision, precision_low, precision_high,
        recall, recall_low and recall_high, of which ``pandas.DataFrame(table)`` makes a frame.
        Recall is NaN if there are no positives. Of a log precision may exceed 1.

    Raises
    ------
    TypeError, ValueError
        If labels are not two, a budget exceeds `n_rows`, or an argument is not allowed.

    See Also
    --------
    BudgetTableDisplay : Draws it.
    BudgetCurveDisplay : The curve over all numbers of rows, with chance and ideal lines.

    References
    ----------
    .. [1] B. Efron. Bootstrap methods: another look at the jackknife. The Annals of Statistics
       7(1), 1-26, 1979.
    .. [2] M. P. Fay, E. J. Feuer. Confidence intervals for directly standardized rates: a method
       based on the gamma distribution. Statistics in Medicine 16(7), 791-801, 1997.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sktopk.metrics import budget_table
    >>> rng = np.random.default_rng(0)
    >>> fraud = rng.random(10_000) < 0.02
    >>> y_score = rng.normal(size=10_000) + 2 * fraud
    >>> table = pd.DataFrame(budget_table(fraud, y_score, budgets=[20, 50], n_rows=1000))
    >>> table[["budget", "hits", "hits_low", "hits_high"]].round(1)
       budget  hits  hits_low  hits_high
    0      20   7.3       6.2        8.9
    1      50  11.6       9.6       13.5
    """
    budgets = np.atleast_1d(np.asarray(budgets, dtype=object))
    if budgets.ndim != 1 or not len(budgets):
        raise ValueError(f"budgets must be one or more integers; got {budgets.tolist()!r}")
    for budget in budgets:
        check_count(budget, "budgets")
    check_number(confidence, "confidence", 0, 1, bounds="neither")
    check_number(n_bootstraps, "n_bootstraps", _LEAST_BOOTSTRAPS, integer=True)
    if propensity is None:
        positive = is_positive(y_true, pos_label)
    else:
        log = estimated(y_true, pos_label, propensity)
        log.warn_if_blind("budget_table")
        positive = log.positive
    n_rows = len(positive) if n_rows is None else n_rows
    check_count(n_rows, "n_rows")
    if max(budgets) > n_rows:
        raise ValueError(f"budgets must be at most n_rows={n_rows}; got {max(budgets)}")
    budgets = budgets.astype(np.int64)
    if propensity is not None:
        return _table_of_log(log, y_score, budgets, n_rows, float(confidence))
    ranking = Ranking.from_values(positive.astype(np.float64), y_score)
    warn_of_scores(y_true, y_score, positive)
    # After each block of tied rows.
    looked_at, found = ranking.cumulative_weight, ranking.cumulative_value
    k = budgets / n_rows * len(positive)
    estimate = _found_at(k, looked_at, found)
    random = check_random(random_state)
    samples = _bootstrap(k, looked_at, found, n_bootstraps, random)
    columns = {"budget": budgets}
    level = (1 - float(confidence)) / 2
    units = {"hits": n_rows / len(positive), "precision": 1 / k, "recall": None}
    for name, unit in units.items():
        if unit is None:
            with np.errstate(invalid="ignore", divide="ignore"):
                values, drawn = estimate / found[-1], samples[0] / samples[1][:, None]
        else:
            values, drawn = unit * estimate, unit * samples[0]
        columns[name] = values
        defined = ~np.isnan(drawn).any(axis=1)
        ends = np.full((2, len(k)), np.nan)
        if defined.any():
            ends = np.quantile(drawn[defined], [level, 1 - level], axis=0)
        columns[f"{name}_low"], columns[f"{name}_high"] = ends
    return columns


def _table_of_log(log, y_score, budgets, n_rows, level):
    """Return the table of labels that stand for more rows than their own."""
    y_score, n = check_score(y_score, len(log.known)).astype(np.float64), len(log.known)
    _, block, size = np.unique(-y_score, return_inverse=True, return_counts=True)
    before = np.cumsum(size) - size
    columns = {"budget": budgets}
    ends = ("", "_low", "_high")
    columns |= {name + end: [] for name in ("hits", "precision", "recall") for end in ends}
    for k in budgets / n_rows * n:
        # The part of each row that is looked at.
        part = np.clip((k - before[block]) / size[block], 0.0, 1.0)
        parts, largest, weights = (part, 1 - part), [], []
        for each in parts:
            # Where some labels are not known, any of them may weigh as much as one that is.
            some_unknown = ((log.known == 0) & (each > 0)).any()
            largest.append((log.known if some_unknown else log.known * each).max())
            found = each * log.positive
            weights.append(found[found > 0])
        found, high = weights[0].sum(), poisson_interval(weights[0], level, largest[0])
        found = np.array([found, high[0], min(high[1], k)])
        total = log.positive.sum()
        recall = [np.nan] * 3
        if total > 0:
            recall = [found[0] / total, *recall_interval(*weights, level, *largest)]
        values = {"hits": found * n_rows / n, "precision": found / k, "recall": recall}
        for name, three in values.items():
            for end, value in zip(ends, three, strict=True):
                columns[name + end].append(value)
    return {name: np.asarray(column) for name, column in columns.items()}


def _found_at(k, looked_at, found):
    """Return the positives among the k best rows."""
    return np.interp(k, looked_at, found)


def _bootstrap(k, looked_at, found, n_bootstraps, random):
    """Return the positives among the k best rows of samples of the rows, and all positives.

    Rows that tie are one block. Those far below the largest k, which hardly a sample brings up,
    are one, too.
    """
    n = int(looked_at[-1])
    deepest = k.max() + 8 * np.sqrt(k.max()) + 16
    last = min(np.searchsorted(looked_at, deepest) + 1, len(looked_at))
    looked_at = np.r_[looked_at[:last], looked_at[-1]]
    found = np.r_[found[:last], found[-1]]
    n_positive = np.diff(found)
    n_negative = np.maximum(np.diff(looked_at) - n_positive, 0.0)
    share = np.r_[n_positive, n_negative]
    share /= share.sum()
    at, total = np.empty((n_bootstraps, len(k))), np.empty(n_bootstraps)
    for i in range(n_bootstraps):
        positives, negatives = np.split(random.multinomial(n, share), 2)
        rows = np.r_[0, np.cumsum(positives + negatives)]
        hits = np.r_[0, np.cumsum(positives)]
        at[i], total[i] = _found_at(k, rows, hits), hits[-1]
    return at, total
