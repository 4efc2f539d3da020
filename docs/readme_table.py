"""The table of the README: scores and CPU seconds of each estimator and of its peers.

    OMP_NUM_THREADS=1 python docs/readme_table.py

The data folder is that of the benchmarks, see benchmarks/_datasets.py.
"""

import sys
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path[:0] = [str(Path(__file__).parents[1] / each) for each in ("", "benchmarks")]

from _datasets import load_adbench, load_pmlb  # noqa: E402
from lightgbm import LGBMClassifier  # noqa: E402

from sktopk import (  # noqa: E402
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    TopBoostClassifier,
    TopKClassifier,
)
from sktopk.metrics import make_top_scorer, make_topk_scorer  # noqa: E402

N_TRAIN, N_SPLITS = 4000, 5
PEERS = {
    "LightGBM": lambda seed: LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed),
    "logistic regression": lambda seed: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
}
TASKS = {
    "letter, top-3 accuracy": (
        lambda: load_pmlb("letter", return_X_y=True),
        make_topk_scorer(3),
        {"TopKClassifier": lambda seed: TopKClassifier(k=3, random_state=seed)},
    ),
    "campaign, precision of the 100 best": (
        lambda: load_adbench("5_campaign", return_X_y=True),
        make_top_scorer("precision_at_k", k=100),
        {
            "RecallAtKClassifier": lambda seed: RecallAtKClassifier(k=100, random_state=seed),
            "RecallAtFPRClassifier": lambda seed: RecallAtFPRClassifier(random_state=seed),
            "TopBoostClassifier": lambda seed: TopBoostClassifier(random_state=seed, n_jobs=1),
        },
    ),
    "campaign, recall at 1 % false positives": (
        lambda: load_adbench("5_campaign", return_X_y=True),
        make_top_scorer("true_positive_rate_at_fpr", fpr=0.01),
        {
            "RecallAtFPRClassifier": lambda seed: RecallAtFPRClassifier(
                fpr=0.01, random_state=seed
            ),
            "TopBoostClassifier": lambda seed: TopBoostClassifier(random_state=seed, n_jobs=1),
        },
    ),
}


def main():
    warnings.simplefilter("ignore")
    for task, (load, scorer, ours) in TASKS.items():
        X, y = load()
        for name, make in (ours | PEERS).items():
            scores, seconds = [], []
            for seed in range(N_SPLITS):
                X_train, X_test, y_train, y_test = train_test_split(
                    X, y, train_size=N_TRAIN, test_size=N_TRAIN, stratify=y, random_state=seed
                )
                start = process_time()
                model = make(seed).fit(X_train, y_train)
                seconds.append(process_time() - start)
                scores.append(scorer(model, X_test, y_test))
            print(
                f"{task:40s} {name:22s} {np.mean(scores):.3f} ({np.std(scores, ddof=1):.3f})  "
                f"{np.median(seconds):.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
