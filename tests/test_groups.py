"""Rankers that train for the top of each group: a day, a query, a plate."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import sklearn
import torch
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sktopk
from sktopk.callbacks import TrueThreshold
from sktopk.metrics import precision_at_k_score, recall_at_k_score
from sktopk.modules import MLP
from tests.crashing import check_same, fitted_state, hook
from tests.rankers import RANKERS
from tests.rankers import name as name_of

every_ranker = pytest.mark.parametrize("clf", RANKERS, ids=name_of)
SMALL = {"hidden_layer_sizes": (4,), "max_epochs": 2, "random_state": 0, "n_estimators": 1}
SMALL |= {"module": MLP, "n_iter_no_change": None}


def some_days(n_days=12, seed=0):
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(n_days), rng.integers(20, 60, n_days))
    level, signal = 3 * rng.standard_normal(n_days)[day], rng.standard_normal(len(day))
    X = np.column_stack([signal + level, level, rng.standard_normal(len(day))])
    y = (signal + 0.3 * rng.standard_normal(len(day)) > 1.0).astype(int)
    order = rng.permutation(len(day))
    return X[order], y[order], day[order]


X, Y, DAY = some_days()
NAMES = np.array([f"day {i}" for i in range(30)])


def weights(clf):
    return {name: value.numpy() for name, value in clf.net_.module_.state_dict().items()}


def same_fit(one, other):
    np.testing.assert_equal(weights(one), weights(other))
    assert one.threshold_ == other.threshold_


@every_ranker
def test_a_single_group_and_the_names_of_groups_change_nothing(clf):
    clf.set_params(**SMALL, batch_size=100)
    plain = sklearn.clone(clf).fit(X, Y)
    same_fit(sklearn.clone(clf).fit(X, Y, groups=np.full(len(Y), "today")), plain)
    assert not hasattr(plain, "n_groups_")
    fitted = sklearn.clone(clf).fit(X, Y, groups=DAY)
    assert fitted.n_groups_ == 12
    same_fit(sklearn.clone(clf).fit(X, Y, groups=NAMES[DAY]), fitted)
    assert any((weights(fitted)[name] != value).any() for name, value in weights(plain).items())
    # Attributes about groups exist only after a fit with groups.
    same_fit(fitted.fit(X, Y), plain)
    assert not hasattr(fitted, "n_groups_")


@pytest.mark.parametrize("n_estimators", [1, 3])
def test_groups_are_held_out_whole(n_estimators):
    clf, shown = sktopk.RecallAtKClassifier(3, **SMALL), []
    samples = hook(on_train_begin=lambda self, net, X, y, **_: shown.append(X))
    clf.set_params(n_estimators=n_estimators, n_iter_no_change=3, callbacks=[samples])
    clf.fit(X, Y, groups=DAY)
    assert np.isfinite([row["valid_score"] for row in clf.history_]).all()
    if n_estimators == 1:
        trained = np.isin(X[:, 0], shown[0][:, 0])
        for day in range(12):
            assert len(set(trained[day == DAY])) == 1
        assert 0 < (~trained).sum() < 120
        return
    # All samples of a day have the out-of-fold score of the same network.
    with torch.no_grad():
        by_network = clf.net_.module_(torch.from_numpy(X).float())[:, :, 0].numpy()
    distance = np.abs(by_network - clf.threshold_ - clf.oob_decision_function_[:, None])
    for day in range(12):
        assert len(set(distance.argmin(1)[day == DAY])) == 1


def test_the_valid_score_ignores_folds_in_which_no_group_contains_both_classes(rng):
    X, groups = rng.normal(size=(200, 4)), np.repeat(np.arange(20), 10)
    y = np.zeros(200, dtype=int)
    y[:10:3] = y[20:40] = 1
    for n_estimators in (2, 4):
        clf = sktopk.PatMatClassifier(0.1, max_epochs=3, n_estimators=n_estimators, random_state=0)
        clf.fit(X, y, groups=groups)
        assert np.isfinite([row["valid_score"] for row in clf.history_]).all()


@pytest.mark.parametrize(
    "clf",
    [
        sktopk.TopPushKClassifier(n_estimators=2, n_iter_no_change=5, calibration="sigmoid"),
        sktopk.RecallAtFPRClassifier(n_estimators=1, n_iter_no_change=5),
        sktopk.AUCClassifier(n_estimators=1, log_loss_share=0, batch_size=16),
        sktopk.RecallAtFPRClassifier(n_estimators=1, batch_size=16, buffer_size=0),
        sktopk.TopPushKClassifier(n_estimators=2, batch_size=16, buffer_size=5),
    ],
    ids=repr,
)
def test_every_way_to_train_takes_groups(clf):
    clf.set_params(module=MLP, hidden_layer_sizes=(4,), max_epochs=3, random_state=0)
    clf.fit(X, Y, groups=DAY)
    losses = [row["train_loss"] for row in clf.history_]
    assert losses[-1] < losses[0]
    assert np.isfinite(clf.threshold_)
    twin = pickle.loads(pickle.dumps(clf))
    same_fit(twin, clf)
    for each in (clf, copy.deepcopy(twin), twin):
        each.partial_fit(X[DAY < 4], Y[DAY < 4], groups=DAY[DAY < 4])
        check_same(fitted_state(each), fitted_state(clf))


def test_score_and_predict_top_with_groups_equal_a_loop_over_the_groups():
    clf = sktopk.RecallAtKClassifier(4, **SMALL).fit(X, Y, groups=DAY)
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


def test_the_history_has_the_mean_loss_over_groups_for_any_batch_size():
    params = SMALL | {"max_epochs": 1, "learning_rate": 1e-13, "calibration": None}
    found = [
        sktopk.TopPushKClassifier(3, batch_size=n, **params).fit(X, Y, groups=DAY).history_
        for n in (64, 10_000)
    ]
    assert found[0][0]["train_loss"] == pytest.approx(found[1][0]["train_loss"], rel=0.02)


def test_the_threshold_is_the_median_of_the_thresholds_of_the_groups():
    trees = {"n_estimators": 5, "n_members": 1, "random_state": 0}
    # For each ranker: the samples of a day that are ranked, and the rank of the threshold.
    ranked = {
        sktopk.RecallAtKClassifier(5, **SMALL): lambda y: (y >= 0, 5),
        sktopk.TopPushKClassifier(2, **SMALL): lambda y: (y == 0, 2),
        sktopk.PrecisionAtRecallClassifier(0.5, **SMALL): lambda y: (y == 1, -(-y.sum() // 2)),
        sktopk.TopBoostClassifier("recall_at_k", k=5, **trees): lambda y: (y >= 0, 5),
    }
    for clf, of_day in ranked.items():
        clf.fit(X, Y, groups=DAY)
        scores, found = clf.decision_function(X) + clf.threshold_, []
        for day in range(12):
            own, y = scores[day == DAY], Y[day == DAY]
            of, rank = of_day(y)
            if 0 < y.mean() < 1:
                found.append(np.sort(own[of])[::-1][rank - 1])
        t = np.median(found)  # `threshold_` is halfway from t to the next lower score
        below = scores[scores < t - 1e-12].max()
        assert clf.threshold_ == pytest.approx((t + below) / 2, abs=1e-9)


def test_with_groups_a_k_above_the_largest_group_warns_and_a_fractional_k_is_accepted():
    with pytest.warns(UserWarning, match=r"k=60 must be smaller than the largest group \("):
        assert sktopk.TopPushKClassifier(60, **SMALL).fit(X, Y, groups=DAY).k_ == 60
    assert sktopk.RecallAtKClassifier(0.2, **SMALL).fit(X, Y, groups=DAY).k_ == 0.2


def test_the_out_of_fold_score_is_the_metric_of_the_method_score():
    clf = sktopk.RecallAtKClassifier(5, random_state=0, max_epochs=3).fit(X, Y, groups=DAY)
    days = [day == DAY for day in range(12) if 0 < Y[day == DAY].mean() < 1]
    found = [recall_at_k_score(Y[day], clf.oob_decision_function_[day], k=5) for day in days]
    assert clf.oob_score_ == pytest.approx(np.mean(found))
    balanced = {"class_weight": "balanced", "random_state": 0}
    clf = sktopk.TopKClassifier(k=1, max_epochs=3, **balanced).fit(X, Y)
    assert clf.oob_score_ == np.mean((clf.oob_decision_function_ > 0) == Y)
    clf = sktopk.TopBoostClassifier(n_estimators=5, **balanced).fit(X, Y)
    assert clf.oob_score_ == pytest.approx(average_precision_score(Y, clf.oob_decision_function_))


def test_partial_fit_selects_k_samples_of_a_single_day():
    clf = sktopk.RecallAtKClassifier(5, **SMALL)
    for day in range(4):
        rows = day == DAY
        clf.partial_fit(X[rows], Y[rows], classes=[0, 1], groups=DAY[rows])
        assert clf.predict(X[rows]).sum() == 5
    clf.partial_fit(X, Y, groups=Y)  # all groups of a call may have one class


def test_pipelines_and_searches_pass_groups_on():
    clf = sktopk.RecallAtKClassifier(5, **SMALL)
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
        alone.fit(X[train], Y[train], groups=DAY[train])
        score = alone.score(X[test], Y[test], groups=DAY[test])
        assert search.cv_results_["split0_test_score"][0] == pytest.approx(score)


@every_ranker
def test_fit_warns_if_only_one_group_has_both_classes_and_raises_if_none_has(clf):
    clf.set_params(**SMALL)
    with pytest.raises(ValueError, match="got 0 of 2 groups with both classes"):
        clf.fit(X, Y, groups=Y)
    groups = np.where(np.arange(len(Y)) < 20, "both", np.arange(len(Y)).astype(str))
    with pytest.warns(UserWarning, match=f"got only 1 of {len(Y) - 19} groups with both classes"):
        clf.fit(X, Y, groups=groups)


def test_groups_of_a_wrong_shape_or_with_missing_values_raise():
    clf = sktopk.RecallAtKClassifier(5, **SMALL)
    fitted = sklearn.clone(clf).fit(X, Y)
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


def test_a_threshold_function_that_does_not_accept_groups_raises():
    middle = sktopk.ThresholdClassifier(lambda scores, positive, weight: scores.mean(), **SMALL)
    with pytest.raises(TypeError, match="threshold must take groups"):
        middle.fit(X, Y, groups=DAY)

    def mean_of_each(scores, positive, weight, groups=None):
        if groups is None:
            return scores.mean()
        count = torch.bincount(groups).clamp(min=1)
        return torch.zeros(len(count), dtype=scores.dtype).index_add(0, groups, scores) / count

    clf = sktopk.ThresholdClassifier(mean_of_each, **SMALL).fit(X, Y, groups=DAY)
    assert clf.history_[-1]["train_loss"] > 0
    constant = sktopk.ThresholdClassifier(lambda scores, positive, weight: 0.5, **SMALL).fit(X, Y)
    assert constant.threshold_ < 0.5
    with pytest.raises(TypeError, match="not have TrueThreshold if fit gets"):
        sktopk.RecallAtKClassifier(5, callbacks=[TrueThreshold()], **SMALL).fit(X, Y, groups=DAY)


def test_groups_of_one_class_do_not_change_rankers_with_a_linear_program():
    X_more = np.concatenate([X, X[:40] + 1])
    y_more = np.concatenate([Y, np.repeat([0, 1], 20)])
    more = np.concatenate([DAY, np.repeat([100, 101], 20)])
    params = SMALL | {"batch_size": 10**4, "log_loss_share": 0, "calibration": None}
    for clf in (sktopk.AUCClassifier(**params), sktopk.RecallAtPrecisionClassifier(0.5, **params)):
        one = sklearn.clone(clf).fit(X, Y, groups=DAY)
        other = sklearn.clone(clf).fit(X_more, y_more, groups=more)
        for name, value in weights(one).items():
            np.testing.assert_allclose(weights(other)[name], value, atol=1e-9)
        assert one.history_[-1]["train_loss"] == pytest.approx(other.history_[-1]["train_loss"])


def test_topk_classifier_holds_out_whole_groups():
    plant = np.repeat(np.arange(60), 4)
    X = np.random.default_rng(0).normal(size=(60, 8))[plant]
    X, y = X + 0.01 * np.arange(240)[:, None] % 4, (7 * plant) % 5  # random labels for a new plant
    clf = sktopk.TopKClassifier(k=1, n_estimators=3, max_epochs=20, random_state=0)
    assert clf.fit(X, y).oob_score_ > 0.9
    assert clf.fit(X, y, groups=plant).oob_score_ < 0.4
    with pytest.warns(UserWarning, match="groups do not apply to X_val, which is held out"):
        clf.set_params(max_epochs=1).fit(X, y, groups=plant, X_val=X, y_val=y)
    with pytest.warns(UserWarning, match="no groups are held out, because there are too few dif"):
        assert not hasattr(clf.fit(X, y, groups=0 * plant), "oob_score_")
