"""Coverage and size of label sets, compared with MAPIE.

Half of the samples train a classifier. The other half is divided at random, many times, into
calibration samples and test samples. All methods get the same probabilities and the same samples.

    pip install "mapie>=1.6"
    python benchmarks/conformal.py
"""

import argparse
import statistics
import time
import warnings
from functools import partial

import numpy as np
from mapie.classification import SplitConformalClassifier
from real_data import clinc150, leaves100, trec
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from sktopk import SetClassifier
from sktopk.metrics import set_coverage_score, set_size_score

CASES = {"leaves100": leaves100, "trec": trec, "clinc150": clinc150}
OURS = {
    "topk, k=5": {"method": "topk", "k": 5},
    "average_k, k=5": {"method": "average_k", "k": 5},
    "lac": {"method": "lac"},
    "lac, top1 where empty": {"method": "lac", "empty": "top1"},
    "aps": {"method": "aps"},
    "aps, randomized": {"method": "aps", "randomized": True},
    "raps": {"method": "raps"},
    "raps, randomized": {"method": "raps", "randomized": True},
    "pas": {"method": "pas"},
}
PEERS = {
    "lac": ("lac", {}),
    "aps": ("aps", {"include_last_label": True}),
    "aps, randomized": ("aps", {"include_last_label": "randomized"}),
    "raps": ("raps", {"include_last_label": True}),
    "raps, randomized": ("raps", {"include_last_label": "randomized"}),
}


class GivenProba(ClassifierMixin, BaseEstimator):
    """A classifier whose X has the probabilities, so that nothing is computed twice."""

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = self.classes
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def trained(load, seed):
    """Return a `GivenProba`, probabilities and labels of the held-out half, and class counts."""
    X, y = load()
    order = np.random.default_rng(seed).permutation(len(y))
    first = np.unique(y[order], return_index=True)[1]
    # The training half has a sample of each class, then random samples.
    order = np.concatenate([order[first], np.delete(order, first)])
    train, rest = order[: len(y) // 2], order[len(y) // 2 :]
    model = make_pipeline(MaxAbsScaler(), LogisticRegression(C=10, max_iter=300))
    model.fit(X[train], y[train])
    counts = np.unique(y[train], return_counts=True)[1]
    given = GivenProba(model.classes_).fit(None, None)
    return given, model.predict_proba(X[rest]), y[rest], counts


def our_sets(given, cal, y_cal, test, params, counts, seed):
    clf = SetClassifier(FrozenEstimator(given), random_state=seed, prevalence=counts, **params)
    return clf.fit(cal, y_cal).predict_set(test)


def peer_sets(given, cal, y_cal, test, name, seed):
    score, params = PEERS[name]
    peer = SplitConformalClassifier(given, 0.9, score, prefit=True, random_state=seed)
    peer.conformalize(cal, y_cal)
    return peer.predict_set(test, params)[1][:, :, 0]


def judge(y_test, y_set, classes, proba):
    """Return mean size, coverage, macro coverage, coverage of hard samples, share of empty sets."""
    coverage = set_coverage_score(y_test, y_set, labels=classes)
    macro = set_coverage_score(y_test, y_set, labels=classes, average="macro")
    certainty = proba.max(axis=1)
    hard = certainty <= np.quantile(certainty, 0.2)
    hard = set_coverage_score(y_test[hard], y_set[hard], labels=classes)
    return set_size_score(y_set), coverage, macro, hard, np.mean(~y_set.any(axis=1))


def run_case(name, n_models, n_splits):
    """Return metrics and seconds by package and method, and a title."""
    results, seconds = {}, {}
    for model_seed in range(n_models):
        given, proba, y, counts = trained(CASES[name], model_seed)
        for split in range(n_splits):
            seed = 1000 * model_seed + split
            order = np.random.default_rng(seed).permutation(len(y))
            cal, test = order[: len(y) // 2], order[len(y) // 2 :]
            data = given, proba[cal], y[cal], proba[test]
            makers = {
                ("sktopk", m): partial(our_sets, *data, p, counts, seed) for m, p in OURS.items()
            }
            makers |= {("MAPIE", m): partial(peer_sets, *data, m, seed) for m in PEERS}
            for key, make in makers.items():
                start = time.perf_counter()
                try:
                    y_set = make()
                except ValueError:
                    # MAPIE's raps needs two calibration samples of every class.
                    continue
                seconds.setdefault(key, []).append(time.perf_counter() - start)
                results.setdefault(key, []).append(
                    judge(y[test], y_set, given.classes_, proba[test])
                )
    title = (
        f"{name}: {len(given.classes_)} classes, {len(cal)} calibration samples, {len(test)} test "
        f"samples, {n_models} x {n_splits} splits"
    )
    return results, seconds, title


def report(results, seconds, title):
    """Yield the lines of one table."""
    yield f"\n### {title}\n"
    yield (
        "| method | package | mean size | coverage | (sd of a split) | macro | hardest fifth "
        "| empty | ms |"
    )
    yield "|---" * 9 + "|"
    for method in OURS:
        for package in ("sktopk", "MAPIE"):
            key = (package, method)
            rows = results.get(key)
            if rows is None:
                continue
            if len(rows) < len(results["sktopk", method]):
                package += f", {len(rows)} splits"
            size, coverage, macro, hard, empty = np.mean(rows, axis=0)
            sd = np.std(rows, axis=0, ddof=1)[1]
            ms = 1000 * statistics.median(seconds[key])
            yield (
                f"| {method} | {package} | {size:.2f} | {coverage:.4f} | {sd:.4f} | {macro:.4f} "
                f"| {hard:.3f} | {empty:.3f} | {ms:.1f} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.cases:
        for line in report(*run_case(name, args.models, args.splits)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
