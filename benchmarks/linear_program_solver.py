"""Time and memory of linear_program on one training program, next to HiGHS.

    python benchmarks/linear_program_solver.py > benchmarks/results/linear_program_solver.md

The program is precision at recall: the least sum of hinges of the negatives at a threshold
where the hinges of the positives sum to (1 - recall) n_pos. It has n + 1 variables and 2n + 1
rows; a tenth of the n scores is positive. A run is the optimum and its gradient in the scores,
in float64. All sizes and solvers run in turns; a time is the median over --repeats turns.

Memory is the high-water mark of a process made for one case: warm code, then VmHWM reset to
the resident memory, then one run.
"""

import argparse
import ctypes
import multiprocessing
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from loss_speed import print_row, status_bytes

from sktopk.losses import linear_program

RECALL = 0.8
SOLVERS = {"newton, sparse": ("newton", True), "newton, dense": ("newton", False)}
SOLVERS["HiGHS, sparse"] = ("highs", True)
# A step with a dense matrix takes of the order of n^3 operations, seconds from here on.
MAX_DENSE = 512


def rows_of_program(n, *, sparse):
    """The matrix of the variables t, z: z_i >= 1 -+ (s_i - t), z >= 0, 1'z_pos <= allowed."""
    row, n_positives = torch.arange(n), n // 10
    sign = torch.where(row < n_positives, 1.0, -1.0).double()
    ones = torch.ones(n, dtype=torch.float64)
    entries = (
        (row, torch.zeros_like(row), sign),
        (row, 1 + row, -ones),
        (n + row, 1 + row, -ones),
        (torch.full((n_positives,), 2 * n), 1 + row[:n_positives], ones[:n_positives]),
    )
    rows, columns, values = (torch.cat(parts) for parts in zip(*entries, strict=True))
    matrix = torch.sparse_coo_tensor(
        torch.stack([rows, columns]), values, (2 * n + 1, n + 1), check_invariants=True
    ).coalesce()
    return sign, matrix if sparse else matrix.to_dense()


def run(solver, scores):
    """Return the seconds and the result of one program with its gradient."""
    method, sparse = SOLVERS[solver]
    n = len(scores)
    sign, A_ub = rows_of_program(n, sparse=sparse)
    allowed = scores.new_tensor([(1 - RECALL) * (n // 10)])
    costs = (sign < 0).double()
    start = perf_counter()
    right_side = torch.cat([sign * scores - 1, torch.zeros_like(scores), allowed])
    result = linear_program(
        torch.cat([allowed.new_zeros(1), costs]), A_ub, right_side, method=method
    )
    torch.autograd.grad(result.fun, scores)
    return perf_counter() - start, result


def random_scores(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dtype=torch.float64, generator=generator).requires_grad_()


def peak_megabytes(solver, n):
    """Peak extra memory of one run; to be called in a process of its own."""
    torch.set_num_threads(1)
    scores = random_scores(n)
    peaks = []
    for _ in range(3):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = status_bytes("VmRSS")
        run(solver, scores)
        peaks.append(status_bytes("VmHWM") - before)
    return statistics.median(peaks[1:]) / 1e6  # the first run warms the code


def solvers_for(n):
    return [name for name, (_, sparse) in SOLVERS.items() if sparse or n <= MAX_DENSE]


def measure(sizes, repeats):
    """Return the seconds of every turn and the last result, by size and solver."""
    cases = [(n, name) for n in sizes for name in solvers_for(n)]
    seconds, results = {case: [] for case in cases}, {}
    for turn in range(repeats + 1):
        for n, name in cases:
            duration, results[n, name] = run(name, random_scores(n, turn))
            seconds[n, name] += [duration] if turn else []  # the first turn warms the code
    return seconds, results


def memory_of(n):
    """Return the peak of each solver, each in a process of its own."""
    names = solvers_for(n)
    if not Path("/proc/self/clear_refs").exists():
        return {}
    pool = ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with pool:
        return dict(zip(names, pool.map(partial(peak_megabytes, n=n), names), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256, 512, 1024, 2048])
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    # Buffers return to the system when freed, and count once.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 16)
    print("# linear_program on precision at recall: time and memory\n")
    print(
        f"torch {torch.__version__}, 1 thread, float64, optimum and gradient, medians of "
        f"{args.repeats} turns\n"
    )
    if os.getloadavg()[0] > 0.5:
        print("Other programs kept the machine busy in the last minute.\n")
    columns = [f"{name}, {unit}" for unit in ("ms", "MB") for name in SOLVERS]
    print_row("scores", "Newton steps", *columns, "relative difference to HiGHS")
    print_row(*["---"] * (3 + len(columns)))
    seconds, results = measure(args.sizes, args.repeats)
    for n in args.sizes:
        names, memory = solvers_for(n), memory_of(n)
        newton, exact = results[n, "newton, sparse"], results[n, "HiGHS, sparse"].fun
        difference = ((newton.fun - exact) / exact).abs().item()
        milliseconds = {name: 1e3 * statistics.median(seconds[n, name]) for name in names}
        print_row(
            *(n, newton.n_iter.item()),
            *(f"{milliseconds[name]:.1f}" if name in names else "" for name in SOLVERS),
            *(f"{memory[name]:.1f}" if name in memory else "" for name in SOLVERS),
            f"{difference:.0e}",
        )
    first, last = args.sizes[0], args.sizes[-1]
    pairs = zip(seconds[last, "newton, sparse"], seconds[first, "newton, sparse"], strict=True)
    growth = statistics.median(long / short for long, short in pairs)
    print(
        f"\nFrom {first} to {last} scores, {last / first:g} times as many, sparse Newton takes "
        f"{growth:.1f} times as long (median of the ratios within a turn; at most linear: "
        f"{last / first:g})."
    )


if __name__ == "__main__":
    main()
