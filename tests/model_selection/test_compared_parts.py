"""What compare_losses is made of: the baseline with a tuned threshold, digests of questions."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, make_scorer

from sktopk import TopKClassifier
from sktopk._common._fingerprints import digest
from sktopk._common._splits import (
    calibration_rows,
)
from sktopk.metrics import make_topk_scorer
from sktopk.model_selection._baselines import ThresholdTuned


@pytest.mark.parametrize("scoring", ["f1", "balanced_accuracy", make_topk_scorer(1)])
def test_threshold_is_the_best_of_all_cuts(scoring, rng):
    y = (rng.random(200) < 0.15).astype(int)
    X = rng.normal(size=(200, 3)) + 0.8 * y[:, None]
    base = LogisticRegression()
    tuned = ThresholdTuned(base, scoring=scoring, random_state=0).fit(X, y)
    held = calibration_rows(y, 0.25, np.random.RandomState(0))
    scores = LogisticRegression().fit(X[~held], y[~held]).decision_function(X[held])
    metric = {"f1": f1_score}.get(scoring)
    if metric is not None:
        best = max(metric(y[held], (scores > t).astype(int)) for t in np.sort(scores))
        assert metric(y[held], (scores > tuned.threshold_).astype(int)) == pytest.approx(best)
    assert tuned.threshold_ != 0 or not isinstance(scoring, str)
    whole = LogisticRegression().fit(X, y).decision_function(X)
    np.testing.assert_allclose(tuned.decision_function(X), whole - tuned.threshold_)
    np.testing.assert_array_equal(tuned.predict(X), (whole > tuned.threshold_).astype(int))
    ranking = ThresholdTuned(base, scoring="roc_auc", random_state=0).fit(X, y)
    assert ranking.threshold_ == 0


def test_digests_tell_values_apart_and_are_the_same_elsewhere():
    values = [None, True, 1, 1.0, "1", [1], [[1]], {"a": 1}, {"a": 2}, np.array([1]),
              np.array([1.0]), np.array([[1.0]]), csr_array([[1.0]]), pd.DataFrame({"a": [1.0]}),
              pd.DataFrame({"b": [1.0]}), ["ab", "c"], ["a", "bc"], TopKClassifier(),
              TopKClassifier(tau=2.0), lambda x: x + 1, lambda x: x + 2, accuracy_score,
              make_scorer(accuracy_score), make_topk_scorer(1), make_topk_scorer(2)]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    code = (
        "import numpy as np; from sktopk import TopKClassifier\n"
        "from sktopk._common._fingerprints import digest\n"
        "print(digest([TopKClassifier(net_params={'b': 1, 'a': {3, 'x'}}), np.arange(3.0)]))"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    ).stdout.strip()
    here = [TopKClassifier(net_params={"a": {"x", 3}, "b": 1}), np.arange(3.0)]
    assert elsewhere == digest(here)
    with pytest.raises(TypeError, match="told apart"):
        digest(iter([1]))
