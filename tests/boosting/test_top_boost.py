"""TopBoostClassifier compared with LightGBM, with definitions and with fits on other data."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score

from sktopk import TopBoostClassifier
from sktopk.boosting import objective
from sktopk.losses import KthLargest, TopMean, TopPushKLoss, top_push_k_loss
from sktopk.metrics import topk_accuracy_score

lightgbm = pytest.importorskip("lightgbm")
make = partial(TopBoostClassifier, n_estimators=10, n_members=1, random_state=0)
OWN = {"n_estimators": 10, "n_jobs": 1, "verbosity": -1}
RANKS = [
    ("top_push", 0.05, {}, KthLargest("negatives", k=1)),
    ("top_push_k", 12, {}, KthLargest("negatives", k=12)),
    ("recall_at_k", 12, {}, KthLargest("all", k=12)),
    ("recall_at_k", 0.05, {}, KthLargest("all", tau=0.05)),
    ("precision_at_k", 12, {}, KthLargest("all", k=12)),
    ("pat_mat", 0.05, {"tau": 0.05}, KthLargest("all", tau=0.05)),
    ("pat_mat_np", 0.05, {"tau": 0.05}, KthLargest("negatives", tau=0.05)),
    ("recall_at_fpr", 0.05, {"fpr": 0.05}, KthLargest("negatives", tau=0.05)),
    ("precision_at_recall", 0.05, {"recall": 0.7}, KthLargest("positives", tau=0.7)),
]


@pytest.mark.parametrize(("loss", "k", "params", "threshold"), RANKS)
def test_the_threshold_equals_the_threshold_of_the_loss(binary, loss, k, params, threshold):
    X, y = binary
    clf = make(loss, k=k, loss_params=params).fit(X, y)
    scores = clf.decision_function(X) + clf.threshold_
    sorts = {"negatives": y == 0, "positives": y == 1, "all": y >= 0}[threshold.of]
    ranked = np.sort(scores[sorts])[::-1]
    t = ranked[(threshold.k or int(np.ceil(threshold.tau * len(ranked) - 1e-9))) - 1]
    below = scores[scores < t].max()
    assert clf.threshold_ == pytest.approx((t + below) / 2)


@pytest.mark.parametrize("loss", ["fbeta", TopPushKLoss(k=3), lambda s, y: ((s - y) ** 2).sum()])
def test_a_loss_without_a_threshold_predicts_as_many_positives_as_in_y(binary, loss):
    X, y = binary
    assert make(loss).fit(X, y).predict(X).sum() == y.sum()


@pytest.mark.parametrize("loss", ["top_mean", "top_push_k"])
def test_class_weight_does_not_change_the_number_of_negatives_at_the_top(binary, loss):
    X, y = binary
    few, many = ({0: factor, 1: 20 * factor} for factor in (0.05, 0.5))
    as_share = make(loss, k=100 / np.sum(y == 0), class_weight=many).fit(X, y).decision_function(X)
    for class_weight in (few, many):
        clf = make(loss, k=100, class_weight=class_weight).fit(X, y)
        np.testing.assert_allclose(clf.decision_function(X), as_share, atol=1e-6)
        assert clf.k_ == 100
    with pytest.warns(UserWarning, match="all negatives are used"):
        assert make(loss, k=10**6).fit(X, y).k_ == np.sum(y == 0)


def test_out_of_fold_scores_come_from_models_that_held_out_the_sample(binary):
    X, y = binary
    clf = make(n_members=3).fit(X, y)
    each = np.array([b.predict(X, raw_score=True) for b in clf.boosters_])
    each += clf.init_score_ - clf.threshold_
    np.testing.assert_allclose(clf.decision_function(X), each.mean(axis=0))
    owner = np.abs(each - clf.oob_decision_function_).argmin(axis=0)
    np.testing.assert_allclose(clf.oob_decision_function_, each[owner, np.arange(len(y))])
    assert np.bincount(owner).tolist() == pytest.approx([400] * 3, abs=2)
    # The model of this fold was trained on the other samples, with the default objective.
    seen = owner != 0
    top = {"threshold": TopMean("negatives", tau=0.05), "surrogate": "logistic"}
    f = objective("accuracy_at_top", log_loss_share=0.6, **top)
    alone = lightgbm.LGBMClassifier(objective=f, **OWN)
    alone.fit(X[seen], y[seen], init_score=np.full(sum(seen), clf.init_score_))
    expected = each[0] + clf.threshold_ - clf.init_score_
    np.testing.assert_allclose(alone.predict(X, raw_score=True), expected)
    assert clf.oob_score_ == pytest.approx(average_precision_score(y, clf.oob_decision_function_))


def test_samples_of_weight_0_are_ignored_and_class_weight_acts_like_sample_weight(binary):
    X, y = binary
    kept = np.arange(len(y)) % 4 > 0
    one = make(n_members=2).fit(X, y, sample_weight=kept * 2.0)
    other = make(n_members=2).fit(X[kept], y[kept], sample_weight=np.full(kept.sum(), 2.0))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert np.isnan(one.oob_decision_function_[~kept]).all()
    np.testing.assert_array_equal(one.oob_decision_function_[kept], other.oob_decision_function_)
    one = make(class_weight={1: 3.0}).fit(X, y)
    other = make().fit(X, y, sample_weight=1 + 2 * y)
    found, expected = (each.decision_function(X) + each.threshold_ for each in (one, other))
    np.testing.assert_allclose(found, expected)


def test_fits_with_a_seed_are_repeatable(binary):
    X, y = binary
    params = {"lightgbm_params": {"feature_fraction": 0.5}, "n_iter_no_change": 10}
    one, other = (make(**params).fit(X, y).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_max_bin_in_lightgbm_params_limits_the_thresholds_per_feature(binary):
    X, y = binary
    for booster in make(lightgbm_params={"max_bin": 2}).fit(X, y).boosters_:
        tree = booster.trees_to_dataframe().dropna(subset="threshold")
        assert (tree.groupby("split_feature")["threshold"].nunique() == 1).all()


def test_one_booster_has_probabilities_if_scores_are_log_odds_or_samples_are_held_out(binary):
    X, y = binary
    clf = make().fit(X, y)
    with pytest.raises(AttributeError, match=r"predict_proba is available only .*Calibrated"):
        clf.predict_proba(X)
    assert not hasattr(clf, "predict_proba")
    assert hasattr(make(log_loss_share=1), "predict_proba")
    assert hasattr(make(n_iter_no_change=5).fit(X, y), "predict_proba")
    calibrated = CalibratedClassifierCV(make(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


@pytest.fixture(scope="module")
def days(binary):
    X, y = binary
    day = np.random.default_rng(1).integers(0, 12, len(y))
    return X, np.where(day == 3, 0, y), day


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_fit_with_groups_grows_the_same_trees_as_lightgbm(days, is_weighted):
    X, y, day = days
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y)) if is_weighted else None
    clf = make("recall_at_k", k=5).fit(X, y, weight, groups=day.astype(str))
    assert clf.n_groups_ == 12
    # Groups are numbered in the order in which the days first occur.
    order = np.concatenate([np.flatnonzero(day == each) for each in pd.unique(day)])
    options = {"sample_weight": None if weight is None else weight[order]}
    options["group"] = np.bincount(pd.factorize(day)[0])
    options["init_score"] = np.full(len(y), clf.init_score_)
    own = lightgbm.LGBMRanker(objective=objective("recall_at_k", k=5), **OWN)
    own.fit(X[order], y[order], **options)
    raw = own.predict(X, raw_score=True)
    scores = clf.decision_function(X) + clf.threshold_ - clf.init_score_
    np.testing.assert_allclose(scores, raw, atol=1e-6)  # LightGBM keeps weights in float32
    one = make("recall_at_k", k=5).fit(X, y, groups=np.full(len(y), "a"))
    plain = make("recall_at_k", k=5).fit(X, y)  # a single group changes nothing
    np.testing.assert_array_equal(one.decision_function(X), plain.decision_function(X))


def test_a_fold_in_which_no_group_contains_both_classes_is_scored_without_groups():
    # Two of 20 days have both classes, and two days have only positives.
    X, groups = np.random.default_rng(0).normal(size=(200, 4)), np.repeat(np.arange(20), 10)
    y = np.zeros(200, dtype=int)
    y[:20:4] = y[20:40] = 1
    X[:, 0] += 2 * y
    clf = TopBoostClassifier(n_estimators=50, n_iter_no_change=10, random_state=0)
    # An undefined score would stop a model after the first round. One fold has only negatives.
    assert sorted(clf.fit(X, y, groups=groups).n_iter_)[-2] > 1


@pytest.mark.parametrize("class_weight", ["balanced", {1: 7.0}], ids=str)
@pytest.mark.parametrize(
    ("loss", "k"), [("pairwise_auc", 0.05), ("recall_at_k", 50), ("precision_at_k", 0.05)]
)
def test_class_weight_does_not_change_how_many_positives_are_found(binary, class_weight, loss, k):
    X, y = binary
    clf = make(loss, k=k, class_weight=class_weight, n_estimators=40).fit(X, y)
    # The number of predicted positives is approximate, because scores of trees tie.
    n_positive = {"recall_at_k": 50, "precision_at_k": 60}.get(loss, y.sum())
    assert np.sum(clf.predict(X)) == pytest.approx(n_positive, abs=8)


@pytest.mark.parametrize("name", ["binary", "several"])
def test_with_only_log_loss_the_trees_equal_lightgbm(name, request):
    X, y = request.getfixturevalue(name)
    own, ours = lightgbm.LGBMClassifier(**OWN).fit(X, y), make("cross_entropy").fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), own.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), own.predict(X))


def test_predictions_and_score_of_two_classes_equal_their_definitions(binary):
    X, y = binary
    clf = make(k=30).fit(X, y)
    y_score = clf.decision_function(X)
    np.testing.assert_array_equal(clf.predict_top(X, 7), np.argsort(-y_score, kind="stable")[:7])
    np.testing.assert_array_equal(clf.predict(X), (y_score > 0).astype(int))
    # The threshold is between the mean of the 30 highest negatives and the next lower score.
    t = np.sort(y_score[y == 0])[-30:].mean()
    assert y_score[y_score < t].max() < 0 < t
    for weight in (None, np.arange(1200) % 3):  # scores of trees tie
        expected = average_precision_score(y, y_score, sample_weight=weight)
        assert clf.score(X, y, weight) == pytest.approx(expected)
    with pytest.raises(AttributeError, match="predict_topk"):
        clf.predict_topk(X)
    with pytest.warns(UserWarning, match="n=1201 exceeds the number of samples"):
        clf.predict_top(X, 1201)
    with pytest.warns(UserWarning, match=r"k=1201 must be at most the number of negatives \(\d+\)"):
        make(k=1201).fit(X, y)


def test_predictions_and_score_of_several_classes_equal_their_definitions(several):
    X, y = several
    labels = np.array(["d", "b", "c", "a"])[y]
    clf = make("topk_hinge", k=2, log_loss_share=0.5).fit(X, labels)
    assert not hasattr(clf, "predict_proba")
    y_score = clf.decision_function(X)
    order = np.argsort(-y_score, axis=1, kind="stable")
    np.testing.assert_array_equal(clf.predict_topk(X), clf.classes_[order[:, :2]])
    np.testing.assert_array_equal(clf.predict(X), clf.predict_topk(X, 1)[:, 0])
    assert clf.score(X, labels) == topk_accuracy_score(labels, y_score, k=2, labels=clf.classes_)
    with pytest.raises(AttributeError, match="predict_top is not available for 4 classes"):
        clf.predict_top(X, 3)
    with pytest.warns(UserWarning, match=r"k=9 must be less .* \(4\); using k_=3"):
        assert make("cross_entropy", k=9).fit(X, y).k_ == 3
    assert make("cross_entropy", k=0.5).fit(X, y).k_ == 2
    with pytest.raises(ValueError, match="loss='top_mean' needs two classes; got 4"):
        make().fit(X, y)
    with pytest.raises(ValueError, match="labels that the classifier knows"):
        make().fit(X, y > 1).score(X, y)
    with pytest.raises(ValueError, match=r"pos_label=1 needs 2 classes in y; got 4 \(0, 1, 2, 3\)"):
        make("cross_entropy", pos_label=1).fit(X, y)
    with pytest.raises(ValueError, match=r"groups must be None for more than 2 .* 4 classes"):
        make("cross_entropy").fit(X, y, groups=y)


@pytest.mark.parametrize("name", ["binary", "several"])
def test_early_stopping_keeps_the_round_that_scores_best_on_held_out_samples(name, request):
    X, y = request.getfixturevalue(name)
    loss = {"loss": "cross_entropy" if name == "several" else "top_mean", "n_members": 3}
    clf = make(n_iter_no_change=5, n_estimators=200, **loss).fit(X, y)
    longer = make(n_estimators=int(clf.n_iter_.max()) + 5, **loss).fit(X, y)
    shift = clf.init_score_ - (clf.threshold_ if name == "binary" else 0)
    for booster, whole, n_rounds in zip(clf.boosters_, longer.boosters_, clf.n_iter_, strict=True):
        scores = booster.predict(X, raw_score=True) + shift
        held = np.isclose(scores, clf.oob_decision_function_).reshape(len(y), -1).all(axis=1)
        assert held.mean() == pytest.approx(1 / 3, abs=0.03)
        found = []
        for n in range(1, n_rounds + 6):
            scores = whole.predict(X[held], raw_score=True, num_iteration=n) + clf.init_score_
            if name == "binary":
                found.append(average_precision_score(y[held], scores))
            else:
                found.append(topk_accuracy_score(y[held], scores, k=clf.k_, labels=range(4)))
        assert np.argmax(found) + 1 == n_rounds


def test_a_single_booster_holds_out_a_tenth_of_the_samples_for_early_stopping(binary):
    X, y = binary
    clf = make(n_iter_no_change=10**6, n_estimators=5).fit(X, y)
    assert clf.n_iter_.max() <= 5
    leaves = clf.boosters_[0].dump_model()["tree_info"][0]["tree_structure"]
    assert leaves["internal_count"] == pytest.approx(0.9 * len(y), abs=3)


def test_whole_groups_are_held_out(days):
    X, y, day = days
    clf = make(n_members=3).fit(X, y, groups=day)
    scores = clf.oob_decision_function_
    each = np.array([b.predict(X, raw_score=True) for b in clf.boosters_])
    owner = np.abs(each + clf.init_score_ - clf.threshold_ - scores).argmin(axis=0)
    assert not np.isnan(scores).any()
    assert all(len(np.unique(owner[day == one])) == 1 for one in range(12))
    own = [day == one for one in range(12) if one != 3]
    mean = np.mean([average_precision_score(y[rows], scores[rows]) for rows in own])
    assert clf.oob_score_ == pytest.approx(mean)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("table", [pd.DataFrame, csr_array])
def test_frames_and_sparse_matrices_give_the_same_scores_as_arrays_and_no_warning(binary, table):
    X, y = binary
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    expected = make(n_members=2).fit(X, y).decision_function(X)
    given = table(X)
    scores = make(n_members=2).fit(given, y).decision_function(given)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@pytest.mark.parametrize("n_members", [1, 3])
def test_columns_and_folds_without_known_values_are_scored(binary, n_members):
    X, y = binary
    X = X[:, :4].copy()
    X[:, 0] = np.nan
    X[5:, 1] = np.nan
    X[y == 1, 3] = np.nan
    assert make(n_members=n_members).fit(X, y).score(X, y) == 1
    for X in (np.ones((50, 2)), np.full((50, 1), np.nan), np.arange(6.0)[:, None]):
        y = np.arange(len(X)) % 2
        assert len(np.unique(make().fit(X, y).decision_function(X))) == 1


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("patience", [None, 10])
def test_weights_over_many_orders_of_magnitude_give_finite_scores(n_members, patience):
    X, y = make_classification(3000, weights=[0.8], flip_y=0.05, random_state=2)
    # Weights that halve every 120 days in ten years, and one light sample.
    old, light = 0.5 ** (np.linspace(3650, 0, 3000) / 120), np.ones(3000)
    light[X[:, 0].argmax()] = 1e-6
    for weight in (light, old):
        clf = make(n_members=n_members, n_iter_no_change=patience).fit(X, y, weight)
        assert np.isfinite(clf.decision_function(X)).all()
        assert clf.score(X, y, weight) > 0.8


@pytest.mark.filterwarnings("ignore:No positive class found")
@pytest.mark.parametrize("patience", [None, 1])
def test_ensembles_of_very_few_samples_are_trained(patience):
    y, X = np.array([0, 1, 0, 1, 0, 0]), np.arange(6.0)[:, None]
    params = {"n_members": 5, "n_iter_no_change": patience}
    assert np.isfinite(make(**params).fit(X, y).decision_function(X)).all()
    with pytest.warns(UserWarning, match="n_members=5 .* no class has two"):
        clf = make(**params).fit(X[:2], y[:2])
    assert np.isfinite(clf.threshold_)
    assert np.isnan([clf.oob_score_, *clf.oob_decision_function_]).all()


def test_members_whose_held_out_samples_lack_a_class_train_all_rounds(binary):
    X, y = binary
    days = np.where(y == 1, 0, np.arange(len(y)) % 5)
    with pytest.warns(UserWarning, match="no effect if all held-out samples have the same class"):
        clf = make(n_members=5, n_iter_no_change=2).fit(X, y, groups=days)
    assert sum(clf.n_iter_ == 10) >= 4


def test_a_loss_function_ignores_k_of_the_estimator_and_a_class_may_have_weight_0(binary):
    X, y = binary
    each = [make(partial(top_push_k_loss, k=5), k=k).fit(X, y) for k in (5, 50)]
    np.testing.assert_allclose(*(clf.decision_function(X) for clf in each))
    clf = make("cross_entropy", class_weight={2: 0}).fit(X, y + (X[:, 0] > 0))
    assert len(clf.init_score_) == 3


@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        ({"loss": "top"}, ValueError, "loss must be one of 'top_mean', 'cross_entropy'"),
        ({"loss": "pat_mat"}, TypeError, "loss='pat_mat' requires tau"),
        ({"loss_params": [1]}, TypeError, "loss_params must be a dict"),
        ({"loss": "cross_entropy", "loss_params": {"label_smoothing": 0.1}}, ValueError, "be None"),
        ({"k": 0}, ValueError, "k must be an integer >= 1 or a fraction"),
        ({"n_members": 2.0}, TypeError, "n_members must be an instance of int"),
        ({"lightgbm_params": {"eta": 0.9}}, ValueError, "'eta': use learning_rate"),
        ({"lightgbm_params": {"cat_feature": [0]}}, ValueError, "'cat_feature': use X"),
        ({"lightgbm_params": {"linear_tree": True}}, ValueError, "must not set linear_tree"),
        ({"lightgbm_params": {"boosting": "rf"}}, ValueError, "must not set boosting='rf'"),
        ({"lightgbm_params": {"boost": "dart"}}, ValueError, "boost must not be 'dart'"),
        ({"lightgbm_params": {"feature_fraction": 3}}, ValueError, "lightgbm_params: Check failed"),
        ({"n_iter_no_change": 0}, ValueError, "n_iter_no_change == 0"),
        ({"n_jobs": 0}, ValueError, "n_jobs == 0"),
    ],
)
def test_wrong_parameters_of_top_boost_raise_errors_that_name_them(binary, params, error, says):
    with pytest.raises(error, match=says):
        make(**params).fit(*binary)


def test_fit_with_groups_raises_for_wrong_groups_k_and_loss(days):
    X, y, day = days
    for clf, groups, error, message in [
        (make(), day[1:], ValueError, r"groups must have one entry per sample \(1200\)"),
        (make("recall_at_k"), day, ValueError, r"k must be an integer for loss="),
        (make(lambda s, y, sample_weight=None: -(s * y).mean()), day, TypeError, "takes no groups"),
    ]:
        with pytest.raises(error, match=message):
            clf.fit(X, y, groups=groups)
