"""Digits with confused labels: strong baselines and TopKClassifier; then two guarantees.

60 % of the training labels are replaced at random within groups of similar digits. The test labels
are correct. Scores are means over five splits, with their standard deviation.
"TopKClassifier (8)" trains for 8 epochs only, because longer training fits the wrong labels.
"""

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
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from sktopk import BudgetClassifier, SetClassifier, TopKClassifier, make_pipeline
from sktopk.datasets import inject_label_noise
from sktopk.metrics import set_coverage_score, set_size_score, topk_accuracy_score

SEEDS, KS, REDRAWN, N_CALIBRATIONS = range(5), (1, 2, 3), 0.6, 200
GROUPS = {0: 0, 6: 0, 9: 0, 1: 1, 4: 1, 7: 1, 2: 2, 3: 2, 5: 2, 8: 2}
OURS = "TopKClassifier (8)"
MODELS = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "SVC": lambda: make_pipeline(StandardScaler(), SVC()),
    "MLPClassifier": lambda: make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
    "ExtraTrees": lambda: ExtraTreesClassifier(random_state=0),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "TopKClassifier": lambda: TopKClassifier(k=3, random_state=0),
    OURS: lambda: TopKClassifier(k=3, max_epochs=8, random_state=0),
}


def fit(name, seed):
    """Return a model of half of the digits with confused labels, and the other half."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    return MODELS[name]().fit(X, inject_label_noise(y, GROUPS, REDRAWN, seed)), X_test, y_test


def evaluate(name, seed, bar):
    """Return the top-k accuracies and the CPU seconds of the training."""
    start = process_time()
    model, X_test, y_test = fit(name, seed)
    seconds = process_time() - start
    bar.update()
    scores = getattr(model, "decision_function", getattr(model, "predict_proba", None))(X_test)
    return [*(topk_accuracy_score(y_test, scores, k=k) for k in KS), seconds]


def table(found):
    """Print mean and standard deviation of each model, the best ones and the place of ours."""
    print(f"\n{'':21s}" + "".join(f"{f'top-{k}':>16s}" for k in KS) + f"{'CPU seconds':>13s}")
    for name, runs in found.items():
        mean, spread = runs.mean(0), runs.std(0, ddof=1)
        cells = [f"{mean[i]:.3f} ± {spread[i]:.3f}" for i in range(len(KS))]
        print(f"{name:21s}" + "".join(f"{cell:>16s}" for cell in cells) + f"{mean[-1]:13.2f}")
    for i, k in enumerate(KS):
        order = sorted(found, key=lambda name: -found[name][:, i].mean())
        best, rival = order[0], order[1] if order[0] == OURS else OURS
        lead, n = 100 * (found[best] - found[rival])[:, i], len(found[best])
        # The interval allows for splits that share training samples.
        half = student.ppf(0.975, n - 1) * lead.std(ddof=1) * (1 / n + 1) ** 0.5
        place = "" if best == OURS else f", {OURS} has place {order.index(OURS) + 1}"
        print(f"\ntop-{k}: {best} is best{place}.")
        print(f"       {lead.mean():.1f} points (95 % interval: ± {half:.1f}) more than {rival}.")


def sets_with_coverage():
    """Print size and coverage of sets that contain the true label nine times out of ten."""
    model, X, y = fit("ExtraTrees", 0)
    sets = SetClassifier(FrozenEstimator(model), method="lac", coverage=0.9).fit(X[::2], y[::2])
    y_set = sets.predict_set(X[1::2])
    coverage = set_coverage_score(y[1::2], y_set, labels=sets.classes_)
    print(f"\nSetClassifier(ExtraTrees, coverage=0.9): {set_size_score(y_set):.2f} labels a set,")
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
    print(__doc__)
    warnings.simplefilter("ignore")  # MLPClassifier: more iterations would fit the noise further.
    with tqdm(total=len(MODELS) * len(SEEDS), unit="fit", mininterval=1) as bar:
        found = {name: np.array([evaluate(name, seed, bar) for seed in SEEDS]) for name in MODELS}
    table(found)
    sets_with_coverage()
    false_alarms()


if __name__ == "__main__":
    main()
