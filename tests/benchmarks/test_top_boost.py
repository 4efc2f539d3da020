"""The page of top_boost.py: pairs on the same splits, against their definition."""

import numpy as np
import pandas as pd
import pytest
import top_boost
from tables._data import HALF, TABLES
from tables._jobs import BINARY


@pytest.fixture
def lines():
    rng = np.random.default_rng(0)
    found = []
    for table in [t.name for t in TABLES.values() if t.kind == "binary"][:8]:
        for method in top_boost.REPORTED:
            for split in range(3):
                line = {"table": table, "method": method, "split": split, "error": None}
                scores = {job: rng.random() for job in BINARY}
                found.append(line | scores | {"fit_s": 1.0, "n_train": 20, "n_test": 10})
    return pd.DataFrame(found)


def test_a_difference_is_that_of_the_splits_that_both_have(lines):
    lines = lines[~((lines.method == "log loss") & (lines.split == 2))]
    means, signs = top_boost.difference(lines, "reporting", "average precision", "top", "log loss")
    expected = []
    for table, runs in lines.groupby("table"):
        if HALF[table] == "reporting":
            by_method = runs[runs.split < 2].set_index(["method", "split"])["average precision"]
            expected.append(by_method["top"].mean() - by_method["log loss"].mean())
    np.testing.assert_allclose(means, expected, atol=1e-9)
    assert len(signs) == len(means)


def test_the_page_has_every_score_and_says_what_is_against_what(lines):
    page = top_boost.page(lines)
    for table in lines.table.unique():
        assert page.count(f"| {table} | {HALF[table]} |") == len(BINARY)
    assert page.count("| average precision | top, 5 members | log loss |") == 2
    assert "3 to 3 splits" in page


def test_every_setting_is_allowed():
    for params in (top_boost.REPORTED | top_boost.CHOOSING).values():
        top_boost.TopBoostClassifier(**params)._check_params()
