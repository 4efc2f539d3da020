"""Slow definitions of the losses that are linear programs: loops and enumeration.

Arguments are lists: scores, labels in {0, 1} and weights.
"""

import math
from itertools import combinations, pairwise

from tests.losses import top_references

SURROGATES = top_references.SURROGATES | {"ramp": lambda z: min(max(0.0, 1 + z), 1.0)}


def pair_mean(scores, is_positive, is_negative, weights, margin, surrogate):
    """Weighted mean of l((s_j - s_i) / m), or None if there is no pair."""
    rows = range(len(scores))
    pairs = [(i, j) for i in rows if is_positive[i] for j in rows if is_negative[j]]
    total = sum(weights[i] * weights[j] for i, j in pairs)
    if not total:
        return None
    each = ((SURROGATES[surrogate]((scores[j] - scores[i]) / margin), i, j) for i, j in pairs)
    return sum(weights[i] * weights[j] * loss for loss, i, j in each) / total


def pairwise_auc(scores, labels, weights, margin=1.0, surrogate="hinge"):
    positive, negative = ([y == label for y in labels] for label in (1, 0))
    return pair_mean(scores, positive, negative, weights, margin, surrogate) or 0.0


def multi_class_auc(scores, labels, weights, multi_class, margin=1.0, surrogate="hinge"):
    """`scores` is a list of rows."""
    classes, means = range(len(scores[0])), []
    for a in classes:
        of_a, column = [y == a for y in labels], [row[a] for row in scores]
        if multi_class == "ovr":
            pairs = [(column, [y != a for y in labels])]
        elif multi_class == "ovo":
            pairs = [(column, [y == b for y in labels]) for b in classes if b != a]
        else:
            pairs = [
                ([row[a] - row[b] for row in scores], [y == b for y in labels])
                for b in classes[a + 1 :]
            ]
        for values, others in pairs:
            means.append(pair_mean(values, of_a, others, weights, margin, surrogate))
    means = [mean for mean in means if mean is not None]
    return sum(means) / len(means) if means else 0.0


def hinge_sums(scores, labels, weights, tau, margin):
    """P and N: weighted sums of the hinges of positives and of negatives."""
    P = N = 0.0
    for s, y, w in zip(scores, labels, weights, strict=True):
        if y == 1:
            P += w * max(0.0, 1 - (s - tau) / margin)
        else:
            N += w * max(0.0, 1 + (s - tau) / margin)
    return P, N


def class_weights(labels, weights):
    positive = sum(w for y, w in zip(labels, weights, strict=True) if y == 1)
    return positive, sum(weights) - positive


def kinks(scores, labels, margin):
    return sorted(s - margin if y == 1 else s + margin for s, y in zip(scores, labels, strict=True))


def fbeta(scores, labels, weights, beta=1.0, margin=1.0):
    total, other = class_weights(labels, weights)
    if not total or not other:
        return 0.0
    found = []
    for tau in kinks(scores, labels, margin):
        P, N = hinge_sums(scores, labels, weights, tau, margin)
        if P < total:
            found.append(1 - (1 + beta**2) * (total - P) / ((1 + beta**2) * total - P + N))
    return min(found)


def crossing(function, low, high):
    """The root of a monotone function by bisection, to the last digit."""
    rising = function(low) <= function(high)
    while (middle := (low + high) / 2) not in (low, high):
        if (function(middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return middle


def precision_at_recall(scores, labels, weights, recall, margin=1.0):
    total, other = class_weights(labels, weights)
    if not total or not other:
        return 0.0

    def missing(tau):
        return hinge_sums(scores, labels, weights, tau, margin)[0] / total - (1 - recall)

    tau = crossing(missing, min(scores) - 2 * margin, max(scores) + 2 * margin)
    return hinge_sums(scores, labels, weights, tau, margin)[1] / other


def recall_at_fpr(scores, labels, weights, fpr, margin=1.0):
    total, other = class_weights(labels, weights)
    if not total or not other:
        return 0.0

    def excess(tau):
        return hinge_sums(scores, labels, weights, tau, margin)[1] / other - fpr

    tau = crossing(excess, min(scores) - 2 * margin, max(scores) + 2 * margin)
    return hinge_sums(scores, labels, weights, tau, margin)[0] / total


def recall_at_precision(scores, labels, weights, precision, margin=1.0, penalty=2.0):
    """The best threshold is a kink, or a root of the violation."""
    total, other = class_weights(labels, weights)
    if not total or not other:
        return 0.0

    def violation(tau):
        P, N = hinge_sums(scores, labels, weights, tau, margin)
        return precision * N - (1 - precision) * (total - P)

    candidates = kinks(scores, labels, margin)
    for low, high in pairwise(kinks(scores, labels, margin)):
        if violation(low) * violation(high) < 0:
            candidates.append(crossing(violation, low, high))
    return min(
        hinge_sums(scores, labels, weights, tau, margin)[0] / total
        + penalty * max(0.0, violation(tau)) / other
        for tau in candidates
    )


def precision_at_k(scores, labels, weights, k, margin=1.0):
    """All sets of k rows; integer weights repeat rows."""
    rows = [
        (s, y) for s, y, w in zip(scores, labels, weights, strict=True) for _ in range(round(w))
    ]
    total, other = class_weights(labels, weights)
    if not total or not other:
        return 0.0
    k = min(k, len(rows))
    best_right = best_any = -math.inf
    for chosen in combinations(rows, k):
        value = sum(s for s, _ in chosen) / (k * margin)
        n_positive = sum(y == 1 for _, y in chosen)
        if n_positive == min(k, total):
            best_right = max(best_right, value)
        best_any = max(best_any, value + (k - n_positive) / k)
    return best_any - best_right
