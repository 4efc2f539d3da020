"""Rankers that train for the top of each group: a day, a query, a plate."""

import copy
import pickle
from functools import partial
from itertools import product

import numpy as np
import pytest
import sklearn
import torch
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sktopk
from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    PatMatClassifier,
    PrecisionAtRecallClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    RecallAtPrecisionClassifier,
    ThresholdClassifier,
    TopPushKClassifier,
)
from sktopk._training._batches import GroupBatches
from sktopk._training.criteria._ensemble import EnsembleLoss
from sktopk._training.criteria._groups import GroupRows
from sktopk._training.criteria._program import ProgramCriterion
from sktopk._training.criteria._top import TopCriterion
from sktopk.callbacks import TrueThreshold
from sktopk.losses import (
    FBetaLoss,
    KthLargest,
    PairwiseAUCLoss,
    RecallAtPrecisionLoss,
    SurrogateQuantile,
    TopMean,
    accuracy_at_top_loss,
)
from sktopk.losses._thresholds import Largest
from sktopk.metrics import precision_at_k_score, recall_at_k_score
from sktopk.modules import MLP
from tests.crashing import check_same, fitted_state

RANKERS = [
    DeepTopPushClassifier(),
    RecallAtKClassifier(8),
    RecallAtFPRClassifier(0.1),
    PrecisionAtRecallClassifier(),
    ThresholdClassifier(TopMean("negatives", k=3)),
    RecallAtPrecisionClassifier(0.5),
]
every_ranker = pytest.mark.parametrize("clf", RANKERS, ids=lambda clf: type(clf).__name__)
SMALL = {"hidden_layer_sizes": (4,), "max_epochs": 3, "random_state": 0, "n_estimators": 1}
SMALL |= {"module": MLP, "n_iter_no_change": None}


def some_days(n_days=12, seed=0):
    """Samples of days whose level moves, and with it a column that is constant within a day."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), rng.integers(20, 60, n_days))
    level = 3 * rng.standard_normal(n_days)[day]
    signal = rng.standard_normal(len(day))
    X = np.column_stack([signal + level, level, rng.standard_normal(len(day))])
    y = (signal + 0.3 * rng.standard_normal(len(day)) > 1.0).astype(int)
    order = rng.permutation(len(day))
    return X[order], y[order], day[order]


X, Y, DAY = some_days()
NAMES = np.array([f"day {i}" for i in range(30)])


def weights(clf):
    return {name: value.numpy() for name, value in clf.net_.module_.state_dict().items()}


def same_fit(one, other):
    for name, value in weights(one).items():
        np.testing.assert_array_equal(value, weights(other)[name])
    assert one.threshold_ == other.threshold_


# Minibatches of groups.


def sampler(target, groups, batch_size, min_positives=2):
    generator = torch.Generator().manual_seed(0)
    return GroupBatches(target, groups, batch_size, min_positives, generator)


@pytest.mark.parametrize("batch_size", [3, 16, 1000])
def test_batches_have_whole_groups_or_parts_of_several(batch_size):
    batches = sampler(Y, DAY, batch_size)
    size = np.bincount(DAY)
    for _ in range(3):
        epoch = [each.numpy() for each in batches]
        assert len(epoch) == len(batches)
        found = np.bincount(np.concatenate(epoch), minlength=len(Y))
        assert (found[Y == 0] == 1).all()
        assert (found >= 1).all()
        # Each part in a batch of its own.
        comes_in = np.bincount(np.concatenate([np.unique(DAY[batch]) for batch in epoch]))
        np.testing.assert_array_equal(comes_in, batches.n_parts)
        for batch in epoch:
            days = np.unique(DAY[batch])
            if (size[days] > batch_size).any():
                assert (size[days] > batch_size).all()
                assert len(days) <= min(batches.n_joined, 10, max(1, batch_size // 4))
                assert len(batch) <= batch_size
                for day in days:
                    if Y[DAY == day].sum() >= 2:
                        assert Y[batch[DAY[batch] == day]].sum() >= 2
            else:
                assert len(batch) == size[days].sum()
                assert len(batch) < batch_size + size.max()
    assert [e.tolist() for e in batches] != [e.tolist() for e in batches]


LAYOUTS = [
    [9, 9, 9, 9, 2] * 8, [10, 10, 10, 2] * 10, [1] * 41, [1, 1],
    [10, 1, 10, 7, 1, 1, 3, 9] * 4, [10, 10, 1], [1, 10],
]  # fmt: skip


def test_every_epoch_has_whole_groups_and_no_minibatch_of_one():
    for sizes, batch_size in product(LAYOUTS, (10, 12, 17)):
        groups = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
        batches = sampler(np.arange(len(groups)) % 2, groups, batch_size)
        for _ in range(20):
            epoch = [each.numpy() for each in batches]
            assert len(epoch) == len(batches)
            assert sorted(np.concatenate(epoch)) == [*range(len(groups))]
            assert sum(len(np.unique(groups[each])) for each in epoch) == len(sizes)
            lengths = [len(each) for each in epoch]
            assert 2 <= min(lengths) <= max(lengths) < 2 * batch_size + 2


# The loss of batches.

THRESHOLDS = {
    "largest": Largest("negatives"),
    "k-th": KthLargest("all", k=3),
    "of positives": KthLargest("positives", tau=0.6),
    "mean": TopMean("negatives", k=3),
    "hinge": SurrogateQuantile("all", 0.3, "hinge"),
}
every_threshold = pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=list(THRESHOLDS))
KINDS = [
    {"errors": "false_negatives", "surrogate": "quadratic"},
    {"errors": "false_negatives", "surrogate": "logistic"},
    {"errors": "false_positives", "surrogate": "hinge"},
]


def table():
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(60, dtype=torch.float64, generator=generator)
    positive = torch.rand(60, generator=generator) < 0.4
    groups = torch.randint(5, (60,), generator=generator)
    positive[groups == 1] = False
    weight = torch.rand(60, dtype=torch.float64, generator=generator) + 0.3
    weight[::7] = 0
    return scores, positive, groups, weight


def rows_by_group(groups, positive, weight, n_parts, n_batches):
    codes, target = groups.numpy(), positive.numpy().astype(int)
    total, count = np.zeros((2, 2, 5))
    np.add.at(total, (target, codes), weight.numpy())
    np.add.at(count, (target, codes), weight.numpy() > 0)
    return lambda m: GroupRows(
        groups, np.asarray(n_parts), n_batches, total, total / np.maximum(count, 1)
    )


def in_groups(kind, threshold, buffer_size, groups, positive, weight, n_parts, n_batches):
    criterion = TopCriterion(threshold, buffer_size=buffer_size, **kind)
    criterion.set_groups(rows_by_group(groups, positive, weight, n_parts, n_batches))
    return criterion


PROGRAMS = [PairwiseAUCLoss(), FBetaLoss(beta=2.0), RecallAtPrecisionLoss(precision=0.6)]
every_program = pytest.mark.parametrize("loss", PROGRAMS, ids=repr)


def program_in_groups(loss, groups, positive, weight, n_parts, n_batches):
    criterion = ProgramCriterion(loss)
    criterion.set_groups(rows_by_group(groups, positive, weight, n_parts, n_batches))
    return criterion


def step(criterion, rows, scores, positive, weight=None):
    """Loss and gradient of a minibatch, and the samples that joined it."""
    index = criterion.hard_rows.join(rows)
    own = None if weight is None else weight[index]
    return *criterion.gradient(scores[index, None], positive[index], own), index


def mean_of_each(loss, scores, positive, groups, weight):
    """The mean over the groups with both classes, one after the other."""
    each = []
    for group in groups.unique():
        rows = groups == group
        if len(positive[rows & (weight > 0)].unique()) == 2:
            each.append(loss(scores[rows], positive[rows], weight[rows]))
    return torch.stack(each).mean()


def ways(case, buffer_size):
    """For each way to train with a loss: that of the groups, and what makes its criterion."""
    if case in PROGRAMS:
        yield partial(mean_of_each, case), partial(program_in_groups, case)
        return
    for kind in KINDS:

        def loss(scores, positive, groups, weight, kind=kind):
            params = {"threshold": case, "groups": groups, "sample_weight": weight, **kind}
            return accuracy_at_top_loss(scores, positive, **params)

        yield loss, partial(in_groups, kind, case, buffer_size)


every_loss_of_batches = pytest.mark.parametrize(
    "case", [*THRESHOLDS.values(), *PROGRAMS], ids=[*THRESHOLDS, *map(repr, PROGRAMS)]
)


@every_loss_of_batches
def test_a_batch_of_all_groups_has_the_loss(case):
    for weighted, (of_groups, in_batches) in product((False, True), [*ways(case, buffer_size=3)]):
        scores, positive, groups, weight = table()
        weight = weight if weighted else torch.ones_like(weight)
        leaf = scores.clone().requires_grad_()
        expected = of_groups(leaf, positive, groups, weight)
        expected.backward()
        criterion = in_batches(groups, positive, weight, [1] * 5, 1)
        given = weight if weighted else None
        loss, gradient, index = step(criterion, torch.randperm(60), scores, positive, given)
        torch.testing.assert_close(loss, expected.detach())
        torch.testing.assert_close(gradient.flatten(), leaf.grad[index])


@every_loss_of_batches
def test_the_mean_over_batches_of_groups_is_the_loss(case):
    scores, positive, groups, weight = table()
    for of_groups, in_batches in ways(case, buffer_size=0):
        expected = of_groups(scores, positive, groups, weight)
        criterion = in_batches(groups, positive, weight, [1] * 5, 3)
        losses = []
        for days in ([0, 3], [2], [1, 4]):
            rows = torch.isin(groups, torch.tensor(days)).nonzero()[:, 0]
            losses.append(step(criterion, rows, scores, positive, weight)[0])
        torch.testing.assert_close(torch.stack(losses).mean(), expected)


@every_threshold
def test_hard_rows_of_each_group_hold_its_threshold(threshold):
    """Parts of a group that was seen have the threshold of the whole group."""
    scores, positive, groups, weight = table()
    kind = {"errors": "false_negatives", "surrogate": "quadratic"}
    ones = torch.ones_like(weight)
    criterion = in_groups(kind, threshold, 60, groups, positive, ones, [2] * 5, 10)
    step(criterion, torch.arange(60), scores, positive)
    days = groups[positive].unique()
    for day in days:
        rows = (groups == day).nonzero()[:, 0]
        part = rows[: len(rows) // 2]
        loss, gradient, _ = step(criterion, part, scores, positive)
        t, found = threshold(scores[rows], positive[rows], None), part[positive[part]]
        if not len(found):
            continue
        expected = (1 + t - scores[found]).clamp(min=0).square().mean()
        # One of the groups with positives, in ten batches of which it has two.
        torch.testing.assert_close(loss, expected * 10 / len(days) / 2)
        assert gradient.isfinite().all()


def test_a_part_without_hard_rows_stands_for_its_group():
    scores, positive, groups, _ = table()
    threshold, kind = KthLargest("all", k=4), {"errors": "false_negatives", "surrogate": "hinge"}
    criterion = in_groups(kind, threshold, 0, groups, positive, torch.ones(60), [3] * 5, 15)
    rows = (groups == 2).nonzero()[:, 0]
    part = rows[::2]
    loss, *_ = step(criterion, part, scores, positive)
    times = torch.ones(len(part))
    for label in (True, False):
        own = positive[part] == label
        times[own] = (positive[rows] == label).sum() / own.sum()
    t = threshold(scores[part], positive[part], times)
    expected = (1 + t - scores[part][positive[part]]).clamp(min=0).mean()
    n_days = len(groups[positive].unique())
    torch.testing.assert_close(loss, expected * 15 / n_days / 3)


def test_members_have_hard_rows_and_weights_of_their_own():
    scores, positive, groups, weight = table()
    kind = {"errors": "false_negatives", "surrogate": "quadratic"}
    both = torch.stack([scores, scores.flip(0)], 1)
    of_each = torch.stack([weight, weight.roll(1)], 1)
    alone = []
    threshold, data = KthLargest("all", k=3), (groups, positive)
    for m in range(2):
        criterion = in_groups(kind, threshold, 2, *data, of_each[:, m], [2] * 5, 10)
        for _ in range(2):
            own = both[:, m], positive, of_each[:, m]
            *result, index = step(criterion, torch.arange(0, 60, 2), *own)
        alone.append((index, *result))
    criterion = EnsembleLoss(TopCriterion(threshold, buffer_size=2, **kind), 2)
    criterion.set_groups(lambda m: rows_by_group(*data, of_each[:, m], [2] * 5, 10)(0))
    for _ in range(2):
        index = criterion.hard_rows.join(torch.arange(0, 60, 2))
        leaf = both[index, :, None].requires_grad_()
        loss = criterion.backward(leaf, positive[index], of_each[index])
    torch.testing.assert_close(loss, (alone[0][1] + alone[1][1]) / 2)
    for m, (rows, _, gradient) in enumerate(alone):
        found = torch.zeros(60, dtype=torch.float64).index_add(0, index, leaf.grad[:, m, 0])
        expected = torch.zeros(60, dtype=torch.float64).index_add(0, rows, gradient[:, 0] / 2)
        torch.testing.assert_close(found, expected)


@every_program
def test_a_part_has_the_proportions_of_its_group(loss):
    scores, positive, groups, _ = table()
    criterion = program_in_groups(loss, groups, positive, torch.ones(60), [3] * 5, 15)
    rows = (groups == 2).nonzero()[:, 0]
    # As a sampler gives it: all positives, and a third of the negatives.
    part = torch.cat([rows[positive[rows]], rows[~positive[rows]][::3]])
    found, *_ = step(criterion, part, scores, positive)
    own = torch.ones(len(part), dtype=torch.float64)
    own[~positive[part]] = (~positive[rows]).sum() / (~positive[part]).sum()
    expected = loss(scores[part], positive[part], own)
    n_days = len(groups[positive].unique())
    torch.testing.assert_close(found, expected * 15 / n_days / 3)


# Estimators.


@every_ranker
def test_one_group_is_no_group_and_names_do_not_matter(clf):
    clf.set_params(**SMALL, batch_size=32)
    plain = sklearn.clone(clf).fit(X, Y)
    same_fit(sklearn.clone(clf).fit(X, Y, groups=np.full(len(Y), "today")), plain)
    assert not hasattr(plain, "n_groups_")
    fitted = sklearn.clone(clf).fit(X, Y, groups=DAY)
    assert fitted.n_groups_ == 12
    same_fit(sklearn.clone(clf).fit(X, Y, groups=NAMES[DAY]), fitted)
    assert any((weights(fitted)[name] != value).any() for name, value in weights(plain).items())
    # Nothing is left of the groups where there are none.
    same_fit(fitted.fit(X, Y), plain)
    assert not hasattr(fitted, "n_groups_")


@every_ranker
def test_weight_is_repetition(clf):
    clf = sklearn.clone(clf).set_params(batch_size=10**4, n_estimators=3, max_epochs=3)
    clf.set_params(random_state=0, n_iter_no_change=5)
    times = np.random.default_rng(1).integers(0, 3, len(Y))
    times[DAY == 3] = 0
    rows = np.repeat(np.arange(len(Y)), times)
    weighted = sklearn.clone(clf).fit(X, Y, sample_weight=times, groups=DAY)
    repeated = sklearn.clone(clf).fit(X[rows], Y[rows], groups=DAY[rows])
    assert weighted.n_groups_ == repeated.n_groups_ == 11
    assert np.isnan(weighted.oob_decision_function_[DAY == 3]).all()
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-5
    )
    assert weighted.oob_score_ == pytest.approx(repeated.oob_score_)


@pytest.mark.parametrize("n_estimators", [1, 3])
def test_groups_are_held_out_whole(n_estimators):
    clf = RecallAtKClassifier(3, **SMALL | {"n_estimators": n_estimators, "n_iter_no_change": 3})
    shown = []

    class Labels(sktopk.callbacks.TrueThreshold.__base__):
        def on_train_begin(self, net, X, y, **kwargs):
            shown.append(X)

    clf.set_params(callbacks=[Labels()]).fit(X, Y, groups=DAY)
    own = clf.history_
    assert own
    assert np.isfinite([row["valid_score"] for row in own]).all()
    if n_estimators == 1:
        trained = np.isin(X[:, 0], shown[0][:, 0])
        for day in range(12):
            assert len(set(trained[day == DAY])) == 1
        assert 0 < (~trained).sum() < 120
        return
    # A sample has a score of networks that have not seen its day; all of a day the same ones.
    by_network = np.stack([clf.net_.scores_of_member(X, m).numpy()[:, 0] for m in range(3)], 1)
    distance = np.abs(by_network - clf.threshold_ - clf.oob_decision_function_[:, None])
    for day in range(12):
        assert len(set(distance.argmin(1)[day == DAY])) == 1


def test_folds_of_which_no_group_has_both_classes_are_judged_as_one_list():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(200, 4)), np.repeat(np.arange(20), 10)
    # Of one day both, of two all positive.
    y = np.zeros(200, dtype=int)
    y[:10:3] = y[20:40] = 1
    for n_estimators in (2, 4):
        clf = PatMatClassifier(0.1, max_epochs=3, n_estimators=n_estimators, random_state=0)
        clf.fit(X, y, groups=groups)
        own = clf.history_
        assert own
        assert np.isfinite([row["valid_score"] for row in own]).all()


def test_busy_days_do_not_drown_the_others():
    """One column tells the many positives of two days, another the few of the other ten."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(12), 100)
    rows = rng.standard_normal((1200, 2))
    y = np.where(day < 2, rows[:, 0] > 0, rows[:, 1] > 1.9).astype(int)
    params = SMALL | {
        "hidden_layer_sizes": (),
        "max_epochs": 40,
        "batch_size": 1200,
        "log_loss_share": 0,
    }
    of_days = RecallAtKClassifier(5, **params).fit(rows, y, groups=day)
    of_all = RecallAtKClassifier(60, **params).fit(rows, y)

    def found(clf):
        top = clf.predict_top(rows, 3, groups=day)
        return y[top][day[top] >= 2].mean()

    assert found(of_days) > found(of_all) + 0.3


@pytest.mark.parametrize(
    "clf",
    [
        TopPushKClassifier(n_estimators=2, n_iter_no_change=5, calibration="sigmoid"),
        RecallAtFPRClassifier(n_estimators=1, n_iter_no_change=5),
        AUCClassifier(n_estimators=1, log_loss_share=0, batch_size=16),
        RecallAtFPRClassifier(n_estimators=1, batch_size=16, buffer_size=0),
        TopPushKClassifier(n_estimators=2, batch_size=16, buffer_size=5),
    ],
    ids=repr,
)
def test_every_way_to_train_takes_groups(clf):
    clf.set_params(module=MLP, hidden_layer_sizes=(4,), max_epochs=6, random_state=0)
    clf.fit(X, Y, groups=DAY)
    losses = [row["train_loss"] for row in clf.history_]
    assert losses[-1] < losses[0]
    assert np.isfinite(clf.threshold_)
    twin = pickle.loads(pickle.dumps(clf))
    same_fit(twin, clf)
    for each in (clf, copy.deepcopy(twin), twin):
        each.partial_fit(X[DAY < 4], Y[DAY < 4], groups=DAY[DAY < 4])
        check_same(fitted_state(each), fitted_state(clf))


def test_score_and_predict_top_are_those_of_a_loop():
    clf = RecallAtKClassifier(4, **SMALL).fit(X, Y, groups=DAY)
    X_new, y_new, day_new = some_days(15, seed=2)
    y_new[day_new == 3] = 0
    score = clf.decision_function(X_new)
    each, best = [], []
    for day in range(15):
        rows = np.flatnonzero(day_new == day)
        best.extend(rows[np.argsort(-score[rows], kind="stable")[:4]])
        if y_new[rows].any():
            each.append(recall_at_k_score(y_new[rows], score[rows], k=4))
    assert clf.score(X_new, y_new, groups=NAMES[day_new]) == pytest.approx(np.mean(each))
    top = clf.predict_top(X_new, 4, groups=NAMES[day_new])
    assert sorted(top) == sorted(best)
    assert (np.diff(score[top]) <= 0).all()
    found = precision_at_k_score(y_new, score, k=4, groups=day_new)
    assert y_new[top].mean() == pytest.approx(found)
    weight, parts = np.arange(len(y_new)) % 3, [day_new == d for d in range(15) if d != 3]
    weighted = [recall_at_k_score(y_new[p], score[p], k=4, sample_weight=weight[p]) for p in parts]
    assert clf.score(X_new, y_new, weight, groups=day_new) == pytest.approx(np.mean(weighted))
    assert np.isnan(clf.score(X_new[:5], np.zeros(5, int), groups=[1, 1, 2, 2, 2]))


def test_the_threshold_is_the_median_of_those_of_the_groups():
    for clf in (RecallAtKClassifier(5), TopPushKClassifier(2), PrecisionAtRecallClassifier(0.5)):
        clf.set_params(**SMALL).fit(X, Y, groups=DAY)
        scores, found = clf.decision_function(X) + clf.threshold_, []
        for day in range(12):
            own, y = scores[day == DAY], Y[day == DAY]
            if isinstance(clf, PrecisionAtRecallClassifier):
                own, rank = own[y == 1], int(np.ceil(0.5 * y.sum()))
            else:
                own = own[y == 0] if isinstance(clf, TopPushKClassifier) else own
                rank = clf.k_
            if 0 < y.mean() < 1:
                found.append(np.sort(own)[::-1][rank - 1])
        # The lower one of two in the middle, and midway to the next score below it.
        t = np.sort(found)[(len(found) - 1) // 2]
        below = scores[scores < t - 1e-12].max()
        assert clf.threshold_ == pytest.approx((t + below) / 2, abs=1e-9)


def test_k_is_of_each_group_and_not_clipped_to_all():
    assert TopPushKClassifier(50, **SMALL).fit(X, Y, groups=DAY).k_ == 50
    assert RecallAtKClassifier(0.2, **SMALL).fit(X, Y, groups=DAY).k_ == 0.2
    with pytest.raises(TypeError, match="k must be an instance of int"):
        RecallAtKClassifier(1.5).fit(X, Y)


def test_pipelines_and_searches_pass_groups_on():
    clf = RecallAtKClassifier(5, **SMALL)
    expected = sklearn.clone(clf).fit(StandardScaler().fit_transform(X), Y, groups=DAY)
    pipe = make_pipeline(StandardScaler(), clf).fit(X, Y, recallatkclassifier__groups=DAY)
    same_fit(pipe[-1], expected)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = clf.set_fit_request(groups=True).set_score_request(groups=True)
        pipe = make_pipeline(StandardScaler(), clf).fit(X, Y, groups=DAY)
        same_fit(pipe[-1], expected)
        grid = {"recallatkclassifier__surrogate": ["hinge", "quadratic"]}
        search = GridSearchCV(pipe, grid, cv=GroupKFold(3), error_score="raise")
        search.fit(X, Y, groups=DAY)
        assert search.best_estimator_[-1].n_groups_ == 12
        train, test = next(iter(GroupKFold(3).split(X, Y, DAY)))
        alone = sklearn.clone(pipe).set_params(**{k: v[0] for k, v in grid.items()})
        score = alone.fit(X[train], Y[train], groups=DAY[train]).score(
            X[test], Y[test], groups=DAY[test]
        )
        assert search.cv_results_["split0_test_score"][0] == pytest.approx(score)


def test_bad_groups_are_refused():
    clf, fitted = RecallAtKClassifier(5, **SMALL), RecallAtKClassifier(5, **SMALL).fit(X, Y)
    calls = clf.fit, clf.partial_fit, fitted.score, partial(fitted.predict_top, n=3)
    for groups, message in [
        (DAY[:-1], "groups must have one entry per sample"),
        (DAY[:, None], "groups must have one entry per sample"),
        (np.where(DAY == 0, np.nan, DAY), "Input groups contains NaN"),
        ([None, *NAMES[DAY[1:]]], r"groups must not have missing values; got .* row 0"),
        ("day", r"groups must have .* got 'day': pass .* such as X\['day'\]"),
    ]:
        for call in calls:
            with pytest.raises(ValueError, match=message):
                call(X, **{} if isinstance(call, partial) else {"y": Y}, groups=groups)
    assert not hasattr(clf, "net_")


def test_a_threshold_without_groups_is_refused_by_name():
    def middle(scores, positive, weight):
        return scores.mean()

    with pytest.raises(TypeError, match="threshold must take groups"):
        ThresholdClassifier(middle, **SMALL).fit(X, Y, groups=DAY)

    def mean_of_each(scores, positive, weight, groups=None):
        if groups is None:
            return scores.mean()
        count = torch.bincount(groups).clamp(min=1)
        return torch.zeros(len(count), dtype=scores.dtype).index_add(0, groups, scores) / count

    clf = ThresholdClassifier(mean_of_each, **SMALL).fit(X, Y, groups=DAY)
    assert clf.history_[-1]["train_loss"] > 0
    with pytest.raises(TypeError, match="not have TrueThreshold with groups"):
        RecallAtKClassifier(5, callbacks=[TrueThreshold()], **SMALL).fit(X, Y, groups=DAY)


def test_days_without_a_class_change_nothing_of_a_program():
    X_more = np.concatenate([X, X[:40] + 1])
    y_more = np.concatenate([Y, np.repeat([0, 1], 20)])
    more = np.concatenate([DAY, np.repeat([100, 101], 20)])
    params = SMALL | {"batch_size": 10**4, "log_loss_share": 0, "calibration": None}
    for clf in (AUCClassifier(**params), RecallAtPrecisionClassifier(0.5, **params)):
        one = sklearn.clone(clf).fit(X, Y, groups=DAY)
        other = sklearn.clone(clf).fit(X_more, y_more, groups=more)
        for name, value in weights(one).items():
            np.testing.assert_allclose(weights(other)[name], value, atol=1e-9)
        assert one.history_[-1]["train_loss"] == pytest.approx(other.history_[-1]["train_loss"])
