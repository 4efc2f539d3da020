"""A copy of a fitted estimator trains on as the original does."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification

from sktopk import RecallAtKClassifier, TopKClassifier, TopPushKClassifier
from sktopk.io import dump, load

X, Y = make_classification(600, 5, flip_y=0.2, weights=[0.8], random_state=0)
QUICK = {"n_estimators": 2, "batch_size": 64, "max_epochs": 3, "random_state": 0}
# A rank k refers to all samples so far, so the threshold depends on their number.
ESTIMATORS = {
    "rank of all samples": RecallAtKClassifier(k=10, **QUICK),
    "share of all samples": RecallAtKClassifier(k=0.1, **QUICK),
    "rank of the negatives": TopPushKClassifier(k=3, **QUICK),
    "labels": TopKClassifier(k=1, **QUICK),
}


def loaded(clf, folder):
    dump(clf, folder / "clf.sktopk")
    return load(folder / "clf.sktopk")


COPIES = {
    "deepcopy": lambda clf, folder: copy.deepcopy(clf),
    "pickle": lambda clf, folder: pickle.loads(pickle.dumps(clf)),
    "load": loaded,
}


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize("make", COPIES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_partial_fit_of_a_copy_equals_that_of_the_original(name, make, first, tmp_path):
    clf = getattr(copy.deepcopy(ESTIMATORS[name]), first)(X[:300], Y[:300])
    other = COPIES[make](clf, tmp_path)
    for each in (clf, other):
        each.partial_fit(X[300:], Y[300:])
    np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))


@pytest.mark.filterwarnings("ignore:k=500 must be at most")
def test_a_rank_that_was_reduced_in_the_first_part_stays_reduced():
    clf = RecallAtKClassifier(k=500, **QUICK).partial_fit(X[:300], Y[:300])
    clf.partial_fit(X[300:], Y[300:])
    other = copy.deepcopy(clf)
    for each in (clf, other):
        each.partial_fit(X, Y)
    assert other.k_ == clf.k_ == 300
    np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))
