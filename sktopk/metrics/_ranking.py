"""Blocks of samples with equal scores, the input of all metrics for the top of a ranking."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._samples import encode_groups
from sktopk._common._scalars import (
    check_k,
    check_nonnegative,
    check_option,
    check_pos_label,
    is_told,
    n_kept,
    on_host,
    refuse_missing,
)
from sktopk._common._warnings import warn, warn_of_order

TIES = ("expected", "optimistic", "pessimistic")
# Relative tolerance for comparing sums of weights: in floating point, 0.07 * 100 is above 7.
ROUNDING = 1e-10
# Warn if the ROC AUC is below 0.5 by more than this number of standard deviations.
_REVERSED_DEVIATIONS = 4


@dataclass(frozen=True)
class Ranking:
    """Blocks of samples with equal scores, sorted by group and then by decreasing score.

    Each field has one entry per block. `count` is the number of samples in the block. The
    order of these samples has no effect. Each sample has a weight w and a value v, such as 1 for
    positives and 0 for negatives. `weight`, `value` and `negative` are the sums of w, w v and
    w (1 - v) in each block. If `ties` is not "expected", all samples of a block have the same v.
    """

    weight: np.ndarray
    value: np.ndarray
    negative: np.ndarray
    count: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, y_true, y_score, pos_label, sample_weight, *, ties="expected", groups=None):
        """Rank labeled samples. Warn if `y_score` looks reversed or holds predicted labels."""
        if isinstance(y_true, cls):  # `top_score` passes a ranking instead of labels
            return y_true
        warn_of_order(y_true, "y_true", y_score=y_score, sample_weight=sample_weight, groups=groups)
        positive = is_positive(y_true, pos_label)
        ranking = cls.from_values(positive, y_score, sample_weight, ties=ties, groups=groups)
        warn_of_scores(y_true, y_score, positive)
        return ranking

    @classmethod
    def from_values(cls, value, y_score, sample_weight=None, *, ties="expected", groups=None):
        """Return the ranking of samples, each with a numeric `value`. Omit samples of weight 0."""
        check_option(ties, "ties", TIES)
        n_samples, value = len(value), value.astype(np.float64)
        y_score = check_score(y_score, n_samples)
        weight = row_weights(sample_weight, n_samples)
        group = np.zeros(n_samples, np.intp) if groups is None else encode_groups(groups, n_samples)
        # `np.lexsort` sorts by the last key first, so the most important key comes last.
        keys = [y_score] if groups is None else [y_score, group]
        if ties != "expected":
            keys.insert(0, value if ties == "optimistic" else -value)
        present = np.flatnonzero(weight > 0)
        order = present[np.lexsort([key[present] for key in keys])[::-1]]
        starts_block = np.arange(len(order)) == 0
        for key in keys:
            in_order = key[order]
            starts_block[1:] |= in_order[1:] != in_order[:-1]
        start = np.flatnonzero(starts_block)
        weight = weight[order]
        return cls(
            weight=np.add.reduceat(weight, start),
            value=np.add.reduceat(weight * value[order], start),
            # The difference `weight - value` would lose small weights of negatives by rounding.
            negative=np.add.reduceat(weight * (1 - value[order]), start),
            count=np.diff(start, append=len(order)),
            group=group[order[start]],
        )

    # Entry j of each cumulative array is the sum over the first j blocks.
    cumulative_weight = property(lambda self: np.append(0.0, np.cumsum(self.weight)))
    cumulative_value = property(lambda self: np.append(0.0, np.cumsum(self.value)))
    cumulative_negatives = property(lambda self: np.append(0.0, np.cumsum(self.negative)))
    total_weight = property(lambda self: self.cumulative_weight[-1])
    total_value = property(lambda self: self.cumulative_value[-1])

    def missing_class(self):
        if not self.total_value:
            return "no positives"
        return None if self.cumulative_negatives[-1] else "no negatives"

    def best(self, k):
        """Return the value and the weight of the k best of each group, and the k of each group."""
        check_k(k)
        is_first = np.diff(self.group, prepend=-1) != 0
        nth_group = np.cumsum(is_first) - 1
        size = np.bincount(nth_group, weights=self.weight)
        if isinstance(k, Integral):
            places = np.full(len(size), float(k))
        else:
            # In each group, select the weight k * size, rounded up to a multiple of `row`: the mean
            # sample weight of the group, but at most 1.
            row = np.minimum(size / np.bincount(nth_group, weights=self.count), 1.0)
            places = np.array([n_kept(k, n) for n in (size / row).tolist()]) * row
            places = np.minimum(places, size)
        before = _sum_before(self.weight, is_first)
        share = np.clip((places[nth_group] - before) / self.weight, 0.0, 1.0)
        return (share * self.value).sum(), (share * self.weight).sum(), places

    def curve(self):
        """Return the weight and the expected value of the m best samples, as two arrays over m."""
        # Samples with equal scores get equal weights, so that their order has no effect.
        selected = np.append(0.0, np.cumsum(np.repeat(self.weight / self.count, self.count)))
        return selected, np.interp(selected, self.cumulative_weight, self.cumulative_value)


def _sum_before(weight, is_first):
    """Return, for each block, the total weight of the earlier blocks of the same group."""
    before = np.concatenate([[0.0], weight])[:-1]
    start = np.flatnonzero(is_first)
    if len(start) < 2:
        return np.cumsum(before)
    before[start] = 0.0
    # Add up runs of 2, 4, 8, ... blocks. Differences of cumulative sums would lose small weights.
    place = np.arange(len(weight)) - np.repeat(start, np.diff(start, append=len(weight)))
    step = 1
    while step <= place.max():
        before[step:] += np.where(place[step:] >= step, before[:-step], 0.0)
        step *= 2
    return before


def first_reaching(cumulative, level):
    """Return the first index where `cumulative` is at least `level`, up to rounding errors."""
    return np.searchsorted(cumulative, level * (1 - ROUNDING), side="left")


def warn_of_few(score, k, n, what):
    warn(
        f"{score}: k={k!r} covers all {what} (total weight {n:g}), so every ranking has the same "
        "score; use a smaller k"
    )


def warn_of_scores(y_true, y_score, positive, name="y_score", advice=None):
    """Warn if `y_score` holds predicted labels, or ranks positives below negatives.

    By default, the ranking is checked only if the positive label is the smaller label, because
    `decision_function` returns scores of the larger label. With `advice`, it is always checked.
    """
    y_true = np.asarray(on_host(y_true, "y_true")).ravel()
    y_score = np.asarray(on_host(y_score, "y_score"))
    labels = np.unique(y_score) if y_score.dtype.kind in "iub" and y_score.size > 2 else ()
    if len(labels) == 2 and np.array_equal(labels, np.unique(y_true)):
        warn(
            f"y_score must hold scores; got only the labels {labels[0]} and {labels[1]}, as from "
            "predict. Pass the output of decision_function, or predict_proba(X)[:, 1]"
        )
    n_positives, n = int(positive.sum()), len(positive)
    n_pairs = n_positives * (n - n_positives)
    if not n_pairs:
        return
    first, second = y_true[[positive.argmax(), positive.argmin()]].tolist()
    if second < first and advice is None:
        return
    # Random scores give a ROC AUC of 0.5 with standard deviation sqrt((n + 1) / (12 * n_pairs)).
    area = (rankdata(y_score)[positive].sum() - n_positives * (n_positives + 1) / 2) / n_pairs
    if area < 0.5 - _REVERSED_DEVIATIONS * np.sqrt((n + 1) / (12 * n_pairs)):
        default = (
            f"decision_function and predict_proba(X)[:, 1] are scores of {second!r}. Pass "
            "-decision_function(X) or predict_proba(X)[:, 0], or use "
            f"make_top_scorer(..., pos_label={first!r})"
        )
        warn(f"{name} ranks {first!r} below {second!r} (ROC AUC {area:.2g}): {advice or default}")


def undefined(score, reason):
    """Return NaN, and warn that the metric with the name `score` is undefined."""
    warn(f"{score}: {reason}, the score is NaN", UndefinedMetricWarning)
    return float("nan")


def row_weights(sample_weight, n_samples, of="y_score"):
    """Return checked weights, all 1 for None. `of` names the weighted array in error messages."""
    if sample_weight is None:
        return np.ones(n_samples)
    return check_nonnegative(sample_weight, "sample_weight", n_samples, f"one per row of {of}")


def check_true(y_true, name="y_true"):
    """Return the labels as an array of shape (n_samples,), and check that none is missing."""
    y_true = np.asarray(on_host(y_true, name))
    if y_true.ndim == 2 and y_true.shape[1] == 1:
        y_true = y_true[:, 0]
    if y_true.ndim != 1:
        raise ValueError(f"{name} must have shape (n_samples,); got shape {y_true.shape}")
    refuse_missing(y_true, name)
    return y_true


def is_positive(y_true, pos_label):
    """Return a Boolean mask of the positives. ``pos_label=None`` means the label 1 or True."""
    y_true = check_true(y_true)
    check_pos_label(pos_label)
    labels = set(y_true.tolist())
    named = labels if pos_label is None else labels | {pos_label}
    kinds = {str if isinstance(label, str) else type(label) for label in named}
    if not (kinds <= {str} or all(issubclass(kind, Real | np.bool_) for kind in kinds)):
        raise ValueError(
            "y_true and pos_label must be all strings or all numbers, without missing labels; "
            f"got {sorted(kind.__name__ for kind in kinds)}"
        )
    if len(labels) > 2:
        raise ValueError(f"y_true must hold two labels; {_how_to_make_binary(labels)}")
    if pos_label is None:
        if not is_told(labels):
            held = " and ".join(map(repr, sorted(labels)))
            raise ValueError(
                f"pos_label must be given for labels other than 0 and 1, -1 and 1, or booleans; "
                f"got pos_label=None and these labels in y_true: {held}"
            )
        pos_label = 1
    elif len(named) > 2:
        raise ValueError(f"pos_label must be one of {sorted(labels)}; got {pos_label!r}")
    return y_true == pos_label


def _how_to_make_binary(labels):
    in_order = sorted(labels)
    if len(labels) > 20 and not isinstance(in_order[0], str):
        example = in_order[int(0.9 * len(labels))]
        return f"got {len(labels)} values. Make it binary, for example y_true >= {example:.4g}"
    some = ", ".join(map(repr, in_order[:5])) + (", ..." if len(labels) > 5 else "")
    return f"got {len(labels)}: {some}. Make it binary, for example y_true == {in_order[-1]!r}"


def check_score(y_score, n_samples):
    """Return `y_score` as a real array of shape (n_samples,). Infinities are allowed."""
    y_score = np.asarray(on_host(y_score, "y_score"))
    if y_score.dtype.kind not in "fiub":
        raise ValueError(f"y_score must hold real numbers; got dtype {y_score.dtype}")
    if y_score.ndim != 1:
        raise ValueError(
            "y_score must have shape (n_samples,): pass only the column of the positive class; "
            f"got shape {y_score.shape}"
        )
    if len(y_score) != n_samples:
        raise ValueError(f"y_score must have {n_samples} scores, one per label; got {len(y_score)}")
    if np.isnan(y_score).any():
        raise ValueError("y_score must not contain NaN; got NaN")
    return y_score


def check_rate(value, name, *, zero=False):
    allowed = f"{name} must be a number in {'[' if zero else '('}0, 1]"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{allowed}; got {value!r}")
    if not (0 <= value <= 1 if zero else 0 < value <= 1):
        raise ValueError(f"{allowed}; got {value!r}")
