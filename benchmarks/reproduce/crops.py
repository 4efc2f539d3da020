"""Paper 001, section 5.2: which probabilities to average over ten crops of an image.

Berrada, Zisserman and Kumar predict with ten crops of an image. They average the probability that a
label is among five labels that are drawn together (eq. 63), instead of the softmax. With every
loss, eq. 63 gains at least 0.2 points of top-5 accuracy, and up to one point with cross-entropy and
few images. Their table 2 uses eq. 63. This script trains one network of 512 hidden units with patch
features of ten crops of 2 000 images of CIFAR-100. On the 10 000 test images, it compares the mean
score, the mean softmax and the mean probability of eq. 63 over ten crops with the centre crop.

For both losses, the factor on the scores, the learning rate and the weight decay are chosen with a
separate seed, on the centre crops of validation images. The smooth loss divides scores by k tau.
Before softmax and eq. 63, its scores are divided in the same way, so that both losses have the same
scale.

    python benchmarks/reproduce/crops.py
    python benchmarks/reproduce/crops.py --small        # a minute, as a test
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
# The loss divides its scores by this number.
UNITS = {CROSS_ENTROPY: 1.0, SMOOTH: float(K)}
ONE, SCORES, SOFTMAX, INCLUSION = "centre", "ten, scores", "ten, softmax", "ten, eq. 63"
# Values of ten crops that are averaged.
MEANS = {
    SCORES: lambda scores: scores,
    SOFTMAX: lambda scores: scores.softmax(1),
    INCLUSION: lambda scores: topk_inclusion_proba(scores, k=K),
}
# Smallest gain of eq. 63 over the softmax in the paper, in points.
PAPER = 0.2
# Training images of each class.
IMAGES = 20
EPOCHS = {"full": 6, "small": 1}


@torch.no_grad()
def topk_inclusion_proba(scores, k):
    """Return the probability of each class to be in a random set of k classes (eq. 63 times k).

    The weight of a set is the product of exp(score) over its classes. Scores must be finite.
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
    """Train one network on all crops of `images` images per class; return top-5 accuracies."""
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
    """Return the settings from which the best is chosen for a loss."""
    scales = METHODS[method][1]
    values = {"score_scale": scales, "learning_rate": RATES, "weight_decay": DECAYS}
    what, more = {"images": IMAGES, "method": method}, {"epochs": EPOCHS[scale]}
    return Case(what, values, more, "valid_top5")


def by_decision(runs):
    """Return the tested runs with top-5 accuracy in points, one row for each way to average."""
    judged = runs[runs.seed != TUNING]
    long = judged.melt(["method", "seed"], [ONE, *MEANS], var_name="decision", value_name="top5")
    return long.assign(points=100 * long.top5)


def of_decisions(long, method, decision, baseline):
    """Compare two ways to average with the networks of a loss."""
    here = long[long.method == method]
    pairing = {"baselines": [baseline], "column": "decision", "pair": ["seed"]}
    return gain(here, decision, "points", **pairing)


def of_losses(long, decision):
    """Compare the smooth loss with cross-entropy for a way to average."""
    here = long[long.decision == decision]
    pairing = {"baselines": [CROSS_ENTROPY], "column": "method", "pair": ["seed"]}
    return gain(here, SMOOTH, "points", **pairing)


def page(runs):
    full = runs[runs.scale == "full"]
    judged, long = full[full.seed != TUNING], by_decision(full)
    text = [
        "# Ten crops of an image: which probabilities to average",
        "`benchmarks/reproduce/crops.py` repeats section 5.2 of paper 001 (Berrada, Zisserman, "
        "Kumar 2018) with the probabilities of eq. 63. The paper uses ImageNet with ResNet-18. "
        f"Here, {100 * IMAGES} images of CIFAR-100 have ten crops of 28 x 28 pixels each (corners, "
        "centre, mirrored), with patch features. One network of 512 hidden units is trained on all "
        "crops. Its best epoch is chosen by the centre crops of validation images. Scale, learning "
        f"rate and weight decay are chosen with a separate seed ({len(full) - len(judged)} "
        f"networks). {judged.seed.nunique()} seeds are tested ({len(judged)} networks, "
        f"{full.s.sum() / 60:.0f} minutes on shared cores). Scores of the smooth loss are divided "
        "by k tau before softmax and eq. 63.",
        "The table has the top-5 accuracy in percent on all test images, ± half of a 95 % "
        'interval. Columns with "ten" average the scores, the softmax or the probabilities of '
        "eq. 63 over ten crops. Differences are in points, paired by seed. "
        f"{RULE}",
    ]
    rows = []
    for method in (CROSS_ENTROPY, SMOOTH):
        here = long[long.method == method].set_index("decision").top5
        rows.append([method, *(percent(here[name]) for name in (ONE, *MEANS))])
    gains = [of_losses(long, name).difference for name in (ONE, *MEANS)]
    rows.append(["smooth minus cross-entropy", *gains])
    text.append(markdown(["loss", ONE, *MEANS], rows))
    rows = []
    for method in (CROSS_ENTROPY, SMOOTH):
        for decision, baseline in ((SOFTMAX, ONE), (INCLUSION, ONE), (INCLUSION, SCORES)):
            won = of_decisions(long, method, decision, baseline)
            rows.append([method, f"{decision} minus {baseline}", str(won), "", ""])
        won = of_decisions(long, method, INCLUSION, SOFTMAX)
        beside = f"at least {PAPER:+.2f}", f"{won.mean - PAPER:+.2f}"
        rows.append([method, f"{INCLUSION} minus {SOFTMAX}", str(won), *beside])
    text += [
        "The next table compares the ways to average. In the paper, eq. 63 is better than the "
        "softmax by at least 0.2 points with every loss, and by up to 1 point with cross-entropy "
        "and few images.",
        markdown(["loss", "difference", "value", "paper", "ours minus paper"], rows),
    ]
    rows = []
    for method in (CROSS_ENTROPY, SMOOTH):
        choice = case_of(method, "full").chosen(full)
        rows.append([method, *(f"{value:g}" for value in choice.values())])
    header = ["loss", "score_scale", "learning_rate", "weight_decay"]
    text += ["## Settings chosen on validation images", markdown(header, rows)]
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
