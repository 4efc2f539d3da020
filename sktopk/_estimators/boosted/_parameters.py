"""Helpers of TopBoostClassifier: check its parameters, and find its loss and threshold."""

import dataclasses

import numpy as np

from sktopk._common._samples import check_groups_of_both
from sktopk._common._scalars import check_option, check_parameters, n_kept
from sktopk._common._warnings import warn
from sktopk.boosting._objective import loss_function, parameters_of
from sktopk.losses import KthLargest, TopMean
from sktopk.losses._registry import LOSSES
from sktopk.losses._thresholds import Largest

from ._boosters import MANAGED

OF_TWO_CLASSES = {"top_mean", *(name for name, each in LOSSES.items() if each.of == "ranking")}


def loss_in_use(loss, k, loss_params, n_classes, rows):
    """Return (loss, params, k_): loss and parameters for `objective`, and the attribute `k_`."""
    params = dict(loss_params or {})
    is_named, of_two = isinstance(loss, str), n_classes == 2
    own = None if is_named and loss == "top_mean" else parameters_of(loss).get("k")
    # A function may already have a value of k, for example from functools.partial.
    takes_k = own is not None and (is_named or own.default is own.empty)
    if params and is_named and loss == "cross_entropy":
        raise ValueError(f"loss_params must be None for loss='cross_entropy'; got {params!r}")
    if is_named and not of_two and loss in OF_TWO_CLASSES:
        raise ValueError(
            f"loss={loss!r} needs two classes; got {n_classes} in y. Only binary classification is "
            "supported by this loss: use another loss, such as 'cross_entropy'"
        )
    if is_named and of_two and loss not in OF_TWO_CLASSES and LOSSES[loss].of == "labels":
        raise ValueError(f"loss={loss!r} needs more than two classes; got 2 in y")
    if not of_two:
        asked = n_kept(k, n_classes)
        k_ = min(asked, n_classes - 1)
        if k_ < asked:
            warn(f"k={k} must be less than the number of classes ({n_classes}); using k_={k_}")
        if takes_k:
            params.setdefault("k", k_)
        return loss, params, k_
    of_negatives = is_named and loss in ("top_mean", "top_push_k")
    n_counted = (rows.count[rows.target == 0] if of_negatives else rows.count).sum()
    given = not (loss == "top_mean" or takes_k) or {"k", "threshold"} & {*params}
    if not given and k > max(1, n_counted) and rows.groups is None:
        what = "negatives" if of_negatives else "samples"
        warn(f"k={k} must be at most the number of {what} ({n_counted:g}): all {what} are used")
    k_ = k if rows.groups is not None else min(k, max(1, int(n_counted)))
    if is_named and loss == "top_mean":
        rank = {"k": min(int(k), 2**53)} if k >= 1 else {"tau": float(k)}
        params = {"threshold": TopMean("negatives", **rank), "surrogate": "logistic"} | params
        return "accuracy_at_top", params, k_
    if not takes_k or "k" in params:
        return loss, params, k_
    if rows.groups is None and k < 1 and loss in ("recall_at_k", "top_push_k"):
        # A share, unlike a rank in units of weight, does not depend on the scale of the weights.
        threshold = KthLargest(LOSSES[loss].threshold[0], tau=float(k))
        return "accuracy_at_top", {"threshold": threshold} | params, k_
    if rows.groups is None:
        params["k"] = min(n_kept(k, n_counted), max(1, int(n_counted)))
    elif k < 1:
        raise ValueError(f"k must be an integer for loss={loss!r} with groups; got {k!r}")
    else:
        params["k"] = int(k)
    return loss, params, k_


def cut_of(loss, params, rows, n_negatives, n_positives):
    """Return the function that computes the threshold of a loss."""
    n_all = float(n_negatives + n_positives)
    total = {"negatives": n_negatives, "positives": n_positives, "all": n_all}
    threshold = params.get("threshold")
    if not callable(threshold):
        of, name = LOSSES[loss].threshold if isinstance(loss, str) else ("all", "")
        if name is None:
            threshold = Largest(of)
        elif name == "k":
            threshold = KthLargest(of, k=int(params["k"]))
        else:
            share = params[name] if name else n_positives / n_all
            threshold = KthLargest(of, tau=min(1.0, float(share)))
    # The threshold is computed from a part of the samples: replace the rank k by a share.
    if rows.groups is None and getattr(threshold, "k", None) is not None:
        share = min(1.0, threshold.k / float(total[threshold.of]))
        threshold = dataclasses.replace(threshold, k=None, tau=share)
    return threshold


def check_ranking(target, groups, n_members):
    if groups is not None:
        check_groups_of_both(target, groups)
    n_rarest = np.bincount(target, minlength=2).min()
    if n_rarest < n_members:
        warn(
            f"y has {n_rarest} samples of a class, fewer than n_members={n_members}: "
            "probabilities, threshold_ and oob_score_ are not reliable. Add samples of this class"
        )


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


def check_params(estimator):
    if isinstance(estimator.loss, str):
        check_option(estimator.loss, "loss", ("top_mean", *LOSSES))
    else:
        loss_function(estimator.loss)
    check_parameters(estimator)
    for name in ("loss_params", "lightgbm_params"):
        if not isinstance(getattr(estimator, name) or {}, dict):
            raise TypeError(f"{name} must be a dict; got {getattr(estimator, name)!r}")
    params = estimator.lightgbm_params or {}
    for name, aliases in MANAGED.items():
        for alias in sorted({*aliases.split()} & params.keys()):
            raise ValueError(f"lightgbm_params must not have the key {alias!r}: use {name}")
    if params.get("linear_tree") or params.get("linear_trees"):
        raise ValueError("lightgbm_params must not set linear_tree: linear trees cannot be saved")
    for name in ("boosting", "boosting_type", "boost"):
        if (value := params.get(name)) in ("rf", "random_forest"):
            raise ValueError(f"lightgbm_params must not set {name}='rf': rf takes no init_score")
        if value == "dart":
            raise ValueError(f"{name} must not be 'dart': LightGBM's dart ignores random_state")
