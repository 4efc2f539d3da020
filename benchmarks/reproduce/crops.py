"""Paper 001, section 5.2: ten crops of an image at test time, and the probabilities to average.

Berrada, Zisserman, Kumar average over ten crops the probability of a label to be among five drawn
together (eq. 63), not the softmax: worth .2 points of top-5 accuracy and more with every loss, and
most with cross-entropy and few images, up to one point; all of their table 2 has it. Here 2 000
images of CIFAR-100 train, ten crops of each, as features of patches, and one network of 512 hidden
units; the ten crops of the 10 000 test images are judged by their mean score, their mean softmax
and the mean of those probabilities, beside the crop of the centre alone.

Both losses choose the factor on their scores, the rate and the weight decay on a seed that is not
judged, by the centres of validation images. Scores of the smooth loss are divided by k tau, as
the loss does, so that both losses have theirs in one unit.

    python benchmarks/reproduce/crops.py
    python benchmarks/reproduce/crops.py --small        # a minute, to see it run
"""

import numpy as np
import torch
from _choosing import TUNING, Case, choose_and_judge
from _paired import RULE, gain
from _patch_features import CENTRE, crop_features
from _protocol import arguments, markdown, write_page
from label_noise import DECAYS, METHODS, RATES, K, network, percent

from sktopk.losses import _elementary_symmetric as symmetric
from sktopk.metrics import topk_accuracy_score

CROSS_ENTROPY, SMOOTH = "cross_entropy", "smooth, k=5"
# What the loss divides its scores by.
UNITS = {CROSS_ENTROPY: 1.0, SMOOTH: float(K)}
ONE, SCORES, SOFTMAX, INCLUSION = "centre", "ten, scores", "ten, softmax", "ten, eq. 63"
# Of ten crops, what is averaged.
MEANS = {
    SCORES: lambda scores: scores,
    SOFTMAX: lambda scores: scores.softmax(1),
    INCLUSION: lambda scores: topk_inclusion_proba(scores, k=K),
}
# The paper's gain of eq. 63 over the softmax, at least.
PAPER = 0.2
# Of each class.
IMAGES = 20
EPOCHS = {"full": 6, "small": 1}


@torch.no_grad()
def topk_inclusion_proba(scores, k):
    """The probability of each class to be in a random set of k classes (eq. 63, times k).

    A set has the weight of the product of exp(score) over its classes, all of them finite.
    """
    head, classes = symmetric.largest(scores, min(2 * k, scores.shape[1]))
    sums = symmetric.subset_sums(scores, head, classes, k, 1.0, keep_rest=True)
    if sums.rest is None:
        proba = torch.zeros_like(scores)
    else:
        proba = symmetric.rest_inclusion(sums, symmetric.rest_coefficients(sums)[:-1])
    inner = symmetric.head_inclusion(sums)[0][: head.shape[1]].t().to(scores.dtype)
    return proba.scatter_(1, classes, inner)


def run(images, method, score_scale, learning_rate, weight_decay, seed, epochs):
    """Train one network on all crops of `images` images of a class; top-5 by each decision."""
    ((X, y), (X_valid, y_valid), (X_test, y_test)), _ = crop_features(images)
    n_crops = X.shape[1]
    loss, _, params = METHODS[method]
    clf = network(loss, score_scale, learning_rate, weight_decay, seed, epochs, **params)
    X_valid = X_valid[:, CENTRE]
    clf.fit(X.reshape(len(X) * n_crops, -1), np.repeat(y, n_crops), X_val=X_valid, y_val=y_valid)

    def top5(labels, scores):
        return float(topk_accuracy_score(labels, scores, k=K, labels=clf.classes_))

    scores = torch.from_numpy(clf.decision_function(X_test.reshape(len(X_test) * n_crops, -1)))
    decided = {ONE: scores.reshape(len(X_test), n_crops, -1)[:, CENTRE]}
    for name, of_scores in MEANS.items():
        each = of_scores(scores / UNITS[method])
        decided[name] = each.reshape(len(X_test), n_crops, -1).mean(1)
    found = {"valid_top5": top5(y_valid, clf.decision_function(X_valid))}
    return found | {name: top5(y_test, values.numpy()) for name, values in decided.items()}


def case_of(method, scale):
    """What a loss chooses among."""
    scales = METHODS[method][1]
    values = {"score_scale": scales, "learning_rate": RATES, "weight_decay": DECAYS}
    what, more = {"images": IMAGES, "method": method}, {"epochs": EPOCHS[scale]}
    return Case(what, values, more, "valid_top5")


def by_decision(runs):
    """The judged runs, a row for each decision, with points of top-5 accuracy."""
    judged = runs[runs.seed != TUNING]
    long = judged.melt(["method", "seed"], [ONE, *MEANS], var_name="decision", value_name="top5")
    return long.assign(points=100 * long.top5)


def of_decisions(long, method, decision, baseline):
    """A decision less another, with the networks of a loss."""
    here = long[long.method == method]
    pairing = {"baselines": [baseline], "column": "decision", "pair": ["seed"]}
    return gain(here, decision, "points", **pairing)


def of_losses(long, decision):
    """The smooth loss less cross-entropy, with a decision."""
    here = long[long.decision == decision]
    pairing = {"baselines": [CROSS_ENTROPY], "column": "method", "pair": ["seed"]}
    return gain(here, SMOOTH, "points", **pairing)


def page(runs):
    full = runs[runs.scale == "full"]
    judged, long = full[full.seed != TUNING], by_decision(full)
    text = [
        "# Ten crops of an image, and what to average",
        "`benchmarks/reproduce/crops.py`: the probabilities for multiple crops of paper 001 "
        "(Berrada, Zisserman, Kumar 2018, section 5.2 and eq. 63), there of ImageNet with "
        f"ResNet-18. Here {100 * IMAGES} images of CIFAR-100, ten crops of 28 x 28 pixels of each "
        "(corners, centre, mirrored) as features of patches; one network of 512 hidden units is "
        "trained on all crops, its best epoch by the centres of validation images. Scale, rate "
        "and decay chosen on a seed that is not judged "
        f"({len(full) - len(judged)} networks); {judged.seed.nunique()} seeds ({len(judged)} "
        f"networks), {full.s.sum() / 60:.0f} minutes on cores that others shared. Top-5 accuracy "
        "in percent on all test images, ± half a 95 % interval; differences in points, paired by "
        f"seed: {RULE}. Scores of the smooth loss are divided by k tau before softmax and eq. 63.",
    ]
    rows = []
    for method in (CROSS_ENTROPY, SMOOTH):
        here = long[long.method == method].set_index("decision").top5
        rows.append([method, *(percent(here[name]) for name in (ONE, *MEANS))])
    gains = [of_losses(long, name).difference for name in (ONE, *MEANS)]
    rows.append(["the smooth loss less cross-entropy", *gains])
    text.append(markdown(["loss", ONE, *MEANS], rows))
    rows = []
    for method in (CROSS_ENTROPY, SMOOTH):
        for decision, baseline in ((SOFTMAX, ONE), (INCLUSION, ONE), (INCLUSION, SCORES)):
            won = of_decisions(long, method, decision, baseline)
            rows.append([method, f"{decision}, less {baseline}", str(won), "", ""])
        won = of_decisions(long, method, INCLUSION, SOFTMAX)
        beside = f"at least {PAPER:+.2f}", f"{won.mean - PAPER:+.2f}"
        rows.append([method, f"{INCLUSION}, less {SOFTMAX}", str(won), *beside])
    text += [
        "The paper gives eq. 63 in the place of the softmax at least .2 points with every loss, "
        "and cross-entropy up to 1 with few images:",
        markdown(["loss", "what", "difference", "the paper", "deviation"], rows),
    ]
    rows = []
    for method in (CROSS_ENTROPY, SMOOTH):
        choice = case_of(method, "full").chosen(full)
        rows.append([method, *(f"{value:g}" for value in choice.values())])
    header = ["loss", "score_scale", "learning_rate", "weight_decay"]
    text += ["## Crops: what was chosen on validation images", markdown(header, rows)]
    return "\n\n".join(text)


def main():
    args = arguments(__doc__, "crops", seeds={"full": 5, "small": 2}).parse_args()
    cases = [case_of(method, args.scale) for method in (CROSS_ENTROPY, SMOOTH)]
    seconds = 8.0 if args.scale == "full" else 2.0
    runs = choose_and_judge(run, cases, args, seconds=seconds)
    if "full" in set(runs.scale):
        write_page(args, page(runs))


if __name__ == "__main__":
    main()
