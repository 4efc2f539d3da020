"""Accuracy of TopKClassifier with default parameters, on clean, wrong and rare labels.

Prints one row per task: top-1 and top-k accuracy in percent, log loss, CPU seconds of a fit on one
thread, and the epoch whose weights were kept. All numbers are means over seeds. Each seed has its
own split, wrong labels and networks. Test labels are clean; the test set of the long tail is
balanced.

    python benchmarks/label_tasks.py [--seeds 3] [--params '{"tau": 0.5}'] [task ...]

Needs the data of `benchmarks/_datasets.py`.
"""

import argparse
import json
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from _datasets import load_clinc150, load_leaves100, load_pmlb
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sktopk import TopKClassifier
from sktopk.datasets import inject_label_noise
from sktopk.metrics import topk_accuracy_score

# Groups of digits with similar shapes.
SIMILAR_DIGITS = {0: 0, 6: 0, 9: 0, 1: 1, 4: 1, 7: 1, 2: 2, 3: 2, 5: 2, 8: 2}


def noisy(y, groups, share, seed):
    """Return labels. A share of them is redrawn within groups of classes."""
    return inject_label_noise(y, groups, share, seed) if share else y


def halves(X, y, seed, **sizes):
    y = np.unique(y, return_inverse=True)[1]
    sizes = sizes or {"test_size": 0.5}
    return train_test_split(np.asarray(X, float), y, stratify=y, random_state=seed, **sizes)


def digits(seed, share=0.0):
    X, X_test, y, y_test = halves(*load_digits(return_X_y=True), seed)
    return X, noisy(y, SIMILAR_DIGITS, share, seed), X_test, y_test, 3


def breast_cancer(seed):
    X, X_test, y, y_test = halves(*load_breast_cancer(return_X_y=True), seed)
    return X, y, X_test, y_test, 1


def letter(seed, share=0.0):
    data = load_pmlb("letter", return_X_y=True)
    X, X_test, y, y_test = halves(*data, seed, train_size=4000, test_size=6000)
    return X, noisy(y, {i: i % 5 for i in range(26)}, share, seed), X_test, y_test, 5


def long_tail(seed, share=0.0):
    """Letters with 150 to 3 samples per class."""
    X, y, X_test, y_test, k = letter(seed, share)
    rng = np.random.default_rng(seed)
    sizes = rng.permutation(np.round(150 * 50.0 ** (-np.arange(26) / 25)).astype(int))
    rows = [
        rng.choice(np.flatnonzero(y == c), min(n, (y == c).sum()), replace=False)
        for c, n in enumerate(sizes)
    ]
    rows = np.concatenate(rows)
    return X[rows], y[rows], X_test, y_test, k


def clinc150(seed, share=0.0):
    """5 000 questions with 150 intents, as 100 components of their words."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    train, test = load_clinc150(), load_clinc150("test")
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    X = words.fit_transform(train.data)
    svd = TruncatedSVD(100, random_state=0).fit(X)
    rows = np.random.default_rng(seed).choice(len(train.target), 5000, replace=False)
    names, y = np.unique(train.target, return_inverse=True)
    y = noisy(y, {i: train.groups[name] for i, name in enumerate(names)}, share, seed)
    X_test = svd.transform(words.transform(test.data))
    return svd.transform(X)[rows], y[rows], X_test, np.searchsorted(names, test.target), 5


def leaves100(seed):
    X, X_test, y, y_test = halves(*load_leaves100(return_X_y=True), seed)
    return X, y, X_test, y_test, 5


ADJUSTED = {"loss": "smooth_topk_adjusted"}
TASKS = {
    "digits, 60 % wrong": (digits, {"share": 0.6}, {}),
    "clinc150, 80 % wrong": (clinc150, {"share": 0.8}, {}),
    "letter, 60 % wrong": (letter, {"share": 0.6}, {}),
    "letter, 20 % wrong": (letter, {"share": 0.2}, {}),
    "letter": (letter, {}, {}),
    "letter, long tail": (long_tail, {}, {}),
    "letter, long tail, adjusted": (long_tail, {}, ADJUSTED),
    "clinc150": (clinc150, {}, {}),
    "leaves100": (leaves100, {}, {}),
    "digits": (digits, {}, {}),
    "breast_cancer": (breast_cancer, {}, {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=[*TASKS], help="names in TASKS (default: all)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--params", type=json.loads, default={}, help="parameters as JSON")
    args = parser.parse_args()
    print("| task | top-1 | top-k | log loss | CPU s | epoch |\n|---|---|---|---|---|---|")
    for task in args.tasks:
        load, options, params = TASKS[task]
        rows = []
        for seed in range(args.seeds):
            X, y, X_test, y_test, k = load(seed, **options)
            labels, start = np.arange(y.max() + 1), time.process_time()
            clf = TopKClassifier(**{"k": k, "random_state": seed} | params | args.params).fit(X, y)
            seconds, y_score = time.process_time() - start, clf.decision_function(X_test)
            accuracy = (
                100 * topk_accuracy_score(y_test, y_score, k=each, labels=labels) for each in (1, k)
            )
            loss = log_loss(y_test, clf.predict_proba(X_test), labels=labels)
            rows.append([*accuracy, loss, seconds, getattr(clf, "kept_epoch_", clf.n_iter_)])
        first, best, loss, seconds, epoch = np.mean(rows, axis=0)
        numbers = f"{first:.1f} | {best:.1f} | {loss:.3f} | {seconds:.2f} | {epoch:.0f}"
        print(f"| {task} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
