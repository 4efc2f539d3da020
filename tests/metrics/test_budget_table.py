"""budget_table: values compared with loops, and the coverage of its intervals."""

import numpy as np
import pandas as pd
import pytest

from sktopk import metrics
from sktopk.metrics import precision_at_k_score, recall_at_k_score


def budget_table(*args, **kwargs):
    return pd.DataFrame(metrics.budget_table(*args, **kwargs))


@pytest.fixture
def rows(rng):
    fraud = rng.random(800) < 0.1
    # Scores are rounded, so that samples tie.
    return np.where(fraud, "fraud", "clear"), (rng.normal(size=800) + 1.5 * fraud).round(1)


def test_columns_of_the_budget_table_equal_the_score_functions(rows):
    y_true, y_score = rows
    table = budget_table(y_true, y_score, pos_label="fraud", n_bootstraps=10)
    assert table["budget"].tolist() == [50, 100, 200]
    for row in table.itertuples():
        options = {"k": row.budget, "pos_label": "fraud"}
        precision = precision_at_k_score(y_true, y_score, **options)
        assert row.precision == pytest.approx(precision)
        assert row.hits == pytest.approx(row.budget * precision)
        assert row.recall == pytest.approx(recall_at_k_score(y_true, y_score, **options))


def test_a_budget_per_day_selects_the_same_share_of_the_test_set(rows):
    y_true, y_score = rows
    # 5 of 100 samples a day is the same share as 40 of these 800.
    day = budget_table(y_true, y_score, budgets=5, n_rows=100, pos_label="fraud").iloc[0]
    whole = budget_table(y_true, y_score, budgets=[40], pos_label="fraud").iloc[0]
    assert day["budget"] == 5
    for end in ("", "_low", "_high"):
        assert day[f"hits{end}"] == pytest.approx(whole[f"hits{end}"] / 8)
        assert day[f"precision{end}"] == pytest.approx(whole[f"precision{end}"])
        assert day[f"recall{end}"] == pytest.approx(whole[f"recall{end}"])


def test_fractional_budgets_interpolate_between_numbers_of_samples():
    y_true = [1, 0, 1, 0, 0, 0]
    table = budget_table(y_true, [6, 5, 4, 3, 2, 1], budgets=1, n_rows=4, n_bootstraps=10)
    # A quarter of six samples is 1.5: the first sample and half of the second sample.
    assert table.loc[0, "hits"] == pytest.approx(1 * 4 / 6)
    assert table.loc[0, "precision"] == pytest.approx(1 / 1.5)
    assert table.loc[0, "recall"] == 0.5


def test_intervals_have_about_their_nominal_coverage():
    # The true value: the share of positives among the best tenth of the population.
    rng = np.random.default_rng(0)
    every = rng.random(400_000) < 0.1
    score = rng.normal(size=400_000) + 1.5 * every
    truth = every[np.argsort(-score)[:40_000]].mean()
    held, found = 0, []
    for trial in range(150):
        part = slice(1000 * trial, 1000 * (trial + 1))
        row = budget_table(every[part], score[part], budgets=100, n_bootstraps=100).iloc[0]
        held += row["precision_low"] <= truth <= row["precision_high"]
        found.append(row["precision"])
    # With a coverage of 93 %, P(held < 128) < 0.001. With too wide intervals, held is 150.
    assert 128 <= held < 150
    width = row["precision_high"] - row["precision_low"]
    assert width == pytest.approx(2 * 1.96 * np.std(found), rel=0.35)


def test_the_seed_changes_intervals_and_a_higher_confidence_widens_them(rows):
    y_true, y_score = rows

    def found(**params):
        return budget_table(y_true, y_score, pos_label="fraud", n_bootstraps=50, **params)

    pd.testing.assert_frame_equal(found(), found())
    assert (found(random_state=1)["hits_low"] != found()["hits_low"]).any()
    narrow, wide = found(confidence=0.5), found(confidence=0.99)
    assert (narrow["hits_low"] > wide["hits_low"]).all()
    assert (narrow["recall_high"] < wide["recall_high"]).all()


def test_without_positives_recall_is_nan_with_a_warning():
    with pytest.warns(UserWarning, match="y_true has no positives"):
        table = budget_table([0, 0, 0, 0], [3, 2, 1, 0], budgets=2, pos_label=1)
    assert table.loc[0, ["hits", "hits_low", "hits_high", "precision"]].tolist() == [0, 0, 0, 0]
    assert table.loc[0, ["recall", "recall_low", "recall_high"]].isna().all()


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"budgets": [50, 900]}, ValueError, "budgets must be at most n_rows=800; got 900"),
        ({"budgets": 200, "n_rows": 100}, ValueError, "at most n_rows=100; got 200"),
        ({"budgets": 0.1}, TypeError, "budgets must be an integer; got 0.1"),
        ({"budgets": [0]}, ValueError, "budgets must be at least 1; got 0"),
        ({"budgets": []}, ValueError, "budgets must be one or more integers"),
        ({"n_rows": 0}, ValueError, "n_rows must be at least 1"),
        ({"confidence": 95}, ValueError, "confidence == 95, must be < 1"),
        ({"pos_label": [1]}, TypeError, r"pos_label must be a label or None; got \[1\]"),
        ({"y_true": [], "y_score": [], "n_rows": 200}, ValueError, "y_true must be at least 1"),
        ({"n_bootstraps": 5}, ValueError, "n_bootstraps == 5, must be >= 10"),
    ],
)
def test_wrong_arguments_of_budget_table_raise_errors_that_name_them(params, error, message, rows):
    rows = dict(zip(("y_true", "y_score"), rows, strict=True))
    with pytest.raises(error, match=message):
        budget_table(**rows | {"pos_label": "fraud"} | params)
