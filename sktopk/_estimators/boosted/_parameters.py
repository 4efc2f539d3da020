"""Checks of the parameters of TopBoostClassifier, and what they allow."""

from sktopk._common._scalars import (
    check_k,
    check_number,
    check_option,
    check_pos_label,
    check_random,
)
from sktopk.boosting._objective import HESSIANS, loss_function

from ._boosters import MANAGED
from ._losses import NAMES


def has_proba(classifier):
    planned = classifier.calibration is not None or classifier._trains_log_loss()
    if not getattr(classifier, "_models_proba_", planned):
        raise AttributeError(
            "predict_proba is available only if samples are held out for the calibration, or if "
            f"the loss is the log loss; got calibration={classifier.calibration!r} and "
            f"n_members={classifier.n_members}. Set calibration='sigmoid' and n_members=5, or use "
            "scikit-learn's CalibratedClassifierCV"
        )
    return True


def check_parameters(estimator):
    if isinstance(estimator.loss, str):
        check_option(estimator.loss, "loss", NAMES)
    else:
        loss_function(estimator.loss)
    check_k(estimator.k)
    check_number(estimator.log_loss_share, "log_loss_share", 0, 1)
    check_option(estimator.hessian, "hessian", HESSIANS)
    for name in ("loss_params", "lightgbm_params"):
        if not isinstance(getattr(estimator, name) or {}, dict):
            raise TypeError(f"{name} must be a dict; got {getattr(estimator, name)!r}")
    for name, aliases in MANAGED.items():
        for alias in sorted({*aliases.split()} & (estimator.lightgbm_params or {}).keys()):
            raise ValueError(f"lightgbm_params must not have the key {alias!r}: use {name}")
    for name in ("n_estimators", "min_child_samples"):
        check_number(getattr(estimator, name), name, 1, 2**31 - 1, integer=True)
    if estimator.n_iter_no_change is not None:
        check_number(estimator.n_iter_no_change, "n_iter_no_change", 1, integer=True)
    check_option(estimator.calibration, "calibration", (None, "sigmoid"))
    check_number(estimator.num_leaves, "num_leaves", 2, 131072, integer=True)
    check_number(estimator.n_members, "n_members", 1, 1000, integer=True)
    check_number(estimator.learning_rate, "learning_rate", 0, bounds="neither")
    check_pos_label(estimator.pos_label)
    check_random(estimator.random_state)
    if estimator.n_jobs is not None:
        check_number(estimator.n_jobs, "n_jobs", -(2**15), 2**15, integer=True)
