"""What each paper claims, whether it is seen here, under which conditions, what to use instead."""

import re

import circle_modes
import crops
import margin
import top_one
from _paired import LEAST, VERDICTS
from _protocol import markdown

# Of the pages of the papers: what each claims, and what to use, in words. What was seen is
# computed.
CLAIMS = {
    "deep_top_push": (
        "DeepTopPush ranks images better than balanced cross-entropy, by 3 to 6 points of "
        "precision at recalls from .05 to .8; high scores are active molecules",
        "a tuned learning rate for cross-entropy first; on tables "
        "[PatMat or RecallAtFPR](top.md), logistic regression or boosting",
    ),
    "smooth_topk": (
        "with labels redrawn within groups of classes the smooth loss is ahead at five guesses by "
        "3 to 5 points; with clean labels it is as good, with few training rows ahead by 2; "
        "a margin of 1 in the place of 0 is worth .1 points at one guess and .3 at five; over ten "
        "crops the mean of its probabilities is ahead of that of the softmax by .2 and more",
        "a small `score_scale` where labels are wrong, for cross-entropy as well; "
        "[compare_losses](compare.md)",
    ),
    "grouping_transition": (
        "cross-entropy gives up top-2 accuracy where classes have two modes and the model is "
        "small; with 8 hidden units it is the best again; on CIFAR-100 the transition loss is "
        "ahead of it by .5 points at five guesses with Cutout, by 1.2 with mixup",
        "a hidden layer; with a linear model the smooth or the transition loss",
    ),
    "noised_topk": (
        "noise of .1 and more makes the calibrated hinge trainable, few draws are enough; with "
        "margins it is the best on long tails",
        "for long tails `logit_adjusted` first, which has nothing to tune, then margins "
        "(`ldam`, `noised_topk_imbalanced`); cross-entropy elsewhere",
    ),
    "linear_programs": (
        "training for AUC or F-measure, as a linear program, is better under imbalance; Newton's "
        "method needs no line search",
        "cross-entropy with balanced class weights and a threshold tuned on held-out rows; the "
        "[closed forms](top.md) where the program itself is wanted",
    ),
}
CONDITIONS = {
    "deep_top_push": "a class of images; gradient descent at the published, small rate, "
    "its baseline at ten times that too, and Adam",
    "smooth_topk": "one network of 512 hidden units; both losses with scale, rate and decay chosen",
    "grouping_transition": "generated data; features of 10 000 images of CIFAR-100 with Cutout "
    "and mixup, rate and decay chosen",
    "noised_topk": "one network of 512 hidden units on texts and on "
    "features of images, 100:1; margins, scales, sigma, rate and decay chosen for every loss",
    "linear_programs": "only its abstract and introduction are at hand; two halves of "
    "Fashion-MNIST and five thinned tables, every method with its learning rate chosen",
}


def table(found, titles, runs_of):
    """A row per paper.

    Parameters
    ----------
    found : dict of str to list of Finding
        By results file.
    titles : dict of str to str
        Of the pages of the papers.
    runs_of : callable
        The runs of a results file.
    """
    rows = []
    for stem, (claim, instead) in CLAIMS.items():
        link = f"[{_short(titles[stem])}](evidence/{stem}.md)"
        rows.append([link, claim, _seen(stem, found, runs_of), CONDITIONS[stem], instead])
    return markdown(["paper", "claims", "here", "conditions", "use instead, or first"], rows)


def _short(title):
    return re.search(r"\((paper \d+)\)", title)[1]


def _seen(stem, found, runs_of):
    return {
        "deep_top_push": _images,
        "smooth_topk": _noise,
        "grouping_transition": _circle,
        "noised_topk": _noised,
        "linear_programs": _programs,
    }[stem](found, runs_of)


def _images(found, runs_of):
    runs = runs_of("reproduce_top_one")
    runs = runs[runs.part == "tables"]
    parts, won = [], []
    for data, here in runs.groupby("data", sort=False):
        ranges = []
        for method, other, of in (
            ("DeepTopPush", "BaseLine", "the paper's baseline"),
            ("DeepTopPush", top_one.BASELINES[1], "it at ten times its rate"),
            ("DeepTopPush, Adam", *top_one.RIVALS["adam"], "it with Adam for both"),
        ):
            gains = [
                top_one.to_baseline(here, method, f"precision at recall {r:g}", [other])
                for r in top_one.RECALLS
            ]
            if all(gains) and gains[0].n >= LEAST:
                low, high = (f(gain.mean for gain in gains) for f in (min, max))
                ranges.append(f"{low:+.1f} to {high:+.1f} points over {of} ({_runs(gains[0].n)})")
                won.append(all(gain.verdict == "won" for gain in gains))
        if ranges:
            parts.append(f"{data}: {', '.join(ranges)}")
    word = "**yes**" if won and all(won) else "**in part**" if any(won) else "**no**"
    if not won:
        word = "**too few runs to say**"
    molecules = found.get("molecules", ())
    on_molecules = f". Molecules: {_counted(list(molecules))}" if molecules else ""
    return f"{word}, {'; '.join(parts)}{on_molecules}"


def _noise(found, runs_of):
    findings = _of(found, "reproduce_label_noise", "smooth_topk")
    if not findings:
        return "not run"
    fewer = _of(found, "reproduce_training_size", "smooth_topk")
    parts = [f"{f.setting}: {f.difference} ({f.verdict})" for f in (*findings, *fewer)]
    parts += [
        f"margin 1 over 0, {margin.SHOWN[case]}, {method.split(',')[0]}: {won.difference} "
        f"({won.verdict})"
        for case, method, won, paper in margin.gains(runs_of("reproduce_margin"))
        if paper is not None
    ]
    of_crops = crops.by_decision(runs_of("reproduce_crops"))
    for method in (crops.CROSS_ENTROPY, crops.SMOOTH):
        won = crops.of_decisions(of_crops, method, crops.INCLUSION, crops.SOFTMAX)
        parts.append(f"probabilities over the softmax, {method}: {won.difference} ({won.verdict})")
    # Where the paper says that it is ahead.
    ahead = [f for f in findings if "p = 0" != f.setting[-5:]] + fewer[:-1]
    won = sum(f.verdict == "won" for f in ahead)
    word = "**yes**" if won == len(ahead) else "**in part**" if won else "**no**"
    return f"{word}: " + "; ".join(parts)


def _circle(found, runs_of):
    rows = circle_modes.findings(runs_of("reproduce_circle_modes"))
    held = sum(row[-1] == "yes" for row in rows)
    word = "**mostly**" if 2 * held > len(rows) else "**in part**"
    images = [
        f"{f.loss} with {f.setting.removeprefix('CIFAR-100, ')} {f.difference} ({f.verdict})"
        for f in found.get("reproduce_top_curve", ())
        if f.loss in ("smooth_topk", "topk_transition")
    ]
    of_images = f". Features of CIFAR-100, top-5: {'; '.join(images)}" if images else ""
    return f"{word}: {held} of {len(rows)} of its statements on generated data hold{of_images}"


def _noised(found, runs_of):
    noisy = _of(found, "reproduce_label_noise", "noised_topk")
    parts = [f"label noise {_counted(noisy)}"]
    parts += [
        f"{loss} {_differences(_of(found, 'reproduce_long_tails', loss))}"
        for loss in ("noised_topk_imbalanced", "noised_topk", "ldam", "logit_adjusted")
    ]
    tails = _of(found, "reproduce_long_tails", "noised_topk_imbalanced")
    won = sum(f.verdict == "won" for f in tails)
    word = "**yes**" if tails and won == len(tails) else "**in part**" if won else "**no**"
    return f"trainable: yes. On long tails: {word}, macro accuracy: {'; '.join(parts[1:])}. " + (
        f"Balanced, {parts[0]}"
    )


def _of(found, name, loss):
    """The findings of a loss in a results file."""
    return [f for f in found.get(name, ()) if f.loss == loss]


def _differences(findings):
    """The differences of some findings, a range."""
    values = [float(f.difference.split()[0]) for f in findings]
    if not values:
        return "not run"
    return f"{min(values):+.1f} to {max(values):+.1f}" if len(values) > 1 else f"{values[0]:+.1f}"


def _programs(found, runs_of):
    halves, tables = (found.get(name, ()) for name in ("reproduce_halves", "imbalance"))
    parts = []
    for model in ("convolutional", "linear"):
        of_model = [f for f in halves if f.setting.startswith(model)]
        gain = f"{_differences(of_model)} points over the better cross-entropy"
        parts.append(f"halves, {model}: {_counted(of_model)} ({gain})")
    parts.append(f"thinned tables: {_counted(tables)}")
    won = sum(f.verdict == "won" for f in (*halves, *tables))
    word = "**in part**" if 2 * won < len(halves) + len(tables) else "**yes**"
    return (
        f"{word if won else '**no**'}, {'; '.join(parts)}. Without a line search Newton's method "
        "fails on most random programs, and with one it is slower than HiGHS"
    )


def _counted(findings):
    """How many of each verdict, in words."""
    verdicts = [f.verdict for f in findings]
    return ", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS if v in verdicts) or "nothing"


def _runs(n):
    return "1 run" if n == 1 else f"{n} runs"
