"""Time and memory of forward and backward pass of multi-class losses, compared with cross-entropy.

A loss and torch's cross_entropy run in turns on the same scores, so a slow minute of the machine
affects both. A ratio is the median over pairs of runs. If --limit seconds are too short for all
pairs, the number of pairs is in brackets.

Memory is the peak memory of one forward and backward pass, measured in a new process for each case.
After a first run, Linux's peak (VmHWM) is reset to the resident memory. The gradient counts, the
scores do not.
"""

import argparse
import contextlib
import ctypes
import importlib.util
import inspect
import io
import multiprocessing
import os
import shutil
import statistics
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from torch.nn import functional as F

from sktopk import losses
from sktopk.losses._cross_entropy import cross_entropy_loss

BATCH = 256
N_CLASSES = (100, 1_000, 10_000, 100_000)
KS = (1, 5, 10, 50)
SIGMA, N_NOISE = 0.2, 10
SMOOTH = "smooth_topk_loss"
CROSS_ENTROPY = "torch cross_entropy"
PEERS = ("difftopk", "pytopk")
PEER_SMOOTH = "difftopk SmoothHardTopKLoss"
# Larger sizes take minutes and gigabytes with the published losses.
MAX_PEER_CLASSES, MAX_PEER_CLASSES_TIMES_K = 10_000, 100_000
# (n_classes, k) -> allowed time of smooth_topk_loss over cross-entropy, uncompiled and compiled.
BOUNDS = {
    (100, 5): (None, None),
    (1_000, 5): (10, 4),
    (10_000, 5): (6, 3),
    (100_000, 5): (5, 2),
    (1_000, 50): (40, None),
}
MIN_SPEEDUP, MAX_MEMORY = 50, 8


def our_losses(n_classes, k):
    """Return the losses with parameter k, or the losses without it for k=None."""
    counts = {"class_counts": torch.arange(1.0, n_classes + 1)}
    noise = {"sigma": SIGMA, "n_noise": N_NOISE}
    parameters = {
        "cross_entropy_loss": {},
        "focal_loss": {},
        "ldam_loss": counts,
        "logit_adjusted_loss": counts,
        "smooth_topk_adjusted_loss": counts,
        SMOOTH: {},
        "topk_hinge_loss": {},
        "topk_hinge_convex_loss": {},
        "topk_hinge_calibrated_loss": {},
        "topk_grouping_loss": {},
        "topk_transition_loss": {},
        "noised_topk_loss": noise,
        "noised_topk_imbalanced_loss": counts | noise,
    }
    found = {}
    for name, values in parameters.items():
        function = getattr(losses, name, cross_entropy_loss)  # the only one that is not public
        has_k = "k" in inspect.signature(function).parameters
        if has_k == (k is not None):
            found[name] = partial(function, **values, **({"k": k} if has_k else {}))
    return found


def published_losses(n_classes, k):
    """Return the published implementations that are installed and run for this size."""
    found = {}
    if k is None or n_classes > MAX_PEER_CLASSES or n_classes * k > MAX_PEER_CLASSES_TIMES_K:
        return found
    with contextlib.suppress(ImportError):
        with contextlib.redirect_stdout(io.StringIO()):  # difftopk prints which packages it lacks
            import difftopk

        if k > 1:  # difftopk has another loss for k = 1
            found[PEER_SMOOTH] = difftopk.SmoothHardTopKLoss(n_classes, k)
        m = max(16, 2 * k)  # number of sorted classes; 16 is in the paper, for k = 5
        for method in ("softsort", "bitonic__non_sparse"):
            found[f"difftopk TopKCrossEntropyLoss, {method}"] = difftopk.TopKCrossEntropyLoss(
                method, 1.0, [0.0] * (k - 1) + [1.0], n_classes, m, "cauchy"
            )
    with contextlib.suppress(ImportError):
        import pytopk

        counts = list(range(1, n_classes + 1))
        found["pytopk BalNoisedTopK"] = pytopk.BalNoisedTopK(k, SIGMA, N_NOISE)
        found["pytopk ImbalNoisedTopK"] = pytopk.ImbalNoisedTopK(
            k, SIGMA, 0.2, counts, n_sample=N_NOISE
        )
    return found


def batch(n_classes):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(BATCH, n_classes, generator=generator)
    return scores.requires_grad_(), torch.randint(n_classes, (BATCH,), generator=generator)


def step(loss, scores, target):
    return torch.autograd.grad(loss(scores, target), scores)


def seconds(loss, data):
    start = perf_counter()
    step(loss, *data)
    return perf_counter() - start


class Timer:
    """Runs losses in turns: `repeats` times, or until `limit` seconds, but at least 3 times."""

    def __init__(self, repeats, limit):
        self.repeats = repeats
        self.limit = limit

    def __call__(self, *runs, data):
        """Return a tuple of seconds for each turn, in the order of `runs`."""
        for run in runs:
            step(run, *data)
        turns, start = [], perf_counter()
        # The first turn is not measured. A compiled loss compiles in it.
        while len(turns) <= self.repeats and (
            len(turns) <= 3 or perf_counter() - start < self.limit
        ):
            turns.append(tuple(seconds(run, data) for run in runs))
        return turns[1:]


def show_ratio(turns, run, repeats):
    """Return the median ratio to the first run of a turn, with the number of turns if reduced."""
    ratio = statistics.median(turn[run] / turn[0] for turn in turns)
    count = f" ({len(turns)})" if len(turns) < repeats else ""
    return f"{ratio:.{1 if ratio < 100 else 0}f}{count}"


def milliseconds(turns, run=0):
    return f"{1e3 * statistics.median(turn[run] for turn in turns):.2f}"


def print_row(*cells):
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def print_header(title, *cells):
    print(f"\n{title}\n")
    print_row(*cells)
    print_row(*("---" for _ in cells))


def report_bounds(timer):
    """Print times of smooth_topk_loss, uncompiled and compiled, and the allowed times."""
    compiler = os.environ.get("CXX", "g++")
    can_compile = shutil.which(compiler) is not None
    print_header(
        f"{SMOOTH}, times {CROSS_ENTROPY}",
        *("n_classes", "k", "cross-entropy, ms", "uncompiled", "at most", "compiled", "at most"),
    )
    for (n_classes, k), (bound, compiled_bound) in BOUNDS.items():
        eager = partial(losses.smooth_topk_loss, k=k)
        runs = [F.cross_entropy, eager]
        if k == 5 and can_compile:
            torch.compiler.reset()
            runs.append(torch.compile(eager, fullgraph=True))
        turns = timer(*runs, data=batch(n_classes))
        compiled = show_ratio(turns, 2, timer.repeats) if len(runs) > 2 else ""
        print_row(
            *(n_classes, k, milliseconds(turns), show_ratio(turns, 1, timer.repeats), bound or ""),
            *(compiled, compiled_bound or ""),
        )
    if not can_compile:
        print(
            f"\nNothing is compiled: torch.compile needs a C++ compiler, and finds no {compiler}."
        )


def report_speedup(timer):
    """Compare the published smooth loss with ours."""
    print_header(
        f"{PEER_SMOOTH} (the port of the published smooth loss) against {SMOOTH}",
        *("n_classes", "k", "published, ms", "sktopk, ms", "times faster", "aim"),
    )
    for n_classes, k in ((1_000, 5), (1_000, 50), (10_000, 5)):
        published = published_losses(n_classes, k)[PEER_SMOOTH]
        ours = our_losses(n_classes, k)[SMOOTH]
        turns = timer(ours, published, data=batch(n_classes))
        print_row(
            *(n_classes, k, milliseconds(turns, 1), milliseconds(turns)),
            *(show_ratio(turns, 1, timer.repeats), MIN_SPEEDUP if n_classes == 1_000 else ""),
        )


def report_losses(timer):
    """Print the times of every loss at every size."""
    for n_classes in N_CLASSES:
        data = batch(n_classes)
        columns = [None] + [k for k in KS if k < n_classes / 2]
        cells, every_turn = {}, []
        for k in columns:
            for name, loss in (our_losses(n_classes, k) | published_losses(n_classes, k)).items():
                turns = timer(F.cross_entropy, loss, data=data)
                cells.setdefault(name, {})[k] = show_ratio(turns, 1, timer.repeats)
                every_turn += turns
        print_header(
            f"n_classes = {n_classes:,}: times {CROSS_ENTROPY} ({milliseconds(every_turn)} ms)",
            *("loss", "without k", *(f"k = {k}" for k in columns[1:])),
        )
        for name, row in cells.items():
            print_row(name, *(row.get(k, "") for k in columns))


def status_bytes(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def peak_memory(name, n_classes, k, threads):
    """Return the peak additional bytes of forward and backward; call it in a separate process."""
    torch.set_num_threads(threads)
    every = our_losses(n_classes, k) | published_losses(n_classes, k)
    return peak_of(every.get(name, F.cross_entropy), batch(n_classes))


def peak_of(loss, data):
    """Return the median of the peak additional bytes of a step, without the first step."""
    peaks = []
    for _ in range(4):
        # Memory that the C library keeps from the previous call would hide the memory of the next.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = status_bytes("VmRSS")
        step(loss, *data)
        peaks.append(status_bytes("VmHWM") - before)
    return statistics.median(peaks[1:])


def report_memory(threads, cases):
    if not Path("/proc/self/clear_refs").exists():
        print("\nMemory is measured through /proc/self/clear_refs, which only Linux has.")
        return
    print_header(
        "Peak extra memory, times the scores: VmHWM of a fresh process",
        *("loss", "n_classes", "k", "scores, MB", "times the scores", "at most"),
    )
    # For new processes: freed buffers return to the system, so they are counted once.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 16)
    pool = ProcessPoolExecutor(
        2, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with pool:
        peaks = pool.map(peak_memory, *zip(*cases, strict=True), [threads] * len(cases))
        for (name, n_classes, k), peak in zip(cases, peaks, strict=True):
            size = 4 * BATCH * n_classes
            bound = MAX_MEMORY if (name, k) == (SMOOTH, 5) else ""
            print_row(name, n_classes, k or "", f"{size / 1e6:.1f}", f"{peak / size:.1f}", bound)


def memory_cases(quick):
    """(name, n_classes, k) of the table of memory."""
    cases = [(SMOOTH, n_classes, k) for n_classes, k in BOUNDS]
    if quick:
        return cases
    cases += [(CROSS_ENTROPY, n_classes, None) for n_classes in (1_000, 100_000)]
    cases += [
        (name, 10_000, k)
        for k in (None, 5)
        for name in our_losses(10_000, k) | published_losses(10_000, k)
        if name != SMOOTH
    ]
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only smooth_topk_loss, its bounds")
    parser.add_argument(
        "--repeats", type=int, default=30, help="number of pairs of runs for a ratio"
    )
    parser.add_argument(
        "--limit", type=float, default=0.5, help="seconds after which 3 pairs suffice"
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    print(
        f"torch {torch.__version__}, {args.threads} threads, batch {BATCH}, float32, "
        f"forward and backward, medians of {args.repeats} pairs (fewer: in brackets)"
    )
    timer = Timer(args.repeats, args.limit)
    if os.getloadavg()[0] > 0.5:
        print(
            "\nOther programs kept the machine busy in the last minute: while they run, threads "
            "wait for each other, and ratios mean little."
        )
    report_bounds(Timer(args.repeats, 10 * args.limit))
    for name in PEERS:
        if importlib.util.find_spec(name) is None:
            print(f"\nWithout {name}, which `pip install sktopk[bench]` brings.")
    if importlib.util.find_spec("difftopk") is not None:
        report_speedup(timer)
    if not args.quick:
        report_losses(timer)
    report_memory(args.threads, memory_cases(args.quick))


if __name__ == "__main__":
    main()
