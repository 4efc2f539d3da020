"""Redrawn labels and long tails compared with their definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from sktopk.datasets import inject_label_noise, make_long_tail

GROUPS = np.array([0, 1, 0, 2, 1, 0])


def test_labels_are_redrawn_uniformly_within_their_group():
    y = np.repeat(np.arange(6), 20_000)
    noisy = inject_label_noise(y, GROUPS, 0.4, random_state=0)
    for c in range(6):
        share = np.bincount(noisy[y == c], minlength=6) / 20_000
        members = GROUPS == GROUPS[c]
        expected = 0.4 * members / members.sum() + 0.6 * (np.arange(6) == c)
        np.testing.assert_allclose(share, expected, atol=5 * np.sqrt(0.25 / 20_000))
        assert np.all(share[expected == 0] == 0)


def test_a_noise_rate_of_0_changes_no_label_and_inputs_never_change():
    y = np.array([3, 1, 2, 0, 5, 4], dtype=np.int16)
    before, clean = y.copy(), inject_label_noise(y, GROUPS, 0.0, random_state=0)
    np.testing.assert_array_equal(clean, y)
    assert clean.dtype == y.dtype
    assert inject_label_noise(pd.Series(y, dtype="Int32"), GROUPS, 1.0).dtype == np.int32
    assert clean is not y
    inject_label_noise(y, GROUPS, 1.0)
    np.testing.assert_array_equal(y, before)


def test_labels_that_change_at_a_low_rate_change_equally_at_a_higher_rate():
    y = np.repeat(np.arange(6), 500)
    less, more, same = (inject_label_noise(y, GROUPS, p, random_state=7) for p in (0.3, 0.8, 0.3))
    np.testing.assert_array_equal(less, same)
    changed = less != y
    np.testing.assert_array_equal(more[changed], less[changed])
    assert np.sum(more != y) > np.sum(changed)


def test_groups_by_name_may_contain_classes_that_y_lacks():
    groups = {"ash": "tree", "cat": "pet", "poplar": "tree", "fox": "wild"}
    y = pd.Series(["ash", "cat", "ash"] * 200)
    noisy = inject_label_noise(y, groups, 1.0, random_state=0)
    assert set(noisy) == {"ash", "cat", "poplar"}
    assert set(noisy[y == "cat"]) == {"cat"}
    # The probability of a new label does not depend on the size of its class.
    assert np.mean(noisy[y == "ash"] == "poplar") == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(inject_label_noise(y, {"ash": "1", "cat": 1}, 1.0), y)


@pytest.mark.parametrize("factor", [1, 10, 500])
def test_class_sizes_of_a_long_tail_decrease_exponentially(factor):
    y = np.tile(np.arange(10), 500)
    X_tail, y_tail = make_long_tail(np.arange(5000), y, factor, random_state=0)
    expected = [int(500 * factor ** (-c / 9) + 1e-9) for c in range(10)]
    assert np.bincount(y_tail).tolist() == expected
    np.testing.assert_array_equal(y[X_tail], y_tail)
    assert np.all(np.diff(X_tail) > 0)


def test_class_sizes_decrease_exponentially_as_far_as_the_smallest_class_allows():
    y = np.repeat(["a", "b", "c"], [100, 5, 100])
    _, y_tail = make_long_tail(y, y, 4, random_state=0)
    # The middle class has 5 samples, half of the first class: 10, 5, 2.
    assert [np.sum(y_tail == c) for c in "abc"] == [10, 5, 2]


def test_samples_of_every_container_are_kept_unchanged():
    y = np.tile([0, 1], 50)
    images, sparse = np.arange(800).reshape(100, 2, 2, 2), csr_array(np.eye(100))
    frame = pd.DataFrame({"a": np.arange(100)}, index=np.arange(100) + 1000)
    expected, _ = make_long_tail(np.arange(100), y, 5, random_state=0)
    np.testing.assert_array_equal(make_long_tail(images, y, 5, random_state=0)[0], images[expected])
    kept, labels = make_long_tail(sparse, y.tolist(), 5, random_state=0)
    np.testing.assert_array_equal(kept.indices, expected)
    np.testing.assert_array_equal(labels, y[expected])
    kept, labels = make_long_tail(frame, pd.Series(y, index=frame.index), 5, random_state=0)
    assert kept.index.tolist() == labels.index.tolist() == (expected + 1000).tolist()


NOISE = {"y": np.arange(6), "groups": GROUPS, "p": 0.5}
TAIL = {"X": np.zeros((3, 1)), "y": [0, 1, 1], "factor": 2}


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (inject_label_noise, {"p": 1.1}, ValueError, "p == 1.1, must be <= 1"),
        (inject_label_noise, {"p": "much"}, TypeError, "p must be an instance of"),
        (inject_label_noise, {"groups": GROUPS[:5]}, ValueError, r"one entry per .* \(6\); got 5"),
        (inject_label_noise, {"groups": {0: 0, 1: 0}}, ValueError, "each label .*; 2 is not"),
        (inject_label_noise, {"groups": dict.fromkeys([*range(6), 0.5])}, ValueError, "y.*got 0.5"),
        (make_long_tail, {"factor": 0.5}, ValueError, "factor == 0.5, must be >= 1"),
        (make_long_tail, {"factor": "long"}, TypeError, "factor must be an instance of"),
        (make_long_tail, {"y": [0, 0, 0]}, ValueError, "y must have at least two classes; got 1"),
        (make_long_tail, {"y": [0, 1]}, ValueError, r"per sample \(3\); got inconsistent length 2"),
    ],
)
def test_wrong_generator_arguments_raise_errors_that_name_them(function, arguments, error, message):
    given = {make_long_tail: TAIL, inject_label_noise: NOISE}[function]
    with pytest.raises(error, match=message):
        function(**given | arguments)
