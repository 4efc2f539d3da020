"""Which network for a table? Encodings, sizes and the training of `TabularMLP`, on six tables.

Eight members are trained at once, each without one eighth of the rows, on which it keeps its best
epoch by log loss; the score is the mean of log-probabilities. The rate of AdamW falls linearly to
0. One thing at a time is changed in the first variant. Tables are cut to 5 000 training rows;
LightGBM with its defaults sees the same rows. No estimator is used: a training loop in plain
torch, on one thread.

    python benchmarks/tabular_network.py              # about an hour
    python benchmarks/tabular_network.py --page-only  # the page from the CSV

Runs that are in the CSV are not done again: delete the file to repeat them. LightGBM has to be
installed for its own rows.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from _datasets import load_adbench, load_pmlb
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional as F

from sktopk.modules import TabularMLP

RESULTS = Path(__file__).parent / "results"
TABLES = {
    "campaign": lambda: load_adbench("5_campaign", return_X_y=True),
    "ALOI": lambda: load_adbench("1_ALOI", return_X_y=True),
    "pendigits": lambda: load_adbench("28_pendigits", return_X_y=True),
    "churn": lambda: load_pmlb("churn", return_X_y=True),
    "coil2000": lambda: load_pmlb("coil2000", return_X_y=True),
    "letter": lambda: load_pmlb("letter", return_X_y=True),
}
# Twice the rows, for the time they take.
LARGER = ", 10 000 rows"
MEMBERS = 8
FIRST = {
    "n_bins": 8,
    "hidden_layer_sizes": (128, 128),
    "dropout": 0.1,
    "lr": 1e-2,
    "weight_decay": 0.3,
    "batch_size": 256,
    "epochs": 24,
}
VARIANTS = {
    "first": {},
    "no encoding": {"n_bins": 0},
    "16 bins": {"n_bins": 16},
    "32 bins": {"n_bins": 32, "n_encoded": 1024},
    "room for 256": {"n_encoded": 256},
    "room for 1 024": {"n_encoded": 1024},
    "periodic, fixed": {"periodic": "fixed"},
    "periodic, learnt": {"periodic": "learnt"},
    "width 64": {"hidden_layer_sizes": (64, 64)},
    "width 256": {"hidden_layer_sizes": (256, 256)},
    "1 layer of 256": {"hidden_layer_sizes": (256,)},
    "3 layers": {"hidden_layer_sizes": (128, 128, 128)},
    "dropout 0": {"dropout": 0.0},
    "dropout 0.2": {"dropout": 0.2},
    "rate 3e-3": {"lr": 3e-3},
    "rate 2e-2": {"lr": 2e-2},
    "decay 0.03": {"weight_decay": 0.03},
    "decay 1": {"weight_decay": 1.0},
    "batch 128": {"batch_size": 128},
    "batch 512": {"batch_size": 512},
    "12 epochs": {"epochs": 12},
    "48 epochs": {"epochs": 48},
    "constant rate 3e-3, patience 16": {"lr": 3e-3, "epochs": 200, "patience": 16},
    "1 member": {"n_members": 1},
}


class Periodic(TabularMLP):
    """Sines and cosines of the scaled columns at 8 random frequencies, for each member its own.

    Gorishniy et al. (2022), equation 3.
    """

    def __init__(self, n_features, n_outputs, *, learnt, sigma=0.3, n_frequencies=8, **params):
        width = 1 + 2 * n_frequencies
        super().__init__(n_features * width, n_outputs, n_bins=0, **params)
        own = TabularMLP(n_features, 1, (), n_bins=0)
        self.own = own.requires_grad_(False)
        shape = (self.n_members, 1, n_features, n_frequencies)
        self.frequency = nn.Parameter(sigma * torch.randn(shape), requires_grad=learnt)

    def from_data(self, X):
        self.own.from_data(X)
        return self

    def encode(self, x):
        z = self.own.encode(x)
        angle = 2 * torch.pi * self.frequency * z[..., None]
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1).flatten(2)
        return torch.cat([z.expand(self.n_members, *z.shape), waves], dim=2)


def fit(X, y, n_classes, seed, *, lr, weight_decay, batch_size, epochs, patience=None, **params):
    """Train members on all folds but their own; return the network and the epochs it took."""
    torch.manual_seed(seed)
    params = {"n_members": MEMBERS} | params
    kind = params.pop("periodic", None)
    if kind:
        del params["n_bins"]
        params["learnt"] = kind == "learnt"
    n_outputs = 1 if n_classes == 2 else n_classes
    net = (Periodic if kind else TabularMLP)(X.shape[1], n_outputs, **params).from_data(X)
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=weight_decay, fused=True)
    n, m = len(X), net.n_members
    fold = torch.from_numpy(np.random.default_rng(seed).permutation(n) % MEMBERS)
    out = fold[:, None] == torch.arange(m)
    best, best_epoch = torch.full((m,), torch.inf), torch.zeros(m, dtype=torch.long)
    kept = [p.detach().clone() for p in trained]
    for epoch in range(epochs):
        net.train()
        for i, batch in enumerate(torch.randperm(n).split(batch_size)):
            if patience is None:
                share = (epoch + i * batch_size / n) / epochs
                optimizer.param_groups[0]["lr"] = lr * (1 - share)
            losses = row_losses(net(X[batch]), y[batch], m)
            loss = (losses * ~out[batch]).sum() / (len(batch) * (1 - 1 / MEMBERS))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            losses = torch.cat(
                [
                    row_losses(net(a), b, m)
                    for a, b in zip(X.split(1024), y.split(1024), strict=True)
                ]
            )
            score = (losses * out).sum(0) / out.sum(0)
            better = score < best
            best = torch.where(better, score, best)
            best_epoch[better] = epoch
            for p, k in zip(trained, kept, strict=True):
                k[better] = p.detach()[better]
        if patience is not None and epoch - best_epoch.max() >= patience:
            break
    with torch.no_grad():
        for p, k in zip(trained, kept, strict=True):
            p.copy_(k)
    return net, epoch + 1


def row_losses(scores, y, n_members):
    """Log loss of each row and member."""
    scores = scores.reshape(len(y), n_members, -1)
    if scores.shape[2] == 1:
        return F.binary_cross_entropy_with_logits(
            scores[..., 0], y[:, None].expand(-1, n_members).to(scores.dtype), reduction="none"
        )
    each = y[:, None].expand(-1, n_members)
    return F.cross_entropy(scores.flatten(0, 1), each.flatten(), reduction="none").view(each.shape)


def predict(net, X):
    """Mean over members of log-probabilities, of two classes of log-odds."""
    net.eval()
    with torch.no_grad():
        scores = torch.cat([net(rows) for rows in X.split(1024)])
    scores = scores.reshape(len(X), net.n_members, -1)
    return (scores if scores.shape[2] == 1 else scores.log_softmax(2)).mean(1).double()


def measure(scores, y):
    """The metrics of the table, of log-odds or of log-probabilities up to a constant of the row."""
    if scores.shape[1] == 1:
        score = scores[:, 0].numpy()
        top = np.argsort(-score, kind="stable")[: max(1, len(y) // 100)]
        values = {
            "average precision": average_precision_score(y, score),
            "precision at 1 %": (y[top] == 1).mean(),
        }
        proba = scores.sigmoid().numpy()[:, 0]
    else:
        rank = (scores > scores.gather(1, torch.from_numpy(y)[:, None])).sum(1).numpy()
        values = {f"top-{k}": (rank < k).mean() for k in (1, 3, 5)}
        proba = scores.softmax(1).numpy()
    return values | {"log loss": log_loss(y, proba)}


def split(table, seed):
    """Rows to train on and rows to judge by, at most 5 000 and 10 000 of them."""
    n_train = 10_000 if table.endswith(LARGER) else 5_000
    X, y = TABLES[table.removesuffix(LARGER)]()
    y = np.unique(y, return_inverse=True)[1].astype(np.int64)
    X = np.asarray(X, dtype=np.float32)
    n_train = min(n_train, int(0.7 * len(y)))
    n_test = min(len(y) - n_train, 10_000)
    return train_test_split(
        X, y, train_size=n_train, test_size=n_test, stratify=y, random_state=seed
    )


def lightgbm(X, y, seed):
    """LightGBM with its defaults, on one thread."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed).fit(X, y)


def run(variant, table, seed):
    """Metrics, CPU seconds of the fit, epochs."""
    X, X_test, y, y_test = split(table, seed)
    n_classes = y.max() + 1
    start = time.process_time()
    if variant == "LightGBM":
        model = lightgbm(X, y, seed)
        seconds, epochs = time.process_time() - start, np.nan
        proba = torch.from_numpy(model.predict_proba(X_test)).clamp(1e-12, 1 - 1e-12)
        scores = proba.log() if n_classes > 2 else proba[:, 1:].logit()
    else:
        params = FIRST | VARIANTS[variant]
        net, epochs = fit(torch.from_numpy(X), torch.from_numpy(y), n_classes, seed, **params)
        seconds = time.process_time() - start
        scores = predict(net, torch.from_numpy(X_test))
    return measure(scores, y_test) | {"CPU seconds": seconds, "epochs": epochs}


def page(runs):
    """One split of all variants, then the mean of three splits of those that have them."""
    mean = runs.pivot_table(index=["variant", "table"], columns="metric", values="value")
    first = runs[runs["split"] == 0].pivot_table(
        index="variant", columns=["metric", "table"], values="value"
    )
    order = [v for v in ("LightGBM", *VARIANTS) if v in first.index]
    small = [t for t in TABLES if t in set(runs["table"])]
    larger = [t + LARGER for t in TABLES if t + LARGER in set(runs["table"])]
    judged = {t: "top-1" if ("top-1", t) in first.columns else "average precision" for t in small}
    quality = pd.DataFrame({f"{t}: {m}": first[m, t] for t, m in judged.items()}).loc[order]
    blocks = [
        "# The network of a table\n",
        " ".join(__doc__.split("\n\n")[1].split()) + "\n",
        f"The first variant: {', '.join(f'{k} {v}' for k, v in FIRST.items())}.\n",
        "## One thing changed, first split\n",
        "What is empty was not run.\n",
        markdown(quality, 3),
        "Log loss\n",
        markdown(first["log loss"].reindex(columns=small).loc[order], 3),
        "CPU seconds of a fit, on a machine with other work\n",
        markdown(first["CPU seconds"].reindex(columns=small).loc[order], 1),
    ]
    if larger:
        some = first["CPU seconds"].reindex(columns=larger).dropna(how="all")
        some = some.reindex([v for v in order if v in some.index])
        blocks += ["## CPU seconds at 10 000 rows\n", markdown(some, 2)]
    splits = runs.groupby(["variant", "table"])["split"].nunique()
    full = splits[splits == 3].index
    if len(full):
        blocks += ["## Mean of three splits\n"]
        for table in [t for t in small if ("first", t) in full]:
            part = mean.xs(table, level="table").dropna(axis=1, how="all").drop(columns="epochs")
            part = part.loc[[v for v in order if (v, table) in full]]
            blocks += [f"{table}\n", markdown(part, 3)]
    return "\n".join(blocks)


def markdown(frame, digits):
    """A table with the index in its first column."""
    lines = [["variant", *frame.columns], ["---"] * (1 + frame.shape[1])]
    for name, row in frame.iterrows():
        lines.append([name, *("" if np.isnan(v) else f"{v:.{digits}f}" for v in row)])
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page-only", action="store_true")
    parser.add_argument("--variants", nargs="*", default=["LightGBM", *VARIANTS])
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1, 2])
    larger = [table + LARGER for table in ("campaign", "ALOI", "letter")]
    parser.add_argument("--tables", nargs="*", default=[*TABLES, *larger])
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "tabular_network.csv"
    keys = ["variant", "table", "split"]
    runs = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=[*keys, "metric", "value"])
    done = set(runs[keys].itertuples(index=False, name=None))
    for seed in [] if args.page_only else args.splits:
        for variant in args.variants:
            for table in args.tables:
                if (variant, table, seed) in done:
                    continue
                values = run(variant, table, seed)
                rows = pd.DataFrame(
                    [(variant, table, seed, m, round(float(v), 5)) for m, v in values.items()],
                    columns=[*keys, "metric", "value"],
                )
                rows.to_csv(path, mode="a", header=not path.exists(), index=False)
                print(variant, table, seed, values, flush=True)
    (RESULTS / "tabular_network.md").write_text(page(pd.read_csv(path)))


if __name__ == "__main__":
    main()
