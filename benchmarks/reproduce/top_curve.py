"""Paper 002, table I and figure 6: top-1 to top-25 accuracy on CIFAR-100 with Cutout or mixup.

Sawada, Kaneko and Sagi compare cross-entropy, the smooth top-5 loss, top-5 grouping and top-5
transition on flipped and cropped images with Cutout or mixup. Each loss has its own soft targets of
mixup. The paper does not have the smooth loss with mixup; here it is the weighted sum of the smooth
losses of both labels.

Scale "full": patch features of 10 000 images (means over the quarters of an image), and a network
with one hidden layer. Cutout sets the features of one quarter to 0, mixup mixes feature vectors.
Images are neither flipped nor cropped. The learning rate and the weight decay of each loss are
chosen on validation images with a separate seed. Scale "images": 10 000 images of 16 x 16 pixels, a
ResNet18 of a quarter of the width, 40 epochs. Scale "published": all images of 32 x 32 pixels, the
whole ResNet18, 200 epochs, which takes hours of a GPU for each network.

    python benchmarks/reproduce/top_curve.py
    python benchmarks/reproduce/top_curve.py --small        # a minute, as a test
    python benchmarks/reproduce/top_curve.py --scale images     # hours
    python benchmarks/reproduce/top_curve.py --scale published --n-jobs 1
"""

import functools
from itertools import product

import numpy as np
import torch
from _choosing import TUNING
from _images import augmented, cifar100
from _networks import ResNet18
from _paired import RULE, gain
from _patch_features import TRAINED, patch_features
from _protocol import (
    arguments,
    markdown,
    mean_and_half,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional as F

from sktopk.losses import (
    smooth_topk_loss,
    topk_grouping_loss,
    topk_transition_loss,
)
from sktopk.losses._cross_entropy import cross_entropy_loss

K, N_CLASSES, KS = 5, 100, (1, 2, 3, 5, 10, 25)
AIM = 0.99
LOSSES = {
    "cross_entropy": lambda s, t: cross_entropy_loss(s, t),
    "smooth": lambda s, t: smooth_topk_loss(s, t, k=K),
    "grouping": lambda s, t: topk_grouping_loss(s, t, k=K),
    "transition": lambda s, t: topk_transition_loss(s, t, k=K),
    "transition, weight detached": lambda s, t: topk_transition_loss(s, t, k=K, detach_weight=True),
}
AUGMENTATIONS = ("cutout", "mixup")
# A side of 0 means patch features. "width" is the width of the network.
SCALES = {
    "full": {"side": 0, "per_class": 100, "width": 256, "epochs": 15},
    "small": {"side": 0, "per_class": 20, "width": 64, "epochs": 2},
    "images": {"side": 16, "per_class": 100, "width": 16, "epochs": 40},
    "published": {"side": 32, "per_class": 450, "width": 64, "epochs": 200},
}
DECAYS = {
    "full": (0.0, 1e-4, 5e-4, 5e-3),
    "small": (5e-4,),
    "images": (5e-4, 5e-3),
    "published": (5e-4,),
}
RATES = {
    "full": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    "small": (0.1,),
    "images": (0.1,),
    "published": (0.1,),
}
VALID_PER_CLASS, BATCH_SIZE = 50, 128
PICTURE = "reproduce_top_curve.png"
# Table I: top-1 and top-5 accuracy of ResNet18. The smooth loss has no values with mixup.
PAPER = {
    "cutout": {
        "cross_entropy": (75.88, 93.11),
        "smooth": (67.31, 93.76),
        "grouping": (59.99, 92.64),
        "transition": (69.06, 93.62),
    },
    "mixup": {
        "cross_entropy": (76.76, 92.89),
        "grouping": (57.66, 92.52),
        "transition": (74.26, 94.07),
    },
}
# Section V, mixup: the k with a top-k accuracy of 99 % for the transition loss and cross-entropy.
PAPER_AIM = {"transition": 25, "cross_entropy": 33}
# Figure 6, mixup: the smallest k from which on a loss is better than cross-entropy.
PAPER_AHEAD = {"transition": 3, "grouping": 6}


@functools.cache
def data(side, per_class):
    """Return training, validation and test set: images or features, and labels."""
    if side:
        return cifar100(side, per_class, VALID_PER_CLASS)[0]
    (train, *judged), _ = patch_features()
    train = [part.reshape(N_CLASSES, TRAINED, -1)[:, :per_class] for part in train]
    X, y = train[0].reshape(N_CLASSES * per_class, -1), train[1].ravel()
    return [tuple(map(torch.from_numpy, part)) for part in ((X, y), *judged)]


def network_of(side, width):
    if side:
        return ResNet18(3, N_CLASSES, width=width)
    n_features = data(side, 1)[0][0].shape[1]
    return nn.Sequential(nn.Linear(n_features, width), nn.ReLU(), nn.Linear(width, N_CLASSES))


def cut_out(images, generator):
    """Set a square with a quarter of the side of the image to 0, at a random place.

    A part of the square may be outside of the image. For patch features, the columns of one
    quarter of the image are set to 0.
    """
    if images.ndim == 2:
        quarter = torch.randint(4, (len(images), 1), generator=generator, device=images.device)
        of_column = torch.arange(images.shape[1], device=images.device) % 4
        return images.masked_fill(of_column == quarter, 0.0)
    n, _, side, _ = images.shape
    hole = side // 4
    centre = torch.randint(side, (2, n, 1), generator=generator, device=images.device)
    place = torch.arange(side, device=images.device)
    inside = [(place >= c - hole // 2) & (place < c - hole // 2 + hole) for c in centre]
    return images.masked_fill((inside[0][:, :, None] & inside[1][:, None, :])[:, None], 0.0)


def mixed_up(images, labels, generator):
    """Return mixtures of pairs of images with a uniform random share, and the mixed labels."""
    share = torch.rand((), generator=generator, device=images.device)
    other = torch.randperm(len(labels), generator=generator, device=images.device)
    hot = F.one_hot(labels, N_CLASSES).to(images.dtype)
    return (
        share * images + (1 - share) * images[other],
        share * hot + (1 - share) * hot[other],
    )


def hits(network, images, labels):
    """Return the rank of the label among the scores of each image, counted from 0."""
    network.eval()
    places = []
    with torch.inference_mode():
        for x, y in zip(images.split(500), labels.split(500), strict=True):
            scores = network(x)
            place = (scores > scores.gather(1, y[:, None])).sum(1)
            # If training diverged, no label counts as found.
            places.append(place.where(scores.isfinite().all(1), scores.new_tensor(N_CLASSES)))
    return torch.cat(places).cpu().numpy()


def run(augmentation, loss, rate, weight_decay, seed, side, per_class, width, epochs):
    """Train one network with the schedule of the papers, and test the last epoch."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (X, y), *judged = [tuple(t.to(device) for t in part) for part in data(side, per_class)]
    torch.manual_seed(seed)
    network = network_of(side, width).to(device)
    optimizer = torch.optim.SGD(
        network.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=weight_decay
    )
    # As published for Cutout, the rate is divided by five after .3, .6 and .8 of the epochs.
    milestones = [round(share * epochs) for share in (0.3, 0.6, 0.8)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.2)
    generator = torch.Generator(device).manual_seed(seed)
    for _ in range(epochs):
        network.train()
        for rows in torch.randperm(len(y), generator=generator, device=device).split(BATCH_SIZE):
            images, target = X[rows], y[rows]
            if side:
                images = augmented(images, generator)
            if augmentation == "cutout":
                images = cut_out(images, generator)
            else:
                images, target = mixed_up(images, target, generator)
            optimizer.zero_grad()
            LOSSES[loss](network(images), target).backward()
            optimizer.step()
        schedule.step()
    found = {}
    for part, rows in zip(("valid_", ""), judged, strict=True):
        place = hits(network, *rows)
        found |= {f"{part}top{k}": float(np.mean(place < k)) for k in KS}
    return found | {"k for 99 %": int(np.quantile(place, AIM, method="inverted_cdf")) + 1}


def _setting(*values):
    names = "augmentation", "loss", "rate", "weight_decay", "seed"
    return dict(zip(names, values, strict=True))


def settings_to_choose_on(args):
    return [
        _setting(augmentation, loss, rate, decay, TUNING) | SCALES[args.scale]
        for augmentation in args.augmentations
        for loss in LOSSES
        for rate, decay in product(RATES[args.scale], DECAYS[args.scale])
    ]


def chosen(runs, augmentation, loss):
    """Return learning rate and decay with the best top-5 accuracy on validation images."""
    here = runs[(runs.augmentation == augmentation) & (runs.loss == loss) & (runs.seed == TUNING)]
    best = here.loc[here.valid_top5.idxmax()]
    return float(best.rate), float(best.weight_decay)


def settings_to_judge(args, runs):
    return [
        _setting(augmentation, loss, *chosen(runs, augmentation, loss), seed) | SCALES[args.scale]
        for seed in seeds_of(args)
        for augmentation in args.augmentations
        for loss in LOSSES
    ]


def against(runs, loss):
    """Compare the top-5 accuracy of a loss with cross-entropy, in points."""
    points = runs.assign(points=100 * runs.top5)
    return gain(points, loss, "points", baselines=["cross_entropy"], column="loss", pair=["seed"])


def papers_gain(augmentation, loss):
    """Return the difference of top-5 accuracy in the paper, None if it has no number."""
    table = PAPER[augmentation]
    return table[loss][1] - table["cross_entropy"][1] if loss in table else None


def ahead_from(runs, loss):
    """Return the smallest tested k from which on a loss is better than cross-entropy in the mean.

    None if the loss is not better at the largest k.
    """
    mean = runs.groupby("loss").mean(numeric_only=True)
    first = None
    for k in reversed(KS):
        if mean.loc[loss, f"top{k}"] <= mean.loc["cross_entropy", f"top{k}"]:
            break
        first = k
    return first


def needed(runs, loss):
    """Return the k with a top-k accuracy of 99 %, minus the k of cross-entropy."""
    mean = runs.groupby("loss")["k for 99 %"].mean()
    return float(mean[loss] - mean["cross_entropy"])


def beside_paper(runs, augmentation):
    """Return a row per loss: differences of top-1 and of k for 99 %, and the paper's values."""
    rows = []
    for loss in list(LOSSES)[1:]:
        if loss not in set(runs.loss):
            continue
        points = runs.assign(points=100 * runs.top1)
        of = {"baselines": ["cross_entropy"], "column": "loss", "pair": ["seed"]}
        won = gain(points, loss, "points", **of)
        cells = [str(won or ""), "", ""]
        if won is not None and loss in PAPER[augmentation]:
            theirs = PAPER[augmentation][loss][0] - PAPER[augmentation]["cross_entropy"][0]
            cells[1:] = f"{theirs:+.2f}", f"{won.mean - theirs:+.2f}"
        fewer = needed(runs, loss)
        cells += [f"{fewer:+.1f}", "", ""]
        if augmentation == "mixup" and loss in PAPER_AIM:
            theirs = PAPER_AIM[loss] - PAPER_AIM["cross_entropy"]
            cells[4:] = f"{theirs:+d}", f"{fewer - theirs:+.1f}"
        cells.append(f"k = {first}" if (first := ahead_from(runs, loss)) else "none up to 25")
        known = augmentation == "mixup" and loss in PAPER_AHEAD
        rows.append([loss, *cells, f"k = {PAPER_AHEAD[loss]}" if known else ""])
    header = ["loss", "top-1 minus cross-entropy", "paper", "ours minus paper"]
    header += ["k for 99 % minus cross-entropy", "paper", "ours minus paper"]
    header += ["better than cross-entropy from", "paper"]
    return markdown(header, rows)


def page(runs, scale):
    tuned, runs = runs[runs.seed == TUNING], runs[runs.seed != TUNING]
    sizes = SCALES[scale]
    what = (
        f"of CIFAR-100 with {sizes['side']} x {sizes['side']} pixels are flipped and cropped; the "
        "network is ResNet18"
        if sizes["side"]
        else "of CIFAR-100 have patch features, which are means over the quarters of an image. "
        "Cutout removes the features of one quarter, mixup mixes feature vectors. Images are "
        f"neither flipped nor cropped. The network has one layer of {sizes['width']} hidden units"
    )
    text = [
        "# Paper 002, table I and figure 6: top-1 to top-25 with Cutout and mixup",
        "",
        f"`benchmarks/reproduce/top_curve.py`, scale {scale}: {100 * sizes['per_class']} images "
        f"{what}. It is trained for {sizes['epochs']} epochs with the published schedule, and the "
        "last epoch is tested on all test images. The learning rate and the weight decay of each "
        "loss are chosen by top-5 accuracy on validation images with a separate seed. "
        f"{runs.seed.nunique()} seeds are tested. The paper trains ResNet18 on 50 000 images of "
        "32 x 32 pixels for 200 epochs, with 10 runs. Compare differences from cross-entropy, not "
        f"accuracies. Differences are in points, paired by seed. {RULE} *k for 99 %* is the "
        "smallest k with a top-k accuracy of 99 %. In the paper it is "
        f"{PAPER_AIM['transition']} with the transition loss and mixup, "
        f"{PAPER_AIM['cross_entropy'] - PAPER_AIM['transition']} fewer than with cross-entropy. "
        "The paper has no number for the smooth loss with mixup.",
        "",
        f"![Figure 6]({PICTURE})",
    ]
    for augmentation, here in runs.groupby("augmentation", sort=False):
        rows = []
        for loss in LOSSES:
            own = here[here.loss == loss]
            if own.empty:
                continue
            cells = [plus_minus(100 * own[f"top{k}"]) for k in KS] + [
                f"{own['k for 99 %'].mean():.1f}"
            ]
            won, paper = against(here, loss), papers_gain(augmentation, loss)
            beside = ["", ""] if paper is None else [f"{paper:+.2f}", ""]
            if won is not None and paper is not None:
                beside[1] = f"{won.mean - paper:+.2f}"
            rate, decay = chosen(tuned, augmentation, loss)
            rows.append([loss, *cells, str(won or ""), *beside, f"{rate:g}", f"{decay:g}"])
        header = ["loss", *(f"top-{k}" for k in KS), "k for 99 %"]
        header += ["top-5 minus cross-entropy", "paper", "ours minus paper", "rate", "decay"]
        text += ["", f"## {augmentation.capitalize()}", "", markdown(header, rows)]
        text += ["", "Other differences of table I and figure 6:", ""]
        text.append(beside_paper(here, augmentation))
    return "\n".join(text)


def draw(runs, path):
    """Draw figure 6: top-k accuracy minus the accuracy of cross-entropy, by k."""
    runs = runs[runs.seed != TUNING]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    run = [each for each in AUGMENTATIONS if each in set(runs.augmentation)]
    axes = figure.subplots(1, len(run), sharey=True, squeeze=False)[0]
    for ax, augmentation in zip(axes, run, strict=True):
        here = runs[runs.augmentation == augmentation].set_index("seed")
        base = here[here.loss == "cross_entropy"]
        for i, loss in enumerate(LOSSES):
            own = here[here.loss == loss]
            found = [mean_and_half(100 * (own[f"top{k}"] - base[f"top{k}"])) for k in KS]
            mean, half = np.array(found).T
            ax.errorbar(KS, mean, half, label=loss, color=f"C{i}", marker="o", ms=3, capsize=2)
        ax.set(xscale="log", xticks=KS, xticklabels=KS, xlabel="k", title=augmentation)
        ax.minorticks_off()
    axes[0].set_ylabel("top-k accuracy minus cross-entropy, points")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=100)


def main():
    seeds = {"full": 5, "small": 2, "images": 5, "published": 10}
    parser = arguments(__doc__, "top_curve", seeds=seeds)
    add = parser.add_argument
    add("--augmentations", nargs="+", default=AUGMENTATIONS, choices=AUGMENTATIONS)
    args = parser.parse_args()
    cost = {"full": 4.0, "small": 1.0, "images": 240.0, "published": 7200.0}[args.scale]
    runs = run_missing(run, settings_to_choose_on(args), args, seconds=cost)
    if args.report and runs.empty:
        return
    here = runs[runs.scale == args.scale]
    runs = run_missing(run, settings_to_judge(args, here), args, seconds=cost)
    here = runs[runs.scale == args.scale]
    if (here.seed != TUNING).any():
        draw(here, args.csv.with_name(PICTURE))
        write_page(args, page(here, args.scale))


if __name__ == "__main__":
    main()
