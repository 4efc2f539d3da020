"""The two passes over all classes of the smooth top-k loss as kernels of Triton, for a GPU.

They are what :mod:`sktopk.losses._elementary_symmetric` does with one pass of torch for each
operation: each reads a score once and keeps it in a register. `TRITON_FROM` there says when they
are used. Triton comes with torch for CUDA; this file can be imported without.
"""

from __future__ import annotations

import torch

try:
    import triton
    from triton import language as tl
except ImportError:
    triton = tl = None

# Classes that a program takes at a time, and how many times at most.
_BLOCK, _BLOCKS = 1024, 8


def _kernel(function):
    return function if triton is None else triton.jit(function)


@_kernel
def _power_sums_kernel(
    scores,
    kth,
    left_out,
    rest,
    sums,
    n_classes,
    n_left_out,
    k,
    scale,
    KEEP: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    level = tl.load(kth + row)
    exponent = tl.arange(0, K)
    total = tl.zeros([K], tl.float64)
    for block in range(BLOCKS):
        cls = (chunk * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        inside = cls < n_classes
        member = inside
        for i in range(n_left_out):
            member = member & (cls != tl.load(left_out + row * n_left_out + i))
        score = tl.load(scores + row * n_classes + cls, mask=inside, other=0.0)
        v = tl.where(member, tl.exp((score - level) / scale), 0.0)
        if KEEP:
            tl.store(rest + row * n_classes + cls, v, mask=inside)
        power = v
        for i in range(k):
            # A block is summed in float32, as torch sums; the blocks are many.
            total += tl.where(exponent == i, tl.sum(power, 0).to(tl.float64), 0.0)
            power = power * v
    first = sums + (row * tl.num_programs(1) + chunk) * k
    tl.store(first + exponent, total, mask=exponent < k)


@_kernel
def _inclusion_kernel(
    rest, to_odds, coefficients, n_classes, n_samples, n_terms, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cls = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cls < n_classes
    place = rest + row * n_classes + cls
    odds = tl.load(place, mask=inside, other=0.0) * tl.load(to_odds + row)
    value = odds * tl.load(coefficients + (n_terms - 1) * n_samples + row)
    for i in range(1, n_terms):
        value = (value + tl.load(coefficients + (n_terms - 1 - i) * n_samples + row)) * odds
    tl.store(place, value, mask=inside)


def power_sums(scores, kth, left_out, k, scale, *, keep_rest):
    """Sum the powers 1 to k of v = exp((s - kth) / scale) over the classes that are not left out.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        float32, contiguous.
    kth : Tensor of shape (n_samples,)
    left_out : Tensor of shape (n_samples, m)
        Classes whose v is taken for 0.
    k : int
    scale : float
    keep_rest : bool
        Whether to return v.

    Returns
    -------
    rest : Tensor of shape (n_samples, n_classes) or None
    sums : Tensor of shape (k, n_samples), float64
    """
    n_samples, n_classes = scores.shape
    n_blocks = min(_BLOCKS, triton.cdiv(n_classes, _BLOCK))
    n_chunks = triton.cdiv(n_classes, _BLOCK * n_blocks)
    rest = torch.empty_like(scores) if keep_rest else None
    sums = scores.new_empty(n_samples, n_chunks, k, dtype=torch.float64)
    _power_sums_kernel[n_samples, n_chunks](
        scores,
        kth.contiguous(),
        left_out.contiguous(),
        rest if keep_rest else scores,
        sums,
        n_classes,
        left_out.shape[1],
        k,
        scale,
        KEEP=keep_rest,
        K=triton.next_power_of_2(k),
        BLOCK=_BLOCK,
        BLOCKS=n_blocks,
    )
    return rest, sums.sum(1).t().contiguous()


def inclusion(rest, to_odds, coefficients):
    """Turn v, in place, into sum_i coefficients[i] o^(i+1) with o = v * to_odds.

    Parameters
    ----------
    rest : Tensor of shape (n_samples, n_classes)
        float32, contiguous.
    to_odds : Tensor of shape (n_samples,)
    coefficients : Tensor of shape (n_terms, n_samples)
    """
    n_samples, n_classes = rest.shape
    _inclusion_kernel[n_samples, triton.cdiv(n_classes, _BLOCK)](
        rest,
        to_odds.contiguous(),
        coefficients.contiguous(),
        n_classes,
        n_samples,
        len(coefficients),
        BLOCK=_BLOCK,
    )
