"""The baseline with a tuned threshold."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from sktopk._common._splits import calibration_rows
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
