"""The scores of rankings: their definitions as loops, and test cases."""

import math
from itertools import permutations, product

import numpy as np
import pytest

from sktopk import metrics
from sktopk.metrics import _top_curves


def function_called(name):
    return getattr(metrics, name, None) or getattr(_top_curves, name)


def n_selected(k, n):
    return k if isinstance(k, int) else next(i for i in range(1, n + 1) if i >= k * n - 1e-9)


def precision_at_k(in_order, k):
    k = n_selected(k, len(in_order))
    return sum(in_order[:k]) / k


def recall_at_k(in_order, k):
    return sum(in_order[: n_selected(k, len(in_order))]) / sum(in_order)


def enrichment_factor(in_order, fraction):
    return precision_at_k(in_order, fraction) / (sum(in_order) / len(in_order))


def auc_at_quantile(in_order, quantile, normalize=False):
    """Mean precision up to the quantile, by Gauss quadrature. The last sample may count in part."""
    n, end = len(in_order), quantile * len(in_order)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    area = 0.0
    for i, label in enumerate(in_order):
        width = min(1.0, end - i)
        if width > 0:
            x = i + width * (nodes + 1) / 2
            precision = (sum(in_order[:i]) + label * (x - i)) / x
            area += width / 2 * (weights * precision).sum()
    if normalize:
        return area / end / auc_at_quantile(sorted(in_order, reverse=True), quantile)
    return area / end if n else math.nan


def bedroc(in_order, alpha):
    """BEDROC by the closed form of Truchon and Bayly."""
    n, n_active = len(in_order), sum(in_order)
    ratio = n_active / n
    total = sum(math.exp(-alpha * rank / n) for rank, y in enumerate(in_order, 1) if y)
    by_chance = ratio * (1 - math.exp(-alpha)) / (math.exp(alpha / n) - 1)
    spread = math.cosh(alpha / 2) - math.cosh(alpha / 2 - alpha * ratio)
    scaled = total / by_chance * ratio * math.sinh(alpha / 2) / spread
    return scaled + 1 / (1 - math.exp(alpha * (1 - ratio)))


def cases(*definitions):
    called = [function_called(f"{definition.__name__}_score") for definition, _ in definitions]
    return [(score, *each) for score, each in zip(called, definitions, strict=True)]


BY_ORDER = cases(
    (precision_at_k, {"k": 1}),
    (precision_at_k, {"k": 3}),
    (precision_at_k, {"k": 0.4}),
    (recall_at_k, {"k": 2}),
    (recall_at_k, {"k": 0.7}),
    (enrichment_factor, {"fraction": 0.3}),
    (enrichment_factor, {"fraction": 1.0}),
    (auc_at_quantile, {"quantile": 0.35}),
    (auc_at_quantile, {"quantile": 1}),
    (auc_at_quantile, {"quantile": 0.6, "normalize": True}),
    (bedroc, {"alpha": 20.0}),
    (bedroc, {"alpha": 0.5}),
)
by_order = pytest.mark.parametrize(("score", "reference", "params"), BY_ORDER)


def rates(y, s, w, threshold):
    flagged = [(label, weight) for label, x, weight in zip(y, s, w, strict=True) if x >= threshold]
    n_positive = sum(weight for label, weight in zip(y, w, strict=True) if label)
    found = sum(weight for label, weight in flagged if label)
    false = sum(weight for label, weight in flagged if not label)
    return found, found / n_positive, false, false / (sum(w) - n_positive)


def precision_at_recall(y, s, w, recall):
    for threshold in sorted(set(s), reverse=True):
        found, tpr, false, _ = rates(y, s, w, threshold)
        if tpr >= recall - 1e-9:
            return found / (found + false)


def recall_at_precision(y, s, w, precision):
    at = [rates(y, s, w, threshold) for threshold in set(s)]
    kept = [tpr for found, tpr, false, _ in at if found >= precision * (found + false) - 1e-9]
    return max(kept, default=0.0)


def positives_at_top(y, s, w, k):
    in_order = sorted(((x, weight) for label, x, weight in zip(y, s, w, strict=True) if not label))
    bar, total = -math.inf, 0.0
    while in_order and total < k:
        bar, weight = in_order.pop()
        total += weight
    if total < k:
        return 1.0
    positive = [(x, weight) for label, x, weight in zip(y, s, w, strict=True) if label]
    return sum(weight for x, weight in positive if x > bar) / sum(weight for _, weight in positive)


def true_positive_rate_at_fpr(y, s, w, fpr):
    at = [rates(y, s, w, threshold) for threshold in [*set(s), math.inf]]
    # The scores of these cases are finite: a threshold above all of them flags nothing.
    return max(tpr for _, tpr, _, reached in at if reached <= fpr + 1e-9)


BY_THRESHOLD = cases(
    *((precision_at_recall, {"recall": recall}) for recall in (0.05, 0.5, 1)),
    *((recall_at_precision, {"precision": precision}) for precision in (0.5, 0.99)),
    *((positives_at_top, {"k": k}) for k in (1, 4, 1000)),
    *((true_positive_rate_at_fpr, {"fpr": fpr}) for fpr in (0, 0.2, 1.0)),
)
by_threshold = pytest.mark.parametrize(("score", "reference", "params"), BY_THRESHOLD)
SCORES = [(score, params) for score, _, params in BY_ORDER + BY_THRESHOLD]
SCORES += [(function_called("partial_auc_log_score"), {"min_fpr": 0.1, "max_fpr": 0.9})]
every_score = pytest.mark.parametrize(("score", "params"), SCORES)


def orders(score):
    """All orders of the samples, best first, in which ties can be broken."""
    blocks = [np.flatnonzero(score == s) for s in sorted(set(score), reverse=True)]
    for chosen in product(*map(permutations, blocks)):
        yield [row for block in chosen for row in block]


def tied_case(seed, n=9):
    """Labels of both kinds, and scores with up to four ties and infinities."""
    rng = np.random.default_rng(seed)
    scores = np.array([-np.inf, -1.0, 0.0, 2.0, np.inf])
    while True:
        y_true, y_score = rng.random(n) < 0.4, rng.choice(scores, n)
        if 0 < y_true.sum() < n and np.unique(y_score, return_counts=True)[1].max() <= 4:
            return y_true, y_score


def large_case(seed, n=300):
    """Many samples with integer weights. Some scores tie, and some weights are 0."""
    rng = np.random.default_rng(seed)
    y_true = (rng.random(n) < 0.2).astype(int)
    y_score = (y_true + rng.normal(size=n)).round(1)
    return y_true, y_score, rng.integers(0, 4, n).astype(float)
