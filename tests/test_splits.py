"""Does every class give its share of the rows that are held out to calibrate?"""

import math

import numpy as np
import pytest

from sktopk._common._splits import calibration_rows


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5, 0.8])
def test_classes_give_their_share_and_keep_a_row(fraction):
    y = np.repeat(list("abcdef"), [1, 1, 2, 3, 40, 103])
    counts = {label: np.count_nonzero(y == label) for label in "abcdef"}
    for seed in range(30):
        mask = calibration_rows(y, fraction, np.random.RandomState(seed))
        for label, count in counts.items():
            n_taken = np.count_nonzero(mask[y == label])
            share = fraction * count
            # Rounded down or up, where the number of rows taken is itself rounded.
            assert math.floor(share - 0.5) <= n_taken <= min(math.ceil(share + 0.5), count - 1)


def test_every_row_has_the_same_chance_to_calibrate():
    y = np.repeat([0, 1, 2, 3], [2, 3, 5, 30])
    draws = [calibration_rows(y, 0.2, np.random.RandomState(seed)) for seed in range(4000)]
    # Five standard deviations of a share of 4000 draws.
    np.testing.assert_allclose(np.mean(draws, axis=0), 0.2, atol=5 * 0.4 / 4000**0.5)


def test_single_rows_are_never_held_out():
    assert not calibration_rows(np.arange(20), 0.5, np.random.RandomState(0)).any()
    assert calibration_rows(np.zeros(3), 0.01, np.random.RandomState(0)).sum() == 1
    assert calibration_rows(np.zeros(3), 0.99, np.random.RandomState(0)).sum() == 2
    assert calibration_rows(np.zeros(0), 0.5, np.random.RandomState(0)).shape == (0,)
