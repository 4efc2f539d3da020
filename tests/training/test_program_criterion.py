"""What a minibatch of a linear program stands for: all rows of the data."""

import pytest
import torch

from sktopk._training.criteria._program import ProgramCriterion
from sktopk.losses import FBetaLoss, RecallAtPrecisionLoss


@pytest.mark.parametrize("loss", [FBetaLoss(), RecallAtPrecisionLoss(precision=0.7)])
def test_batches_with_more_positives_have_the_loss_of_the_data(loss):
    scores = torch.tensor([1.0, 0.4, -0.2, 0.8, -0.5], dtype=torch.float64)
    target = torch.tensor([1, 1, 0, 0, 0]) == 1
    # The data have each negative ten times.
    whole = torch.cat([torch.arange(2), torch.arange(2, 5).repeat(10)])
    criterion = ProgramCriterion(loss)
    criterion.class_total.copy_(torch.tensor([30.0, 2.0]))
    assert criterion.loss_and_gradient(scores[:, None], target, None)[0].item() == pytest.approx(
        loss(scores[whole], target[whole]).item(), rel=1e-12
    )
