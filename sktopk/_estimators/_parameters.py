"""Signatures and docstrings of estimators with a network, and checks of their parameters."""

import inspect
import re
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

import torch

from sktopk._common._scalars import check_option
from sktopk.losses._docs import entries, joined, sections

from ._build import PRECISIONS

Estimator = TypeVar("Estimator")

# Arguments of the skorch net, with the parameter of the estimator that sets each argument.
OWN = {
    "module": "module",
    "criterion": "loss",
    "lr": "learning_rate",
    "optimizer__lr": "learning_rate",
    "max_epochs": "max_epochs",
    "batch_size": "batch_size",
    "callbacks": "callbacks",
    "device": "device",
    "verbose": "verbose",
    "module__hidden_layer_sizes": "hidden_layer_sizes",
    "module__n_members": "n_estimators",
}
# skorch arguments that users cannot set, because the estimator sets the minibatches and the loss.
FEEDING = ("criterion", "dataset", "iterator_train", "iterator_valid", "train_split", "classes")
FEEDING += ("warm_start", "use_caching", "predict_nonlinearity")
# Arguments of the DataLoaders that read a Dataset: iterator_train__num_workers, ...
LOADING = ("num_workers", "prefetch_factor", "multiprocessing_context", "timeout", "worker_init_fn")
# Names that users cannot give to callbacks, because the net has callbacks with these names.
TAKEN = ("epoch_timer", "train_loss", "validation", "progress")
# `set_params(module__x=1)` sets the entry "module__x" of the dict `net_params`, and so on.
OF_NET = ("module__", "optimizer__", "callbacks__")


def routed_entries(params):
    """Return the nested parameters, such as {"loss__gamma": 1.0} for loss_params={"gamma": 1.0}."""
    found, net_params, loss_params = {}, params["net_params"], params["loss_params"]
    if isinstance(net_params, dict):
        found |= {key: value for key, value in net_params.items() if key.startswith(OF_NET)}
    if isinstance(loss_params, dict):
        found |= {f"loss__{key}": value for key, value in loss_params.items()}
    return found


def routed(estimator, params):
    """Return `params`, after moving names such as "loss__gamma" into the dict `loss_params`."""
    params = dict(params)
    for name, prefixes in (("net_params", OF_NET), ("loss_params", "loss__")):
        keys = [key for key in params if key.startswith(prefixes)]
        own = {key.removeprefix("loss__"): params.pop(key) for key in keys}
        if own:
            params[name] = {**(params.get(name, getattr(estimator, name)) or {}), **own}
    return params


# Sections of a class docstring, in numpydoc's order.
SECTIONS = ("Parameters", "Attributes", "See Also", "Notes", "References", "Examples")


def assembled(cls):
    """Return the class docstring, completed by entries and sections of the base classes."""
    lead, own = sections(cls.__doc__)
    texts, inherited = {"Parameters": {}, "Attributes": entries(own.get("Attributes", ""))}, {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("sktopk") and base.__doc__:
            found = sections(base.__doc__)[1]
            inherited |= found
            for title, known in texts.items():
                known |= entries(found.get(title, ""))
    named, parameters = inspect.signature(cls).parameters, texts["Parameters"]
    if missing := sorted(named.keys() - parameters.keys()):
        raise TypeError(f"{cls.__name__}: parameters without a docstring entry: {missing}")
    texts["Parameters"] = {name: parameters[name] for name in named}
    whole = own | {title: "\n".join(known.values()) for title, known in texts.items()}
    if "[1]_" in cls.__doc__:
        whole["References"] = inherited["References"]
    if "Examples" in inherited.keys() - own.keys():
        whole["Examples"] = re.sub(r"\w+Classifier", cls.__name__, inherited["Examples"])
    return joined(lead, {title: whole[title] for title in SECTIONS if title in whole})


@dataclass_transform()
def estimator(cls: type[Estimator]) -> type[Estimator]:
    """Class decorator: write `__init__` from annotated attributes, and complete the docstring.

    In the signature, the parameters of a subclass precede those from base classes.
    """
    if cls.__module__.startswith("sktopk."):
        cls.__module__ = "sktopk"  # for pickles, errors and documentation
    cls = dataclass(eq=False, repr=False)(cls)
    signature = inspect.signature(cls.__init__)
    places = [name for base in cls.__mro__ for name in inspect.get_annotations(base)]
    ordered = sorted(
        signature.parameters.values(),
        key=lambda each: (each.kind, each.kind is each.KEYWORD_ONLY and places.index(each.name)),
    )
    cls.__init__.__signature__ = signature.replace(parameters=ordered)
    if cls.__doc__:  # None under python -OO
        cls.__doc__ = assembled(cls)
    return cls


def check_net_params(estimator):
    """Check that `net_params` sets no argument that the estimator itself sets."""
    net_params = estimator.net_params
    if not isinstance(net_params, dict) or not all(isinstance(name, str) for name in net_params):
        raise TypeError(f"net_params must be a dict with string keys; got {net_params!r}")
    for name in net_params:
        if name in OWN:
            raise ValueError(f"net_params must not set {name!r}: use {OWN[name]}")
        part, _, argument = name.partition("__")
        if part in FEEDING and not (part.startswith("iterator") and argument in LOADING):
            raise ValueError(
                f"net_params must not set {name!r}: the estimator sets minibatches and loss. "
                "Allowed are precision, compile and arguments of skorch such as optimizer, "
                "module__*, optimizer__* and callbacks__*. To change how a Dataset is read, set "
                "iterator_train__* for training or iterator_valid__* for predictions, where * is "
                f"one of {', '.join(LOADING)}"
            )
    check_option(net_params.get("precision"), "net_params: precision", tuple(PRECISIONS))
    optimizer, value = net_params.get("optimizer") or torch.optim.AdamW, estimator.weight_decay
    if not callable(optimizer):
        raise TypeError(f"net_params: optimizer must be a class, such as SGD; got {optimizer!r}")
    if optimizer is not torch.optim.AdamW and value != type(estimator).weight_decay:
        name = getattr(optimizer, "__name__", optimizer)
        raise ValueError(
            f"weight_decay={value!r} is for AdamW only; got net_params['optimizer']={name}: set "
            "net_params['optimizer__weight_decay']"
        )


def check_callbacks(callbacks):
    is_list, names = isinstance(callbacks, list | tuple), set()
    for each in callbacks if is_list else [callbacks]:
        name, callback = each if isinstance(each, tuple) and len(each) == 2 else ("", each)
        is_callback = hasattr(callback, "on_epoch_end") and not isinstance(callback, type)
        if not is_callback or not is_list or not isinstance(name, str):
            raise TypeError(
                "callbacks must be a list of instances of skorch callbacks, or of pairs "
                f"(name, instance); got {each!r}"
            )
        if name and name in {*TAKEN, *names}:
            raise ValueError(f"callbacks must have unique names, not in {TAKEN}; got {name!r}")
        names.add(name)
