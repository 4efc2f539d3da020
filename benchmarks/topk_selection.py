"""How the smooth loss may find the 2 k + 1 largest scores of a row: torch.topk and what else.

Milliseconds of a processor for 256 rows, one thread, float32, medians of turns in one run.

- groups: the largest of each 8 columns, torch.topk of these, then of the columns of those found;
- padded: torch.topk of a row that is padded to 64 columns for each one wanted, where torch goes
  over from a quickselect to a heap;
- kthvalue: the threshold alone, torch.kthvalue, before any column is taken;
- NumPy: `argpartition`, whose order is not that of the scores, and which no compiled graph takes.

    OMP_NUM_THREADS=1 python benchmarks/topk_selection.py
"""

import statistics
import time

import torch
from torch.nn.functional import pad

BATCH, TURNS, STRIDE = 256, 40, 8
SIZES = [(100, 11), (500, 11), (1_000, 11), (1_000, 21), (1_000, 101), (10_000, 11)]


def groups(scores, m):
    n = scores.shape[1] // STRIDE
    group = scores[:, : n * STRIDE].view(len(scores), STRIDE, n).amax(1)
    group = group.topk(m, sorted=False).indices
    found = (group.unsqueeze(1) + n * torch.arange(STRIDE).view(1, -1, 1)).flatten(1)
    rest = torch.arange(n * STRIDE, scores.shape[1]).expand(len(scores), -1)
    found = torch.cat([found, rest], dim=1)
    values, position = scores.gather(1, found).topk(m)
    return values, found.gather(1, position)


def padded(scores, m):
    return pad(scores, (0, 64 * m - scores.shape[1]), value=-torch.inf).topk(m)


WAYS = {
    "torch.topk": lambda scores, m: scores.topk(m),
    "groups": lambda scores, m: groups(scores, m) if scores.shape[1] >= STRIDE * m else None,
    "padded": lambda scores, m: padded(scores, m) if scores.shape[1] < 64 * m else None,
    "kthvalue": lambda scores, m: scores.kthvalue(scores.shape[1] - m + 1, dim=1),
    "NumPy": lambda scores, m: scores.numpy().argpartition(-m, axis=1),
}


def seconds(way, scores, m):
    start = time.process_time()
    found = way(scores, m)
    return time.process_time() - start if found is not None else None


def main():
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}\n\n| classes | wanted | {' | '.join(WAYS)} |")
    print("|---" * (len(WAYS) + 2) + "|")
    for n_classes, m in SIZES:
        scores = torch.randn(BATCH, n_classes, generator=torch.Generator().manual_seed(0))
        turns = [[seconds(way, scores, m) for way in WAYS.values()] for _ in range(TURNS)][3:]
        cells = [
            f"{1e3 * statistics.median(each):.2f}" if each[0] is not None else ""
            for each in zip(*turns, strict=True)
        ]
        print(f"| {n_classes:,} | {m} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
