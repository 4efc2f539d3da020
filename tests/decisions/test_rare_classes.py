"""Does SetClassifier say what coverage is possible where classes have no row to train with?"""

import re
import warnings

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from sktopk import SetClassifier

CONFORMAL = ["lac", "aps", "raps", "pas"]
NUMBER = r"([\d.]+\d)"
MESSAGE = (
    rf"^the coverage will be about {NUMBER} instead of 0\.9 \(at most {NUMBER}\), because "
    r"(\d+) of (\d+) classes have only one"
)


pytestmark = pytest.mark.filterwarnings("ignore:.* only one sample", "ignore:.* needs at least")


class Tail:
    """Rows around centres, of classes whose shares fall as 1 / rank ** power."""

    def __init__(self, n_classes, power, seed):
        self.rng = np.random.default_rng(seed)
        self.share = 1 / np.arange(1, n_classes + 1) ** power
        self.share /= self.share.sum()
        self.centers = self.rng.normal(scale=1.5, size=(n_classes, 8))

    def draw(self, n):
        y = self.rng.choice(len(self.share), size=n, p=self.share)
        return self.centers[y] + self.rng.normal(size=(n, 8)), y


def inner():
    return GaussianNB(var_smoothing=0.3)


def coverage(clf, X, y):
    labels = clf.predict_set(X, output="labels")
    return np.mean([label in found for label, found in zip(y, labels, strict=True)])


def warned(clf, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y)
    # Older versions of scikit-learn warn if there are half as many classes as samples.
    messages = [str(each.message) for each in caught]
    return [each for each in messages if not each.startswith("The number of unique classes")]


@pytest.mark.parametrize("method", CONFORMAL)
def test_warning_foretells_the_coverage(method):
    told, most, reached, after = [], [], [], []
    for seed in range(12):
        tail = Tail(200, 1, seed)
        X, y = tail.draw(300)
        clf = SetClassifier(inner(), method=method, random_state=seed)
        (message,) = warned(clf, X, y)
        about, highest, n_single, n_classes = re.search(MESSAGE, message).groups()
        counts = np.bincount(y)
        assert (int(n_single), int(n_classes)) == (sum(counts == 1), sum(counts > 0))
        assert float(highest) == pytest.approx(1 - sum(counts == 1) / 300, abs=0.005)
        assert "Merge rare classes" in message
        told.append(float(about))
        most.append(float(highest))
        new = tail.draw(500)
        reached.append(coverage(clf, *new))
        after.append(coverage(clf.set_params(coverage=0.999).fit(X, y), *new))
    slack = 4 * np.std(reached) / 12**0.5
    assert np.mean(reached) == pytest.approx(np.mean(told), abs=slack)
    # Too few rows for such a coverage: every set holds all classes there are.
    assert np.mean(after) == pytest.approx(np.mean(most), abs=0.03)
