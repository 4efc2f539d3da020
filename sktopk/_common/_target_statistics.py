"""Target statistics: the share of each class among the samples of a category.

A category c and a class k with the weights W_c and S_ck of their samples have the statistic

    (S_ck + m p_k) / (W_c + m),

where p_k is the share of class k in all samples. The prior weight m has the smallest squared error
for samples that the statistics have not seen. All formulas use sums of sample weights, so that a
sample of weight 2 counts as two samples, and a factor of all weights has no effect.
scikit-learn's TargetEncoder is not used, because it ignores sample weights.
"""

import numpy as np

# Number of parts of the samples. Each part is encoded with the statistics of the other parts.
N_PARTS = 5
# Prior weights m that are tried, in multiples of the mean weight of a category.
_PRIOR_WEIGHTS = np.geomspace(1e-3, 1e3, 25)


def deal_to_parts(code, order):
    """Return the part of each sample. Each category is spread evenly over the parts, at random.

    If the labels were spread evenly too, the statistics of the other parts would tell the label of
    a sample. Equal samples, which have equal integers in `order`, are in different parts.
    """
    part, ties = np.empty(len(code), dtype=np.intp), np.random.RandomState(0).permutation(len(code))
    part[np.lexsort([ties, order, code])] = np.arange(len(code)) % N_PARTS
    return part


def target_statistics(code, target, n_classes, weight, part):
    """Return the statistics of all categories, and the cross-fitted statistics of the samples.

    The last row of the statistics is for unknown categories. For two classes, there is only the
    column of the second class. Samples get the statistics of the other parts.
    """
    shape = N_PARTS, code.max() + 1, n_classes
    cells = np.ravel_multi_index((part, code, target), shape)
    weight = weight / weight.max()
    own = np.bincount(cells, weight, np.prod(shape)).reshape(shape)
    total, own_total = own.sum(axis=0), own.sum(axis=2, keepdims=True)
    if n_classes == 2:
        own, columns = own[:, :, 1:], total[:, 1:]
    else:
        columns = total
    total = total.sum(axis=1, keepdims=True)
    unit = total.sum() / len(total)
    error = np.zeros(len(_PRIOR_WEIGHTS))
    for i, m in enumerate(_PRIOR_WEIGHTS * unit):
        for mine, mine_total in zip(own, own_total, strict=True):
            p = _smoothed(columns - mine, total - mine_total, m)[:-1]
            error[i] += (mine - 2 * p * mine + p**2 * mine_total).sum()
    # Of equal errors, the largest m is the one that depends least on single samples.
    best = error <= error.min() + 1e-9 * total.sum()
    m = _PRIOR_WEIGHTS[best].max() * unit
    encoded = np.empty((len(code), own.shape[2]))
    for number, (mine, mine_total) in enumerate(zip(own, own_total, strict=True)):
        inside = part == number
        encoded[inside] = _smoothed(columns - mine, total - mine_total, m)[code[inside]]
    return _smoothed(columns, total, m), encoded


def _smoothed(columns, total, m):
    """Return the statistics from sums of weights. The last row has the shares in all samples."""
    prior = columns.sum(axis=0) / max(total.sum(), 1e-300)
    # The maximum removes negative rounding errors of differences.
    of_each = (np.maximum(columns, 0) + m * prior) / (np.maximum(total, 0) + m)
    return np.vstack([of_each, prior])
