"""A net from a task, and a look at what its network returns before it trains."""

import inspect

import numpy as np
import torch

from sktopk.modules import ScaledScores
from sktopk.modules._mlp import takes_sparse

from ._candidates import CandidateNet
from ._net import Net
from ._process import isolated_rng, rng_state
from .criteria._sampled import SampledLoss


def build_net(task, seed):
    """Return the untrained net of a task, its weights drawn with `seed`."""
    params = {"optimizer__weight_decay": task.weight_decay, "optimizer__fused": True}
    if "optimizer__foreach" in task.net_params:  # the other fast path, which excludes this one
        del params["optimizer__fused"]
    accepted = inspect.signature(task.optimizer).parameters
    params = {k: v for k, v in params.items() if k.split("__")[1] in accepted} | task.net_params
    kind = CandidateNet if isinstance(task.criterion, SampledLoss) else Net
    with isolated_rng(task.device, seed=seed):
        net = kind(
            _build_module(task).to(task.dtype),
            criterion=task.criterion.to(task.dtype),
            optimizer=task.optimizer,
            lr=task.learning_rate,
            callbacks=task.callbacks,
            classes=np.arange(task.n_classes),
            train_split=None,
            verbose=task.verbose,
            device=str(task.device),
            use_caching=False,
            **params,
        ).initialize()
        net.rng_state = rng_state(task.device)
    net.dtype, net.draws, net.precision = task.dtype, task.draws, task.precision
    net.n_outputs = task.n_outputs
    net.generator = torch.Generator().manual_seed(seed)
    # Noise is not the order of the rows: a seed of its own.
    net.criterion_.seed(torch.Generator(task.device).manual_seed(seed + 1))
    if task.compile:
        net.module_.compile()
        if net.criterion_.is_mean:
            net.criterion_.compile()
    plain = not task.compile and task.precision is None and task.device.type == "cpu"
    net.takes_sparse = plain and takes_sparse(net.network)
    return net


def _build_module(task):
    module = task.module(task.n_features, task.n_outputs, **task.module_params)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must build an nn.Module; got {type(module).__name__}")
    if any(torch.nn.parameter.is_lazy(p) for p in module.parameters()):
        raise ValueError("module must not have lazy layers: give each layer its input size")
    if task.score_scale == 1:
        return module
    return ScaledScores(module, task.n_outputs, task.score_scale)


def probe(net, X):
    """Check what the network returns for two rows."""
    rows = net.rows(X[:2])
    net.module_.eval()
    try:
        # Not by a call, which would compile a graph for two rows.
        with net.autocast():
            scores = net.network.forward(rows[:])
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"module fails on rows of shape {rows.shape[1:]}: {error}") from error
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        is_tensor = isinstance(scores, torch.Tensor)
        came = f"a Tensor of {scores.dtype}" if is_tensor else type(scores).__name__
        raise TypeError(f"module must return a Tensor of floating point scores; got {came}")
    if not scores.requires_grad:
        raise ValueError(
            "module must return scores with a gradient; got scores that do not depend on its "
            "parameters, or are detached from them"
        )
    n_rows = len(rows)
    if tuple(scores.shape) not in {(n_rows, net.n_outputs), (n_rows,) * (net.n_outputs == 1)}:
        raise ValueError(
            f"module must return scores of shape (n_samples, {net.n_outputs}), one per "
            f"class, or per row of two classes that are ranked; got shape "
            f"{tuple(scores.shape)} for {n_rows} rows"
        )
    net.check_last_layer(rows)
