"""The recipe of docs/losses.md for those who import the published smooth-topk."""

import math
import re
from itertools import combinations
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "losses.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="runs from a checkout")


@pytest.fixture(scope="module")
def recipe():
    """What the lines that take the place of the published ones define."""
    section = PAGE.read_text().split("## If you import the published smooth-topk")[1]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    names = {}
    exec(code, names)
    return names


def top1(scores, label, alpha=1.0, tau=1.0):
    """Loss of a row as `SmoothTop1SVM` defines it: the hinge where the first leads by far."""
    leads = sorted(scores, reverse=True)
    margins = [s + alpha * (j != label) - scores[label] for j, s in enumerate(scores)]
    if leads[0] - leads[1] >= tau * math.log(1e3):
        return max(margins)
    return tau * math.log(sum(math.exp(m / tau) for m in margins))


def topk(scores, label, k, alpha, tau):
    """Loss of a row as `SmoothTopkSVM` defines it where it is smooth."""
    with_label = without = 0.0
    for subset in combinations(range(len(scores)), k):
        product = math.exp(sum(scores[j] for j in subset) / (k * tau))
        if label in subset:
            with_label += product
        else:
            without += product
    return tau * (math.log(without * math.exp(alpha / tau) + with_label) - math.log(with_label))


def test_the_loss_of_clam_is_the_published_mean(recipe):
    scores = torch.randn(64, 2, generator=torch.Generator().manual_seed(0)).double()
    label = torch.arange(64) % 2
    rows = zip(scores.tolist(), label.tolist(), strict=True)
    expected = sum(top1(*row) for row in rows) / 64
    assert recipe["instance_loss_fn"](scores, label).item() == pytest.approx(expected, rel=1e-12)


def test_far_leads_differ_by_what_the_page_says(recipe):
    lead = torch.linspace(math.log(1e3), 30, 50, dtype=torch.float64)
    scores = torch.stack([lead, torch.zeros_like(lead)], dim=1)
    for label in (0, 1):
        for row in scores:
            ours = recipe["instance_loss_fn"](row[None], torch.tensor([label])).item()
            assert 0 <= ours - max(0.0, top1(row.tolist(), label)) <= 0.003


def test_the_loss_of_k_labels_is_the_published_mean(recipe):
    scores = torch.randn(8, 9, generator=torch.Generator().manual_seed(1)).double()
    label = torch.arange(8)
    rows = zip(scores.tolist(), label.tolist(), strict=True)
    expected = sum(topk(*row, k=5, alpha=2.0, tau=0.1) for row in rows) / 8
    assert recipe["other_loss_fn"](scores, label).item() == pytest.approx(expected, rel=1e-10)
