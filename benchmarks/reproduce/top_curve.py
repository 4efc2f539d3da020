"""Paper 002, table I and figure 6: top-1 to top-25 on CIFAR-100 with Cutout or mixup.

Sawada, Kaneko, Sagi: cross-entropy, the smooth top-5 loss, top-5 grouping and top-5 transition, on
flipped and cropped images with Cutout or mixup. The soft targets of mixup are those of each loss,
of the smooth one the weighted sum of its losses of both labels, which the paper leaves out.

Full: 10 000 images of 16 x 16 pixels and a ResNet18 of a quarter of the width, 40 epochs, the
weight decay chosen on validation images for each loss. Published: all images of 32 x 32 pixels,
200 epochs, the whole ResNet18, weight decay 5e-4, hours of a GPU each.

    python benchmarks/reproduce/top_curve.py
    python benchmarks/reproduce/top_curve.py --small        # a minute, to see it run
    python benchmarks/reproduce/top_curve.py --scale published --n-jobs 1
"""

import numpy as np
import torch
from _images import augmented, cifar100
from _networks import ConvNet, ResNet18
from _paired import RULE, gain
from _protocol import arguments, markdown, mean_and_half, run_missing, seeds_of, write_page
from torch.nn import functional as F

from sktopk.losses import (
    cross_entropy_loss,
    smooth_topk_loss,
    topk_grouping_loss,
    topk_transition_loss,
)

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
SCALES = {
    "full": {"side": 16, "per_class": 100, "width": 16, "epochs": 40},
    "small": {"side": 16, "per_class": 10, "width": 0, "epochs": 1},
    "published": {"side": 32, "per_class": 450, "width": 64, "epochs": 200},
}
DECAYS = {"full": (5e-4, 5e-3), "small": (5e-4,), "published": (5e-4,)}
VALID_PER_CLASS, BATCH_SIZE, RATE = 50, 128, 0.1
# Top-1 and top-5 accuracy, ResNet18: table I; the smooth loss has none with mixup.
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


def cut_out(images, generator):
    """Set a square of a quarter of the side to 0, wherever, in part outside of the image."""
    n, _, side, _ = images.shape
    hole = side // 4
    centre = torch.randint(side, (2, n, 1), generator=generator, device=images.device)
    place = torch.arange(side, device=images.device)
    inside = [(place >= c - hole // 2) & (place < c - hole // 2 + hole) for c in centre]
    return images.masked_fill((inside[0][:, :, None] & inside[1][:, None, :])[:, None], 0.0)


def mixed_up(images, labels, generator):
    """Images mixed with others of the batch by a share of uniform distribution, and both labels."""
    share = torch.rand((), generator=generator, device=images.device)
    other = torch.randperm(len(labels), generator=generator, device=images.device)
    hot = F.one_hot(labels, N_CLASSES).to(images.dtype)
    return (
        share * images + (1 - share) * images[other],
        share * hot + (1 - share) * hot[other],
    )


def hits(network, images, labels):
    """The place of the label among the scores of each image, from 0."""
    network.eval()
    places = []
    with torch.inference_mode():
        for x, y in zip(images.split(500), labels.split(500), strict=True):
            scores = network(x)
            places.append((scores > scores.gather(1, y[:, None])).sum(1))
    return torch.cat(places).cpu().numpy()


def run(augmentation, loss, weight_decay, seed, side, per_class, width, epochs):
    """Train one network with the schedule of the papers, the last epoch is judged."""
    parts, _ = cifar100(side, per_class, VALID_PER_CLASS)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    (X, y), *judged = [tuple(t.to(device) for t in part) for part in parts]
    torch.manual_seed(seed)
    network = (
        ResNet18(3, N_CLASSES, width=width)
        if width
        else ConvNet(3, N_CLASSES, channels=(16, 32), kernel_size=3, padding=1)
    ).to(device)
    optimizer = torch.optim.SGD(
        network.parameters(), RATE, momentum=0.9, nesterov=True, weight_decay=weight_decay
    )
    # A fifth of the rate after .3, .6 and .8 of the epochs, as the published schedule of Cutout.
    milestones = [round(share * epochs) for share in (0.3, 0.6, 0.8)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, gamma=0.2)
    generator = torch.Generator(device).manual_seed(seed)
    for _ in range(epochs):
        network.train()
        for rows in torch.randperm(len(y), generator=generator, device=device).split(BATCH_SIZE):
            images, target = augmented(X[rows], generator), y[rows]
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


def settings(args):
    names = "augmentation", "loss", "weight_decay", "seed"
    return [
        dict(zip(names, (augmentation, loss, decay, seed), strict=True)) | SCALES[args.scale]
        for seed in seeds_of(args)
        for augmentation in AUGMENTATIONS
        for loss in LOSSES
        for decay in DECAYS[args.scale]
    ]


def chosen(runs):
    """Of each loss and seed the run of the weight decay that is best on validation images."""
    best = runs.groupby(["augmentation", "loss", "seed"]).valid_top5.idxmax()
    return runs.loc[best]


def plus_minus(values):
    mean, half = mean_and_half(values)
    return f"{mean:.2f}" + (f" ± {half:.2f}" if len(values) > 1 else "")


def page(runs, scale):
    runs, sizes = chosen(runs), SCALES[scale]
    text = [
        "# Paper 002, table I and figure 6: top-1 to top-25 with Cutout and mixup",
        "",
        f"`benchmarks/reproduce/top_curve.py`, scale {scale}: {100 * sizes['per_class']} images of "
        f"CIFAR-100 of {sizes['side']} x {sizes['side']} pixels, {sizes['epochs']} epochs, the "
        f"weight decay of {', '.join(f'{d:g}' for d in DECAYS[scale])} chosen on validation images "
        f"for each loss, {runs.seed.nunique()} seeds (the paper: 50 000 of 32 x 32, 200 epochs, "
        "10). Levels cannot be compared, differences to cross-entropy can: in points, paired by "
        f"seed, {RULE}.",
    ]
    for augmentation, here in runs.groupby("augmentation", sort=False):
        rows = []
        for loss in LOSSES:
            own = here[here.loss == loss]
            if own.empty:
                continue
            cells = [plus_minus(100 * own[f"top{k}"]) for k in KS] + [
                f"{own['k for 99 %'].mean():.0f}"
            ]
            won = gain(
                here.assign(points=100 * here.top5), loss, "points",
                baselines=["cross_entropy"], column="loss", pair=["seed"],
            )  # fmt: skip
            paper = PAPER[augmentation].get(loss)
            base = PAPER[augmentation]["cross_entropy"][1]
            cells += [str(won or ""), "" if paper is None else f"{paper[1] - base:+.2f}"]
            rows.append([loss, *cells])
        header = ["loss", *(f"top-{k}" for k in KS), "k for 99 %", "top-5 gain", "the paper's"]
        text += ["", f"## {augmentation.capitalize()}", "", markdown(header, rows)]
    return "\n".join(text)


def main():
    seeds = {"full": 5, "small": 3, "published": 10}
    args = arguments(__doc__, "top_curve", seeds=seeds).parse_args()
    cost = {"full": 240.0, "small": 1.5, "published": 7200.0}[args.scale]
    runs = run_missing(run, settings(args), args, seconds=cost)
    scales = [scale for scale in ("published", "full", "small") if scale in set(runs.scale)]
    if scales:
        write_page(args, page(runs[runs.scale == scales[0]], scales[0]))


if __name__ == "__main__":
    main()
