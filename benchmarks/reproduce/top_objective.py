"""Paper 000, figures 6 and 7: the objective on training and on test samples.

DeepTopPush is trained by gradient descent on the second coarse class of CIFAR-100 (5 % positives,
images of 16 x 16 pixels, the network of `top_one.py`). Every third epoch, two metrics are computed
for all training samples and for all test samples. The objective is the mean over the positives of
l(t - s), where t is the largest score of all negatives. The other metric is the area under the
precision of the highest-scored samples up to quantile 0.1, divided by the best possible area.
This script trains 30 epochs of 2 000 images at a learning rate of 0.025. The paper trains 100
epochs of 50 000 images at 1e-4.

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
# Metrics, with the figure of the paper and the label of the axis.
MEASURES = {
    "objective": ("Figure 6", "objective"),
    "AUC@quantile": ("Figure 7", f"normalised AUC@quantile {QUANTILE}, %"),
}


class EachEpoch(Callback):
    """Computes the metrics of training and test samples every few epochs."""

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
    """Train one network; return the metrics of some epochs."""
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
    """Return a metric by run (rows) and recorded epoch (columns)."""
    return runs[[column(measure, part, epoch) for epoch in SEEN]].to_numpy(float)


def page(runs, scale):
    rows = []
    for measure in MEASURES:
        for part in PARTS:
            first, last = (runs[column(measure, part, epoch)] for epoch in (SEEN[0], SEEN[-1]))
            difference = last - first
            n_up = f"{(difference > 0).sum()} of {len(runs)} runs"
            cells = plus_minus(first), plus_minus(last), plus_minus(difference, sign="+"), n_up
            rows.append([measure, part, *cells])
    ends = [f"after {epoch} epochs" for epoch in (SEEN[0], SEEN[-1])]
    header = ["metric", "samples", *ends, "difference", "increases in"]
    return "\n".join(
        [
            "# Paper 000, figures 6 and 7: the objective on training and on test samples",
            "",
            "`benchmarks/reproduce/top_objective.py` trains DeepTopPush on one coarse class of "
            f"CIFAR-100 (5 % positives, 16 x 16 pixels), with {SCALES[scale]['n_train']} training "
            f"samples and {N_EPOCHS} epochs of gradient descent at {RATE:g}, in {len(runs)} runs. "
            f"Every {EVERY} epochs, it computes the objective of all training samples and of all "
            "test samples. The threshold is computed from the same samples. ± is half of a 95 % "
            "interval. The paper has 50 000 samples and 100 epochs at 1e-4.",
            "",
            f"![The objective and the area by epoch]({PICTURE})",
            "",
            "## First and last recorded epoch",
            "",
            "In all ten runs of the paper, the objective decreases to almost zero on training "
            "samples and increases on test samples (figure 6), while AUC@quantile increases on "
            "both (figure 7). On a validation set, use AUC@quantile instead of the objective.",
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
