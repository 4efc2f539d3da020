"""Slow definitions of the losses for one sample: lists of floats and loops only."""

import math
from itertools import combinations


def as_weights(target, n_classes):
    return target if isinstance(target, list) else [j == target for j in range(n_classes)]


def softmax(scores):
    odds = [math.exp(s - max(scores)) for s in scores]
    return [o / sum(odds) for o in odds]


def kth_largest(values, k):
    return sorted(values, reverse=True)[k - 1]


def others(scores, label):
    return scores[:label] + scores[label + 1 :]


def cross_entropy(scores, target, label_smoothing=0.0):
    n = len(scores)
    weights = [(1 - label_smoothing) * t + label_smoothing / n for t in as_weights(target, n)]
    return -sum(t * math.log(q) for t, q in zip(weights, softmax(scores), strict=True))


def topk_hinge(scores, label, k, margin=1.0, scaled=True):
    violation = kth_largest(others(scores, label), k) - scores[label]
    return max(0.0, margin + violation / (k if scaled else 1))


def topk_hinge_convex(scores, label, k, margin=1.0):
    violations = [s + margin * (j != label) - scores[label] for j, s in enumerate(scores)]
    return max(0.0, sum(sorted(violations, reverse=True)[:k]) / k)


def topk_hinge_calibrated(scores, label, k, margin=1.0):
    return max(0.0, margin + kth_largest(scores, k + 1) - scores[label])


def smooth_topk(scores, label, k, tau=1.0, margin=1.0):
    if not isinstance(label, int):  # soft: one weight per class
        return sum(t * smooth_topk(scores, j, k, tau, margin) for j, t in enumerate(label))

    def log_sum(subsets):
        exponents = [
            (margin * (label not in subset) + sum(scores[j] for j in subset) / k) / tau
            for subset in subsets
        ]
        return max(exponents) + math.log(sum(math.exp(e - max(exponents)) for e in exponents))

    subsets = list(combinations(range(len(scores)), k))
    return tau * (log_sum(subsets) - log_sum([s for s in subsets if label in s]))


def adjusted(scores, class_counts, factor):
    shares = [count / sum(class_counts) for count in class_counts]
    return [s + factor * math.log(share) for s, share in zip(scores, shares, strict=True)]


def smooth_topk_adjusted(scores, label, k, class_counts, tau=1.0, margin=1.0):
    return smooth_topk(adjusted(scores, class_counts, k * tau), label, k, tau, margin)


def topk_grouping(scores, target, k):
    proba, weights = softmax(scores), as_weights(target, len(scores))
    order = sorted(range(len(scores)), key=lambda j: -scores[j])
    joint = sum(weights[j] for j in order[:k]) * math.log(sum(proba[j] for j in order[:k]))
    return -joint - sum(weights[j] * math.log(proba[j]) for j in order[k:])


def topk_transition(scores, target, k, detach_weight=False):
    top = sum(sorted(softmax(scores), reverse=True)[:k])
    return (1 - top) * cross_entropy(scores, target) + top * topk_grouping(scores, target, k)


def noised_kth_largest(scores, k, sigma, noise):
    """Return the mean k-th largest noised score. `noise` has a list of draws for each class."""
    n_draws = len(noise[0])
    draws = [[s + sigma * z[b] for s, z in zip(scores, noise, strict=True)] for b in range(n_draws)]
    return sum(kth_largest(draw, k) for draw in draws) / n_draws


def noised_topk(scores, label, k, sigma, noise, margin=1.0):
    return max(0.0, margin + noised_kth_largest(scores, k + 1, sigma, noise) - scores[label])


def class_margin(label, class_counts, max_margin):
    margins = [count**-0.25 for count in class_counts]
    return max_margin * margins[label] / max(margins)


def noised_topk_imbalanced(scores, label, k, sigma, noise, class_counts, max_margin=0.2, scale=50):
    margin = class_margin(label, class_counts, max_margin)
    return scale * noised_topk(scores, label, k, sigma, noise, margin)


def focal(scores, label, gamma=2.0):
    proba = softmax(scores)[label]
    return -((1 - proba) ** gamma) * math.log(proba)


def ldam(scores, label, class_counts, max_margin=0.5, scale=30.0):
    margin = class_margin(label, class_counts, max_margin)
    return cross_entropy([scale * (s - margin * (j == label)) for j, s in enumerate(scores)], label)


def logit_adjusted(scores, label, class_counts, tau=1.0):
    return cross_entropy(adjusted(scores, class_counts, tau), label)
