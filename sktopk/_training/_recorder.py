"""Training steps of a GPU, recorded as CUDA graphs."""

import threading
from collections import Counter
from contextlib import contextmanager

import torch

from sktopk._common._process import world_size
from sktopk.modules import MLP, TabularMLP
from sktopk.modules._tabular_mlp import Dropout, has_hooks

from ._objectives import CustomLoss

# Number of steps with minibatches of one shape, before the next such step is recorded.
N_BEFORE = 3
# Threads that train at the same time record one after the other.
_RECORDING = threading.Lock()


def can_record(net, batches):
    """Return whether each step runs the same operations, all on the GPU and known to sktopk."""
    layers = list(net.module_.modules())
    return (
        torch.device(net.device).type == "cuda"
        and batches.rows.resident
        and batches.groups is None
        and net.settings.plain
        and type(net.module_) in (MLP, TabularMLP)
        # Dropout draws its seeds on the CPU.
        and not any(isinstance(each, Dropout) and each.p for each in layers)
        and not any(map(has_hooks, layers))
        and not any(isinstance(each, CustomLoss) for each in net.criterion_.modules())
        and type(net.optimizer_) in (torch.optim.Adam, torch.optim.AdamW)
        and all(group["fused"] for group in net.optimizer_.param_groups)
        and not net.callbacks_read_batches()
        and not net.listeners("on_grad_computed")
        and world_size() == 1
    )


class Recorder:
    """Makes training steps, records them as CUDA graphs, and replays them.

    Python needs about ten times as long to start the operations of a step as the GPU to compute
    them, if the network is small. A graph starts all of them at once. It always uses the same
    memory, so that each minibatch is copied there. Each shape of minibatches has its own graph.
    """

    def __init__(self, net, batches):
        self._net, self._batches = net, batches
        self._groups = net.optimizer_.param_groups
        self._rates = [torch.empty((), device=net.device) for _ in self._groups]
        self._n_steps, self._graphs, self._pool = Counter(), {}, torch.cuda.graph_pool_handle()

    def step(self, fetched):
        """Make a step, with an item of ``MiniBatches.fetched``. Return what `train_step` does."""
        index, own, lengths, _ = fetched
        hard, n_hard = self._batches.hard, self._batches.n_hard
        shape = len(index), None if own is None else own.shape, *lengths, hard.data_ptr()
        for rate, group in zip(self._rates, self._groups, strict=True):
            rate.fill_(group["lr"])
        if shape not in self._graphs:
            self._n_steps[shape] += 1
            is_regular = len({*lengths}) == 1 and hard.shape[1] == n_hard
            with self._rates_on_gpu():
                if not is_regular or self._n_steps[shape] <= N_BEFORE:
                    return self._net.train_step(self._batches.batch(*fetched))
                self._graphs[shape] = self._recorded(index, own, lengths)
        graph, places, (loss, scores, threshold) = self._graphs[shape]
        for place, values in zip(places, (index, own), strict=True):
            if values is not None:
                place.copy_(values)
        graph.replay()
        return loss.clone(), scores, None if threshold is None else threshold.clone()

    def _recorded(self, index, own, lengths):
        """Return a graph, which has not run yet, the tensors that it reads, and its results."""
        graph = torch.cuda.CUDAGraph()
        places = index.clone(), None if own is None else own.clone()
        if self._net.criterion_.draws:
            graph.register_generator_state(self._net.criterion_.generator)
        # Another thread may use the GPU in the meantime.
        mode = {"pool": self._pool, "capture_error_mode": "thread_local"}
        with _RECORDING, torch.cuda.graph(graph, **mode):
            results = self._net.train_step(self._batches.batch(*places, lengths, None))
        return graph, places, results

    @contextmanager
    def _rates_on_gpu(self):
        """Give the optimizer learning rates that a graph reads anew in each step."""
        before = [{key: group[key] for key in ("lr", "capturable")} for group in self._groups]
        for group, rate in zip(self._groups, self._rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            yield
        finally:
            for group, values in zip(self._groups, before, strict=True):
                group.update(values)
