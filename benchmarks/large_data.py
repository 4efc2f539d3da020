"""Sparse rows, and rows that come one piece after another: time and memory.

OMP_NUM_THREADS=1 python benchmarks/large_data.py > benchmarks/results/large_data.md

Memory is that of a fresh process for each case: what Linux counts as its peak (VmHWM, set back
before the fit) above what it had before. Needs /proc.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk._training import _batches
from sktopk.modules._mlp import SparseInputLinear

N_ROWS, N_COLUMNS, SHARE = 37_241, 9_491, 0.04
N_CLASSES = 50


def status(name):
    """Bytes of a line of /proc/self/status."""
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024


def table(rng, n_rows, n_columns, share, dtype=np.float32):
    """A random CSR matrix, with as many numbers in each row, made without copies."""
    each = max(1, round(share * n_columns))
    columns = np.empty((n_rows, each), np.int32)
    for i in range(n_rows):
        columns[i] = rng.choice(n_columns, each, replace=False, shuffle=False)
    columns.sort(axis=1)
    values = rng.random(columns.size, dtype=dtype)
    start = np.arange(0, columns.size + 1, each, dtype=np.int32)
    return sparse.csr_matrix((values, columns.reshape(-1), start), (n_rows, n_columns))


def save(folder):
    X = table(np.random.default_rng(0), N_ROWS, N_COLUMNS, SHARE)
    for name in ("data", "indices", "indptr"):
        np.save(f"{folder}/{name}.npy", getattr(X, name))


def load(folder, dtype=np.float32):
    data, indices, start = (
        np.load(f"{folder}/{name}.npy") for name in ("data", "indices", "indptr")
    )
    X = sparse.csr_matrix((data.astype(dtype, copy=False), indices, start), (N_ROWS, N_COLUMNS))
    return X, np.random.default_rng(1).integers(0, N_CLASSES, N_ROWS)


def begin():
    """Set the peak back to what the process has now, and return that."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def memory_of_fit(folder, kind, dtype):
    """Peak of a fit above what there was before X was loaded, as a multiple of X."""
    warnings.simplefilter("ignore")
    small = table(np.random.default_rng(0), 600, 1_000, SHARE)
    params = {"batch_size": 512, "max_epochs": 2, "random_state": 0}
    if kind == "held out":
        params |= {"early_stopping": True}
    make = DeepTopPushClassifier if kind == "ranker" else TopKClassifier
    # What imports, thread pools and the allocator take, once.
    make(**params).fit(small, np.arange(600) % (2 if kind == "ranker" else N_CLASSES))
    before = begin()
    X, y = load(folder, np.dtype(dtype))
    n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    begin()
    weight = np.random.default_rng(2).integers(0, 5, N_ROWS) if kind == "zero weights" else None
    clf = make(**params).fit(X, y < 5 if kind == "ranker" else y, weight)
    own = sum(p.numel() * p.element_size() for p in clf.net_.module_.parameters())
    # Weights, gradient, two moments and the copy of the last good weights, made anew beside it.
    network = 6 * own
    return {"csr": n_bytes, "network": network, "peak": status("VmHWM") - before}


def memory_of_stream(n_rows, n_features=20, piece=100_000):
    """predict_top of a stream: memory before, at the peak and after, and rows per second."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, n_features), dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = DeepTopPushClassifier(max_epochs=3, random_state=0).fit(X, X[:, 0] > 1.5)

    def pieces(n):
        for start in range(0, n, piece):
            rows = np.random.default_rng(start).standard_normal
            yield rows((min(piece, n - start), n_features), dtype=np.float32)

    for _ in pieces(n_rows // 10):
        pass
    clf.predict_top(pieces(3 * piece), 100)
    before = begin()
    began = time.process_time()
    clf.predict_top(pieces(n_rows), 100)
    seconds = time.process_time() - began
    began = time.process_time()
    for _ in pieces(n_rows // 10):
        pass
    seconds -= 10 * (time.process_time() - began)
    peak, after = status("VmHWM"), status("VmRSS")
    return {"before": before, "peak": peak, "after": after, "rows_per_second": n_rows / seconds}


def in_new_process(name, *args):
    command = [sys.executable, __file__, "--call", json.dumps([name, *args])]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def seconds_of(functions, repeats):
    """Median CPU seconds of each function, taking turns."""
    seconds = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            began = time.process_time()
            function()
            if turn:
                seconds[name].append(time.process_time() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def ways(X):
    """The same rows as sparse and as dense batches."""
    device, dtype = torch.device("cpu"), torch.float32
    return {
        "sparse": _batches.Rows(X, device, dtype, sparse=True),
        "dense": _batches.Rows(X, device, dtype),
    }


def layer_table(repeats):
    share, _batches.SPARSE_SHARE = _batches.SPARSE_SHARE, 1.0
    least, _batches.SPARSE_COLUMNS = _batches.SPARSE_COLUMNS, 1
    print("\n## First layer, forward and backward\n")
    print(
        "Milliseconds of CPU to fetch a batch, apply the layer and make its gradient: dense "
        "batch / sparse batch, float32. Bold where sparse is faster.\n"
    )
    shares = (0.001, 0.01, 0.03, 0.05, 0.1, 0.3)
    print("| columns | batch | width | " + " | ".join(f"{100 * s:g} %" for s in shares) + " |")
    print("|---" * (3 + len(shares)) + "|")
    rng = np.random.default_rng(0)
    for n_columns in (300, 1_000, 3_000, N_COLUMNS):
        tables = [table(rng, 2_048, n_columns, s) for s in shares]
        for batch in (128, 512):
            index = torch.from_numpy(rng.permutation(2_048)[:batch])
            for width in (10, 100, 400):
                layer = SparseInputLinear(n_columns, width)
                gradient = torch.ones(batch, width)
                cells = []
                for X in tables:

                    def step(rows, layer=layer, gradient=gradient, index=index):
                        layer.zero_grad()
                        layer(rows[index]).backward(gradient)

                    each = ways(X)
                    found = seconds_of(
                        {name: lambda rows=rows: step(rows) for name, rows in each.items()}, repeats
                    )
                    dense, fast = 1e3 * found["dense"], 1e3 * found["sparse"]
                    cell = f"{dense:.2f} / {fast:.2f}"
                    cells.append(f"**{cell}**" if fast < dense else cell)
                print(f"| {n_columns} | {batch} | {width} | " + " | ".join(cells) + " |")
    _batches.SPARSE_SHARE, _batches.SPARSE_COLUMNS = share, least


def epoch_table(folder, repeats):
    X, y = load(folder)
    print("\n## An epoch\n")
    print(
        f"CSR of {N_ROWS} x {N_COLUMNS} at {100 * SHARE:g} %, float32, {N_CLASSES} classes, "
        "cross-entropy, 100 hidden units: CPU seconds of an epoch, medians, and the ratio to "
        "sparse batches.\n"
    )
    print("| batch | sparse batches | dense batches | whole X dense |")
    print("|---|---|---|---|")
    whole = X.toarray()

    def epoch(X, size, share):
        before, _batches.SPARSE_SHARE = _batches.SPARSE_SHARE, share
        try:
            params = {"batch_size": size, "max_epochs": 1, "random_state": 0, "device": "cpu"}
            TopKClassifier("cross_entropy", **params).fit(X, y)
        finally:
            _batches.SPARSE_SHARE = before

    for size in (128, 512):
        found = seconds_of(
            {
                "sparse": lambda size=size: epoch(X, size, 0.05),
                "dense": lambda size=size: epoch(X, size, -1.0),
                "whole": lambda size=size: epoch(whole, size, -1.0),
            },
            repeats,
        )
        fast = found["sparse"]
        cells = [f"{fast:.2f}"]
        cells += [f"{found[name]:.2f} ({found[name] / fast:.1f}x)" for name in ("dense", "whole")]
        print(f"| {size} | " + " | ".join(cells) + " |")


def memory_table(folder):
    print("\n## Memory of a fit\n")
    print(
        f"Peak of a process above what it had before it loaded X (CSR of {N_ROWS} x {N_COLUMNS} at "
        f"{100 * SHARE:g} %), without the network (weights, gradient, optimizer, copies of the "
        "weights), as a multiple of X. Aim: 1.6.\n"
    )
    print("| fit | dtype | X, MB | network, MB | peak, MB | multiple |")
    print("|---|---|---|---|---|---|")
    for kind in ("plain", "held out", "zero weights", "ranker"):
        for dtype in ("float32", "float64"):
            found = in_new_process("memory_of_fit", folder, kind, dtype)
            multiple = (found["peak"] - found["network"]) / found["csr"]
            sizes = " | ".join(f"{found[name] / 1e6:.0f}" for name in ("csr", "network", "peak"))
            print(f"| {kind} | {dtype} | {sizes} | {multiple:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--stream-rows", type=int, default=10_000_000)
    parser.add_argument("--call", help="for this script: a function and its arguments, as JSON")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.call:
        name, *values = json.loads(args.call)
        print(json.dumps(globals()[name](*values)))
        return
    print("# Large data (`benchmarks/large_data.py`)\n")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), MKL.")
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        memory_table(folder)
        epoch_table(folder, args.repeats)
    layer_table(args.repeats)
    print("\n## The best rows of a stream\n")
    found = in_new_process("memory_of_stream", args.stream_rows)
    print(f"`predict_top` of {args.stream_rows:,} rows x 20, float32, in pieces of 100 000:\n")
    print("| before, MB | peak, MB | after, MB | rows per CPU second |")
    print("|---|---|---|---|")
    sizes = " | ".join(f"{found[name] / 1e6:.0f}" for name in ("before", "peak", "after"))
    print(f"| {sizes} | {found['rows_per_second']:,.0f} |")


if __name__ == "__main__":
    main()
