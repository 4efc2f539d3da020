"""The negative log-likelihood that the losses built on cross-entropy share."""

import torch


def negative_log_likelihood(log_proba, target):
    r"""Return :math:`-\sum_j t_j \log q_j` for each row; :math:`-\log q_y` for class indices.

    A class of target 0 adds nothing, even where its probability is zero.
    """
    if target.is_floating_point():
        return -torch.where(target == 0, 0.0, target * log_proba).sum(1)
    # Not nll_loss, which ignores the index -100.
    return -log_proba.gather(1, target.unsqueeze(1)).squeeze(1)
