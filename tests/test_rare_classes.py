"""Many classes with few samples: no class loses all its samples, and few networks are enough."""

import numpy as np
import pytest

from sktopk import PatMatClassifier, TopKClassifier

RNG = np.random.default_rng(0)
QUICK = {"max_epochs": 2, "hidden_layer_sizes": (4,), "random_state": 0}


def pairs(n_classes):
    centers = RNG.normal(size=(n_classes, 30))
    y = np.tile(np.arange(n_classes), 2)
    return [(centers[y] + 0.3 * RNG.normal(size=(len(y), 30))).astype("f4") for _ in range(2)], y


def test_300_classes_with_two_samples_each_are_learned_with_default_parameters():
    (X, Z), y = pairs(300)
    assert TopKClassifier(random_state=0).fit(X, y).score(Z, y) > 0.95


def test_many_classes_train_one_network_with_a_warning():
    (X, _), y = pairs(1001)
    with pytest.warns(UserWarning, match='n_estimators="auto" trains one network instead of 8'):
        clf = TopKClassifier(**QUICK).fit(X, y)
    assert clf.n_estimators_ == 1
    assert clf.n_estimators == "auto"


@pytest.mark.parametrize("n_classes", [2, 1000])
def test_rankers_and_up_to_a_thousand_classes_train_eight_networks(n_classes):
    (X, _), y = pairs(n_classes)
    assert TopKClassifier(**QUICK).fit(X, y).n_estimators_ == 8
    assert PatMatClassifier(**QUICK).fit(X, y == 0).n_estimators_ == 8


@pytest.mark.parametrize("value", [0, 1001, "all", 1.5])
def test_n_estimators_other_than_auto_or_an_integer_from_1_to_1000_raises(value):
    (X, _), y = pairs(5)
    with pytest.raises((TypeError, ValueError), match=r"n_estimators.* may also be 'auto'"):
        TopKClassifier(n_estimators=value).fit(X, y)
