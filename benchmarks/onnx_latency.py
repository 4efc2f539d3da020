"""Milliseconds of ONNX Runtime and of `decision_function`, for one row and for 10 000.

Both get the same rows in the float type of the network and one thread. The graph also gives the
labels, which `decision_function` does not; `predict_topk` is there beside it. Runs alternate;
medians.
"""

import argparse
import statistics
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import onnxruntime
import torch
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import RecallAtKClassifier, TopKClassifier
from sktopk.io import to_onnx

QUICK = {"max_epochs": 2, "random_state": 0}


def models():
    """Name, model, rows and what gives its labels."""
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    pipe = make_pipeline(StandardScaler(), TopKClassifier(k=3, **QUICK)).fit(X, y)
    rows = np.resize(X, (10_000, X.shape[1]))
    yield "digits, StandardScaler and MLP 64-100-10", pipe, rows, None
    clf = TopKClassifier(k=3, **QUICK).fit(X, y)
    yield "digits, MLP 64-100-10", clf, rows, clf.predict_topk
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 100), dtype=np.float32)
    y = np.arange(10_000) % 1000
    clf = TopKClassifier(k=5, hidden_layer_sizes=(256,), **QUICK).fit(X, y)
    yield "1 000 classes, MLP 100-256-1000", clf, X, clf.predict_topk
    clf = RecallAtKClassifier(k=100, hidden_layer_sizes=(50, 25), **QUICK).fit(X, X[:, 0] > 2)
    yield "top of a ranking, MLP 100-50-25-1", clf, X, clf.predict


def milliseconds(runs, repeats):
    """Median of each run, in turn."""
    seconds = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = perf_counter()
            run()
            seconds[name].append(perf_counter() - start)
    return {name: 1000 * statistics.median(values) for name, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=200, help="for one row; a tenth for many")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    print(
        f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}, {args.threads} "
        f"thread(s), float32, CPU; milliseconds\n\n"
        "| model | rows | decision_function | labels | ONNX Runtime, both | torch / ONNX | "
        "largest difference / largest score |\n|---|---|---|---|---|---|---|"
    )
    for name, model, X, labels in models():
        with tempfile.TemporaryDirectory() as folder:
            path = to_onnx(model, Path(folder) / "model.onnx", X[:200])
            session = onnxruntime.InferenceSession(path, options)
        scores = model.decision_function(X)
        gap = abs(session.run(["scores"], {"X": X})[0] - scores).max() / abs(scores).max()
        for n_rows in (1, 10_000):
            rows = X[:n_rows]
            runs = {
                "torch": lambda m=model, rows=rows: m.decision_function(rows),
                "onnx": lambda s=session, rows=rows: s.run(None, {"X": rows}),
            }
            if labels is not None:
                runs["labels"] = lambda f=labels, rows=rows: f(rows)
            took = milliseconds(runs, args.repeats if n_rows == 1 else max(1, args.repeats // 10))
            other = f"{took['labels']:.3f}" if labels is not None else "-"
            print(
                f"| {name} | {n_rows} | {took['torch']:.3f} | {other} | {took['onnx']:.3f} | "
                f"{took['torch'] / took['onnx']:.1f} | {gap:.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
