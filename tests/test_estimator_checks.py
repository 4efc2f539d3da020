"""scikit-learn's own checks, with nothing expected to fail."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_classifiers_train, parametrize_with_checks

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    PrecisionAtRecallProgramClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    RecallAtPrecisionClassifier,
    ThresholdClassifier,
    TopBoostClassifier,
    TopKClassifier,
    TopPushKClassifier,
    TopVotingClassifier,
)

DEFAULTS = [
    DeepTopPushClassifier(),
    TopPushKClassifier(),
    RecallAtKClassifier(),
    PatMatClassifier(),
    PatMatNPClassifier(),
    RecallAtFPRClassifier(),
    PrecisionAtRecallClassifier(),
    PrecisionAtRecallProgramClassifier(),
    ThresholdClassifier(),
    AUCClassifier(),
    FScoreClassifier(),
    RecallAtPrecisionClassifier(),
    TopKClassifier(),
    TopKClassifier("cross_entropy"),
]
# The checks fit some seventy times, and ask what many epochs and members answer no better than
# a few; the check of training is asked of the defaults as they are, below.
SHORT = {"max_epochs": 2, "learning_rate": 0.03}
ESTIMATORS = [clone(estimator).set_params(n_members=3, **SHORT) for estimator in DEFAULTS]
ESTIMATORS += [
    DeepTopPushClassifier(surrogate="hinge", buffer_size=0, optimizer="adamw", **SHORT),
    TopKClassifier("auto", n_members=2, **SHORT),
    TopKClassifier(
        k=1,
        tau=0.5,
        score_scale=5.0,
        optimizer="adamw",
        net_params={"module__normalize": True},
        **SHORT,
    ),
]
MEMBERS = {"n_members": 2, "cross_fit": True, "early_stopping": True, "warm_up": 2}
ESTIMATORS += [
    TopKClassifier(**MEMBERS, **SHORT),
    TopKClassifier("cross_entropy", n_candidates=2, **MEMBERS, **SHORT),
    DeepTopPushClassifier(**MEMBERS, **SHORT),
]
ESTIMATORS += [
    TopBoostClassifier(n_estimators=10),
    TopBoostClassifier(n_estimators=10, n_members=1, n_iter_no_change=10),
    TopBoostClassifier(n_estimators=10, n_members=1, log_loss_share=1, class_weight="balanced"),
]
VOTE = {"hidden_layer_sizes": (8,), "n_members": 2, "warm_up": 1, "max_epochs": 2}
ESTIMATORS += [
    TopVotingClassifier(PatMatClassifier(**VOTE), n_folds=2),
    TopVotingClassifier(TopKClassifier(**VOTE), [LogisticRegression()], n_folds=2),
]
IGNORED = pytest.mark.filterwarnings(
    "ignore:k=5 must be smaller",
    "ignore:The training loss still fell",
    "ignore:max_epochs=.* ended the training",
    "ignore:cross_fit=True needs rows to leave out",
    "ignore:k=.* must be at most the number of",
    "ignore:precision=.* is reached by no threshold",
)


@IGNORED
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@IGNORED
@pytest.mark.parametrize("estimator", [*DEFAULTS, TopBoostClassifier()], ids=repr)
def test_the_check_of_training_passes_with_defaults(estimator):
    check_classifiers_train(type(estimator).__name__, clone(estimator))


@pytest.mark.skipif("SCIPY_ARRAY_API" in os.environ, reason="is the run that this test starts")
@pytest.mark.skipif(
    sklearn.__version__ < "1.8" and find_spec("array_api_compat") is None,
    reason="before 1.8 scikit-learn's check needs array_api_compat",
)
def test_passes_with_scipy_array_api():
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            "array_api",
            __file__,
        ],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    assert f"{len(ESTIMATORS)} passed" in run.stdout, run.stdout
