"""State of estimators with a network: copies for `partial_fit`, and serialization."""

import copy
import dataclasses
import math
from functools import partial
from numbers import Number

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from sktopk._common._estimator import fitted_attributes
from sktopk._common._warnings import warn
from sktopk._persistence._net_state import (
    check_net_state,
    load_net_state,
    mapped,
    net_state,
    seed_of,
    to_array,
    to_tensor,
)
from sktopk.modules._tabular_mlp import Dropout

from ._build import build_net
from ._fit import check_device

DTYPES = ("float32", "float64")
# Number of tensor elements that a network from a file may create beyond twice its weights.
_MORE_NUMBERS = 1 << 22
# Parameters that `partial_fit` reads in every call. All others keep their first values.
READ_AGAIN = ("batch_size", "class_weight", "learning_rate", "verbose")


def resumed(estimator, again=READ_AGAIN):
    """Return a copy of the estimator, with the parameters and fitted attributes of its last fit."""
    # Parameters in `again` keep their present values. `oob_*` would be wrong after more training.
    params, of_fit = estimator.get_params(deep=False), estimator._fit_params_
    new = type(estimator)(**{k: v if k in again else of_fit[k] for k, v in params.items()})
    vars(new).update({k: v for k, v in fitted_attributes(estimator).items() if k[:4] != "oob_"})
    return new


def warn_of_changed(estimator):
    """Warn if the user changed parameters whose new values `partial_fit` ignores."""
    both = estimator.get_params(deep=False), estimator._fit_params_
    now, then = ({k: _described(v) for k, v in params.items()} for params in both)
    if changed := [k for k in now if now[k] != then[k] and k not in READ_AGAIN]:
        warn(f"partial_fit ignores new values of {', '.join(changed)}: call fit to train with them")


def _described(value):
    """Return `value` as a text without memory addresses, so that equal values have equal texts."""
    if isinstance(value, list | tuple):
        return str([*map(_described, value)])
    if isinstance(value, partial):
        return str([_described(value.func), value.args, value.keywords])
    kinds = Number | str | dict | np.ndarray | torch.nn.Module | None
    if isinstance(value, kinds) or dataclasses.is_dataclass(value):  # such as KthLargest
        return str(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def copied_net(net, task):
    """Return a copy of a net for the given task. Callbacks are not copied."""
    made = object.__new__(type(net))
    noise = net.criterion_.generator
    vars(made).update(
        vars(net),
        settings=dataclasses.replace(net.settings, task=task),
        module_=(module := copy.deepcopy(net.module_)),
        module=module,  # not the module of the first fit
        criterion_=copy.deepcopy(net.criterion_, {id(noise): None}),
        history_=copy.copy(net.history_),
        generator=net.generator.clone_state(),
        own_generator=net.own_generator and net.own_generator.clone_state(),
    )
    if noise is not None:
        made.criterion_.seed(noise.clone_state())
    for part in made.module_.modules():
        if isinstance(part, Dropout):  # copies of Dropout have no generator
            part.generator = made.own_generator
    made.initialize_optimizer()
    made.optimizer_.load_state_dict(copy.deepcopy(net.optimizer_.state_dict()))
    return made


def set_rate(net, rate):
    """Change the learning rate of all layers that have no learning rate of their own."""
    net.lr, state = rate, net.optimizer_.state_dict()
    net.initialize_optimizer()
    for group, fresh in zip(state["param_groups"], net.optimizer_.param_groups, strict=True):
        group["lr"] = fresh["lr"]
    net.optimizer_.load_state_dict(state)


def packed(net):
    """Return the state of a net as a dict of arrays and plain values, to pickle it."""
    dtypes = net.settings.dtype, net.settings.row_dtype
    names = [str(each).removeprefix("torch.") for each in dtypes]
    return mapped(net_state(net), to_array) | {"dtypes": names}


def unpacked(estimator, net):
    """Rebuild the net and the task of an estimator from `net`, a dict that `packed` returned."""
    if not isinstance(net, dict) or "dtypes" not in net:
        raise ValueError("net_ must be the state of a network of this version of sktopk: fit again")
    if len(net["dtypes"]) != 2 or not {*net["dtypes"]} <= {*DTYPES}:
        raise ValueError(f"net_ must have dtypes among {DTYPES}; got {net['dtypes']!r:.80}")
    new = resumed(estimator, ())  # present values can be invalid
    new._task_ = new._make_task()
    with torch.inference_mode(False), torch.enable_grad():
        with _NoLargerThan(net.get("weights"), new.module):
            try:
                device = check_device(estimator.device)
            except ValueError:  # this machine does not have the device
                device = torch.device("cpu")
            # Use the same seed, because the network may draw constants that it does not store.
            seed = seed_of(net.get("generator"))
            built = build_net(new, new._task_, net["dtypes"], seed, device)
        state = mapped({k: each for k, each in net.items() if k != "dtypes"}, to_tensor)
        check_net_state(built, state)
        load_net_state(built, state)
        built.module_.eval()
    return built, new._task_


class _NoLargerThan(TorchFunctionMode):
    """Context that limits the size of a network from a file. A larger network raises ValueError."""

    factories = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)

    def __init__(self, weights, module):
        super().__init__()
        weights = weights.values() if isinstance(weights, dict) else ()
        self.left = _MORE_NUMBERS + 2 * sum(np.size(each) for each in weights)
        # Set no limit for a user's module, which may build more layers than it keeps.
        module = getattr(module, "func", module)  # of functools.partial
        home = getattr(module, "__module__", None) or type(module).__module__
        self.left = self.left if home.partition(".")[0] in ("sktopk", "torch") else math.inf

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.factories:
            size = kwargs.get("size", args[0] if args else ())
            size = size if isinstance(size, list | tuple) else [n for n in args if type(n) is int]
            self.left -= math.prod(size)
            if self.left < 0:
                raise ValueError("damaged: the file must store all weights of the network")
        return func(*args, **kwargs)
