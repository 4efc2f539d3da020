"""Samples of weight 0 do not change the gradient of a training loss, whatever their scores are."""

import pytest
import torch

from sktopk._estimators._losses import LOSSES, make_criterion
from sktopk._training.criteria._ensemble import EnsembleLoss
from sktopk._training.criteria._mixture import CrossEntropy, TwoClassCrossEntropy

DEFAULTS = {"k": 2, "tau": 0.5, "sigma": 0.2}


def of_classes(name):
    named = LOSSES[name]
    criterion = make_criterion(name, {each: DEFAULTS[each] for each in named.params}, 4, 2)
    if named.draws:
        criterion.seed(torch.Generator())
    return criterion


CRITERIA = {name: lambda name=name: of_classes(name) for name in LOSSES if not LOSSES[name].draws}
CRITERIA |= {"partner": CrossEntropy, "two classes": TwoClassCrossEntropy}


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("name", CRITERIA)
def test_the_scores_of_samples_of_weight_zero_do_not_matter(name, n_members, value):
    rng = torch.Generator().manual_seed(0)
    n_outputs = 1 if name == "two classes" else 4
    shape = (6, n_outputs) if n_members == 1 else (6, n_members, n_outputs)
    scores = torch.randn(shape, generator=rng)
    target = torch.arange(6) % (2 if n_outputs == 1 else 4)
    weight = torch.tensor([1.0, 2, 0, 1, 0, 3])
    criterion = CRITERIA[name]()
    if n_members > 1:
        criterion = EnsembleLoss(criterion, n_members)
    expected = criterion.gradient(scores, target, weight)
    other = scores.clone()
    other[weight == 0] = value
    for one, two in zip(criterion.gradient(other, target, weight), expected, strict=True):
        torch.testing.assert_close(one, two)
        assert one.isfinite().all()
