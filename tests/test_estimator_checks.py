"""scikit-learn's own checks, with no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    PatMatClassifier,
    TopBoostClassifier,
    TopKClassifier,
)
from sktopk.modules import MLP

SHORT = {"max_epochs": 8, "n_estimators": 2, "hidden_layer_sizes": (16,), "learning_rate": 0.05}
ESTIMATORS = [
    TopKClassifier(**SHORT),
    TopKClassifier("cross_entropy", calibration=None, module=MLP, **SHORT),
    DeepTopPushClassifier(n_iter_no_change=4, **SHORT),
    PatMatClassifier(**SHORT | {"hidden_layer_sizes": (), "n_estimators": 1}),
    AUCClassifier(**SHORT),
    TopBoostClassifier(n_estimators=10),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
