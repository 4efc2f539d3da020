"""The contract between net and loss, asked of every criterion that an estimator trains with."""

import numpy as np
import pytest
import torch
from torch import nn

import sktopk
from sktopk import TopKClassifier
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._training.criteria._base import Criterion
from sktopk.losses import KthLargest, NoisedTopKLoss
from sktopk.modules import MLP
from tests.named_losses import NAMED_LOSSES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)), np.arange(90) % 6
RANKERS = [
    cls
    for cls in (getattr(sktopk, name) for name in sktopk.__all__)
    if isinstance(cls, type) and issubclass(cls, NetClassifier) and cls is not TopKClassifier
]
CLASSIFIERS = {
    **{name: TopKClassifier(name, k=2) for name in NAMED_LOSSES},
    "several k": TopKClassifier(k={1: 0.5, 3: 0.5}),
    "candidates": TopKClassifier(k=2, n_candidates=4),
    "a user's": TopKClassifier(nn.CrossEntropyLoss(), k=2),
    "ours as a module": TopKClassifier(NoisedTopKLoss(k=2), k=2),
    **{cls.__name__: cls() for cls in RANKERS},
    "hard rows": sktopk.ThresholdClassifier(KthLargest("all", k=9), buffer_size=4),
    "AUC of several classes": sktopk.AUCClassifier(),
}


def trained(name):
    clf = CLASSIFIERS[name].set_params(module=MLP, max_epochs=2, random_state=0)
    two = type(clf) is not TopKClassifier and name != "AUC of several classes"
    y = (Y == 0).astype(int) if two else Y
    return clf.set_params(batch_size=32).fit(X, y), y


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_base_for_every_criterion(name):
    criterion = trained(name)[0].net_.criterion_
    assert isinstance(criterion, Criterion)
    assert isinstance(criterion.trace, dict)
    assert (criterion.generator is not None) == criterion.draws


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_step_gets_the_gradient_of_its_loss(name):
    clf, y = trained(name)
    criterion = clf.net_.criterion_
    if criterion.hard_rows is not None:
        criterion.hard_rows.forget()  # of the batch at hand, too
    scores = torch.randn(30, clf.net_.n_outputs, dtype=torch.float64, requires_grad=True)
    target = torch.from_numpy(y[:30])
    weight = torch.rand(30, dtype=torch.float64) + 0.5
    if criterion.draws and criterion.generator is not None:
        state = criterion.generator.get_state()
    loss = criterion.backward(scores, target, weight)
    assert loss.shape == ()
    assert not loss.requires_grad
    gradient = scores.grad
    step = torch.randn_like(scores)
    values = []
    for sign in (1, -1):
        if criterion.draws:
            criterion.generator.set_state(state)
        moved = (scores.detach() + sign * 1e-6 * step).requires_grad_()
        values.append(criterion.backward(moved, target, weight).item())
    slope = (values[0] - values[1]) / 2e-6
    assert slope == pytest.approx((gradient * step).sum().item(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_all_of_its_state_is_in_its_state_dict(name):
    clf, y = trained(name)
    used = clf.net_.criterion_
    new = type(clf)(**clf.get_params(deep=False)).fit(X, y).net_.criterion_
    # Leave it somewhere else before.
    scores = torch.randn(30, clf.net_.n_outputs, dtype=torch.float64)
    target = torch.from_numpy(y[:30])
    for criterion in (used, new):
        if criterion.hard_rows is not None:
            criterion.hard_rows.batch = None
    step(used, scores, target)
    new.load_state_dict(used.state_dict())
    for _ in range(2):
        found, expected = (step(each, scores, target) for each in (new, used))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def step(criterion, scores, target):
    scores = scores.clone().requires_grad_()
    return criterion.backward(scores, target, None), scores.grad


def test_a_criterion_has_to_define_forward():
    with pytest.raises(NotImplementedError, match="Criterion must define forward"):
        Criterion()(torch.zeros(2, 2), torch.zeros(2))
