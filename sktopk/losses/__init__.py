"""Loss functions on torch tensors, most with a corresponding ``nn.Module``.

============================================  ====================================================
You want                                      Use
============================================  ====================================================
the label among the k highest scores          `smooth_topk_loss` plus cross-entropy
rare labels among the k highest scores        `smooth_topk_adjusted_loss` plus `logit_adjusted_loss`
few negatives above the positives             `recall_at_fpr_loss` plus cross-entropy
positives among each group's k best samples   `precision_at_k_loss` or `recall_at_k_loss`
a high area under the ROC curve               `pairwise_auc_loss`
few errors at a threshold of your choice      `accuracy_at_top_loss`
============================================  ====================================================

Losses for class labels take scores of shape (n_samples, n_classes) and class indices. Losses for
rankings take scores of shape (n_samples,), a target of 0 and 1, and optional groups. Pass scores
before a softmax or sigmoid. A score of -inf masks a class. Add cross-entropy of the same scores,
because without it, training by some of these losses can stop at chance level::

    loss = 0.4 * smooth_topk_loss(scores, y, k=5, tau=0.2) + 0.6 * F.cross_entropy(scores, y)
    loss.backward()

With `smooth_topk_adjusted_loss`, add `logit_adjusted_loss` instead of cross-entropy, which would
undo the adjustment to class frequencies.
"""

from ._accuracy_at_top import accuracy_at_top_loss
from ._candidates import sample_candidates
from ._cross_entropy import (
    FocalLoss,
    LDAMLoss,
    LogitAdjustedLoss,
    focal_loss,
    ldam_loss,
    logit_adjusted_loss,
)
from ._noised_topk import (
    NoisedTopKImbalancedLoss,
    NoisedTopKLoss,
    noised_topk_imbalanced_loss,
    noised_topk_loss,
)
from ._ranked_thresholds import (
    DeepTopPushLoss,
    PatMatLoss,
    PatMatNPLoss,
    PrecisionAtRecallLoss,
    RecallAtKLoss,
    TopPushKLoss,
    pat_mat_loss,
    pat_mat_np_loss,
    precision_at_recall_loss,
    recall_at_k_loss,
    top_push_k_loss,
    top_push_loss,
)
from ._smooth_topk import (
    SmoothTopKAdjustedLoss,
    SmoothTopKLoss,
    smooth_topk_adjusted_loss,
    smooth_topk_loss,
)
from ._thresholds import KthLargest, SurrogateQuantile, TopMean
from ._topk_grouping import (
    TopKGroupingLoss,
    TopKTransitionLoss,
    topk_grouping_loss,
    topk_transition_loss,
)
from ._topk_hinge import (
    TopKHingeCalibratedLoss,
    TopKHingeConvexLoss,
    TopKHingeLoss,
    topk_hinge_calibrated_loss,
    topk_hinge_convex_loss,
    topk_hinge_loss,
)
from .programs._linear_program import linear_program
from .programs._linear_program_loss import LinearProgramLoss
from .programs._operating_points import (
    FBetaLoss,
    PrecisionAtRecallProgramLoss,
    RecallAtFPRLoss,
    fbeta_loss,
    precision_at_recall_program_loss,
    recall_at_fpr_loss,
)
from .programs._pairwise_auc import PairwiseAUCLoss, pairwise_auc_loss
from .programs._precision import (
    PrecisionAtKLoss,
    RecallAtPrecisionLoss,
    precision_at_k_loss,
    recall_at_precision_loss,
)

__all__ = [
    "DeepTopPushLoss",
    "FBetaLoss",
    "FocalLoss",
    "KthLargest",
    "LDAMLoss",
    "LinearProgramLoss",
    "LogitAdjustedLoss",
    "NoisedTopKImbalancedLoss",
    "NoisedTopKLoss",
    "PairwiseAUCLoss",
    "PatMatLoss",
    "PatMatNPLoss",
    "PrecisionAtKLoss",
    "PrecisionAtRecallLoss",
    "PrecisionAtRecallProgramLoss",
    "RecallAtFPRLoss",
    "RecallAtKLoss",
    "RecallAtPrecisionLoss",
    "SmoothTopKAdjustedLoss",
    "SmoothTopKLoss",
    "SurrogateQuantile",
    "TopKGroupingLoss",
    "TopKHingeCalibratedLoss",
    "TopKHingeConvexLoss",
    "TopKHingeLoss",
    "TopKTransitionLoss",
    "TopMean",
    "TopPushKLoss",
    "accuracy_at_top_loss",
    "fbeta_loss",
    "focal_loss",
    "ldam_loss",
    "linear_program",
    "logit_adjusted_loss",
    "noised_topk_imbalanced_loss",
    "noised_topk_loss",
    "pairwise_auc_loss",
    "pat_mat_loss",
    "pat_mat_np_loss",
    "precision_at_k_loss",
    "precision_at_recall_loss",
    "precision_at_recall_program_loss",
    "recall_at_fpr_loss",
    "recall_at_k_loss",
    "recall_at_precision_loss",
    "sample_candidates",
    "smooth_topk_adjusted_loss",
    "smooth_topk_loss",
    "top_push_k_loss",
    "top_push_loss",
    "topk_grouping_loss",
    "topk_hinge_calibrated_loss",
    "topk_hinge_convex_loss",
    "topk_hinge_loss",
    "topk_transition_loss",
]
