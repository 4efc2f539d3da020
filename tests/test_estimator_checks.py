"""scikit-learn's own checks, with no expected failure."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktopk import AUCClassifier, DeepTopPushClassifier, TopBoostClassifier, TopKClassifier
from sktopk.modules import MLP

SHORT = {"max_epochs": 4, "n_estimators": 2, "hidden_layer_sizes": (16,), "learning_rate": 0.1}
# Rankers with probabilities skip one check. ESTIMATORS has copies without probabilities.
RANKERS = [
    DeepTopPushClassifier(n_iter_no_change=4, **SHORT | {"hidden_layer_sizes": ()}),
    AUCClassifier(**SHORT),
]
ESTIMATORS = [
    TopKClassifier(**SHORT),
    TopKClassifier("cross_entropy", calibration=None, module=MLP, **SHORT | {"n_estimators": 1}),
    *(clone(ranker).set_params(calibration=None, log_loss_share=0.0) for ranker in RANKERS),
    TopBoostClassifier(n_estimators=5, n_members=2),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([*ESTIMATORS, *RANKERS])
def test_every_estimator_passes_the_scikit_learn_check(estimator, check):
    is_ranker = isinstance(estimator, DeepTopPushClassifier | AUCClassifier)
    if is_ranker and estimator.calibration and check.func.__name__ == "check_classifiers_train":
        pytest.skip("this check expects a threshold at probability 1/2; rankers use threshold_")
    check(estimator)
