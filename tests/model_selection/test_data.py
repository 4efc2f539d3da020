"""Tables that compare_losses takes, and what its baselines make of them."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from sktopk import TopKClassifier
from sktopk.model_selection import compare_losses

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def scores_of(X, y, *steps):
    clf = TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=2, n_estimators=1)
    clf = make_pipeline(*steps, clf) if steps else clf
    return compare_losses(clf, [], X, y, cv=2, n_seeds=1, grid=None, progress=False).scores


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
    shops = [None if i % 50 == 0 else f"shop{code}" for i, code in enumerate(shop)]
    x = np.where(np.arange(600) % 40 == 0, np.nan, rng.normal(size=600))
    found = scores_of(FRAMES[kind]({"x": x, "shop": shops}), y)
    for name in ("logistic_regression", "extra_trees", "hist_gradient_boosting"):
        assert found[name].mean() > 0.8


@pytest.mark.parametrize("steps", [[], [SimpleImputer(keep_empty_features=False)]], ids=len)
def test_columns_without_known_values_are_scored(table, steps):
    X, y = table
    X[:, 1] = np.nan
    assert scores_of(X, y, *steps)["hist_gradient_boosting"].mean() > 0.5


def test_sparse_samples_score_like_dense_ones(table):
    X, y = table
    # Every entry is stored in two parts.
    halves, columns = np.repeat(X.ravel() / 2, 2), np.tile([0, 0, 1, 1, 2, 2], 90)
    split = csr_array((halves, columns, 6 * np.arange(91)), shape=X.shape)
    found, expected = (scores_of(each, y)["hist_gradient_boosting"] for each in (split, X))
    np.testing.assert_allclose(found, expected)
    assert split.nnz == 540
