"""LibAUC, difftopk and pytopk compared with sktopk, on the same samples in one run.

- Rankers for two classes: losses of LibAUC get the sigmoid of the scores and are trained with the
  optimizers of LibAUC. Losses of sktopk and cross-entropy are trained with Adam. The network has
  one hidden layer of 64 units and trains for 10 epochs. Half of a minibatch of 128 is positive, as
  in LibAUC's sampler. The best of three learning rates is chosen for each loss on a quarter of the
  training set.
- Top-k losses: all losses have the same network, optimizer, order of minibatches and number of
  steps. The better of two learning rates is chosen for each loss in the same way. The metric is
  top-5 accuracy.

Times are CPU times. A run that fails is a line with its error.

    pip install ".[bench]"
    pip install --no-deps libauc     # its images and graphs are not used here
    OMP_NUM_THREADS=1 python benchmarks/peers.py
"""

import contextlib
import io
import time
from functools import partial
from importlib import import_module
from itertools import product

import numpy as np
import torch
from loss_speed import published_losses
from reproduce._protocol import arguments, markdown, run_missing, seeds_of, write_page
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tables._data import TABLES as EVERY_TABLE
from tables._data import split_of
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from sktopk import losses
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP

COLUMNS = ("score", "ms", "error")
N_SPLITS, K = 3, 5
HIDDEN, BATCH, EPOCHS, STEPS = (64,), 128, 10, 400


# ---- Rankers of two classes

RANKED = ("annthyroid", "coil2000")
# LibAUC's losses, with the optimizer and the parameters that the documentation recommends.
OF_LIBAUC = {
    "AUCMLoss": ("PESG", ()),
    "APLoss": ("SOAP", ("data_len",)),
    "pAUC_CVaR_Loss": ("SOPA", ("data_len", "pos_len")),
    "pAUC_DRO_Loss": ("SOPAs", ("data_len",)),
    "tpAUC_KL_Loss": ("SOTAs", ("data_len",)),
}
RANKING = {
    "torch cross-entropy": binary_cross_entropy_with_logits,
    "sktopk `pairwise_auc_loss`": losses.pairwise_auc_loss,
    "sktopk `pat_mat_loss`": partial(losses.pat_mat_loss, tau=0.1),
}
RATES = (1e-3, 1e-2, 1e-1)


def half_positive(y, generator):
    """Yield minibatches with one half positives. Positives are repeated in an epoch."""
    n_each = BATCH // 2
    positive, negative = torch.as_tensor(y == 1), torch.as_tensor(y == 0)
    positive, negative = positive.nonzero().ravel(), negative.nonzero().ravel()
    n_batches = len(negative) // n_each
    turns = -(-n_batches * n_each // len(positive))
    order = [torch.randperm(len(positive), generator=generator) for _ in range(turns)]
    of_positive = positive[torch.cat(order)[: n_batches * n_each]].view(n_batches, -1)
    of_negative = torch.randperm(len(negative), generator=generator)[: n_batches * n_each]
    of_negative = negative[of_negative].view(n_batches, -1)
    yield from torch.cat([of_positive, of_negative], dim=1)


def of_libauc(name, net, y, rate):
    """Return a loss of scores, target and sample indices, and its optimizer."""
    optimizer, asked = OF_LIBAUC[name]
    sizes = {"data_len": len(y), "pos_len": int((y == 1).sum())}
    with contextlib.redirect_stdout(io.StringIO()):  # the optimizers of LibAUC print their name
        make = getattr(import_module("libauc.losses"), name)
        loss = make(**{each: sizes[each] for each in asked})
        make = getattr(import_module("libauc.optimizers"), optimizer)
        optimizer = make(net.parameters(), loss_fn=loss, lr=rate, verbose=False)
    return lambda scores, y, index: loss(torch.sigmoid(scores), y, index=index), optimizer


def ranking_scores(method, X, y, rate, seed):
    """Train the network, and return a function that scores samples."""
    generator = torch.Generator().manual_seed(seed)
    net = MLP(X.shape[1], 1, hidden_layer_sizes=HIDDEN, generator=generator)
    if method in RANKING:
        optimizer = torch.optim.Adam(net.parameters(), lr=rate)

        def loss(scores, target, index):
            return RANKING[method](scores, target)
    else:
        loss, optimizer = of_libauc(method.split("`")[1], net, y, rate)
    rows, target = torch.as_tensor(X), torch.as_tensor(y, dtype=torch.float32)
    for _ in range(EPOCHS):
        for index in half_positive(y, generator):
            optimizer.zero_grad()
            loss(net(rows[index]).squeeze(1), target[index], index).backward()
            optimizer.step()
    net.eval()
    return lambda X: net(torch.as_tensor(X)).detach().numpy().ravel()


def rank(table, method, split):
    """Return the average precision on test samples, and the milliseconds of the fit."""
    rows = split_of(table, split)
    scaler = StandardScaler().fit(rows.X)
    X, X_test = scaler.transform(rows.X), scaler.transform(rows.X_test)
    train = partial(ranking_scores, method, seed=split)
    rate = best_rate(train, average_precision_score, X, rows.y, RATES, split)
    start = time.process_time()
    scores = train(X, rows.y, rate=rate)
    ms = 1e3 * (time.process_time() - start)
    return {"score": average_precision_score(rows.y_test, scores(X_test)), "ms": ms}


def best_rate(train, score, X, y, candidates, seed):
    """Return the learning rate that is best on a quarter of the samples."""
    inner, outer, y_inner, y_outer = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=seed
    )

    def found(rate):
        scores = train(inner, y_inner, rate=rate)(outer)
        return score(y_outer, scores) if np.isfinite(scores).all() else -np.inf

    return max(candidates, key=found)


# ---- Top-k losses

CLASSES = ("letter", "leaves100, shape")
OURS = {
    "torch cross_entropy": cross_entropy,
    "sktopk smooth_topk_loss": partial(losses.smooth_topk_loss, k=K),
    "sktopk topk_transition_loss": partial(losses.topk_transition_loss, k=K),
    "sktopk noised_topk_loss": partial(losses.noised_topk_loss, k=K, sigma=0.2, n_noise=10),
}
PUBLISHED = (
    "difftopk SmoothHardTopKLoss",
    "difftopk TopKCrossEntropyLoss, softsort",
    "difftopk TopKCrossEntropyLoss, bitonic__non_sparse",
    "pytopk BalNoisedTopK",
)


def topk_scores(loss, X, y, n_classes, rate, seed):
    """Train with a loss, and return a function that scores samples."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    net = MLP(X.shape[1], n_classes, generator=generator)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    rows, target = torch.as_tensor(X), torch.as_tensor(y)
    for _ in range(STEPS):
        index = torch.randint(len(y), (BATCH,), generator=generator)
        optimizer.zero_grad()
        loss(net(rows[index]), target[index]).backward()
        optimizer.step()
    net.eval()
    return lambda X: net(torch.as_tensor(X)).detach().numpy()


def topk(table, method, split):
    """Return the top-k accuracy on test samples, and the milliseconds of a training step."""
    rows, n_classes = split_of(table, split), EVERY_TABLE[table].n_classes
    loss = OURS[method] if method in OURS else published_losses(n_classes, K)[method]
    scaler = StandardScaler().fit(rows.X)
    X, X_test = scaler.transform(rows.X), scaler.transform(rows.X_test)
    score = partial(topk_accuracy_score, k=K, labels=range(n_classes))
    train = partial(topk_scores, loss, n_classes=n_classes, seed=split)
    rate = best_rate(train, score, X, rows.y, RATES[:2], split)
    start = time.process_time()
    scores = train(X, rows.y, rate=rate)
    ms = 1e3 * (time.process_time() - start) / STEPS
    return {"score": score(rows.y_test, scores(X_test)), "ms": ms}


# ---- All runs

PARTS = {
    "rankers": (
        rank,
        RANKED,
        [*RANKING, *(f"LibAUC `{name}`" for name in OF_LIBAUC)],
    ),
    "top-k losses": (topk, CLASSES, [*OURS, *PUBLISHED]),
}


def run(part, table, method, split):
    """Return the results of a run, or its error."""
    try:
        found = PARTS[part][0](table, method, split)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {
        name: float(value) if isinstance(value := found.get(name), np.floating) else value
        for name in COLUMNS
    }


def settings(args):
    """Yield part, dataset, method and split of every run."""
    return [
        {"part": part, "table": table, "method": method, "split": split}
        for part, (_, tables, methods) in PARTS.items()
        for split in seeds_of(args)
        for table in tables
        for method in methods
    ]


HEADERS = {
    "rankers": {"score": "average precision", "ms": "fit, ms"},
    "top-k losses": {"score": "top-5 accuracy", "ms": "step, ms"},
}
READ = """\
- LibAUC's losses are worse than cross-entropy in the same loop on annthyroid. On coil2000
  `AUCMLoss`, `APLoss` and `pAUC_DRO_Loss` are better. A step with them takes about 3 times as long.
- `pat_mat_loss` expects batches with the share of positives of the data, not one half.
- difftopk's port of the smooth loss ends in NaN at the larger learning rate on leaves100."""


def show(name, value):
    return format(value, ".3f" if name == "score" else ",.0f" if value >= 100 else ".3g")


def page(runs):
    """Return a table for each part: means over splits, and errors."""
    lines = [
        "# sktopk compared with other packages",
        "",
        *(__doc__.split("\n\n")[1].splitlines()),
        "",
    ]
    lines += [f"Means over {N_SPLITS} splits, one thread. Made by `benchmarks/peers.py`.", "", READ]
    for part, (_, tables, methods) in PARTS.items():
        names, rows = HEADERS[part], []
        for table, method in product(tables, methods):
            own = runs.query("part == @part and table == @table and method == @method")
            failed = own["error"].dropna()
            mean = own[list(names)].astype(float).mean()
            cells = ["" if np.isnan(mean[name]) else show(name, mean[name]) for name in names]
            rows.append([table, method, *cells, f"`{failed.iloc[0]}`" if len(failed) else ""])
        head = ["table", "method", *names.values(), "error"]
        lines += ["", f"## {part[0].upper()}{part[1:]}", "", markdown(head, rows)]
    return "\n".join(lines)


def main():
    parser = arguments(__doc__, "peers", seeds={"full": N_SPLITS}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=3)))


if __name__ == "__main__":
    main()
