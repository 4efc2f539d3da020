"""Paper 001, table 2: the smooth top-5 loss compared with cross-entropy, for few training samples.

Berrada, Zisserman and Kumar train on 5 to 100 % of ImageNet. With few images, the smooth loss has a
better top-5 accuracy. With all images, cross-entropy is slightly better. This script has the same
shares of 40 000 images of CIFAR-100 with patch features, and one network of 512 hidden units
without warm-up. It trains 8 epochs with all samples, and 8 sqrt(40 000 / n) epochs with n samples.
The best epoch on validation samples is tested. The factor on the scores, the learning rate
and the weight decay of both losses are chosen with a separate seed, as in label_noise.py. Each seed
draws the training samples of each class.

    python benchmarks/reproduce/training_size.py
    python benchmarks/reproduce/training_size.py --small        # a minute, as a test
"""

import math

import numpy as np
from _choosing import TUNING, Case, choose_and_judge
from _paired import RULE, gain
from _patch_features import patch_features
from _protocol import arguments, markdown, write_page
from label_noise import DECAYS, METHODS, RATES, judge, network, percent

N_CLASSES, OF_CLASS = 100, 400
BASELINE, SMOOTH = "cross_entropy", "smooth, k=5"
# Table 2: top-5 accuracy in percent of cross-entropy and the smooth loss, by share of samples.
PAPER = {
    0.05: (58.31, 60.44),
    0.1: (71.06, 73.10),
    0.25: (82.62, 83.38),
    0.5: (87.57, 87.87),
    1.0: (90.67, 90.61),
}
SHARES = {"full": tuple(PAPER), "small": (0.05,)}
EPOCHS = {"full": 8, "small": 1}


def run(share, method, score_scale, learning_rate, weight_decay, seed, epochs):
    """Train one network on a share of the samples of each class."""
    ((X, y), valid, test), _ = patch_features(OF_CLASS)
    rng = np.random.default_rng(seed)
    place = np.arange(N_CLASSES)[:, None] * OF_CLASS
    drawn = np.argsort(rng.random((N_CLASSES, OF_CLASS)), axis=1)[:, : round(share * OF_CLASS)]
    rows = (place + drawn).ravel()
    epochs = round(epochs * math.sqrt(1 / share))
    loss, _, params = METHODS[method]
    clf = network(loss, score_scale, learning_rate, weight_decay, seed, epochs, **params)
    return judge(clf, (X[rows], y[rows]), valid, test)


def case_of(share, method, scale):
    """Return the settings from which the best is chosen for a loss."""
    scales = METHODS[method][1]
    values = {"score_scale": scales, "learning_rate": RATES, "weight_decay": DECAYS}
    return Case({"share": share, "method": method}, values, {"epochs": EPOCHS[scale]}, "valid_top5")


def gains(runs):
    """Return smooth loss minus cross-entropy by share of samples, in points, paired by seed."""
    judged = runs[(runs.scale == "full") & (runs.seed != TUNING)]
    judged = judged.assign(points=100 * judged.top5)
    pairing = {"column": "method", "baselines": [BASELINE], "pair": ["seed"]}
    return {
        share: gain(here, SMOOTH, "points", **pairing)
        for share, here in judged.groupby("share", sort=True)
    }


def papers_gain(share):
    cross_entropy, smooth = PAPER[share]
    return round(smooth - cross_entropy, 2)


def page(runs):
    full = runs[runs.scale == "full"]
    judged, rows = full[full.seed != TUNING], []
    for share, won in gains(runs).items():
        here = judged[judged.share == share].set_index("method").top5
        cells = [percent(here[method]) for method in (BASELINE, SMOOTH)]
        deviation = f"{won.mean - papers_gain(share):+.2f}"
        cells += [str(won), f"{papers_gain(share):+.2f}", deviation]
        for method in (BASELINE, SMOOTH):
            choice = case_of(share, method, "full").chosen(full)
            cells.append(", ".join(f"{value:g}" for value in choice.values()))
        rows.append([f"{round(share * N_CLASSES * OF_CLASS)} ({share:.0%})", *cells])
    header = [
        "samples",
        "cross-entropy",
        "smooth, k = 5",
        "difference",
        "paper",
        "ours minus paper",
    ]
    header += [f"{loss}: scale, rate, decay" for loss in ("cross-entropy", "smooth")]
    return "\n\n".join(
        [
            "# Few training samples",
            "`benchmarks/reproduce/training_size.py`: table 2 of paper 001 (Berrada, Zisserman, "
            "Kumar 2018), which uses ImageNet with ResNet-18. Here, one network of 512 hidden "
            "units is trained with patch features of CIFAR-100. The table has the top-5 accuracy "
            "in percent on the 10 000 test images. Scale, learning rate and weight decay are "
            "chosen on validation samples with a separate seed. "
            f"{judged.seed.nunique()} seeds are tested, ± is half of a 95 % interval. Differences "
            f"are in points, paired by seed. {RULE}",
            markdown(header, rows),
        ]
    )


def main():
    args = arguments(__doc__, "training_size", seeds={"full": 5, "small": 2}).parse_args()
    cases = [
        case_of(share, method, args.scale)
        for share in SHARES[args.scale]
        for method in (BASELINE, SMOOTH)
    ]
    seconds = 5.0 if args.scale == "full" else 0.5
    runs = choose_and_judge(run, cases, args, seconds=seconds)
    if "full" in set(runs.scale):
        write_page(args, page(runs))


if __name__ == "__main__":
    main()
