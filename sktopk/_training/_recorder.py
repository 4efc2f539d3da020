"""Training steps on a GPU, recorded as CUDA graphs."""

import threading
from collections import Counter
from contextlib import contextmanager
from functools import cache

import torch

from sktopk._common._process import is_parallel, unused_rng
from sktopk.modules._tabular_mlp import Dropout, has_hooks

# Record a CUDA graph after this number of steps with minibatches of the same shape.
N_BEFORE = 3
# No thread replays a CUDA graph while another thread records one.
_RECORDING = threading.Lock()
# cuBLAS keeps memory for each stream, so there is one stream for each GPU.
_stream = cache(torch.cuda.Stream)


def can_record(net, batches):
    """Return True if all training steps run the same GPU operations and call no user code."""
    layers = list(net.module_.modules())
    return (
        batches.rows.resident
        and batches.groups is None
        and net.settings.plain
        and net.own_generator is not None  # true only for networks of sktopk
        # Dropout cannot be recorded, because its seeds are drawn on the CPU.
        and not any(isinstance(each, Dropout) and each.p for each in layers)
        and not any(map(has_hooks, layers))
        and net.criterion_.is_fixed
        and type(net.optimizer_) in (torch.optim.Adam, torch.optim.AdamW)
        and all(group["fused"] for group in net.optimizer_.param_groups)
        and not net.callbacks_read_batches()
        and not net.listeners("on_grad_computed")
        and not torch.is_anomaly_enabled()
        and not is_parallel()
    )


class Recorder:
    """Makes training steps, records them as CUDA graphs, and replays them.

    For a small network, the GPU computes the operations of a step in about a tenth of the time that
    Python needs to start them. A CUDA graph starts all operations at once, and reads each minibatch
    from the same memory. New minibatch shapes, betas, eps or weight decay need another graph.
    """

    def __init__(self, net, batches):
        self._net, self._batches = net, batches
        self._groups = net.optimizer_.param_groups
        device = batches.target.device
        # CUDA graphs read learning rates from tensors, which the optimizer requires to be float32.
        self._rates = [torch.empty((), dtype=torch.float32, device=device) for _ in self._groups]
        self._n_steps, self._graphs, self._pool = Counter(), {}, torch.cuda.graph_pool_handle()

    def step(self, fetched):
        """Make a training step. `fetched` is an item of `MiniBatches.fetched`."""
        index, own, lengths, _ = fetched
        hard, n_hard = self._batches.hard, self._batches.n_hard
        kind = len(index), None if own is None else own.shape, *lengths, hard.data_ptr()
        kind += tuple((*each["betas"], each["weight_decay"], each["eps"]) for each in self._groups)
        for rate, group in zip(self._rates, self._groups, strict=True):
            rate.fill_(group["lr"])
        if kind not in self._graphs:
            self._n_steps[kind] += 1
            is_regular = len({*lengths}) == 1 and hard.shape[1] == n_hard
            with self._rates_on_gpu(), unused_rng() as is_free:
                if not is_regular or self._n_steps[kind] <= N_BEFORE or not is_free:
                    return self._net.train_step(self._batches.batch(*fetched))
                self._graphs[kind] = self._recorded(index, own, lengths)
        graph, places, (loss, scores, threshold) = self._graphs[kind]
        for place, values in zip(places, (index, own), strict=True):
            if values is not None:
                place.copy_(values)
        with _RECORDING:
            graph.replay()
        return loss.clone(), scores, None if threshold is None else threshold.clone()

    def _recorded(self, index, own, lengths):
        """Record a graph without running it. Return the graph, its input and its output tensors."""
        graph, device = torch.cuda.CUDAGraph(), index.device
        places = index.clone(), None if own is None else own.clone()
        if self._net.criterion_.draws:
            graph.register_generator_state(self._net.criterion_.generator)
        # With "thread_local", another thread may use the GPU in the meantime.
        options = {"stream": _stream(device), "capture_error_mode": "thread_local"}
        recording = torch.cuda.graph(graph, pool=self._pool, **options)
        with _RECORDING, torch.cuda.device(device), recording:
            results = self._net.train_step(self._batches.batch(*places, lengths, None))
        return graph, places, results

    @contextmanager
    def _rates_on_gpu(self):
        """Use tensors as learning rates here, because a CUDA graph would keep numbers constant."""
        before = [{key: group[key] for key in ("lr", "capturable")} for group in self._groups]
        for group, rate in zip(self._groups, self._rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            yield
        finally:
            for group, values in zip(self._groups, before, strict=True):
                group.update(values)

    def release(self):
        """Delete gradients, hard examples and threshold: they keep memory of CUDA graphs in use."""
        self._net.optimizer_.zero_grad()
        self._net.criterion_.named.hardest = self._net.criterion_.named.threshold_now = None
