"""Conformity, thresholds and sets against their definitions, written as loops."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sktopk._estimators.decisions import _conformal
from sktopk._estimators.decisions._conformal import (
    METHODS,
    Conformity,
    conformal_threshold,
    n_needed,
)

N_SAMPLES, N_CLASSES = 40, 6
PREVALENCE = np.array([0.4, 0.3, 0.1, 0.1, 0.05, 0.05])


@pytest.fixture
def proba(rng):
    return rng.dirichlet(np.full(N_CLASSES, 0.5), size=N_SAMPLES)


@pytest.fixture
def u(rng):
    return rng.random(N_SAMPLES)


def make(method, k=2, penalty=0.07):
    return Conformity(method, k, penalty, PREVALENCE if method == "pas" else None)


def conformity_of(method, p, y, u, k=2, penalty=0.07):
    """1 - E(x, y, u) with E as the papers define it, or the score itself."""
    if method == "pas":
        return p[y] / PREVALENCE[y]
    if method not in ("aps", "raps"):
        return p[y]
    ranking = sorted(range(len(p)), key=lambda j: (-p[j], j))
    rank = ranking.index(y) + 1
    mass_above = sum(p[j] for j in ranking[: rank - 1])
    score = mass_above + (1 - u) * p[y]
    if method == "raps":
        score += penalty * max(0, rank - k)
    return 1 - score


def split_sets(columns, start):
    return [part.tolist() for part in np.split(columns, start[1:-1])] if len(start) > 1 else []


@pytest.mark.parametrize("method", METHODS)
def test_conformity_equals_definition(method, proba, u):
    found = make(method)(proba, u)
    for i in range(N_SAMPLES):
        for y in range(N_CLASSES):
            expected = conformity_of(method, proba[i], y, u[i])
            assert found[i, y] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("coverage", ["0.5", "0.7", "0.8", "0.9", "0.95", "0.99"])
def test_threshold_is_the_order_statistic(coverage, rng):
    exact = Fraction(coverage)
    for n in range(1, 130):
        scores = rng.permutation(n).astype(float)
        rank = math.ceil((n + 1) * exact)
        expected = sorted(scores, reverse=True)[rank - 1] if rank <= n else -np.inf
        assert conformal_threshold(scores, float(coverage)) == expected
        assert (n >= n_needed(float(coverage))) == (rank <= n)


@pytest.mark.parametrize("coverage", [0.5, 0.75, 0.9])
@pytest.mark.parametrize("tied", [False, True])
def test_each_row_in_turn_is_covered_as_often_as_promised(coverage, tied, rng):
    # The theorem itself: among n + 1 exchangeable rows each is the new one equally often.
    for n in (4, 9, 10, 39):
        scores = rng.permutation(n + 1).astype(float)
        if tied:
            scores = scores // 3
        covered = sum(
            scores[i] >= conformal_threshold(np.delete(scores, i), coverage) for i in range(n + 1)
        )
        promised = math.ceil(round((n + 1) * coverage, 9))
        assert covered >= promised if tied else covered == promised


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("empty", ["allow", "top1"])
@pytest.mark.parametrize("max_size", [1, 3, N_CLASSES])
def test_sets_equal_definition(method, empty, max_size, proba, u):
    conformity = make(method)
    score = conformity(proba, u)
    threshold = np.quantile(score, 0.8)
    found = conformity.sets(proba, u, threshold=threshold, max_size=max_size, empty=empty)
    n_empty = 0
    for s, columns in zip(score, split_sets(*found), strict=True):
        ranking = sorted(range(N_CLASSES), key=lambda j: (-s[j], j))
        expected = [y for y in ranking if s[y] >= threshold]
        n_empty += not expected
        if not expected and empty == "top1":
            expected = ranking[:1]
        assert columns == expected[:max_size]
    assert n_empty > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("empty", ["allow", "top1"])
def test_tied_labels_rank_by_column(method, empty):
    proba, u = np.full((2, 5), 0.2), np.ones(2)
    conformity = Conformity(method, 2, 0.1, np.full(5, 0.2) if method == "pas" else None)
    sets = conformity.sets(proba, u, threshold=-np.inf, max_size=3, empty=empty)
    assert split_sets(*sets) == [[0, 1, 2], [0, 1, 2]]
    sets = conformity.sets(proba, u, threshold=np.inf, max_size=3, empty=empty)
    assert split_sets(*sets) == ([[], []] if empty == "allow" else [[0], [0]])


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_independent_of_the_chunks(method, proba, u, rng, monkeypatch):
    options = dict(threshold=0.3, max_size=4, empty="top1")
    code = rng.integers(-1, N_CLASSES, N_SAMPLES)
    whole = make(method).sets(proba, u, **options), make(method).of_labels(proba, u, code)
    before = proba.copy(), u.copy()
    monkeypatch.setattr(_conformal, "_CHUNK_SIZE", 7 * N_CLASSES)
    parts = make(method).sets(proba, u, **options), make(method).of_labels(proba, u, code)
    for one, other in zip((*whole[0], whole[1]), (*parts[0], parts[1]), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(before[0], proba)
    np.testing.assert_array_equal(before[1], u)


def test_no_rows_have_no_sets():
    columns, start = Conformity("lac").sets(
        np.empty((0, 3)), np.empty(0), threshold=0.5, max_size=3, empty="top1"
    )
    assert columns.tolist() == []
    assert start.tolist() == [0]
