"""Hits, precision and recall of review budgets, with confidence intervals."""

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count, check_number, check_random
from sktopk._common._types import Label

from ._ranking import Ranking, undefined


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
) -> dict[str, np.ndarray]:
    r"""Estimate hits, precision and recall of review budgets, with confidence intervals.

    A budget b allows the review of b of the `n_rows` samples of each day. The function ranks the n
    given samples of all days together, and selects the k samples with the highest scores. These are
    b samples per day on average. Hits are the selected positives per day, on average:

    .. math::
        \text{hits} = b \, \frac{1}{k} \sum_{i \le k} y_i, \qquad
        k = \frac{b}{n_\text{rows}} \, n, \qquad \text{precision} = \frac{\text{hits}}{b}, \qquad
        \text{recall} = \frac{\sum_{i \le k} y_i}{\sum_i y_i}

    where the labels :math:`y_i \in \{0, 1\}` are sorted by decreasing score. The sums are averaged
    over all orders of tied samples, and interpolated if k is not an integer. The interval
    for hits is a confidence interval of the mean over many days. Single days can be outside of it.

    Parameters
    ----------
    y_true, y_score, pos_label
        True labels, scores and label of the positives (see `precision_at_k_score`). Use samples
        that the classifier was not trained on.
    budgets : int or array-like of shape (n_budgets,), default=(50, 100, 200)
        Numbers b of samples that are selected per day, integers from 1 to `n_rows`.
    n_rows : int, default=None
        Number of samples per day. None means that all given samples are from a single day.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1). Few hits give too short intervals: 0 hits give [0, 0].
    n_bootstraps : int, default=500
        Number of bootstrap samples, at least 10.
    random_state : int, RandomState or None, default=0
        Seed for drawing the bootstrap samples. None draws different samples in each call.

    Returns
    -------
    table : dict of str to ndarray of shape (n_budgets,)
        Columns for ``pandas.DataFrame(table)``: "budget", "hits", "precision" and "recall", with
        interval ends such as "hits_low" and "hits_high". Recall is NaN without positives.

    Examples
    --------
    >>> from sktopk.metrics import budget_table
    >>> fraud, y_score = [1, 1, 0, 1, 0, 0, 0, 0] * 50, [7, 7, 7, 5, 4, 3, 2, 1] * 50
    >>> table = budget_table(fraud, y_score, budgets=[20, 50], n_rows=100)
    >>> table["hits"].round(1), table["hits_low"].round(1), table["hits_high"].round(1)
    (array([13.3, 37.5]), array([11.8, 32.8]), array([14.9, 39.9]))
    """
    budgets = np.atleast_1d(np.asarray(budgets, dtype=object))
    if budgets.ndim != 1 or not len(budgets):
        raise ValueError(f"budgets must be one or more integers; got {budgets.tolist()!r}")
    for budget in budgets:
        check_count(budget, "budgets")
    check_number(confidence, "confidence", 0, 1, bounds="neither")
    check_number(n_bootstraps, "n_bootstraps", 10, integer=True)
    ranking = Ranking.of(y_true, y_score, pos_label, None)
    # The first j blocks of tied samples have selected[j] samples and found[j] positives.
    selected, found = ranking.cumulative_weight, ranking.cumulative_value
    if not found[-1]:
        undefined("recall of budget_table", "y_true has no positives")
    n_samples = int(selected[-1])
    check_count(n_samples, "number of labels in y_true")
    n_rows = n_samples if n_rows is None else n_rows
    check_count(n_rows, "n_rows")
    if max(budgets) > n_rows:
        raise ValueError(f"budgets must be at most n_rows={n_rows}; got {max(budgets)}")
    budgets = budgets.astype(np.int64)
    k = budgets / n_rows * n_samples
    estimate = np.interp(k, selected, found)
    drawn, drawn_total = _bootstrap(k, selected, found, n_bootstraps, check_random(random_state))
    level = (1 - float(confidence)) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {
            "hits": (estimate * (n_rows / n_samples), drawn * (n_rows / n_samples)),
            "precision": (estimate / k, drawn / k),
            "recall": (estimate / found[-1], drawn / drawn_total[:, None]),
        }
    table = {"budget": budgets}
    for name, (values, samples) in columns.items():
        defined = ~np.isnan(samples).any(axis=1)
        ends = np.full((2, len(k)), np.nan)
        if defined.any():
            ends = np.quantile(samples[defined], [level, 1 - level], axis=0)
        table |= {name: values, f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return table


def _bootstrap(k, selected, found, n_bootstraps, random):
    """Return two arrays: positives among the k best of each bootstrap sample, and all positives."""
    # To save time, merge the blocks of tied samples whose ranks are far beyond the largest budget.
    n = int(selected[-1])
    last = np.searchsorted(selected, k.max() + 8 * np.sqrt(k.max()) + 16) + 1
    selected = np.r_[selected[:last], selected[-1]]
    found = np.r_[found[:last], found[-1]]
    n_positive = np.diff(found)
    share = np.r_[n_positive, np.diff(selected) - n_positive] / n
    at, total = np.empty((n_bootstraps, len(k))), np.empty(n_bootstraps)
    for i in range(n_bootstraps):
        positives, negatives = np.split(random.multinomial(n, share), 2)
        hits = np.r_[0, np.cumsum(positives)]
        at[i], total[i] = np.interp(k, np.r_[0, np.cumsum(positives + negatives)], hits), hits[-1]
    return at, total
