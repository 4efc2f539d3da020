"""Construction of a skorch net from the parameters of an estimator."""

import copy
import inspect
from contextlib import nullcontext

import numpy as np
import torch
from scipy.sparse import issparse

from sktopk._common._process import isolated_rng, share_buffers
from sktopk._common._samples import chunks
from sktopk._common._scalars import check_call
from sktopk._common._warnings import warn
from sktopk._training._batches import Rows
from sktopk._training._net import Net, Settings
from sktopk._training._objectives import CustomLoss
from sktopk.losses._loss import LossModule
from sktopk.modules import MLP, TableEncoder, TabularMLP
from sktopk.modules._table_encoder import spread_rows
from sktopk.modules._tabular_mlp import Members, packs_members

# Networks that take a random generator instead of using torch's global one.
OURS = (MLP, TabularMLP)
# Maximum numbers of samples and of values for `from_data`, which computes column scales.
MOST_SHOWN, MOST_NUMBERS = 1 << 15, 1 << 27
# Values of net_params["precision"], and the names of their data types.
PRECISIONS = {None: None, "bf16": "bfloat16", "bfloat16": "bfloat16"}


def split_params(estimator, training):
    """Return two dicts: the arguments of the module, and the other arguments of the skorch net."""
    net_params, module = dict(estimator.net_params or {}), estimator.module
    params = {key[8:]: net_params.pop(key) for key in [*net_params] if key.startswith("module__")}
    if module in OURS:
        params["hidden_layer_sizes"] = estimator.hidden_layer_sizes
        if training.cosines_for:
            params.setdefault("normalize", True)
    if module is TabularMLP:
        params.setdefault("n_bins", training.n_bins if len(estimator.hidden_layer_sizes) else 0)
    if getattr(module, "takes_tables", False):
        params.setdefault("missing_indicator", estimator._missing_ or ())
        if hasattr(estimator, "categories_"):
            params.setdefault("n_categories", estimator.categories_.sizes)
    return params, net_params


def build_net(estimator, task, dtypes, seed, device):
    """Return an initialized, untrained `Net` with the parameters of an estimator.

    `dtypes` has the names of two data types: first of the weights, then of X. TabularMLP gets
    samples in the type of X, and other networks in the type of the weights. `seed` determines
    initial weights, dropout, minibatches and random numbers in the loss.
    """
    objective, module = task.training.objective(), estimator.module
    sizes, n_members = (estimator.input_shape_[0], task.n_outputs), estimator.n_estimators_
    module_params, net_params = split_params(estimator, task.training)
    params = dict(net_params)
    dtype, row_dtype = (getattr(torch, name) for name in dtypes)
    precision, compiled = params.pop("precision", None), params.pop("compile", False)
    optimizer = params.pop("optimizer", None)
    if optimizer is None:
        optimizer = torch.optim.AdamW
        params.setdefault("optimizer__betas", (0.9, task.training.beta2))
        if module is TabularMLP:
            # Only hidden layers have weight decay: in the last layer, it would shrink the scores.
            last = f"layers.{len(module_params['hidden_layer_sizes'])}.*"
            params.setdefault("optimizer__param_groups", [(last, {"weight_decay": 0.0})])
    if optimizer is torch.optim.AdamW:
        # Optimizers other than AdamW mostly use an L2 penalty, which needs another value.
        params.setdefault("optimizer__weight_decay", float(estimator.weight_decay))
    if "fused" in inspect.signature(optimizer).parameters and "optimizer__foreach" not in params:
        params.setdefault("optimizer__fused", True)
    custom = [part.loss for part in objective.modules() if isinstance(part, CustomLoss)]
    # Other networks and losses than ours may draw from torch's global generator.
    draws = module not in OURS or not all(isinstance(loss, LossModule) for loss in custom)
    own = None if draws else torch.Generator().manual_seed(seed)
    for loss in custom:
        loss.to(dtype)  # tensors such as class weights get the dtype of the network
    with isolated_rng(device, seed=seed) if draws else nullcontext():
        built = _build_module(module, sizes, n_members, module_params, own)
        if dtype == torch.float32 and any(p.dtype == torch.float64 for p in built.parameters()):
            warn(
                "float64 weights of module become float32. Weights stay float64 only if X is "
                "float64 and one minibatch has all samples: pass X in float64, and set batch_size "
                "to at least the number of samples"
            )
        for each in [*built.parameters(), *built.buffers()]:  # `to` would make complex numbers real
            each.data = each.data.to(dtype) if each.is_floating_point() else each.data
        if isinstance(built, TabularMLP):
            built.encoder.center = built.encoder.center.to(row_dtype)
            built.encoder.scale = built.encoder.scale.to(row_dtype)
        else:
            row_dtype = dtype
        plain = not compiled and precision is None
        settings = Settings(task, n_members, dtype, row_dtype, PRECISIONS[precision], plain)
        try:
            net = Net(
                built,
                settings=settings,
                generator=torch.Generator().manual_seed(seed),
                own_generator=own,
                criterion=objective,
                optimizer=optimizer,
                lr=float(estimator.learning_rate),
                callbacks=list(estimator.callbacks or []),
                classes=np.arange(len(estimator.classes_)),
                train_split=None,
                verbose=estimator.verbose,
                device=str(device),
                # skorch's cache requires minibatches (X, y). Our minibatches also contain weights.
                use_caching=False,
                **params,
            ).initialize()
            known = dict(net.callbacks_)
            for key in params:
                part, name, argument = [*key.split("__", 2), "", ""][:3]
                if part == "callbacks" and argument and name not in known:
                    raise ValueError(f"{key} must name a callback in {[*known]}; got {name!r}")
        except (TypeError, ValueError) as error:
            if not net_params:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"net_params={net_params!r} are not allowed: {error}") from error
        net.keep_rng_state()
    # Use a separate seed, so that noise in the loss does not depend on the order of minibatches.
    if objective.draws:
        net.criterion_.seed(torch.Generator(device).manual_seed(seed + 1))
    if compiled:
        net.module_.compile()
    return net


def _build_module(module, sizes, n_members, params, generator):
    # Create weights in float32, so that they do not depend on torch's default dtype.
    own = {"dtype": torch.float32, "generator": generator} if module in OURS else {}
    packed = {"n_members": n_members} if n_members > 1 and packs_members(module) else {}

    def build():
        try:
            built = module(*sizes, **own, **packed, **params)
        except TypeError:
            check_call(module, "module", "n_features", "n_outputs", **packed, **params)
            raise
        if not isinstance(built, torch.nn.Module):
            raise TypeError(f"module must build an nn.Module; got {type(built).__name__}")
        if any(torch.nn.parameter.is_lazy(p) for p in built.parameters()):
            raise ValueError("module must not have lazy layers: give each layer its input size")
        return built

    networks = [build() for _ in range(1 if packed else n_members)]
    if module not in OURS:
        with torch.random.fork_rng(devices=[]):
            other = networks[1] if len(networks) > 1 else build()
        if _tensors(networks[0]) & _tensors(other):
            # `module` returns the same layers each time, such as a trained network: train copies.
            networks = [copy.deepcopy(each) for each in networks]
    return networks[0] if n_members == 1 or packed else Members(networks)


def _tensors(network):
    return {*map(id, [*network.parameters(), *network.buffers()])}


def with_other_values(X, shown):
    first, found = shown[0].numpy(), [np.zeros(0, dtype=np.intp)]
    constant = np.flatnonzero((shown == shown[0]).all(0).numpy())
    if len(shown) < X.shape[0] and len(constant) and (isinstance(X, np.ndarray) or issparse(X)):
        for part in chunks(*X.shape[:2]):
            rows = X[part][:, constant]
            rows = (rows.toarray() if issparse(rows) else rows).astype(first.dtype)
            found.append(part.start + np.flatnonzero((rows != first[constant]).any(axis=1)))
    return torch.from_numpy(np.concatenate(found)[: len(shown)])


def show_data(net, X, weight):
    """Pass training samples to the method `from_data` of the network or of its encoders."""
    module = net.module_
    asking = []
    for one in module if isinstance(module, Members) else [module]:
        encoders = [part for part in one.modules() if isinstance(part, TableEncoder)]
        asking += [one] if hasattr(one, "from_data") else encoders
    if asking:
        rows = Rows(X, torch.device("cpu"), net.settings.row_dtype)
        index = spread_rows(X.shape[0], min(MOST_SHOWN, MOST_NUMBERS // X.shape[1] + 1))
        shown = rows[index]
        # A column that is constant in `shown` can vary in X. Then add samples with other values.
        if len(more := with_other_values(X, shown)):
            index, shown = torch.cat([index, more]), torch.cat([shown, rows[more]])
        for one in asking:
            ours = isinstance(one, TabularMLP | TableEncoder)
            one.from_data(shown, *([torch.from_numpy(weight[index.numpy()])] if ours else []))
        share_buffers(module)
