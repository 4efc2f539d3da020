"""LossComparison: numbers compared with their definition, verdicts with numbers."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sktopk.model_selection import LossComparison


def comparison(scores, n_test=20, **params):
    rows = [
        {"loss": loss, "split": i, "score": score, "n_train": 80, "n_test": n_test}
        for loss, each in scores.items()
        for i, score in enumerate(each)
    ]
    return LossComparison(pd.DataFrame(rows), **params)


RNG = np.random.default_rng(0)
BASE = 0.8 + 0.02 * RNG.random(6)
GAINS = {"cross_entropy": 0.0, "focal": 0.0, "smooth_topk": 0.3, "ldam": -0.3}
SCORES = {loss: BASE + gain + 0.02 * RNG.random(6) for loss, gain in GAINS.items()}


@pytest.mark.parametrize(("overlap", "test_to_training"), [(None, 20 / 80), (0.5, 1.0)])
def test_the_summary_equals_a_corrected_t_test_computed_step_by_step(overlap, test_to_training):
    summary = comparison(SCORES, overlap=overlap).summary(confidence=0.9)
    assert summary.index.tolist() == list(SCORES)
    for loss, each in SCORES.items():
        row = summary.loc[loss]
        assert row["mean"] == pytest.approx(sum(each) / 6)
        if loss == "cross_entropy":
            assert np.isnan(row["difference"])
            assert row["verdict"] == "baseline"
            continue
        runs = [a - b for a, b in zip(each, SCORES["cross_entropy"], strict=True)]
        mean = sum(runs) / 6
        variance = sum((run - mean) ** 2 for run in runs) / 5
        error, t = sqrt((1 / 6 + test_to_training) * variance), stats.t(5)
        assert row["difference"] == pytest.approx(mean)
        assert row["p_value"] == pytest.approx(2 * t.sf(abs(mean) / error))
        assert row["low"] == pytest.approx(mean - t.ppf(0.95) * error)
        assert row["high"] == pytest.approx(mean + t.ppf(0.95) * error)
        # The interval excludes 0 if and only if the test is significant.
        assert (row["p_value"] < 0.1) == (row["low"] > 0 or row["high"] < 0)


@pytest.mark.parametrize(("gain", "p"), [(0.0, 1.0), (1e-16, 1.0), (0.2, 0.0), (-0.5, 0.0)])
def test_equal_differences_on_all_folds_have_a_p_value_of_0_or_1(gain, p):
    found = comparison({"cross_entropy": BASE, "focal": BASE + gain}).summary()
    assert found.loc["focal", "p_value"] == p


@pytest.mark.parametrize(
    ("change", "losses", "message"),
    [
        ({}, ["nope"], r"losses must be a list of names from \['cross.*; got \['nope'\]"),
        ({}, "focal", r"losses must be a list of names from \['cross.*; got 'focal'"),
        ({"score": np.nan}, None, "frame must have no missing values; got NaN in score"),
        ({"score": "0.8"}, None, "frame must hold numbers; got 24 rows of {'score': '"),
        ({"n_test": "20"}, None, "frame must hold numbers; got 24 rows of .*'n_test': '"),
    ],
)
def test_wrong_columns_and_losses_raise(change, losses, message):
    with pytest.raises(ValueError, match=message):
        LossComparison(comparison(SCORES).frame.assign(**change), losses=losses)


def test_a_frame_without_rows_or_without_a_split_of_a_loss_raises():
    frame = comparison(SCORES).frame
    with pytest.raises(ValueError, match="frame must hold numbers; got 0 rows of"):
        LossComparison(frame[:0])
    with pytest.raises(ValueError, match=r"frame must have all splits .* too few for \['focal'\]"):
        LossComparison(frame[(frame["loss"] != "focal") | (frame["split"] != 4)])


def test_scores_of_several_seeds_on_the_same_split_are_averaged():
    once = comparison(SCORES).frame
    twice = pd.concat([once.assign(score=once["score"] + d) for d in (-0.01, 0.01)])
    a, b = (LossComparison(frame).summary() for frame in (once, twice))
    pd.testing.assert_frame_equal(a, b)


def test_the_verdict_corrects_for_the_number_of_compared_losses(rng):
    base, noise = 0.8 + 0.01 * rng.random(6), rng.normal(size=6)
    noise -= noise.mean()
    # p = .03 is significant for a single loss, but not for the best of three losses.
    error = sqrt((1 / 6 + 0.25) * noise.var(ddof=1))
    gained = base + 0.01 * (noise + stats.t(5).isf(0.015) * error)
    scores = {"cross_entropy": base, "a": gained, "b": base + 0.001 * noise, "c": base - 0.1}
    alone = comparison({"cross_entropy": base, "a": gained})
    assert alone.summary().loc["a", "p_value"] == pytest.approx(0.03)
    assert alone.verdict.startswith("a is better than cross_entropy: difference +0.0")
    best = "a, the best of 3 models, is equivalent to cross_entropy within 0.1: difference +0.0"
    assert comparison(scores, margin=0.1).verdict.startswith(best)
    unsure = "is not significantly different from cross_entropy: difference +0.0"
    assert unsure in comparison(scores).verdict
    assert comparison(scores, losses=["a"]).verdict == alone.verdict
    lost = "c is worse than cross_entropy: difference -0.100 ± 0.000. a scores highest: "
    numbers = alone.verdict[alone.verdict.index("difference") :]
    assert comparison(scores, losses=["c"]).verdict == lost + numbers


# The .975 quantiles of Student's t for all degrees of freedom at once: single calls are slow.
T_975 = stats.t(np.arange(1, 1006)).ppf(0.975)


def spread_runs(mean, spread, n_runs):
    runs = np.resize([1.0, -1.0], n_runs) - np.resize([1.0, -1.0], n_runs).mean()
    return mean + spread * runs / runs.std(ddof=1)


@pytest.mark.parametrize("n_test", [0, 20])
@pytest.mark.parametrize("margin", [0.01, 0.03])
@pytest.mark.parametrize("mean", [0.0, 0.004, 0.01, -0.02])
def test_an_inconclusive_verdict_has_the_number_of_needed_folds_or_samples(mean, margin, n_test):
    n_runs, spread = 5, 0.04
    frame = comparison({"cross_entropy": np.zeros(5), "a": spread_runs(mean, spread, 5)}, n_test)
    frame.margin = margin
    row = frame.summary().loc["a"]

    def told(n_runs, times_rows=1.0):
        error = spread * sqrt((1 / n_runs + n_test / 80) / times_rows)
        half = T_975[n_runs - 2] * error
        return abs(mean) > half or abs(mean) + half <= margin

    assert (row["verdict"] == "inconclusive") == (not told(n_runs))
    if told(n_runs):
        assert (row["more_folds"], row["times_rows"]) == (0, 1)
        return
    enough = [n for n in range(1, 1001) if told(n_runs + n)]
    assert row["more_folds"] == (enough[0] if enough else np.inf)
    assert told(n_runs, 1.0001 * row["times_rows"])
    assert not told(n_runs, 0.9999 * row["times_rows"])
    assert "times the samples" in frame.verdict
    assert ("more fold" in frame.verdict) == bool(enough)
