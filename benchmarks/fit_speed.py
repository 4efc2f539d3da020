"""Seconds per epoch and per prediction, compared with a hand-written loop and with skorch.

The data have 37 241 samples, 100 features and 10 classes, the size of an assay of molecules after
PCA. The network is an MLP 50-25 with batch normalisation and cross-entropy. The loop by hand
indexes shuffled minibatches of tensors and uses the same optimizer. Runs alternate, and ratios are
medians over pairs of neighbouring runs.
"""

import argparse
import statistics
import warnings
from time import perf_counter

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn

from sktopk import TopKClassifier
from sktopk.modules import MLP

N_SAMPLES, N_FEATURES, N_CLASSES = 37_241, 100, 10
NETWORK = {"hidden_layer_sizes": (50, 25), "batch_norm": True}
LR, WEIGHT_DECAY = 1e-3, 1e-4
# One network that is trained with the named loss only.
ONE = {"module": MLP, "log_loss_share": 0, "n_estimators": 1, "calibration": None}
ONE |= {"n_iter_no_change": None, "learning_rate": LR}
ADAM = {"optimizer": torch.optim.Adam, "optimizer__weight_decay": WEIGHT_DECAY}
OURS = ONE | {
    "hidden_layer_sizes": (50, 25),
    "net_params": ADAM | {"module__batch_norm": True},
}


def table(n_samples):
    """Return random samples, and labels that a network can learn."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, N_FEATURES), dtype=np.float32)
    return X, (X[:, :N_CLASSES] + rng.standard_normal((n_samples, N_CLASSES))).argmax(axis=1)


def by_hand(X, y, batch_size, epochs, fused):
    """A training loop as a torch user would write it."""
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    module = MLP(N_FEATURES, N_CLASSES, **NETWORK)
    optimizer = torch.optim.Adam(module.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=fused)
    for _ in range(epochs):
        order = torch.randperm(len(X))
        for start in range(0, len(X), batch_size):
            index = order[start : start + batch_size]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(X[index]), y[index])
            loss.backward()
            optimizer.step()


def ours(X, y, batch_size, epochs):
    TopKClassifier("cross_entropy", batch_size=batch_size, max_epochs=epochs, **OURS).fit(X, y)


def skorch(X, y, batch_size, epochs):
    """skorch.NeuralNetClassifier with its defaults, but another optimizer and no printed output."""
    NeuralNetClassifier(
        MLP,
        module__n_features=N_FEATURES,
        module__n_outputs=N_CLASSES,
        **{f"module__{name}": value for name, value in NETWORK.items()},
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        optimizer__weight_decay=WEIGHT_DECAY,
        lr=LR,
        batch_size=batch_size,
        max_epochs=epochs,
        verbose=0,
    ).fit(X, y)


def alternate(runs, repeats):
    """Return the seconds of each run; runs take turns `repeats` times."""
    seconds = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = perf_counter()
            run()
            seconds[name].append(perf_counter() - start)
    return seconds


def ratio(seconds, name, peer):
    """Return the median ratio of the seconds of `name` and `peer` over neighbouring runs."""
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[peer], strict=True))


def report_fit(repeats, epochs):
    X, y = table(N_SAMPLES)
    print(
        "| batch | by hand, s/epoch | by hand, plain Adam | sktopk | skorch "
        "| sktopk / by hand (aim 1.06) | sktopk / skorch (aim 0.5 at 512) |"
    )
    print("|---|---|---|---|---|---|---|")
    for batch_size in (32, 128, 512):
        runs = {
            "hand": lambda b=batch_size: by_hand(X, y, b, epochs, fused=True),
            "sktopk": lambda b=batch_size: ours(X, y, b, epochs),
            "plain": lambda b=batch_size: by_hand(X, y, b, epochs, fused=False),
            "skorch": lambda b=batch_size: skorch(X, y, b, epochs),
        }
        seconds = alternate(runs, repeats)
        each = {name: statistics.median(s) / epochs for name, s in seconds.items()}
        print(
            f"| {batch_size} | {each['hand']:.3f} | {each['plain']:.3f} | {each['sktopk']:.3f} | "
            f"{each['skorch']:.3f} | {ratio(seconds, 'sktopk', 'hand'):.2f} | "
            f"{ratio(seconds, 'sktopk', 'skorch'):.2f} |",
            flush=True,
        )


@torch.inference_mode()
def bare_scores(module, X, step):
    module.eval()
    X = torch.from_numpy(X)
    return [module(X[i : i + step]) for i in range(0, len(X), step)]


@torch.inference_mode()
def bare_topk(weight, bias, X, k, step):
    X = torch.from_numpy(X)
    return [(X[i : i + step] @ weight + bias).topk(k).indices for i in range(0, len(X), step)]


def report_predict(repeats, n_samples):
    X, y = table(n_samples)
    clf = TopKClassifier("cross_entropy", max_epochs=1, **OURS)
    clf.fit(X[:5000], y[:5000])
    many = np.arange(20_000) % 1000
    linear = TopKClassifier("cross_entropy", k=5, max_epochs=1, **ONE, hidden_layer_sizes=())
    linear.fit(X[:20_000], many)
    layer = linear.net_.module_[-1]
    weight, bias = layer.weight.detach().t().contiguous(), layer.bias.detach()
    cases = {
        f"decision_function, {n_samples} x 100, MLP": (
            lambda: clf.decision_function(X),
            # The fastest of these chunk sizes is compared.
            {s: (lambda s=s: bare_scores(clf.net_.module_, X, s)) for s in (4096, 16384, 131072)},
        ),
        f"predict_topk, {n_samples} x 100, 1 000 classes": (
            lambda: linear.predict_topk(X),
            {s: (lambda s=s: bare_topk(weight, bias, X, 5, s)) for s in (2048, 16384)},
        ),
    }
    print("\n| prediction | bare, s (best step) | sktopk, s | ratio (aim 1.3) |")
    print("|---|---|---|---|")
    for name, (run, peers) in cases.items():
        seconds = alternate({"sktopk": run, **peers}, repeats)
        best = min(peers, key=lambda s: statistics.median(seconds[s]))
        print(
            f"| {name} | {statistics.median(seconds[best]):.2f} ({best}) | "
            f"{statistics.median(seconds['sktopk']):.2f} | {ratio(seconds, 'sktopk', best):.2f} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--epochs", type=int, default=10, help="epochs of a fit; its fixed cost is included"
    )
    parser.add_argument("--n-predict", type=int, default=1_000_000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, float32, {args.repeats} repeats\n")
    report_fit(args.repeats, args.epochs)
    report_predict(args.repeats, args.n_predict)


if __name__ == "__main__":
    main()
