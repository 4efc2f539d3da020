"""Does SetClassifier say what coverage is possible where classes have no row to train with?"""

import re

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from sktopk import SetClassifier
from tests.decisions.test_set_classifier import CONFORMAL

pytestmark = pytest.mark.filterwarnings(
    "ignore:.* only one sample", "ignore:.* needs at least", "ignore:The number of unique classes"
)
SHARE = 1 / np.arange(1, 201)
MESSAGE = (
    r"^the coverage will be about ([\d.]+\d) instead of 0\.9 \(at most ([\d.]+\d)\), because "
    r"(\d+) of (\d+) classes have only one.*Merge rare classes"
)


def draw(centers, n, rng):
    """Rows around the centres of classes whose shares fall as 1 / rank."""
    y = rng.choice(200, size=n, p=SHARE / SHARE.sum())
    return centers[y] + rng.normal(size=(n, 8)), y


def coverage(clf, X, y):
    labels = clf.predict_set(X, output="labels")
    return np.mean([label in found for label, found in zip(y, labels, strict=True)])


@pytest.mark.parametrize("method", CONFORMAL)
def test_warning_foretells_the_coverage(method):
    told, most, reached, after = [], [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        centers = rng.normal(scale=1.5, size=(200, 8))
        X, y = draw(centers, 300, rng)
        clf = SetClassifier(GaussianNB(var_smoothing=0.3), method=method, random_state=seed)
        with pytest.warns(UserWarning, match=MESSAGE) as caught:
            clf.fit(X, y)
        (message,) = (str(each.message) for each in caught if "coverage" in str(each.message))
        about, highest, n_single, n_classes = re.search(MESSAGE, message).groups()
        counts = np.bincount(y)
        assert (int(n_single), int(n_classes)) == (sum(counts == 1), sum(counts > 0))
        assert float(highest) == pytest.approx(1 - sum(counts == 1) / 300, abs=0.005)
        told.append(float(about))
        most.append(float(highest))
        new = draw(centers, 500, rng)
        reached.append(coverage(clf, *new))
        after.append(coverage(clf.set_params(coverage=0.999).fit(X, y), *new))
    slack = 4 * np.std(reached) / 12**0.5
    assert np.mean(reached) == pytest.approx(np.mean(told), abs=slack)
    # Too few rows for such a coverage: every set holds all classes there are.
    assert np.mean(after) == pytest.approx(np.mean(most), abs=0.03)
