"""Calibration of probabilities, and correction of training scores for overfitting."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp, softmax

from sktopk._common._samples import chunks

# `scores_as_unseen` needs at least this number of different held-out scores per class and member.
LEAST_UNSEEN = 3


def fit_calibration(scores, target, weight):
    if scores.ndim == 2 and scores.shape[1] > 1:
        return fit_temperature(scores, target, weight)
    return fit_sigmoid(scores.ravel().astype(np.float64), target, weight)


def fit_temperature(scores, target, weight):
    """Return slope 1 / T and intercept 0. T minimizes the cross-entropy of softmax(scores / T).

    The target probability is (n + 1) / (n + 2) for the label of a sample, and 1 / (n + 2) for the
    highest-scoring other class. n is the larger of two numbers: the sum of the weights, and the
    number of positive weights. If no sample is misclassified, these targets keep 1 / T finite.
    """
    rows = np.flatnonzero(weight)  # 0 * inf would be NaN
    scores, target, weight = scores[rows], target[rows], weight[rows]
    own, other = np.empty((2, len(scores)))
    spread, parts = 1e-300, [*chunks(*scores.shape)]  # chunks limit the memory
    for part in parts:
        block = scores[part].astype(np.float64)
        label = np.arange(len(block)), target[part]
        # Classes with the score -inf are masked: the slope does not change their probability of 0.
        present = block > -np.inf
        distance = np.abs(block - block.mean(1, keepdims=True, where=present))
        spread = max(spread, distance.max(where=present, initial=0.0))
        own[part], block[label] = block[label], -np.inf
        best = block.max(axis=1)
        other[part] = np.where(np.isfinite(best), best, own[part])
    rest = 1 / (weight.sum() / min(weight.mean(), 1.0) + 2)

    def cross_entropy(log_slope):
        slope = np.exp(log_slope)
        total = [logsumexp(slope * scores[part].astype(np.float64), axis=1) for part in parts]
        each = np.concatenate(total) - slope * ((1 - rest) * own + rest * other)
        return np.average(each, weights=weight)

    # Bounds of the log slope, at which the softmax is nearly uniform and nearly one-hot.
    bounds = np.log(1e-3 / spread), np.log(1e4 / spread)
    return float(np.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded").x)), 0.0


def fit_sigmoid(scores, target, weight):
    """Return slope and intercept of Platt's sigmoid.

    The targets (n_pos + 1) / (n_pos + 2) of positives and 1 / (n_neg + 2) of negatives keep the
    slope finite if the classes are separable. n_pos and n_neg are the sums of the sample weights of
    positives and negatives. If the mean weight is below 1, both sums are divided by this mean.
    """
    # Import this class only if it is needed: the import takes a tenth of a second.
    from sklearn.linear_model import LogisticRegression

    mean_weight = weight[weight > 0].mean()
    weight = weight / mean_weight
    # Standardize the scores, because the stopping criterion of the solver depends on the scale.
    mean = np.average(scores, weights=weight)
    spread = np.sqrt(np.average((scores - mean) ** 2, weights=weight))
    spread = spread if np.ptp(scores[weight > 0]) else 1.0
    positive, unit = target == 1, max(mean_weight, 1.0)
    n_pos, n_neg = unit * weight[positive].sum(), unit * weight[~positive].sum()
    soft = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))
    platt = LogisticRegression(C=np.inf).fit(
        np.tile((scores[:, np.newaxis] - mean) / spread, (2, 1)),
        np.repeat([1, 0], len(target)),
        sample_weight=np.concatenate([weight * soft, weight * (1 - soft)]),
    )
    slope, middle = float(platt.coef_[0, 0] / spread), float(platt.intercept_[0])
    if slope * spread <= 1e-9:
        # The ranking of held-out samples can be worse than random if they are few. A small
        # positive slope then keeps the order, with nearly constant probabilities.
        share = np.average(soft, weights=weight)
        slope, middle = 1e-3 / spread, float(np.log(share / (1 - share)))
    return float(slope), float(middle - slope * mean)


def calibrated_proba(slope, intercept, scores):
    """Return probabilities (n_samples, n_classes). One-dimensional scores are for class 1."""
    calibrated = slope * scores.astype(np.float64) + intercept
    if scores.ndim == 1:
        proba = np.column_stack([expit(-calibrated), expit(calibrated)])
    else:
        proba = softmax(calibrated, axis=1)
    return proba.astype(scores.dtype)


def scores_as_unseen(scores, unseen, target, weight):
    r"""Return training scores, corrected to be distributed like the scores of new samples.

    A member scores its training samples differently from new samples. Let :math:`F_{mc}` be the
    distribution of the scores of member m for its training samples of class c, and :math:`G_{mc}`
    for its held-out samples of class c. The score s of a training sample is mapped to

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s).

    The difference of both quantiles is computed at the ranks p of held-out samples, and
    interpolated linearly in between. By default, the returned score of a sample is the mean of its
    scores over all members. If any member has fewer than `LEAST_UNSEEN` different held-out scores
    for class c, no score of class c is mapped. Each sample of class c then gets the mean over the
    members that held out this sample. `unseen[i, m]` is True if member m held out sample i.
    """
    scores = np.array(scores, dtype=np.float64)
    for label in np.unique(target):
        of_class = target == label
        members = zip(scores[of_class].T, unseen[of_class].T, strict=True)
        if min(len(np.unique(_rounded(own[left_out]))) for own, left_out in members) < LEAST_UNSEEN:
            few = np.where(unseen[of_class], scores[of_class], np.nan)
            scores[of_class] = np.nanmean(few, axis=1, keepdims=True)
            continue
        for own, left_out in zip(scores.T, unseen.T, strict=True):
            seen, other = of_class & ~left_out, of_class & left_out
            if weight[seen].sum() > 0:
                own[seen] += _shift(own[seen], weight[seen], own[other], weight[other])
    return scores.mean(axis=1)


def _rounded(scores):
    """Round scores to nine digits, because rounding errors can separate scores of equal samples."""
    unit = max(np.abs(scores).max(initial=0.0), 1e-300)
    return np.round(scores / unit, 9) * unit


def _shift(seen, weight, other, other_weight):
    """Return what to add to each score in `seen` to get the score of equal rank in `other`."""
    values, ranks = _mid_ranks(seen, weight)
    others, other_ranks = _mid_ranks(other, other_weight)
    shift = others - np.interp(other_ranks, ranks, values)
    # `shift` is known at the ranks of `other`. np.interp is linear in between, constant beyond.
    return np.interp(np.interp(seen, values, ranks), other_ranks, shift)


def _mid_ranks(scores, weight):
    """Return two arrays: distinct scores, and their mid-ranks as shares of the total weight."""
    values, place = np.unique(_rounded(scores[weight > 0]), return_inverse=True)
    mass = np.bincount(place, weight[weight > 0])
    return values, (mass.cumsum() - mass / 2) / mass.sum()
