"""Construction of a net from the parameters of an estimator."""

import inspect
from contextlib import nullcontext

import numpy as np
import torch

from sktopk._common._scalars import check_call
from sktopk.modules import MLP, TabularMLP
from sktopk.modules._members import Members, packs_members

from ._custom_loss import CustomLoss
from ._net import Net, Settings
from ._process import isolated_rng, rng_state

# Networks that take a random generator instead of using torch's global one.
OURS = (MLP, TabularMLP)
PRECISIONS = {None: None, "bf16": "bfloat16", "bfloat16": "bfloat16"}


def takes_tables(module):
    """Return whether a network takes missing values, and categories as integers."""
    return bool(getattr(module, "takes_tables", False))


def build_net(
    module, objective, task, *,
    n_features, n_outputs, n_classes, n_members, module_params, learning_rate, weight_decay,
    callbacks, net_params, device, dtypes, verbose, seed,
):  # fmt: skip
    """Return an initialized, untrained `Net`.

    Parameters
    ----------
    module : callable
        Called as ``module(n_features, n_outputs, **module_params)``; returns an nn.Module.
    objective : Objective
    task : object
        Functions that convert scores to predictions, and settings of the training.
    net_params : dict
        Additional arguments of skorch's net, and the keys "precision" and "compile".
    dtypes : pair of str
        Data types of the weights and of X. TabularMLP scales samples in the dtype of X. Other
        networks get samples in the dtype of the weights.
    seed : int
        Seed of initial weights, dropout, minibatches and random numbers in the loss.
    """
    params = dict(net_params)
    dtype, row_dtype = (getattr(torch, name) for name in dtypes)
    precision, compiled = params.pop("precision", None), params.pop("compile", False)
    if precision not in PRECISIONS:
        allowed = ", ".join(map(repr, PRECISIONS))
        raise ValueError(f"net_params: precision must be one of {allowed}; got {precision!r}")
    optimizer = params.pop("optimizer", None)
    if optimizer is None:
        optimizer = torch.optim.AdamW
        params.setdefault("optimizer__betas", (0.9, task.training.beta2))
        if module is TabularMLP:
            # A decay of the output layer would shrink the scores, and a linear model altogether.
            last = f"layers.{len(module_params['hidden_layer_sizes'])}.*"
            params.setdefault("optimizer__param_groups", [(last, {"weight_decay": 0.0})])
    if optimizer is torch.optim.AdamW:
        # In other optimizers, weight decay is an L2 penalty with values of another size.
        params.setdefault("optimizer__weight_decay", weight_decay)
    accepted = inspect.signature(optimizer).parameters
    if "fused" in accepted and "optimizer__foreach" not in params:
        params.setdefault("optimizer__fused", True)
    # Networks in OURS take a generator. Other networks use torch's global random generator.
    draws = module not in OURS
    own = None if draws else torch.Generator().manual_seed(seed)
    for part in objective.modules():
        if isinstance(part, CustomLoss):
            # Convert tensors of a user's loss, such as class weights, to the dtype of the network.
            part.loss.to(dtype)
    with isolated_rng(device, seed=seed) if draws else nullcontext():
        built = _build_module(module, n_features, n_outputs, n_members, module_params, own)
        built.to(dtype)
        if isinstance(built, TabularMLP):
            encoder = built.encoder
            encoder.center, encoder.scale = (
                each.to(row_dtype) for each in (encoder.center, encoder.scale)
            )
        else:
            row_dtype = dtype
        settings = Settings(
            task=task,
            n_outputs=n_outputs,
            n_members=n_members,
            dtype=dtype,
            row_dtype=row_dtype,
            precision=PRECISIONS[precision],
            draws=draws,
            plain=not compiled and precision is None and device.type == "cpu",
        )
        try:
            net = Net(
                built,
                settings=settings,
                generator=torch.Generator().manual_seed(seed),
                own_generator=own,
                criterion=objective,
                optimizer=optimizer,
                lr=learning_rate,
                callbacks=list(callbacks or []),
                classes=np.arange(n_classes),
                train_split=None,
                verbose=verbose,
                device=str(device),
                # skorch's cache requires minibatches (X, y), but these minibatches have weights.
                **{"use_caching": False} | params,
            ).initialize()
        except (TypeError, ValueError) as error:
            if not net_params:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"net_params={net_params!r} are not allowed: {error}") from error
        if draws:
            net.rng_state = rng_state(device)
    # Use a separate seed, so that noise in the loss does not depend on the order of minibatches.
    if objective.draws:
        net.criterion_.seed(torch.Generator(device).manual_seed(seed + 1))
    if compiled:
        net.module_.compile()
    return net


def _build_module(module, n_features, n_outputs, n_members, params, generator):
    # Create weights in float32, so that they do not depend on torch's default dtype.
    own = {"dtype": torch.float32, "generator": generator} if module in OURS else {}
    packed = {"n_members": n_members} if n_members > 1 and packs_members(module) else {}

    def build():
        try:
            built = module(n_features, n_outputs, **own, **packed, **params)
        except TypeError:
            check_call(module, "module", "n_features", "n_outputs", **packed, **params)
            raise
        if not isinstance(built, torch.nn.Module):
            raise TypeError(f"module must build an nn.Module; got {type(built).__name__}")
        if any(torch.nn.parameter.is_lazy(p) for p in built.parameters()):
            raise ValueError("module must not have lazy layers: give each layer its input size")
        return built

    if n_members == 1 or packed:
        return build()
    return Members(build() for _ in range(n_members))
