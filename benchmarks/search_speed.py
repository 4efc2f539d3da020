"""Grid search over tau, sigma and k: one process against two.

12 candidates x 3 folds of a pipeline on digits. Workers of joblib run torch on their share of the
cores; the table says how many threads that is.
"""

import argparse
import warnings
from time import perf_counter

import joblib
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer

GRID = {
    "topkclassifier__tau": [0.3, 1.0, 3.0],
    "topkclassifier__sigma": [0.1, 0.3],
    "topkclassifier__k": [2, 3],
}


def search(X, y, n_jobs):
    """Seconds of a search, and the scores that it found."""
    pipe = make_pipeline(StandardScaler(), PCA(20), TopKClassifier(random_state=0))
    grid = GridSearchCV(pipe, GRID, scoring=make_topk_scorer(3), cv=3, n_jobs=n_jobs, refit=False)
    start = perf_counter()
    grid.fit(X, y)
    return perf_counter() - start, grid.cv_results_["mean_test_score"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-jobs", type=int, default=2)
    n_jobs = parser.parse_args().n_jobs
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    # Workers start once and are kept: their imports are no part of a search.
    workers = joblib.Parallel(n_jobs)
    threads = workers(joblib.delayed(torch.get_num_threads)() for _ in range(n_jobs))
    workers(joblib.delayed(search)(X[:200], y[:200], 1) for _ in range(n_jobs))
    alone, scores = search(X, y, 1)
    together, same = search(X, y, n_jobs)
    print(f"torch threads: {torch.get_num_threads()} alone, {threads} in the workers")
    print("| n_jobs | seconds | times faster |\n|---|---|---|")
    print(f"| 1 | {alone:.1f} | 1 |")
    print(f"| {n_jobs} | {together:.1f} | {alone / together:.2f} (aim 1.6 with 2) |")
    print(f"same scores: {(scores == same).all()}")


if __name__ == "__main__":
    main()
