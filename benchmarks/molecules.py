"""Molecules worth a test (paper 000, section 4.6): DeepTopPush against what one would use anyway.

CYP 3A4 of Merck, active above 5.5: log counts, 100 components, standardised, then a classifier.
Everything is selected by cross-validation of the 4 652 training molecules; on the 1 542 test
molecules only what was selected is scored. The components and the network depend on the seed.
The last part asks which defaults of the top classifiers to change, on two more imbalanced tables.

    python benchmarks/molecules.py --scale full
    python benchmarks/molecules.py --scale full --parts defaults

Every table is in the CSV, cell by cell, and the page is made of it: a part that is run again
replaces its own tables. The small scale searches, and tests what it found, with fewer seeds; the
full one also changes one parameter at a time, of what was found and of the defaults.
"""

import argparse
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
import torch
from molecule_models import CHANGES, DEFAULT_CHANGES, DEFAULTS, HELD_BACK, MODELS, SCORING
from real_data import campaign, coil2000, molecules
from reproduce._protocol import RESULTS, markdown
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale

from sktopk import DeepTopPushClassifier, PatMatNPClassifier
from sktopk.metrics import (
    enrichment_factor_score,
    partial_auc_log_score,
    positives_at_top_score,
)

ACTIVE = 5.5
SCALES = {
    "small": {
        "seeds": 2,
        "parts": ["molecules"],
        "changes": False,
        "minutes": {"molecules": 6, "defaults": 3},
    },
    "full": {
        "seeds": 5,
        "parts": ["molecules", "defaults"],
        "changes": True,
        "minutes": {"molecules": 12, "defaults": 6},
    },
}
CSV = RESULTS / "molecules.csv"
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
N_RESAMPLES = 300
# Titles of the tables.
SEARCH = "Selected by the first score: 5-fold cross-validation of the training molecules, mean ± se"
CHANGED = "DeepTopPush: one change of the best candidate"
TESTED = "Test molecules: mean over the seeds ± standard deviation"
RESAMPLED = f"{N_RESAMPLES} bootstrap samples of the test molecules: 5 % to 95 % of the mean"
DIFFERENCE = (
    "DeepTopPush minus the other model (share of the bootstrap samples in which it is above 0)"
)
TRAINED = "Share of the positives above every negative, seed 0; constant scores have loss 1"
HALVES = "Partial AUC, log, with defaults, and what one change adds: random halves, mean ± se"
# Of labels, activities and scores.
SCORES = {
    "above every negative": lambda y, a, s: positives_at_top_score(y, s),
    "above all but one": lambda y, a, s: positives_at_top_score(y, s, k=2),
    "EF 1 %": lambda y, a, s: enrichment_factor_score(y, s, fraction=0.01),
    "EF 5 %": lambda y, a, s: enrichment_factor_score(y, s, fraction=0.05),
    "mean activity of 1 %": lambda y, a, s: mean_of_best(a, s, 0.01),
    "5 %": lambda y, a, s: mean_of_best(a, s, 0.05),
    "20 %": lambda y, a, s: mean_of_best(a, s, 0.2),
}


def mean_of_best(activity, y_score, share):
    """Return the mean activity of the share of samples with the highest scores."""
    n = int(np.ceil(share * len(activity)))
    return activity[np.argsort(-y_score, kind="stable")[:n]].mean()


def to_dense(X):
    return X.toarray()


def pipeline(clf, *, seed=0, memory=None, reduction=TruncatedSVD, standardise=True, log=True):
    """Counts to components to scores."""
    steps = [("log", FunctionTransformer(np.log1p, accept_sparse=True))] if log else []
    if reduction is PCA:
        steps.append(("dense", FunctionTransformer(to_dense, accept_sparse=True)))
    steps.append(("components", reduction(100, random_state=seed)))
    if standardise:
        steps.append(("scale", StandardScaler()))
    return Pipeline([*steps, ("clf", clone(clf).set_params(random_state=seed))], memory=memory)


class Tables:
    """Cells of tables of text, as they are filled."""

    def __init__(self):
        self.cells = []

    def begin(self, part, title, *columns):
        """Begin a table of a part of the script; the first column names the rows."""
        self.names, self.columns = (part, title, columns[0]), columns[1:]
        print(f"\n{title}", file=sys.stderr, flush=True)

    def row(self, *cells):
        print(" | ".join(str(cell) for cell in cells), file=sys.stderr, flush=True)
        for column, cell in zip(self.columns, cells[1:], strict=True):
            self.cells.append((*self.names, cells[0], column, str(cell)))

    def frame(self):
        names = ["part", "table", "rows", "row", "column", "cell"]
        return pd.DataFrame(self.cells, columns=names)


def plus_minus(mean, error, sign=""):
    return f"{mean:{sign}.3f} ± {error:.3f}" if error is not None else f"{mean:{sign}.3f}"


def cross_validate(pipe, grid, X, active):
    """Return parameters, mean and standard error of each score, and seconds; best first."""
    grid = {f"clf__{name}": values for name, values in grid.items()}
    search = GridSearchCV(pipe, grid, scoring=SCORING, refit=False, cv=FOLDS).fit(X, active)
    results = search.cv_results_
    candidates = []
    for i, params in enumerate(results["params"]):
        means = [results[f"mean_test_{s}"][i] for s in SCORING]
        errors = [results[f"std_test_{s}"][i] / np.sqrt(FOLDS.get_n_splits() - 1) for s in SCORING]
        params = {name.removeprefix("clf__"): value for name, value in params.items()}
        candidates.append((params, means, errors, f"{results['mean_fit_time'][i]:.1f}"))
    return sorted(candidates, key=lambda candidate: -candidate[1][0])


def select(X, active, memory, changes, out):
    """Return the classifier, and options of its pipeline, that cross-validation prefers."""
    selected = {}
    out.begin("molecules", SEARCH, *("model", "candidates", "best", *SCORING, "fit, s"))
    for name, (clf, grid) in MODELS.items():
        found = cross_validate(pipeline(clf, memory=memory), grid, X, active)
        params, means, errors, seconds = found[0]
        selected[name] = clone(clf).set_params(**params), {}
        best = ", ".join(f"{key.removeprefix('module__')}={v}" for key, v in params.items())
        out.row(name, len(found), best, *map(plus_minus, means, errors), seconds)
        if name == "DeepTopPush":
            candidates = found
    out.begin("molecules", "DeepTopPush: means over the other parameters", "parameter", *SCORING)
    for name, values in MODELS["DeepTopPush"][1].items():
        for value in values:
            chosen = [means for params, means, *_ in candidates if params[name] == value]
            out.row(f"{name}={value}", *(f"{mean:.3f}" for mean in np.mean(chosen, axis=0)))
    out.begin("molecules", CHANGED, "change", *SCORING, "fit, s", "kept")
    first, best = selected["DeepTopPush"][0], candidates[0][1][0]
    for name, (params, steps) in CHANGES.items() if changes else ():
        clf = clone(first).set_params(**params)
        found = cross_validate(pipeline(clf, memory=memory, **steps), {}, X, active)
        _, means, errors, seconds = found[0]
        kept = means[0] > best
        out.row(name, *map(plus_minus, means, errors), seconds, "so far" if kept else "")
        if kept:
            best = means[0]
            selected["DeepTopPush"] = clf, steps
    return selected


def scores_of(pipe, X):
    if hasattr(pipe, "decision_function"):
        return pipe.decision_function(X)
    return pipe.predict_proba(X)[:, 1]


def measure(active, activity, y_scores):
    """Each score of each row of scores."""
    return np.array([[f(active, activity, s) for f in SCORES.values()] for s in y_scores])


def resample(activity, y_scores):
    """Means over the rows of scores, of molecules drawn anew: (n_resamples, n_scores)."""
    rng, n = np.random.default_rng(0), len(activity)
    draws = [rng.integers(n, size=n) for _ in range(N_RESAMPLES)]
    return np.array(
        [measure(activity[i] > ACTIVE, activity[i], y_scores[:, i]).mean(0) for i in draws]
    )


def test(X, active, X_test, activity_test, selected, seeds, out):
    """Score what was selected, and defaults, on the test molecules."""
    y_scores = {}
    for name, (clf, steps) in {**selected, **{n: (c, {}) for n, c in DEFAULTS.items()}}.items():
        pipes = [pipeline(clf, seed=seed, **steps).fit(X, active) for seed in seeds]
        y_scores[name] = np.array([scores_of(pipe, X_test) for pipe in pipes])
    for name in ("DeepTopPush", "weighted cross-entropy", "cross-entropy"):
        y_scores[f"{name}, sum of scores"] = scale(y_scores[name], axis=1).sum(0)[None]
    out.begin("molecules", TESTED, "model", *SCORES)
    means, draws = {}, {}
    for name, each in y_scores.items():
        values = measure(activity_test > ACTIVE, activity_test, each)
        means[name], draws[name] = values.mean(0), resample(activity_test, each)
        spread = values.std(0, ddof=1) if len(values) > 1 else [None] * len(SCORES)
        out.row(name, *map(plus_minus, means[name], spread))
    out.begin("molecules", RESAMPLED, "model", *SCORES)
    for name, each in draws.items():
        low, high = np.quantile(each, (0.05, 0.95), axis=0)
        out.row(name, *(f"{a:.3f} to {b:.3f}" for a, b in zip(low, high, strict=True)))
    out.begin("molecules", DIFFERENCE, "other model", *SCORES)
    for name in selected:
        if name != "DeepTopPush":
            difference = means["DeepTopPush"] - means[name]
            above = np.mean(draws["DeepTopPush"] > draws[name], axis=0)
            out.row(name, *(f"{d:+.3f} ({a:.2f})" for d, a in zip(difference, above, strict=True)))


def show_training(X, active, X_test, active_test, selected, out):
    """How much of what is above every negative in training is so on the test molecules."""
    top_push = selected["DeepTopPush"][0]
    classifiers = {
        **{name: selected[name][0] for name in ("DeepTopPush", "logistic regression")},
        "DeepTopPush, defaults": DeepTopPushClassifier(),
        **{f"DeepTopPush, {n}": clone(top_push).set_params(**CHANGES[n][0]) for n in HELD_BACK},
    }
    columns = "training molecules", "test molecules", "last training loss"
    out.begin("molecules", TRAINED, "model", *columns)
    for name, clf in classifiers.items():
        pipe = pipeline(clf).fit(X, active)
        shares = (
            positives_at_top_score(labels, scores_of(pipe, rows))
            for rows, labels in ((X, active), (X_test, active_test))
        )
        loss = f"{pipe[-1].history_[-1]['train_loss']:.3f}" if "Push" in name else ""
        out.row(name, *(f"{share:.3f}" for share in shares), loss)


def tables():
    """Halves of three imbalanced tables, by name; of the campaign, 12 000 rows."""
    X, activity, *_ = molecules()
    components = pipeline(LogisticRegression())[:-1].fit_transform(X).astype(np.float32)
    rows = np.random.default_rng(0).permutation(41_188)[:12_000]
    calls, success = campaign()
    return {
        "molecules": (components, activity > ACTIVE),
        "campaign": (calls[rows].astype(np.float32), success[rows]),
        "coil2000": tuple(a.astype(np.float32) for a in coil2000()),
    }


def partial_areas(clf, X, y, seeds):
    """Score of a classifier on the half of the rows that did not train it, for every seed."""
    areas = []
    for seed in seeds:
        halves = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
        X_train, X_test, y_train, y_test = halves
        scaler = StandardScaler().fit(X_train)
        fitted = clone(clf).set_params(random_state=seed)
        fitted.fit(scaler.transform(X_train), y_train)
        y_score = fitted.decision_function(scaler.transform(X_test))
        areas.append(partial_auc_log_score(y_test, y_score))
    return np.array(areas)


def defaults(seeds, out):
    """Each default of the top classifiers, changed alone; half of the rows train, half judge."""
    data = tables()
    names = [f"{name}, {len(y) // 2} rows" for name, (_, y) in data.items()]
    out.begin("defaults", HALVES, "classifier, change", *names)
    logistic = LogisticRegression(max_iter=2000)
    out.row("LogisticRegression, defaults", *(show(a) for a in areas_of(logistic, data, seeds)))
    for clf in (DeepTopPushClassifier(), PatMatNPClassifier()):
        base = np.zeros((len(data), len(seeds)))
        for change, params in DEFAULT_CHANGES.items():
            areas = areas_of(clone(clf).set_params(**params), data, seeds)
            added = (show(each, sign="+" if params else "") for each in areas - base)
            out.row(f"{type(clf).__name__}, {change}", *added)
            if not params:
                base = areas


def areas_of(clf, data, seeds):
    return np.array([partial_areas(clf, *table, seeds) for table in data.values()])


def show(values, sign=""):
    return plus_minus(values.mean(), values.std(ddof=1) / np.sqrt(len(values)), sign)


def page(cells):
    """The tables after a summary made of them."""

    def cell(table, row, column):
        found = cells[(cells.table == table) & (cells.row == row) & (cells.column == column)]
        return found.cell.item()

    first = "above every negative"
    shares = {m: cell(TESTED, m, first) for m in cells[cells.table == TESTED].row.unique()}
    models = "DeepTopPush", "logistic regression"
    of = {p: {m: cell(TRAINED, m, f"{p} molecules") for m in models} for p in ("training", "test")}
    ours, logistic = shares["DeepTopPush"], shares["logistic regression"]
    answer = "Yes" if float(ours.split()[0]) > float(logistic.split()[0]) else "No"
    text = [
        "# Molecules: DeepTopPush beside what one would use anyway",
        "",
        f"`benchmarks/molecules.py`. **Does DeepTopPush put more positives above every negative "
        f"than tuned logistic regression? {answer}.** The settings that cross-validation selects "
        f"reach {ours}, tuned logistic regression {logistic} and with its defaults "
        f"{shares['logistic regression, defaults']}, weighted cross-entropy with the same network "
        f"{shares['weighted cross-entropy']}. The test set decides little: resampled, DeepTopPush "
        f"has {cell(RESAMPLED, 'DeepTopPush', first)}. Its defaults reach "
        f"{shares['DeepTopPush, defaults']}, the sum of its networks' scores "
        f"{shares['DeepTopPush, sum of scores']}, the sums of the cross-entropy networks' "
        f"{shares['cross-entropy, sum of scores']} and "
        f"{shares['weighted cross-entropy, sum of scores']} (weighted).",
        "",
        f"Of the training positives {of['training']['DeepTopPush']} end above every training "
        f"negative, of the test ones {of['test']['DeepTopPush']} (seed 0); of logistic regression "
        f"{of['training']['logistic regression']} and {of['test']['logistic regression']}. What "
        f"could hold the network back leaves its loss near that of constant scores, 1: linear at "
        f"{cell(TRAINED, 'DeepTopPush, linear', 'last training loss')}, with dropout=0.3 at "
        f"{cell(TRAINED, 'DeepTopPush, dropout=0.3', 'last training loss')}.",
    ]
    for (title, rows), found in cells.groupby(["table", "rows"], sort=False):
        columns = list(found.column.unique())
        lines = [
            [row, *(of_row.set_index("column").cell.reindex(columns, fill_value=""))]
            for row, of_row in found.groupby("row", sort=False)
        ]
        text += ["", f"## {title}", "", markdown([rows, *columns], lines)]
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", choices=list(SCALES), default="small")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--parts", nargs="+", choices=["molecules", "defaults"])
    parser.add_argument("--report", action="store_true", help="only write the page anew")
    args = parser.parse_args()
    scale = SCALES[args.scale]
    seeds, parts = range(args.seeds or scale["seeds"]), args.parts or scale["parts"]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    out = Tables()
    if not args.report:
        minutes = sum(scale["minutes"][part] for part in parts)
        print(f"about {minutes} minutes on one idle core", file=sys.stderr, flush=True)
        if "molecules" in parts:
            X, activity, X_test, activity_test = molecules()
            rows = X, activity > ACTIVE, X_test
            with tempfile.TemporaryDirectory() as memory:
                selected = select(*rows[:2], memory, scale["changes"], out)
            test(*rows, activity_test, selected, seeds, out)
            show_training(*rows, activity_test > ACTIVE, selected, out)
        if "defaults" in parts:
            defaults(seeds, out)
    cells = out.frame()
    if CSV.is_file():
        # Parts that were not run again stay.
        old = pd.read_csv(CSV, keep_default_na=False)
        cells = pd.concat([cells, old[~old.part.isin(cells.part)]])
    cells.to_csv(CSV, index=False)
    CSV.with_suffix(".md").write_text(page(cells) + "\n")


if __name__ == "__main__":
    main()
