"""A few classes in the place of all of them, for losses over very many classes."""

from typing import NamedTuple

import torch
from torch import Tensor

from ._loss import check_count, check_tensor


class Candidates(NamedTuple):
    """What :func:`sample_candidates` returns, with m columns.

    Attributes
    ----------
    classes : Tensor of shape (m,)
        Class indices in ascending order, int64.
    target : Tensor of shape (n_samples,)
        The position of the label of each row among `classes`, int64.
    log_weight : Tensor of shape (m,)
        Logarithm of the number of classes that a candidate stands for; minus infinity
        where it repeats the one before it.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import sample_candidates
    >>> candidates = sample_candidates(torch.tensor([2, 0]), n_classes=3, n_candidates=3)
    >>> candidates.classes, candidates.log_weight
    (tensor([0, 1, 2]), tensor([0., 0., 0.]))
    """

    classes: torch.Tensor
    target: torch.Tensor
    log_weight: torch.Tensor


def sample_candidates(
    target: Tensor, n_classes: int, n_candidates: int, *, generator: torch.Generator | None = None
) -> Candidates:
    r"""Draw the classes that a training step looks at: the labels and a random sample.

    .. math::
        \sum_{j=1}^{C} e_j \;\approx\; \sum_{j \in B} e_j
        + \frac{C - |B|}{|D|} \sum_{j \in D} e_j

    Here B are the classes among the labels of the batch and D the others that were drawn, all
    equally likely. For any e that does not depend on the draw, the right side has the left one
    as its expectation: the labels count as they are, and D is a simple random sample of the
    rest. The weights, as `log_weight`, become a shift of the scores, so that an ordinary loss
    estimates its value over all classes:

    - cross-entropy of ``scores + log_weight``: the sum over :math:`e_j = \exp s_j` is unbiased,
      its logarithm to first order, as in the sampled softmax of [1]_: if the estimate of the sum
      has the relative variance v, the loss is too small by about v/2 on average;
    - the smooth top-k loss of ``scores + k * tau * log_weight``, as it divides scores by
      :math:`k \tau`: the sum over the subsets A of k classes is that of
      :math:`\prod_{j \in A} e_j`, times a factor :math:`\prod_{i < r} \frac{1 - i/|D|}{1 - i/N}`
      for subsets with r of the :math:`N = C - |B|` classes outside of B, which is between
      :math:`1 - r(r-1)/(2|D|)` and 1. Where no class stands out, the loss is too small by about
      :math:`\tau((2k-1)v/2 + (k-1)/|D|)`.

    Losses that ask for the k-th largest score (hinges, noised losses, grouping, transition)
    cannot be had in this way: the k-th largest of a sample is not that of all classes.

    The memory and the cost do not depend on the number of classes. On a GPU, nothing is copied
    to the host.

    Parameters
    ----------
    target : Tensor of shape (n_samples,)
        Integer class indices.
    n_classes : int
        Number C of classes.
    n_candidates : int
        Number of draws, at least 1. Repeated draws, and draws of a label, count once. Many times
        k for the smooth top-k loss, which is 0 where at most k classes are distinct.
    generator : torch.Generator, default=None
        Source of the draws, on the device of `target`; None is torch's own.

    Returns
    -------
    candidates : Candidates
        A named tuple ``(classes, target, log_weight)`` on the device of `target` with
        m = n_samples + n_candidates columns; with all classes, each of weight 1 (so that the loss
        is exact), where that is not less than C.

    Raises
    ------
    TypeError, ValueError
        If `target` is no 1-dimensional Tensor of integers, or a number is not an integer of at
        least 1; on the CPU, also if a label is not from 0 to C - 1.

    See Also
    --------
    sktopk.TopKClassifier : Its `n_candidates` trains the rows of the last layer that are drawn.

    References
    ----------
    .. [1] Jean, Cho, Memisevic, Bengio. "On Using Very Large Target Vocabulary for Neural
       Machine Translation", ACL 2015, section 3.

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
    return draw_candidates(target, n_classes, n_candidates, generator)


def draw_candidates(target, n_classes, n_candidates, generator=None, seen=None):
    """What `sample_candidates` returns, of int64 labels in range; weights perhaps by network.

    Parameters
    ----------
    seen : Tensor of bool of shape (n_samples, n_members), default=None
        Which rows each of several networks learns from. They share the draws, and the columns, and
        `log_weight` has shape (n_members, m) unless all classes are there: minus infinity for a
        class that is neither drawn nor a label of the rows of a network, whose weights depend on
        no other label.
    """
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
    if seen is None:
        # A stable sort leaves a label before the draws of its class.
        is_label, is_drawn = first & (order < n_rows), first
    else:
        n_labels = torch.zeros(seen.shape[1], len(classes), device=device)
        is_label = n_labels.index_add_(1, position, seen.T.to(n_labels.dtype)) > 0
        is_drawn = torch.zeros_like(first)
        is_drawn[torch.searchsorted(classes, drawn)] = True
    is_sampled = is_drawn & ~is_label
    # Given their number, every set of classes is as likely as any other.
    n_others = n_classes - is_label.sum(-1, keepdim=True)
    weight = n_others.float() / is_sampled.sum(-1, keepdim=True)
    log_weight = torch.where(is_sampled, weight.log(), 0.0)
    return Candidates(
        classes, position, log_weight.masked_fill(~(is_label | is_sampled), -torch.inf)
    )
