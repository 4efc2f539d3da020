"""Measurements on a GPU: tests marked gpu, speed of losses, time of epochs, memory.

Writes one table to benchmarks/results/gpu.md, in at most 8 minutes on a large GPU. It contains

- the tests of tests/gpu, which run first;
- forward and backward pass of every loss, compared with torch's cross_entropy on the same scores.
  Both run in turns and are timed by events of the GPU, and a ratio is the median over pairs.
  smooth_topk_loss is also compiled;
- the peak memory of forward and backward pass, without the scores, divided by the memory of the
  scores;
- epochs with 37 241 samples and 100 columns (MLP 50-25 with batch normalisation), compared with a
  hand-written loop whose whole step is one CUDA graph.

`--device cpu --quick` runs the same code with small sizes, as a test.
"""

import argparse
import statistics
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from fit_speed import LR, N_SAMPLES, NETWORK, OURS, WEIGHT_DECAY, table
from loss_speed import SMOOTH, our_losses, step
from torch.nn import functional as F

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.modules import MLP

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gpu.md"
K = 5
N_CLASSES = (100, 1_000, 10_000, 100_000, 1_000_000)
BATCH_SIZES = (128, 512, 4096)
# Largest number of samples, and of scores (a gigabyte).
BATCH, N_SCORES = 256, 1 << 28
MAX_RATIO, FROM_CLASSES, MAX_MEMORY, MAX_EPOCH = 1.5, 1_000, 3.0, 1.2


class Table:
    """Rows of the table, which are printed when they are added."""

    def __init__(self):
        self.lines = []

    def write(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def row(self, *cells):
        self.write("| " + " | ".join(str(cell) for cell in cells) + " |")

    def ratio(self, what, size, peer, ours, ratio, most=None):
        """Add a row of times in milliseconds, or of memory in megabytes."""
        kept = "" if most is None else "yes" if ratio <= most else "**no**"
        numbers = ("" if value is None else f"{value:.3g}" for value in (peer, ours))
        self.row(what, size, *numbers, f"{ratio:.2f}", most or "", kept)


def milliseconds(run, device):
    """Return the milliseconds of one run, measured by the device."""
    if device.type == "cpu":
        start = perf_counter()
        run()
        return 1e3 * (perf_counter() - start)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def in_turns(runs, device, repeats):
    """Return the median time of each run, and the median ratio to the first run."""
    for run in runs:
        for _ in range(3):
            run()
    turns = [[milliseconds(run, device) for run in runs] for _ in range(repeats)]
    times = [statistics.median(column) for column in zip(*turns, strict=True)]
    ratios = (statistics.median(turn[i] / turn[0] for turn in turns) for i in range(len(runs)))
    return times, list(ratios)


def run_tests(report, limit):
    """Run the tests marked gpu, and return their result."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    # skorch imports torch_geometric if installed, which calls torch.jit.script.
    command += ["-W", "ignore:`torch.jit:DeprecationWarning"]
    try:
        run = subprocess.run(
            [*command, "tests/gpu"], cwd=ROOT, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        report.row("tests marked gpu", "", "", "", "", "", f"**not done in {limit:.0f} s**")
        return
    # Without a summary, the last line of stderr says why pytest did not start.
    lines = (run.stdout.strip() or run.stderr.strip() or "no output").splitlines()
    outcome = lines[-1].strip("= ")
    kept = "**no**" if run.returncode else "yes" if "passed" in outcome else ""
    report.row("tests marked gpu", outcome, "", "", "", "", kept)
    if run.returncode:
        print(run.stdout, run.stderr, sep="\n", flush=True)


def scores_of(n_classes, device):
    generator = torch.Generator().manual_seed(0)
    n_rows = max(1, min(BATCH, N_SCORES // n_classes))
    target = torch.randint(n_classes, (n_rows,), generator=generator)
    scores = torch.randn(n_rows, n_classes, device=device)
    return scores.requires_grad_(), target.to(device)


def losses_of(n_classes, device, compiled):
    """Return the losses by their names in the table."""
    with torch.device(device):  # where the losses keep the class counts
        found = our_losses(n_classes, None) | our_losses(n_classes, K)
    smooth = found[SMOOTH]
    if compiled:
        torch.compiler.reset()
        found[f"{SMOOTH}, compiled"] = torch.compile(smooth, fullgraph=True, dynamic=False)
    return found


def report_recorded(report, n_classes, device, repeats):
    """Time losses without the time that Python needs to start operations."""
    data = scores_of(n_classes, device)
    loss = losses_of(n_classes, device, False)[SMOOTH]
    runs = [recorded(partial(step, each, *data)) for each in (F.cross_entropy, loss)]
    times, ratios = in_turns(runs, device, repeats)
    most = MAX_RATIO if n_classes >= FROM_CLASSES else None
    size = f"{len(data[1])} x {n_classes}"
    report.ratio(f"{SMOOTH}, both recorded, ms", size, *times, ratios[1], most)


def report_losses(report, n_classes, device, repeats, compiled):
    data = scores_of(n_classes, device)
    size = f"{len(data[1])} x {n_classes}"
    peer = partial(step, F.cross_entropy, *data)
    for name, loss in losses_of(n_classes, device, compiled).items():
        # Only the smooth loss has a largest allowed ratio.
        bounded = name.startswith(SMOOTH) and n_classes >= FROM_CLASSES
        try:
            times, ratios = in_turns([peer, partial(step, loss, *data)], device, repeats)
            memory = peak_memory(loss, data, device)
        except torch.OutOfMemoryError:
            report.row(f"{name}, ms", size, "", "", "out of memory", "", "")
            continue
        report.ratio(f"{name}, ms", size, *times, ratios[1], MAX_RATIO if bounded else None)
        if memory is not None and name.startswith(SMOOTH):
            size_of = data[0].nbytes
            most = MAX_MEMORY if n_classes >= FROM_CLASSES else None
            megabytes = (size_of / 1e6, memory / 1e6)
            report.ratio(f"{name}, peak MB", size, *megabytes, memory / size_of, most)


def recorded(run):
    """Run a function once, record it as a CUDA graph, and return a function that replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def peak_memory(loss, data, device):
    """Return the peak bytes of forward and backward pass. The scores do not count."""
    if device.type == "cpu":
        return None
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step(loss, *data)
    return torch.cuda.max_memory_allocated(device) - before


class LoopByHand:
    """A fast loop as a torch user would write it: the whole step is one CUDA graph."""

    def __init__(self, X, y, batch_size, device):
        self.X, self.y = torch.from_numpy(X).to(device), torch.from_numpy(y).to(device)
        self.module = MLP(X.shape[1], int(y.max()) + 1, **NETWORK).to(device)
        self.index = torch.zeros(batch_size, dtype=torch.long, device=device)
        options = {"lr": LR, "weight_decay": WEIGHT_DECAY, "fused": True}
        on_gpu = device.type == "cuda"
        self.optimizer = torch.optim.Adam(self.module.parameters(), capturable=on_gpu, **options)
        self.replay = recorded(self.step) if on_gpu else self.step

    def step(self):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.module(self.X[self.index]), self.y[self.index])
        loss.backward()
        self.optimizer.step()

    def epoch(self):
        # Samples after the last whole minibatch are not used in this epoch.
        order = torch.randperm(len(self.X), device=self.X.device)
        for index in order[: len(order) // len(self.index) * len(self.index)].split(
            len(self.index)
        ):
            self.index.copy_(index)
            self.replay()


def report_epochs(report, n_samples, batch_size, device, epochs, compiled):
    X, y = table(n_samples)
    loop = LoopByHand(X, y, batch_size, device)
    loop.epoch()
    by_hand = statistics.median(milliseconds(loop.epoch, device) for _ in range(epochs))
    size = f"{n_samples} x {X.shape[1]}, batches of {batch_size}"
    loop.replay = loop.step
    plain = statistics.median(milliseconds(loop.epoch, device) for _ in range(epochs))
    report.ratio(
        "epoch, cross-entropy by hand without a graph, ms", size, by_hand, plain, plain / by_hand
    )
    params = {"batch_size": batch_size, "max_epochs": epochs + 1, "device": str(device), **OURS}
    classifiers = {
        "cross_entropy": (TopKClassifier("cross_entropy", **params), y),
        "cross_entropy, compiled": (
            TopKClassifier("cross_entropy", **params).set_params(
                net_params=params["net_params"] | {"compile": compiled}
            ),
            y,
        ),
        "smooth_topk": (TopKClassifier("smooth_topk", k=K, **params), y),
        "DeepTopPush": (DeepTopPushClassifier(**params), (y == 0).astype(int)),
    }
    for name, (clf, target) in classifiers.items():
        if name.endswith("compiled") and not compiled:
            continue
        clf.fit(X, target)
        ours = 1e3 * statistics.median(row["dur"] for row in clf.history_[1:])
        most = MAX_EPOCH if name.startswith("cross_entropy") else None
        report.ratio(f"epoch, {name}, ms", size, by_hand, ours, ours / by_hand, most)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing compiled")
    parser.add_argument("--seconds", type=float, default=480, help="begin nothing after this time")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/gpu.md of a GPU")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    begun, device = perf_counter(), torch.device(args.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"

    report = Table()
    report.write(f"# On a GPU (`benchmarks/gpu.py`{', quick' if args.quick else ''})\n")
    report.write(
        f"{name}, torch {torch.__version__}, float32, medians. Losses are compared with "
        "torch's cross_entropy, peak memory with the memory of the scores, and epochs with a "
        "hand-written loop whose step is one CUDA graph. The last columns have the largest "
        "allowed ratio, and whether it is kept.\n"
    )
    report.row("what", "size", "peer", "sktopk", "sktopk / peer", "at most", "kept")
    report.row(*["---"] * 7)
    run_tests(report, args.seconds / 2)
    repeats, epochs, n_samples = (2, 2, 1_000) if args.quick else (30, 5, N_SAMPLES)
    n_sizes, compiled = (1, False) if args.quick else (None, True)
    jobs = [
        partial(report_epochs, report, n_samples, size, device, epochs, compiled)
        for size in BATCH_SIZES[:n_sizes]
    ]
    jobs += [
        partial(report_losses, report, n_classes, device, repeats, compiled)
        for n_classes in N_CLASSES[:n_sizes]
    ]
    if device.type == "cuda":
        more = [partial(report_recorded, report, n, device, repeats) for n in N_CLASSES]
        jobs[len(BATCH_SIZES) : len(BATCH_SIZES)] = more
    for i, job in enumerate(jobs):
        if perf_counter() - begun > args.seconds:
            report.row(f"{len(jobs) - i} more measurements", "", "", "", "out of time", "", "")
            break
        job()
    report.write(f"\n{perf_counter() - begun:.0f} s in all.")
    output = args.output or (RESULTS if device.type == "cuda" else None)
    if output:
        output.write_text("\n".join(report.lines) + "\n")


if __name__ == "__main__":
    main()
