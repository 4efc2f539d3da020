"""The share of rows above the threshold in training, beside the share asked for, and its cost.

In every fourth step after the first epoch of the loss the rows above the estimate of the threshold
are counted among all training rows, with the scores of the network at that step (which
`TrueThreshold` computes as well), for each member of the network. For `RecallAtFPRClassifier`,
whose threshold is no score, it is the mean of the hinges. Generated data, 20 000 rows x 20, 5 %
positive; default learning rates, so that the scores move as they do in the first epochs of any
training. Seconds are those of the processor, for an epoch, once.

    python benchmarks/trained_share.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import time
from itertools import product

import numpy as np
import torch
from reproduce._protocol import arguments, markdown, run_missing, write_page
from skorch.callbacks import Callback

from sktopk import (
    PatMatClassifier,
    PatMatNPClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)
from sktopk.losses import SurrogateQuantile
from sktopk.modules import MLP

# With the share asked for and the number of hard rows that "auto" is of a single network: none of
# PatMat(.1), where a batch has the rank 26.
CLASSIFIERS = {
    "PatMatNP(.01)": (PatMatNPClassifier(tau=0.01), 0.01, 480),
    "TopPushK(5)": (TopPushKClassifier(k=5), 5 / 19_000, 110),
    "RecallAtK(100)": (RecallAtKClassifier(k=100), 0.005, 300),
    "PatMat(.1)": (PatMatClassifier(tau=0.1), 0.1, None),
    "RecallAtFPR(.01)": (RecallAtFPRClassifier(fpr=0.01), 0.01, 480),
}
# The first has members and a phase of cross-entropy as by default, if short; no member leaves out
# rows, so that all are those of each.
NETWORKS = {
    "default": {"warm_up": 1, "cross_fit": False, "early_stopping": False},
    "plain": {"module": MLP},
}
BATCHES = [("default", 256), ("plain", 128), ("plain", 32)]
# Steps from one count to the next, and epochs of the loss, of which the first is not counted.
EVERY, EPOCHS = 4, 2
SHARES, SECONDS = [], []


class Seconds(Callback):
    """Put the processor's seconds of each epoch into SECONDS."""

    def on_epoch_begin(self, net, **kwargs):
        """Begin to count."""
        self.start = time.process_time()

    def on_epoch_end(self, net, **kwargs):
        """Note how many there were."""
        SECONDS.append(time.process_time() - self.start)


class Last(list):
    """A list that still has what was appended last when it is taken away."""

    def append(self, value):
        """Append, and remember."""
        self.value = float(np.ravel(value)[0])
        super().append(value)


class Share(Callback):
    """Append to SHARES the share above the threshold of each member in a step."""

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        """Note the rows, and have each member remember its threshold."""
        self.rows, self.positive = net.rows(X), torch.from_numpy(np.asarray(y) == 1)
        self.step, self.first_epoch = 0, None
        for criterion in net.criterion_.losses:
            criterion.trace["threshold"] = Last()

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        """Score all rows with the network of this step."""
        self.scores = None
        if not getattr(net.criterion_, "warm", True):
            return  # cross-entropy has no threshold
        self.first_epoch = self.first_epoch or len(net.history)
        self.step += 1
        if len(net.history) > self.first_epoch and self.step % EVERY == 0:
            scores = torch.cat([each for _, each in net.score_members(self.rows)])
            self.scores = scores.view(len(scores), -1).T
            net.module_.train()

    def on_batch_end(self, net, batch=None, training=False, **kwargs):
        """Count those above the threshold that the step used."""
        if self.scores is None:
            return
        for criterion, scores in zip(net.criterion_.losses, self.scores, strict=True):
            t = criterion.trace["threshold"].value
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


def run(network, batch_size, classifier, buffer_size):
    """Shares of the steps, and the time of an epoch of the loss."""
    X, y = table()
    classifier, asked, alone = CLASSIFIERS[classifier]
    size = {"1": 1, "auto": "auto", "as one": alone}[buffer_size]
    params = NETWORKS[network] | {"max_epochs": EPOCHS, "random_state": 0, "device": "cpu"}
    clf = classifier.set_params(buffer_size=size, batch_size=batch_size, **params)
    SHARES.clear()
    clf.set_params(callbacks=[Share()]).fit(X, y)
    shares = np.array(SHARES)
    SECONDS.clear()
    clf.set_params(callbacks=[Seconds()]).fit(X, y)
    return {
        "hard_rows": clf.net_.criterion_.losses[0].hard_rows.size,
        "asked": asked,
        "mean": float(shares.mean()),
        "median": float(np.median(shares)),
        "deviation": float(shares.std()),
        "epoch_s": min(SECONDS[-EPOCHS:]),
    }


def settings():
    """Each classifier with one hard row, with the default and with what a single network holds."""
    found = []
    for (network, batch_size), (name, (_, _, alone)) in product(BATCHES, CLASSIFIERS.items()):
        sizes = ["1", "auto", "as one"] if network == "default" and alone else ["1", "auto"]
        run = {"network": network, "batch_size": batch_size, "classifier": name}
        found += [run | {"buffer_size": size} for size in sizes]
    return found


def page(runs):
    rows = []
    for _, row in runs.iterrows():
        size = row.buffer_size if row.buffer_size == "1" else f"{row.buffer_size}: {row.hard_rows}"
        shares = [f"{row[name]:.5f}" for name in ("asked", "mean", "median", "deviation")]
        cells = [row.network, row.batch_size, row.classifier, size, *shares, f"{row.epoch_s:.2f}"]
        rows.append(cells)
    header = ["network", "batch", "classifier", "buffer_size", "asked", "mean", "median"]
    return "\n".join(
        [
            "# The share of rows above the threshold in training",
            "",
            f"`benchmarks/trained_share.py`: 1 thread, float32, 20 000 x 20 rows, 5 % positive; "
            f"{EPOCHS} epochs of the loss, the first of them not counted. The default network has "
            "eight members, of which each has so many hard rows, and an epoch of cross-entropy "
            'before the loss; "as one" is what "auto" is of a network without members. The plain '
            "one is MLP.",
            "",
            markdown([*header, "deviation", "s/epoch"], rows),
        ]
    )


def main():
    parser = arguments(__doc__, "trained_share", seeds={"full": 1}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(), args, seconds=10)))


if __name__ == "__main__":
    main()
