"""Members of a network learn as if each were alone, from the rows that it does not leave out."""

import copy
import functools

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from skorch.callbacks import Callback

import sktopk
from sktopk import TopKClassifier
from sktopk._common._folds_by_content import deal_distinct
from sktopk._common._row_keys import row_keys
from sktopk._estimators import _net_classifier
from sktopk._training._folds import Folds
from sktopk._training.criteria import _members, _top
from sktopk._training.criteria._members import MemberLoss
from sktopk._training.criteria._top import TopCriterion
from sktopk.modules import MLP, Members, TabularMLP
from sktopk.modules._members import of_member
from tests.as_unseen import as_unseen_by_loops
from tests.named_losses import NAMED_LOSSES

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:k=.* must be"
)

RNG = np.random.default_rng(0)
N_ROWS, N_CLASSES, N_MEMBERS = 60, 5, 3
X = RNG.standard_normal((N_ROWS, 4))
Y = (X @ RNG.standard_normal((4, N_CLASSES)) + RNG.standard_normal((N_ROWS, N_CLASSES))).argmax(1)
POSITIVE = (X[:, 0] + RNG.standard_normal(N_ROWS) > 0.7).astype(int)
WEIGHT = RNG.integers(1, 4, N_ROWS).astype(float)

SMALL = {"module": MLP, "hidden_layer_sizes": (3,), "max_epochs": 3, "random_state": 0}
RANKERS = {
    f"{name}-{size}": getattr(sktopk, name)(**({} if size is None else {"buffer_size": size}))
    for name in sktopk.__all__
    if hasattr(getattr(sktopk, name), "partial_fit") and name != "TopKClassifier"
    for size in ([0, 1, 5] if hasattr(getattr(sktopk, name)(), "buffer_size") else [None])
}
LABELS = {
    **{loss: TopKClassifier(loss, k=2) for loss in NAMED_LOSSES},
    "several k": TopKClassifier(k={1: 0.5, 3: 0.5}),
    "balanced": TopKClassifier(k=2, class_weight="balanced"),
    "module": TopKClassifier(torch.nn.CrossEntropyLoss(label_smoothing=0.1), k=2),
}
ALL = LABELS | RANKERS


def target_of(clf):
    return Y if isinstance(clf, TopKClassifier) else POSITIVE


def made(clf, **params):
    params = SMALL | params
    if "k" in clf.get_params() and clf.k == 5:
        params["k"] = 3
    return copy.deepcopy(clf).set_params(**params)


def criterion_of(clf):
    """The criterion of a classifier of one network, before its first batch."""
    return copy.deepcopy(_criterion_of(clf))


@functools.cache
def _criterion_of(clf):
    clf = made(clf, n_members=1, max_epochs=1)
    clf.fit(X, target_of(clf))
    return clf._task("float64").criterion


def totals(target, weight, n_classes):
    total = torch.from_numpy(np.bincount(target, weight, n_classes))
    return total, total / torch.from_numpy(np.bincount(target, minlength=n_classes))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_each_member_gets_the_gradient_of_its_own_loss(name, weighted):
    alone, clf = criterion_of(ALL[name]), ALL[name]
    if name == "module" and weighted:
        alone.loss.reduction = "mean"
    y = target_of(clf)
    n_outputs = N_CLASSES if isinstance(clf, TopKClassifier) else 1
    together = MemberLoss(copy.deepcopy(alone), N_MEMBERS)
    each = [copy.deepcopy(alone) for _ in range(N_MEMBERS)]
    weight = WEIGHT if weighted else np.ones(N_ROWS)
    for criterion in (together, *each):
        criterion.begin(*totals(y, weight, len(np.unique(y))), N_ROWS)
    rng = torch.Generator().manual_seed(0)
    target = torch.from_numpy(y if n_outputs > 1 else y == 1)
    scores = torch.randn(N_ROWS, N_MEMBERS, n_outputs, generator=rng, dtype=torch.float64)
    hard = together.hard_rows
    for step in range(3):
        batch = torch.randperm(N_ROWS, generator=rng)[:25]
        joined = batch if hard is None else hard.join(batch)
        own = scores[joined].requires_grad_()
        sent = torch.from_numpy(weight)[joined] if weighted else None
        if together.draws:
            # All members draw in one go: without noise they say the same.
            for criterion in (together.criteria[0], *each):
                criterion.parameters["sigma"] = 0.0
            together.seed(torch.Generator())
        loss = together.backward(own, target[joined], sent)
        values = []
        for m, criterion in enumerate(each):
            if criterion.draws:
                criterion.seed(torch.Generator())
            index = batch if criterion.hard_rows is None else criterion.hard_rows.join(batch)
            one = scores[index, m].requires_grad_()
            sent = torch.from_numpy(weight)[index] if weighted else None
            values.append(criterion.backward(one, target[index], sent))
            # Sums over the rows that a batch has several times.
            expected, found = torch.zeros(2, N_ROWS, n_outputs, dtype=torch.float64)
            expected.index_add_(0, index, one.grad / N_MEMBERS)
            found.index_add_(0, joined, own.grad[:, m])
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)
            if hard is not None:
                member = together.criteria[m]
                assert member.hard_rows.index.tolist() == criterion.hard_rows.index.tolist()
        assert loss == pytest.approx(float(torch.stack(values).mean()))
        if "threshold" in together.trace:
            thresholds = [torch.as_tensor(criterion.trace["threshold"][-1]) for criterion in each]
            assert len(together.trace["threshold"]) == step + 1
            found = float(together.trace["threshold"][-1])
            assert found == pytest.approx(float(torch.stack(thresholds).mean()))


def as_tensors(scores, target, weight):
    """What a GPU computes with."""
    return torch, scores.detach(), target, weight


@pytest.mark.parametrize(
    ("library", "dtype"), [("numpy", torch.float32), ("torch", torch.float64)], ids=lambda v: str(v)
)
@pytest.mark.parametrize("weights", [None, "of rows", "of members"])
@pytest.mark.parametrize("name", RANKERS)
def test_members_at_once_do_what_a_loop_over_them_does(name, weights, dtype, library, monkeypatch):
    """With tied scores, rows drawn twice and rows that a member leaves out."""
    alone = criterion_of(RANKERS[name])
    if library == "torch":
        monkeypatch.setattr(_top, "arrays", as_tensors)
    loops = [MemberLoss(copy.deepcopy(alone), N_MEMBERS, own_rows=True) for _ in range(2)]
    found, expected = loops
    rng = torch.Generator().manual_seed(0)
    weight = None if weights is None else torch.from_numpy(WEIGHT).to(dtype)
    if weights == "of members":
        kept = torch.arange(N_ROWS)[:, None] % 4 != torch.arange(N_MEMBERS)
        weight = weight[:, None] * kept
    target = torch.from_numpy(POSITIVE == 1)
    total = torch.from_numpy(RNG.uniform(20, 40, (2, N_MEMBERS)))
    for criterion in loops:
        criterion.begin(total, total / 30, N_ROWS)
    n_at_once = []
    at_once = MemberLoss._at_once
    monkeypatch.setattr(MemberLoss, "_at_once", lambda *args: n_at_once.append(1) or at_once(*args))
    for _ in range(5):
        scores = torch.randn(N_ROWS, N_MEMBERS, 1, generator=rng, dtype=dtype).mul(4).round() / 4
        batch = torch.randint(N_ROWS, (25,), generator=rng)
        results = []
        for criterion in loops:
            with monkeypatch.context() as patch:
                if criterion is expected:
                    patch.setattr(_members, "can_join", lambda *args: False)
                index = batch if criterion.hard_rows is None else criterion.hard_rows.join(batch)
                own = None if weight is None else weight[index]
                results.append(criterion.gradient(scores[index], target[index], own))
        precise = dict.fromkeys(["rtol", "atol"], 1e-6 if dtype == torch.float32 else 1e-12)
        torch.testing.assert_close(*results, **precise)
        assert results[0][1].dtype == dtype
        for key, values in expected.trace.items():
            values = [torch.as_tensor(each) for each in (found.trace[key][-1], values[-1])]
            torch.testing.assert_close(*values, **precise)
        for one, other in zip(found.criteria, expected.criteria, strict=True):
            if one.hard_rows is not None:
                assert torch.equal(one.hard_rows.index, other.hard_rows.index)
    if isinstance(alone, TopCriterion) and getattr(alone.threshold, "locate", None) is not None:
        # Members that remember fewer rows than they may, as all do first, are taken one by one.
        assert len(n_at_once) >= (5 if alone.hard_rows is None else 2)


def test_diverged_scores_of_a_member_are_no_matter_of_the_others():
    criterion = MemberLoss(criterion_of(RANKERS["DeepTopPushClassifier-0"]), 2)
    target = torch.from_numpy(POSITIVE == 1)
    scores = torch.from_numpy(X[:, :2, None]).clone()
    loss, expected = criterion.gradient(scores, target, None)
    scores[3, 1] = torch.nan
    loss, gradient = criterion.gradient(scores, target, None)
    assert loss.isnan()
    assert gradient[:, 1].isnan().all()
    assert torch.equal(gradient[:, 0], expected[:, 0])


class Started(MLP):
    """A default network that starts from weights that are given."""

    given = None

    def __init__(self, n_features, n_outputs):
        super().__init__(n_features, n_outputs, (3,))
        if Started.given is not None:
            self.load_state_dict(Started.given.pop(0))


def initial_weights(n_outputs):
    torch.manual_seed(0)
    Started.given = None
    return [MLP(4, n_outputs, (3,)).double().state_dict() for _ in range(N_MEMBERS)]


def sgd(clf, **params):
    return made(
        clf,
        optimizer="sgd",
        weight_decay=0.0,
        score_scale=1.0,
        max_epochs=4,
        batch_size=25,
        **params,
    )


# An estimate of a rank by 25 rows at 3 times the rate goes astray in no more than rounding.
TRAINED = {
    "cross_entropy": (TopKClassifier("cross_entropy", k=2), 0.1),
    "smooth_topk": (TopKClassifier(k=2), 0.1),
    "logit_adjusted": (TopKClassifier("logit_adjusted", k=2), 0.1),
    **{name: (RANKERS[name], 0.02) for name in RANKERS if name.startswith(("DeepTop", "PatMatC"))},
    "AUCClassifier-None": (RANKERS["AUCClassifier-None"], 0.02),
}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", TRAINED)
def test_each_member_ends_with_the_weights_of_a_network_alone(name, kind, monkeypatch):
    clf, rate = TRAINED[name]
    y, rows = target_of(clf), X
    if kind == "sparse":
        monkeypatch.setattr("sktopk._training._batches.SPARSE_COLUMNS", 1)
        monkeypatch.setattr("sktopk._training._batches.SPARSE_SHARE", 1)
        rows = csr_array(np.where(np.abs(X) > 0.7, X, 0))
    weights = initial_weights(N_CLASSES if isinstance(clf, TopKClassifier) else 1)
    Started.given = [*weights]
    together = sgd(clf, module=Started, n_members=N_MEMBERS, learning_rate=N_MEMBERS * rate)
    together.fit(rows, y, sample_weight=WEIGHT)
    assert isinstance(together.net_.module_, Members)
    for m in range(N_MEMBERS):
        Started.given = [weights[m]]
        alone = sgd(clf, module=Started, learning_rate=rate).fit(rows, y, sample_weight=WEIGHT)
        found = together.net_.module_[m].state_dict()
        for key, expected in alone.net_.module_.state_dict().items():
            torch.testing.assert_close(found[key], expected, rtol=1e-7, atol=1e-9)
        assert not torch.allclose(found["0.weight"], weights[m]["0.weight"], rtol=1e-3)
    Started.given = None


@pytest.mark.parametrize("name", ["smooth_topk", "DeepTopPushClassifier-5"])
def test_members_packed_in_one_network_learn_as_if_alone(name):
    clf, rate = TRAINED[name]
    y = target_of(clf)
    params = {"module": TabularMLP, "hidden_layer_sizes": (3,)}
    kept = {}

    def packed(n_features, n_outputs, n_members=1):
        network = TabularMLP(n_features, n_outputs, (3,), n_members, dropout=0.0)
        if n_members == 1 and kept:
            state = network.state_dict()
            for key, value in kept["weights"].items():
                is_own = key.startswith("layers")
                state[key] = value[kept["m"] :][:1].float() if is_own else value.float()
            network.load_state_dict(state)
        else:
            kept["weights"] = copy.deepcopy(network.state_dict())
        return network

    params["module"] = packed
    together = sgd(clf, n_members=N_MEMBERS, learning_rate=N_MEMBERS * rate, **params).fit(X, y)
    for m in range(N_MEMBERS):
        kept["m"] = m
        alone = sgd(clf, learning_rate=rate, **params).fit(X, y).net_.module_.state_dict()
        found = together.net_.module_.state_dict()
        for key, index in of_member(together.net_.module_, m).items():
            torch.testing.assert_close(found[key][index], alone[key][0], rtol=1e-7, atol=1e-9)


def test_the_scores_are_the_mean_of_those_of_the_members():
    clf = made(LABELS["smooth_topk"], n_members=N_MEMBERS).fit(X, Y)
    each = clf.net_.module_(torch.from_numpy(X))
    assert each.shape == (N_ROWS, N_MEMBERS, N_CLASSES)
    np.testing.assert_allclose(clf.decision_function(X), each.mean(1).detach())


# Rows that a member leaves out.


class Kept(Callback):
    """The weights of every epoch."""

    epochs = None

    def on_train_begin(self, net, **kwargs):
        Kept.epochs = []

    def on_epoch_end(self, net, **kwargs):
        Kept.epochs.append(copy.deepcopy(net.module_.state_dict()))


def weights_of(module, m):
    state = module.state_dict()
    return {name: state[name][index] for name, index in of_member(module, m).items()}


CROSS_FIT = {
    name: ALL[name]
    for name in [*LABELS, *RANKERS]
    if not name.endswith("-0") and "Program" not in name
}


@pytest.mark.parametrize("warm_up", [0, 1])
@pytest.mark.parametrize("name", CROSS_FIT)
def test_a_member_never_learns_from_the_rows_that_it_leaves_out(name, warm_up, monkeypatch):
    """Their labels and weights may be anything: not a bit of its weights depends on them."""
    clf = CROSS_FIT[name]
    y = target_of(clf)
    is_ranker = not isinstance(clf, TopKClassifier)
    fold = deal_distinct(row_keys(X, 0), y, N_MEMBERS)
    monkeypatch.setattr(_net_classifier, "deal_distinct", lambda *args: fold)
    # Which positives are drawn into small batches is a matter of all labels.
    params = {"cross_fit": True, "n_members": N_MEMBERS, "warm_up": warm_up, "max_epochs": 2}
    params["batch_size"] = N_ROWS if is_ranker else 25
    whole = made(clf, **params).fit(X, y, sample_weight=WEIGHT)
    for m in range(2):
        other, weight = y.copy(), WEIGHT.copy()
        out = np.flatnonzero(fold == m)
        other[out] = np.arange(len(out)) == 0
        changed = made(clf, **params).fit(X, other, sample_weight=weight)
        weight[out] *= RNG.integers(1, 9, len(out))
        heavier = made(clf, **params).fit(X, other, sample_weight=weight)
        for each in range(N_MEMBERS):
            modules = [one.net_.module_ for one in (whole, changed, heavier)]
            expected, found, weighted = [weights_of(module, each) for module in modules]
            same = all(torch.equal(found[key], expected[key]) for key in found)
            if each != m:
                assert not same
                continue
            # Weights of all members are summed in one go, and rounded with it.
            assert same or name == "balanced"
            for key in weighted:
                for one in (found, weighted):
                    torch.testing.assert_close(one[key], expected[key], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["smooth_topk", "PatMatClassifier-1"])
def test_the_question_is_answered_wrongly_by_members_that_see_all_rows(name, monkeypatch):
    def all_of_them(self, index, weight):
        return torch.ones(len(self.fold[index]), self.n_members, dtype=torch.float64)

    monkeypatch.setattr(Folds, "weights", all_of_them)
    with pytest.raises(AssertionError):
        test_a_member_never_learns_from_the_rows_that_it_leaves_out(name, 0, monkeypatch)


def test_equal_rows_lie_in_one_fold_whatever_their_labels():
    rows = RNG.integers(0, 3, (200, 3)).astype(float)
    y = np.r_[RNG.integers(0, 3, 196), 3, 3, 4, 5]
    rows[-4:] = [[9, 9, 9], [9, 9, 9], [8, 8, 8], rows[0]]
    fold = deal_distinct(row_keys(rows, 0), y, 3)
    _, row = np.unique(rows, axis=0, return_inverse=True)
    for each in range(row.max() + 1):
        assert len(np.unique(fold[row == each])) == 1
    # A class that would lie in one fold is seen by all, with the rows equal to it.
    np.testing.assert_array_equal(fold[-4:], -1)
    assert fold[0] == -1
    for c in range(3):
        assert {0, 1, 2} <= set(fold[y == c])
    order = RNG.permutation(200)
    again = deal_distinct(row_keys(rows[order], 0), y[order], 3)
    np.testing.assert_array_equal(again, fold[order])
    # What classes are called has no part in it, nor has which of them comes first.
    named = RNG.permutation(6)[y]
    np.testing.assert_array_equal(deal_distinct(row_keys(rows, 0), named, 3), fold)
    distinct = deal_distinct(row_keys(X, 0), Y, 3)
    sizes = [np.bincount(distinct[Y == c], minlength=3) for c in range(N_CLASSES)]
    assert max(size.max() - size.min() for size in sizes) <= 1


@pytest.mark.parametrize("name", ["smooth_topk", "DeepTopPushClassifier-1", "two classes"])
def test_the_scores_out_of_fold_are_those_of_a_slow_loop(name):
    clf = ALL.get(name, TopKClassifier("cross_entropy", k=1))
    y = POSITIVE if name == "two classes" else target_of(clf).copy()
    rows = X.copy()
    rows[1], y[1] = rows[0], y[0]
    if name == "smooth_topk":
        y[7] = N_CLASSES  # the only row of its class
    clf = made(clf, cross_fit=True, n_members=5)
    if name != "two classes":
        clf.set_params(n_members=N_MEMBERS)
    clf.fit(rows, y, sample_weight=WEIGHT)
    n_members = clf.n_members
    if name == "smooth_topk":
        clf.set_params(n_members=4)
        with pytest.raises(ValueError, match="cannot go on with n_members=4"):
            clf.set_params(warm_start=True).fit(rows, y)
    fold = deal_distinct(row_keys(rows, 0), y, n_members)
    assert fold[0] == fold[1]
    module = clf.net_.module_.eval()
    expected = []
    for i in range(N_ROWS):
        unseen = [m for m in range(n_members) if fold[i] == m]
        scores = module(torch.from_numpy(rows[i : i + 1]))[0].detach().numpy()
        score = np.mean([scores[m] for m in unseen], axis=0) if unseen else np.full(6, np.nan)
        if name == "two classes":
            score = score[1] - score[0]
        elif name.startswith("Deep"):
            score = score[0] - clf.threshold_
        expected.append(score)
    expected = np.array(expected)
    np.testing.assert_allclose(clf.oob_decision_function_, expected, rtol=1e-6, atol=1e-9)
    lone = np.isnan(clf.oob_decision_function_).reshape(N_ROWS, -1).all(1)
    assert np.flatnonzero(lone).tolist() == ([7] if name == "smooth_topk" else [])
    known = ~lone
    if name == "smooth_topk":
        best = np.argsort(-expected[known], axis=1, kind="stable")[:, : clf.k_]
        hit = (best == y[known, None]).any(1)
    elif name == "two classes":
        hit = (expected > 0) == y
    if not name.startswith("Deep"):
        score = (WEIGHT[known] * hit).sum() / WEIGHT[known].sum()
    else:
        top = expected[y == 0].max()
        score = (WEIGHT * (expected > top))[y == 1].sum() / WEIGHT[y == 1].sum()
        # The threshold is that of all members, as if none had seen a row.
        scores = module(torch.from_numpy(rows))[:, :, 0].detach().numpy()
        unseen = fold[:, None] == np.arange(n_members)
        together = as_unseen_by_loops(scores, unseen, y > 0, WEIGHT)
        last = together[y == 0].max()
        # Midway to the next higher score, if there is one.
        following = min(together[together > last], default=last)
        assert clf.threshold_ == pytest.approx((last + following) / 2, abs=1e-6)
    assert clf.oob_score_ == pytest.approx(score)


@pytest.mark.parametrize("module", [MLP, TabularMLP])
@pytest.mark.parametrize("name", ["smooth_topk", "PatMatClassifier-1"])
def test_each_member_ends_with_its_own_best_epoch(name, module):
    clf, y = ALL[name], target_of(ALL[name])
    params = {"cross_fit": True, "n_members": N_MEMBERS, "max_epochs": 12, "learning_rate": 0.05}
    params |= {"batch_size": 25, "module": module, "callbacks": [Kept()], "warm_up": 4}
    if module is not None:
        params["net_params"] = {"module__hidden_layer_sizes": (4,)}
    clf = made(clf, early_stopping=True, n_iter_no_change=4, tol=0.0, **params).fit(X, y)
    fold = deal_distinct(row_keys(X, 0), y, N_MEMBERS)
    assert 4 < len(Kept.epochs) == clf.n_iter_ <= 16
    best, means = [], np.zeros(clf.n_iter_)
    for m in range(N_MEMBERS):
        out, scores = np.flatnonzero(fold == m), []
        scorer = clf._validation_scorer(y[out], np.ones(len(out)))
        for epoch in Kept.epochs:
            module = copy.deepcopy(clf.net_.module_)
            module.load_state_dict(epoch)
            given = module.eval()(torch.from_numpy(X[out]))[:, m].detach().numpy()
            given = given if given.shape[1] > 1 else given[:, 0]
            scores.append(scorer(clf._knowing(given), np.arange(len(out)), y[out]))
        means += np.array(scores) / N_MEMBERS
        # A fold may have few positives: in a ranking a score counts with the two before it.
        n_before = 2 if name.startswith("PatMat") else 0
        smooth = [np.mean(scores[max(0, i - n_before) : i + 1]) for i in range(len(scores))]
        best.append(int(np.argmax(smooth)))
        for key, value in weights_of(clf.net_.module_, m).items():
            index = of_member(clf.net_.module_, m)[key]
            assert torch.equal(value, Kept.epochs[best[-1]][key][index])
    recorded = np.array([row["valid_score"] for row in clf.history_])
    # At the end of the warm-up the best weights have been put back.
    others = np.arange(clf.n_iter_) != 3
    np.testing.assert_allclose(recorded[others], means[others])
    assert len(set(best)) > 1


def test_module_of_all_members_is_built_once_or_says_how():
    """A network whose output is (n_samples, n_members, n_outputs), as TabM's is."""

    class Together(torch.nn.Module):
        def __init__(self, n_features, n_outputs, n_members=4):
            super().__init__()
            self.shape = n_members, n_outputs
            self.linear = torch.nn.Linear(n_features, n_members * n_outputs)

        def forward(self, x):
            return self.linear(x).view(len(x), *self.shape)

    X, y = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32), np.arange(30) % 3
    params = {"k": 2, "n_members": 4, "max_epochs": 1}
    clf = TopKClassifier(module=Together, **params).fit(X, y)
    assert type(clf.net_.network) is Together
    clf = TopKClassifier(module=lambda n_features, n_outputs: Together(n_features, n_outputs))
    with pytest.raises(ValueError, match="give the callable a parameter n_members"):
        clf.set_params(**params).fit(X, y)
