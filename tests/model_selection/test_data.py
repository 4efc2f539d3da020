"""Tables that compare_losses takes, and what its baselines make of them."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from sktopk import TopKClassifier
from sktopk.model_selection import compare_losses
from sktopk.model_selection._baselines import DenseNumbers

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def scores_of(X, y, *steps):
    clf = TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=2, learning_rate=0.05)
    clf = make_pipeline(*steps, clf) if steps else clf
    return compare_losses(clf, [], X, y, cv=2, grid=None, progress=False).scores


@pytest.fixture
def table(rng):
    y = np.arange(90) % 3
    return rng.normal(size=(90, 3)) + y[:, None], y


def test_tables_of_pyarrow_score_like_arrays(table):
    pyarrow = pytest.importorskip("pyarrow")
    X, y = table
    found = scores_of(pyarrow.table({f"x{i}": X[:, i] for i in range(3)}), y)
    for loss, expected in scores_of(X, y).items():
        np.testing.assert_allclose(found[loss], expected)


FRAMES = {
    "pandas": lambda columns: pd.DataFrame(columns).astype({"shop": "category"}),
    "strings and nullable numbers": lambda columns: pd.DataFrame(columns).astype(
        {"x": "Float64", "shop": "string"}
    ),
    "polars": lambda columns: pytest.importorskip("polars").DataFrame(columns, nan_to_null=True),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_baselines_learn_from_the_categories_of_a_frame(kind, rng):
    shop, y = rng.integers(0, 12, 600), np.arange(600) % 2
    shop[y == 1] += 12 * (rng.random(300) < 0.9)
    known = np.char.add("shop", shop.astype(str))
    shops = [None if i % 50 == 0 else name for i, name in enumerate(known.tolist())]
    columns = {"x": np.where(np.arange(600) % 40 == 0, np.nan, rng.normal(size=600)), "shop": shops}
    clf = TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=2, n_estimators=1)
    found = compare_losses(
        clf, [], FRAMES[kind](columns), y, cv=2, n_seeds=1, grid=None, progress=False
    )
    assert found.omitted == {}
    for name in ("logistic_regression", "extra_trees", "hist_gradient_boosting"):
        assert found.scores[name].mean() > 0.8, name


def test_columns_without_known_values_are_scored(table):
    X, y = table
    X[:, 1] = np.nan
    imputer = SimpleImputer(keep_empty_features=False)
    assert scores_of(X, y, imputer)["hist_gradient_boosting"].mean() > 0.5
    # Nothing imputes here: the column reaches boosting as it is.
    trees = DenseNumbers().fit(X)
    assert HistGradientBoostingClassifier(max_iter=5).fit(trees.transform(X), y).score(X, y) > 0.4


def test_sparse_samples_score_like_dense_ones(table):
    X, y = table
    split = csr_array((np.repeat(X.ravel() / 2, 2), np.tile(np.repeat(range(3), 2), 90),
                       6 * np.arange(91)), shape=X.shape)  # fmt: skip
    # Every entry is stored in two parts.
    found, expected = scores_of(split, y), scores_of(X, y)
    loss = "hist_gradient_boosting"
    np.testing.assert_allclose(found[loss], expected[loss])
    assert split.nnz == 540
