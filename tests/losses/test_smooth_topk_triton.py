"""The kernels of Triton give what torch's passes give, by Triton's interpreter on the CPU."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from sktopk.losses import _elementary_symmetric, smooth_topk_loss, topk_inclusion_proba

# (n_samples, n_classes, k, tau): blocks of 1024 classes, of which a program takes 8.
CASES = [
    (3, 7, 1, 1.0),
    (4, 40, 5, 0.1),
    (2, 1000, 5, 1.0),
    (2, 1025, 5, 0.01),
    (2, 9001, 5, 1.0),
    (1, 300, 50, 1.0),
    (1, 16_385, 1, 0.5),
]
# Everything but the results comes through a file: Triton reads its variable when imported.
SCRIPT = """
import sys, torch
from sktopk.losses import _elementary_symmetric, _smooth_topk_triton
from tests.losses.test_smooth_topk_triton import CASES, results
_elementary_symmetric.fused_passes = lambda scores: _smooth_topk_triton
torch.save([results(*case) for case in CASES], sys.argv[1])
"""


def results(n_samples, n_classes, k, tau):
    """Losses, their gradient, losses without a gradient, probabilities."""
    generator = torch.Generator().manual_seed(n_classes + k)
    scores = 4 * torch.randn(n_samples, n_classes, generator=generator)
    # Masked classes, ties, and one row with fewer classes than k.
    scores[0, 1 : n_classes // 5] = -torch.inf
    scores[:, -3:] = scores[:, -1:]
    scores[-1, : n_classes // 4] += 40
    if n_samples > 2:
        scores[1, 1:] = -torch.inf
    target = torch.zeros(n_samples, dtype=torch.long)
    scores.requires_grad_()
    loss = smooth_topk_loss(scores, target, k=k, tau=tau, reduction="none")
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    bare = smooth_topk_loss(scores.detach(), target, k=k, tau=tau, reduction="none")
    return loss.detach(), gradient, bare, topk_inclusion_proba(scores, k=k)


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    pytest.importorskip("triton")
    path = str(tmp_path_factory.mktemp("triton") / "results.pt")
    env = os.environ | {"TRITON_INTERPRET": "1"}
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run([sys.executable, "-c", SCRIPT, path], env=env, cwd=root, check=True)
    return dict(zip(CASES, torch.load(path), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernels_give_what_torch_gives(interpreted, case):
    loss, gradient, bare, proba = results(*case)
    kernels = interpreted[case]
    torch.testing.assert_close(kernels[0], loss, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(kernels[1], gradient, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(kernels[2], bare, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(kernels[3], proba, rtol=1e-5, atol=1e-6)
    assert gradient.abs().sum() > 0


def test_kernels_are_for_many_classes_on_a_gpu(monkeypatch):
    scores = SimpleNamespace(
        device=torch.device("cuda"),
        dtype=torch.float32,
        shape=(2, 1000),
        is_contiguous=lambda: True,
    )
    passes = _elementary_symmetric.fused_passes
    assert passes(scores) is None
    monkeypatch.setattr(_elementary_symmetric, "TRITON_FROM", 1000)
    from sktopk.losses import _smooth_topk_triton

    assert passes(scores) is (_smooth_topk_triton if _smooth_topk_triton.triton else None)
    for other in (
        {"device": torch.device("cpu")},
        {"dtype": torch.float64},
        {"shape": (2, 999)},
        {"is_contiguous": lambda: False},
    ):
        assert passes(SimpleNamespace(**vars(scores) | other)) is None
