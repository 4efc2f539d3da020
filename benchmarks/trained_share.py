"""The share of rows above the threshold in training, beside the share asked for, and its cost.

In each step after the first epoch the rows above the estimate of the threshold are counted among
all training rows, with the scores of the network at that step (which `TrueThreshold` computes as
well). For `RecallAtFPRClassifier`, whose threshold is no score, it is the mean of the hinges.
Generated data, 20 000 rows x 20, 5 % positive; default network and learning rate, so that the
scores move as they do in the first epochs of any training. Seconds are those of the processor,
the least of three fits.
"""

import argparse
import time
import warnings

import numpy as np
import torch
from skorch.callbacks import Callback

from sktopk import (
    PatMatClassifier,
    PatMatNPClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)
from sktopk.losses import SurrogateQuantile

CLASSIFIERS = {
    "PatMatNP(.01)": PatMatNPClassifier(tau=0.01),
    "TopPushK(5)": TopPushKClassifier(k=5),
    "RecallAtK(100)": RecallAtKClassifier(k=100),
    "PatMat(.1)": PatMatClassifier(tau=0.1),
    "RecallAtFPR(.01)": RecallAtFPRClassifier(fpr=0.01),
}
SHARES = []


class Share(Callback):
    """Append to SHARES the share above the threshold of each step."""

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        """Note the rows."""
        self.rows, self.positive = net.rows(X), torch.from_numpy(np.asarray(y) == 1)

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        """Score all rows with the network of this step."""
        self.scores = torch.cat([each.flatten() for _, each in net.score_rows(self.rows)])
        net.module_.train()

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        """Count those above the threshold that the step used."""
        criterion = net.criterion_
        t = float(np.ravel(criterion.trace["threshold"][-1])[0])
        scores = self.scores
        if criterion.threshold.of == "negatives":
            scores = scores[~self.positive]
        if isinstance(criterion.threshold, SurrogateQuantile):
            SHARES.append(float((1 + scores - t).relu().mean()))
        else:
            SHARES.append(float((scores >= t - 1e-6).double().mean()))


def table(n_samples=20_000, n_features=20, share=0.05):
    """Rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    risk = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) + rng.standard_normal(n_samples)
    return X, (risk > np.quantile(risk, 1 - share)).astype(int)


def trained_shares(classifier, X, y, epochs):
    """The shares of all steps but those of the first epoch."""
    SHARES.clear()
    classifier.set_params(callbacks=[Share()], max_epochs=epochs, random_state=0).fit(X, y)
    return np.array(SHARES[len(SHARES) // epochs :])


def seconds(classifier, X, y):
    """Processor seconds of an epoch."""
    start = time.process_time()
    classifier.set_params(callbacks=None, max_epochs=2, random_state=0).fit(X, y)
    return (time.process_time() - start) / 2


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[128, 32])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    X, y = table()
    asked = {"TopPushK(5)": 5 / (y == 0).sum(), "RecallAtK(100)": 100 / len(y), "PatMat(.1)": 0.1}
    print("# The share of rows above the threshold in training (`benchmarks/trained_share.py`)")
    print(f"\ntorch {torch.__version__}, 1 thread, float32, 20 000 x 20 rows, 5 % positive\n")
    print("| batch | classifier | buffer_size | asked | mean | median | deviation | s/epoch |")
    print("|---|---|---|---|---|---|---|---|")
    for batch_size in arguments.batch_sizes:
        for name, classifier in CLASSIFIERS.items():
            sizes = {1: "1", "auto": "auto"}
            for size in sizes:
                classifier.set_params(buffer_size=size, batch_size=batch_size)
                shares = trained_shares(classifier, X, y, arguments.epochs)
                if size == "auto":
                    sizes[size] = f"auto: {classifier.net_.criterion_.hard_rows.size}"
                took = min(seconds(classifier, X, y) for _ in range(3))
                print(
                    f"| {batch_size} | {name} | {sizes[size]} | {asked.get(name, 0.01):.5f} "
                    f"| {shares.mean():.5f} | {np.median(shares):.5f} | {shares.std():.5f} "
                    f"| {took:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
