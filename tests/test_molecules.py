"""The paper's molecules, from sparse counts to the few to test first, where the data are."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from sktopk.metrics import enrichment_factor_score, make_top_scorer

pytest.importorskip("matplotlib")

EXAMPLE = Path(__file__).parents[1] / "examples" / "molecules.py"
pytestmark = pytest.mark.skipif(not EXAMPLE.is_file(), reason=f"no {EXAMPLE}: runs in a checkout")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("molecules", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def molecules(example, request):
    folder = os.environ.get("SKTOPK_DATA") or request.getfixturevalue("shared") / "data"
    if not (Path(folder) / "merck_cyp3a4" / "merck_cyp.npz").is_file():
        pytest.skip(f"needs merck_cyp3a4/merck_cyp.npz of SKTOPK_DATA, looked for in {folder}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKTOPK_DATA", str(folder))
        return example.load()


def test_the_first_molecules_are_active_and_no_inactive_one_is_flagged(example, molecules):
    X, activity, X_test, activity_test = molecules
    active = activity > example.ACTIVE
    fitted = example.deep_top_push(max_epochs=12).fit(X, active)
    y_score = fitted.decision_function(X_test)
    # Chance is 1, a perfect ranking has 9.1.
    is_active = activity_test > example.ACTIVE
    assert enrichment_factor_score(is_active, y_score, fraction=0.05) > 3
    # Judged by activities that training did not see: only whether they are above 5.5.
    in_order = activity_test[np.argsort(-y_score)]
    n = len(in_order)
    assert in_order[: n // 20].mean() > in_order[n // 2 :].mean() + 0.7
    order = fitted.predict_top(X_test, n=20)
    np.testing.assert_array_equal(order, np.argsort(-y_score, kind="stable")[:20])
    flagged = fitted.predict(X)
    assert flagged[~active].mean() < 0.01
    assert flagged[active].mean() > 0.05


def test_grid_search_reaches_every_parameter(example, molecules):
    X, activity = (each[:800] for each in molecules[:2])
    search = GridSearchCV(
        example.deep_top_push(max_epochs=3),
        example.GRID,
        scoring=make_top_scorer("enrichment_factor", fraction=0.1),
        cv=2,
        error_score="raise",
    ).fit(X, activity > example.ACTIVE)
    results = search.cv_results_
    for name, values in example.GRID.items():
        # A parameter that did not arrive would make the halves of the grid equal.
        halves = [results["mean_test_score"][results[f"param_{name}"] == v] for v in values]
        assert not np.array_equal(*halves)


def test_without_the_data_it_says_where_it_looked_and_generates(
    example, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path))
    X, activity, X_test, activity_test = example.load()
    assert str(tmp_path / "merck_cyp3a4" / "merck_cyp.npz") in capsys.readouterr().out
    assert (X.shape[0], X_test.shape[0]) == (len(activity), len(activity_test))
    # As sparse and as rarely active as the real ones.
    assert 0.02 < X.nnz / np.prod(X.shape) < 0.06
    assert 0.05 < np.mean(activity > example.ACTIVE) < 0.15
