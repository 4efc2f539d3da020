"""Random candidate classes for losses over very many classes."""

from typing import NamedTuple

import torch
from torch import Tensor

from ._loss import check_count, check_tensor, value_range


class Candidates(NamedTuple):
    """Result of :func:`sample_candidates`, whose docstring describes the fields."""

    classes: torch.Tensor
    target: torch.Tensor
    log_weight: torch.Tensor


def sample_candidates(
    target: Tensor, n_classes: int, n_candidates: int, *, generator: torch.Generator | None = None
) -> Candidates:
    r"""Draw candidate classes for a training step: labels of the batch and random other classes.

    .. math::
        \sum_{j=1}^{C} e_j \;\approx\; \sum_{j \in B} e_j + \frac{C - |B|}{|D|} \sum_{j \in D} e_j

    where C is `n_classes`, B is the set of labels of a batch, and D is a simple random sample of
    the other classes. Labels have weight 1, and classes in D have weight :math:`(C - |B|) / |D|`.
    If D is never empty, the right side is an unbiased estimate of the left side. The terms
    :math:`e_j`, such as :math:`\exp s_j`, must not depend on D.

    To estimate the loss over all C classes, add the log weights to the scores:

    - Cross-entropy of ``scores + log_weight`` is the sampled softmax of [1]_. On average, this
      estimate is lower than cross-entropy over all classes by about v/2, where v is the relative
      variance of the estimate of :math:`\sum_j \exp s_j`.
    - Let u be the relative variance of the estimate of :math:`\sum_j \exp(s_j / (k\tau))`, and
      :math:`|D|` the number of classes in the random sample D. If no class dominates this sum, the
      smooth top-k loss of ``scores + k * tau * log_weight`` is, on average, lower than the loss
      over all classes by about :math:`\tau((2k-1)u/2 + (k-1)/|D|)`.

    Hinge, noised, grouping and transition losses cannot be estimated from candidates, because they
    need the k largest scores of all classes. Memory and time of :func:`sample_candidates` do not
    depend on the number of classes.

    Parameters
    ----------
    target : Tensor of shape (n_samples,)
        Integer class indices.
    n_classes : int
        Number C of classes.
    n_candidates : int
        Number of random draws, at least 1. A class that is drawn twice, or that is also a label,
        counts once. The smooth top-k loss needs many more than k candidates.
    generator : torch.Generator, default=None
        Source of the draws, on the device of `target`. None means torch's default generator.

    Returns
    -------
    candidates : tuple (classes, target, log_weight)
        A named tuple of tensors on the device of `target`. There are m = min(n_classes, n_samples +
        n_candidates) candidates. If m = n_classes, all classes are candidates: the loss is exact.

        classes : Tensor of shape (m,)
            Class indices in ascending order, with repetitions.
        target : Tensor of shape (n_samples,)
            Position of the label of each sample among `classes`.
        log_weight : Tensor of shape (m,)
            Logarithm of each candidate's weight. Repetitions of a class have -inf.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range. Labels on a GPU are not checked.

    References
    ----------
    .. [1] Jean, Cho, Memisevic and Bengio (2015). On using very large target vocabulary for neural
       machine translation. ACL. Section 3.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import sample_candidates, smooth_topk_loss
    >>> n_classes, k, tau = 1_000_000, 5, 1.0
    >>> layer = torch.nn.Embedding(n_classes, 8, sparse=True)
    >>> features, y = torch.randn(32, 8), torch.randint(n_classes, (32,))
    >>> classes, target, log_weight = sample_candidates(y, n_classes, n_candidates=1000)
    >>> scores = features @ layer(classes).T
    >>> loss = smooth_topk_loss(scores + k * tau * log_weight, target, k=k, tau=tau)
    >>> scores.shape
    torch.Size([32, 1032])
    """
    check_count(n_classes, "n_classes")
    check_count(n_candidates, "n_candidates")
    check_tensor(target, "target")
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise TypeError(f"target must hold integer class indices; got {target.dtype}")
    if target.ndim != 1:
        raise ValueError(f"target must have shape (n_samples,); got {tuple(target.shape)}")
    target = target.long()
    ends = value_range(target)
    if ends is not None and not 0 <= ends[0] <= ends[1] < n_classes:
        refused = ends[0] if ends[0] < 0 else ends[1]
        raise ValueError(f"target must hold class indices from 0 to {n_classes - 1}; got {refused}")
    n_rows, device = len(target), target.device
    if n_rows + n_candidates >= n_classes:
        classes = torch.arange(n_classes, device=device)
        return Candidates(classes, target, torch.zeros_like(classes, dtype=torch.float32))
    drawn = torch.randint(n_classes, (n_candidates,), generator=generator, device=device)
    classes, order = torch.cat([target, drawn]).sort(stable=True)
    first = torch.ones_like(classes, dtype=torch.bool)
    first[1:] = classes[1:] != classes[:-1]
    position = torch.searchsorted(classes, target.contiguous())
    # The stable sort puts labels before the random draws of the same class.
    is_label = first & (order < n_rows)
    is_sampled = first & ~is_label
    # All classes except labels are drawn with the same probability, so they have the same weight.
    weight = (n_classes - is_label.sum()).float() / is_sampled.sum()
    log_weight = torch.where(is_sampled, weight.log(), 0.0)
    return Candidates(classes, position, log_weight.masked_fill(~first, -torch.inf))
