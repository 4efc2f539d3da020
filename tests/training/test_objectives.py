"""The loss of each network on its samples, compared with the public losses."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sktopk import losses
from sktopk._estimators.topk import OF_LABELS, make_objective
from sktopk._training._batches import Groups
from sktopk._training._objectives import BatchLoss, CrossEntropy, Drawn, Mixture, TopLoss, Totals
from sktopk.losses import FBetaLoss, KthLargest, PairwiseAUCLoss, SurrogateQuantile, TopMean
from sktopk.losses._thresholds import Largest

N = 60


def middle(scores, positive, weight):
    weight = torch.ones_like(scores) if weight is None else weight
    mean = (weight * scores).sum() / weight.sum()
    return mean + (weight * (scores - mean) ** 2).sum().sqrt() / weight.sum().sqrt()


THRESHOLDS = {
    "largest": Largest("negatives"),
    "k-th": KthLargest("all", k=4), "k-th negative": KthLargest("negatives", k=4),
    "of positives": KthLargest("positives", tau=0.8),
    "mean": TopMean("negatives", k=4), "mean of all": TopMean("all", tau=0.1),
    "surrogate quantile": SurrogateQuantile("negatives", 0.2),
    "hinge quantile": SurrogateQuantile("all", 0.04, "hinge"),
    "function": middle,
}  # fmt: skip
KINDS = {
    "positives below": {"errors": "false_negatives", "surrogate": "quadratic"},
    "negatives above": {"errors": "false_positives", "surrogate": "hinge"},
    "both": {"errors": {"false_positives": 0.2, "false_negatives": 0.8}, "surrogate": "logistic"},
}
PROGRAMS = {
    "AUC": PairwiseAUCLoss(),
    "F": FBetaLoss(beta=2.0),
    "recall": losses.RecallAtPrecisionLoss(precision=0.6),
}
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])


def table(weighted, n_members=2):
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(n_members, N, dtype=torch.float64, generator=generator)
    scores[1:] = scores[1:].round()  # with ties
    positive = torch.randperm(N, generator=generator) < 20
    weight = torch.ones(N, dtype=torch.float64)
    if weighted:
        weight = torch.rand(N, dtype=torch.float64, generator=generator) + 0.3
        weight[::11] = 0
    return scores.requires_grad_(), positive, weight


def totals(positive, weight, n_members=2):
    of_class = torch.stack([weight[~positive].sum(), weight[positive].sum()])
    counts = torch.stack([(weight[mask] > 0).sum() for mask in (~positive, positive)])
    columns = (each.unsqueeze(1).expand(-1, n_members) for each in (of_class, of_class / counts))
    return Totals(*columns, (of_class.sum() / counts.sum()).expand(n_members))


def losses_of(objective, scores, positive, weight, drawn):
    expand = (each.expand(len(scores), -1) for each in (positive.long(), weight))
    return objective(scores.unsqueeze(2), *expand, drawn)


def check_equal(found, expected, scores):
    torch.testing.assert_close(found, expected)
    (own,) = torch.autograd.grad(found.sum(), scores, retain_graph=True)
    (other,) = torch.autograd.grad(expected.sum(), scores, retain_graph=True)
    torch.testing.assert_close(own, other)


def counts(threshold, rows, n_fresh, positive, weight):
    """How many training samples each sample represents: docstring of TopLoss, as a loop."""
    of = getattr(threshold, "of", "all")
    labels = {"negatives": [0], "positives": [1], "all": [0, 1]}[of]
    group = [i for i in dict.fromkeys(rows) if positive[i] in labels]
    hard = [i for i in group if i in rows[n_fresh:]]
    others, result = [i for i in group if i not in hard], dict.fromkeys(range(N), 0.0)
    for label in labels:
        known = sum(float(weight[i]) for i in hard if positive[i] == label)
        there = sum(float(weight[i]) for i in others if positive[i] == label)
        total = sum(float(w) for w, y in zip(weight, positive, strict=True) if y == label)
        for i in hard:
            if positive[i] == label:
                result[i] = float(weight[i])
        for i in others:
            if positive[i] == label:
                result[i] = float(weight[i]) * max(total - known, 0.0) / there
    return torch.tensor([result[i] for i in range(N)], dtype=torch.float64)


@weighted_or_not
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=list(THRESHOLDS))
def test_new_samples_represent_all_training_samples_but_hard_examples(threshold, kind, weighted):
    """Two hard examples are kept from an earlier step; one of them is also in the minibatch."""
    scores, positive, weight = table(weighted, n_members=1)
    for fresh in (range(24), range(30, 60, 2), range(12, 44)):
        fresh, hard = torch.tensor(fresh), torch.tensor([fresh[3], 27])
        rows = torch.cat([fresh, hard])
        drawn = Drawn(totals(positive, weight, 1), len(fresh), torch.isin(fresh, hard)[None])
        objective = TopLoss(threshold, n_hard=2, **kind)
        own = (each[rows] for each in (positive, weight))
        found = losses_of(objective, scores[:, rows], *own, drawn)
        sample = counts(threshold, rows.tolist(), len(fresh), positive.int(), weight)
        share = torch.zeros_like(weight)
        for mask in (positive, ~positive):
            counted = mask & (weight > 0)
            n_counted = counted[fresh].sum()
            here = torch.zeros(N, dtype=torch.bool).index_fill(0, fresh, True) & mask
            share[here] = weight[here] / (n_counted * weight[counted].mean())
        expected = losses.accuracy_at_top_loss(
            scores[0], positive, sample_weight=share, reduction="sum",
            threshold=lambda s, y, w, sample=sample: threshold(s, y, sample), **kind,
        )  # fmt: skip
        check_equal(found.sum(), expected, scores)


def test_the_share_above_the_estimated_quantile_is_tau_if_scores_change_in_every_step(rng):
    """Scores are drawn anew in every step, so old hard examples have no high scores any more."""
    n, shares, hard = 4000, [], torch.empty(0, dtype=torch.long)
    objective = TopLoss(KthLargest("negatives", tau=0.05), "false_negatives", "hinge", 200)
    positive = torch.arange(n + 1) == n
    known = totals(positive, torch.ones(n + 1, dtype=torch.float64), 1)
    for _ in range(400):
        scores = torch.from_numpy(np.append(rng.standard_normal(n), 0.0))
        fresh = torch.from_numpy(np.append(rng.choice(n, 100, replace=False), n))
        rows = torch.cat([fresh, hard])
        drawn = Drawn(known, len(fresh), torch.isin(fresh, hard)[None], n_hard=200)
        losses_of(objective, scores[None, rows], positive[rows], torch.ones(len(rows)), drawn)
        hard = rows[objective.hardest[0]]
        assert len(hard.unique()) == len(hard)
        shares.append((scores[:n] >= objective.threshold_now).double().mean())
    # The threshold is the fifth of 100 scores: on average, 5 / 101 of new scores exceed it.
    assert np.mean(shares) == pytest.approx(0.05, abs=0.004)


@pytest.mark.parametrize("loss", PROGRAMS.values(), ids=list(PROGRAMS))
def test_a_minibatch_is_weighted_to_the_proportions_of_the_training_set(loss):
    scores = torch.tensor([[1.0, 0.4, -0.2, 0.8, -0.5]], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([1, 1, 0, 0, 0]) == 1
    # The training set has ten copies of each negative.
    whole = torch.cat([torch.arange(2), torch.arange(2, 5).repeat(10)])
    drawn = Drawn(totals(positive[whole], torch.ones(32, dtype=torch.float64), 1))
    ones = torch.ones(5, dtype=torch.float64)
    found = losses_of(BatchLoss(loss), scores, positive, ones, drawn)
    check_equal(found, loss(scores[0, whole], positive[whole])[None], scores)


def of_groups(case, kind, scores, positive, groups, weight):
    """Return the public loss, a mean over groups. Linear programs skip groups with one class."""
    if not isinstance(case, torch.nn.Module):
        params = {"threshold": case, "groups": groups, "sample_weight": weight, **kind}
        return losses.accuracy_at_top_loss(scores, positive, **params)
    each = []
    for group in groups.unique():
        rows = groups == group
        if len(positive[rows & (weight > 0)].unique()) == 2:
            each.append(case(scores[rows], positive[rows], sample_weight=weight[rows]))
    return torch.stack(each).mean()


def grouped(weighted):
    scores, positive, weight = table(weighted, n_members=1)
    groups = torch.randint(5, (N,), generator=torch.Generator().manual_seed(1))
    positive[groups == 1] = False
    return scores, positive, groups, weight


def with_groups(objective, batches, n_parts, scores, positive, groups, weight):
    made = type("Batches", (SimpleNamespace,), {"__len__": lambda self: len(batches)})
    parts, target = made(n_parts=np.array(n_parts)), positive.long().numpy()
    of_each = Groups(groups.numpy(), target, weight.numpy(), None, 1, parts, torch.device("cpu"))
    losses = []
    for rows in batches:
        lists = of_each.lists(slice(None), rows[None], len(rows))
        drawn = Drawn(totals(positive, weight, 1), lists=lists)
        own = (each[rows] for each in (positive, weight))
        losses.append(losses_of(objective, scores[:, rows], *own, drawn).sum())
    return torch.stack(losses)


KINDS_OF_GROUPS = [(t, k) for t in THRESHOLDS if t != "function" for k in KINDS]
CASES = {f"{t} {k}": (THRESHOLDS[t], KINDS[k]) for t, k in KINDS_OF_GROUPS}
CASES |= {name: (loss, {}) for name, loss in PROGRAMS.items()}


def objective_of(case, kind):
    return BatchLoss(case) if isinstance(case, torch.nn.Module) else TopLoss(case, n_hard=0, **kind)


@weighted_or_not
@pytest.mark.parametrize("name", CASES)
def test_minibatches_of_whole_groups_have_on_average_the_loss_of_all_groups(name, weighted):
    (case, kind), data = CASES[name], grouped(weighted)
    scores, positive, groups, weight = data
    expected = of_groups(case, kind, scores[0], positive, groups, weight)
    days = torch.tensor([0, 3]), torch.tensor([2]), torch.tensor([1, 4])
    batches = [torch.isin(groups, each).nonzero()[:, 0] for each in days]
    found = with_groups(objective_of(case, kind), batches, [1] * 5, *data)
    check_equal(found.mean(), expected, scores)


def test_a_part_of_a_group_is_weighted_to_represent_the_whole_group():
    data = scores, positive, groups, _ = grouped(False)
    case, kind = KthLargest("all", k=4), {"errors": "false_negatives", "surrogate": "hinge"}
    rows = (groups == 2).nonzero()[:, 0]
    part = rows[::2]
    found = with_groups(objective_of(case, kind), [part] * 15, [3] * 5, *data)[0]
    times = torch.ones(len(part))
    for label in (True, False):
        own = positive[part] == label
        times[own] = (positive[rows] == label).sum() / own.sum()
    t = case(scores[0, part], positive[part], times)
    expected = (1 + t - scores[0, part][positive[part]]).clamp(min=0).mean()
    # The loss is a mean over groups with positives. This group is in 3 of 15 minibatches.
    torch.testing.assert_close(found, expected * 15 / len(groups[positive].unique()) / 3)


DEFAULTS = {"k": 2, "tau": 0.5, "sigma": 0.2}


def of_classes(name):
    return make_objective(name, {each: DEFAULTS[each] for each in OF_LABELS[name].params}, 4)


OBJECTIVES = {key: lambda key=key: of_classes(key) for key in OF_LABELS if not OF_LABELS[key].draws}
OBJECTIVES["partner"] = CrossEntropy
OBJECTIVES["mixture"] = lambda: Mixture(of_classes("smooth_topk"), CrossEntropy(), 0.5)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_scores_of_samples_of_weight_zero_do_not_matter(name, value):
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 6, 4, generator=rng)
    target = (torch.arange(6) % 4).expand(3, -1)
    weight = torch.tensor([1.0, 2, 0, 1, 0, 3], dtype=torch.float64).expand(3, -1)
    of_class = torch.tensor([3.0, 4.0, 1.0, 2.0], dtype=torch.float64).unsqueeze(1)
    known = Totals(of_class.expand(-1, 3), of_class.expand(-1, 3) / 2, of_class.sum().expand(3) / 6)
    results = []
    for replaced in (None, value):
        own = scores.clone()
        if replaced is not None:
            own[:, weight[0] == 0] = replaced
        own.requires_grad_()
        found = OBJECTIVES[name]()(own, target, weight, Drawn(known))
        (gradient,) = torch.autograd.grad(found.sum(), own)
        assert found.isfinite().all()
        results.append((found, gradient[:, weight[0] > 0]))
    torch.testing.assert_close(results[0], results[1])
