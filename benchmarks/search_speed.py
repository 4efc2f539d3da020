"""Seconds of a grid search over tau, margin and k of the loss on digits, by number of processes.

27 different models, 3 folds, 1 thread per process. CPU seconds include the processes that
joblib starts, and their imports.

    python benchmarks/search_speed.py                 # some minutes
    python benchmarks/search_speed.py --n-jobs 1
    python benchmarks/search_speed.py --small         # two candidates of one epoch
"""

import argparse
import os
import warnings
from time import perf_counter

import numpy as np
import torch
from joblib.externals.loky import get_reusable_executor
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from sktopk import TopKClassifier

GRID = {
    "clf__tau": [0.1, 0.2, 0.5],
    "clf__loss__margin": [0.5, 1.0, 2.0],
    "clf__loss__k": [2, 3, 5],
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="two candidates of one epoch")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    X, y = load_digits(return_X_y=True)
    clf = TopKClassifier(max_epochs=1) if args.small else TopKClassifier()
    grid = {"clf__loss__k": [2, 3]} if args.small else GRID
    pipe = Pipeline([("pca", PCA()), ("clf", clf)])
    start, used = perf_counter(), sum(os.times()[:4])
    search = GridSearchCV(pipe, grid, cv=3, n_jobs=args.n_jobs).fit(X, y)
    wall = perf_counter() - start
    # The CPU time of children counts only processes that have ended.
    get_reusable_executor().shutdown(wait=True)
    used = sum(os.times()[:4]) - used
    fits = search.cv_results_["mean_fit_time"]
    print("| n_jobs | candidates | wall, s | processor, s | a fit, s | best score |")
    print("|---|---|---|---|---|---|")
    numbers = f"{wall:.1f} | {used:.1f} | {np.median(fits):.2f} | {search.best_score_:.4f}"
    print(f"| {args.n_jobs} | {len(fits)} | {numbers} |")


if __name__ == "__main__":
    main()
