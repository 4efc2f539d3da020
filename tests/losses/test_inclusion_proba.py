"""The probability that a class belongs to the top k."""

import pytest
import torch

from sktopk.losses._smooth_topk import topk_inclusion_proba
from tests.losses import references
from tests.losses.cases import N_CLASSES, class_batch


@pytest.mark.parametrize("k", [1, 3, N_CLASSES - 1])
def test_equals_definition(k):
    for tau in (None, 0.3):
        scores, _ = class_batch()
        rows = [references.topk_inclusion_proba(row, k, tau) for row in scores.tolist()]
        proba = topk_inclusion_proba(scores, k=k, tau=tau)
        expected = torch.tensor(rows, dtype=torch.float64)
        torch.testing.assert_close(proba, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_rows_sum_to_k_at_every_scale(k):
    for scale in (1e-4, 1e30):
        scores, _ = class_batch(n_samples=30, dtype=torch.float32)
        proba = topk_inclusion_proba(scale * scores, k=k)
        torch.testing.assert_close(proba.sum(1), torch.full((30,), float(k)))
        assert (proba >= 0).all()
        assert (proba <= 1 + 1e-6).all()
