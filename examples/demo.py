"""Digits with confused labels: strong baselines and TopKClassifier; then two guarantees.

Annotators confuse digits that look alike: 60 % of the training labels are redrawn at random within
groups of similar digits. Accuracies are those for the true labels of new digits.
"""

import sys
import warnings
from time import process_time

import numpy as np
from scipy.stats import t as student
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from sktopk import BudgetClassifier, SetClassifier, TopKClassifier
from sktopk.datasets import inject_label_noise
from sktopk.metrics import set_coverage_score, set_size_score, topk_accuracy_score

SEEDS, KS, REDRAWN, N_CALIBRATIONS = range(5), (1, 2, 3), 0.6, 200
GROUPS = {0: 0, 6: 0, 9: 0, 1: 1, 4: 1, 7: 1, 2: 2, 3: 2, 5: 2, 8: 2}
OURS = "TopKClassifier"
MODELS = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "SVC": lambda: make_pipeline(StandardScaler(), SVC()),
    "MLPClassifier": lambda: make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
    "ExtraTrees": lambda: ExtraTreesClassifier(random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    OURS: lambda: TopKClassifier(k=3, random_state=0),
}


def split(seed):
    """Return half of the digits with confused labels, and the other half with true labels."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    return X, inject_label_noise(y, GROUPS, REDRAWN, random_state=seed), X_test, y_test


def evaluate(name, seed):
    """Return the top-k accuracies and the CPU seconds of `fit`."""
    X, y, X_test, y_test = split(seed)
    start = process_time()
    model = MODELS[name]().fit(X, y)
    seconds = process_time() - start
    scores = getattr(model, "decision_function", getattr(model, "predict_proba", None))(X_test)
    return [*(topk_accuracy_score(y_test, scores, k=k) for k in KS), seconds]


def table(found):
    """Print mean and standard deviation of each model, the winners and the place of ours."""
    print(f"\n{'':21s}" + "".join(f"{f'top-{k}':>16s}" for k in KS) + f"{'CPU seconds':>13s}")
    for name, runs in found.items():
        mean, spread = runs.mean(0), runs.std(0, ddof=1) if len(runs) > 1 else 0 * runs[0]
        cells = [f"{mean[i]:.3f} ± {spread[i]:.3f}" for i in range(len(KS))]
        print(f"{name:21s}" + "".join(f"{cell:>16s}" for cell in cells) + f"{mean[-1]:13.2f}")
    print()
    for i, k in enumerate(KS):
        order = sorted(found, key=lambda name: -found[name][:, i].mean())
        best, rival = order[0], order[1] if order[0] == OURS else OURS
        lead, n = 100 * (found[best] - found[rival])[:, i], len(found[best])
        text = f"top-{k}: {best} is best, {lead.mean():.1f} points more than {rival}"
        if n > 1:  # Splits share training samples, which the interval allows for.
            half = student.ppf(0.975, n - 1) * lead.std(ddof=1) * (1 / n + 1) ** 0.5
            text += f" (± {half:.1f}, 95 %{'' if half < lead.mean() else '; inconclusive'})"
        print(f"{text}. {OURS}: place {order.index(OURS) + 1} of {len(order)}.")


def sets_with_coverage():
    """Print what sets of labels cover that contain the true label nine times out of ten."""
    X, y, X_test, y_test = split(0)
    X_cal, X_new, y_cal, y_new = train_test_split(X_test, y_test, test_size=0.5, random_state=0)
    model = FrozenEstimator(MODELS["ExtraTrees"]().fit(X, y))
    sets = SetClassifier(model, method="lac", coverage=0.9).fit(X_cal, y_cal).predict_set(X_new)
    coverage = set_coverage_score(y_new, sets, labels=model.classes_)
    print(f"\nSetClassifier(ExtraTrees, coverage=0.9): {set_size_score(sets):.2f} labels on average,")
    print(f"which contain the true label of {coverage:.1%} of new digits.")


def false_alarms():
    """Print how often a threshold has more than 1 % false alarms on new samples."""
    X, y = make_classification(40_000, weights=[0.9], class_sep=0.8, random_state=0)
    model = FrozenEstimator(LogisticRegression().fit(X[:2000], y[:2000]))
    scores, rng, above = model.decision_function(X), np.random.default_rng(0), []
    new = scores[20_000:][y[20_000:] == 0]
    selection = BudgetClassifier(model, budget=0.01, constraint="fpr", delta=0.05)
    for _ in range(N_CALIBRATIONS):
        rows = rng.choice(np.arange(2000, 20_000), 1000, replace=False)
        quantile = np.quantile(scores[rows][y[rows] == 0], 0.99)
        guaranteed = selection.fit(X[rows], y[rows]).threshold_
        above.append([np.mean(new > each) > 0.01 for each in (quantile, guaranteed)])
    quantile, guaranteed = np.mean(above, axis=0)
    print(f"\nMore than 1 % false alarms, in {N_CALIBRATIONS} calibrations with 1000 samples each:")
    print(f"{quantile:.0%} of the thresholds at the 99 % quantile of the negatives,")
    print(f'{guaranteed:.0%} of those of BudgetClassifier(constraint="fpr"), which allows 5 %.')


def main():
    warnings.simplefilter("ignore")  # MLPClassifier: more iterations would fit the noise further.
    found = {name: [] for name in MODELS}
    runs = [(name, seed) for name in MODELS for seed in SEEDS]
        interval = 0.1 if sys.stderr.isatty() else 5  # A log file keeps each update.
    for name, seed in tqdm(runs, desc="Training", unit="fit", mininterval=interval):
        found[name].append(evaluate(name, seed))
    table({name: np.array(each) for name, each in found.items()})
    sets_with_coverage()
    false_alarms()


if __name__ == "__main__":
    main()
