"""The order of samples by score, with its ties: all that a score of the top needs."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._groups import encode_groups
from sktopk._common._labels import refuse_missing
from sktopk._common._scalars import (
    check_k,
    check_nonnegative,
    check_option,
    is_told,
    n_kept,
    on_host,
)
from sktopk._common._warnings import warn

TIES = ("expected", "optimistic", "pessimistic")
# Sums of weights that differ by rounding count as equal: .07 * 100 is a little more than 7.
_ROUNDING = 1e-10
# Standard deviations.
_SURELY = 4


@dataclass(frozen=True)
class Ranking:
    """Blocks of samples that share a score, best first, group by group.

    Each array has one entry per block. `weight`, `value` and `negative` are sums over the samples
    of the block: of the weight, of weight times value, and of weight times 1 - value. A positive
    has the value 1, a negative the value 0. `count` is the number of samples, `group` the group.
    Samples of one block are selected in random order, so that the expected value found is
    proportional to the selected weight. The other settings of `ties` split a block by value.
    """

    weight: np.ndarray
    value: np.ndarray
    negative: np.ndarray
    count: np.ndarray
    group: np.ndarray

    @classmethod
    def from_labels(
        cls, y_true, y_score, pos_label, sample_weight, *, ties="expected", groups=None
    ):
        """Check labels and scores and rank them; warn of scores that look wrong."""
        positive = is_positive(y_true, pos_label)
        ranking = cls.from_values(positive, y_score, sample_weight, ties=ties, groups=groups)
        warn_of_scores(y_true, y_score, positive)
        return ranking

    @classmethod
    def from_values(cls, value, y_score, sample_weight=None, *, ties="expected", groups=None):
        """Rank samples of known value, an array; samples of weight 0 are absent."""
        check_option(ties, "ties", TIES)
        n_samples = len(value)
        value = value.astype(np.float64)
        y_score = check_score(y_score, n_samples)
        weight = row_weights(sample_weight, n_samples)
        group = np.zeros(n_samples, dtype=np.intp)
        if groups is not None:
            group = encode_groups(groups, n_samples)
        # From the least to the most important, as lexsort wants them.
        keys = [y_score] if groups is None else [y_score, group]
        if ties != "expected":
            keys.insert(0, value if ties == "optimistic" else -value)
        present = np.flatnonzero(weight > 0)
        order = present[np.lexsort([key[present] for key in keys])[::-1]]
        starts_block = np.zeros(len(order), dtype=bool)
        starts_block[:1] = True
        for key in keys:
            in_order = key[order]
            starts_block[1:] |= in_order[1:] != in_order[:-1]
        start = np.flatnonzero(starts_block)
        weight = weight[order]
        return cls(
            weight=np.add.reduceat(weight, start),
            value=np.add.reduceat(weight * value[order], start),
            # A difference would lose a light negative beside a heavy positive.
            negative=np.add.reduceat(weight * (1 - value[order]), start),
            count=np.diff(start, append=len(order)),
            group=group[order[start]],
        )

    @property
    def total_weight(self):
        """Weight of all rows."""
        return self.cumulative_weight[-1]

    @property
    def total_value(self):
        """Value of all rows: of labels the weight of the positives."""
        return self.cumulative_value[-1]

    @property
    def cumulative_weight(self):
        """Weight looked at after 0, 1, ... blocks."""
        return np.concatenate([[0.0], np.cumsum(self.weight)])

    @property
    def cumulative_value(self):
        """Value found after 0, 1, ... blocks."""
        return np.concatenate([[0.0], np.cumsum(self.value)])

    @property
    def cumulative_negatives(self):
        """Of labels, the weight of the negatives after 0, 1, ... blocks."""
        return np.concatenate([[0.0], np.cumsum(self.negative)])

    @property
    def average_precision(self):
        """Of labels with positives: the mean over these of the precision down to their block."""
        found = self.cumulative_value[1:]
        return float(self.value @ (found / self.cumulative_weight[1:]) / found[-1])

    def missing_class(self):
        """Return "no positives" or "no negatives" if so, else None."""
        if not self.total_value:
            return "no positives"
        return None if self.cumulative_negatives[-1] else "no negatives"

    def best(self, k):
        """Return value and weight expected among the `k` best of each group, and the places.

        `k` counts weight or is a fraction of a group's; there may be more places than weight.
        """
        check_k(k)
        is_first = np.diff(self.group, prepend=-1) != 0
        nth_group = np.cumsum(is_first) - 1
        size = np.bincount(nth_group, weights=self.weight)
        if isinstance(k, Integral):
            places = np.full(len(size), float(k))
        else:
            # Rounded up to whole rows, but never to more than there is: where that is less than
            # one, to rows as light as they are in the mean.
            mean = size / np.bincount(nth_group, weights=self.count)
            row = np.where(k * size < 1, np.minimum(mean, 1.0), 1.0)
            places = np.array([n_kept(k, n) for n in size / row]) * row
            places = np.minimum(places, size)
        before = _sum_before(self.weight, is_first)
        share = np.clip((places[nth_group] - before) / self.weight, 0.0, 1.0)
        return (share * self.value).sum(), (share * self.weight).sum(), places

    def curve(self):
        """Return the weight looked at after 0, 1, ... rows and the value expected in it."""
        # Any order of a block's rows gives the same curve: they take equal shares of its weight.
        per_row = np.repeat(self.weight / self.count, self.count)
        looked_at = np.concatenate([[0.0], np.cumsum(per_row)])
        return looked_at, np.interp(looked_at, self.cumulative_weight, self.cumulative_value)


def _sum_before(weight, is_first):
    """Return the weight before each block in its group, to full precision.

    Differences of sums over all blocks would lose light rows that stand beside heavy ones. So
    each sum is doubled in length, until it reaches the start of the group.
    """
    before = np.concatenate([[0.0], weight])[:-1]
    start = np.flatnonzero(is_first)
    if len(start) < 2:
        return np.cumsum(before)
    before[start] = 0.0
    place = np.arange(len(weight)) - np.repeat(start, np.diff(start, append=len(weight)))
    step = 1
    while step <= place.max():
        before[step:] += np.where(place[step:] >= step, before[:-step], 0.0)
        step *= 2
    return before


def first_reaching(cumulative, level):
    """Return the first index at which the cumulative sum is at least `level`, up to rounding."""
    return np.searchsorted(cumulative, level * (1 - _ROUNDING), side="left")


def last_within(cumulative, level):
    """Return the last index at which the cumulative sum is at most `level`, up to rounding."""
    return np.searchsorted(cumulative, level * (1 + _ROUNDING), side="right") - 1


def warn_of_few(score, k, n, what):
    """Warn the user of the function called `score` that `k` leaves nothing of `n` to choose."""
    warn(
        f"{score}: k={k!r} exceeds the number of {what} ({n:g}); the score is the same for any "
        "order of the rows"
    )


def warn_of_scores(y_true, y_score, positive):
    """Warn the user of scores that are labels, or of the label that is not the positive one."""
    y_true = np.asarray(on_host(y_true, "y_true"))
    y_score = np.asarray(on_host(y_score, "y_score"))
    _warn_of_labels(y_true, y_score)
    n_positives, n = int(positive.sum()), len(positive)
    n_pairs = n_positives * (n - n_positives)
    if not n_pairs:
        return
    first, second = y_true[[positive.argmax(), positive.argmin()]].tolist()
    if second < first:
        return
    # The area under the ROC curve, and its standard deviation where scores say nothing.
    ranks = rankdata(y_score)[positive].sum()
    area = (ranks - n_positives * (n_positives + 1) / 2) / n_pairs
    if area < 0.5 - _SURELY * np.sqrt((n + 1) / (12 * n_pairs)):
        warn(
            f"y_score ranks {first!r} below {second!r} (area under the ROC curve {area:.2g}): a "
            "decision_function, and the last column of predict_proba, are of the label that sorts "
            f"second, {second!r}. If y_score is one of them, pass -decision_function(X), "
            f"predict_proba(X)[:, 0], or take make_top_scorer(..., pos_label={first!r})"
        )


def _warn_of_labels(y_true, y_score):
    """Warn the user who ranks by what looks like the labels of `predict`."""
    if y_score.dtype.kind not in "iub" or len(labels := np.unique(y_score)) != 2:
        return
    if y_score.size > 2 and np.array_equal(labels, np.unique(y_true)):
        warn(
            f"y_score holds the labels {labels[0]} and {labels[1]} of y_true and nothing else; it "
            "must hold scores, the larger the likelier positive, as decision_function or "
            "predict_proba gives them: predict leaves no order among the rows of a label"
        )


def undefined(score, reason):
    """Return NaN for the function called `score`, and warn its user."""
    warn(f"{score}: {reason}, the score is NaN", UndefinedMetricWarning)
    return float("nan")


def row_weights(sample_weight, n_samples, of="y_score"):
    """Return a nonnegative weight for each row of `of`, 1 where none are given."""
    if sample_weight is None:
        return np.ones(n_samples)
    return check_nonnegative(sample_weight, "sample_weight", n_samples, f"one per row of {of}")


def check_true(y_true):
    """Return the labels as an array of one per sample, none missing."""
    y_true = np.asarray(on_host(y_true, "y_true"))
    if y_true.ndim == 2 and y_true.shape[1] == 1:
        y_true = y_true[:, 0]
    if y_true.ndim != 1:
        raise ValueError(f"y_true must have shape (n_samples,); got shape {y_true.shape}")
    refuse_missing(y_true, "y_true")
    return y_true


def is_positive(y_true, pos_label):
    """Return the mask of the samples labelled `pos_label`; None is 1 or True."""
    y_true = check_true(y_true)
    labels = set(y_true.tolist())
    named = labels if pos_label is None else labels | {pos_label}
    kinds = {str if isinstance(label, str) else type(label) for label in named}
    if not (kinds <= {str} or all(issubclass(kind, Real | np.bool_) for kind in kinds)):
        raise ValueError(
            "y_true and pos_label must be labels of one kind, strings or numbers, none missing; "
            f"got {sorted(kind.__name__ for kind in kinds)}"
        )
    if len(labels) > 2:
        raise ValueError(f"y_true must hold two labels; {_how_to_make_binary(labels)}")
    if pos_label is None:
        if not is_told(labels):
            held = " and ".join(map(repr, sorted(labels)))
            raise ValueError(
                f"y_true holds only {held}, which does not tell what is positive: pass "
                "pos_label, the label of the positives"
            )
        pos_label = 1
    elif len(named) > 2:
        raise ValueError(f"pos_label must be one of {sorted(labels)}; got {pos_label!r}")
    if pos_label not in labels:
        return np.zeros(len(y_true), dtype=bool)
    return y_true == pos_label


def _how_to_make_binary(labels):
    in_order = sorted(labels)
    if len(labels) > 20 and not isinstance(in_order[0], str):
        example = in_order[int(0.9 * len(labels))]
        return f"got {len(labels)} values. Make it binary, for example y_true >= {example:.4g}"
    some = ", ".join(map(repr, in_order[:5])) + (", ..." if len(labels) > 5 else "")
    return f"got {len(labels)}: {some}. Make it binary, for example y_true == {in_order[-1]!r}"


def check_score(y_score, n_samples):
    """Return `y_score` as an array of one real number per row, infinities included."""
    y_score = np.asarray(on_host(y_score, "y_score"))
    if y_score.dtype.kind not in "fiub":
        raise ValueError(f"y_score must hold real numbers; got dtype {y_score.dtype}")
    if y_score.ndim != 1:
        raise ValueError(
            "y_score must have shape (n_samples,), the scores of the positives, of two columns "
            f"the second; got shape {y_score.shape}"
        )
    if len(y_score) != n_samples:
        raise ValueError(
            f"y_score must have one score per row of y_true, {n_samples}; got {len(y_score)}"
        )
    if np.isnan(y_score).any():
        raise ValueError("y_score must not contain NaN; got NaN")
    return y_score


def check_rate(value, name, *, zero=False):
    """Raise unless `value` is a number in (0, 1], or in [0, 1] where `zero` is allowed."""
    allowed = f"{name} must be a number in {'[' if zero else '('}0, 1]"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{allowed}; got {value!r}")
    if not (0 <= value <= 1 if zero else 0 < value <= 1):
        raise ValueError(f"{allowed}; got {value!r}")
