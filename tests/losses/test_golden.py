"""The losses against exact and published values, where the file of them is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from sktopk import losses
from sktopk.losses._order_statistics import expected_kth_largest

SHARED = Path(os.environ.get("SKTOPK_SHARED", Path(__file__).parents[3] / "shared"))
GOLDEN = SHARED / "golden" / "golden.npz"

pytestmark = pytest.mark.skipif(
    not GOLDEN.is_file(), reason=f"no {GOLDEN}: SKTOPK_SHARED names the folder that has it"
)


class Entries(dict):
    """The arrays of one entry of the file, scalars as Python numbers."""

    def __init__(self, prefix):
        with np.load(GOLDEN) as arrays:
            names = [name for name in arrays.files if name.startswith(f"{prefix}/")]
            super().__init__({name.rpartition("/")[2]: arrays[name] for name in names})
        self.update({name: array.item() for name, array in self.items() if array.ndim == 0})

    def tensor(self, name):
        return torch.from_numpy(self[name])


def golden_names(prefix):
    if not GOLDEN.is_file():
        return []
    with np.load(GOLDEN) as arrays:
        return sorted({name.split("/")[0] for name in arrays.files if name.startswith(prefix)})


def assert_golden(loss, entry, value="loss", gradient="grad", tolerance=1e-12, **parameters):
    scores = entry.tensor("scores").requires_grad_()
    result = loss(scores, entry.tensor("labels"), reduction="none", **parameters)
    np.testing.assert_allclose(result.detach(), entry[value], rtol=tolerance, atol=tolerance)
    if gradient is not None:
        result.sum().backward()
        np.testing.assert_allclose(scores.grad, entry[gradient], rtol=tolerance, atol=tolerance)


def test_smooth():
    for name in golden_names("st_"):
        entry = Entries(name)
        parameters = {"k": entry["k"], "tau": entry["tau"], "margin": entry["alpha"]}
        assert_golden(losses.smooth_topk_loss, entry, **parameters, tolerance=1e-10)


@pytest.mark.parametrize("name", ["hard_k1", "hard_k3"])
def test_hinge(name):
    entry = Entries(name)
    assert_golden(losses.topk_hinge_loss, entry, k=entry["k"], margin=entry["alpha"])


@pytest.mark.parametrize(
    ("loss", "value", "parameters"),
    [
        ("topk_hinge_loss", "lapin", {"scaled": False}),
        ("topk_hinge_convex_loss", "lapin_cvx_alpha", {}),
        ("topk_hinge_calibrated_loss", "cal", {}),
    ],
)
def test_hinge_family(loss, value, parameters):
    entry = Entries("hinge_family_k3")
    assert_golden(getattr(losses, loss), entry, value, None, k=entry["k"], **parameters)


@pytest.mark.parametrize("name", ["nb_n10_k5", "nb_n3_k2_readme", "nb_eps0"])
def test_noised(name):
    entry = Entries(name)
    parameters = {"k": entry["k"], "sigma": entry["eps"], "noise": entry.tensor("Z")}
    assert_golden(losses.noised_topk_loss, entry, **parameters)


def test_noised_imbalanced():
    entry = Entries("ni_scale1")
    assert_golden(
        losses.noised_topk_imbalanced_loss,
        entry,
        k=entry["k"],
        sigma=entry["eps"],
        noise=entry.tensor("Z"),
        class_counts=entry["class_counts"],
        max_margin=entry["max_m"],
        scale=entry["scale"],
    )


@pytest.mark.parametrize("name", ["ne_n5_m3", "ne_tie"])
def test_expectation_of_noised(name):
    entry = Entries(name)
    scores = entry.tensor("scores").unsqueeze(0).requires_grad_()
    value = expected_kth_largest(scores, entry["m"], entry["eps"])
    value.sum().backward()
    assert value.item() == pytest.approx(entry["value"], abs=1e-11)
    np.testing.assert_allclose(scores.grad[0], entry["grad"], atol=1e-11)


def test_ldam():
    entry = Entries("ldam")
    parameters = {"max_margin": entry["max_m"], "scale": entry["scale"]}
    assert_golden(losses.ldam_loss, entry, class_counts=entry["class_counts"], **parameters)


def test_focal():
    entry = Entries("focal")
    assert_golden(losses.focal_loss, entry, gamma=entry["gamma"])


@pytest.mark.parametrize("name", ["sw_n10_k3", "sw_n5_k1"])
def test_grouping_and_transition(name):
    entry = Entries(name)
    k = entry["k"]
    grouping, transition = losses.topk_grouping_loss, losses.topk_transition_loss
    assert_golden(grouping, entry, "grouping", "grad_grouping", k=k)
    assert_golden(transition, entry, "transition", "grad_transition", k=k)
    gradient = "grad_transition_detached"
    assert_golden(transition, entry, "transition", gradient, k=k, detach_weight=True)
