"""score: the metric of the estimator, by which a search without scoring chooses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score

import sktopk
from sktopk import TopBoostClassifier, TopKClassifier

QUICK = {"hidden_layer_sizes": (), "n_estimators": 1, "max_epochs": 10, "random_state": 0}


def found_among(labels, y):
    """Share of the samples whose label is among those given, as a loop."""
    return sum(truth in row for truth, row in zip(y, labels, strict=True)) / len(y)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = X[:, 18:22] / 16  # too little to be right at once
    return X[:600], np.array(list("abcdefghij"))[y[:600]]


@pytest.mark.parametrize("k", [1, 3, {1: 0.5, 4: 0.5}])
def test_score_is_the_top_k_accuracy_at_k(k, digits):
    X, y = digits
    clf = TopKClassifier(k=k, **QUICK).fit(X[:400], y[:400])
    expected = found_among(clf.predict_topk(X[400:]), y[400:])
    assert clf.score(X[400:], y[400:]) == pytest.approx(expected)
    weight = np.arange(200) % 3
    doubled = np.repeat(np.arange(400, 600), weight)
    assert clf.score(X[400:], y[400:], weight) == pytest.approx(clf.score(X[doubled], y[doubled]))


def test_score_of_a_clipped_k_and_of_labels_never_seen(digits):
    X, y = digits
    three, two = y < "d", y < "c"
    clf = TopKClassifier(**QUICK).fit(X[three], y[three])
    found = found_among(clf.predict_topk(X[three]), y[three])
    assert clf.score(X[three], y[three]) == pytest.approx(found)
    assert clf.score(X, y) == pytest.approx(found * three.mean())
    of_two = TopKClassifier(**QUICK).fit(X[two], y[two])
    assert of_two.score(X[two], y[two]) == accuracy_score(y[two], of_two.predict(X[two]))


EVERY = [
    getattr(sktopk, name)
    for name in sktopk.__all__
    if hasattr(getattr(sktopk, name), "partial_fit") and name != "ThresholdClassifier"
]


@pytest.mark.filterwarnings("ignore")
def test_labels_to_score_may_be_a_column_of_any_kind():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + rng.normal(size=200) > 0.7).astype(int)
    column = pd.Series(y, index=np.arange(200) + 7)
    for clf in [*(cls(**QUICK) for cls in EVERY), TopBoostClassifier(n_estimators=2, n_members=1)]:
        expected = clf.fit(X, y).score(X, y)
        for given in (column, column.astype("Int64"), y.tolist(), column.to_frame(), y == 1):
            assert clf.score(X, given) == expected
        for wrong in (np.c_[y, y], y[1:]):
            with pytest.raises(
                ValueError, match=r"1d array|must have shape|one (class )?label per|same num"
            ):
                clf.score(X, wrong)
