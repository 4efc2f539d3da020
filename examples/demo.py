"""Three guesses per digit: logistic regression against the smooth top-k loss.

Five principal components and a linear model are too little to tell ten digits apart at once.
A model of that size has to choose what it is good at; the loss says what.
"""

import warnings
from time import perf_counter

import matplotlib as mpl
import numpy as np
from scipy.special import stdtrit
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from sktopk import TopKClassifier, make_pipeline
from sktopk.metrics import TopKCurveDisplay, topk_accuracy_score

SEEDS = range(5)
KS = (1, 2, 3, 5)
# Cross-entropy has scores as large as those of the top-k loss the second time.
SETTINGS = {
    "cross_entropy": {"loss": "cross_entropy"},
    "smooth_topk": {"loss": "smooth_topk"},
    "cross_entropy, score_scale=10": {"loss": "cross_entropy", "score_scale": 10},
}


def fit(seed, settings):
    """Return the fitted pipeline, the held-out half and the seconds that training took."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    if settings is None:
        # The same model, trained to the end: the honest opponent.
        clf = LogisticRegression(max_iter=1000)
    else:
        clf = TopKClassifier(k=3, hidden_layer_sizes=(), random_state=seed, **settings)
    pipe = make_pipeline(StandardScaler(), PCA(5, random_state=0), clf)
    start = perf_counter()
    pipe.fit(X, y)
    return pipe, X_test, y_test, perf_counter() - start


def interval(differences):
    """The mean, and half the width of its 95 % confidence interval (Student's t)."""
    n = len(differences)
    half = stdtrit(n - 1, 0.975) * differences.std(ddof=1) / n**0.5 if n > 1 else np.nan
    return f"{differences.mean():+.2f} ± {half:.2f}"


def main():
    # Default settings are compared as they are, converged or not.
    warnings.simplefilter("ignore", ConvergenceWarning)
    settings = {"LogisticRegression": None, **SETTINGS}
    accuracy = {name: np.empty((len(SEEDS), len(KS))) for name in settings}
    seconds = {name: [] for name in settings}
    last = {}
    runs = [(seed, name) for seed in SEEDS for name in settings]
    bar = tqdm(runs, desc="Training", unit="fit")
    for seed, name in bar:
        bar.set_postfix_str(f"{name}, seed {seed}")
        pipe, X_test, y_test, took = fit(seed, settings[name])
        y_score = pipe.decision_function(X_test)
        for i, k in enumerate(KS):
            score = topk_accuracy_score(y_test, y_score, k=k, labels=pipe.classes_)
            accuracy[name][seed, i] = score
        seconds[name].append(took)
        last[name] = y_test, y_score, pipe.classes_

    print("\nDigits, 5 principal components, linear model, k=3: accuracy on the held-out half,")
    print(f"mean (standard deviation) over {len(SEEDS)} seeds\n")
    print(f"{'loss':30s}" + "".join(f"{f'top-{k}':>14s}" for k in KS) + f"{'fit s':>8s}")
    for name, scores in accuracy.items():
        spread = scores.std(0, ddof=1) if len(SEEDS) > 1 else np.zeros(len(KS))
        cells = [f"{m:.3f} ({s:.3f})" for m, s in zip(scores.mean(0), spread, strict=True)]
        print(f"{name:30s}" + "".join(f"{c:>14s}" for c in cells), end="")
        print(f"{np.mean(seconds[name]):8.2f}")

    logistic, smooth = (100 * accuracy[name] for name in ("LogisticRegression", "smooth_topk"))
    at_one, _, at_three, _ = (smooth - logistic).T
    print(
        f"\nWith three guesses smooth_topk finds {smooth[:, 2].mean():.1f} % of the digits, "
        f"logistic regression {logistic[:, 2].mean():.1f} %:\n{interval(at_three)} points at 3, "
        f"and {interval(at_one)} at 1 (95 % intervals, paired by seed)."
    )

    mpl.use("Agg")
    ax = None
    for name in ("smooth_topk", "LogisticRegression", "cross_entropy"):
        y_test, y_score, classes = last[name]
        display = TopKCurveDisplay.from_predictions(
            y_test, y_score, labels=classes, name=name, ax=ax, plot_chance_level=ax is None
        )
        ax = display.ax_
    display.figure_.savefig("demo.png", dpi=120, bbox_inches="tight")
    print("The curve over every k: demo.png")


if __name__ == "__main__":
    main()
