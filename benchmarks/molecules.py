"""Rankings of molecules (paper 000, section 4.6): DeepTopPush compared with common classifiers.

The data are CYP 3A4 of Merck, active above 5.5, with 100 standardized components of log counts.
Hyperparameters are selected by cross-validation of the 4 652 training molecules; only the selected
models are scored on the 1 542 test molecules. Components and network depend on the seed.

    python benchmarks/molecules.py --seeds 5

Each line of the CSV file has one cell of the page. `--report` writes the page from this file.
"""

import argparse
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
import torch
from real_data import molecules
from reproduce._networks import ADAM, AS_PUBLISHED
from reproduce._protocol import RESULTS, markdown
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import enrichment_factor_score, make_top_scorer, positives_at_top_score
from sktopk.modules import MLP

ACTIVE = 5.5
CSV = RESULTS / "molecules.csv"
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
N_RESAMPLES = 300
# The first metric selects hyperparameters. "Above every negative" depends on a single molecule.
SCORING = {
    "partial AUC, log": make_top_scorer("partial_auc_log"),
    "above every negative": make_top_scorer("positives_at_top"),
    "EF 5 %": make_top_scorer("enrichment_factor", fraction=0.05),
}
NETWORK = {
    **AS_PUBLISHED,
    **ADAM,
    "module": MLP,
    "hidden_layer_sizes": (50, 25),
    "net_params": ADAM["net_params"] | {"module__batch_norm": True},
}
CROSS_ENTROPY_GRID = {
    "learning_rate": [1e-3, 3e-3],
    "max_epochs": [12, 25, 50],
    "module__dropout": [0.0, 0.3],
}


def cross_entropy(class_weight):
    return TopKClassifier("cross_entropy", k=1, class_weight=class_weight, **NETWORK)


# Classifier and grid by name.
MODELS = {
    "DeepTopPush": (
        DeepTopPushClassifier(max_epochs=50, **NETWORK),
        {
            "learning_rate": [3e-4, 1e-3, 3e-3],
            "surrogate": ["quadratic", "hinge", "logistic"],
            "buffer_size": [0, 1, 8],
        },
    ),
    "weighted cross-entropy": (cross_entropy("balanced"), CROSS_ENTROPY_GRID),
    "cross-entropy": (cross_entropy(None), CROSS_ENTROPY_GRID),
    "logistic regression": (
        LogisticRegression(max_iter=2000),
        {"C": [1e-3, 1e-2, 0.1, 1.0], "class_weight": [None, "balanced"]},
    ),
    "random forest": (RandomForestClassifier(300), {"min_samples_leaf": [1, 3]}),
    "gradient boosting": (HistGradientBoostingClassifier(), {"learning_rate": [0.03, 0.1]}),
}
DEFAULTS = {
    "DeepTopPush, defaults": DeepTopPushClassifier(),
    "cross-entropy, defaults": TopKClassifier("cross_entropy", k=1),
    "logistic regression, defaults": LogisticRegression(max_iter=2000),
}
# Titles of the tables.
SEARCH = "Selected by the first score: 5-fold cross-validation of the training molecules, mean ± se"
TESTED = "Test molecules: mean over the seeds ± standard deviation"
RESAMPLED = f"{N_RESAMPLES} bootstrap samples of the test molecules: 5 % to 95 % of the mean"
DIFFERENCE = (
    "DeepTopPush minus the other model (share of the bootstrap samples in which it is above 0)"
)


def mean_of_best(activity, y_score, share):
    """Return the mean activity of the share of samples with the highest scores."""
    n = int(np.ceil(share * len(activity)))
    return activity[np.argsort(-y_score, kind="stable")[:n]].mean()


# Functions of labels, activities and scores.
SCORES = {
    "above every negative": lambda y, a, s: positives_at_top_score(y, s),
    "above all but one": lambda y, a, s: positives_at_top_score(y, s, k=2),
    "EF 1 %": lambda y, a, s: enrichment_factor_score(y, s, fraction=0.01),
    "EF 5 %": lambda y, a, s: enrichment_factor_score(y, s, fraction=0.05),
    "mean activity of 1 %": lambda y, a, s: mean_of_best(a, s, 0.01),
    "5 %": lambda y, a, s: mean_of_best(a, s, 0.05),
    "20 %": lambda y, a, s: mean_of_best(a, s, 0.2),
}


def pipeline(clf, *, seed=0, memory=None):
    """Return the steps from counts to scores."""
    steps = [
        ("log", FunctionTransformer(np.log1p, accept_sparse=True)),
        ("components", TruncatedSVD(100, random_state=seed)),
        ("scale", StandardScaler()),
        ("clf", clone(clf).set_params(random_state=seed)),
    ]
    return Pipeline(steps, memory=memory)


class Tables:
    """Cells of text tables, in the order in which they are filled."""

    def __init__(self):
        self.cells = []

    def begin(self, title, *columns):
        """Begin a table; the first column names the rows."""
        self.names, self.columns = (title, columns[0]), columns[1:]
        print(f"\n{title}", file=sys.stderr, flush=True)

    def row(self, *cells):
        print(" | ".join(str(cell) for cell in cells), file=sys.stderr, flush=True)
        for column, cell in zip(self.columns, cells[1:], strict=True):
            self.cells.append((*self.names, cells[0], column, str(cell)))

    def frame(self):
        return pd.DataFrame(self.cells, columns=["table", "rows", "row", "column", "cell"])


def plus_minus(mean, error):
    return f"{mean:.3f} ± {error:.3f}" if error is not None else f"{mean:.3f}"


def select(X, active, memory, out):
    """Return the classifiers that are selected by cross-validation."""
    selected = {}
    out.begin(SEARCH, "model", "candidates", "best", *SCORING, "fit, s")
    for name, (clf, grid) in MODELS.items():
        pipe = pipeline(clf, memory=memory)
        named = {f"clf__{parameter}": values for parameter, values in grid.items()}
        search = GridSearchCV(pipe, named, scoring=SCORING, refit=False, cv=FOLDS).fit(X, active)
        found = search.cv_results_
        best = int(np.argmax(found[f"mean_test_{next(iter(SCORING))}"]))
        params = {key.removeprefix("clf__"): v for key, v in found["params"][best].items()}
        selected[name] = clone(clf).set_params(**params)
        text = ", ".join(f"{key.removeprefix('module__')}={v}" for key, v in params.items())
        root = np.sqrt(FOLDS.get_n_splits() - 1)
        scores = [
            plus_minus(found[f"mean_test_{s}"][best], found[f"std_test_{s}"][best] / root)
            for s in SCORING
        ]
        seconds = f"{found['mean_fit_time'][best]:.1f}"
        out.row(name, len(found["params"]), text, *scores, seconds)
    return selected


def scores_of(pipe, X):
    if hasattr(pipe, "decision_function"):
        return pipe.decision_function(X)
    return pipe.predict_proba(X)[:, 1]


def measure(activity, y_scores):
    """Return each metric of each row of scores."""
    active = activity > ACTIVE
    return np.array([[f(active, activity, s) for f in SCORES.values()] for s in y_scores])


def resample(activity, y_scores):
    """Return metrics of bootstrap samples, means over rows of scores: (n_resamples, n_metrics)."""
    rng, n = np.random.default_rng(0), len(activity)
    draws = [rng.integers(n, size=n) for _ in range(N_RESAMPLES)]
    return np.array([measure(activity[i], y_scores[:, i]).mean(0) for i in draws])


def test(X, active, X_test, activity_test, selected, seeds, out):
    """Score the selected classifiers, and defaults, on the test molecules."""
    y_scores = {}
    for name, clf in (selected | DEFAULTS).items():
        pipes = [pipeline(clf, seed=seed).fit(X, active) for seed in seeds]
        y_scores[name] = np.array([scores_of(pipe, X_test) for pipe in pipes])
    for name in ("DeepTopPush", "weighted cross-entropy", "cross-entropy"):
        y_scores[f"{name}, sum of scores"] = scale(y_scores[name], axis=1).sum(0)[None]
    out.begin(TESTED, "model", *SCORES)
    means, draws = {}, {}
    for name, each in y_scores.items():
        values = measure(activity_test, each)
        means[name], draws[name] = values.mean(0), resample(activity_test, each)
        spread = values.std(0, ddof=1) if len(values) > 1 else [None] * len(SCORES)
        out.row(name, *map(plus_minus, means[name], spread))
    out.begin(RESAMPLED, "model", *SCORES)
    for name, each in draws.items():
        low, high = np.quantile(each, (0.05, 0.95), axis=0)
        out.row(name, *(f"{a:.3f} to {b:.3f}" for a, b in zip(low, high, strict=True)))
    out.begin(DIFFERENCE, "other model", *SCORES)
    for name in selected:
        if name != "DeepTopPush":
            difference = means["DeepTopPush"] - means[name]
            above = np.mean(draws["DeepTopPush"] > draws[name], axis=0)
            out.row(name, *(f"{d:+.3f} ({a:.2f})" for d, a in zip(difference, above, strict=True)))


def page(cells):
    """Return the tables as Markdown."""
    text = ["# Molecules: DeepTopPush compared with common classifiers"]
    text += ["", "Made by `benchmarks/molecules.py`."]
    for (title, rows), found in cells.groupby(["table", "rows"], sort=False):
        columns = list(found.column.unique())
        lines = [
            [row, *(of_row.set_index("column").cell.reindex(columns, fill_value=""))]
            for row, of_row in found.groupby("row", sort=False)
        ]
        text += ["", f"## {title}", "", markdown([rows, *columns], lines)]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="train nothing, only write the page")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not args.report:
        out = Tables()
        X, activity, X_test, activity_test = molecules()
        with tempfile.TemporaryDirectory() as memory:
            selected = select(X, activity > ACTIVE, memory, out)
        test(X, activity > ACTIVE, X_test, activity_test, selected, range(args.seeds), out)
        out.frame().to_csv(CSV, index=False)
    CSV.with_suffix(".md").write_text(page(pd.read_csv(CSV, keep_default_na=False)))


if __name__ == "__main__":
    main()
