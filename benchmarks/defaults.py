"""Do the defaults win? Every loss with default settings against cross-entropy with its own.

Half of the rows train, half judge; k = 3; everything not named is a default of TopKClassifier,
so that all losses get the same epochs, steps and learning rate. The last columns are the
difference in top-3 accuracy to cross-entropy with defaults, and to cross-entropy with
score_scale=10, which has as much room for its scores: the opponent that counts. ± is half a 95 %
confidence interval of the paired differences.

    python benchmarks/defaults.py --losses smooth_topk --seeds 10
    python benchmarks/defaults.py --losses all --seeds 3
    python benchmarks/defaults.py --losses smooth_topk --score-scale 1 3 10 30 100
"""

import argparse
import warnings

import numpy as np
from joblib import Parallel, delayed
from real_data import digits, leaves100, letter, trec
from reproduce._protocol import mean_and_half
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk._estimators.labels._losses import LOSSES
from sktopk.metrics import topk_accuracy_score

KS = (1, 2, 3, 5)
# Data, steps before the classifier, hidden layers.
CASES = {
    "digits, 5 components, linear": (digits, [StandardScaler(), PCA(5, random_state=0)], ()),
    "letter, linear": (letter, [StandardScaler()], ()),
    "letter, MLP": (letter, [StandardScaler()], (100,)),
    "letter, MLP of 8": (letter, [StandardScaler()], (8,)),
    "trec, 200 components, MLP": (
        trec,
        [TruncatedSVD(200, random_state=0), StandardScaler()],
        (100,),
    ),
    "leaves100, MLP": (leaves100, [StandardScaler()], (100,)),
    "digits, MLP": (digits, [StandardScaler()], (100,)),
}
BASELINES = {
    "cross_entropy": {"loss": "cross_entropy"},
    "cross_entropy, score_scale=10": {"loss": "cross_entropy", "score_scale": 10.0},
}


def halves(X, y, seed):
    """Two halves, stratified where every class has two rows."""
    stratify = y if np.unique(y, return_counts=True)[1].min() > 1 else None
    return train_test_split(X, y, test_size=0.5, random_state=seed, stratify=stratify)


def accuracies(case, seed, settings):
    """Top-k accuracy of every setting on one split, settings by row."""
    warnings.simplefilter("ignore")
    load, steps, hidden = CASES[case]
    X, X_test, y, y_test = halves(*load(), seed)
    prepare = make_pipeline(*steps)
    X, X_test = prepare.fit_transform(X), prepare.transform(X_test)
    rows = []
    for params in settings.values():
        clf = TopKClassifier(k=3, hidden_layer_sizes=hidden, random_state=seed)
        y_score = clf.set_params(**params).fit(X, y).decision_function(X_test)
        rows.append([topk_accuracy_score(y_test, y_score, k=k, labels=clf.classes_) for k in KS])
    return np.array(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", nargs="+", default=["smooth_topk"], help='names, or "all"')
    parser.add_argument("--score-scale", nargs="+", type=float, help="factors instead of auto")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cases", nargs="+", default=list(CASES), help="substrings of names")
    parser.add_argument("--n-jobs", type=int, default=2)
    args = parser.parse_args()
    losses = list(LOSSES) if args.losses == ["all"] else args.losses
    settings = dict(BASELINES)
    for loss in losses:
        if loss == "cross_entropy":
            continue
        for scale in args.score_scale or ["auto"]:
            name = loss if scale == "auto" else f"{loss}, score_scale={scale:g}"
            settings[name] = {"loss": loss, "score_scale": scale}
    cases = [case for case in CASES if any(part in case for part in args.cases)]

    print("| data, model | loss | " + " | ".join(f"top-{k}" for k in KS), end="")
    print(" | sd of top-3 | top-3 - cross-entropy | - cross-entropy x10 |\n" + "|---" * 9 + "|")
    for case in cases:
        runs = Parallel(args.n_jobs)(
            delayed(accuracies)(case, seed, settings) for seed in range(args.seeds)
        )
        runs = np.stack(runs)
        won = runs[:, :, 2][:, :, None] - runs[:, :2, 2][:, None]
        for i, name in enumerate(settings):
            mean = " | ".join(f"{a:.4f}" for a in runs[:, i].mean(0))
            halves_of_95 = map(mean_and_half, 100 * won[:, i].T)
            gains = " | ".join(f"{mean:+.2f} ± {half:.2f}" for mean, half in halves_of_95)
            print(
                f"| {case} | {name} | {mean} | {runs[:, i, 2].std(ddof=1):.4f} | {gains} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
