"""Time and memory of loss and gradient of one minibatch, for losses that are linear programs.

    python benchmarks/linear_program.py > benchmarks/results/linear_program.md

10 % of the minibatch is positive. The closed form of each loss in float32 is compared with

- HiGHS on the same program in float64, up to a minibatch of 512 (the program of the pairs then has
  23 000 variables). The time includes building the program. The dual variables are the gradient;
- for losses of pairs, the hinges of all pairs in one dense matrix.

The losses of ten classes of equal size are averages over problems of two classes: 10 problems of
one class against the rest ("ovr" and "ovo"), or 45 pairs of classes ("mu").

The functions run in turns. A time is the median over --repeats turns, or over the turns that fit in
--limit seconds, at least 3. The last columns have the peak memory of one run, measured in a new
process for each case. After a first run, Linux's peak (VmHWM) is reset to the resident memory.
"""

import argparse
import multiprocessing
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from loss_speed import peak_of, print_row, seconds, step

from sktopk import losses
from sktopk.losses._accuracy_at_top import SURROGATES
from sktopk.losses.programs import _operating_points, _pairwise_auc, _precision
from sktopk.losses.programs._batch import split_classes

BATCHES = (64, 128, 256, 512, 4096)
COLUMNS = ("closed form", "HiGHS", "another way")
MAX_HIGHS = 512
BOUNDED_BATCH, BOUND = 512, 1  # largest allowed milliseconds of a closed form for two classes
N_CLASSES = 10
# Other losses of pairs. They are not a linear program, or several programs.
VARIANTS = [{"surrogate": name} for name in ("quadratic", "logistic", "ramp")]
VARIANTS += [{"multi_class": name} for name in ("ovr", "ovo", "mu")]


def auc_program(batch):
    return _pairwise_auc.pairwise_auc_program(*(part.unsqueeze(0) for part in batch[:3]))


def fpr_program(batch):
    return _operating_points.budget_program(batch.mirrored, budget=0.1)


# name -> parameters, and a function that returns the program of a minibatch
LOSSES = {
    "pairwise_auc_loss": ({}, auc_program),
    "fbeta_loss": ({}, partial(_operating_points.fbeta_program, beta=1.0)),
    "precision_at_recall_program_loss": (
        {"recall": 0.8},
        partial(_operating_points.budget_program, budget=0.2),
    ),
    "recall_at_fpr_loss": ({"fpr": 0.1}, fpr_program),
    "recall_at_precision_loss": (
        {"precision": 0.8},
        partial(_precision.elastic_program, precision=0.8, penalty=2.0),
    ),
    "precision_at_k_loss": ({"k": 5}, partial(_precision.precision_at_k_program, k=5)),
}


def dense_pairs(surrogate, scores, target):
    """All pairs of a batch in one matrix."""
    pairs = scores[~target] - scores[target].unsqueeze(1)
    if surrogate == "ramp":
        return (1 + pairs).clamp(0, 1).mean()
    return SURROGATES[surrogate](pairs).mean()


def by_highs(program, scores, target):
    batch = split_classes(scores.double(), target, 1.0, None)
    return losses.linear_program(**program(batch), method="highs").fun


def ways(name, variant, n_samples):
    """Return the functions that a row of the table compares, by column."""
    parameters, program = LOSSES[name]
    found = {"closed form": partial(getattr(losses, name), **parameters, **variant)}
    if not variant and n_samples <= MAX_HIGHS:
        found["HiGHS"] = partial(by_highs, program)
    if "multi_class" in variant:
        return found
    if name == "pairwise_auc_loss":
        found["another way"] = partial(dense_pairs, variant.get("surrogate", "hinge"))
    return found


def random_batch(n_samples, variant):
    generator = torch.Generator().manual_seed(0)
    if "multi_class" in variant:
        target = torch.randperm(n_samples, generator=generator) % N_CLASSES
        return torch.randn(n_samples, N_CLASSES, generator=generator).requires_grad_(), target
    target = torch.randperm(n_samples, generator=generator) < n_samples // 10
    scores = torch.randn(n_samples, generator=generator) + target
    return scores.requires_grad_(), target


def median_milliseconds(functions, batch, repeats, limit):
    """Run the functions in turns, and return their median times."""
    for function in functions.values():
        step(function, *batch)
    turns, start = [], perf_counter()
    while len(turns) < repeats and (len(turns) < 3 or perf_counter() - start < limit):
        turns.append([seconds(function, batch) for function in functions.values()])
    medians = map(statistics.median, zip(*turns, strict=True))
    return {name: 1e3 * median for name, median in zip(functions, medians, strict=True)}


def peak_megabytes(name, variant, n_samples, column):
    """Return the peak additional memory of one run; call it in a separate process."""
    torch.set_num_threads(1)
    return peak_of(ways(name, variant, n_samples)[column], random_batch(n_samples, variant)) / 1e6


def show(value, digits):
    return "" if value is None else f"{value:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--repeats", type=int, default=200, help="number of turns for the median")
    parser.add_argument(
        "--limit", type=float, default=2.0, help="seconds after which 3 turns suffice"
    )
    args = parser.parse_args()

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    # For new processes: freed buffers return to the system, so they are counted once.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 16)
    print("# Losses that are linear programs: time and memory\n")
    print(
        f"torch {torch.__version__}, 1 thread, loss and gradient of a batch with 10 % positives, "
        f"medians of up to {args.repeats} turns; another way: the matrix of all pairs"
    )
    if os.getloadavg()[0] > 0.5:
        print("\nOther programs used the machine in the last minute.")
    has_memory = Path("/proc/self/clear_refs").exists()
    if not has_memory:
        print("\nMemory is measured through /proc/self/clear_refs, which only Linux has.")
    print()
    units = [f"{column}, {unit}" for unit in ("ms", "MB") for column in COLUMNS]
    units.insert(1, "at most")
    print_row("loss", "batch", *units)
    print_row(*("---" for _ in range(2 + len(units))))
    rows = [(name, {}) for name in LOSSES]
    rows += [("pairwise_auc_loss", variant) for variant in VARIANTS]
    bounded = []
    pool = ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with pool:
        for name, variant in rows:
            label = ", ".join([name, *variant.values()])
            for n in args.batches:
                batch = random_batch(n, variant)
                times = median_milliseconds(ways(name, variant, n), batch, args.repeats, args.limit)
                cells = [show(times.get(column), 3) for column in COLUMNS]
                is_bounded = n == BOUNDED_BATCH and "multi_class" not in variant
                if is_bounded:
                    bounded.append((times["closed form"], label))
                cells.insert(1, BOUND if is_bounded else "")
                for column in COLUMNS:
                    peak = None
                    if has_memory and column in times:
                        peak = pool.submit(peak_megabytes, name, variant, n, column).result()
                    cells.append(show(peak, 2))
                print_row(label, n, *cells)
    if bounded:
        slowest, label = max(bounded)
        print(
            f"\nFor a batch of {BOUNDED_BATCH}, {sum(time < BOUND for time, _ in bounded)} of "
            f"{len(bounded)} closed forms for two classes take less than {BOUND} ms. The slowest, "
            f"{label}, takes {slowest:.3f} ms."
        )


if __name__ == "__main__":
    main()
