"""Which parameters of TopKClassifier are worth a search? Each row changes one parameter.

Five tasks of `label_tasks.py` with at most 3 000 training samples. Prints the mean difference from
the default in points of top-1 and top-k accuracy, the smallest and the largest difference of a task
at top-k, and the time compared with the default. All numbers are means over seeds.

    python benchmarks/what_to_search.py [--seeds 2]        # about twenty minutes

Needs the data of `benchmarks/_datasets.py`.
"""

import argparse
import time

import numpy as np
from label_tasks import TASKS

from sktopk import TopKClassifier
from sktopk.metrics import topk_accuracy_score

N_TRAIN = 3000
NAMES = ("letter", "letter, long tail", "digits, 60 % wrong", "clinc150", "leaves100")
# Parameters as functions of k and of the default number of epochs.
SETTINGS = {
    "default": lambda k, epochs: {},
    "`n_estimators=24` instead of 8": lambda k, epochs: {"n_estimators": 24},
    "twice the epochs": lambda k, epochs: {"max_epochs": 2 * epochs},
    "24 networks, twice the epochs": lambda k, epochs: {
        "n_estimators": 24,
        "max_epochs": 2 * epochs,
    },
    "`hidden_layer_sizes=(256, 256)`": lambda k, epochs: {"hidden_layer_sizes": (256, 256)},
    "`learning_rate=0.01`": lambda k, epochs: {"learning_rate": 0.01},
    "`learning_rate=0.09`": lambda k, epochs: {"learning_rate": 0.09},
    "`log_loss_share=0.3`": lambda k, epochs: {"log_loss_share": 0.3},
    "`log_loss_share=0.9`": lambda k, epochs: {"log_loss_share": 0.9},
    "`tau=0.05`": lambda k, epochs: {"tau": 0.05},
    "`tau=1`": lambda k, epochs: {"tau": 1.0},
    "`loss__k` half of `k`": lambda k, epochs: {"loss_params": {"k": max(1, k // 2)}},
    "`loss__k` twice `k`": lambda k, epochs: {"loss_params": {"k": 2 * k}},
    '`"noised_topk"`, `sigma=0.2`': lambda k, epochs: {"loss": "noised_topk"},
    '`"noised_topk"`, `sigma=0.05`': lambda k, epochs: {"loss": "noised_topk", "sigma": 0.05},
    '`"noised_topk"`, `sigma=1`': lambda k, epochs: {"loss": "noised_topk", "sigma": 1.0},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    # An array of (task, seed, top-1, top-k, seconds) for each setting.
    results = np.zeros((len(SETTINGS), len(NAMES), args.seeds, 3))
    for j, name in enumerate(NAMES):
        load, options, params = TASKS[name]
        for seed in range(args.seeds):
            X, y, X_test, y_test, k = load(seed, **options)
            X, y, epochs = X[:N_TRAIN], y[:N_TRAIN], None
            for i, setting in enumerate(SETTINGS.values()):
                clf = TopKClassifier(**{"k": k, "random_state": seed} | params)
                clf.set_params(**setting(k, epochs))
                start = time.process_time()
                clf.fit(X, y)
                seconds = time.process_time() - start
                epochs = epochs or clf.max_epochs_
                y_score = clf.decision_function(X_test)
                scores = (
                    100 * topk_accuracy_score(y_test, y_score, k=each, labels=clf.classes_)
                    for each in (1, k)
                )
                results[i, j, seed] = [*scores, seconds]
        print(f"{name}: done", flush=True)
    results = results.mean(axis=2)
    change = results - results[:1]
    times = (results[:, :, 2] / results[:1, :, 2]).mean(axis=1)
    print("| setting | top-1 | top-k | lowest, highest | time |\n|---|---|---|---|---|")
    for name, rows, factor in zip(SETTINGS, change, times, strict=True):
        first, best, _ = rows.mean(axis=0)
        span = f"{rows[:, 1].min():+.1f}, {rows[:, 1].max():+.1f}"
        print(f"| {name} | {first:+.2f} | {best:+.2f} | {span} | {factor:.1f} |")
    print("\nScores of the default:\n| task | top-1 | top-k |\n|---|---|---|")
    for name, (first, best, _) in zip(NAMES, results[0], strict=True):
        print(f"| {name} | {first:.1f} | {best:.1f} |")


if __name__ == "__main__":
    main()
