"""The parameters that every estimator with a network has: fields, text and checks."""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, Self, TypeVar, dataclass_transform

import numpy as np
import torch
from sklearn.base import BaseEstimator

from sktopk._common._notebook import ShownInNotebooks
from sktopk._common._scalars import (
    check_auto,
    check_flag,
    check_number,
    check_option,
    check_random,
)
from sktopk._training._process import check_device
from sktopk.modules import TabularMLP

from ._calibration import CALIBRATIONS

Estimator = TypeVar("Estimator")

# What "auto" stands for: for a network of tables, and for any other, whose users know better.
AUTO_OF_TABLES = {
    "hidden_layer_sizes": (128, 128),
    "n_members": 8,
    "early_stopping": True,
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "batch_size": 256,
}
AUTO_OF_OTHERS = {
    "hidden_layer_sizes": (100,),
    "n_members": 1,
    "early_stopping": False,
    "warm_up": 0,
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "batch_size": 128,
}
# Parameters of MLP alone, which asks for it.
OF_MLP = {"module__normalize", "module__batch_norm"}
# What depends on the others.
DERIVED = ("weight_decay", "cross_fit")
# Decoupled from the loss, it is a share of the learning rate; added to its gradient, far less.
DECOUPLED_DECAY, DECAY = 0.3, 1e-4
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
PRECISIONS = (None, "bfloat16")
DTYPES = ("auto", "float32", "float64")
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
    "module__hidden_layer_sizes": "hidden_layer_sizes",
}
# Names of the callbacks that every net has.
OWN_CALLBACKS = {"epoch_timer", "train_loss"}
# Prefixes of parameters that can be set and searched directly, and the dict that keeps them.
ROUTED = {
    "module__": "net_params",
    "optimizer__": "net_params",
    "callbacks__": "net_params",
    "loss__": "loss_params",
}


def sections(doc):
    """Cut a numpydoc docstring into what comes before its sections, and these by title.

    Without its indentation, which Python strips from 3.13 on.
    """
    doc = inspect.cleandoc(doc)
    lead, *rest = re.split(r"^(\w[\w ]*)\n-+\n", doc, flags=re.MULTILINE)
    return lead, dict(zip(rest[::2], rest[1::2], strict=True))


def entries(section):
    """The entries of a section of parameters or attributes, by name."""
    parts = re.split(r"^(?=\w+ : )", section, flags=re.MULTILINE)
    return {part.split(" : ")[0].strip(): part.rstrip() + "\n" for part in parts if part.strip()}


def assembled(cls):
    """Return the docstring of an estimator with what it shares with its base classes.

    An entry of the sections Parameters and Attributes that the class does not have itself is
    that of the nearest base class.

    Raises
    ------
    TypeError
        If a parameter has no text, or a text no parameter.
    """
    lead, own = sections(cls.__doc__)
    texts = {"Parameters": {}, "Attributes": {}}
    for base in reversed(cls.__mro__):
        if issubclass(base, TrainingParameters):
            for title, known in texts.items():
                known |= entries(sections(base.__doc__)[1].get(title, ""))
    named = tuple(inspect.signature(cls).parameters)
    parameters, attributes = texts.values()
    if wrong := sorted(parameters.keys() ^ set(named)):
        raise TypeError(f"{cls.__name__}: parameters without a text, or texts without one: {wrong}")
    attributes = entries(own.get("Attributes", "")) | attributes
    whole = {
        "Parameters": "".join(parameters[name] for name in named) + "\n",
        "Attributes": "".join(attributes.values()) + "\n",
    }
    # In numpydoc's order: these two come first.
    whole |= {title: text for title, text in own.items() if title not in whole}
    return lead + "".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in whole.items())


@dataclass_transform()
def estimator(cls: type[Estimator]) -> type[Estimator]:
    """Make a class with annotated parameters an estimator.

    It gets an `__init__` with explicit parameters that stores them and does nothing else, of the
    keywords the own ones first, and a docstring with the text of all of them.
    """
    cls = dataclass(eq=False, repr=False)(cls)
    signature = inspect.signature(cls.__init__)
    places = [name for base in cls.__mro__ for name in inspect.get_annotations(base)]
    ordered = sorted(
        signature.parameters.values(),
        key=lambda each: (each.kind, each.kind is each.KEYWORD_ONLY and places.index(each.name)),
    )
    cls.__init__.__signature__ = signature.replace(parameters=ordered)
    if cls.__doc__:  # not under python -OO
        cls.__doc__ = assembled(cls)
    return cls


@dataclass(eq=False, repr=False)
class TrainingParameters(ShownInNotebooks, BaseEstimator):
    """Parameters of a network and its training.

    A subclass adds fields, and their checks to `_check_params`. It may say by `_may_warm_up` and
    `_may_cross_fit` that there is no warm-up or are no folds for these parameters, and by
    `_precision` which of them is the precision of training.

    Parameters
    ----------
    module : callable, default=None
        An nn.Module class or a function ``(n_features, n_outputs) -> nn.Module``, for images
        ``(n_channels, n_outputs)``. None is a network of tables,
        :class:`sktopk.modules.TabularMLP`, which scales and encodes the columns, and takes
        missing values and categories;
        :class:`sktopk.modules.MLP` is a plain one. See the notes of `fit` for what "auto" is
        with which. A network that has a method ``from_data(X)`` is shown the rows it is to be
        trained on before the first step, a Tensor on the CPU, at most 32 768 of them, to take
        scales or bins of the columns from.
    hidden_layer_sizes : tuple of int or "auto", default="auto"
        Hidden layers of TabularMLP or MLP; ``()`` is a linear model, without members. "auto" is
        (128, 128) of TabularMLP, (100,) of MLP.
    n_members : int or "auto", default="auto"
        Networks that are trained side by side, at most 1000, each with initial weights and a
        loss of its own; the scores are their mean. A `module` with a parameter `n_members`
        builds all of them in one and returns scores (n_samples, n_members, n_outputs), see
        :class:`sktopk.modules.Members`; any other is built `n_members` times. "auto" is 8 of
        TabularMLP, else 1.
    cross_fit : bool or "auto", default="auto"
        Whether each member is trained without one of `n_members` folds of the rows (fewer if a
        class has fewer rows), so that every row has a score of a member that has not seen it,
        see `oob_decision_function_`. These take the place of rows held out: for
        `early_stopping`, where each member keeps its own best epoch (a ranker's by the
        mean of its score and the two before), and `calibration`.
        Rows that are equal lie in one fold, with groups the rows of a group. "auto" is True for
        several members of TabularMLP.
    warm_up : int or "auto", default="auto"
        Epochs of cross-entropy before those of the loss, with `early_stopping` at most so many.
        The loss then starts from the best weights, at a quarter of the learning rate; the best
        epoch of all is kept. 0 trains with the loss from the start, as the papers do. "auto" is
        `max_epochs` of TabularMLP, else 0.
    cross_entropy_share : float, default=0.5
        After a warm-up: the share a of cross-entropy L' in ``a L' + (1 - a) L``, in [0, 1).
    score_scale : float or "auto", default="auto"
        Factor on the network's output. The initial weights of a last linear layer are divided
        by it, so that training starts from the same scores. "auto" is 1.
    optimizer : {"auto", "adam", "adamw", "sgd"} or torch.optim.Optimizer subclass, default="auto"
        Further arguments through `net_params`, such as ``optimizer__betas``. "auto" is "adamw"
        for TabularMLP, else "adam".
    learning_rate : float or "auto", default="auto"
        Step size. "auto" is 3e-3 for TabularMLP, else 1e-3.
    weight_decay : float or "auto", default="auto"
        Of the optimizer. One that has none, such as LBFGS, takes "auto" or 0. "auto" is 0.3 for
        TabularMLP with "adamw", else 1e-4.
    batch_size : int or "auto", default="auto"
        "auto" is min(256, n_samples) for TabularMLP, else min(128, n_samples).
    max_epochs : int, default=100
        Passes over the data.
    early_stopping : bool or "auto", default="auto"
        Whether to score rows after each epoch that are not trained on, stop after
        `n_iter_no_change` epochs without a gain above `tol`, and keep the best weights. The
        rows are those that members leave out (`cross_fit`), else `validation_fraction` of the
        rows given to `fit` (of a cross-validation fold: of its training part), where every class
        keeps a row in training. "auto" is True for TabularMLP.
    scoring : str, callable or None, default=None
        Score of the validation rows; None is the metric of `score`. One of probabilities, such
        as "neg_log_loss", needs `calibration`, which is then fitted on these rows after each
        epoch.
    validation_fraction : float, default=0.1
        Share of rows held out for `early_stopping` and `calibration`.
    n_iter_no_change : int, default=10
        Patience in epochs.
    tol : float, default=1e-4
        Gain of the validation score that counts.
    calibration : {"temperature", "sigmoid", "auto"} or None, default=None
        How held-out rows (X_val, y_val, or `validation_fraction` of the rows) turn scores into
        probabilities after training: softmax of scores over a temperature, or Platt's sigmoid
        per class, normalised. "auto" is "temperature" where rows are left out of the training
        anyway, by `cross_fit`, `early_stopping` or X_val, and nothing elsewhere: it costs no row.
    callbacks : list, default=None
        skorch callbacks, instances, or ``(name, callback)`` pairs; copied. They see encoded
        labels.
    net_params : dict, default=None
        Other arguments of the skorch net and, as ``module__x``, ``optimizer__x``,
        ``callbacks__name__x``, of its parts. Such keys can be set and searched directly. Of the
        default network, ``module__dropout``, ``module__n_bins``; ``module__normalize`` and
        ``module__batch_norm`` are of MLP, which then takes its place.
    device : str or torch.device, default="auto"
        "auto" is the first GPU that torch sees, else the CPU.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Float type of data and network; "auto" keeps that of X.
    precision : "bfloat16" or None, default=None
        Autocast of the forward pass; losses are computed in float32.
    compile : bool, default=False
        Whether to compile the network with torch.compile.
    checkpoint : str, os.PathLike or None, default=None
        File in which `fit` keeps its progress: after a crash the same call goes on from there
        and ends with the same weights, bit for bit (see the notes of `fit`). Each fit needs a
        path of its own, which the clones of a search do not have.
    checkpoint_every : int, default=1
        Epochs from one writing of that file to the next.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, for `max_epochs` more epochs. Parameters that
        shaped the network or its loss must then be as they were.
    verbose : int, default=0
        1 shows a progress bar, 2 a line per epoch. Both say in the end if the loss has not
        beaten the cross-entropy before it on rows not trained on; with a `warm_up` that was asked
        for that is a warning.
    random_state : int, RandomState or None, default=None
        Seed of initialisation, dropout, batches and splits. Torch's own generators stay as they
        are. A `module` or loss of yours draws from them, and they are put back: such fits take
        turns, and are repeatable where no other thread draws meanwhile.

    Attributes
    ----------
    calibration_ : tuple (str, ndarray, ndarray)
        With `calibration`: its name, "temperature" or "sigmoid", and slopes and intercepts of the
        scores.
    categories_ : Categories
        If X was a frame with columns of categories: `values`, by the number of the column its
        categories, the most frequent first and None, a missing value, before them; and `pooled`,
        the columns whose rarer ones share an indicator. See the notes of `fit`.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class in training, float64.
    n_features_in_ : int
        Columns of X (channels of images).
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a frame with string names.
    n_iter_ : int
        Epochs trained, over all warm starts and partial fits.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        With `cross_fit`: what `decision_function` says of the rows of `fit`, by the members that
        have not seen them. NaN for a row of weight 0 and for the only row of a class, which all
        members see. With `propensity` there are the rows of known label.
    oob_score_ : float
        With `cross_fit`: the metric of `score`, of these.
    history_ : list of dict
        A row per epoch: train_loss, valid_score and valid_loss if there were validation rows,
        dur (seconds) and what callbacks recorded.
    net_ : skorch net
        Its ``module_`` is the torch network.
    """

    _: KW_ONLY
    module: Callable | None = None
    hidden_layer_sizes: Sequence[int] | str = "auto"
    n_members: int | str = "auto"
    cross_fit: bool | str = "auto"
    warm_up: int | str = "auto"
    cross_entropy_share: float = 0.5
    score_scale: float | str = "auto"
    optimizer: str | type[torch.optim.Optimizer] = "auto"
    learning_rate: float | str = "auto"
    weight_decay: float | str = "auto"
    batch_size: int | str = "auto"
    max_epochs: int = 100
    early_stopping: bool | str = "auto"
    scoring: str | Callable | None = None
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    calibration: str | None = None
    callbacks: list | None = None
    net_params: dict | None = None
    device: str | torch.device = "auto"
    dtype: str = "auto"
    precision: str | None = None
    compile: bool = False
    checkpoint: str | os.PathLike | None = None
    checkpoint_every: int = 1
    warm_start: bool = False
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

    # The parameter that names the arithmetic of the forward pass.
    _precision = "precision"

    @property
    def _suits_tables(self):
        """Whether the parameters ask for the network of tables, with all that belongs to it."""
        if self.module is not None:
            return self.module is TabularMLP
        asks_for_members = isinstance(self.n_members, Real) and self.n_members > 1
        if getattr(self, "n_candidates", None) is not None and not asks_for_members:
            # With very many classes members are no default: each has a last layer of its own.
            return False
        if isinstance(self.net_params, dict) and not OF_MLP.isdisjoint(self.net_params):
            return False
        # A size of something that is not allowed, too: tags are asked for before any check.
        return is_auto(self.hidden_layer_sizes) or np.size(self.hidden_layer_sizes) > 0

    # Whether cross-entropy may come before the loss, and members may leave out rows.
    _may_warm_up = _may_cross_fit = True

    def _settings(self, of_tables=None):
        """The parameters that may be "auto", by name, with what that stands for.

        `of_tables` says which network is meant, where it is not that of the last fit.
        """
        if of_tables is None:
            of_tables = self._of_tables_ if hasattr(self, "_of_tables_") else self._suits_tables
        auto = AUTO_OF_TABLES if of_tables else AUTO_OF_OTHERS
        if of_tables:
            auto = auto | {"warm_up": self.max_epochs if self._may_warm_up else 0}
        given = {name: getattr(self, name) for name in (*AUTO_OF_OTHERS, *DERIVED)}
        values = auto | {name: value for name, value in given.items() if not is_auto(value)}
        is_adamw = of_tables and values["optimizer"] == "adamw"
        values.setdefault("weight_decay", DECOUPLED_DECAY if is_adamw else DECAY)
        has_folds = of_tables and values["n_members"] > 1 and self._may_cross_fit
        values.setdefault("cross_fit", has_folds)
        return SimpleNamespace(of_tables=of_tables, **values)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with the routed keys among the deep ones."""
        params = super().get_params(deep)
        if deep:
            for name in {*ROUTED.values()} & params.keys():
                if isinstance(params[name], dict):
                    params |= _with_prefix(name, params[name])
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``module__``, ``optimizer__``, ``callbacks__``, ``loss__`` are routed."""
        for prefix, name in ROUTED.items():
            routed = {k: params.pop(k) for k in list(params) if k.startswith(prefix)}
            if not routed:
                continue
            if name not in self.get_params(deep=False):
                raise ValueError(
                    f"{type(self).__name__} has no {name}, which {', '.join(routed)} would set"
                )
            if name == "loss_params":
                routed = {key.removeprefix(prefix): value for key, value in routed.items()}
            params[name] = {**(params.get(name, getattr(self, name)) or {}), **routed}
        return super().set_params(**params)

    def _check_params(self):
        """Raise unless all parameters are allowed; a subclass checks its own as well."""
        optimizer = check_optimizer(self.optimizer)
        if self.module is not None:
            check_module(self.module)
        is_decay = isinstance(self.weight_decay, Real) and self.weight_decay != 0
        if is_decay and not has_decay(optimizer):
            raise ValueError(
                f"weight_decay={self.weight_decay!r} needs an optimizer that has it; got "
                f"optimizer={self.optimizer!r}: set weight_decay=0"
            )
        check_device(self.device)
        check_auto(self.hidden_layer_sizes, "hidden_layer_sizes", check_sizes)
        check_auto(self.score_scale, "score_scale", check_number, low=0, bounds="neither")
        check_auto(self.batch_size, "batch_size", check_number, low=1, integer=True)
        check_auto(self.learning_rate, "learning_rate", check_number, low=0, bounds="neither")
        check_auto(self.weight_decay, "weight_decay", check_number, low=0, bounds="left")
        check_number(self.tol, "tol", 0, bounds="left")
        for name in ("max_epochs", "n_iter_no_change", "checkpoint_every"):
            check_number(getattr(self, name), name, 1, integer=True)
        check_number(self.validation_fraction, "validation_fraction", 0, 1, bounds="neither")
        # Far beyond what helps, and not yet a mistake that fills the memory.
        check_auto(self.n_members, "n_members", check_number, low=1, high=1000, integer=True)
        check_auto(self.warm_up, "warm_up", check_number, low=0, integer=True)
        check_number(self.cross_entropy_share, "cross_entropy_share", 0, 1, bounds="left")
        for name in ("early_stopping", "cross_fit"):
            check_auto(getattr(self, name), name, check_flag)
        for name in ("compile", "warm_start"):
            check_flag(getattr(self, name), name)
        check_random(self.random_state)
        check_option(self.dtype, "dtype", DTYPES)
        check_option(getattr(self, self._precision), self._precision, PRECISIONS)
        check_option(self.calibration, "calibration", CALIBRATIONS)
        if self.net_params is not None:
            check_net_params(self.net_params, default_module=self.module is None)
        if self.checkpoint is not None:
            check_path(self.checkpoint)
        if self.callbacks is not None:
            check_callbacks(self.callbacks)
        if not isinstance(self.verbose, Integral):
            raise TypeError(f"verbose must be an integer; got {self.verbose!r}")

    def _check_partial_fit(self):
        """Refuse parameters that mean something for all data only, or for many epochs."""
        for name in ("class_weight", "calibration"):
            value = getattr(self, name, None)
            if isinstance(value, str) and value != "auto":
                raise ValueError(
                    f"{name}={value!r} needs all data at once, which partial_fit does not have"
                )
        if self.checkpoint is not None:
            raise ValueError(
                f"checkpoint={self.checkpoint!r} is for fit: set checkpoint=None and save the "
                "estimator between calls of partial_fit, each of which trains for one epoch"
            )


def _with_prefix(name, values):
    """The entries of a routed dict under the names that `set_params` knows."""
    if name == "loss_params":
        return {f"loss__{key}": value for key, value in values.items()}
    return {k: v for k, v in values.items() if ROUTED.get(str(k).partition("__")[0] + "__") == name}


def check_path(checkpoint):
    """Check that `checkpoint` names a file in a folder that exists."""
    if not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file or None; got {checkpoint!r}")
    if os.path.isdir(checkpoint) or not os.path.basename(checkpoint):
        raise IsADirectoryError(
            f"checkpoint must be the path of a file; {checkpoint!r} is a folder"
        )
    folder = os.path.dirname(os.path.realpath(checkpoint))
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            f"checkpoint={checkpoint!r} must lie in a folder that exists; there is no {folder!r}: "
            "make it or pass another path"
        )


def check_module(module):
    """Check that `module` builds networks."""
    if isinstance(module, torch.nn.Module) or not callable(module):
        raise TypeError(
            "module must be an nn.Module class or a callable (n_features, n_outputs) -> "
            f"nn.Module, not an instance; got {type(module).__name__}"
        )


def check_sizes(hidden_layer_sizes, name="hidden_layer_sizes"):
    """Check the hidden layers of a network of ours."""
    is_array = isinstance(hidden_layer_sizes, np.ndarray) and hidden_layer_sizes.ndim == 1
    if not is_array and not isinstance(hidden_layer_sizes, list | tuple):
        raise TypeError(f"{name} must be a tuple of integers; got {hidden_layer_sizes!r}")
    for size in hidden_layer_sizes:
        check_number(size, name, 1, integer=True)


def check_net_params(net_params, default_module):
    """Check that `net_params` leaves alone what the estimator's own parameters decide."""
    if not isinstance(net_params, dict):
        raise TypeError(f"net_params must be a dict of skorch arguments; got {net_params!r}")
    for name in net_params:
        if not isinstance(name, str):
            raise TypeError(f"net_params must have strings as keys; got {name!r}")
        if name in MANAGED and (default_module or not name.startswith("module__")):
            raise ValueError(f"net_params must not set {name!r}: use {MANAGED[name]}")
        if name.split("__")[0] in ("criterion", "dataset", "iterator_train", "iterator_valid"):
            raise ValueError(
                f"net_params must not set {name!r}: the estimator feeds its own batches; "
                "allowed are module__*, optimizer__*, callbacks__* and skorch's other arguments"
            )


def check_callbacks(callbacks):
    """Check that `callbacks` is a list of skorch callbacks, perhaps with names."""
    is_list, names = isinstance(callbacks, list | tuple), set()
    for each in callbacks if is_list else [callbacks]:
        name, callback = each if isinstance(each, tuple) and len(each) == 2 else ("", each)
        is_callback = hasattr(callback, "on_epoch_end") and not isinstance(callback, type)
        if not is_callback or not is_list or not isinstance(name, str):
            raise TypeError(
                "callbacks must be a list of skorch callbacks, instances of their classes, or "
                f"(name, callback) pairs; got {each!r}"
            )
        if name and name in names | OWN_CALLBACKS:
            raise ValueError(f"callbacks must have names of their own; got {name!r} once more")
        names.add(name)


def is_auto(value):
    """Whether a parameter is left to the estimator."""
    return isinstance(value, str) and value == "auto"


def has_decay(optimizer):
    """Whether an optimizer class has a weight decay."""
    return "weight_decay" in inspect.signature(optimizer).parameters


def check_optimizer(optimizer):
    """Return the optimizer class that `optimizer` names."""
    if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        return optimizer
    if isinstance(optimizer, str) and optimizer in ("auto", *OPTIMIZERS):
        return OPTIMIZERS.get(optimizer, torch.optim.AdamW)
    raise (ValueError if isinstance(optimizer, str) else TypeError)(
        f"optimizer must be one of 'auto', {', '.join(map(repr, OPTIMIZERS))} or a subclass of "
        f"torch.optim.Optimizer; got {optimizer!r}"
    )
