"""Compute figures of the README, recommendations.toml and pages that no other script computes.

    OMP_NUM_THREADS=1 python docs/readme_table.py [letters] [corrected] [tails] [texts] [tiny]
        [price] [routes] [limits] [recalls] [later] [calls] [sizes] [lists] [dependent] [pools]
        [days] [molecules] [average]

The script needs the data folder of the benchmarks, see benchmarks/_datasets.py. Its parts are:

Letters: accuracies on the letters of loss_gains.md, also with single parts of TopKClassifier.
Corrected: three classifiers on these letters, with and without division of the probabilities by
class frequencies.
Tails: on four held-out long tails, the gain of several classifiers from this division, and the gain
of TopKClassifier("smooth_topk_adjusted") over them (benchmarks/results/top_of_the_table.jsonl).
Texts: logistic regression on a long tail of banking77, with and without this division.
Tiny: accuracies on simulated data with many classes, few samples per class and 256 columns.
Price: accuracies with and without a correction for class sizes, macro-averaged and with the class
frequencies of the training.
Routes: share of the questions of banking77 whose topic is predicted at a required precision. The
threshold has a guarantee, or is the lowest with this precision on the calibration questions.
Limits: how often thresholds exceed a false positive rate of 1 % on real data, and their recall.
Recalls: how often thresholds miss a recall of 95 % on real data, and the share of flagged samples.
Later: false positive rate and recall on molecules measured later than those for calibration.
Calls: how often bounds for the number of positives fail for lists of real customers and molecules.
Sizes: share of positives found by thresholds with a guarantee, by number of calibration negatives.
Lists: bounds for the positives among the 500 best samples, by number of calibration samples. Also
how often bounds fail for repeated customers, and for molecules that share scaffolds.
Dependent: how often guarantees fail for dependent samples or varying shares of positives. Also
bounds if few labels are known.
Pools: bounds for the positives among the 200 best samples, by size of the pool, on simulated data
and on real molecules (top_gains.md).
Days: share of positives among the 100 best of about 1000 samples of each new day.
Molecules: active molecules among the 200 best of a test set that was measured later, and how many
fewer than with SVR (95 % bootstrap interval over the test molecules).
Average: gain of the soft-voting ensemble of top_of_the_table.md over soft voting of LightGBM, extra
trees and MLPClassifier, on the 12 held-out datasets with two classes.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter
from scipy.sparse import issparse
from scipy.stats import norm, t
from sklearn.datasets import make_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC, SVR

sys.path[:0] = [str(Path(__file__).parents[1] / each) for each in ("", "benchmarks")]

import torch  # noqa: E402
from _datasets import load_merck_cyp3a4, load_pmlb  # noqa: E402
from lightgbm import LGBMClassifier, LGBMRanker  # noqa: E402
from tables._data import HALF, TABLES, questions, split_of  # noqa: E402
from tables._jobs import fit_and_score  # noqa: E402
from tables._methods import FEW_SPLITS, lightgbm_of  # noqa: E402
from tables._report import read  # noqa: E402

from sktopk import (  # noqa: E402
    BudgetClassifier,
    RecallAtFPRClassifier,
    TopBoostClassifier,
    TopKClassifier,
)
from sktopk.datasets import make_long_tail  # noqa: E402
from sktopk.metrics import (  # noqa: E402
    make_topk_scorer,
    precision_at_k_score,
    topk_accuracy_score,
)

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "top_of_the_table.jsonl"


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def label_models(seed):
    """Return baselines, then TopKClassifiers. Each of these adds one part to the previous one."""
    balanced = {"class_weight": "balanced"}
    seeded = {"random_state": seed}
    eight = [(f"{i}", MLPClassifier(max_iter=1000, random_state=8 * seed + i)) for i in range(8)]
    return {
        "logistic regression, balanced": scaled(LogisticRegression(max_iter=1000, **balanced)),
        "SVC": scaled(SVC()),
        "SVC(C=10), balanced": scaled(SVC(C=10, **balanced)),
        "extra trees, balanced": ExtraTreesClassifier(300, **balanced, **seeded),
        "random forest, balanced": RandomForestClassifier(300, **balanced, **seeded),
        "LightGBM": LGBMClassifier(n_jobs=1, verbose=-1, **seeded),
        "LightGBM, balanced": LGBMClassifier(n_jobs=1, verbose=-1, **balanced, **seeded),
        "MLPClassifier": scaled(MLPClassifier(max_iter=1000, **seeded)),
        "eight MLPClassifiers": scaled(VotingClassifier(eight, voting="soft")),
        "one network, log loss": TopKClassifier("cross_entropy", n_estimators=1, **seeded),
        "eight networks": TopKClassifier("cross_entropy", **seeded),
        "corrected for class sizes": TopKClassifier("logit_adjusted", **seeded),
        "with the top-5 loss": TopKClassifier("smooth_topk_adjusted", **seeded),
    }


def rare_letters():
    """Yield the seed, the training set and the test set of each of five splits."""
    X_all, y_all = load_pmlb("letter", return_X_y=True)
    for seed in range(5):
        X, X_test, y, y_test = train_test_split(
            X_all, y_all, train_size=3900, test_size=6000, stratify=y_all, random_state=seed
        )
        yield seed, *make_long_tail(X, y, factor=50, random_state=seed), X_test, y_test


def letters():
    found = {}
    for seed, X, y, X_test, y_test in rare_letters():
        for name, model in label_models(seed).items():
            model.fit(X, y)
            scores = [make_topk_scorer(k)(model, X_test, y_test) for k in (1, 5)]
            found.setdefault(name, []).append(scores)
    for name, scores in found.items():
        (first, five), spread = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1)
        print(f"{name:32s} {first:.3f} ({spread[0]:.3f})  {five:.3f} ({spread[1]:.3f})")


def corrected():
    found = {}
    for seed, X, y, X_test, y_test in rare_letters():
        for model in (
            ExtraTreesClassifier(300, random_state=seed),
            scaled(LogisticRegression(max_iter=1000)),
            TopKClassifier("cross_entropy", random_state=seed),
        ):
            proba = model.fit(X, y).predict_proba(X_test)
            frequency = np.bincount(np.searchsorted(model.classes_, y)) / len(y)
            for name, scores in (("as it is", proba), ("corrected", proba / frequency)):
                each = [topk_accuracy_score(y_test, scores, k=k) for k in (1, 5)]
                found.setdefault(f"{type(model).__name__}, {name}", []).append(each)
    for name, scores in found.items():
        print(f"{name:40s} {np.mean(scores, axis=0).round(3)}")


def accuracies(y, y_score, labels, count):
    """Return top-1 and top-5 accuracy, first macro-averaged, then with the training frequencies."""
    code = np.searchsorted(labels, y)
    weight = (count / np.bincount(code, minlength=len(labels)))[code]
    ways = {"average": "macro"}, {"sample_weight": weight}
    return 100 * np.array(
        [topk_accuracy_score(y, y_score, k=k, labels=labels, **way) for way in ways for k in (1, 5)]
    )


def tails():
    names = [n for n, each in TABLES.items() if each.kind == "long tail" and HALF[n] == "reporting"]
    results = read(RESULTS)
    results = results[results.method == "TopKClassifier, adjusted"].set_index(["table", "split"])
    gains = {}
    for name in names:
        for split in range(FEW_SPLITS):
            rows, seeded = split_of(name, split), {"random_state": split}
            labels, count = np.unique(rows.y, return_counts=True)
            ours = 100 * results.loc[(name, split), ["macro top-1", "macro top-5"]]
            networks = [
                (str(i), MLPClassifier(alpha=0.01, random_state=8 * split + i)) for i in range(8)
            ]
            for title, model in {
                "logistic regression": scaled(LogisticRegression(max_iter=1000)),
                "logistic regression, C=0.03": scaled(LogisticRegression(C=0.03, max_iter=1000)),
                "SVC": scaled(SVC(probability=True, **seeded)),
                "SVC, C=10": scaled(SVC(C=10, probability=True, **seeded)),
                "extra trees": ExtraTreesClassifier(300, **seeded),
                "LightGBM": lightgbm_of(split),
                "eight MLPClassifier": scaled(VotingClassifier(networks, voting="soft")),
                "TopKClassifier": TopKClassifier(k=5, **seeded),
                "adjusted, linear": TopKClassifier(
                    "smooth_topk_adjusted", k=5, hidden_layer_sizes=(), **seeded
                ),
            }.items():
                proba = model.fit(rows.X, rows.y).predict_proba(rows.X_test)
                usual, half, full = (
                    accuracies(rows.y_test, proba / count**power, labels, count)
                    for power in (0, 0.5, 1)
                )
                theirs = usual if title.startswith("adjusted") else full
                for what, gain in {
                    f"adjusted minus {title}": ours.to_numpy(float) - theirs[:2],
                    f"{title}, power 0.5 minus 0": half - usual,
                    f"{title}, power 1 minus 0": full - usual,
                }.items():
                    gains.setdefault(what, {}).setdefault(name, []).append(gain)
    for title, of_tables in gains.items():
        gain = np.array([np.mean(each, axis=0) for each in of_tables.values()])
        half = t.ppf(0.975, len(gain) - 1) * np.std(gain, axis=0, ddof=1) / len(gain) ** 0.5
        cells = [f"{m:+.1f} ± {h:.1f}" for m, h in zip(gain.mean(0), half, strict=True)]
        print(f"{title:45s} {cells}, top-1 by dataset {gain[:, 0].round(1)}")


def texts():
    frame = questions()
    for C in (1, 10, 100):
        found = []
        for seed in range(5):
            train, test = train_test_split(
                frame, train_size=0.75, stratify=frame.category, random_state=seed
            )
            row, y = make_long_tail(
                np.arange(len(train))[:, None], train.category, factor=20, random_state=seed
            )
            labels, count = np.unique(y, return_counts=True)
            clf = make_pipeline(TfidfVectorizer(), LogisticRegression(C=C, max_iter=1000))
            proba = clf.fit(train.text.iloc[row[:, 0]], y).predict_proba(test.text)
            scores = [proba / count**power for power in (0, 0.5, 1)]
            found.append([accuracies(test.category, each, labels, count)[:3] for each in scores])
        print(f"C={C}, {count.max()} to {count.min()} samples: balanced accuracy, top-5, accuracy")
        print(np.mean(found, axis=0).round(1))


def tiny():
    found = {}
    for seed in range(3):
        for n_classes in (100, 300):
            random = np.random.default_rng(seed)
            share = np.geomspace(1, 1 / 50, n_classes)
            size = np.maximum(1, np.round(2100 * share / share.sum())).astype(int)
            centers = 0.25 * random.normal(size=(n_classes, 256))
            y, y_test = (np.repeat(np.arange(n_classes), n) for n in (size, 10))
            X, X_test = (
                centers[each] + random.normal(size=(len(each), 256)) for each in (y, y_test)
            )
            loss, seeded = "smooth_topk_adjusted", {"k": 5, "random_state": seed}
            for name, model, power in (
                ("logistic regression", scaled(LogisticRegression(max_iter=1000)), 1),
                ("extra trees, by root", ExtraTreesClassifier(300, random_state=seed), 0.5),
                ("TopKClassifier", TopKClassifier(**seeded), 1),
                ("adjusted", TopKClassifier(loss, **seeded), 0),
                ("adjusted, linear", TopKClassifier(loss, hidden_layer_sizes=(), **seeded), 0),
            ):
                proba = model.fit(X, y).predict_proba(X_test) / size**power
                scores = [topk_accuracy_score(y_test, proba, k=k) for k in (1, 5)]
                found.setdefault((n_classes, name), []).append(scores)
    for (n_classes, name), scores in found.items():
        print(f"{n_classes} classes, {name:20s} {np.mean(scores, axis=0).round(3)}")


def price():
    found = {}
    for seed, X, y, X_test, y_test in rare_letters():
        labels, count = np.unique(y, return_counts=True)
        for loss in ("smooth_topk", "smooth_topk_adjusted"):
            proba = TopKClassifier(loss, k=5, random_state=seed).fit(X, y).predict_proba(X_test)
            for name, factor in (
                ("", 1),
                (" times class size", count),
                (" / class size", 1 / count),
            ):
                each = accuracies(y_test, proba * factor, labels, count)
                found.setdefault(loss + name, []).append(each)
    print("top-1 and top-5: mean over classes, then with classes as in training")
    for name, scores in found.items():
        print(f"{name:40s} {np.mean(scores, axis=0).round(1)}")


def routes():
    frame = questions()
    found = []
    for seed in range(10):
        old, rest = train_test_split(
            frame, train_size=0.6, stratify=frame.category, random_state=seed
        )
        parts = train_test_split(rest, train_size=0.5, stratify=rest.category, random_state=seed)
        clf = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10, max_iter=1000))
        probas = [clf.fit(old.text, old.category).predict_proba(part.text) for part in parts]
        labels = [clf.classes_[proba.argmax(axis=1)] for proba in probas]
        right_cal, right = (a == part.category for a, part in zip(labels, parts, strict=True))
        score_cal, score = (proba.max(axis=1) for proba in probas)
        lists = clf.classes_[np.argsort(-probas[1], axis=1)[:, :5]]
        five = (lists == parts[1].category.to_numpy()[:, None]).any(axis=1)
        rare = parts[1].category.isin(old.category.value_counts().index[-19:])
        order = np.argsort(-score_cal)
        shares = right_cal.to_numpy()[order].cumsum() / np.arange(1, len(order) + 1)
        for limit in (0.9, 0.95, 0.98):
            sure = BudgetClassifier.from_scores(
                score_cal, right_cal, constraint="precision", budget=limit, random_state=0
            )
            usual = score_cal[order][np.flatnonzero(shares >= limit)[-1]]
            for name, given in (("sktopk", sure.predict(score)), ("usual", score >= usual)):
                part = [right[given].mean(), given[rare].mean(), right[given & rare].mean()]
                part += [right.mean(), five[~given].mean()]  # of all; lists of five of the others
                found.append((limit, name, given.mean(), *part, part[0] < limit))
    columns = "limit threshold given right given_rare right_rare right_of_all five_of_others broken"
    columns = columns.split()
    table = pd.DataFrame(found, columns=columns).groupby(columns[:2])
    print(table.mean().round(3).assign(broken=table.broken.sum()).to_string())


def population(name, n_train, shuffle=True):
    """Train a classifier on a part of a dataset. Return scores and labels of the other samples."""
    X, y = TABLES[name].load()
    rows, positive = np.arange(len(y)), np.asarray(y) == 1
    if shuffle:
        rows = np.random.default_rng(0).permutation(rows)
    linear = LogisticRegression(C=10, max_iter=1000)
    clf = linear if issparse(X) else HistGradientBoostingClassifier(random_state=0)
    train, rest = np.split(rows, [n_train])
    return clf.fit(X[train], positive[train]).predict_proba(X[rest])[:, 1], positive[rest]


def limits():
    print("with BudgetClassifier and with the quantile: % of limits broken, and recall")
    for name in ("ALOI", "campaign", "coil2000", "cover", "donors", "HIV", "magic.gamma"):
        scores, positive = population(name, 5000)
        found = thresholds(scores, positive, 4000, budget=0.01)
        print(f"{name:12s} {positive.mean():6.2%} positive", found[[0, 2, 3, 5]])


def recalls():
    print("with BudgetClassifier and with the quantile: % of limits broken, and flagged samples")
    for name, n_train, n_cal in (
        ("fault", 700, 600),
        ("Cardiotocography", 800, 600),
        ("annthyroid", 2000, 2000),
    ):
        scores, positive = population(name, n_train)
        found = thresholds(scores, positive, n_cal, constraint="recall", budget=0.95)
        print(f"{name:16s} {positive.mean():6.2%} positive", found[[0, 1, 3, 4]])


def thresholds(scores, positive, n_cal, budget, constraint="fpr"):
    """Return broken limits, flagged samples and recall in %, for BudgetClassifier and quantile."""
    random, found = np.random.default_rng(0), []
    limited = positive if constraint == "recall" else ~positive
    for seed in range(1000):
        cal = random.integers(len(scores), size=n_cal)
        clf = calibrated(scores[cal], positive[cal], seed, budget=budget, constraint=constraint)
        quantile = np.quantile(scores[cal][limited[cal]], 1 - budget)
        above = scores >= quantile if constraint == "recall" else scores > quantile
        for flagged in (scores > clf.threshold_, above):
            rate = flagged[limited].mean()
            miss = rate < budget if constraint == "recall" else rate > budget
            found.append([miss, flagged.mean(), flagged[positive].mean()])
    return 100 * np.mean(np.reshape(found, (-1, 6)), axis=0).round(3)


def later():
    print("% of later inactive molecules flagged (limit 5), % of active ones found (limit 80)")
    for assay in ("3A4", "2C9", "2D6"):
        (X, activity), (X_new, activity_new) = (
            load_merck_cyp3a4(subset, assay=assay, return_X_y=True) for subset in ("train", "test")
        )
        active, active_new, found = activity >= 5.5, activity_new >= 5.5, []
        for seed in range(20):
            train, cal = np.split(np.random.default_rng(seed).permutation(len(active)), [2000])
            clf = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000))
            clf.fit(X[train].log1p(), active[train])
            scores, new = (clf.decision_function(each.log1p()) for each in (X[cal], X_new))
            for constraint, budget in {"fpr": 0.05, "recall": 0.8}.items():
                of = constraint == "recall"
                quantile = np.quantile(scores[active[cal] == of], 1 - budget)
                params = {"budget": budget, "constraint": constraint}
                alarm = calibrated(scores, active[cal], seed, **params)
                limited = new[active_new == of]
                found += [(limited > t).mean() for t in (alarm.threshold_, quantile)]
        found = 100 * np.reshape(found, (20, 2, 2))
        print(assay, "BudgetClassifier, quantile", found.mean(0).round(1).tolist())
        broken = np.mean((found - [[5], [80]]) * [[1], [-1]] > 0, axis=0)
        print("     limits broken", broken.tolist())


def calls():
    for name, n_train, n_cal, n_new, n in (
        ("coil2000", 4000, 2000, 3822, 500),
        ("campaign", 8000, 4000, 8000, 500),
        ("HIV", 10_000, 4000, 8000, 200),
    ):
        scores, positive = population(name, n_train)
        random, found = np.random.default_rng(0), []
        for _ in range(400):
            cal, new = np.split(random.permutation(len(scores))[: n_cal + n_new], [n_cal])
            bounds = BudgetClassifier.from_scores(scores[cal], positive[cal])
            low, high = bounds.hits_interval(scores[new], n)
            hits = positive[new][np.argsort(-scores[new])[:n]].sum()
            found.append([low, high, hits, not low <= hits <= high])
        print(f"{name}: bounds and number {np.median(found, axis=0)[:3]}", end=", ")
        print(f"{np.sum(found, axis=0)[3]} of 400 miss")


def sizes():
    X, y = make_classification(400_000, weights=[0.9], class_sep=0.8, random_state=0)
    scores = LogisticRegression().fit(X[:2000], y[:2000]).decision_function(X)
    positive, random = scores[200_000:][y[200_000:] == 1], np.random.default_rng(0)
    print("negatives, above the threshold, share of positives found, and found by the quantile")
    for n in (900, 5900, 100_000):
        found = []
        for _ in range(100):
            rows = random.choice(np.arange(2000, 200_000), round(n / 0.9), replace=False)
            clf = BudgetClassifier.from_scores(scores[rows], y[rows], budget=0.01)
            negative = scores[rows][y[rows] == 0]
            cuts = clf.threshold_, np.quantile(negative, 0.99)
            found.append([np.sum(negative > cuts[0]), *(np.mean(positive > cut) for cut in cuts)])
        print(n, np.mean(found, axis=0).round(3))


def draw(random, n, share):
    """Draw labels, and scores from N(2, 1) for positives and from N(0, 1) for negatives."""
    positive = random.random(n) < share
    return random.normal(size=n) + 2 * positive, positive


def calibrated(scores, positive, seed, **params):
    return BudgetClassifier.from_scores(
        scores, positive, classes=[False, True], random_state=seed, **params
    )


def broken(scores, seed):
    """Return whether a threshold calibrated for 1 % of negatives is exceeded by more of N(0, 1)."""
    clf = calibrated(scores, np.zeros(len(scores), dtype=bool), seed, budget=0.01)
    return norm.sf(clf.threshold_) > 0.01


def bounds_miss(calibration, new):
    """Return whether bounds for the 200 best fail. Both arguments are pairs (scores, positive)."""
    low, high = BudgetClassifier.from_scores(*calibration).hits_interval(new[0], 200)
    return not low <= new[1][np.argsort(-new[0])[:200]].sum() <= high


def lists():
    X, y = make_classification(120_000, weights=[0.95], class_sep=0.5, random_state=0)
    clf = HistGradientBoostingClassifier(random_state=0).fit(X[:8000], y[:8000])
    scores, random = clf.predict_proba(X[8000:])[:, 1], np.random.default_rng(0)
    for n in (500, 1000, 4000, 16_000):
        found = []
        for _ in range(60):
            cal, new = np.split(random.permutation(len(scores))[: n + 8000], [n])
            clf = BudgetClassifier.from_scores(scores[cal], y[8000:][cal])
            hits = y[8000:][new][np.argsort(-scores[new])[:500]].sum()
            found.append([*clf.hits_interval(scores[new], 500), hits, y[8000:][cal].sum()])
        print(f"{n} samples: bounds, hits and positives {np.median(found, axis=0)}")
    for share in (0, 0.5, 0.9):
        missed = []
        for seed in range(1000):
            random = np.random.default_rng(seed)
            customer, parts = random.normal(size=2000), []
            for _ in range(2):
                interest = share**0.5 * customer + (1 - share) ** 0.5 * random.normal(size=2000)
                buys = interest + 0.5 * random.normal(size=2000) > 2
                parts.append((interest + random.normal(size=2000), buys))
            missed.append(bounds_miss(*parts))
        print(f"correlation {share} of interest in two purchases: {np.mean(missed):.1%} miss")
    for size in (1, 5, 20):
        random, missed = np.random.default_rng(0), []
        for _ in range(400):
            parts = []
            for n in (2000, 4000):
                scaffold = np.repeat(random.normal(size=n // size), size)
                activity = 0.8**0.5 * scaffold + 0.2**0.5 * random.normal(size=n)
                active = activity + 0.5 * random.normal(size=n) > 2
                parts.append((activity + random.normal(size=n), active))
            missed.append(bounds_miss(*parts))
        print(f"{size} molecules per scaffold: {np.mean(missed):.1%} miss")


def dependent():
    random, n_draws = np.random.default_rng(0), 200
    rho = 0.99
    for n, step in ((5000, 1), (50_000, 100)):
        noise = random.normal(size=(n_draws, n + 1000)) * (1 - rho**2) ** 0.5
        readings = lfilter([1], [1, -rho], noise)[:, 1000::step]
        n_broken = sum(broken(each, i) for i, each in enumerate(readings))
        print(f"every {step}th of {n} readings: {n_broken} of {n_draws} thresholds break 1 %")
    for n, size in ((2000, 3), (300, 20)):
        n_broken = 0
        for i in range(n_draws):
            scores = (
                random.normal(size=(n, 1)) * 0.8**0.5 + random.normal(size=(n, size)) * 0.2**0.5
            )
            n_broken += broken(scores.ravel(), i)
        print(f"{n} customers with {size} samples: {n_broken} of {n_draws}")
    for spread in (0, 0.3, 0.6):
        missed = []
        for i in range(n_draws):
            shares = 0.05 * np.exp(spread * random.normal(size=45) - spread**2 / 2)
            scores, positive = np.transpose(
                [draw(random, 400, min(p, 0.9)) for p in shares], (1, 0, 2)
            )
            recent, new = scores[:25].ravel(), scores[25:]
            clf = calibrated(recent, positive[:25].ravel() > 0, i)
            day = np.repeat(np.arange(20), 400)
            low, high = clf.hits_interval(new.reshape(-1, 1), 20, groups=day)
            best = np.argsort(-new, axis=1)[:, :20]
            hits = np.take_along_axis(positive[25:], best, axis=1).sum(axis=1)
            missed.append((hits < low) | (hits > high))
        print(
            f"share of a day with a log of standard deviation {spread}: {np.mean(missed):.1%} miss"
        )
    for n in (300, 1000, 3000):
        found = []
        for i in range(n_draws):
            clf = calibrated(*draw(random, n, 0.01), i)
            scores, positive = draw(random, 20_000, 0.01)
            best = np.argsort(-scores)[:200]
            found.append([*clf.hits_interval(scores[:, None], 200), positive[best].sum()])
        print(f"{n} labels, 1 % active: bounds and number {np.median(found, axis=0)}")
    for n in (50, 100, 200, 300):
        found = []
        for i in range(n_draws):
            scores, positive = draw(random, 20_000, 0.01)
            pool = np.argsort(-scores)[:2000]
            tested = np.isin(np.arange(2000), random.choice(2000, n, replace=False))
            clf = calibrated(scores[pool][tested], positive[pool][tested], i)
            low, high = clf.hits_interval(scores[pool][~tested, None], 200)
            hits = positive[pool][~tested][:200].sum()
            found.append([low, high, hits, positive[pool][tested].sum(), low <= hits <= high])
        print(f"{n} labels of the 2000 best: bounds, number, active among the tested, kept bounds")
        print(f"    {np.median(found, axis=0)[:4]}, {np.mean(found, axis=0)[4]}")


def pools():
    X, y = make_classification(30_000, weights=[0.99], flip_y=0, class_sep=0.7, random_state=0)
    published = np.flatnonzero((y[:10_000] == 1) | (np.arange(10_000) < 250))
    clf = HistGradientBoostingClassifier(random_state=0).fit(X[published], y[published])
    simulated = clf.predict_proba(X[10_000:])[:, 1], y[10_000:] == 1
    for name, (scores, active), n_draws in (
        ("simulated", simulated, 20),
        # Similar molecules are neighbors in the file. Do not shuffle, so that new molecules differ.
        ("HIV", population("HIV", 10_000, shuffle=False), 200),
    ):
        old, new = np.split(np.arange(len(scores)), [10_000])
        bounds = BudgetClassifier.from_scores(scores[old], active[old])
        low, high = bounds.hits_interval(scores[new], 200)
        hits = active[new][np.argsort(-scores[new])[:200]].sum()
        print(f"calibrated with the first 10 000: {low} to {high}, number {hits}")
        order = np.argsort(-scores)
        print(f"{name}: active ones of the 200 and 400 best: {active[order[:200]].sum()}", end=", ")
        print(active[order[:400]].sum())
        for n in (400, 600, 1000, 2000, 5000):
            pool, found = order[:n], []
            for seed in range(n_draws):
                tested = np.random.default_rng(seed).choice(pool, 200, replace=False)
                candidates = np.setdiff1d(pool, tested)
                ranked = BudgetClassifier.from_scores(scores[tested], active[tested])
                best = candidates[ranked.predict_top(scores[candidates], 200)]
                low, high = ranked.hits_interval(scores[candidates], 200)
                hits = active[best].sum()
                found.append([active[tested].sum(), low, high, hits, not low <= hits <= high])
            mean = np.mean(found, axis=0)
            print(f"pool of {n}: active among 200 tests, bounds, number {mean[:4]}", end=", ")
            print(f"{mean[4]:.1%} miss")


def top_scores(model, X):
    """Return one score per sample. Higher scores are better."""
    for method in ("decision_function", "predict_proba", "predict"):
        if hasattr(model, method):
            scores = getattr(model, method)(X)
            return scores if scores.ndim == 1 else scores[:, 1]
    raise TypeError(type(model).__name__)


def days():
    found = {}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n, n_days = 40_000, 40
        day, shift = rng.integers(n_days, size=n), 2 * rng.normal(size=n_days)
        X = rng.normal(size=(n, 6))
        y = X[:, 0] + X[:, 1] * X[:, 2] / 2 + rng.normal(size=n) > 2.2
        X[:, 3] += shift[day]
        X[:, 0] += shift[day] / 2
        past, seeded = day < 28, {"random_state": seed}
        usual = LGBMClassifier(n_jobs=1, verbose=-1, **seeded)
        means = np.stack([np.bincount(day, each) / np.bincount(day) for each in X.T], axis=1)
        small = LGBMClassifier(
            n_estimators=200, num_leaves=8, learning_rate=0.03, n_jobs=1, verbose=-1, **seeded
        )
        trees = ExtraTreesClassifier(300, min_samples_leaf=3, **seeded)
        for name, model, grouped, centered in (
            ("LightGBM", usual, False, False),
            ("LightGBM, minus the means of the day", usual, False, True),
            ("LightGBM, 8 leaves", small, False, False),
            ("LightGBM, 8 leaves, minus the means", small, False, True),
            ("extra trees, 3 per leaf, minus the means", trees, False, True),
            ("LGBMRanker", LGBMRanker(n_jobs=1, verbose=-1, **seeded), True, False),
            ("extra trees", ExtraTreesClassifier(300, **seeded), False, False),
            ("TopBoostClassifier", TopBoostClassifier(n_jobs=1, **seeded), False, False),
            ("TopBoostClassifier, groups", TopBoostClassifier(n_jobs=1, **seeded), True, False),
            ("RecallAtFPRClassifier", RecallAtFPRClassifier(**seeded), False, False),
            ("RecallAtFPRClassifier, groups", RecallAtFPRClassifier(**seeded), True, False),
        ):
            table, order = X - means[day] if centered else X, np.argsort(day[past], kind="stable")
            own = {"groups": day[past][order]} if grouped else {}
            if isinstance(model, LGBMRanker):
                own = {"group": np.bincount(day[past])}
            model.fit(table[past][order], y[past][order].astype(int), **own)
            scores = top_scores(model, table[~past])
            precision = precision_at_k_score(y[~past], scores, k=100, groups=day[~past])
            found.setdefault(name, []).append(precision)
    ours = np.array(found["RecallAtFPRClassifier, groups"])
    for name, precisions in found.items():
        gain = ours - precisions
        half = t.ppf(0.975, len(gain) - 1) * np.std(gain, ddof=1) / len(gain) ** 0.5
        print(f"{name:36s} {np.mean(precisions):.3f}  less by {np.mean(gain):+.3f} ± {half:.3f}")
    for name in ("LightGBM", "LightGBM, 8 leaves"):
        centered = next(each for each in found if each.startswith(f"{name}, minus"))
        gain = np.subtract(found[centered], found[name])
        half = t.ppf(0.975, len(gain) - 1) * np.std(gain, ddof=1) / len(gain) ** 0.5
        print(f"the means gain {np.mean(gain):+.3f} ± {half:.3f} for {name}")


def molecules():
    (X, activity), (X_test, activity_test) = (
        load_merck_cyp3a4(subset, return_X_y=True) for subset in ("train", "test")
    )
    components = make_pipeline(TruncatedSVD(100, random_state=0), StandardScaler())
    X, X_test = components.fit_transform(X.log1p()), components.transform(X_test.log1p())
    scores = {}
    for model in (
        SVR(),
        SVC(),
        LogisticRegression(max_iter=1000),
        ExtraTreesClassifier(300, random_state=0),
        TopBoostClassifier(n_jobs=1, random_state=0),
        RecallAtFPRClassifier(random_state=0),
    ):
        model.fit(X, activity if isinstance(model, SVR) else activity >= 5.5)
        scores[type(model).__name__] = top_scores(model, X_test)
    active, rng = activity_test >= 5.5, np.random.default_rng(0)
    samples = [np.arange(len(active))]
    samples += [rng.integers(len(active), size=len(active)) for _ in range(1000)]
    hits = {
        name: np.array([active[rows][np.argsort(-score[rows])[:200]].sum() for rows in samples])
        for name, score in scores.items()
    }
    for name, found in hits.items():
        low, high = np.quantile((hits["SVR"] - found)[1:], (0.025, 0.975))
        print(f"{name:32s} {found[0]}, fewer than SVR: {low:.0f} to {high:.0f}")


def average():
    torch.set_num_threads(1)
    results = read(RESULTS)
    ours = results[results.method == "vote of three"].set_index(["table", "split"])
    gains = {}
    for name in sorted({table for table, _ in ours.index if HALF[table] == "reporting"}):
        for split in range(FEW_SPLITS):
            parts = {
                "boosting": lightgbm_of(split),
                "trees": ExtraTreesClassifier(random_state=split),
                "network": scaled(MLPClassifier(random_state=split)),
            }
            model = VotingClassifier([*parts.items()], voting="soft")
            scores = fit_and_score(model, split_of(name, split), TABLES[name].kind)[2]
            for metric, score in scores.items():
                gain = 100 * (ours.loc[(name, split), metric] - score)
                gains.setdefault(metric, {}).setdefault(name, []).append(gain)
    for metric, of_tables in gains.items():
        gain = [np.mean(each) for each in of_tables.values()]
        half = t.ppf(0.975, len(gain) - 1) * np.std(gain, ddof=1) / len(gain) ** 0.5
        print(f"{metric:32s} {np.mean(gain):+.1f} ± {half:.1f}")


def main():
    warnings.simplefilter("ignore")
    labels = letters, corrected, tails, texts, tiny, price, routes
    limited = limits, recalls, later, calls, sizes, lists
    each = *labels, *limited, dependent, pools, days, molecules, average
    parts = {part.__name__: part for part in each}
    for name in sys.argv[1:] or parts:
        print(f"\n{name}")
        parts[name]()


if __name__ == "__main__":
    main()
