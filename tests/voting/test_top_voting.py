"""TopVotingClassifier against its definition: means of probabilities, votes of the unseen."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    FScoreClassifier,
    PatMatClassifier,
    Pipeline,
    RecallAtKClassifier,
    TopKClassifier,
    TopVotingClassifier,
)
from sktopk.io import dump
from sktopk.metrics import precision_at_k_score, topk_accuracy_score
from sktopk.modules import MLP

SHORT = {"n_members": 2, "max_epochs": 3, "warm_up": 2, "hidden_layer_sizes": (8,)}
pytestmark = pytest.mark.filterwarnings(
    "ignore:max_epochs=.* ended the training", "ignore:The network gives every row nearly"
)


def make(estimator=None, others=None, **params):
    estimator = PatMatClassifier(tau=0.1, **SHORT) if estimator is None else estimator
    others = [LogisticRegression(), KNeighborsClassifier(1)] if others is None else others
    return TopVotingClassifier(estimator, others, **{"n_folds": 3, "random_state": 0} | params)


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(300, weights=[0.8], flip_y=0.2, random_state=0)
    # Rows that are there twice lie in one fold.
    return np.vstack([X, X[:40]]), np.r_[y, y[:40]]


@pytest.fixture(scope="module")
def fitted(rows):
    return make().fit(*rows)


def test_vote_is_the_mean_of_the_voters(rows, fitted):
    X, _ = rows
    voters = [fitted.estimator_.predict_proba(X).astype(float)]
    for each in fitted.others_:
        assert len(each) == 3
        voters.append(np.mean([clf.predict_proba(X) for clf in each], axis=0))
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(proba, np.mean(voters, axis=0), rtol=1e-12)
    np.testing.assert_allclose(fitted.decision_function(X), proba[:, 1] - proba[:, 0], atol=1e-15)
    np.testing.assert_array_equal(fitted.predict(X), proba.argmax(axis=1))
    np.testing.assert_array_equal(
        fitted.predict_top(X, 20), np.argsort(-proba[:, 1], kind="stable")[:20]
    )


def test_votes_out_of_fold_are_of_those_that_have_not_seen_the_row(rows, fitted):
    X, y = rows
    network = fitted.estimator_
    # Platt's two sigmoids, of half the score and of its opposite, over their sum.
    halves = np.column_stack([-network.oob_decision_function_, network.oob_decision_function_]) / 2
    _, slope, intercept = network.calibration_
    sigmoid = 1 / (1 + np.exp(-(slope * halves + intercept)))
    votes = sigmoid[:, 1] / sigmoid.sum(axis=1)
    for each in fitted.others_:
        for i in range(len(X)):
            # The neighbours of the other list tell which rows it was trained on.
            unseen = [
                clf
                for clf, knn in zip(each, fitted.others_[1], strict=True)
                if not (knn._fit_X == X[i]).all(axis=1).any()
            ]
            assert len(unseen) == 1
            votes[i] += unseen[0].predict_proba(X[i : i + 1])[0, 1]
    votes /= 3
    np.testing.assert_allclose(fitted.oob_decision_function_, 2 * votes - 1, atol=1e-6)
    # Its precision is that of the best tenth.
    best = np.argsort(-votes, kind="stable")[:34]
    assert fitted.oob_score_ == pytest.approx(y[best].sum() / y.sum())


def test_score_is_that_of_the_network_of_the_votes(rows):
    X, y = rows
    clf = make(RecallAtKClassifier(k=30, **SHORT)).fit(X, y)
    found = y[clf.predict_top(X, 30)].sum() / y.sum()
    assert clf.score(X, y) == pytest.approx(found)
    groups = np.arange(len(y)) % 3
    each = []
    for group in range(3):
        own = groups == group
        each.append(y[own][clf.predict_top(X[own], 30)].sum() / y[own].sum())
    assert clf.score(X, y, groups=groups) == pytest.approx(np.mean(each))
    top = clf.predict_top(X, 4, groups=groups)
    votes = clf.decision_function(X)
    best = [np.flatnonzero(groups == g)[np.argsort(-votes[groups == g])[:4]] for g in range(3)]
    assert set(top) == set(np.concatenate(best))


def test_score_of_flagged_rows_is_that_of_predict(rows):
    X, y = rows
    clf = make(FScoreClassifier(**SHORT)).fit(X, y)
    assert clf.score(X, y) == pytest.approx(f1_score(y, clf.predict(X)))
    assert clf.oob_score_ == pytest.approx(f1_score(y, clf.oob_decision_function_ > 0))
    assert clf.oob_score_ > f1_score(y, np.ones_like(y))


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_areas_of_several_classes(multi_class):
    X, y = make_classification(200, n_classes=4, n_informative=4, random_state=0)
    clf = make(AUCClassifier(multi_class=multi_class, **SHORT)).fit(X[:120], y[:120])
    expected = roc_auc_score(y[120:], clf.predict_proba(X[120:]), multi_class=multi_class)
    assert clf.score(X[120:], y[120:]) == pytest.approx(expected)
    assert clf.predict_topk(X, k=2).shape == (200, 2)
    with pytest.raises(TypeError, match=r"k must be an integer, as the network .* has no k"):
        clf.predict_topk(X)


def test_groups_lie_in_one_fold(rows):
    X, y = rows
    groups = np.repeat(np.arange(34), 10)
    clf = make(RecallAtKClassifier(k=2, **SHORT), [KNeighborsClassifier(1)])
    clf.fit(X[:340], y, groups=groups)
    for group in range(34):
        own = X[groups == group]
        # Rows that are there twice tie two groups together for the network, not for a row.
        seen = [all((knn._fit_X == row).all(axis=1).any() for row in own) for knn in clf.others_[0]]
        assert seen.count(False) >= 1


def test_words_of_which_the_first_is_positive(rows, fitted):
    X, y = rows
    words = np.where(y == 1, "fraud", "ok")
    network = PatMatClassifier(tau=0.1, pos_label="fraud", **SHORT)
    clf = make(network).fit(X, words)
    assert clf.pos_label_ == "fraud"
    np.testing.assert_allclose(clf.predict_proba(X)[:, ::-1], fitted.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(-clf.decision_function(X), fitted.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(clf.predict_top(X, 9), fitted.predict_top(X, 9))
    np.testing.assert_array_equal(clf.predict(X) == "fraud", fitted.predict(X) == 1)
    assert clf.score(X, words) == pytest.approx(fitted.score(X, y))
    assert clf.oob_score_ == pytest.approx(fitted.oob_score_)


def test_labels_of_several_classes():
    X, y = make_classification(200, n_classes=4, n_informative=6, random_state=0)
    clf = make(TopKClassifier(k=2, **SHORT)).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    order = np.argsort(-proba, axis=1, kind="stable")
    np.testing.assert_array_equal(clf.predict_topk(X), order[:, :2])
    np.testing.assert_array_equal(clf.predict(X), order[:, 0])
    assert clf.score(X, y) == pytest.approx(topk_accuracy_score(y, proba, k=2))
    with pytest.raises(AttributeError, match="use predict_topk"):
        clf.predict_top(X, 3)
    with pytest.raises(ValueError, match="k == 4, must be <= 3"):
        clf.predict_topk(X, 4)


def test_default_is_network_boosting_and_extra_trees():
    clf = TopVotingClassifier(n_folds=2, random_state=0)
    network = clf._network(2, np.random.RandomState(0))
    assert (type(network), network.n_members, network.tau) == (PatMatClassifier, 4, 0.01)
    assert network.calibration == "auto"
    assert type(clf._network(5, np.random.RandomState(0))) is TopKClassifier
    names = [type(each).__name__ for each in clf._others_in_use(2, False)]
    assert names == ["HistGradientBoostingClassifier", "ExtraTreesClassifier"]
    for n_classes, is_sparse in ((3, False), (2, True)):
        names = [type(each).__name__ for each in clf._others_in_use(n_classes, is_sparse)]
        assert names == ["ExtraTreesClassifier"]


def test_frames_with_categories_and_missing_values(rows):
    X, y = rows
    frame = pd.DataFrame(X[:, :3].copy(), columns=["a", "b", "c"])
    frame.loc[::7, "a"] = np.nan
    frame["city"] = np.where(y == 1, "Lima", "Oslo")
    frame.loc[::9, "city"] = None
    clf = make(others="trees", n_folds=2).fit(frame, y)
    assert list(clf.feature_names_in_) == list(frame)
    assert precision_at_k_score(y, clf.decision_function(frame), k=20) == 1
    new = frame.assign(city="Quito")
    assert np.isfinite(clf.decision_function(new)).all()


def test_sparse_rows_are_dense_ones(rows):
    X, y = rows
    X = np.where(np.abs(X) > 1, X, 0)
    dense, sparse = make().fit(X, y), make().fit(csr_array(X), y)
    np.testing.assert_allclose(
        dense.predict_proba(X), sparse.predict_proba(csr_array(X)), atol=1e-4
    )
    trees = make(others="trees", n_folds=2).fit(csr_array(X), y)
    assert len(trees.others_) == 1


def test_a_row_of_weight_zero_is_absent(rows):
    X, y = rows
    weight = np.r_[np.ones(len(y)), np.zeros(5)]
    others = [LogisticRegression()]
    more = make(others=others).fit(np.vstack([X, X[:5] + 9]), np.r_[y, 1 - y[:5]], weight)
    own = make(others=others).fit(X, y)
    np.testing.assert_allclose(more.predict_proba(X), own.predict_proba(X), atol=1e-6)
    assert np.isnan(more.oob_decision_function_).tolist() == [False] * len(y) + [True] * 5


def test_a_network_without_folds(rows):
    X, y = rows
    alone = {"n_members": 1, "early_stopping": False, "cross_fit": False}
    network = PatMatClassifier(tau=0.1, **SHORT | alone)
    clf = make(network.set_params(calibration="sigmoid")).fit(X, y)
    assert not hasattr(clf, "oob_decision_function_")
    # Without probabilities of its own it holds rows out to have some.
    for calibration in (None, "auto"):
        again = make(network.set_params(calibration=calibration)).fit(X, y)
        np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_a_fit_that_fails_leaves_the_earlier_one(rows, fitted):
    X, y = rows
    clf = pickle.loads(pickle.dumps(fitted))
    before = clf.predict_proba(X)
    clf.set_params(others=[SVC(probability=True, kernel="nonsense")])
    with pytest.raises(ValueError, match="nonsense"):
        clf.fit(X[:, :3], y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)


def test_within_others(rows, fitted, tmp_path):
    X, y = rows
    pipe = Pipeline([("vote", make())]).fit(X, y)
    np.testing.assert_array_equal(pipe.predict_top(X, 7), fitted.predict_top(X, 7))
    search = GridSearchCV(make(), {"estimator__tau": [0.05, 0.1]}, cv=2).fit(X, y)
    assert search.best_params_["estimator__tau"] in (0.05, 0.1)
    desk = BudgetClassifier(clone(fitted), budget=20, random_state=0).fit(X, y)
    assert desk.predict(X).sum() == 20
    with pytest.raises(ValueError, match="scikit-learn follows its trees without checking"):
        dump(fitted, tmp_path / "vote.sktopk")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"estimator": LogisticRegression()}, TypeError, "estimator must be a classifier of"),
        ({"others": "forest"}, ValueError, "others must be 'trees' or a list"),
        ({"others": LogisticRegression()}, TypeError, "others must be 'trees' or a list"),
        ({"others": [SVC()]}, TypeError, "with predict_proba; got SVC"),
        ({"others": [LogisticRegression]}, TypeError, "with predict_proba; got"),
        ({"n_folds": 1}, ValueError, "n_folds == 1, must be >= 2"),
        ({"random_state": "a"}, (TypeError, ValueError), "random_state"),
    ],
)
def test_bad_parameters(rows, params, error, message):
    with pytest.raises(error, match=message):
        make(**params).fit(*rows)


def test_others_that_take_no_weights_are_named(rows):
    X, y = rows
    with pytest.raises(TypeError, match=r"KNeighborsClassifier\(.*takes none"):
        make().fit(X, y, np.ones(len(y)))


def test_groups_are_for_rankings(rows):
    X, y = rows
    with pytest.raises(TypeError, match="groups must be None unless estimator ranks"):
        make(TopKClassifier(**SHORT)).fit(X, y, groups=np.arange(len(y)) // 5)


@pytest.mark.parametrize("network", [TopKClassifier(k=1, **SHORT), AUCClassifier(**SHORT)])
def test_score_of_groups_is_the_mean_over_them(rows, network):
    X, y = rows
    clf, groups = make(network).fit(X, y), np.arange(len(y)) % 3
    each = [clf.score(X[groups == group], y[groups == group]) for group in range(3)]
    assert clf.score(X, y, groups=groups) == pytest.approx(np.mean(each))


@pytest.mark.parametrize("network", [TopKClassifier(**SHORT), AUCClassifier(**SHORT)])
def test_several_classes_have_no_groups_to_score(network):
    X, y = make_classification(120, n_classes=3, n_informative=4, random_state=0)
    clf = make(network.set_params(n_members=2)).fit(X, y)
    with pytest.raises(ValueError, match="groups must be None for 3 classes"):
        clf.score(X, y, groups=np.arange(len(y)) % 3)


def test_not_fitted(rows):
    with pytest.raises(NotFittedError):
        make().predict(rows[0])


def test_indices_of_64_bits_are_as_good(rows):
    X, y = rows
    X = csr_array(np.where(np.abs(X) > 1, X, 0))
    wide = csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    assert wide.indices.dtype == np.int64
    clf = make(others="trees").fit(wide, y)
    np.testing.assert_array_equal(clf.decision_function(wide), clf.decision_function(X))


@pytest.mark.parametrize(
    "estimator",
    [
        RecallAtKClassifier(k=30),
        TopKClassifier("noised_topk", k=1),
        TopKClassifier("cross_entropy"),
    ],
)
def test_a_network_that_leaves_out_no_rows_votes_with_probabilities(rows, estimator):
    X, y = rows
    network = clone(estimator).set_params(module=MLP, max_epochs=10)
    clf = make(network, []).fit(X, y)
    votes = clf.predict_proba(X)[:, 1]
    assert votes.mean() == pytest.approx(y.mean(), abs=0.1)


@pytest.mark.parametrize("network", [PatMatClassifier(tau=0.1, **SHORT), TopKClassifier(k=1)])
@pytest.mark.parametrize("pos_label", ["fraud", "ok"])
@pytest.mark.filterwarnings("error:the labels", "ignore:.*of the rows are positive")
def test_the_positive_label_is_said_to_the_vote(rows, network, pos_label):
    X, y = rows
    labels = np.where(y == 1, "fraud", "ok")
    network = clone(network).set_params(max_epochs=3)
    clf = make(network, pos_label=pos_label).fit(X, labels)
    assert clf.pos_label_ == pos_label
    proba = clf.predict_proba(X)[:, list(clf.classes_).index(pos_label)]
    top = clf.predict_top(X, n=20)
    assert proba[top].min() >= np.delete(proba, top).max()
    assert np.mean(labels[top] == pos_label) > 0.9


def test_a_positive_label_that_is_none_is_refused(rows):
    X, y = rows
    # Before anything is trained, which would fail at this rate.
    network = TopKClassifier(k=1, learning_rate=1e30)
    for clf in (make(pos_label=7), make(network, pos_label=7)):
        with pytest.raises(ValueError, match=r"pos_label must be one of .0, 1.; got 7"):
            clf.fit(X, y)
    with pytest.raises(TypeError, match="pos_label must be a label or None"):
        make(pos_label=[1]).fit(X, y)
    with pytest.raises(ValueError, match="pos_label must be None where y has 3 classes"):
        make(TopKClassifier(k=1), pos_label=1).fit(X, np.arange(len(y)) % 3)
