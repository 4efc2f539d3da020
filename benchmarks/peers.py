"""Peers in one run: LibAUC, TorchCP, MAPIE, difftopk and pytopk beside sktopk, on the same rows.

- Rankers of two classes: LibAUC's losses with the sigmoid of the scores and their own optimizers,
  sktopk's and cross-entropy with Adam. One hidden layer of 64 units, 10 epochs, half of a batch of
  128 positive as LibAUC's sampler has it, the learning rate that is best on a quarter of the
  training rows (of three). `TopVotingClassifier` is as it comes, with nothing tried.
- Sets of labels: thresholds and sets of the same probabilities, where definitions agree.
- Thresholds of two classes: a promise that 90 % of the draws have to keep, beside MAPIE's.
- Top-k losses: one network, optimizer, order of batches and number of steps for all; the learning
  rate that is best on a quarter of the training rows (of two); accuracy at k = 5.

Seconds and milliseconds are those of a processor. A run that fails is a line with its error.

    pip install ".[bench]"
    pip install --no-deps libauc torchcp     # their images and graphs are not used here
    OMP_NUM_THREADS=1 python benchmarks/peers.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import contextlib
import io
import time
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import product

import numpy as np
import torch
from loss_speed import published_losses
from promises import (
    BUDGETS,
    COVERAGE,
    N_CALIBRATE,
    TABLES,
    THRESHOLDS,
    GivenProba,
    halves,
    parts_of_torchcp,
    rates,
    sets_of_mapie,
)
from real_data import clinc150, leaves100
from reproduce._protocol import arguments, markdown, run_missing, seeds_of, write_page
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from tables._data import TABLES as EVERY_TABLE
from tables._data import split_of
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from sktopk import TopVotingClassifier, losses
from sktopk._estimators.decisions._conformal import Conformity, find_threshold
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP

PACKAGES = ("sktopk", "libauc", "torchcp", "MAPIE", "difftopk", "pytopk", "torch", "scikit-learn")
COLUMNS = ("score", "size", "shift", "differ", "ms", "error")
N_SPLITS, K = 3, 5
HIDDEN, BATCH, EPOCHS, STEPS = (64,), 128, 10, 400


# ---- Rankers of two classes

RANKED = ("annthyroid", "coil2000")
# LibAUC's losses, each with the optimizer that its documentation names and what else it asks for.
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
AS_IT_COMES = "sktopk `TopVotingClassifier`"
RATES = (1e-3, 1e-2, 1e-1)


def half_positive(y, generator):
    """Batches of which a half are positive; an epoch sees every negative, positives in turns."""
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
    """A loss of scores, target and numbers of rows, and the optimizer that belongs to it."""
    optimizer, asked = OF_LIBAUC[name]
    sizes = {"data_len": len(y), "pos_len": int((y == 1).sum())}
    with contextlib.redirect_stdout(io.StringIO()):  # its optimizers say what they are
        make = getattr(import_module("libauc.losses"), name)
        loss = make(**{each: sizes[each] for each in asked})
        make = getattr(import_module("libauc.optimizers"), optimizer)
        optimizer = make(net.parameters(), loss_fn=loss, lr=rate, verbose=False)
    return lambda scores, y, index: loss(torch.sigmoid(scores), y, index=index), optimizer


def ranking_scores(method, X, y, rate, seed):
    """Train the network and return the function that scores rows."""
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
    """Average precision on the rows that test, and the milliseconds of the fit."""
    rows = split_of(table, split)
    scaler = StandardScaler().fit(rows.X)
    X, X_test = scaler.transform(rows.X), scaler.transform(rows.X_test)
    start = time.process_time()
    if method == AS_IT_COMES:
        scores = TopVotingClassifier(random_state=split).fit(X, rows.y).decision_function
    else:
        train = partial(ranking_scores, method, seed=split)
        rate = best_rate(train, average_precision_score, X, rows.y, RATES, split)
        start = time.process_time()
        scores = train(X, rows.y, rate=rate)
    ms = 1e3 * (time.process_time() - start)
    return {"score": average_precision_score(rows.y_test, scores(X_test)), "ms": ms}


def best_rate(train, score, X, y, candidates, seed):
    """The learning rate that is best on a quarter of the rows, trained on the others."""
    inner, outer, y_inner, y_outer = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=seed
    )

    def found(rate):
        scores = train(inner, y_inner, rate=rate)(outer)
        return score(y_outer, scores) if np.isfinite(scores).all() else -np.inf

    return max(candidates, key=found)


def trainer(table, method, split):
    """LibAUC's Trainer, its sampler included, needs what comes with images."""
    import_module("libauc.trainer")
    return {}


# ---- Sets of labels

LABELLED = {"leaves100": leaves100, "clinc150": clinc150}
# What the same definition is called here: with u = 1 "aps" and "raps" count less of a label.
DEFINITIONS = {
    "lac": ({"method": "lac"}, 1.0),
    "aps": ({"method": "aps"}, 0.0),
    "raps": ({"method": "raps", "k": 5, "penalty": 0.1}, 0.0),
}


@cache
def probabilities(table):
    model = make_pipeline(MaxAbsScaler(), LogisticRegression(C=10, max_iter=300))
    return halves(LABELLED[table], model)


def sets_here(proba, y, new, method):
    params, u = DEFINITIONS[method]
    conformity = Conformity(**params)
    threshold = find_threshold(conformity, proba, np.full(len(proba), u), y, COVERAGE)
    return conformity(new, np.full(len(new), u)) >= threshold, 1 - threshold


def sets_of_torchcp(proba, y, new, method):
    scores, predictor = parts_of_torchcp()
    if method == "raps":
        make = import_module("torchcp.classification.score").RAPS
        score = make(randomized=False, penalty=0.1, kreg=5)
    else:
        score = scores[method]
    made = predictor(score, alpha=1 - COVERAGE)
    logits, new = (torch.log(torch.as_tensor(each).clamp_min(1e-30)) for each in (proba, new))
    made.calculate_threshold(logits, torch.as_tensor(y))
    return np.asarray(made.predict_with_logits(new)) == 1, float(made.q_hat)


def sets_there(proba, y, new, method):
    return sets_of_mapie(proba, y, new, method, proba.shape[1]), None


SET_MAKERS = {"sktopk": sets_here, "TorchCP": sets_of_torchcp, "MAPIE": sets_there}


def label_sets(table, method, split):
    """Coverage, size, rows whose set differs from sktopk's, difference of the thresholds."""
    package, _, method = method.partition(" ")
    proba, y = probabilities(table)
    rows = np.random.default_rng(split).permutation(len(y))
    rows, new = rows[:N_CALIBRATE], rows[N_CALIBRATE:]
    given = proba[rows], y[rows], proba[new], method
    start = time.process_time()
    found, threshold = SET_MAKERS[package](*given)
    ms = 1e3 * (time.process_time() - start)
    ours, own = sets_here(*given)
    return {
        "score": found[np.arange(len(new)), y[new]].mean(),
        "size": found.sum(axis=1).mean(),
        "shift": None if threshold is None else abs(threshold - own),
        "differ": (found != ours).any(axis=1).mean(),
        "ms": ms,
    }


# ---- Thresholds of two classes

N_DRAWS = 20
CONTROLLERS = {name: make for name, make in THRESHOLDS.items() if "`" in name and " " in name}


@cache
def positive_probability(table):
    return halves(TABLES[table], HistGradientBoostingClassifier(max_iter=100, random_state=0))


def thresholds(table, method, split):
    """The share of the draws that keep the promise, what is flagged, milliseconds of a draw."""
    package, _, name = method.rpartition(", ")
    proba, y = positive_probability(table)
    inner, limit, kept, flagged, seconds = GivenProba().fit(None, None), BUDGETS[name], [], [], 0.0
    for draw in range(N_DRAWS * split, N_DRAWS * (split + 1)):
        rows = np.random.default_rng(draw).integers(len(y), size=N_CALIBRATE)
        start = time.process_time()
        predict = CONTROLLERS[package](inner, proba[rows], y[rows], name, limit, draw)
        seconds += time.process_time() - start
        mask = predict(proba) == 1
        rate = rates(mask, y)[name]
        kept.append(rate <= limit if name == "fpr" else rate >= limit)
        flagged.append(mask.mean())
    ms = 1e3 * seconds / N_DRAWS
    return {"score": np.mean(kept), "size": np.mean(flagged), "ms": ms}


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
    """Train with a loss; return the function that scores rows."""
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
    """Top-k accuracy on the rows that test, and the milliseconds of a step with the network."""
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


# ---- All of it

PARTS = {
    "rankers": (
        rank,
        RANKED,
        [AS_IT_COMES, *RANKING, *(f"LibAUC `{name}`" for name in OF_LIBAUC)],
    ),
    "LibAUC's Trainer": (trainer, ("any",), ["LibAUC `Trainer`"]),
    "sets": (
        label_sets,
        LABELLED,
        [f"{p} {m}" for m in DEFINITIONS for p in SET_MAKERS if (p, m) != ("MAPIE", "raps")],
    ),
    "thresholds": (
        thresholds,
        ("churn", "spambase"),
        [f"{method}, {name}" for name in BUDGETS for method in CONTROLLERS],
    ),
    "top-k losses": (topk, CLASSES, [*OURS, *PUBLISHED]),
}


def run(part, table, method, split):
    """What the part finds, or the error it ends with."""
    try:
        found = PARTS[part][0](table, method, split)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {
        name: float(value) if isinstance(value := found.get(name), np.floating) else value
        for name in COLUMNS
    }


def settings(args):
    """Every run: one LibAUC's Trainer, of all others one for each split."""
    return [
        {"part": part, "table": table, "method": method, "split": split}
        for part, (_, tables, methods) in PARTS.items()
        for split in (seeds_of(args) if tables != ("any",) else range(1))
        for table in tables
        for method in methods
    ]


def installed():
    """Packages and versions."""
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} missing"


HEADERS = {
    "rankers": {"score": "average precision", "ms": "fit, ms"},
    "LibAUC's Trainer": {},
    "sets": {
        "score": "coverage",
        "size": "labels in a set",
        "shift": "threshold, from sktopk's",
        "differ": "sets that differ from sktopk's",
        "ms": "ms",
    },
    "thresholds": {"score": "draws that keep it", "size": "flagged", "ms": "ms"},
    "top-k losses": {"score": "top-5 accuracy", "ms": "step, ms"},
}
DIGITS = {"score": ".3f", "size": ".2f", "shift": ".0e", "differ": ".4f"}
READ = """\
- TorchCP's and MAPIE's sets by "lac", and TorchCP's by "aps" and "raps", are ours row for row,
  thresholds to the last digit ("aps" and "raps" with u = 0, where a label counts whole, as there).
  MAPIE's "aps" keeps the label that passes its threshold and calibrates with draws: other sets.
- MAPIE's thresholds keep their promise in nearly all draws, and flag 99 % of churn for a recall of
  .8 where sktopk's flag 27 %; those of `BudgetClassifier` keep it in .85 to .97 of 60 draws (.9
  asked), and take 2 to 5 times as long.
- LibAUC's losses are behind cross-entropy in the same loop on annthyroid; on coil2000 `AUCMLoss`,
  `APLoss` and `pAUC_DRO_Loss` are ahead of it, the first two also of `TopVotingClassifier`, whose
  fit takes ten times as long. A step with them takes about 3 times that with cross-entropy.
  `pat_mat_loss` is for batches with the share of positives that the rows have, not for halves.
- LibAUC's Trainer and sampler import torchvision, whose wheel of PyPI does not load beside a torch
  for processors (`operator torchvision::nms does not exist`); by its source the Trainer builds
  ResNets, DenseNets and models of Hugging Face, and calls `cuda()`: no tables, no processors.
- TorchCP asks for torchsort, which does not build without CUDA (`CUDA_HOME environment variable is
  not set`); its scores and predictor are imported without the rest. The published smooth-topk is on
  no package index; docs/losses.md has its steps beside ours.
- Top-k losses: with so few steps cross-entropy is ahead of every one of them. difftopk's port of
  the smooth loss ends in NaN at the larger learning rate on leaves100, where ours does not."""


def show(name, value):
    digits = DIGITS.get(name, ",.0f" if value >= 100 else ".3g")
    return format(value, digits)


def page(runs):
    """A table for each part: means over the splits, with the errors."""
    lines = ["# sktopk beside its peers", "", "Versions: " + ", ".join(installed()) + ".", ""]
    lines += [*(__doc__.split("\n\n")[1].splitlines()), ""]
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
