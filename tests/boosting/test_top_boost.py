"""TopBoostClassifier against LightGBM, definitions, and itself on other rows."""

import itertools
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, Pipeline, TopBoostClassifier, TopKClassifier
from sktopk._estimators.boosted._top_boost import Rows
from sktopk.boosting import objective
from sktopk.io import dump, load
from sktopk.losses import KthLargest, TopMean, TopPushKLoss, accuracy_at_top_loss
from sktopk.metrics import make_top_scorer, topk_accuracy_score
from sktopk.model_selection import compare_losses

lightgbm = pytest.importorskip("lightgbm")
SMALL = {"n_estimators": 10, "n_members": 1, "random_state": 0}


def make(*args, **params):
    return TopBoostClassifier(*args, **SMALL | params)


@pytest.fixture(scope="module")
def binary():
    return make_classification(1200, weights=[0.9], flip_y=0.05, random_state=0)


@pytest.fixture(scope="module")
def several():
    return make_classification(500, n_classes=4, n_informative=6, random_state=0)


@pytest.mark.parametrize("name", ["binary", "several"])
def test_with_the_log_loss_alone_it_is_lightgbm(name, request):
    X, y = request.getfixturevalue(name)
    own = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbosity=-1).fit(X, y)
    # Of several classes it is the default.
    ours = make(**{"log_loss_share": 1} if name == "binary" else {}).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), own.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), own.predict(X))


def test_default_is_the_recipe_of_the_documentation(binary):
    X, y = binary
    f = objective(
        "accuracy_at_top",
        threshold=TopMean("negatives", tau=0.05),
        surrogate="logistic",
        log_loss_share=0.6,
    )
    ours = make().fit(X, y)
    model = lightgbm.LGBMClassifier(objective=f, n_estimators=10, n_jobs=1, verbosity=-1)
    model.fit(X, y, init_score=np.full(len(y), ours.init_score_))
    expected = model.predict(X, raw_score=True) + ours.init_score_ - ours.threshold_
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=1e-9)


def test_two_classes_have_the_verbs_of_a_ranking(binary):
    X, y = binary
    clf = make(k=30).fit(X, y)
    y_score = clf.decision_function(X)
    np.testing.assert_array_equal(clf.predict_top(X, 7), np.argsort(-y_score, kind="stable")[:7])
    pieces = (X[start : start + 100] for start in range(0, 1200, 100))
    np.testing.assert_array_equal(clf.predict_top(pieces, 7), clf.predict_top(X, 7))
    np.testing.assert_array_equal(clf.predict(X), (y_score > 0).astype(int))
    # The mean of the 30 highest negatives is midway to the next lower score.
    t = np.sort(y_score[y == 0])[-30:].mean()
    assert y_score[y_score < t].max() < 0 < t
    assert clf.score(X, y) == pytest.approx(average_precision_score(y, y_score))
    with pytest.raises(AttributeError, match=r"predict_topk is not there for 2 classes: use pred"):
        clf.predict_topk(X)
    with pytest.raises(ValueError, match=r"n=1201 must be at most the number of rows of X \(1200"):
        clf.predict_top(X, 1201)


def test_several_classes_have_the_verbs_of_labels(several):
    X, y = several
    labels = np.array(["d", "b", "c", "a"])[y]
    clf = make("topk_hinge", k=2, log_loss_share=0.5).fit(X, labels)
    assert not hasattr(clf, "predict_proba")
    y_score = clf.decision_function(X)
    order = np.argsort(-y_score, axis=1, kind="stable")
    np.testing.assert_array_equal(clf.predict_topk(X), clf.classes_[order[:, :2]])
    np.testing.assert_array_equal(clf.predict(X), clf.predict_topk(X, 1)[:, 0])
    assert clf.score(X, labels) == topk_accuracy_score(labels, y_score, k=2, labels=clf.classes_)
    with pytest.raises(AttributeError, match="predict_top is not there for 4 classes"):
        clf.predict_top(X, 3)
    with pytest.warns(UserWarning, match=r"k=9 must be smaller .* \(4\): k_=3 is used"):
        assert make(k=9).fit(X, y).k_ == 3
    assert make().fit(X, y).k_ == 3


RANKS = [
    ("top_push", None, {}, KthLargest("negatives", k=1)),
    ("top_push_k", 12, {}, KthLargest("negatives", k=12)),
    ("recall_at_k", 12, {}, KthLargest("all", k=12)),
    ("recall_at_k", 0.05, {}, KthLargest("all", tau=0.05)),
    ("precision_at_k", 12, {}, KthLargest("all", k=12)),
    ("pat_mat", None, {"tau": 0.05}, KthLargest("all", tau=0.05)),
    ("pat_mat_np", None, {"tau": 0.05}, KthLargest("negatives", tau=0.05)),
    ("recall_at_fpr", None, {"fpr": 0.05}, KthLargest("negatives", tau=0.05)),
    ("precision_at_recall", None, {"recall": 0.7}, KthLargest("positives", tau=0.7)),
]


@pytest.mark.parametrize(("loss", "k", "params", "threshold"), RANKS)
def test_threshold_is_that_of_the_loss(binary, loss, k, params, threshold):
    X, y = binary
    clf = make(loss, k=k, loss_params=params).fit(X, y)
    scores = clf.decision_function(X) + clf.threshold_
    sorts = {"negatives": y == 0, "positives": y == 1, "all": y >= 0}[threshold.of]
    ranked = np.sort(scores[sorts])[::-1]
    t = ranked[(threshold.k or int(np.ceil(threshold.tau * len(ranked) - 1e-9))) - 1]
    below = scores[scores < t].max()
    assert clf.threshold_ == pytest.approx((t + below) / 2)


@pytest.mark.parametrize("loss", ["fbeta", "pairwise_auc", TopPushKLoss(k=3)])
def test_a_loss_without_a_threshold_flags_as_many_as_are_positive(binary, loss):
    X, y = binary
    assert make(loss).fit(X, y).predict(X).sum() == y.sum()


def test_members_judge_rows_that_they_have_not_seen(binary):
    X, y = binary
    clf = make(n_members=3).fit(X, y)
    assert len(clf.boosters_) == 3
    scores = np.mean([each.predict(X, raw_score=True) for each in clf.boosters_], axis=0)
    expected = scores + clf.init_score_ - clf.threshold_
    np.testing.assert_allclose(clf.decision_function(X), expected)
    each = np.array([b.predict(X, raw_score=True) for b in clf.boosters_])
    each += clf.init_score_ - clf.threshold_
    owner = np.abs(each - clf.oob_decision_function_).argmin(axis=0)
    np.testing.assert_allclose(clf.oob_decision_function_, each[owner, np.arange(len(y))])
    assert np.bincount(owner).tolist() == pytest.approx([400] * 3, abs=2)
    # The owner has not seen the row: it was trained on the others alone, whatever its label is.
    first = owner == 0
    turned = np.where(first, 1 - y, y)
    start = clf.init_score_
    f = objective(
        "accuracy_at_top",
        threshold=TopMean("negatives", tau=0.05),
        surrogate="logistic",
        log_loss_share=0.6,
    )
    alone = lightgbm.LGBMClassifier(objective=f, n_estimators=10, n_jobs=1, verbosity=-1)
    alone.fit(X[~first], turned[~first], init_score=np.full((~first).sum(), start))
    np.testing.assert_allclose(alone.predict(X, raw_score=True), each[0] + clf.threshold_ - start)
    assert clf.oob_score_ == pytest.approx(average_precision_score(y, clf.oob_decision_function_))


def test_threshold_of_members_holds_for_new_rows():
    X, y = make_classification(4000, weights=[0.9], flip_y=0.05, random_state=1)
    params = {"loss": "pat_mat", "loss_params": {"tau": 0.1}, "n_estimators": 50}
    flagged = {}
    for n_members in (1, 3):
        clf = make(n_members=n_members, **params).fit(X[:2000], y[:2000])
        flagged[n_members] = (clf.predict(X[2000:]) != 0).mean()
    assert flagged[3] == pytest.approx(0.1, abs=0.02)
    assert abs(flagged[3] - 0.1) <= abs(flagged[1] - 0.1)


@pytest.mark.parametrize("n_members", [1, 3])
def test_early_stopping_keeps_the_best_round(binary, n_members):
    X, y = binary
    params = {"early_stopping": True, "n_estimators": 200, "n_members": n_members}
    clf = make(scoring="average_precision", **params).fit(X, y)
    assert clf.n_iter_.shape == (n_members,)
    assert (clf.n_iter_ < 190).all()
    if n_members > 1:
        for booster, n in zip(clf.boosters_, clf.n_iter_, strict=True):
            again = booster.predict(X, raw_score=True, num_iteration=n)
            np.testing.assert_array_equal(again, booster.predict(X, raw_score=True))


def test_early_stopping_asks_the_scorer(binary):
    X, y = binary
    found = []

    def scorer(estimator, X, y):
        found.append((estimator.decision_function(X).shape, set(y.tolist())))
        return float(len(found) == 4)

    labels = np.where(y == 1, "bad", "good")
    params = {"early_stopping": True, "n_iter_no_change": 3, "n_estimators": 50}
    clf = make(scoring=scorer, pos_label="bad", **params).fit(X, labels)
    assert clf.n_iter_.tolist() == [4]
    assert len(found) == 7
    assert found[0] == ((120,), {"bad", "good"})


@pytest.mark.parametrize("scoring", ["roc_auc", "accuracy", make_top_scorer("recall_at_k", k=5)])
def test_scores_of_scikit_learn_and_ours_stop_it(binary, scoring):
    X, y = binary
    assert make(early_stopping=True, scoring=scoring).fit(X, y).n_iter_[0] <= 10


def test_labels_and_their_order_do_not_matter(binary):
    X, y = binary
    plain = make().fit(X, y)
    for first, second in (("fraud", "ok"), ("yes", "no"), (True, False)):
        labels = np.where(y == 1, first, second)
        clf = make(pos_label=first).fit(X, labels)
        turned = -1 if clf.classes_[0] == first else 1
        np.testing.assert_array_equal(turned * clf.decision_function(X), plain.decision_function(X))
        np.testing.assert_array_equal(clf.predict_top(X, 9), plain.predict_top(X, 9))
        np.testing.assert_array_equal(clf.predict(X) == first, plain.predict(X) == 1)
        assert clf.score(X, labels) == plain.score(X, y)
    with pytest.warns(UserWarning, match="'fraud' is taken, the rarer one"):
        assert make().fit(X, np.where(y == 1, "fraud", "ok")).pos_label_ == "fraud"
    proba = make(pos_label="fraud", log_loss_share=1).fit(X, np.where(y == 1, "fraud", "ok"))
    expected = make(log_loss_share=1).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.predict_proba(X)[:, 0], expected[:, 1])


def test_rows_of_weight_0_are_left_out_and_class_weight_is_a_weight(binary):
    X, y = binary
    kept = np.arange(len(y)) % 4 > 0
    one = make(n_members=2).fit(X, y, sample_weight=kept * 2.0)
    other = make(n_members=2).fit(X[kept], y[kept], sample_weight=np.full(kept.sum(), 2.0))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert np.isnan(one.oob_decision_function_[~kept]).all()
    np.testing.assert_array_equal(one.oob_decision_function_[kept], other.oob_decision_function_)
    one = make(class_weight={1: 3.0}).fit(X, y)
    other = make().fit(X, y, sample_weight=1 + 2 * y)
    np.testing.assert_allclose(
        one.decision_function(X) + one.threshold_, other.decision_function(X) + other.threshold_
    )
    count = np.bincount(y)
    one = make(class_weight="balanced").fit(X, y)
    other = make().fit(X, y, sample_weight=(len(y) / (2 * count))[y])
    np.testing.assert_array_equal(one.predict_top(X, 50), other.predict_top(X, 50))


def test_tables_of_every_kind_give_the_same(binary):
    X, y = binary
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    expected = make().fit(X, y).decision_function(X)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    clf = make().fit(frame, y)
    np.testing.assert_allclose(clf.decision_function(frame), expected)
    assert clf.feature_names_in_.tolist() == frame.columns.tolist()
    rows = csr_array(X)
    np.testing.assert_allclose(make().fit(rows, y).decision_function(rows), expected, atol=1e-6)


def test_missing_values_are_a_value(binary):
    X, y = binary
    X = X.copy()
    X[y == 1, 3] = np.nan
    clf = make().fit(X, y)
    assert clf.score(X, y) == 1
    with pytest.raises(ValueError, match="infinity"):
        make().fit(np.where(np.isnan(X), np.inf, X), y)


def test_constant_rows_and_rows_too_few_to_split_are_scored_alike():
    for X in (np.ones((50, 2)), np.full((50, 1), np.nan), np.arange(6.0)[:, None]):
        y = np.arange(len(X)) % 2
        assert len(np.unique(make().fit(X, y).decision_function(X))) == 1


@pytest.mark.filterwarnings("ignore:No positive class found")
@pytest.mark.parametrize("early_stopping", [False, True])
def test_members_of_very_few_rows_are_trained(early_stopping):
    y = np.array([0, 1, 0, 1, 0, 0])
    X = np.arange(6.0)[:, None]
    params = {"n_members": 5, "early_stopping": early_stopping, "n_iter_no_change": 1}
    assert np.isfinite(make(**params).fit(X, y).decision_function(X)).all()
    with pytest.warns(UserWarning, match="n_members=5 needs rows to leave out"):
        clf = make(**params).fit(X[:2], y[:2])
    assert clf.threshold_ == 0
    assert np.isnan(clf.oob_score_)
    assert np.isnan(clf.oob_decision_function_).all()


def test_is_repeatable_kept_and_left_whole(binary):
    X, y = binary
    params = {"lightgbm_params": {"feature_fraction": 0.5}, "early_stopping": True}
    clf = make(**params).fit(X, y)
    expected = clf.decision_function(X)
    np.testing.assert_array_equal(make(**params).fit(X, y).decision_function(X), expected)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.decision_function(X), expected)
    assert set(vars(clf)) == set(vars(again))
    with pytest.raises(ValueError, match="infinity"):
        clf.fit(np.full_like(X, np.inf), y)
    np.testing.assert_array_equal(clf.decision_function(X), expected)
    with pytest.raises(NotFittedError):
        make().predict(X)


def test_probabilities_are_there_where_the_scores_are_log_odds(binary):
    X, y = binary
    clf = make().fit(X, y)
    with pytest.raises(AttributeError, match=r"predict_proba is not available.*CalibratedClassif"):
        clf.predict_proba(X)
    assert not hasattr(clf, "predict_proba")
    assert hasattr(make(log_loss_share=1), "predict_proba")
    calibrated = CalibratedClassifierCV(make(), cv=3).fit(X, y)
    assert calibrated.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


def test_composes(binary):
    X, y = binary
    pipe = Pipeline([("boost", make())]).fit(X, y)
    np.testing.assert_array_equal(pipe.predict_top(X, 5), make().fit(X, y).predict_top(X, 5))
    scoring = make_top_scorer("precision_at_k", k=20)
    search = GridSearchCV(make(), {"k": [0.02, 0.1]}, scoring=scoring, cv=2).fit(X, y)
    assert search.best_estimator_.k == search.best_params_["k"]
    budget = BudgetClassifier(make(), budget=20, random_state=0).fit(X, y)
    assert budget.predict(X[:200]).sum() <= 200


def test_compare_losses_takes_it_as_a_rival(several):
    X, y = several
    network = TopKClassifier(k=2, hidden_layer_sizes=(), max_epochs=2)
    rivals = [("boosted", make(k=2))]
    found = compare_losses(network, rivals, X[:60], y[:60], cv=2, grid=None, progress=False)
    assert {"boosted", "lightgbm"} <= set(found.summary().index)


def test_a_file_without_pickle_needs_trust_in_lightgbm(binary, tmp_path):
    X, y = binary
    pipe = Pipeline([("boost", make())]).fit(X, y)
    path = dump(pipe, tmp_path / "model")
    with pytest.raises(ValueError, match=r"lightgbm\.basic\.Booster"):
        load(path)
    loaded = load(path, trusted=["lightgbm.basic.Booster", "collections.OrderedDict"])
    np.testing.assert_array_equal(loaded.decision_function(X), pipe.decision_function(X))


def test_without_lightgbm_the_error_names_the_extra(binary, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    says = r'TopBoostClassifier needs lightgbm: pip install "sktopk\[boosting\]"'
    with pytest.raises(ImportError, match=says):
        make().fit(*binary)


@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        ({"loss": "top"}, ValueError, "loss must be one of 'auto', 'accuracy_at_top'"),
        ({"loss": "topk_hinge"}, ValueError, "loss='topk_hinge' is for several classes; y has 2"),
        ({"loss": TopPushKLoss}, TypeError, "loss must be the name of a loss"),
        ({"loss": "pat_mat"}, TypeError, "loss='pat_mat' needs tau"),
        ({"loss_params": {"k": 2}}, TypeError, "loss='accuracy_at_top' has the parameters"),
        ({"loss_params": [1]}, TypeError, "loss_params must be a dict"),
        ({"k": 0}, ValueError, "k must be an integer >= 1 or a fraction"),
        ({"log_loss_share": 2}, ValueError, "log_loss_share == 2"),
        ({"hessian": "none"}, ValueError, "hessian must be one of 'auto'"),
        ({"n_estimators": 0}, ValueError, "n_estimators == 0"),
        ({"num_leaves": 1}, ValueError, "num_leaves == 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate == 0.0"),
        ({"n_members": 0}, ValueError, "n_members == 0"),
        ({"n_members": 2.0}, TypeError, "n_members must be an instance of int"),
        ({"lightgbm_params": {"seed": 1}}, ValueError, "must not set 'seed': use random_state"),
        ({"lightgbm_params": {"eta": 0.9}}, ValueError, "'eta': use learning_rate"),
        ({"lightgbm_params": {"num_trees": 3}}, ValueError, "'num_trees': use n_estimators"),
        ({"early_stopping": 1}, TypeError, "early_stopping must be True or False"),
        ({"scoring": "none", "early_stopping": True}, ValueError, "scoring must be None"),
        ({"scoring": "neg_log_loss", "early_stopping": True}, ValueError, "asks for predict_proba"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"pos_label": "a"}, ValueError, "pos_label must be one of"),
        ({"class_weight": {5: 1}}, ValueError, "class_weight must have labels of y"),
    ],
)
def test_what_is_not_allowed_is_named(binary, params, error, says):
    with pytest.raises(error, match=says):
        make(**params).fit(*binary)


def test_names_of_lightgbm_for_what_is_set_are_all_known(binary):
    aliases = pytest.importorskip("lightgbm").basic._ConfigAliases
    names = ("objective", "num_class", "num_iterations", "learning_rate", "num_leaves", "metric")
    names += ("min_data_in_leaf", "num_threads", "seed", "early_stopping_round", "is_unbalance")
    for alias in set().union(*map(aliases.get, names)):
        with pytest.raises(ValueError, match=f"must not set '{alias}': use "):
            make(lightgbm_params={alias: 1}).fit(*binary)


@pytest.mark.parametrize("n_members", [1, 3])
def test_early_stopping_judges_labels_at_the_threshold_of_the_rows_it_judges(binary, n_members):
    flagged = []

    def scorer(clf, X, y):
        flagged.append(clf.predict(X).mean())
        return f1_score(y, clf.predict(X))

    params = {"n_members": n_members, "n_estimators": 8, "num_leaves": 4, "early_stopping": True}
    params |= {"loss": "pat_mat", "loss_params": {"tau": 0.2}, "scoring": scorer}
    make(**params).fit(*binary)
    # Of the first round alone many rows tie.
    assert len(flagged) >= 4 * n_members
    assert np.median(flagged) == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("column", "error", "says"),
    [
        (["u", "v"], ValueError, "X must hold numbers; column 'b': .* OrdinalEncoder in a Col"),
        (np.array([0, 1], "datetime64[s]"), TypeError, "column 'b' holds times .* such as the ho"),
    ],
)
def test_columns_that_are_no_numbers_are_named(column, error, says):
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.repeat(column, 20)})
    with pytest.raises(error, match=says):
        make().fit(X, np.arange(40) % 2)
    X = pd.DataFrame(np.zeros((40, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="different names; got 'a' more than once"):
        make().fit(X, np.arange(40) % 2)


def test_labels_that_do_not_suit_are_named(binary, several):
    X, y = several
    with pytest.raises(ValueError, match="loss='top_push' is for two classes; y has 4"):
        make("top_push").fit(X, y)
    with pytest.raises(ValueError, match="pos_label must be None where y has 4 classes"):
        make(pos_label=1).fit(X, y)
    with pytest.raises(TypeError, match="k must be an instance of int"):
        make(k=0.5).fit(X, y)


def test_training_lowers_the_loss_of_the_default_more_than_the_log_loss_does():
    X, y = make_classification(3000, weights=[0.9], flip_y=0.2, random_state=3)
    found = []
    for share in (1, 0.2):
        clf = make(log_loss_share=share, n_estimators=60, num_leaves=4).fit(X, y)
        scores = torch.from_numpy(clf.decision_function(X))
        threshold = TopMean("negatives", tau=0.05)
        loss = accuracy_at_top_loss(scores, torch.from_numpy(y), threshold=threshold)
        found.append(loss.item())
    assert found[1] < found[0]


# Groups of rows.


@pytest.fixture(scope="module")
def days(binary):
    """Rows, labels and days, of which one has no positives."""
    X, y = binary
    day = np.random.default_rng(1).integers(0, 12, len(y))
    return X, np.where(day == 3, 0, y), day


@pytest.mark.parametrize("is_weighted", [False, True])
def test_groups_grow_the_trees_of_lightgbm_with_groups(days, is_weighted):
    X, y, day = days
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y)) if is_weighted else None
    clf = make("recall_at_k", k=5).fit(X, y, weight, groups=day.astype(str))
    assert clf.n_groups_ == 12
    # In the order in which the days come first, as numbers of groups have it.
    order = np.concatenate([np.flatnonzero(day == each) for each in pd.unique(day)])
    own = lightgbm.LGBMRanker(
        objective=objective("recall_at_k", k=5), n_estimators=10, n_jobs=1, verbosity=-1
    ).fit(
        X[order],
        y[order],
        sample_weight=None if weight is None else weight[order],
        group=np.bincount(pd.factorize(day)[0]),
        init_score=np.full(len(y), clf.init_score_),
    )
    raw = own.predict(X, raw_score=True)
    scores = clf.decision_function(X) + clf.threshold_ - clf.init_score_
    # LightGBM keeps weights in float32.
    np.testing.assert_allclose(scores, raw, atol=1e-6)
    # One group is no group.
    one = make("recall_at_k", k=5).fit(X, y, groups=np.full(len(y), "a"))
    np.testing.assert_array_equal(
        one.decision_function(X), make("recall_at_k", k=5).fit(X, y).decision_function(X)
    )


@pytest.mark.parametrize(
    ("loss", "k", "rank"), [("recall_at_k", 7, 7), ("top_push_k", 4, 4), ("top_push", None, 1)]
)
def test_threshold_is_the_median_of_those_of_the_groups(days, loss, k, rank):
    X, y, day = days
    clf = make(loss, k=k).fit(X, y, groups=day)
    scores = clf.decision_function(X) + clf.threshold_
    each = []
    for one in range(12):
        own = (day == one) & ((y == 0) | (loss == "recall_at_k"))
        each.append(np.sort(scores[own])[::-1][rank - 1])
    t = np.sort(each)[(len(each) - 1) // 2]
    assert clf.threshold_ == pytest.approx((t + scores[scores < t].max()) / 2)


def test_verbs_take_groups_known_from_the_fit_or_not(days):
    X, y, day = days
    clf = make(k=3).fit(X, y, groups=day)
    new = np.char.add("day ", (day % 7 + 20).astype(str))
    scores = clf.decision_function(X)
    found, expected = clf.predict_top(X, 4, groups=new), []
    for each in np.unique(new):
        own = np.flatnonzero(new == each)
        expected += own[np.argsort(-scores[own], kind="stable")[:4]].tolist()
    assert sorted(found) == sorted(expected)
    assert (np.diff(scores[found]) <= 0).all()
    own = [day == each for each in range(12) if each != 3]
    mean = np.mean([average_precision_score(y[rows], scores[rows]) for rows in own])
    assert clf.score(X, y, groups=day) == pytest.approx(mean)


def test_whole_groups_are_left_out_and_held_out(days):
    X, y, day = days
    clf = make(n_members=3).fit(X, y, groups=day)
    each = np.array([b.predict(X, raw_score=True) for b in clf.boosters_])
    each += clf.init_score_ - clf.threshold_
    owner = np.abs(each - clf.oob_decision_function_).argmin(axis=0)
    # The only day without positives is in every training.
    known = day != 3
    np.testing.assert_array_equal(np.isnan(clf.oob_decision_function_), ~known)
    expected = each[owner, np.arange(len(y))][known]
    np.testing.assert_allclose(clf.oob_decision_function_[known], expected)
    assert all(len(np.unique(owner[day == one])) == 1 for one in range(12))
    assert len(np.unique(owner)) == 3
    scores = clf.oob_decision_function_
    own = [day == each for each in range(12) if each != 3]
    mean = np.mean([average_precision_score(y[rows], scores[rows]) for rows in own])
    assert clf.oob_score_ == pytest.approx(mean)
    judged = []

    def judge(estimator, X, y):
        judged.append(len(y))
        return 0.0

    params = {"early_stopping": True, "validation_fraction": 0.25, "n_iter_no_change": 1}
    make(scoring=judge, **params).fit(X, y, groups=day)
    assert judged[0] in {
        sum(int((day == each).sum()) for each in three)
        for three in itertools.combinations(range(12), 3)
    }
    assert make(**params).fit(X, y, groups=day).n_iter_[0] <= 10


def test_folds_of_which_no_group_has_both_classes_are_judged_as_one_list():
    # Of 20 days two have both classes, two are all positive.
    X, groups = np.random.default_rng(0).normal(size=(200, 4)), np.repeat(np.arange(20), 10)
    y = np.zeros(200, dtype=int)
    y[:20:4] = y[20:40] = 1
    X[:, 0] += 2 * y
    clf = TopBoostClassifier(n_estimators=50, early_stopping=True, random_state=0)
    # A score that is undefined would stop each of them at the first round.
    assert max(clf.fit(X, y, groups=groups).n_iter_) > 10


def test_searches_route_groups(days):
    X, y, day = days
    with sklearn.config_context(enable_metadata_routing=True):
        clf = make(k=3).set_fit_request(groups=True).set_score_request(groups=True)
        pipe = Pipeline([("scale", StandardScaler()), ("boost", clf)])
        search = GridSearchCV(pipe, {"boost__k": [2, 3]}, cv=GroupKFold(3), error_score="raise")
        search.fit(X, y, groups=day)
        assert search.best_estimator_[-1].n_groups_ == 12
        assert search.best_estimator_.predict_top(X, 2, groups=day).shape == (24,)


def test_groups_that_do_not_suit_are_named(days, several):
    X, y, day = days
    clf = make()
    with pytest.raises(ValueError, match="groups must name the group of each of the 1200 rows"):
        clf.fit(X, y, groups=day[1:])
    with pytest.raises(ValueError, match=r"k must be a number of rows of each group .* got None"):
        make("recall_at_k").fit(X, y, groups=day)
    with pytest.raises(TypeError, match="must take groups where rows have groups"):
        make(PlainLoss()).fit(X, y, groups=day)
    assert not hasattr(clf, "boosters_")
    groups = np.arange(len(several[1])) % 3
    with pytest.raises(ValueError, match="groups must be None for 4 classes"):
        clf.fit(*several, groups=groups)
    clf.fit(*several)
    with pytest.raises(ValueError, match="groups must be None for 4 classes"):
        clf.score(*several, groups=groups)


class PlainLoss:
    def __call__(self, scores, target, sample_weight=None):
        return torch.nn.functional.softplus(scores * (1 - 2 * target)).mean()


@pytest.mark.parametrize(
    ("loss", "params", "n_flagged"),
    [("pairwise_auc", {}, lambda y: y.sum()), ("recall_at_k", {"k": 50}, lambda y: 50)],
)
@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 7.0}], ids=str)
def test_class_weight_is_no_number_of_rows(binary, loss, params, n_flagged, class_weight):
    X, y = binary
    clf = make(loss, class_weight=class_weight, n_estimators=40, **params).fit(X, y)
    # Scores of trees tie.
    assert np.sum(clf.predict(X)) == pytest.approx(n_flagged(y), abs=8)


def test_a_threshold_between_neighbours_flags_the_upper_one(binary):
    X, y = binary
    clf = make("recall_at_k", k=1).fit(X, y)
    scores = np.array([1.0, np.nextafter(1.0, -np.inf), 0.0, -1.0])
    ones = np.ones(4)
    rows = Rows(None, None, np.array([1, 0, 0, 0]), ones, ones)
    clf.class_count_ = np.array([3.0, 1.0])
    t = clf._threshold("recall_at_k", {"k": 1}, rows, scores)
    np.testing.assert_array_equal(scores > t, [True, False, False, False])
