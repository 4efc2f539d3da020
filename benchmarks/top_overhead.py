"""Seconds per epoch of the accuracy-at-the-top classifiers over class-balanced cross-entropy.

The baseline is the paper's: mean of -log sigmoid(s) over the positives plus mean of -log(1 -
sigmoid(s)) over the negatives, through the same estimator, sampler and optimizer, so that the ratio
is the cost of threshold, hard rows (one, unless stated) and loss. Tables: 37 241 x 100, 10 %
positive, MLP 50-25 with batch normalisation. Images: 60 000 of 28 x 28, 10 % positive, the paper's
network (appendix D). Runs alternate; ratios are medians over pairs of neighbouring runs.
"""

import argparse
import statistics
import warnings

import numpy as np
import torch
from reproduce._balanced import Baseline
from torch import nn

from sktopk import (
    DeepTopPushClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)

CLASSIFIERS = {
    "DeepTopPush": DeepTopPushClassifier(),
    "DeepTopPush, buffer_size=0": DeepTopPushClassifier(buffer_size=0),
    "DeepTopPush, buffer_size=10": DeepTopPushClassifier(buffer_size=10),
    "TopPushK": TopPushKClassifier(buffer_size=1),
    "RecallAtK": RecallAtKClassifier(buffer_size=1),
    "PatMat": PatMatClassifier(buffer_size=1),
    "PatMatNP": PatMatNPClassifier(buffer_size=1),
    "PrecisionAtRecall": PrecisionAtRecallClassifier(buffer_size=1),
}


class PaperNetwork(nn.Sequential):
    """Two convolutions 5 x 5 with 20 and 50 channels, and two dense layers 800-500-1."""

    def __init__(self, n_channels, n_outputs):
        super().__init__(
            nn.Conv2d(n_channels, 20, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(800, 500),
            nn.Linear(500, n_outputs),
        )


def data(shape, n_samples):
    """Random rows of which a tenth is positive."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, *shape), dtype=np.float32)
    direction = X.reshape(n_samples, -1)[:, :50].sum(axis=1)
    return X, (direction > np.quantile(direction, 0.9)).astype(int)


def seconds_of(classifier, X, y, params):
    """Seconds of the fastest of the epochs of a fit, which the fit's fixed cost leaves out."""
    classifier.set_params(**params).fit(X, y)
    return statistics.median(row["dur"] for row in classifier.history_)


def report(name, shape, n_samples, params, classifiers, repeats):
    X, y = data(shape, n_samples)
    for batch_size in (32, 128):
        params = params | {"batch_size": batch_size}
        seconds = {name: [] for name in ("baseline", *classifiers)}
        for _ in range(repeats):
            seconds["baseline"].append(seconds_of(Baseline(), X, y, params))
            for each in classifiers:
                seconds[each].append(seconds_of(CLASSIFIERS[each], X, y, params))
        base = statistics.median(seconds["baseline"])
        print(
            f"| {name} | {batch_size} | class-balanced cross-entropy | {base:.3f} | |", flush=True
        )
        for each in classifiers:
            pairs = zip(seconds[each], seconds["baseline"], strict=True)
            ratio = statistics.median(a / b for a, b in pairs)
            value = statistics.median(seconds[each])
            print(
                f"| {name} | {batch_size} | {each} | {value:.3f} | {ratio - 1:+.1%} |", flush=True
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--image-repeats", type=int, default=3)
    parser.add_argument("--n-images", type=int, default=60_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, float32\n")
    print("| data | batch | loss | s/epoch | over the baseline (aim +5 %) |")
    print("|---|---|---|---|---|")
    table = {
        "max_epochs": 3,
        "hidden_layer_sizes": (50, 25),
        "net_params": {"module__batch_norm": True},
        "random_state": 0,
    }
    report("table 37 241 x 100", (100,), 37_241, table, list(CLASSIFIERS), args.repeats)
    # A classifier keeps the parameters of its last data unless they are set again.
    images = {"max_epochs": 1, "module": PaperNetwork, "net_params": None, "random_state": 0}
    names = ["DeepTopPush", "DeepTopPush, buffer_size=0", "PatMat", "PrecisionAtRecall"]
    shape = (1, 28, 28)
    report(f"images {args.n_images}", shape, args.n_images, images, names, args.image_repeats)


if __name__ == "__main__":
    main()
