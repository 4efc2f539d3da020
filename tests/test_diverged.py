"""A training that meets a score that is no number stops and says so, whatever it trains with."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import sktopk
from tests.test_no_waiting import OF_CLASSES, RANKERS, table

CUSTOM = {
    "a module": sktopk.TopKClassifier(nn.CrossEntropyLoss()),
    "candidates": sktopk.TopKClassifier("cross_entropy", n_candidates=2),
}


class OneWrong(nn.Module):
    """A linear model that gets one score of a batch wrong once it has seen a few batches."""

    def __init__(self, n_features, n_outputs, row, value):
        super().__init__()
        self.linear = nn.Linear(n_features, n_outputs)
        self.row, self.value, self.n_batches = row, value, 0

    def forward(self, X):
        scores = self.linear(X)
        self.n_batches += self.training
        if self.n_batches < 3:
            return scores
        wrong = torch.zeros_like(scores, dtype=torch.bool)
        wrong[self.row, -1] = True
        return scores.masked_fill(wrong, self.value)


def assert_stops(clf, n_classes, row, value):
    X, y = table(n_classes)
    clf.set_params(
        module=OneWrong,
        module__row=row,
        module__value=value,
        max_epochs=2,
        batch_size=32,
        random_state=0,
        device="cpu",
    )
    message = "Training diverged: the loss became nan in batch 3 of epoch 1"
    with pytest.raises(ValueError, match=message):
        clf.fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", OF_CLASSES | CUSTOM)
def test_classifiers_of_many_classes_stop(name, value):
    assert_stops(clone((OF_CLASSES | CUSTOM)[name]), 6, row=4, value=value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("name", RANKERS)
def test_rankers_stop(name, row, value):
    assert_stops(clone(RANKERS[name]), 2, row=row, value=value)
