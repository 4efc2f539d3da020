"""compare_losses with rankers and other classifiers: labels, baselines and intervals."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sktopk import RecallAtFPRClassifier, TopKClassifier, make_pipeline
from sktopk.metrics import make_top_scorer
from sktopk.model_selection import LossComparison, compare_losses

OTHERS = ["logistic_regression", "extra_trees", "hist_gradient_boosting"]
QUICK = {"n_estimators": 1, "max_epochs": 2, "hidden_layer_sizes": ()}
RANKER = RecallAtFPRClassifier(fpr=0.1, pos_label="bad", **QUICK)
FRAUD = make_top_scorer("true_positive_rate_at_fpr", fpr=0.1)
RANDOM = ShuffleSplit(12, test_size=0.25, random_state=0)


@pytest.fixture(scope="module")
def frauds():
    X, y = make_classification(400, weights=[0.8], random_state=0)
    return X, np.where(y == 1, "bad", "ok")


def compare(estimator, X, y, losses=(), **params):
    params = {"cv": 2, "n_seeds": 1, "grid": None, "progress": False} | params
    return compare_losses(estimator, list(losses), X, y, **params)


PIPE = make_pipeline(StandardScaler(), RANKER)


@pytest.mark.parametrize("estimator", [RANKER, PIPE], ids=["ranker", "pipeline"])
def test_a_ranker_is_scored_with_the_positive_label_of_the_scorer(estimator, frauds):
    X, y = frauds
    found = compare(estimator, X, y, scoring=FRAUD, baselines={"bayes": GaussianNB()})
    assert set(found.scores) == {"RecallAtFPRClassifier", *OTHERS, "bayes"}
    assert found.losses == ["RecallAtFPRClassifier"]
    rows = found.frame.set_index(["loss", "fold"])
    scorer = make_top_scorer("true_positive_rate_at_fpr", fpr=0.1, pos_label="bad")
    seed = int(rows.loc[("bayes", 0), "seed"])
    folds = StratifiedKFold(2, shuffle=True, random_state=seed)
    for fold, (train, test) in enumerate(folds.split(X, y)):
        of_seed = clone(estimator)
        names = [name for name in of_seed.get_params() if name.endswith("random_state")]
        of_seed.set_params(**dict.fromkeys(names, seed + fold))
        for name, each in [("bayes", GaussianNB()), ("RecallAtFPRClassifier", of_seed)]:
            expected = scorer(each.fit(X[train], y[train]), X[test], y[test])
            assert rows.loc[(name, fold), "score"] == pytest.approx(expected)


def test_all_classifiers_use_the_same_positive_label(frauds):
    X, y = frauds
    any_label = clone(RANKER).set_params(pos_label=None)
    of_bad = clone(FRAUD).set_params(pos_label="bad")
    expected = compare(RANKER, X, y, scoring=of_bad).scores
    expected["again"] = expected["RecallAtFPRClassifier"]
    for ranker, scorer in [(any_label, of_bad), (RANKER, FRAUD), (any_label, FRAUD)]:
        with warnings.catch_warnings(record=True, action="always") as caught:
            found = compare(ranker, X, y, {"again": ranker}.items(), scoring=scorer).scores
        said = [each for each in caught if "pos_label" in str(each.message)]
        assert len(said) == (ranker is any_label and scorer is FRAUD)
        for name in ("RecallAtFPRClassifier", *OTHERS, "again"):
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("losses", [[], [("tree", DecisionTreeClassifier(max_depth=5))]])
def test_losses_are_compared_with_the_baseline_that_has_the_best_score(losses, blobs):
    X, y = blobs
    clf = TopKClassifier(k=1, learning_rate=1e-6, **QUICK)
    found = compare(clf, X, y, losses, baselines={"bayes": GaussianNB()})
    assert {"logistic_regression", "extra_trees", "bayes"} < set(found.scores)
    mean = {name: scores.mean() for name, scores in found.scores.items() if name != "tree"}
    assert found.baseline == max(mean, key=mean.get) not in ("cross_entropy", "tree")
    if losses:
        assert f" than {found.baseline}" in found.verdict or found.baseline in found.verdict
    assert found.summary().index[0] == found.baseline
    found.baseline = "cross_entropy"
    assert found.summary().loc[found.losses or ["bayes"], "difference"].gt(0.1).all()
    with pytest.raises(ValueError, match=r"names .* default baselines; got \['extra_trees'\]"):
        compare(clf, X, y, losses, baselines={"extra_trees": GaussianNB()})


@pytest.mark.parametrize(
    ("cv", "n_seeds", "overlap"), [(5, 2, 0.2), (3, 1, 1 / 3), (RANDOM, 1, 0.25)]
)
def test_overlap_is_the_share_of_test_samples(cv, n_seeds, overlap, rng):
    y = np.arange(480) % 2
    X = rng.normal(size=(480, 1)) + y[:, None]
    found = compare(GaussianNB(), X, y, scoring="accuracy", cv=cv, n_seeds=n_seeds)
    assert found.overlap == pytest.approx(overlap, abs=0.02)


@pytest.mark.parametrize("n_repeats", [1, 2, 5])
def test_intervals_of_repeated_folds_have_their_nominal_coverage(n_repeats):
    # Each sample has a difference between two classifiers; its population mean is 0.
    rng, n_runs = np.random.default_rng(0), 5 * n_repeats
    fold = [np.tile(np.arange(5), 20)[rng.permutation(100)] for _ in range(n_repeats)]
    scores = {"cross_entropy": np.zeros(n_runs)}
    for trial in range(400):
        each = rng.normal(size=100)
        scores[f"loss {trial}"] = [each[f == i].mean() for f in fold for i in range(5)]
    frame = pd.DataFrame(scores).rename_axis("split").reset_index()
    frame = frame.melt("split", var_name="loss", value_name="score").assign(n_train=80, n_test=20)
    overlap = (n_repeats - 1) / (n_runs - 1)
    found = LossComparison(frame, overlap=overlap).summary()[1:]
    held = np.sum((found["low"] <= 0) & (found["high"] >= 0))
    # With a coverage of 95 %, P(held < 363 or held > 394) < 0.001.
    assert 363 <= held <= 394


def scores_of(X, y, *steps):
    clf = TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=2, n_estimators=1)
    clf = make_pipeline(*steps, clf) if steps else clf
    with warnings.catch_warnings(action="ignore"):
        return compare(clf, X, y).scores


@pytest.fixture
def table(rng):
    y = np.arange(90) % 3
    return rng.normal(size=(90, 3)) + y[:, None], y


FRAMES = {
    "pandas": lambda columns: pd.DataFrame(columns).astype({"shop": "category"}),
    "strings and nullable numbers": lambda columns: pd.DataFrame(columns).astype(
        {"x": "Float64", "shop": "string"}
    ),
    "objects": lambda columns: pd.DataFrame(columns).astype(object),
    "integer names": lambda columns: pd.DataFrame(dict(enumerate(columns.values(), 1))),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns, nan_to_null=True),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_baselines_learn_from_the_categories_of_a_frame(kind, rng):
    shop, y = rng.integers(0, 12, 600), np.arange(600) % 2
    shop[y == 1] += 12 * (rng.random(300) < 0.9)
    shops = [None if i % 50 == 0 else f"shop{code}" for i, code in enumerate(shop)]
    x = np.where(np.arange(600) % 40 == 0, np.nan, rng.normal(size=600))
    for more, least in (({"z": x + 9 * y}, 0.99), ({}, 0.8)):
        table = FRAMES[kind]({"x": x, "shop": shops} | more)
        found = compare(DummyClassifier(), table, y, scoring="accuracy").scores
        assert min(found[name].mean() for name in OTHERS) > least


@pytest.mark.parametrize("steps", [[], [SimpleImputer(keep_empty_features=False)]], ids=len)
def test_columns_without_known_values_are_scored(table, steps):
    X, y = table
    X[:, 1] = np.nan
    assert scores_of(X, y, *steps)["hist_gradient_boosting"].mean() > 0.5


def test_tables_of_pyarrow_and_sparse_samples_score_like_arrays(table):
    X, y = table
    expected = scores_of(X, y)
    found = scores_of(pa.table({f"x{i}": X[:, i] for i in range(3)}), y)
    for loss, scores in expected.items():
        np.testing.assert_allclose(found[loss], scores)
    # The CSR matrix stores each entry as two halves, which have to be added.
    halves, columns = np.repeat(X.ravel() / 2, 2), np.tile([0, 0, 1, 1, 2, 2], 90)
    split = csr_array((halves, columns, 6 * np.arange(91)), shape=X.shape)
    found = scores_of(split, y)["hist_gradient_boosting"]
    np.testing.assert_allclose(found, expected["hist_gradient_boosting"])
    assert split.nnz == 540
