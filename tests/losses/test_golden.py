"""The losses compared with exact and published values of a file, if the file exists."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from sktopk import losses
from sktopk.losses import KthLargest, TopMean
from tests.losses.data import value_and_gradient

SHARED = Path(os.environ.get("SKTOPK_SHARED", Path(__file__).parents[3] / "shared"))
GOLDEN = SHARED / "golden" / "golden.npz"

pytestmark = pytest.mark.skipif(
    not GOLDEN.is_file(), reason=f"no {GOLDEN}: SKTOPK_SHARED names the folder that has it"
)
ARRAYS = dict(np.load(GOLDEN)) if GOLDEN.is_file() else {}


def entry_of(prefix):
    """Return the tensors of one entry of the file, with scalars as Python numbers."""
    names = [name for name in ARRAYS if name.startswith(f"{prefix}/")]
    entry = {name.rpartition("/")[2]: ARRAYS[name] for name in names}
    return {k: v.item() if v.ndim == 0 else torch.from_numpy(v) for k, v in entry.items()}


def golden_names(prefix):
    return sorted({name.split("/")[0] for name in ARRAYS if name.startswith(prefix)})


# Names of parameters in the file that differ from our names.
NAMES = {"margin": "alpha", "sigma": "eps", "max_margin": "max_m", "noise": "Z"}
IMBALANCED = ["k", "sigma", "noise", "class_counts", "max_margin", "scale"]
# Name of an entry of the file, loss, parameters, and the names of value and gradient in the entry.
CASES = [
    *((name, "smooth_topk_loss", ["k", "tau", "margin"]) for name in golden_names("st_")),
    *((name, "topk_hinge_loss", ["k", "margin"]) for name in ("hard_k1", "hard_k3")),
    ("hinge_family_k3", "topk_hinge_loss", ["k"], "lapin", None, {"scaled": False}),
    ("hinge_family_k3", "topk_hinge_convex_loss", ["k"], "lapin_cvx_alpha", None),
    ("hinge_family_k3", "topk_hinge_calibrated_loss", ["k"], "cal", None),
    *(
        (name, "noised_topk_loss", ["k", "sigma", "noise"])
        for name in ("nb_n10_k5", "nb_n3_k2_readme", "nb_eps0")
    ),
    ("ni_scale1", "noised_topk_imbalanced_loss", IMBALANCED),
    ("ldam", "ldam_loss", ["class_counts", "max_margin", "scale"]),
    ("focal", "focal_loss", ["gamma"]),
]
for entry in ("sw_n10_k3", "sw_n5_k1"):
    transition = entry, "topk_transition_loss", ["k"], "transition"
    CASES += [
        (entry, "topk_grouping_loss", ["k"], "grouping", "grad_grouping"),
        (*transition, "grad_transition"),
        (*transition, "grad_transition_detached", {"detach_weight": True}),
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, (*case[:2], *case[4:]))))
def test_a_loss_of_classes_equals_its_golden_value(case):
    name, loss, given, value, gradient, more = (*case, *("loss", "grad", {})[len(case) - 3 :])
    entry = entry_of(name)
    parameters = {each: entry[NAMES.get(each, each)] for each in given} | more
    scores = entry["scores"].requires_grad_()
    found = getattr(losses, loss)(scores, entry["labels"], reduction="none", **parameters)
    tolerance = 1e-10 if loss == "smooth_topk_loss" else 1e-12
    np.testing.assert_allclose(found.detach(), entry[value], rtol=tolerance, atol=tolerance)
    if gradient is not None:
        found.sum().backward()
        np.testing.assert_allclose(scores.grad, entry[gradient], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["ne_n5_m3", "ne_tie"])
def test_the_exact_noised_loss_equals_the_golden_expectation(name):
    entry = entry_of(name)
    scores, label = entry["scores"].unsqueeze(0), torch.tensor([0])
    options = {"k": entry["m"] - 1, "sigma": entry["eps"], "n_noise": "exact", "margin": 10.0}
    loss, gradient = value_and_gradient(losses.noised_topk_loss, scores, label, **options)
    # The loss is 10 + E - s, with the golden expectation E and the score s of the label.
    assert (loss - 10 + scores[0, 0]).item() == pytest.approx(entry["value"], abs=1e-11)
    gradient[0, 0] += 1
    np.testing.assert_allclose(gradient[0], entry["grad"], atol=1e-11)


AT_TOP = {
    "at_TopPush": lambda y, p: KthLargest("negatives", k=1),
    "at_ties": lambda y, p: KthLargest("negatives", k=1),
    "at_KthNeg": lambda y, p: KthLargest("negatives", k=p),
    "at_RecAtK": lambda y, p: KthLargest("all", k=p),
    "at_MeanTopKNeg": lambda y, p: TopMean("negatives", k=p),
    # Thresholds that are means of floor(n p) + 1 scores.
    "at_TauFPL": lambda y, p: TopMean("negatives", k=math.floor((y == 0).sum() * p) + 1),
    "at_TopMean": lambda y, p: TopMean("all", k=math.floor(len(y) * p) + 1),
}
NAMED = {
    "at_TopPush": lambda s, y, p: losses.top_push_loss(s, y),
    "at_KthNeg": lambda s, y, p: losses.top_push_k_loss(s, y, k=p),
    "at_RecAtK": lambda s, y, p: losses.recall_at_k_loss(s, y, k=p),
}


@pytest.mark.parametrize("name", [n for n in golden_names("at_") if n != "at_baseline"])
def test_thresholds_losses_and_their_gradients_equal_golden_values(name):
    entry, kind = entry_of(name), "_".join(name.split("_")[:2])
    scores, target = entry["z"], entry["y"]
    threshold = AT_TOP[kind](entry["y"], entry.get("param"))
    value, gradient = value_and_gradient(lambda s: threshold(s, target == 1), scores)
    assert value.item() == pytest.approx(entry["t"], rel=1e-14)
    np.testing.assert_allclose(gradient, entry["dt_dz"], rtol=1e-14, atol=0)
    general = lambda s, y, p: losses.accuracy_at_top_loss(s, y, threshold=threshold)  # noqa: E731
    for loss in {general, NAMED.get(kind, general)}:
        value, gradient = value_and_gradient(loss, scores, target, p=entry.get("param"))
        assert value.item() == pytest.approx(entry["loss"], rel=1e-12)
        np.testing.assert_allclose(gradient, entry["grad"], rtol=1e-12, atol=1e-12)
