"""Scores of a ranking that are given the labels of `predict`."""

import warnings

import numpy as np
import pytest

from sktopk import metrics


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [-1, 1]])
def test_predicted_labels_are_no_scores(labels):
    y_true = np.array(labels)[[0, 1, 1, 0, 1]]
    predicted = np.array(labels)[[0, 1, 0, 0, 1]]
    for name, params in [
        ("precision_at_k_score", {"k": 2}),
        ("recall_at_precision_score", {"precision": 0.5}),
        ("bedroc_score", {}),
    ]:
        score = getattr(metrics, name)
        message = f"y_score holds the labels {labels[0]} and {labels[1]} .*decision_function"
        with pytest.warns(UserWarning, match=message) as caught:
            score(y_true, predicted, **params)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            score(y_true, predicted.astype(float), **params)
            score(y_true, [3, 2, 4, 1, 0], **params)
            score(y_true[:2], predicted[:2], **params)
