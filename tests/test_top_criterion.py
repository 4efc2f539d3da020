"""A training minimises the public loss: on whole data, and on weighted samples with hard rows."""

import copy
import pickle
from itertools import product

import numpy as np
import pytest
import torch

from sktopk import RecallAtKClassifier
from sktopk._training.criteria._top import TopCriterion
from sktopk.losses import KthLargest, SurrogateQuantile, TopMean, accuracy_at_top_loss
from sktopk.losses._top_push import top_push_threshold

N_ROWS = 60


def middle(scores, positive, weight):
    """A user's threshold, of which the package knows nothing."""
    weight = torch.ones_like(scores) if weight is None else weight
    mean = (weight * scores).sum() / weight.sum()
    return mean + (weight * (scores - mean) ** 2).sum().sqrt() / weight.sum().sqrt()


THRESHOLDS = {
    "largest": top_push_threshold(),
    **{
        f"{kind.__name__} {of} {rank}": kind(of, **rank)
        for kind in (KthLargest, TopMean)
        for of, rank in (("negatives", {"k": 4}), ("positives", {"tau": 0.8}), ("all", {"k": 4}))
    },
    "surrogate quantile": SurrogateQuantile("negatives", 0.2),
    "hinge quantile of all": SurrogateQuantile("all", 0.04, "hinge"),
    "function": middle,
}

every_threshold = pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=list(THRESHOLDS))
KINDS = [
    {"errors": errors, "surrogate": surrogate}
    for errors in ("false_negatives", "false_positives")
    for surrogate in ("quadratic", "hinge", "logistic")
]
BUFFERS = (0, 1, 5)


@pytest.fixture
def library(monkeypatch):
    """Iterates over the steps of a CPU and those of a GPU, which a CPU can take as well."""

    def tensors(scores, target, weight):
        return torch, scores.detach().flatten(), target, weight

    def libraries():
        yield "arrays"
        monkeypatch.setattr("sktopk._training.criteria._top.arrays", tensors)
        yield "tensors"

    return libraries()


def crossed(library, *ways):
    """All combinations, with one library after the other."""
    for name in library:
        for each in product(*ways):
            yield name, each


def table(weighted):
    """Scores, labels and weights of all rows, and what the classes weigh."""
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(N_ROWS, dtype=torch.float64, generator=generator)
    positive = torch.randperm(N_ROWS, generator=generator) < 20
    weight = torch.ones(N_ROWS, dtype=torch.float64)
    if weighted:
        weight = torch.rand(N_ROWS, dtype=torch.float64, generator=generator) + 0.3
        weight[::11] = 0
    return scores, positive, weight


def begun(criterion, positive, weight, **params):
    """A criterion that knows the rows in training."""
    groups = ~positive, positive
    total = torch.stack([weight[group].sum() for group in groups])
    mean = torch.stack([weight[group & (weight > 0)].mean() for group in groups])
    criterion.begin(total, mean, **params)
    return criterion


def steps(criterion, scores, positive, weight, batches):
    """Loss, gradient and rows of each batch."""
    for batch in batches:
        index, hard = torch.tensor(batch), criterion.hard_rows
        index = index if hard is None else hard.join(index)
        own = None if weight is None else weight[index]
        yield *criterion.gradient(scores[index, None], positive[index], own), index


@every_threshold
def test_on_all_rows_it_is_the_loss(threshold, library):
    ways = (False, True), (False, True), BUFFERS, KINDS
    for _, (weighted, tied, buffer_size, kind) in crossed(library, *ways):
        scores, positive, weight = table(weighted)
        scores = scores.round() if tied else scores
        given = weight if weighted else None
        options = {"threshold": threshold, **kind}
        criterion = begun(TopCriterion(buffer_size=buffer_size, **options), positive, weight)
        leaf = scores.clone().requires_grad_()
        expected = accuracy_at_top_loss(leaf, positive, sample_weight=given, **options)
        expected.backward()
        # Twice: with the hard rows of the first time, which are rows of the batch.
        for loss, gradient, index in steps(criterion, scores, positive, given, [range(N_ROWS)] * 2):
            torch.testing.assert_close(loss, expected.detach())
            by_row = torch.zeros_like(scores).index_add(0, index, gradient.flatten())
            torch.testing.assert_close(by_row, leaf.grad)
        torch.testing.assert_close(criterion(scores[:, None], positive, given), expected.detach())


def counts(threshold, rows, n_fresh, scores, positive, weight):
    """What the docstring of TopCriterion says that each row counts for, row by row."""
    of = getattr(threshold, "of", "all")
    labels = {"negatives": [0], "positives": [1], "all": [0, 1]}[of]
    group = [i for i in dict.fromkeys(rows) if positive[i] in labels]
    hard = [i for i in group if i in rows[n_fresh:]]
    others = [i for i in group if i not in hard]
    result = dict.fromkeys(range(len(scores)), 0.0)
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
    return torch.tensor([result[i] for i in range(len(scores))], dtype=torch.float64)


BATCHES = [range(0, 24), range(24, 40), range(36, 60), range(0, 60, 4), range(5, 30)]


@every_threshold
def test_on_a_sample_it_is_the_loss_of_rows_that_count_for_others(threshold, library):
    for _, (weighted, buffer_size) in crossed(library, (False, True), BUFFERS):
        assert_loss_of_a_sample(threshold, weighted, buffer_size)


def assert_loss_of_a_sample(threshold, weighted, buffer_size):
    scores, positive, weight = table(weighted)
    given = weight if weighted else None
    criteria = [TopCriterion(threshold, buffer_size=buffer_size, **kind) for kind in KINDS]
    found = [
        steps(begun(each, positive, weight), scores, positive, given, BATCHES) for each in criteria
    ]
    for batch, *results in zip(BATCHES, *found, strict=True):
        rows, own = results[0][2].tolist(), torch.zeros_like(weight)
        own[list(batch)] = weight[list(batch)]
        sample = counts(threshold, rows, len(batch), scores, positive.int(), weight)
        for kind, (loss, gradient, index) in zip(KINDS, results, strict=True):
            leaf = scores.clone().requires_grad_()
            params = {"sample_weight": own, "reduction": "sum", **kind}
            params["threshold"] = lambda s, p, w, sample=sample: threshold(s, p, sample)
            expected = accuracy_at_top_loss(leaf, positive, **params)
            counted = positive if kind["errors"] == "false_negatives" else ~positive
            counted = counted & (weight > 0)
            expected = expected / (counted[list(batch)].sum() * weight[counted].mean())
            expected.backward()
            torch.testing.assert_close(loss, expected.detach())
            by_row = torch.zeros_like(scores).index_add(0, index, gradient.flatten())
            torch.testing.assert_close(by_row, leaf.grad)


# Its state.


def rebuilt(criterion):
    """A criterion built anew and given the state of another."""
    options = criterion.threshold, dict(criterion.kinds), criterion.surrogate
    size = 0 if criterion.hard_rows is None else criterion.hard_rows.size
    new = TopCriterion(*options, size)
    new.load_state_dict(copy.deepcopy(criterion.state_dict()))
    return new


def test_goes_on_from_its_state():

    for again in (rebuilt, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        for threshold, buffer_size in product(THRESHOLDS.values(), BUFFERS):
            assert_goes_on(threshold, buffer_size, again)


def assert_goes_on(threshold, buffer_size, again):
    scores, positive, weight = table(weighted=True)
    criterion = TopCriterion(threshold, "false_negatives", "quadratic", buffer_size)
    # Totals are no numbers of float32.
    begun(criterion, positive, weight / 3)
    data = scores, positive, weight / 3
    list(steps(criterion, *data, BATCHES[:2]))
    other = again(criterion)
    for going_on in (BATCHES[2:4], BATCHES[4:]):
        found, expected = (list(steps(each, *data, going_on)) for each in (other, criterion))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        # More rows, and on with them.
        for each in (other, criterion):
            begun(each, positive, weight / 2, resumed=True)


def test_the_float_type_of_the_network_is_not_that_of_its_totals():
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 3 == 0
    clf = RecallAtKClassifier(k=3, n_estimators=1, max_epochs=1, calibration=None)
    clf.fit(X.astype(np.float32), y, sample_weight=np.full(60, 1 + 2.0**-40))
    for each in (clf, pickle.loads(pickle.dumps(clf))):
        totals = each.net_.criterion_.losses[0].class_total
        assert totals.tolist() == [40 + 40 * 2.0**-40, 20 + 20 * 2.0**-40]


@pytest.mark.filterwarnings("error")
def test_nan_or_infinity_in_any_row_makes_the_loss_nan(library):
    ways = THRESHOLDS.values(), (np.nan, np.inf), (0, 5)
    for _, (threshold, value, buffer_size) in crossed(library, *ways):
        assert_nan(threshold, value, buffer_size)


def assert_nan(threshold, value, buffer_size):
    scores, positive, _ = table(weighted=False)
    weight = torch.ones_like(scores)
    for kind in KINDS[::4]:
        for row in (int(positive.nonzero()[0]), int((~positive).nonzero()[0])):
            bad = scores.clone()
            bad[row] = value
            for given in (None, weight):
                criterion = TopCriterion(threshold, **kind, buffer_size=buffer_size)
                begun(criterion, positive, weight)
                for loss, gradient, _ in steps(criterion, bad, positive, given, [range(N_ROWS)]):
                    assert loss.isnan()
                    assert gradient.isnan().any()
                assert criterion(bad[:, None], positive, given).isnan()
            absent = weight.index_fill(0, torch.tensor([row]), 0.0)
            criterion = begun(TopCriterion(threshold, **kind, buffer_size=0), positive, absent)
            if threshold is not middle:
                assert not criterion(bad[:, None], positive, absent).isnan()
