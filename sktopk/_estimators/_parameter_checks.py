"""Checks of estimator parameters: each error names the parameter, what is allowed, what came."""

import os
from numbers import Integral

import numpy as np
import torch

from sktopk._common._scalars import check_auto, check_flag, check_number, check_option
from sktopk._training._torch_names import DTYPES, PRECISIONS, check_device, check_optimizer

# What of skorch's net the estimators' own parameters decide, and which of them.
MANAGED = {
    "module": "module",
    "criterion": "loss",
    "optimizer": "optimizer",
    "lr": "learning_rate",
    "optimizer__lr": "learning_rate",
    "optimizer__weight_decay": "weight_decay",
    "max_epochs": "max_epochs",
    "batch_size": "batch_size",
    "callbacks": "callbacks",
    "train_split": "validation_fraction",
    "device": "device",
    "verbose": "verbose",
    "warm_start": "warm_start",
    "compile": "compile",
    "classes": "classes of partial_fit",
    "use_caching": "scoring",
    "module__normalize": "normalize",
    "module__hidden_layer_sizes": "hidden_layer_sizes",
}
ROUTED = ("module__", "optimizer__", "callbacks__")


def check_training_params(estimator):
    """Check the parameters that all estimators have in common."""
    p = estimator
    check_auto(p.score_scale, "score_scale", check_number, low=0, bounds="neither")
    check_number(p.learning_rate, "learning_rate", 0, bounds="neither")
    check_number(p.weight_decay, "weight_decay", 0, bounds="left")
    check_auto(p.batch_size, "batch_size", check_number, low=1, integer=True)
    check_number(p.max_epochs, "max_epochs", 1, integer=True)
    check_number(p.validation_fraction, "validation_fraction", 0, 1, bounds="neither")
    check_number(p.n_iter_no_change, "n_iter_no_change", 1, integer=True)
    check_number(p.tol, "tol", 0, bounds="left")
    for name in ("normalize", "early_stopping", "compile", "warm_start"):
        check_flag(getattr(p, name), name)
    check_option(p.dtype, "dtype", DTYPES)
    if not hasattr(p, "autocast"):  # where `precision` is another one
        check_option(p.precision, "precision", PRECISIONS)
    check_checkpoint(p)
    check_device(p.device)
    check_optimizer(p.optimizer)
    check_module(p)
    check_net_params(p)
    if not isinstance(p.verbose, Integral):
        raise TypeError(f"verbose must be an integer; got {p.verbose!r}")
    callbacks = p.callbacks if isinstance(p.callbacks, list | tuple) else [p.callbacks]
    for each in [] if p.callbacks is None else callbacks:
        callback = each[1] if isinstance(each, tuple) and len(each) == 2 else each
        if not hasattr(callback, "on_epoch_end") or callbacks is not p.callbacks:
            raise TypeError(
                "callbacks must be a list of skorch callbacks or (name, callback) pairs; "
                f"got {each!r}"
            )


def check_checkpoint(estimator):
    """Check that `checkpoint` names a file in a folder that exists."""
    path = estimator.checkpoint
    check_number(estimator.checkpoint_every, "checkpoint_every", 1, integer=True)
    if path is None:
        return
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file or None; got {path!r}")
    if os.path.isdir(path) or not os.path.basename(path):
        raise IsADirectoryError(f"checkpoint must be the path of a file; {path!r} is a folder")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"checkpoint={path!r} must lie in a folder that exists; there is no {folder!r}: "
            "make it or pass another path"
        )


def check_module(estimator):
    """Check `module` and the parameters that only the default network has."""
    module, sizes = estimator.module, estimator.hidden_layer_sizes
    if module is not None:
        if isinstance(module, torch.nn.Module) or not callable(module):
            raise TypeError(
                "module must be an nn.Module class or a callable (n_features, n_outputs) -> "
                f"nn.Module, not an instance; got {type(module).__name__}"
            )
        if estimator.normalize:
            raise ValueError(
                "normalize=True belongs to the default network; let module end in "
                "sktopk.modules.NormalizedLinear instead"
            )
        return
    if not isinstance(sizes, list | tuple | np.ndarray):
        raise TypeError(f"hidden_layer_sizes must be a tuple of integers; got {sizes!r}")
    for size in sizes:
        check_number(size, "hidden_layer_sizes", 1, integer=True)


def check_net_params(estimator):
    """Check that `net_params` leaves alone what the estimator's own parameters decide."""
    net_params = estimator.net_params
    if net_params is None:
        return
    if not isinstance(net_params, dict):
        raise TypeError(f"net_params must be a dict of skorch arguments; got {net_params!r}")
    for name in net_params:
        if not isinstance(name, str):
            raise TypeError(f"net_params must have strings as keys; got {name!r}")
        if name in MANAGED and (estimator.module is None or not name.startswith("module__")):
            raise ValueError(f"net_params must not set {name!r}: use {MANAGED[name]}")
        if name.split("__")[0] in ("criterion", "dataset", "iterator_train", "iterator_valid"):
            raise ValueError(
                f"net_params must not set {name!r}: the estimator feeds its own batches; "
                f"allowed are {', '.join(prefix + '*' for prefix in ROUTED)} and skorch's "
                "other arguments"
            )


def check_partial_fit(estimator):
    """Refuse parameters that mean something for all data only, or for a fit of many epochs."""
    for name in ("class_weight", "calibration", "early_stopping"):
        value = getattr(estimator, name, None)
        if isinstance(value, str) or value is True:
            raise ValueError(
                f"{name}={value!r} needs all data at once, which partial_fit does not have"
            )
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={estimator.checkpoint!r} is for fit: set checkpoint=None and save the "
            "estimator between calls of partial_fit, each of which trains for one epoch"
        )
