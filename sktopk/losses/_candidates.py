"""A few classes in the place of all of them, for losses over very many classes."""

from typing import NamedTuple

import torch
from torch import Tensor

from ._loss import check_count, check_tensor


class Candidates(NamedTuple):
    """What :func:`sample_candidates` returns; its docstring describes the fields."""

    classes: torch.Tensor
    target: torch.Tensor
    log_weight: torch.Tensor


def sample_candidates(
    target: Tensor, n_classes: int, n_candidates: int, *, generator: torch.Generator | None = None
) -> Candidates:
    r"""Draw the classes that a training step uses: the labels and a random sample.

    .. math::
        \sum_{j=1}^{C} e_j \;\approx\; \sum_{j \in B} e_j
        + \frac{C - |B|}{|D|} \sum_{j \in D} e_j

    B are the classes among the labels of the batch, and D the other classes that were drawn, a
    simple random sample. For any e that does not depend on the draw, the right side is an
    unbiased estimate of the left. The weights, as `log_weight`, shift the scores, so that an
    ordinary loss estimates its value over all classes:

    - cross-entropy of ``scores + log_weight``, as in the sampled softmax of [1]_. If the estimate
      of :math:`\sum_j \exp s_j` has the relative variance v, the loss is too small by about v/2.
    - the smooth top-k loss of ``scores + k * tau * log_weight``. The sum over the subsets A of k
      classes estimates that of :math:`\prod_{j \in A} e_j`, times
      :math:`\prod_{i < r} \frac{1 - i/|D|}{1 - i/N}` for subsets with r of the
      :math:`N = C - |B|` classes outside of B. If no class stands out, the loss is too small by
      about :math:`\tau((2k-1)v/2 + (k-1)/|D|)`.

    Losses of the k-th largest score (hinges, noised, grouping, transition) cannot be estimated in
    this way. Memory and cost do not depend on C. Nothing is copied from a GPU to the host.

    Parameters
    ----------
    target : Tensor of shape (n_samples,)
        Integer class indices.
    n_classes : int
        Number C of classes.
    n_candidates : int
        Number of draws, at least 1. Repeated draws, and draws of a label, count once. Use many
        times k for the smooth top-k loss, which is 0 if at most k classes are distinct.
    generator : torch.Generator, default=None
        Source of the draws, on the device of `target`; None means torch's default generator.

    Returns
    -------
    candidates : tuple (classes, target, log_weight)
        A named tuple on the device of `target` with m = n_samples + n_candidates columns. If that
        is not less than C, it has all classes with weight 1, and the loss is exact.

        classes : Tensor of shape (m,)
            Class indices in ascending order.
        target : Tensor of shape (n_samples,)
            Position of the label of each sample among `classes`.
        log_weight : Tensor of shape (m,)
            Logarithm of the number of classes that a candidate stands for; -inf for repetitions.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range. Labels on a GPU are not checked.

    References
    ----------
    .. [1] Jean, Cho, Memisevic and Bengio (2015). On using very large target vocabulary for
       neural machine translation. ACL. Section 3.

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
    # A look at a GPU would wait for it.
    if target.device.type == "cpu" and not torch.compiler.is_compiling():
        refused = target[(target < 0) | (target >= n_classes)]
        if len(refused):
            raise ValueError(
                f"target must hold class indices from 0 to {n_classes - 1}; got {refused[0].item()}"
            )
    n_rows, device = len(target), target.device
    if n_rows + n_candidates >= n_classes:
        everything = torch.arange(n_classes, device=device)
        nothing = torch.zeros(n_classes, device=device, dtype=torch.float32)
        return Candidates(everything, target, nothing)
    drawn = torch.randint(n_classes, (n_candidates,), generator=generator, device=device)
    classes, order = torch.cat([target, drawn]).sort(stable=True)
    first = torch.ones_like(classes, dtype=torch.bool)
    first[1:] = classes[1:] != classes[:-1]
    position = torch.searchsorted(classes, target.contiguous())
    # A stable sort leaves a label before the draws of its class.
    is_label = first & (order < n_rows)
    is_sampled = first & ~is_label
    # Given their number, every set of classes is as likely as any other.
    weight = (n_classes - is_label.sum()).float() / is_sampled.sum()
    log_weight = torch.where(is_sampled, weight.log(), 0.0)
    return Candidates(classes, position, log_weight.masked_fill(~first, -torch.inf))
