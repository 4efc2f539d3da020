"""Paper 000, figures 6 and 7: what the objective says of rows that were not trained on.

DeepTopPush on the second coarse class of CIFAR-100 (5 %, images of 16 x 16 pixels, the network of
`top_one.py`), by gradient descent: every third epoch the objective of all training rows and of all
test rows, which is the mean over the positives of l(t - s) with t the largest score of all
negatives, and the area under precision at the top tau-quantile, up to .1 and over the best one.
2 000 images and 30 epochs at .025, where the paper takes 50 000 and 100 epochs at 1e-4.

    python benchmarks/reproduce/top_objective.py
    python benchmarks/reproduce/top_objective.py --small
"""

import torch
from _networks import CONSTANT_RATE
from _protocol import arguments, markdown, plus_minus, run_missing, seeds_of, write_page
from matplotlib.figure import Figure
from skorch.callbacks import Callback
from top_one import images, untrained

from sktopk.losses import top_push_loss
from sktopk.metrics._top_curves import auc_at_quantile_score

DATA, METHOD, QUANTILE = "CIFAR100", "DeepTopPush", 0.1
N_EPOCHS, EVERY, RATE = 30, 3, 0.025
SEEN = tuple(range(EVERY, N_EPOCHS + 1, EVERY))
SCALES = {"full": {"n_train": 2000}, "small": {"n_train": 300}}
PARTS = ("train", "test")
PICTURE = "reproduce_top_objective.png"
# The measure, its figure in the paper, and its axis here.
MEASURES = {
    "objective": ("Figure 6", "objective"),
    "AUC@quantile": ("Figure 7", f"normalised AUC@quantile {QUANTILE}, %"),
}


class EachEpoch(Callback):
    """The measures every few epochs, of rows by part."""

    def __init__(self, rows):
        self.rows = rows

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.found_ = []

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) not in SEEN:
            return
        found = {}
        for part, (X, y) in self.rows.items():
            scores = torch.from_numpy(net.decision_function(X))
            found["objective", part] = top_push_loss(scores, torch.from_numpy(y)).item()
            area = auc_at_quantile_score(y, scores.numpy(), quantile=QUANTILE, normalize=True)
            found["AUC@quantile", part] = 100 * area
        self.found_.append(found)


def run(seed, n_train):
    """Train one network; the measures of some epochs."""
    X, y, *test = images(DATA, n_train, seed)
    recorded = EachEpoch({"train": (X, y), "test": test})
    clf = untrained("tables", METHOD, seed, N_EPOCHS)
    clf.set_params(callbacks=[CONSTANT_RATE, recorded], learning_rate=RATE).fit(X, y)
    (found,) = (each for each in clf.net_.callbacks if isinstance(each, EachEpoch))
    return {
        column(measure, part, epoch): float(value)
        for epoch, of_epoch in zip(SEEN, found.found_, strict=True)
        for (measure, part), value in of_epoch.items()
    }


def column(measure, part, epoch):
    return f"{part} {measure} after {epoch}"


def curves(runs, measure, part):
    """A row per run, a column per epoch that was looked at."""
    return runs[[column(measure, part, epoch) for epoch in SEEN]].to_numpy(float)


def page(runs, scale):
    rows = []
    for measure in MEASURES:
        for part in PARTS:
            first, last = (runs[column(measure, part, epoch)] for epoch in (SEEN[0], SEEN[-1]))
            difference = last - first
            n_up = f"{(difference > 0).sum()} of {len(runs)}"
            cells = plus_minus(first), plus_minus(last), plus_minus(difference, sign="+"), n_up
            rows.append([measure, part, *cells])
    ends = [f"after {epoch}" for epoch in (SEEN[0], SEEN[-1])]
    header = ["measure", "rows", *ends, "difference", "it rises in"]
    return "\n".join(
        [
            "# Paper 000, figures 6 and 7: what the objective says of rows not trained on",
            "",
            f"`benchmarks/reproduce/top_objective.py`: DeepTopPush on one coarse class of "
            f"CIFAR-100 (5 %, 16 x 16 pixels), {SCALES[scale]['n_train']} training rows, "
            f"{N_EPOCHS} epochs of gradient descent at {RATE:g}, {len(runs)} runs, ± half a 95 % "
            f"interval. Every {EVERY} epochs the objective with the threshold over all training "
            "rows, and over all test rows. The paper has 50 000 rows and 100 epochs at 1e-4.",
            "",
            f"![The objective and the area by epoch]({PICTURE})",
            "",
            "## The first and the last epoch",
            "",
            "The paper: the objective falls to almost zero on training rows and rises on test rows "
            "in all of ten runs (figure 6), while AUC@quantile rises on both (figure 7), so that a "
            "validation set should be judged by the latter.",
            "",
            markdown(header, rows),
        ]
    )


def draw(runs, path):
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for ax, (measure, (title, label)) in zip(figure.subplots(1, 2), MEASURES.items(), strict=True):
        for part, color in zip(PARTS, ("tab:blue", "tab:orange"), strict=True):
            for i, each in enumerate(curves(runs, measure, part)):
                name = f"{part} rows" if i == 0 else None
                ax.plot(SEEN, each, color=color, lw=1, alpha=0.7, label=name)
        ax.set(xlabel="epoch", ylabel=label, title=title, ylim=(0, None))
        ax.legend()
    figure.savefig(path, dpi=100)


def main():
    args = arguments(__doc__, "top_objective", seeds={"full": 3, "small": 2}).parse_args()
    settings = [{"seed": seed} | SCALES[args.scale] for seed in seeds_of(args)]
    cost = {"full": 60, "small": 25}[args.scale]
    runs = run_missing(run, settings, args, seconds=cost)
    runs = runs[runs.scale == args.scale]
    if len(runs):
        draw(runs, args.csv.with_name(PICTURE))
        write_page(args, page(runs, args.scale))


if __name__ == "__main__":
    main()
