"""Who promises what, and is it kept? sktopk, MAPIE, TorchCP and scikit-learn on real tables.

Half of a table trains a classifier. The other half is what new rows are drawn from: each draw takes
rows from it, with replacement, that calibrate, and is judged by all of it, so that what a method
keeps or breaks is known without error. Every method sees the same probabilities and rows.

    pip install "mapie>=1.6"
    pip install --no-deps torchcp      # left out where it is missing
    python benchmarks/promises.py
"""

import argparse
import importlib.util
import sys
import types
import warnings
from functools import cache

import numpy as np
import torch
from mapie.classification import SplitConformalClassifier
from mapie.risk_control import BinaryClassificationController
from real_data import annthyroid, campaign, churn, digits, leaves100, letter, spambase, trec
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from sktopk import BudgetClassifier, SetClassifier

TABLES = {"annthyroid": annthyroid, "churn": churn, "campaign": campaign, "spambase": spambase}
SETS = {"leaves100": leaves100, "letter": letter, "digits": digits, "trec": trec}
BUDGETS = {"precision": 0.8, "recall": 0.8, "fpr": 0.05}
DELTA, COVERAGE, N_CALIBRATE = 0.1, 0.9, 500


class GivenProba(ClassifierMixin, BaseEstimator):
    """Its rows are their probabilities: nothing is computed twice."""

    def __init__(self, classes=(0, 1)):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.asarray(self.classes)
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def halves(load, model):
    """Return probabilities and codes of the half of a table that the model was not trained on."""
    X, y = load()
    y = np.unique(y, return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    # Every class is trained on.
    first = np.unique(y[order], return_index=True)[1]
    order = np.concatenate([order[first], np.delete(order, first)])
    train, rest = order[: len(y) // 2], order[len(y) // 2 :]
    model.fit(X[train], y[train])
    return model.predict_proba(X[rest]), y[rest]


def rates(flagged, y):
    """Return precision, recall and false positive rate; what nothing is flagged of is right."""
    hits = np.count_nonzero(flagged & (y == 1))
    precision = hits / flagged.sum() if flagged.any() else 1.0
    return {"precision": precision, "recall": hits / y.sum(), "fpr": flagged[y == 0].mean()}


def gain(name, limit):
    """What TunedThresholdClassifierCV maximises: what a limit leaves, and less than 0 beyond it."""

    def score(y, y_pred):
        found = rates(np.asarray(y_pred) == 1, np.asarray(y))
        kept = found[name] <= limit if name == "fpr" else found[name] >= limit
        best = found["precision"] if name == "recall" else found["recall"]
        return best if kept else -abs(found[name] - limit)

    return make_scorer(score)


def ours(inner, X, y, name, limit, seed):
    params = {"constraint": name, "budget": limit, "delta": DELTA, "random_state": seed}
    return BudgetClassifier(FrozenEstimator(inner), pos_label=1, **params).fit(X, y).predict


def of_mapie(inner, X, y, name, limit, seed):
    params = {"risk": name, "target_level": limit, "confidence_level": 1 - DELTA}
    controller = BinaryClassificationController(inner.predict_proba, **params).calibrate(X, y)
    if controller.best_predict_param is None:
        # No threshold is good enough: flag nothing, of recall everything.
        return lambda X: np.full(len(X), int(name == "recall"))
    return controller.predict


def tuned(inner, X, y, name, limit, seed):
    tuned = TunedThresholdClassifierCV(
        FrozenEstimator(inner), scoring=gain(name, limit), cv="prefit", refit=False
    )
    return tuned.fit(X, y).predict


def fixed(inner, X, y, name, limit, seed):
    return FixedThresholdClassifier(FrozenEstimator(inner), pos_label=1).fit(X, y).predict


THRESHOLDS = {
    "sktopk `BudgetClassifier`": ours,
    "MAPIE `BinaryClassificationController`": of_mapie,
    "`TunedThresholdClassifierCV`": tuned,
    "`FixedThresholdClassifier`": fixed,
}


def thresholds(n_draws):
    """Yield the lines of the table of thresholds."""
    yield f"\n### Thresholds, {n_draws} draws of {N_CALIBRATE} rows, promised in {1 - DELTA:.0%}\n"
    yield "| table | promise | method | kept | mean of the rate | flagged | recall |"
    yield "|---" * 7 + "|"
    for table, load in TABLES.items():
        model = HistGradientBoostingClassifier(max_iter=100, random_state=0)
        proba, y = halves(load, model)
        inner = GivenProba().fit(None, None)
        for name, limit in BUDGETS.items():
            sign = "<=" if name == "fpr" else ">="
            for method, make in THRESHOLDS.items():
                found, flagged = [], []
                for seed in range(n_draws):
                    rows = np.random.default_rng(seed).integers(len(y), size=N_CALIBRATE)
                    if not 0 < y[rows].sum() < N_CALIBRATE:
                        continue
                    mask = make(inner, proba[rows], y[rows], name, limit, seed)(proba) == 1
                    found.append(rates(mask, y))
                    flagged.append(mask.mean())
                rate = np.array([each[name] for each in found])
                kept = np.mean(rate <= limit if name == "fpr" else rate >= limit)
                recall = np.mean([each["recall"] for each in found])
                yield (
                    f"| {table} | {name} {sign} {limit} | {method} | {kept:.3f} "
                    f"| {rate.mean():.3f} | {np.mean(flagged):.3f} | {recall:.3f} |"
                )


def chosen(n_draws):
    """Yield the lines of the table of rows chosen from batches of 200."""
    yield f"\n### Rows chosen from batches of 200, {n_draws} draws of {N_CALIBRATE} rows\n"
    yield "| table | promise | method | mean share of false rows | rows chosen | hits |"
    yield "|---" * 6 + "|"
    for table, load in TABLES.items():
        model = HistGradientBoostingClassifier(max_iter=100, random_state=0)
        proba, y = halves(load, model)
        inner, each = FrozenEstimator(GivenProba().fit(None, None)), []
        params = {"constraint": "fdr", "budget": 0.2, "pos_label": 1}
        for seed in range(n_draws):
            rows = np.random.default_rng(seed).integers(len(y), size=N_CALIBRATE + 200)
            old, new = rows[:N_CALIBRATE], rows[N_CALIBRATE:]
            clf = BudgetClassifier(inner, **params).fit(proba[old], y[old])
            hits = y[new][clf.predict_top(proba[new])]
            each.append((np.mean(hits == 0) if len(hits) else 0.0, len(hits), hits.sum()))
        false, n, hits = np.mean(each, axis=0)
        yield (
            f"| {table} | fdr <= 0.2 | sktopk `BudgetClassifier` | {false:.3f} | {n:.1f} "
            f"| {hits:.1f} |"
        )


@cache
def parts_of_torchcp():
    """Return TorchCP's scores by name and its predictor, or None where it is missing.

    Its package imports graphs, networks and losses, which need other packages; what is used here
    does not.
    """
    spec = importlib.util.find_spec("torchcp")
    if spec is None:
        return None
    where = spec.submodule_search_locations[0]
    for name, folder in (("torchcp", where), ("torchcp.classification", f"{where}/classification")):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [folder]
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import APS, LAC

    return {"lac": LAC(), "aps": APS(randomized=False)}, SplitPredictor


def our_sets(proba, y, new, method, n_classes):
    inner = FrozenEstimator(GivenProba(range(n_classes)).fit(None, None))
    clf = SetClassifier(inner, method=method, coverage=COVERAGE, random_state=0)
    return clf.fit(proba, y).predict_set(new).toarray()


def sets_of_mapie(proba, y, new, method, n_classes):
    inner = GivenProba(range(n_classes)).fit(None, None)
    clf = SplitConformalClassifier(inner, COVERAGE, method, prefit=True, random_state=0)
    params = {"include_last_label": True} if method == "aps" else {}
    return clf.conformalize(proba, y).predict_set(new, params)[1][:, :, 0]


def sets_of_torchcp(proba, y, new, method, n_classes):
    scores, predictor = parts_of_torchcp()
    made = predictor(scores[method], alpha=1 - COVERAGE)
    logits, new = (torch.log(torch.as_tensor(each).clamp_min(1e-30)) for each in (proba, new))
    made.calculate_threshold(logits, torch.as_tensor(y))
    return np.asarray(made.predict_with_logits(new)) == 1


def sets(n_draws):
    """Yield the lines of the table of sets."""
    yield f"\n### Sets, {n_draws} draws of {N_CALIBRATE} rows\n"
    yield "| table | method | package | mean coverage | mean size |\n" + "|---" * 5 + "|"
    makers = {"sktopk": our_sets, "MAPIE": sets_of_mapie, "TorchCP": sets_of_torchcp}
    if parts_of_torchcp() is None:
        del makers["TorchCP"]
    for table, load in SETS.items():
        model = make_pipeline(MaxAbsScaler(), LogisticRegression(C=10, max_iter=300))
        proba, y = halves(load, model)
        for method in ("lac", "aps"):
            for package, make in makers.items():
                found = []
                for seed in range(n_draws):
                    rows = np.random.default_rng(seed).integers(len(y), size=N_CALIBRATE)
                    y_set = make(proba[rows], y[rows], proba, method, proba.shape[1])
                    found.append((y_set[np.arange(len(y)), y].mean(), y_set.sum(axis=1).mean()))
                coverage, size = np.mean(found, axis=0)
                yield f"| {table} | {method} | {package} | {coverage:.4f} | {size:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--set-draws", type=int, default=10)
    parser.add_argument("--batches", type=int, default=200)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for lines in (thresholds(args.draws), chosen(args.batches), sets(args.set_draws)):
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
