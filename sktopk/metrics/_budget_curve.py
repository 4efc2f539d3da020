"""Arrays of a budget curve: precision, recall or value of the k best samples, for every k."""

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import check_count, check_nonnegative, check_number, check_option
from sktopk._common._warnings import warn

from ._ranking import Ranking, check_score, is_positive


def budget_curve(
    y_true, y_score, *, pos_label=None, metric=None, value=None, max_k=None, budget=None
):
    """Return the constructor arguments of a `BudgetCurveDisplay`, for k of all samples."""
    metric = _checked_metric(metric, value, max_k, budget)
    positive = is_positive(y_true, pos_label)
    each = np.ones(len(positive))
    if value is not None:
        each = check_nonnegative(value, "value", len(each), "one per row of y_score")
    gain = positive * each
    k = np.arange(1, len(gain) + 1)
    found = Ranking.from_values(gain, y_score).curve()[1][1:]
    # Compute three curves: of the given scores, of a random order and of the best order.
    curves = np.stack([found, k * gain.mean(), np.cumsum(np.sort(gain)[::-1])])
    if metric == "precision":
        curves /= k
    elif metric == "recall" and gain.any():
        curves /= gain.sum()
    elif metric == "recall":
        warn("BudgetCurveDisplay: no positives, recall is NaN", UndefinedMetricWarning)
        curves[:] = np.nan
    score, chance, ideal = curves[:, :max_k]
    curve = {"k": k[:max_k], "score": score, "chance": chance, "ideal": ideal}
    return curve | {"metric": metric, "budget": budget}


def budget_curve_of_groups(
    y_true, y_score, *, groups, share_of_groups=0.8, pos_label=None, value=None, **options
):
    """Return the constructor arguments of a `BudgetCurveDisplay`, for k samples of each group."""
    check_number(share_of_groups, "share_of_groups", 0, 1, bounds="neither")
    metric = _checked_metric(value=value, **options)
    positive = is_positive(y_true, pos_label)
    y_score = check_score(y_score, len(positive))
    codes = encode_groups(groups, len(positive))
    if value is not None:
        value = check_nonnegative(value, "value", len(positive), "one per row of y_score")
    # Groups without positives have no recall, so omit them.
    known = np.unique(codes[positive] if metric == "recall" and positive.any() else codes)
    k, max_k, curves = np.arange(1, np.bincount(codes).max() + 1), options.pop("max_k", None), []
    for own in (codes == code for code in known):
        each = None if value is None else value[own]
        curves.append(budget_curve(positive[own], y_score[own], value=each, **options))
    curve = {"k": k[:max_k], "metric": metric, "budget": options.get("budget"), "by": "group"}
    for name in ("score", "chance", "ideal"):
        # Repeat the last value of short curves: small groups have no more samples to select.
        padded = [np.pad(c[name], (0, len(k) - len(c[name])), mode="edge") for c in curves]
        padded = np.stack(padded)[:, :max_k]
        curve[name] = padded.mean(axis=0)
        if name == "score":
            tail = (1 - share_of_groups) / 2
            curve["low"], curve["high"] = np.quantile(padded, [tail, 1 - tail], axis=0)
    return curve


def _checked_metric(metric=None, value=None, max_k=None, budget=None):
    """Check the arguments and return the metric. The default is "value" or "recall"."""
    metric = ("recall" if value is None else "value") if metric is None else metric
    check_option(metric, "metric", ("precision", "recall", "value"))
    for name, count in {"max_k": max_k, "budget": budget}.items():
        if count is not None:
            check_count(count, name)
    if (metric == "value") != (value is not None):
        given = "no value" if value is None else "a value"
        raise ValueError(
            f'value must be passed with metric="value" only; got {given} and {metric!r}'
        )
    return metric
