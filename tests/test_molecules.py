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
    folder = Path(folder)
    if not (folder / "merck_cyp3a4" / "merck_cyp.npz").is_file():
        pytest.skip(f"needs merck_cyp3a4/merck_cyp.npz of SKTOPK_DATA, looked for in {folder}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKTOPK_DATA", str(folder))
        return example.load()


@pytest.fixture(scope="module")
def fitted(example, molecules):
    X, activity, _, _ = molecules
    return example.deep_top_push(max_epochs=12).fit(X, activity > example.ACTIVE)


def test_the_first_molecules_are_active(example, molecules, fitted):
    X_test, activity = molecules[2:]
    y_score = fitted.decision_function(X_test)
    # Chance is 1, a perfect ranking has 9.1.
    assert enrichment_factor_score(activity > example.ACTIVE, y_score, fraction=0.05) > 3
    # Judged by activities that training did not see: only whether they are above 5.5.
    in_order = activity[np.argsort(-y_score)]
    assert in_order[: len(activity) // 20].mean() > in_order[len(activity) // 2 :].mean() + 0.7

    order = fitted[-1].predict_top(fitted[:-1].transform(X_test), n=20)
    np.testing.assert_array_equal(order, np.argsort(-y_score, kind="stable")[:20])
    assert activity[order].mean() > activity.mean() + 1


def test_no_inactive_molecule_of_the_training_set_is_flagged(example, molecules, fitted):
    X, activity = molecules[:2]
    flagged = fitted.predict(X)
    assert not flagged[activity <= example.ACTIVE].any()
    assert flagged[activity > example.ACTIVE].mean() > 0.05


def test_grid_search_reaches_every_parameter_of_the_loss(example, molecules):
    X, activity = (each[:800] for each in molecules[:2])
    search = GridSearchCV(
        example.deep_top_push(max_epochs=3),
        example.GRID,
        scoring=make_top_scorer("enrichment_factor", fraction=0.1),
        cv=2,
        error_score="raise",
    ).fit(X, activity > example.ACTIVE)
    results = search.cv_results_
    assert np.isfinite(results["mean_test_score"]).all()
    classifier = search.best_estimator_[-1]
    for name, values in example.GRID.items():
        assert name.startswith("deeptoppushclassifier__")
        chosen = getattr(classifier, name.removeprefix("deeptoppushclassifier__"))
        assert chosen == search.best_params_[name]
        assert chosen in values
        # A parameter that did not arrive would make the halves of the grid equal.
        halves = [results["mean_test_score"][results[f"param_{name}"] == v] for v in values]
        assert not np.array_equal(*halves)


def test_without_the_data_says_where_it_looked_and_generates(
    example, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path))
    X, activity, X_test, activity_test = example.load()
    assert str(tmp_path / "merck_cyp3a4" / "merck_cyp.npz") in capsys.readouterr().out
    assert (X.shape[0], X_test.shape[0]) == (len(activity), len(activity_test))
    # As sparse and as rarely active as the real ones.
    assert 0.02 < X.nnz / np.prod(X.shape) < 0.06
    assert 0.05 < np.mean(activity > example.ACTIVE) < 0.15
