"""Cross-entropy first, then the loss that counts, perhaps beside it."""

import copy
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback
from torch.nn import functional as F

from sktopk import DeepTopPushClassifier, PatMatClassifier, TopKClassifier
from sktopk._training.criteria._base import RowLoss
from sktopk._training.criteria._members import MemberLoss
from sktopk._training.criteria._program import ProgramCriterion
from sktopk._training.criteria._top import TopCriterion
from sktopk._training.criteria._warm_up import (
    TwoClassCrossEntropy,
    WarmUp,
    cross_entropy_of_members,
)
from sktopk.losses import (
    FBetaLoss,
    KthLargest,
    LogitAdjustedLoss,
    PairwiseAUCLoss,
    RecallAtFPRLoss,
    SmoothTopKAdjustedLoss,
    cross_entropy_loss,
    smooth_topk_loss,
)
from sktopk.losses._smooth_topk import topk_inclusion_proba
from sktopk.losses._thresholds import Largest
from sktopk.modules import MLP
from tests.losses import references

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 4))
Y = (X @ RNG.standard_normal((4, 5)) + RNG.standard_normal((80, 5))).argmax(1)
POSITIVE = (X[:, 0] + RNG.standard_normal(80) > 0.7).astype(int)
QUICK = {
    "module": MLP,
    "hidden_layer_sizes": (4,),
    "batch_size": 30,
    "max_epochs": 3,
    "random_state": 0,
}


class Watch(Callback):
    """Weights at the end of every epoch; rates and moments at the begin."""

    def on_train_begin(self, net, **kwargs):
        Watch.weights, Watch.rates, Watch.n_moments = [], [], []

    def on_epoch_begin(self, net, **kwargs):
        Watch.rates.append(net.optimizer_.param_groups[0]["lr"])
        Watch.n_moments.append(len(net.optimizer_.state))

    def on_epoch_end(self, net, **kwargs):
        Watch.weights.append(copy.deepcopy(net.module_.state_dict()))


def equal(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


FIRST = {
    "smooth_topk": "cross_entropy",
    "topk_hinge": "cross_entropy",
    "noised_topk": "cross_entropy",
    "ldam": "cross_entropy",
    "logit_adjusted": "logit_adjusted",
    "smooth_topk_adjusted": "logit_adjusted",
}


@pytest.mark.parametrize("loss", FIRST)
def test_the_first_epochs_are_those_of_cross_entropy(loss):
    params = QUICK | {"k": 2, "callbacks": [Watch()]}
    TopKClassifier(FIRST[loss], **params).fit(X, Y, sample_weight=1 + Y)
    expected = Watch.weights
    clf = TopKClassifier(loss, warm_up=3, **params).fit(X, Y, sample_weight=1 + Y)
    assert clf.n_iter_ == len(Watch.weights) == 6
    assert all(map(equal, Watch.weights[:3], expected))
    assert Watch.rates == [1e-3] * 3 + [0.25e-3] * 3
    assert Watch.n_moments == [0, 4, 4, 0, 4, 4]
    warm = Watch.weights
    TopKClassifier(loss, warm_up=3, cross_entropy_share=0.0, **params).fit(X, Y, 1 + Y)
    # Of logit-adjusted cross-entropy any share is the whole.
    assert equal(warm[-1], Watch.weights[-1]) == (loss == "logit_adjusted")


def test_where_the_loss_has_priors_the_cross_entropy_beside_it_has_them():
    """Against steps of plain gradient descent on finite differences of slow definitions."""
    params = QUICK | {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 0.0}
    params |= {"hidden_layer_sizes": (), "batch_size": 80, "max_epochs": 2, "random_state": 1}
    weight = 1.0 + Y
    clf = TopKClassifier(
        "smooth_topk_adjusted",
        k=2,
        score_scale=3.0,
        warm_up=2,
        cross_entropy_share=0.3,
        callbacks=[Watch()],
        **params,
    ).fit(X, Y, sample_weight=weight)
    counts = np.bincount(Y, weight)
    np.testing.assert_allclose(counts, clf.class_count_)

    def slow(theta, warm):
        total = 0.0
        for x, label, w in zip(X, Y.tolist(), weight, strict=True):
            s = theta[:, :4] @ x + theta[:, 4]
            value = references.logit_adjusted(s, label, counts)
            if warm:
                top = references.smooth_topk_adjusted(3 * s, label, k=2, class_counts=counts)
                value = 0.3 * value + 0.7 * top
            total += w * value
        return total / weight.sum()

    steps = [np.column_stack([part.numpy() for part in each.values()]) for each in Watch.weights]
    for step, rate in ((1, 0.1), (2, 0.025)):
        theta, gradient = steps[step - 1], np.zeros((5, 5))
        for i in np.ndindex(5, 5):
            shift = np.zeros((5, 5))
            shift[i] = 1e-5
            low, high = (slow(theta + sign * shift, warm=step == 2) for sign in (-1, 1))
            gradient[i] = (high - low) / 2e-5
        np.testing.assert_allclose(steps[step], theta - rate * gradient, atol=1e-8)


def test_each_member_has_the_priors_of_its_rows_in_both_phases():
    params = QUICK | {"n_members": 3, "cross_fit": True, "warm_up": 2}
    clf = TopKClassifier("smooth_topk_adjusted", k=2, **params).fit(X, Y)
    first, then = clf.net_.criterion_.first.criteria, clf.net_.criterion_.then.criteria
    counts = np.array([each.class_counts.numpy() for each in first])
    np.testing.assert_array_equal(counts, [each.class_counts.numpy() for each in then])
    assert len(np.unique(counts, axis=0)) > 1


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("logit_adjusted", LogitAdjustedLoss(np.bincount(Y))),
        ("smooth_topk_adjusted", SmoothTopKAdjustedLoss(np.bincount(Y), k=2)),
    ],
)
def test_a_module_of_a_loss_with_priors_starts_like_its_name(name, module):
    params = QUICK | {"k": 2, "warm_up": 2, "score_scale": 1.0, "callbacks": [Watch()]}
    TopKClassifier(name, **params).fit(X, Y)
    expected = Watch.weights
    TopKClassifier(module, **params).fit(X, Y)
    for found, each in zip(Watch.weights, expected, strict=True):
        assert all(torch.allclose(found[key], each[key]) for key in each)


def test_with_two_heads_cross_entropy_stands_for_probabilities_and_is_plain():
    params = QUICK | {"k": 2, "warm_up": 2, "order": "cross_entropy"}
    clf = TopKClassifier("smooth_topk_adjusted", **params).fit(X, Y)
    assert clf.net_.criterion_.first.class_counts is None


def test_a_ranker_starts_with_logistic_regression():
    """Against steps of plain gradient descent on the formula."""
    params = QUICK | {"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 0.0}
    params |= {"hidden_layer_sizes": (), "batch_size": 80, "callbacks": [Watch()]}
    weight = 1.0 + np.arange(80) % 3
    PatMatClassifier(warm_up=3, **params).fit(X, POSITIVE, sample_weight=weight)
    W, b = Watch.weights[0].values()
    rows, target = torch.from_numpy(X), torch.from_numpy(POSITIVE).double()
    for step in (1, 2):
        leaves = [each.clone().requires_grad_() for each in (W, b)]
        z = F.linear(rows, *leaves).flatten()
        each = F.binary_cross_entropy_with_logits(z, target, torch.from_numpy(weight))
        (each * len(z) / weight.sum()).backward()
        W, b = (leaf.detach() - 0.1 * leaf.grad for leaf in leaves)
        for found, expected in zip(Watch.weights[step].values(), (W, b), strict=True):
            torch.testing.assert_close(found, expected)


def mean_cross_entropy(z, target, weight):
    each = F.cross_entropy(z, target, reduction="none")
    return (weight * each).sum() / weight.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("warm", [False, True])
def test_the_gradient_is_that_of_the_formula(warm, n_members, n_heads, weighted):
    first, then = RowLoss(cross_entropy_loss, {}), RowLoss(smooth_topk_loss, {"k": 2})
    if n_members > 1:
        first, then = MemberLoss(first, n_members), MemberLoss(then, n_members)
    criterion = WarmUp(first, then, 0.3, 7.0, n_heads)
    if warm:
        criterion.end_warm_up()
    generator = torch.Generator().manual_seed(0)
    shape = (20, 5 * n_heads) if n_members == 1 else (20, n_members, 5 * n_heads)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.randint(5, (20,), generator=generator)
    weight = torch.rand(20, generator=generator, dtype=torch.float64) if weighted else None
    loss = criterion.backward(scores, target, weight)
    leaf = scores.detach().clone().requires_grad_()
    total, w = 0.0, torch.ones(20, dtype=torch.float64) if weight is None else weight
    for z in leaf.view(20, n_members, -1).unbind(1):
        s, o = z.chunk(2, 1) if n_heads == 2 else (z, z)
        ce = mean_cross_entropy(o, target, w) * w.mean()
        if warm:
            top = smooth_topk_loss(7 * s, target, k=2, sample_weight=w) * w.mean()
            value = 0.3 * ce + 0.7 * top
        else:
            value = ce + (mean_cross_entropy(s, target, w) * w.mean() if n_heads == 2 else 0)
        total = total + value / n_members
    total.backward()
    torch.testing.assert_close(scores.grad, leaf.grad)
    if n_heads == 1:
        torch.testing.assert_close(loss, total.detach())


@pytest.mark.parametrize("label", [0, 1, "both"])
@pytest.mark.parametrize(
    "kind", ["cross-entropy", PairwiseAUCLoss(), FBetaLoss(), RecallAtFPRLoss(fpr=0.1)], ids=str
)
def test_a_batch_of_rows_that_a_member_leaves_out_teaches_it_nothing(kind, label):
    """Their weights are 0: of one class in a batch, or of all its rows if it is one day."""
    criterion = TwoClassCrossEntropy() if kind == "cross-entropy" else ProgramCriterion(kind)
    total = torch.tensor([45.0, 15.0], dtype=torch.float64)
    criterion.begin(total, torch.ones(2, dtype=torch.float64), 60)
    target = torch.arange(20) % 4 == 0
    left_out = torch.full_like(target, True) if label == "both" else target == label
    weight = (~left_out).float()
    scores = torch.linspace(-1, 1, 20)
    scores.requires_grad_()
    loss = criterion.backward(scores, target, weight)
    assert torch.isfinite(torch.as_tensor(loss))
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[left_out] == 0).all()


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_hard_rows_are_in_the_threshold_and_not_in_the_cross_entropy(size, n_members):
    """Rows that were remembered join the batch: their cross-entropy is none of its sample."""
    threshold = Largest("negatives") if size == 1 else KthLargest("negatives", k=3)
    first, then = (
        TwoClassCrossEntropy(),
        TopCriterion(threshold, "false_negatives", "quadratic", size),
    )
    alones = [copy.deepcopy(then) for _ in range(n_members)]
    if n_members > 1:
        first, then = MemberLoss(first, n_members), MemberLoss(then, n_members)
    criterion = WarmUp(first, then, 0.3, 2.0)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(60, n_members, 1, generator=generator, dtype=torch.float64)
    target = torch.arange(60) % 4 == 0
    total = torch.tensor([45.0, 15.0], dtype=torch.float64)
    for each in (criterion, *alones):
        each.begin(total, torch.ones(2, dtype=torch.float64), 60)
    for step in range(4):
        if step == 1:
            criterion.end_warm_up()
        batch = torch.randperm(60, generator=generator)[:20]
        joined = criterion.hard_rows.join(batch) if size else batch
        own = scores[joined].squeeze(1) if n_members == 1 else scores[joined]
        own = own.clone().requires_grad_()
        criterion.backward(own, target[joined], None)
        for m, alone in enumerate(alones):
            expected = torch.zeros(60, dtype=torch.float64)
            if step:
                index = alone.hard_rows.join(batch) if size else batch
                leaf = 2 * scores[index, m]
                _, gradient = alone.loss_and_gradient(leaf, target[index], None)
                expected.index_add_(0, index, 0.7 * 2 * gradient.flatten())
            z = scores[batch, m, 0].clone().requires_grad_()
            # In the proportions of all rows, three negatives for a positive.
            positive = target[batch]
            weight = torch.where(positive, 0.25 / positive.sum(), 0.75 / (~positive).sum())
            ce = F.binary_cross_entropy_with_logits(z, positive.double(), weight, reduction="sum")
            ce.backward()
            expected.index_add_(0, batch, (0.3 if step else 1.0) * z.grad)
            found = torch.zeros(60, dtype=torch.float64)
            found.index_add_(0, joined, own.grad.view(len(own), n_members)[:, m])
            torch.testing.assert_close(found, expected / n_members)


@pytest.mark.parametrize("kind", [TopKClassifier, DeepTopPushClassifier])
@pytest.mark.parametrize("rate", [0.002, 0.05, 0.5])
def test_early_stopping_keeps_the_best_epoch_of_both_phases(kind, rate):
    params = QUICK | {"max_epochs": 8, "warm_up": 6, "learning_rate": rate, "random_state": 1}
    params |= {"n_iter_no_change": 3, "early_stopping": True, "callbacks": [Watch()]}
    if kind is TopKClassifier:
        params |= {"k": 2, "scoring": "accuracy"}
    y = Y if kind is TopKClassifier else POSITIVE
    clf = kind(**params).fit(X, y, X_val=X[::2], y_val=y[::2])
    scores = [row["valid_score"] for row in clf.history_]
    best = int(np.argmax(scores))
    assert equal(clf.net_.module_.state_dict(), Watch.weights[best])
    # The first epoch of the second phase starts from the best one of the first.
    switch = Watch.rates.index(rate / 4)
    assert switch == 6 or switch - int(np.argmax(scores[:switch])) > 3
    if (first := int(np.argmax(scores[:switch]))) < switch - 1:
        assert equal(Watch.weights[switch - 1], Watch.weights[first])


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize(
    ("then", "says"),
    [
        ([0.7, 0.9, 0.8], "cross-entropy alone scored 0.9 at best in the warm-up of 3 epochs, and"),
        ([0.7, 0.6, 0.8], "the loss after it 0.8 in 3: it has not beaten cross-entropy here"),
        ([0.7, 0.91, 0.8], None),
    ],
)
def test_a_loss_that_has_not_beaten_cross_entropy_says_so(then, says, early_stopping):
    for kind, y in ((DeepTopPushClassifier, POSITIVE), (TopKClassifier, Y)):
        scores = iter([0.5, 0.9, 0.8, *then])
        params = QUICK | {"warm_up": 3, "scoring": lambda *_, it=scores: next(it)}
        clf = kind(early_stopping=early_stopping, **params)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf.fit(X, y, X_val=X, y_val=y)
        found = [w for w in caught if "cross-entropy" in str(w.message)]
        assert len(found) == (says is not None)
        assert says is None or (says in str(found[0].message) and found[0].filename == __file__)


@pytest.mark.parametrize("verbose", [0, 1, 2])
@pytest.mark.parametrize("after", [0.9, 0.95])
def test_a_default_training_says_it_where_it_says_anything(after, verbose, capsys):
    scores = iter([0.5, 0.9, 0.8, 0.7, after, 0.6])
    clf = DeepTopPushClassifier(
        n_members=1, max_epochs=3, verbose=verbose, scoring=lambda *_: next(scores), random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, POSITIVE, X_val=X, y_val=POSITIVE)
    assert not [w for w in caught if "cross-entropy" in str(w.message)]
    said = "scored 0.9 at best in the warm-up of 3 epochs, and the loss after it 0.9 in 3"
    assert (said in capsys.readouterr().out) == (verbose > 0 and after == 0.9)


def test_nothing_is_said_of_cross_entropy_where_nothing_is_known():
    params = QUICK | {"k": 2}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TopKClassifier(warm_up=2, **params).fit(X, Y)
        TopKClassifier(**params).fit(X, Y, X_val=X, y_val=Y)
        TopKClassifier(warm_up=2, **params).partial_fit(X, Y)
    assert not [w for w in caught if "cross-entropy" in str(w.message)]


def test_a_share_may_be_any_kind_of_number():
    scores = []
    for share in (1 / 4, Fraction(1, 4), np.float32(0.25)):
        clf = TopKClassifier(k=2, warm_up=1, cross_entropy_share=share, **QUICK)
        scores.append(clf.fit(X, Y).decision_function(X))
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_without_a_warm_up_there_is_none():
    clf = TopKClassifier(k=2, **QUICK).fit(X, Y)
    assert isinstance(clf.net_.criterion_, RowLoss)
    assert clf.set_params(cross_entropy_share=0.1).fit(X, Y).n_iter_ == 3


def test_a_warm_start_has_no_second_warm_up():
    params = QUICK | {"k": 2, "warm_up": 2, "warm_start": True, "callbacks": [Watch()]}
    clf = TopKClassifier(**params).fit(X, Y)
    assert clf.n_iter_ == 5
    clf.fit(X, Y)
    assert clf.n_iter_ == 8
    assert Watch.rates == [0.25e-3] * 3


def test_probabilities_of_sets_mean_what_the_loss_did_with_the_scores():
    """The factor on the scores is in the loss: exponents are c s / (k tau)."""
    clf = TopKClassifier(k=2, tau=2.0, warm_up=2, score_scale=6.0, **QUICK).fit(X, Y)
    scores = torch.from_numpy(clf.decision_function(X))
    expected = topk_inclusion_proba(6.0 * scores / (2 * 2.0), k=2)
    np.testing.assert_allclose(clf.predict_topk_proba(X), expected)


def test_members_at_once_are_members_one_by_one():
    """A member whose weights leave no positive among them, too, and weights of 0."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(9, 3, 1, generator=generator, dtype=torch.float64)
    target = torch.tensor([0, 1, 0, 0, 1, 0, 0, 1, 0])
    weight = torch.rand(9, 3, generator=generator, dtype=torch.float64)
    weight[::4] = 0
    weight[target == 1, 2] = 0
    each = [TwoClassCrossEntropy() for _ in range(3)]
    for m, criterion in enumerate(each):
        total = torch.tensor([90.0 + m, 10.0 + 2 * m], dtype=torch.float64)
        criterion.begin(total, torch.tensor([1.0, 0.5 + m], dtype=torch.float64), 100)
    loss, gradient = cross_entropy_of_members(each, scores, target, weight)
    losses = []
    for m, criterion in enumerate(each):
        # The definition: classes weigh what they weigh in training, rows of a class as given.
        own, share = scores[:, m, 0].clone().requires_grad_(), 0.0
        for label in (0, 1):
            rows = (target == label) & (weight[:, m] > 0)
            if rows.any():
                part = criterion.class_total[label] / criterion.class_total.sum()
                seen = rows.sum() * criterion.mean_weight[label]
                sign = 1 if label else -1
                log_loss = -torch.nn.functional.logsigmoid(sign * own[rows])
                share = share + part / seen * (weight[rows, m] * log_loss).sum()
        share.backward()
        losses.append(share.item())
        assert gradient[:, m, 0].tolist() == pytest.approx(own.grad.tolist(), abs=1e-14)
        alone = criterion.loss_and_gradient(scores[:, m], target, weight[:, m])
        assert alone[0].item() == pytest.approx(losses[-1])
    assert loss.item() == pytest.approx(sum(losses) / 3)
