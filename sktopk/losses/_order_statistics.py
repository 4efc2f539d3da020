"""The k-th largest score of each sample, exact or smoothed by Gaussian noise."""

import math
from statistics import NormalDist

import torch
from torch.nn import functional as F

from ._loss import check_count, check_nonnegative, check_tensor, nan_above, value_range

# The quadrature covers the k-th largest score +- _REACH standard deviations of the noise.
_REACH = 7.5


def lead(others, label):
    # The result is NaN where `label` is NaN or inf. Otherwise, it is -inf where `others` is -inf.
    ends = value_range(others)
    if ends is not None and ends[0] > -math.inf:
        return others - nan_above(label, label)
    missing = (others == -torch.inf) & (label < torch.inf)
    return torch.where(missing, others, others - nan_above(label, label))


def kth_largest(scores, k):
    """Return the k-th largest score of each sample. If scores tie, only one gets a gradient."""
    return _kth_and_class(scores, k)[0]


def _kth_and_class(scores, k):
    best, classes = scores.topk(k, dim=1)  # NaN counts as the largest
    return nan_above(best[:, -1], best[:, 0]), classes[:, -1]


def noised_kth_largest(scores, rank, sigma, n_noise, noise, generator):
    """Check the parameters, and return the `rank`-th largest score, smoothed by noise."""
    sigma = check_nonnegative(sigma, "sigma")
    if noise is not None:
        check_tensor(noise, "noise")
        if noise.ndim != 3 or noise.shape[:2] != scores.shape or noise.shape[2] == 0:
            raise ValueError(
                f"noise must have shape ({scores.shape[0]}, {scores.shape[1]}, n_draws); "
                f"got {tuple(noise.shape)}"
            )
    elif n_noise != "exact":
        check_count(n_noise, "n_noise", 'an integer or "exact"')
    if sigma == 0:
        return kth_largest(scores, rank)
    if noise is None and n_noise == "exact":
        return expected_kth_largest(scores, rank, sigma).to(scores.dtype)
    n_samples, n_classes = scores.shape
    # Draw noise for all classes if there are few classes, or if torch.compile needs fixed shapes.
    few = n_samples == 0 or 3 * _n_top(n_classes, rank) > n_classes
    if noise is None and (torch.compiler.is_compiling() or few):
        noise = _standard_normal((n_samples, n_classes, n_noise), scores, generator)
    if noise is not None:
        return mean_noised_kth_largest(scores, rank, sigma, noise.to(scores))
    sample = _sample_kth_largest if scores.device.type == "cpu" else _draw_kth_largest
    with torch.no_grad():
        value, winner = sample(scores, rank, sigma, n_noise, generator)
    return _mean_at(scores, value, winner)


def mean_noised_kth_largest(scores, k, sigma, noise):
    """Return the k-th largest entry of ``scores + sigma * noise``, averaged over noise samples."""
    with torch.no_grad():
        noised = torch.add(scores.unsqueeze(2), noise, alpha=sigma)
        value, winner = _kth_and_class(noised, k)
    return _mean_at(scores, value, winner)


def expected_kth_largest(scores, k, sigma):
    r"""Return the expectation of the k-th largest entry of :math:`s + \sigma Z` by quadrature.

    Let N(x) be the number of noised scores above x. If a is far below all scores, the expectation
    is :math:`a + \int_a^\infty P(N(x) \ge k) \, dx`. The probability of N(x) = i is the coefficient
    of :math:`z^i` in the product of the polynomials :math:`1 - p_j + p_j z` over all classes j,
    where :math:`p_j` is the probability that the noised score of class j is above x.
    """
    # In products of many probabilities, float32 would lose digits.
    dtype = torch.float64 if scores.shape[1] > 200 else scores.dtype
    centre = kth_largest(scores, k).detach().to(dtype)
    absent = centre == -torch.inf
    centre = centre.masked_fill(absent, 0.0)
    # If the k-th largest noised score has variance v, the quadrature error is
    # exp(-2 (pi / step)^2 v). If all n scores are equal, v is smallest: about 1 / (2 k log n).
    n_steps = math.ceil(2 * _REACH * math.sqrt(3 * k * math.log(scores.shape[1] + 1)))
    step = 2 * _REACH / n_steps
    offset = torch.arange(n_steps + 1, dtype=dtype, device=scores.device) * step - _REACH
    # Clamp scores of -inf: the second derivative of `ndtr` at infinity would be NaN.
    scores = scores.to(dtype).clamp(min=1e-4 * torch.finfo(scores.dtype).min)
    level = ((centre.unsqueeze(1) - scores) / sigma).unsqueeze(1) + offset.unsqueeze(1)
    factors = [torch.special.ndtr(level), torch.special.ndtr(-level)]
    while factors[0].shape[2] > 1:
        factors = _multiply_pairs(factors, k)
    exceeds = 1 - sum(factors[:k]).squeeze(2)
    value = centre + sigma * (step * (exceeds.sum(1) - 0.5) - _REACH)
    return value.masked_fill(absent, -torch.inf)


def _multiply_pairs(factors, n_terms):
    """Multiply neighboring polynomials in pairs. Keep the first `n_terms` coefficients."""
    if factors[0].shape[2] % 2:
        # If the number of polynomials is odd, append the polynomial 1 to complete the last pair.
        factors = [F.pad(f, (0, 1), value=float(i == 0)) for i, f in enumerate(factors)]
    left, right = [f[..., 0::2] for f in factors], [f[..., 1::2] for f in factors]
    degree = len(factors) - 1
    return [
        sum(left[i] * right[d - i] for i in range(max(0, d - degree), min(d, degree) + 1))
        for d in range(min(2 * degree + 1, n_terms))
    ]


def _mean_at(scores, value, winner):
    """Return the row means of `value`. Their gradients flow to the scores in columns `winner`."""
    kept = scores.gather(1, winner)
    # A selected score of -inf has noise 0, because -inf minus -inf would be NaN.
    noise = torch.where(kept == -torch.inf, 0.0, value - kept).detach()
    mean = (kept + noise).mean(1)
    return nan_above(mean, mean.detach())


def _n_top(n_classes, k):
    return math.isqrt(n_classes * k) + 1


def _expected_rises(k):
    # If 2 k + 6 noised scores exceed a level on average, it is rare that fewer than k exceed it.
    return 2 * k + 6


def _draw_kth_largest(scores, k, sigma, n_draws, generator):
    # Sample like `_sample_kth_largest`, but with noise for all classes. This is faster on a GPU.
    best = []
    for _ in range(n_draws):  # one draw at a time, which limits the memory
        noised = _standard_normal(scores.shape, scores, generator).mul_(sigma).add_(scores)
        best.append(_kth_and_class(noised, k))
    return (torch.stack(column, dim=1) for column in zip(*best, strict=True))


def _sample_kth_largest(scores, k, sigma, n_draws, generator):
    r"""Sample the k-th largest entry of :math:`s + \sigma Z` and its class, for standard normal Z.

    The distribution is exact, but the noise of most classes is not drawn. First, add noise to the c
    largest of the n scores. Let L be the k-th largest of these sums. Another class matters only if
    its noised score exceeds L, which requires :math:`Z > a = (L - s_{[c]}) / \sigma`. So draw only
    noise above a for the other classes.
    """
    # For any scores, at most n k / (c + 1) other classes have noise above a on average. The sum of
    # all draws is therefore at most c + n k / (c + 1), which is smallest for c near sqrt(n k).
    # A higher L needs fewer draws. Raise L to at least the level that `_expected_rises(k)` classes
    # exceed on average if all scores are equal. If fewer than k classes exceed L, draw all noise.
    n_samples, n_classes = scores.shape
    n_top = _n_top(n_classes, k)
    top, top_classes = scores.topk(n_top, dim=1, sorted=False)
    rest = scores.scatter(1, top_classes, -torch.inf)
    noised = _standard_normal((n_samples, n_draws, n_top), scores, generator)
    noised = noised.mul_(sigma).add_(top.unsqueeze(1)).flatten(0, 1)
    best, position = noised.topk(k, dim=1)
    winners = top_classes.gather(1, position.view(n_samples, -1)).view(-1, k)

    quantile = NormalDist().inv_cdf(1 - _expected_rises(k) / n_classes)
    level = (scores.mean(1) + sigma * quantile).repeat_interleave(n_draws)
    level = torch.maximum(level, best[:, -1])
    bound = top.amin(1).repeat_interleave(n_draws)
    # If `level` and `bound` are -inf, all classes outside `top` are masked. Draw no noise: a = inf.
    a = ((level - bound) / sigma).nan_to_num(torch.inf, torch.inf).double()
    draw, cls, z = _exceedances(a, n_classes, generator)
    value = rest.take(draw // n_draws * n_classes + cls).add_(z.mul_(sigma))
    rises = (value > best[:, -1].index_select(0, draw)).nonzero().squeeze(1)
    best, winners = _merge(best, winners, draw[rises], value[rises], cls[rises])

    short = (best[:, -1] < level).nonzero().squeeze(1)
    if len(short):
        hidden = torch.special.ndtr(a[short]).unsqueeze(1)
        hidden = torch.special.ndtri(hidden * _uniform((len(short), n_classes), a, generator))
        every = scores[short // n_draws].add_(hidden.mul_(sigma))
        every.scatter_(1, top_classes[short // n_draws], noised[short])
        slot = torch.full_like(winners[:, 0], -1)
        slot[short] = torch.arange(len(short), device=scores.device)
        known = ((slot[draw] >= 0) & (value > -torch.inf)).nonzero().squeeze(1)
        every[slot[draw[known]], cls[known]] = value[known]
        best[short], winners[short] = every.topk(k, dim=1)
    value = best[:, -1].view(n_samples, n_draws)
    return nan_above(value, top.amax(1, keepdim=True)), winners[:, -1].view(n_samples, n_draws)


def _exceedances(level, n_classes, generator):
    """Draw standard normal noise for each class, but return only noise above a level.

    `level` has one number per draw. Return three arrays: indices of draws, classes, and the noise.
    """
    # Noise exceeds a with the probability that a Poisson process of rate -log Phi(a) has an arrival
    # in unit time. One process covers all classes of all draws.
    rate = -torch.special.log_ndtr(level)
    ends = (n_classes * rate).cumsum(0)
    n_arrivals = int(torch.poisson(ends[-1], generator=generator))
    # Draw the arrival times, which are sorted uniform numbers, as scaled sums of exponentials.
    times = _uniform(n_arrivals + 1, level, generator).log_().cumsum_(0)
    times = times[:-1].mul_(ends[-1] / times[-1])
    last = torch.searchsorted(times, ends)
    last[-1] = n_arrivals
    counts = torch.diff(last, prepend=last.new_zeros(1))
    draw = torch.repeat_interleave(counts, output_size=n_arrivals)
    cls = ends.index_select(0, draw).sub_(times).div_(rate.index_select(0, draw)).long()
    # So far, `cls` counts from the last class. Count from the first, and clamp rounding errors.
    cls = cls.neg_().add_(n_classes - 1).clamp_(0, n_classes - 1)
    first = torch.ones_like(draw, dtype=torch.bool)
    first[1:] = (cls[1:] != cls[:-1]) | (draw[1:] != draw[:-1])
    draw, cls = draw[first], cls[first]
    tail = torch.special.ndtr(-level).index_select(0, draw)
    return draw, cls, torch.special.ndtri(tail.mul_(_uniform(len(draw), level, generator))).neg_()


def _standard_normal(size, like, generator):
    # torch.compile does not support `torch.randn` with a generator and variable sizes.
    return like.new_empty(size).normal_(generator=generator)


def _uniform(size, like, generator):
    # Return numbers in (0, 1] instead of [0, 1), because the logarithm of 0 is infinite.
    return 1 - torch.rand(size, dtype=like.dtype, device=like.device, generator=generator)


def _merge(best, winners, draw, value, cls):
    """Merge new values into the k best of each draw. Return two arrays: values and classes."""
    k = best.shape[1]
    active, row, count = torch.unique_consecutive(draw, return_inverse=True, return_counts=True)
    width = k + int(count.max()) if len(draw) else k
    first = count.cumsum(0) - count
    column = torch.arange(k, k + len(draw), device=draw.device) - first.index_select(0, row)
    values = best.new_full((len(active), width), -torch.inf)
    classes = winners.new_zeros((len(active), width))
    values[:, :k], classes[:, :k] = best[active], winners[active]
    values[row, column], classes[row, column] = value, cls
    merged, position = values.topk(k, dim=1)
    winners = winners.index_copy(0, active, classes.gather(1, position))
    return best.index_copy(0, active, merged), winners
