"""Three guesses per digit: the default estimator beside boosting and logistic regression.

A digit is known by five numbers only, its first principal components: too little to be right at
once, so that what counts is whether the right one is among three guesses.
"""

from time import process_time

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from sktopk import TopKClassifier, make_pipeline
from sktopk.metrics import LossComparisonDisplay, TopKCurveDisplay, topk_accuracy_score

SEEDS = range(5)
KS = (1, 2, 3, 5)
OURS, K = "TopKClassifier", 3
SETTINGS = {OURS: {"k": K}}
MODELS = {
    "logistic regression": lambda seed: LogisticRegression(max_iter=1000),
    "boosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    OURS: lambda seed: TopKClassifier(random_state=seed, **SETTINGS[OURS]),
}


def scores_of(seed, name):
    """Return the top-k accuracies on the held-out half, seconds of training, what to draw."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    pipe = make_pipeline(StandardScaler(), PCA(5, whiten=True, random_state=0), MODELS[name](seed))
    start = process_time()
    pipe.fit(X, y)
    took = process_time() - start
    y_score = pipe.decision_function(X_test)
    scores = [topk_accuracy_score(y_test, y_score, k=k, labels=pipe.classes_) for k in KS]
    return scores, took, (y_test, y_score, pipe.classes_)


def main():
    runs = [(seed, name) for name in MODELS for seed in SEEDS]
    found = {name: [] for name in MODELS}
    bar = tqdm(runs, desc="Training", unit="fit")
    for seed, name in bar:
        bar.set_postfix_str(f"{name}, seed {seed}")
        found[name].append(scores_of(seed, name))

    print("\nDigits, 5 principal components: accuracy on the held-out half,")
    print(f"mean (standard deviation) over {len(SEEDS)} splits, seconds of the processor\n")
    print(f"{'model':22s}" + "".join(f"{f'top-{k}':>15s}" for k in KS) + f"{'fit, s':>9s}")
    at_k = {}
    for name, runs_of in found.items():
        scores = np.array([each for each, *_ in runs_of])
        at_k[name] = scores[:, KS.index(K)]
        spread = scores.std(0, ddof=1) if len(SEEDS) > 1 else np.zeros(len(KS))
        cells = [f"{m:.3f} ({s:.3f})" for m, s in zip(scores.mean(0), spread, strict=True)]
        seconds = np.mean([took for _, took, _ in runs_of])
        print(f"{name:22s}" + "".join(f"{cell:>15s}" for cell in cells) + f"{seconds:9.1f}")

    means = {name: 100 * values.mean() for name, values in at_k.items()}
    print(
        f"\nWith three guesses {OURS} finds {means[OURS]:.1f} % of the digits, boosting "
        f"{means['boosting']:.1f} %,\nlogistic regression {means['logistic regression']:.1f} %."
    )
    mpl.use("Agg")
    for rival in ("boosting", "logistic regression") if len(SEEDS) > 1 else ():
        # The splits share training rows, which the interval allows for.
        difference = LossComparisonDisplay.from_scores(at_k, baseline=rival, test_fraction=0.5)
        text = difference.texts_[difference.names.index(OURS)].get_text()
        print(f"Beside {rival}, difference and 95 % interval: {text}")

    ax = None
    for name in reversed(MODELS):
        y_test, y_score, classes = found[name][-1][2]
        curve = TopKCurveDisplay.from_predictions(
            y_test, y_score, labels=classes, name=name, ax=ax, plot_chance_level=ax is None
        )
        ax = curve.ax_
    curve.figure_.savefig("demo.png", dpi=120, bbox_inches="tight")
    print("The curve over every k: demo.png")


if __name__ == "__main__":
    main()
