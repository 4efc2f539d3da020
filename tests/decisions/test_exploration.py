"""Are rows drawn with the probability that is told, and do logs of them train?"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy.sparse import csr_array
from scipy.stats import chisquare, norm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch.utils.data import TensorDataset

from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    PatMatClassifier,
    TopBoostClassifier,
    TopVotingClassifier,
    make_pipeline,
)
from sktopk._estimators.decisions._base import Trained
from sktopk._estimators.decisions._exploration import thinned
from sktopk._estimators.decisions._guarantees import fpr_threshold, recall_threshold
from sktopk.io import dump, load
from sktopk.metrics import precision_at_k_score, recall_at_k_score
from tests.scored import column, frozen, labels

N_DAYS = 2000


def desk(**params):
    params = {"budget": 20, "per": "batch", "explore": 5, "random_state": 0} | params
    scores = column([0.0, 1.0])
    return BudgetClassifier(frozen(), **params).fit(scores, ["no", "yes"])


def test_the_best_are_certain_and_the_others_share_a_known_chance(rng):
    scores = rng.normal(size=150)
    rows, propensity = desk().predict_queue(column(scores))
    order = np.argsort(-scores)
    assert set(order[:15]) <= set(rows)
    assert len(set(rows)) == 20
    assert (np.diff(scores[rows]) < 0).all()
    expected = np.where(np.isin(rows, order[:15]), 1, 5 / 135)
    np.testing.assert_allclose(propensity, expected)


def test_each_other_row_is_drawn_as_often():
    # The same days but for a number without meaning, by which they differ.
    n, scores = 60, np.tile(np.arange(60.0), N_DAYS)
    day = np.repeat(np.arange(N_DAYS), n)
    rows, propensity = desk(per="group", budget=10, explore=4).predict_queue(
        np.column_stack([scores, day]), groups=day
    )
    count = np.bincount(rows % n, minlength=n)
    assert (count[-6:] == N_DAYS).all()
    assert chisquare(count[:-6]).pvalue > 1e-3
    # And so are pairs of them, which a draw without replacement makes as likely: first and last.
    drawn = np.zeros((N_DAYS, n), dtype=bool)
    drawn.flat[rows] = True
    pairs = np.count_nonzero(drawn[:, 0] & drawn[:, 53]) / N_DAYS
    expected = 4 / 54 * 3 / 53
    assert abs(pairs - expected) < 4 * (expected / N_DAYS) ** 0.5
    np.testing.assert_allclose(np.unique(propensity), [4 / 54, 1])


def test_naive_scores_of_the_queue_are_biased_and_those_by_propensity_are_not(rng):
    positive = rng.random(N_DAYS * 150) < 0.1
    scores = rng.normal(size=len(positive)) + positive
    day = np.repeat(np.arange(N_DAYS), 150)
    rows, chance = desk(per="group").predict_queue(column(scores), groups=day)
    propensity = np.full(len(day), np.nan)
    propensity[rows] = chance
    y = np.where(np.isnan(propensity), None, np.where(positive, "yes", "no"))
    of_all = {"k": 40, "groups": day, "pos_label": "yes"}
    for metric, tolerance in ((precision_at_k_score, 0.012), (recall_at_k_score, 0.03)):
        truth = metric(labels(positive), scores, **of_all)
        estimate = metric(y, scores, propensity=propensity, **of_all)
        naive = metric(np.where(y == "yes", "yes", "no"), scores, **of_all)
        assert abs(estimate - truth) < tolerance
        assert abs(naive - truth) > 4 * tolerance


def test_predictions_agree_and_change_nothing(rng):
    X = np.column_stack([rng.normal(size=90), rng.normal(size=90)])
    clf = desk(budget=0.2)
    before = pickle.dumps(clf)
    rows, propensity = clf.predict_queue(X)
    assert len(rows) == 18
    flagged = clf.predict(X) == "yes"
    np.testing.assert_array_equal(np.flatnonzero(flagged), np.sort(rows))
    np.testing.assert_array_equal(clf.predict_top(X), rows)
    np.testing.assert_array_equal(clf.predict_queue(X).rows, rows)
    assert pickle.dumps(clf) == before
    order = rng.permutation(90)
    np.testing.assert_array_equal(clf.predict(X[order]) == "yes", flagged[order])
    for kind in (pd.DataFrame, np.asfortranarray, list):
        np.testing.assert_array_equal(clf.predict_queue(kind(X)).propensity, propensity)
    # So many rows as are asked for are the best.
    assert clf.predict_top(X, 20).tolist() == np.argsort(-X[:, 0])[:20].tolist()
    # Another batch, and another seed, has draws of its own.
    assert (desk(budget=0.2, random_state=1).predict_queue(X).rows != rows).any()
    moved = X + np.array([0, 1.0])
    assert (clf.predict_queue(moved).rows != rows).any()


def test_without_exploring_all_chosen_rows_are_certain(rng):
    X = column(rng.normal(size=50))
    for params in ({}, {"per": "fit"}, {"constraint": "fpr", "budget": 0.2, "per": "fit"}):
        clf = BudgetClassifier(frozen(), **{"budget": 7, "per": "batch"} | params)
        clf.fit(X, labels(X[:, 0] > 0))
        rows, propensity = clf.predict_queue(X)
        np.testing.assert_array_equal(rows, clf.predict_top(X))
        assert propensity.tolist() == [1.0] * len(rows)


def test_a_batch_within_the_budget_is_looked_at_as_a_whole():
    for n in (3, 20):
        rows, propensity = desk().predict_queue(column(np.arange(n))) if n == 20 else (None, None)
        if n < 20:
            with pytest.warns(UserWarning, match="budget=20 but only 3 rows"):
                rows, propensity = desk().predict_queue(column(np.arange(n)))
        assert rows.tolist() == list(range(n))[::-1]
        assert (propensity == 1).all()
    # Of the single place of a small batch nothing is left for the best.
    rows, propensity = desk(budget=0.1).predict_queue(column(np.arange(8)))
    assert len(rows) == 1
    assert propensity[0] == 1 / 8


def test_a_kept_desk_draws_the_same(tmp_path, rng):
    X, y = make_classification(300, random_state=0)
    clf = BudgetClassifier(LogisticRegression(), budget=9, per="batch", explore=3, random_state=0)
    expected = clf.fit(X, y).predict_queue(X)
    for again in (load(dump(clf, tmp_path / "desk")), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(again.predict_queue(X).rows, expected.rows)
    pipe = make_pipeline(StandardScaler(), clf).fit(X, y)
    assert len(pipe.predict_queue(X).rows) == 9


WRONG = {
    "per fit": ({"per": "fit"}, ValueError, "explore is for constraint"),
    "of fdr": ({"constraint": "fdr", "budget": 0.2}, ValueError, "explore is for constraint"),
    "all": ({"explore": 20}, ValueError, "explore must be less than budget=20; got 20"),
    "negative": ({"explore": -1}, ValueError, "explore == -1, must be >= 0"),
    "a share": ({"explore": 0.5}, TypeError, "explore must be an instance of int"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_numbers_to_explore_are_refused(case):
    params, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        desk(**params)
    with pytest.raises(TypeError, match="X must be a table; got a stream"):
        desk().predict_queue(iter([column(np.arange(9))]))


@pytest.fixture(scope="module")
def log():
    """Rows of 300 days, of which 20 of 100 each have a label, 8 of them drawn by lot."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 2))
    y = rng.random(len(X)) < 1 / (1 + np.exp(3 - 1.5 * X[:, 0] - 1.5 * X[:, 1]))
    day = np.repeat(np.arange(300), 100)
    # The classifier of the first days knew one of the columns.
    clf = BudgetClassifier(frozen(), budget=20, per="group", explore=8, random_state=0)
    queue = clf.fit(X[:2], ["no", "yes"]).predict_queue(X, groups=day)
    propensity = np.full(len(X), np.nan)
    propensity[queue.rows] = queue.propensity
    known = np.where(np.isnan(propensity), np.nan, y)
    return X, y.astype(int), known, propensity


def test_rows_of_a_log_weigh_what_they_stand_for(log):
    X, _, known, propensity = log
    rows = np.flatnonzero(~np.isnan(propensity))
    clf = BudgetClassifier(LogisticRegression(), budget=20, per="batch")
    clf.fit(X, known, propensity=propensity)
    expected = LogisticRegression().fit(X[rows], known[rows], 1 / propensity[rows])
    np.testing.assert_allclose(clf.estimator_.coef_, expected.coef_)
    assert clf.n_samples_fit_ == len(X)
    weight = np.linspace(1, 2, len(X))
    clf.fit(X, known, propensity=propensity, sample_weight=weight)
    expected.fit(X[rows], known[rows], weight[rows] / propensity[rows])
    np.testing.assert_allclose(clf.estimator_.coef_, expected.coef_)
    frame = pd.DataFrame(X, index=np.arange(len(X)) + 9)
    fitted = BudgetClassifier(LogisticRegression(), budget=20, per="batch").fit(
        frame, pd.Series(known, index=frame.index), propensity=pd.Series(propensity)
    )
    np.testing.assert_allclose(
        fitted.estimator_.coef_,
        LogisticRegression().fit(X[rows], known[rows], 1 / propensity[rows]).coef_,
    )


def test_training_with_a_log_finds_what_all_labels_would(log):
    X, y, known, propensity = log
    clf = BudgetClassifier(LogisticRegression(), budget=20, per="batch")
    log_coef = clf.fit(X, known, propensity=propensity).estimator_
    full, rows = LogisticRegression().fit(X, y), np.flatnonzero(~np.isnan(propensity))
    naive = LogisticRegression().fit(X[rows], y[rows])
    # A right model needs no weights; one with too few columns does: the first column alone.
    assert np.abs(log_coef.coef_ - full.coef_).max() < 0.3
    one = [LogisticRegression().fit(X[:, 1:], y)]
    one += [LogisticRegression().fit(X[rows, 1:], y[rows], w) for w in (1 / propensity[rows], None)]
    full, weighted, plain = (each.intercept_[0] for each in one)
    assert abs(weighted - full) < 0.25 < abs(plain - full)
    assert naive.n_features_in_ == 2


@pytest.mark.filterwarnings("ignore:The training loss still fell")
def test_a_ranker_takes_the_weights_of_a_log(log):
    X, y, known, propensity = log
    params = {"hidden_layer_sizes": (), "learning_rate": 0.1, "batch_size": 1000}
    clf = PatMatClassifier(tau=0.1, max_epochs=30, random_state=0, **params)
    clf.fit(X, known, propensity=propensity)
    # Its share of all rows lies above the threshold, not its share of those with a label.
    assert abs(np.mean(clf.predict(X)) - 0.1) < 0.03
    found = recall_at_k_score(y, clf.decision_function(X), k=0.1)
    assert found > recall_at_k_score(y, X.sum(axis=1), k=0.1) - 0.03


LINEAR = {"hidden_layer_sizes": (), "max_epochs": 2, "random_state": 0}
RANKERS = {
    "PatMatClassifier": PatMatClassifier(**LINEAR),
    "AUCClassifier": AUCClassifier(**LINEAR),
    "TopBoostClassifier": TopBoostClassifier(n_estimators=2, random_state=0),
    "TopVotingClassifier": TopVotingClassifier(
        PatMatClassifier(calibration="sigmoid", **LINEAR), others=[GaussianNB()], n_folds=2
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize("kind", ["array", "frame", "sparse", "dataset"])
def test_a_log_is_the_rows_of_known_label_with_their_weights(log, name, kind, rng):
    if name == "TopBoostClassifier":
        pytest.importorskip("lightgbm")
    X, _, known, propensity = (each[:2000] for each in log)
    rows = np.flatnonzero(~np.isnan(propensity))
    weight, day = rng.uniform(1, 2, len(X)), np.repeat(np.arange(20), 100)
    make = {
        "array": np.array,
        "frame": lambda X: pd.DataFrame(X, index=np.arange(len(X)) + 9),
        "sparse": csr_array,
        "dataset": lambda X: TensorDataset(torch.from_numpy(X)),
    }[kind]
    if kind == "dataset" and name.startswith("TopB"):
        pytest.skip("takes no Dataset")
    y = pd.Series(np.where(known == 1, "yes", "no"), dtype=object)
    y[np.isnan(known)] = None
    expected = clone(RANKERS[name]).fit(
        make(X[rows]), y[rows], sample_weight=weight[rows] / propensity[rows], groups=day[rows]
    )
    clf = clone(RANKERS[name]).fit(
        make(X), y, sample_weight=weight, groups=day, propensity=propensity.tolist()
    )
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))
    assert len(np.unique(clf.decision_function(X))) > 2
    plain = clone(RANKERS[name]).fit(X[rows], y[rows], weight[rows], groups=day[rows])
    assert np.any(plain.decision_function(X) != expected.decision_function(X))


def test_rows_that_calibrate_are_thinned_to_a_sample_of_all(rng):
    n_draws, n = 2000, 300
    chance = np.where(np.arange(n) < 40, 1.0, 0.3)
    kept, n_known = np.zeros(n), np.zeros(n)
    for seed in range(n_draws):
        known = np.flatnonzero(rng.random(n) < chance)
        rows = Trained(None, column(known), known, None, None, None)
        left = thinned(rows, chance[known], np.random.RandomState(seed))
        np.testing.assert_array_equal(left.y, known[left.held_out])
        np.testing.assert_array_equal(left.X[:, 0], left.y)
        kept[left.y] += 1
        n_known[known] += 1
    assert chisquare(kept).pvalue > 1e-3
    assert chisquare(n_known).pvalue < 1e-9
    assert abs(kept.mean() / n_draws - 0.3) < 0.01


def test_a_frozen_desk_calibrates_with_the_thinned_rows(rng):
    scores, y = rng.normal(size=800), rng.random(800) < 0.3
    chance = np.where(scores > 1, 1.0, 0.4)
    propensity = np.where(rng.random(800) < chance, chance, np.nan)
    params = {"constraint": "fpr", "budget": 0.2, "random_state": 3}
    clf = BudgetClassifier(frozen(), **params)
    clf.fit(column(scores), labels(y), propensity=propensity)
    known = np.flatnonzero(~np.isnan(propensity))
    rows = Trained(None, column(scores)[known], labels(y)[known], None, None, None)
    left = thinned(rows, propensity[known], np.random.RandomState(3))
    expected = BudgetClassifier(frozen(), **params).fit(left.X, left.y)
    assert clf.threshold_ == expected.threshold_
    assert clf.rates_ == expected.rates_


@pytest.mark.parametrize("constraint", ["fpr", "recall"])
def test_promises_of_a_log_hold_and_those_of_its_labels_alone_do_not(constraint, rng):
    n_draws, delta = 2000, 0.1
    find = {"fpr": fpr_threshold, "recall": recall_threshold}[constraint]
    budget = {"fpr": 0.1, "recall": 0.8}[constraint]
    shift = {"fpr": 0.0, "recall": 1.5}[constraint]
    broken, naive = [], []
    for seed in range(n_draws):
        y = rng.random(600) < 0.3
        scores = rng.normal(size=600) + 1.5 * y
        chance = np.where(scores > 1.5, 1.0, 0.4)
        known = np.flatnonzero(rng.random(600) < chance)
        rows = Trained(None, scores[known], y[known], None, None, None)
        left = thinned(rows, chance[known], np.random.RandomState(seed))
        for found, each in ((broken, left), (naive, rows)):
            rate = norm.sf(find(each.X, each.y, budget, delta)[0] - shift)
            found.append(rate < budget if constraint == "recall" else rate > budget)
    assert np.mean(broken) <= delta + 3 * (delta * (1 - delta) / n_draws) ** 0.5
    assert np.mean(broken) > delta / 3
    # Labels alone have too many of the best rows: they promise too little, or too much.
    assert np.mean(naive) < 0.01 if constraint == "fpr" else np.mean(naive) > 0.5


@pytest.mark.parametrize("inner", [frozen(), LogisticRegression()])
def test_a_log_without_draws_is_told(inner, rng):
    scores, y = rng.normal(size=400), labels(rng.random(400) < 0.3)
    propensity = np.where(scores > 1, 1.0, np.nan)
    clf = BudgetClassifier(inner, constraint="recall", budget=0.5, pos_label="yes", random_state=0)
    n_none = np.count_nonzero(np.isnan(propensity))
    with pytest.warns(UserWarning, match=f"has propensity 1, and {n_none} of 400 rows have none"):
        clf.fit(column(scores), y, propensity=propensity)
    for known in (np.ones(400), np.where(scores > 1, 1.0, np.where(scores > 0, 0.5, np.nan))):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="every known label")
            clf.fit(column(scores), y, propensity=known)


def test_wrong_logs_are_refused(log):
    X, _, known, propensity = log
    clf = BudgetClassifier(LogisticRegression(), budget=20, per="batch")
    with pytest.raises(ValueError, match=r"propensity must be in \(0, 1\]"):
        clf.fit(X, known, propensity=np.zeros(len(X)))
    with pytest.raises(ValueError, match="propensity must be 30000 numbers, one per row of X"):
        clf.fit(X, known, propensity=propensity[:10])
    with pytest.raises(ValueError, match=r"y contains NaN.*pass propensity"):
        clf.fit(X, known)
    for ranker in RANKERS.values():
        with pytest.raises(ValueError, match=r"propensity must be in \(0, 1\]"):
            clone(ranker).fit(X, known, propensity=np.zeros(len(X)))
        with pytest.raises(ValueError, match="requires y to be passed"):
            clone(ranker).fit(X, None, propensity=propensity)
    with pytest.raises(ValueError, match="propensity weighs the rows that train, but KNeighbors"):
        BudgetClassifier(KNeighborsClassifier()).fit(X, known, propensity=propensity)


def test_logs_are_routed(log):
    X, _, known, propensity = log
    known = np.nan_to_num(known)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        clf = BudgetClassifier(inner, budget=20, per="batch")
        pipe = make_pipeline(StandardScaler(), clf).fit(
            X, np.nan_to_num(known), propensity=propensity
        )
        ranker = make_pipeline(StandardScaler(), PatMatClassifier(**LINEAR))
        ranker.fit(X, known, propensity=propensity)
    assert pipe.steps[-1][1].n_samples_fit_ == len(X)
    weight = np.nansum(1 / propensity)
    assert ranker[-1].class_count_.sum() == pytest.approx(weight)
