"""Paper 003: noise level, number of draws, label noise (tables 2 to 4), long tails (5 and 6).

CIFAR-100 with a small network on 16 x 16 pixels; long tails: CIFAR-100 thinned down an
exponential to a hundredth, clinc150 with 100 to 25 texts per class, trec with 962 to 4. Table 2
is trained as published (gradient descent with momentum, scores as they are), the others with our
defaults. Cross-entropy stands beside itself with scores ten times larger, which the top-k losses
have by default: the better of the two is the one to beat.

    python benchmarks/reproduce/noise_level.py                  # 4 000 images, a small network
    python benchmarks/reproduce/noise_level.py --scale full     # DenseNet 40-40, an accelerator
"""

from functools import partial

import numpy as np
import torch
from _long_tail_data import TEXTS, cifar100, texts
from _networks import ConvNet, DenseNet
from _paired import RULE, Finding, gain
from _protocol import arguments, markdown, mean_and_half, run_missing, seeds_of, write_page
from skorch.callbacks import LRScheduler

from sktopk import TopKClassifier
from sktopk.datasets import inject_label_noise, make_long_tail
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP, NormalizedLinear

KS = (1, 3, 5)
SIZES = {
    "small": {"side": 16, "n_train": 4000, "largest_class": 200, "max_epochs": 8},
    "full": {"side": 32, "n_train": 50_000, "largest_class": 500, "max_epochs": 300},
}
FACTOR = 100
TEXT_EPOCHS = 20
SIGMAS = {"small": (0, 1e-3, 0.1, 1, 100), "full": (0, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100)}
DRAWS = {"small": (1, 10, 100), "full": (1, 2, 3, 5, 10, 50, 100)}
NOISES = {"small": (0.0, 0.4), "full": (0.0, 0.1, 0.2, 0.3, 0.4)}
# The k of the long tails, of images and of texts.
TAIL_KS = {"small": ((5,), (1, 5)), "full": (KS, KS)}
# Top-5 accuracy on CIFAR-100.
TABLE_2 = dict(
    zip(SIGMAS["full"], (19.38, 14.84, 11.4, 93.36, 94.46, 94.24, 93.78, 93.12), strict=True)
)
TABLE_3 = dict(zip(DRAWS["full"], (94.28, 94.2, 94.46, 94.52, 94.24, 94.64, 94.52), strict=True))
BASELINES = ("cross_entropy", "cross_entropy, score_scale=10")
BALANCED = {
    "cross_entropy": {"loss": "cross_entropy"},
    "cross_entropy, score_scale=10": {"loss": "cross_entropy", "score_scale": 10.0},
    "smooth_topk": {"loss": "smooth_topk", "tau": 1.0},
    "noised_topk": {"loss": "noised_topk"},
}
# Section 4.5.1 and the command lines published with it; logit adjustment is not in the paper.
NORMALIZED = {"score_scale": 1.0, "module__normalize": True}
TAIL = {
    **{name: BALANCED[name] for name in BASELINES},
    "focal": {"loss": "focal", "loss__gamma": 2.0},
    "ldam": {"loss": "ldam", "loss__max_margin": 0.2, "loss__scale": 40.0, **NORMALIZED},
    "logit_adjusted": {"loss": "logit_adjusted"},
    "smooth_topk": {"loss": "smooth_topk", "tau": 0.1},
    "noised_topk": {"loss": "noised_topk"},
    "noised_topk_imbalanced": {
        "loss": "noised_topk_imbalanced",
        "loss__max_margin": 0.2,
        "loss__scale": 60.0,
        **NORMALIZED,
    },
}
TAILS = ("cifar100-lt", *TEXTS)
OF_K = ("smooth_topk", "noised_topk", "noised_topk_imbalanced")
SIGMA_OF_TAIL = {"noised_topk": 1.0, "noised_topk_imbalanced": 0.01}


def network(n_channels, n_outputs, size, normalize):
    """The network for images; normalised scores are cosines."""
    if size == "full":
        net = DenseNet(n_channels, n_outputs, growth_rate=40, bottleneck=True)
    else:
        net = ConvNet(n_channels, n_outputs, channels=(32, 64), kernel_size=3, padding=1)
    if normalize:
        net[-1] = NormalizedLinear(net[-1].in_features, n_outputs)
    return net


def table_of(data, noise, size, seed):
    """Rows to train on and to test on; images are drawn, thinned and noised by the seed."""
    if data in TEXTS:
        return texts(data)
    X, y, X_test, y_test, groups = cifar100(SIZES[size]["side"])
    rows = np.random.default_rng(seed).permutation(len(y))[: SIZES[size]["n_train"]]
    if data == "cifar100-lt":
        rows = np.flatnonzero(np.arange(len(y)) % 500 < SIZES[size]["largest_class"])
        X, y = make_long_tail(X[rows], y[rows], FACTOR, random_state=seed)
    else:
        X, y = X[rows], inject_label_noise(y, groups, noise, random_state=seed)[rows]
    return X, y, X_test, y_test


def run(data, loss, k, sigma, n_noise, noise, training, size, seed):
    """Train one network; accuracies in percent, of all rows and averaged over classes."""
    X, y, X_test, y_test = table_of(data, noise, size, seed)
    params = dict(TAIL[loss] if data != "cifar100" else BALANCED[loss])
    sizes = SIZES[size]
    clf = TopKClassifier(k=k, n_members=1, warm_up=0, batch_size=64, random_state=seed)
    if loss.startswith("noised"):
        params |= {"sigma": sigma, "loss__n_noise": n_noise}
    if data.startswith("cifar100"):
        options = {"size": size, "normalize": params.pop("module__normalize", False)}
        params["module"] = partial(network, **options)
        params["max_epochs"] = sizes["max_epochs"]
    else:
        params |= {"module": MLP, "max_epochs": TEXT_EPOCHS}
    clf.set_params(**params)
    if training == "published":
        epochs = sizes["max_epochs"]
        # 0.1 with batch normalisation, which the small network has not.
        rate = 0.1 if size == "full" else 0.01
        decay = LRScheduler(
            policy=torch.optim.lr_scheduler.MultiStepLR,
            milestones=[epochs // 2, 3 * epochs // 4],
            gamma=0.1,
        )
        momentum = {"optimizer__momentum": 0.9, "optimizer__nesterov": True}
        clf.set_params(
            optimizer="sgd", learning_rate=rate, score_scale=1.0, callbacks=[decay],
            net_params=momentum,
        )  # fmt: skip
    clf.fit(X, y)
    y_score = clf.decision_function(X_test)
    return {
        f"{average} top-{k}": 100
        * float(topk_accuracy_score(y_test, y_score, k=k, labels=clf.classes_, average=average))
        for average in ("micro", "macro")
        for k in KS
    }


def settings(args):
    """Each run once, though tables share some."""
    size = args.scale
    found = {}

    def add(data, loss, k=5, sigma=0.2, n_noise=10, noise=0.0, training="default"):
        for seed in seeds_of(args):
            setting = {
                "data": data, "loss": loss, "k": k, "sigma": float(sigma), "n_noise": n_noise,
                "noise": noise, "training": training, "size": size, "seed": seed,
            }  # fmt: skip
            found[tuple(setting.values())] = setting

    for sigma in SIGMAS[size]:
        add("cifar100", "noised_topk", sigma=sigma, training="published")
    for loss in ("cross_entropy", "smooth_topk"):
        add("cifar100", loss, training="published")
    for n_noise in DRAWS[size]:
        add("cifar100", "noised_topk", n_noise=n_noise)
    for noise in NOISES[size]:
        for loss in BALANCED:
            add("cifar100", loss, noise=noise)
    for data in TAILS:
        for loss in TAIL:
            for k in TAIL_KS[size][data in TEXTS] if loss in OF_K else (5,):
                add(data, loss, k=k, sigma=SIGMA_OF_TAIL.get(loss, 0.2), n_noise=5)
    # Seed by seed, so that a part of the runs compares all methods.
    return sorted(found.values(), key=lambda setting: setting["seed"])


def seconds(setting):
    if setting["size"] == "full" and setting["data"].startswith("cifar100"):
        return 300 * 3600
    return 9 if setting["data"].startswith("cifar100") else 4


def of(runs, **values):
    """The runs with these values."""
    for name, value in values.items():
        runs = runs[runs[name] == value]
    return runs


def plus_minus(values):
    mean, half = mean_and_half(values)
    return f"{mean:.2f} ± {half:.2f}" if len(values) > 1 else f"{mean:.2f}"


def balanced(runs, **values):
    """Runs of tables 2 to 4."""
    defaults = {"data": "cifar100", "noise": 0.0, "training": "default"}
    return of(runs, **defaults | values)


def along(runs, name, paper):
    """Top-5 accuracy over sigma or draws, and how far each lies below the best one."""
    rows, ours = [], {value: of(runs, **{name: value})["micro top-5"] for value in paper}
    best = max((values.mean() for values in ours.values() if len(values)), default=np.nan)
    for value, theirs in paper.items():
        below = theirs - max(paper.values())
        cells = [f"{value:g}", theirs, f"{below:+.2f}", "", "", ""]
        if len(found := ours[value]):
            our_below = found.mean() - best
            cells[3:] = plus_minus(found), f"{our_below:+.2f}", f"{our_below - below:+.2f}"
        rows.append(cells)
    return markdown([name, "paper", "to its best", "ours", "to its best", "deviation"], rows)


def of_label_noise(runs, noise):
    return balanced(runs, noise=noise, sigma=0.2, n_noise=10, k=5)


def of_tail(runs, data, k):
    """Losses made for this k, and the others, which know no k."""
    here = of(runs, data=data)
    return here[(here.k == k) | ~here.loss.isin(OF_K)]


def to_baseline(runs, loss, metric):
    return gain(runs, loss, metric, baselines=BASELINES, column="loss", pair=["seed"])


def rows_of(runs, losses, metrics):
    """Values of each loss, and its gain on the first of the metrics."""
    rows = []
    for loss in losses:
        cells = [plus_minus(of(runs, loss=loss)[metric]) for metric in metrics]
        won = to_baseline(runs, loss, metrics[0])
        rows.append([loss, *cells, "" if loss in BASELINES else str(won)])
    return rows


def label_noise(runs):
    rows = []
    for noise in NOISES["full"]:
        here = of_label_noise(runs, noise)
        if len(here):
            found = rows_of(here, BALANCED, ["micro top-5", "micro top-1"])
            rows += [[f"{noise:g}", *row] for row in found]
    return markdown(["label noise", "loss", "top-5", "top-1", "top-5 gain"], rows)


def long_tail(runs, data, k):
    rows = rows_of(of_tail(runs, data, k), TAIL, [f"macro top-{k}", f"micro top-{k}"])
    return markdown(["loss", f"macro top-{k}", f"top-{k}", "macro gain"], rows)


def findings(runs):
    """Each loss against cross-entropy, wherever both were run."""
    cases = [
        (f"CIFAR-100, labels redrawn with p = {noise:g}", "top-5", "micro top-5", BALANCED, here)
        for noise in NOISES["full"]
        if len(here := of_label_noise(runs, noise))
    ] + [
        (f"long tail of {data}", f"macro top-{k}", f"macro top-{k}", TAIL, here)
        for data in TAILS
        for k in KS
        if set(OF_K) <= set((here := of_tail(runs, data, k)).loss)
    ]
    return [
        Finding.of_gain(loss, setting, name, won)
        for setting, name, metric, losses, here in cases
        for loss in losses
        if loss not in BASELINES and (won := to_baseline(here, loss, metric)) is not None
    ]


def page(runs, scale):
    sizes, n_seeds = SIZES[scale], runs.groupby("seed").size()
    published = balanced(runs, training="published")
    small = "a network of two convolutions (32 and 64 channels)"
    net = small if scale == "small" else "DenseNet 40-40 with bottlenecks"
    text = [
        "# Paper 003: noise level, draws, label noise, long tails",
        "",
        f"`benchmarks/reproduce/noise_level.py`, scale {scale}: CIFAR-100 with {sizes['side']} x "
        f"{sizes['side']} pixels, {sizes['n_train']} training images, {sizes['max_epochs']} "
        f"epochs, {net}; all 10 000 test images, the network of the last epoch. The paper: 45 000 "
        "images of 32 x 32, 300 epochs, DenseNet 40-40, the best epoch on validation images. So "
        "levels cannot be compared, only what changes between rows. Accuracies in percent, ± half "
        f"a 95 % confidence interval over {len(n_seeds)} seeds; gains are paired by seed, to the "
        f"better of cross-entropy and cross-entropy with score_scale=10. In points, {RULE}.",
        "",
        "## Table 2: noise level sigma, top-5 accuracy (10 draws)",
        "",
        "Trained as published: gradient descent with Nesterov momentum 0.9, the rate divided by "
        "10 at one half and three quarters of the epochs, scores as they are.",
        "",
        along(
            balanced(runs, loss="noised_topk", n_noise=10, training="published"), "sigma", TABLE_2
        ),
        "",
        "Trained as published, cross-entropy reaches "
        + " and the smooth loss ".join(
            plus_minus(of(published, loss=loss)["micro top-5"])
            for loss in ("cross_entropy", "smooth_topk")
        )
        + ".",
        "",
        "## Table 3: number of draws, top-5 accuracy (sigma 0.2; Adam, scores ten times larger)",
        "",
        along(balanced(runs, loss="noised_topk", sigma=0.2), "n_noise", TABLE_3),
        "",
        "## Table 4: labels redrawn within coarse classes (sigma 0.2, 10 draws)",
        "",
        "The numbers of the paper's tables 4 to 6 are not in the text at hand. Its words: the "
        "noised loss has the best top-5 accuracy except without label noise, where it is slightly "
        "below cross-entropy, and its gain is significant with label noise (section 4.4); without "
        "label noise cross-entropy has the better top-1 accuracy, with much of it the noised loss "
        "(appendix D).",
        "",
        label_noise(runs),
        "",
        "## Tables 5 and 6: long tails, macro top-k accuracy",
        "",
        "The paper (Pl@ntNet-300K, ResNet-50): the imbalanced noised loss is best for k = 1, 3 "
        "and 5 and outperforms LDAM, the balanced one is about as good as cross-entropy, the "
        "smooth loss fails on the tail. Margins, scales, sigma and tau are the paper's, not tuned "
        "here; the top-k losses are trained for the k that is judged.",
    ]
    for data in TAILS:
        for k in TAIL_KS[scale][data in TEXTS]:
            if len(of(runs, data=data)):
                text += ["", f"### {data}, k = {k}", "", long_tail(runs, data, k)]
    return "\n".join(text)


def main():
    args = arguments(__doc__, "noise_level", seeds={"small": 3, "full": 4}).parse_args()
    runs = run_missing(run, settings(args), args, seconds=seconds)
    runs = runs[runs.scale == args.scale]
    if len(runs) >= len(settings(args)):
        write_page(args, page(runs, args.scale))


if __name__ == "__main__":
    main()
