r"""Exact sums over all sets of k classes, and the probability that such a set contains a class.

The sums are the elementary symmetric polynomials :math:`\sigma_k, \sigma_{k-1}` of
:math:`e_j = \exp((s_j - s_{[k]}) / (k\tau))`, where :math:`s_{[k]}` is the k-th largest score. The
classes form three groups, which avoids cancellation:

- *top*, the k largest, represented by :math:`u_j = 1 / e_j \le 1`;
- *middle*, the next k, represented by :math:`v_j = e_j \le 1`;
- *rest*, all others. Their polynomials are computed from k power sums by Newton's identities in
  float64. Only the power sums require passes over all classes.

Let :math:`T(x) = \prod_{top} (1 + u_j x)` and :math:`R(x) = \prod_{middle, rest} (1 + v_j x)` have
the coefficients :math:`T_i, R_i`. Then :math:`\sigma_{k-d} \propto Z_d = \sum_i T_{i+d} R_i` for d
= 0 and 1. All terms are positive. To avoid overflow for k <= 600, u is multiplied and v is divided
by a *tilt*: max(1, (sum of v over rest) / k). Then each factor 1 + a x is divided by 1 + a.
"""

from typing import NamedTuple

import torch

MAX_K = 600
_BLOCK = 1 << 18  # number of elements, such that two copies fit into the cache
# Selecting groups of classes, then classes, is several times as fast as torch.topk if a row has at
# least _LONG_ROW classes, or fewer than _PER_WANTED classes per selected class.
_LONG_ROW = 4096
_PER_WANTED = 64
_STRIDE = 8


def row_blocks(scores):
    """Return slices of rows that fit the CPU cache (one slice on a GPU or in torch.compile)."""
    if torch.compiler.is_compiling() or scores.device.type != "cpu":
        return [slice(None)]  # `range` would make torch.compile compile each batch size
    n_rows, n_columns = scores.shape
    step = max(1, _BLOCK // max(n_columns, 1))
    return [slice(start, start + step) for start in range(0, max(n_rows, 1), step)]


def largest(scores, m):
    """Return two tensors: the `m` largest scores of each row, descending, and their classes."""
    n_rows, n = scores.shape
    if _PER_WANTED * m <= n < _LONG_ROW or n < 4 * m * _STRIDE:
        return scores.topk(m)
    # The m largest scores of a row are in the m groups with the largest maxima.
    n_groups = n // _STRIDE
    grouped = scores[:, : n_groups * _STRIDE].view(n_rows, _STRIDE, n_groups)
    group = grouped.amax(1).topk(m, sorted=False).indices
    offset = torch.arange(_STRIDE, device=scores.device).view(1, -1, 1) * n_groups
    grouped = (group.unsqueeze(1) + offset).flatten(1)
    left_over = torch.arange(n_groups * _STRIDE, n, device=scores.device).expand(n_rows, -1)
    candidate = torch.cat([grouped, left_over], dim=1)
    values, position = scores.gather(1, candidate).topk(m)
    return values, candidate.gather(1, position)


def largest_others(scores, target, m):
    """Return the same as `largest`, but without the class `target` of each row."""
    values, classes = largest(scores, m + 1)
    passed = (classes == target.unsqueeze(1)).cumsum(1)[:, :-1].bool()
    return [torch.where(passed, each[:, 1:], each[:, :-1]) for each in (values, classes)]


def _rest_and_power_sums(scores, kth, left_out, k, scale, *, keep_rest):
    """Return v = exp((scores - kth) / scale) of the rest, and the sums of its powers 1 to k."""
    blocks = row_blocks(scores)
    rest = torch.empty_like(scores if keep_rest else scores[blocks[0]])
    p = []
    for rows in blocks:
        v = rest[rows] if keep_rest else rest[: len(kth[rows])]
        torch.sub(scores[rows], kth[rows].unsqueeze(1), out=v)
        power = v.div_(scale).exp_().scatter_(1, left_out[rows], 0.0)
        sums = [v.sum(1)]
        for i in range(1, k):
            power = power * v if i == 1 else power.mul_(v)
            sums.append(power.sum(1))
        p.append(torch.stack(sums).double())
    return rest, torch.cat(p, dim=1)


def _polynomial_of_power_sums(p, out):
    """Fill `out` with elementary symmetric polynomials of degree 0 ... k, from power sums `p`."""
    # Lost digits of these alternating sums are harmless: the k best classes dominate the results.
    k = len(p)
    signed = p.flip(0)
    signed[k % 2 :: 2] *= -1  # p_2, p_4, ...
    out[0] = 1.0
    for m in range(1, k + 1):
        out[m] = (out[:m] * signed[k - m :]).sum(0) / m


class SubsetSums(NamedTuple):
    """Sums over sets of classes: float64, except `rest`. Symbols are as in the module docstring."""

    log_ratio: torch.Tensor  # log(sigma_k / sigma_(k-1)) for e_[k] = 1; (n_samples,)
    ratio: torch.Tensor  # sigma_k / sigma_(k-1) of the tilted factors
    z: torch.Tensor  # tilted Z_0 ... Z_k, up to one factor per sample; (k + 1, n_samples)
    tilt: torch.Tensor  # (n_samples,)
    odds: torch.Tensor  # tilted factors of top and middle; (k, 2, n_samples)
    products: tuple  # entry i: a zero, then the coefficients of the product of the first i factors
    rest: torch.Tensor | None  # v of the classes in the rest, else 0; (n_samples, n_classes)


def _zeros(count, *shape, like):
    if torch.compiler.is_compiling():
        return tuple(like.new_zeros(shape) for _ in range(count))
    return like.new_zeros(count, *shape).unbind()


def subset_sums(scores, head, left_out, k, scale, *, keep_rest):
    """Return the `SubsetSums` of all classes except the label.

    `head` has the 2k largest scores of all classes except the label, or all these scores if there
    are fewer, in descending order. The k-th largest score must be finite. `left_out` has the label
    and the classes of `head`. If you call `rest_inclusion` later, set ``keep_rest=True``.
    """
    n_samples, n_classes = scores.shape
    kth = head[:, k - 1]
    factors = (head - kth.unsqueeze(1)).double().abs_().div_(-scale).exp_().t()
    if len(factors) < 2 * k:
        factors = torch.cat([factors, factors.new_zeros(2 * k - len(factors), n_samples)])
    u, v = factors[:k], factors[k:]
    products = _zeros(k + 1, k + 2, 2, n_samples, like=u)
    products[0][1] = 1.0
    tilt, rest = torch.ones_like(u[0]), None
    if left_out.shape[1] < n_classes:
        rest, p = _rest_and_power_sums(scores, kth, left_out, k, scale, keep_rest=keep_rest)
        tilt = (p[0] / k).clamp(min=1.0)
        exponent = torch.arange(1, k + 1, device=u.device, dtype=u.dtype).unsqueeze(1)
        _polynomial_of_power_sums(p / tilt**exponent, out=products[0][1:, 1])
    odds = torch.stack([u * tilt, v / tilt], dim=1)
    # Multiply by (1 - p) + p x: mix each coefficient with the previous one, the first with 0.
    for i, proba in enumerate(odds / (1.0 + odds)):
        torch.lerp(products[i][1:], products[i][:-1], proba, out=products[i + 1][1:])
    # Z_d = sum_j T_(j+d) R_j
    top, lower = products[k][1:].unbind(1)
    top = torch.cat([top, torch.zeros_like(top[1:])])
    z = top[: k + 1] * lower[0]
    for j in range(1, k + 1):
        z.addcmul_(top[j : j + k + 1], lower[j])
    ratio = z[0] / z[1]
    return SubsetSums(ratio.log() + tilt.log(), ratio, z, tilt, odds, products, rest)


def head_inclusion(sums):
    """Return two tensors, P_k(j) and P_(k-1)(j), for each class j of the 2k best classes.

    P_k(j) is the probability that a set of k classes contains class j.
    """
    odds, z, ratio, products = sums.odds, sums.z, sums.ratio, sums.products
    k = len(odds)
    proba = odds / (1.0 + odds)
    adjoint, other = _zeros(2, *products[0].shape, like=z)
    # Derivatives of the sums Z in the module docstring: dZ_0 / dT_i = R_i, dZ_1 / dR_i = T_(i+1).
    adjoint[:-1, 0] = products[k][1:, 1]
    adjoint[:-2, 1] = products[k][2:, 0]
    share = torch.empty_like(odds)
    for i in range(k - 1, -1, -1):
        share[i] = (products[i][1:] * adjoint[1:]).sum(0)
        torch.lerp(adjoint[:-1], adjoint[1:], proba[i], out=other[:-1])
        adjoint, other = other, adjoint
    share = share * proba / z[:2]
    # `share[:, 0]` has, for each of the k best classes, the probability that a k-subset omits it.
    top, middle_less_1 = 1.0 - share[:, 0], share[:, 1]
    # P_k(j) = o_j (1 - P_(k-1)(j)) gives the other values, with o_j = e_j sigma_(k-1) / sigma_k.
    top_less_1 = 1.0 - odds[:, 0] * ratio * top
    middle = odds[:, 1] / ratio * (1.0 - middle_less_1)
    return torch.cat([top, middle]), torch.cat([top_less_1, middle_less_1])


def rest_coefficients(sums):
    """Return coefficients y_1 ... y_(k+1) with P_k(j) = sum_i (-1)^i y_(i+1) o_j^(i+1).

    P_k(j) is the probability that a set of k classes contains class j, where j is not among the 2k
    best classes. P_(k-1)(j) = sum_i (-1)^i y_(i+2) o_j^(i+1). The odds o_j = e_j sigma_(k-1) /
    sigma_k have the symbols of the module docstring.
    """
    # The alternating sum is stable, because y decreases from y_1 = 1, and o_j < 1.
    step = torch.where(sums.z[:-1] > 0, sums.z[1:] / sums.z[:-1], 0.0) * sums.ratio
    return torch.cat([step.cumprod(0), torch.zeros_like(step[:1])])


def rest_inclusion(sums, coefficients):
    """Replace `sums.rest` by sum_i (-1)^i coefficients[i] o_j^(i+1). Class j has the odds o_j."""
    rest, k = sums.rest, len(coefficients)
    coefficients = coefficients.to(rest.dtype, copy=True).unsqueeze(2)
    coefficients[1::2] *= -1
    to_odds = (1.0 / (sums.ratio * sums.tilt)).to(rest.dtype).unsqueeze(1)
    for rows in row_blocks(rest):
        odds = rest[rows].mul_(to_odds[rows])
        value = odds * coefficients[-1, rows]
        for i in range(k - 2, -1, -1):
            value.add_(coefficients[i, rows]).mul_(odds)
        odds.copy_(value)
    return rest
