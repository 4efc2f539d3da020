"""Class priors in the loss: macro-averaged accuracy on a table whose classes are thinned down.

letter, of which `make_long_tail` keeps fewer and fewer rows from class to class, down to a
fiftieth; the test rows have all classes alike. One plain network per loss and split.

    python benchmarks/long_tail.py
"""

import warnings

import numpy as np
import pandas as pd
from real_data import letter
from scipy.stats import t
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.datasets import make_long_tail
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP

LOSSES = {
    "cross_entropy": {},
    "logit_adjusted": {},
    "logit_adjusted, score_scale=5": {"loss": "logit_adjusted", "score_scale": 5.0},
    "smooth_topk": {},
    "smooth_topk_adjusted": {},
}
KS = (1, 5)
N_SPLITS, FACTOR = 5, 50


def run(seed):
    """Macro-averaged accuracies of every loss on one split, in percent."""
    X, X_test, y, y_test = train_test_split(
        *letter(), test_size=0.4, stratify=letter()[1], random_state=seed
    )
    X, y = make_long_tail(X, y, FACTOR, random_state=seed)
    scaler = StandardScaler().fit(X)
    X, X_test = (scaler.transform(each).astype(np.float32) for each in (X, X_test))
    for name, params in LOSSES.items():
        clf = TopKClassifier(**{"loss": name} | params, k=5, module=MLP, random_state=seed)
        y_score = clf.set_params(max_epochs=30).fit(X, y).decision_function(X_test)
        for k in KS:
            macro = topk_accuracy_score(y_test, y_score, k=k, labels=clf.classes_, average="macro")
            yield {"seed": seed, "loss": name, "k": k, "macro": 100 * float(macro)}


def mean_and_half(values):
    half = t(len(values) - 1).ppf(0.975) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.1f} ± {half:.1f}"


def main():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        runs = pd.DataFrame([row for seed in range(N_SPLITS) for row in run(seed)])
    table = runs.pivot(index="seed", columns=["k", "loss"], values="macro")
    print("| loss | macro top-1 | macro top-5 | top-5 beside logit_adjusted |")
    print("| --- | --- | --- | --- |")
    for name in LOSSES:
        gain = table[5, name] - table[5, "logit_adjusted"]
        cells = [mean_and_half(each) for each in (table[1, name], table[5, name], gain)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
