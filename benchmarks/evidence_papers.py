"""What each paper claims, whether it is seen here, under which conditions, what to use instead."""

import re
from statistics import mean
from typing import NamedTuple

import activity
import circle_modes
import crops
import epochs
import long_tails
import margin
import noise_level
import temperature
import top_curve
import top_objective
import top_one
from _paired import LEAST, VERDICTS
from _protocol import markdown
from evidence_regions import table_below

# Of the pages of the papers, in words. What was seen is computed.
CONDITIONS = {
    "deep_top_push": "A class of images against the rest, by gradient descent at the published, "
    "small rate, its baseline at ten times that too, and by Adam",
    "smooth_topk": "One network of 512 hidden units; both losses with scale, rate and decay chosen",
    "grouping_transition": "Generated data, and features of 10 000 images of CIFAR-100 with Cutout "
    "and mixup, rate and decay chosen",
    "noised_topk": "One network of 512 hidden units on texts and on features of images; margins, "
    "scales, sigma, rate and decay chosen for every loss",
    "linear_programs": "Two halves of Fashion-MNIST and five thinned tables, every method with its "
    "learning rate chosen; on the halves among four, of which the two smallest made it look better",
}
INSTEAD = {
    "deep_top_push": "a tuned learning rate for cross-entropy first; on tables "
    "[PatMat or RecallAtFPR]({docs}top.md), logistic regression or boosting",
    "smooth_topk": "a small `score_scale` where labels are wrong, for cross-entropy as well; "
    "[compare_losses]({docs}compare.md)",
    "grouping_transition": "a hidden layer; with a linear model the smooth or the transition loss",
    "noised_topk": "for long tails `logit_adjusted` first, which has nothing to tune, then margins "
    "(`ldam`, `noised_topk_imbalanced`); cross-entropy elsewhere",
    "linear_programs": "cross-entropy with balanced class weights and a threshold tuned on "
    "held-out rows; the [closed forms]({docs}top.md) where the program itself is wanted",
}
# What else one has to know of the comparison.
NOTES = {
    "deep_top_push": "CIFAR-100 has 16 x 16 pixels here, and two convolutions instead of three. "
    "The paper's gains are means over six sets of images, ours are of each set. "
    "Of the paper's 3A4 molecules an eighth is at hand; CYP 3A4 and METAB stand for them.",
    "smooth_topk": "The paper has images of 32 x 32 pixels and deep networks, here it is texts and "
    "features of images: levels cannot be compared, differences can. "
    "Tables 2, 7 and 8 and the crops are of ImageNet there, which was not run.",
    "grouping_transition": "The paper trains ResNet18 and DenseNet121 on 50 000 images, ten runs. "
    "Seen before with other settings, and not reproduced: +1.8 ± .1 points of the smooth loss and "
    "-.95 ± .14 of the transition loss over cross-entropy, with mixup at five guesses.",
    "noised_topk": "The text at hand has lost most numbers of the tables, not their words. "
    "Pl@ntNet-300K and ImageNet-LT were not run, clinc150 and CIFAR-100 thinned to 100:1 stand for "
    "them. ImageNet (table 9) was not run either: there the paper itself finds all three losses "
    "alike.",
    "linear_programs": "Of the paper only abstract and introduction are at hand, so that there is "
    "no number to subtract. Every comparison is with the better of plain and weighted "
    "cross-entropy.",
}
# The figure of each page, and what it shows.
FIGURES = {
    "deep_top_push": (
        "reproduce_top_one_figure_2.png",
        "Figure 2: precision and recall on CIFAR-100",
    ),
    "smooth_topk": ("reproduce_temperature.png", "Figure 2: training error by temperature"),
    "grouping_transition": (
        "reproduce_top_curve.png",
        "Figure 6: top-k accuracy less that of cross-entropy, over k",
    ),
    "noised_topk": ("reproduce_epochs.png", "Figures 2 and 3: derivatives, and time of an epoch"),
    "linear_programs": ("reproduce_halves.png", "What training for the metric gains"),
}


RULE = (
    "To be ahead holds where it is won in all settings, and in part where it is won in some and "
    "lost no oftener"
)


class Claim(NamedTuple):
    """What a paper says, whether it holds here, and by which figures.

    One with a `short` form is among the papers in a minute.
    """

    says: str
    holds: str
    here: str
    short: str = ""


def claims(stem, found, runs_of):
    """The claims of a paper.

    Parameters
    ----------
    stem : str
        Of its page.
    found : dict of str to list of Finding
        By results file.
    runs_of : callable
        The runs of a results file.

    Returns
    -------
    claims : list of Claim
    """
    return OF_PAPERS[stem](found, runs_of)


def head(stem, found, runs_of):
    """What the page of a paper begins with: a table, a figure, a few sentences."""
    rows = [[c.says, f"**{c.holds}**", c.here] for c in claims(stem, found, runs_of)]
    file, shows = FIGURES[stem]
    return [
        markdown(["the paper", "holds here?", "figures"], rows),
        "",
        f"![{shows}](../../benchmarks/results/{file})",
        "",
        f"{CONDITIONS[stem]}. {NOTES[stem]} Use instead: {INSTEAD[stem].format(docs='../')}.",
    ]


def table(found, titles, runs_of):
    """A row per claim that a minute has room for."""
    rows = []
    for stem in OF_PAPERS:
        shown = [c for c in claims(stem, found, runs_of) if c.short]
        for place, claim in enumerate(shown):
            first = _linked(stem, titles) if place == 0 else ""
            rows.append([first, claim.says, f"**{claim.holds}**: {claim.short}"])
    return markdown(["paper", "claims", "here"], rows)


def conditions(titles):
    """A row per paper: under which conditions that was seen, and what to use instead."""
    rows = [
        [_linked(stem, titles), CONDITIONS[stem], INSTEAD[stem].format(docs="")]
        for stem in OF_PAPERS
    ]
    return markdown(["paper", "conditions", "use instead, or first"], rows)


def _linked(stem, titles):
    return f"[{_short(titles[stem])}](evidence/{stem}.md)"


def _short(title):
    return re.search(r"\((paper \d+)\)", title)[1]


def _held(verdicts):
    """Whether a loss is ahead, by the verdicts of its differences: `RULE` in words."""
    verdicts = list(verdicts)
    won, lost = (verdicts.count(v) for v in ("won", "lost"))
    if not verdicts:
        return "too few runs"
    if set(verdicts) == {"cannot tell"}:
        return "cannot tell"
    return "yes" if won == len(verdicts) else "in part" if won and won >= lost else "no"


def _range(values, unit="points", digits=1):
    low, high = (f"{f(values):+.{digits}f}" for f in (min, max))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _counted(verdicts):
    """How many of each verdict, in words."""
    verdicts = list(verdicts)
    return ", ".join(f"{verdicts.count(v)} {v}" for v in VERDICTS if v in verdicts) or "nothing"


def _of(found, name, loss):
    """The findings of a loss in a results file."""
    return [f for f in found.get(name, ()) if f.loss == loss]


def _differences(findings):
    return [float(f.difference.split()[0]) for f in findings]


def _ahead(says, findings, more="", shown=True):
    """A claim that a loss is ahead, of its findings."""
    if not findings:
        return Claim(says, "not run", "")
    verdicts = [f.verdict for f in findings]
    text = f"{_range(_differences(findings))}: {_counted(verdicts)}"
    return Claim(says, _held(verdicts), text + more, text if shown else "")


MEAN = "mean precision"


def _on_images(says, runs, method, rivals):
    """DeepTopPush against a baseline, mean precision of the recalls, by set of images."""
    gains = {}
    for data, here in runs.groupby("data", sort=False):
        won = top_one.to_baseline(here, method, MEAN, rivals)
        if won is not None and won.n >= LEAST:
            gains[data] = won
    if not gains:
        return Claim(says, "too few runs", "")
    verdicts = [won.verdict for won in gains.values()]
    each = "; ".join(f"{data} {won} ({won.n} runs)" for data, won in gains.items())
    values = [won.mean for won in gains.values()]
    short = f"{_range(values)}, by set of images: {_counted(verdicts)}"
    return Claim(says, _held(verdicts), f"points, mean of the recalls: {each}", short)


def _deep_top_push(found, runs_of):
    runs = runs_of("reproduce_top_one")
    runs = runs[runs.part == "tables"]
    columns = [f"precision at recall {r:g}" for r in top_one.RECALLS]
    runs = runs.assign(**{MEAN: runs[columns].mean(axis=1)})
    pairs = zip(top_one.TABLE_3["DeepTopPush"], top_one.TABLE_3["BaseLine"], strict=True)
    theirs = [ours - base for ours, base in pairs]
    base, faster = top_one.BASELINES
    return [
        _on_images(
            f"DeepTopPush ranks images better than balanced cross-entropy: {_range(theirs)} of "
            f"precision at recalls from .05 to .8, {mean(theirs):+.1f} on average (table 3)",
            runs, "DeepTopPush", [base],
        ),
        _on_images(
            "not claimed: the same over that baseline at ten times the rate",
            runs, "DeepTopPush", [faster],
        ),
        _on_images(
            "not claimed: the same with Adam for both",
            runs, "DeepTopPush, Adam", top_one.RIVALS["adam"],
        ),
        _delayed(runs),
        _epoch_of_images(runs),
        _objective(runs_of("reproduce_top_objective")),
        _molecules(runs_of("reproduce_activity")),
    ]  # fmt: skip


def _delayed(runs):
    metric, parts, verdicts, theirs = "AUC@quantile 0.1", [], [], []
    for data, here in runs.groupby("data", sort=False):
        won = top_one.to_baseline(here, "DeepTopPush", metric, ["DeepTopPush_0"])
        if won is None or won.n < LEAST:
            continue
        with_it, without = (top_one.TABLE_4[data, m][0] for m in ("DeepTopPush", "DeepTopPush_0"))
        paper = with_it - without
        theirs.append(f"{paper:+.2f} on {data}")
        parts.append(f"{data} {won} (deviation {won.mean - paper:+.2f})")
        verdicts.append(won.verdict)
    says = f"the delayed score helps: {', '.join(theirs)} points of {metric} (table 4)"
    return Claim(says, _held(verdicts), "; ".join(parts))


def _epoch_of_images(runs):
    ours = top_one.overhead(runs)
    theirs = {data: top_one.TABLE_5[data] for data in ours}
    says = ", ".join(f"{value:+.0f} % on {data}" for data, value in theirs.items())
    here = "; ".join(
        f"{data} {value:+.1f} % (deviation {value - theirs[data]:+.1f})"
        for data, value in ours.items()
    )
    slight = all(value <= theirs[data] for data, value in ours.items())
    return Claim(f"an epoch takes little longer: {says} (table 5)", "yes" if slight else "no", here)


def _objective(runs):
    ends = top_objective.SEEN[0], top_objective.SEEN[-1]
    up = {}
    for measure in top_objective.MEASURES:
        first, last = (runs[top_objective.column(measure, "test", epoch)] for epoch in ends)
        up[measure] = int((last > first).sum())
    held = [count == len(runs) for count in up.values()]
    here = ", ".join(f"{measure} rises in {n} of {len(runs)}" for measure, n in up.items())
    return Claim(
        "on test rows the objective rises, and AUC@quantile as well, in all of ten runs "
        "(figures 6 and 7)",
        "yes" if all(held) else "in part" if any(held) else "no",
        f"runs: {here}",
    )


def _molecules(runs):
    parts, held, activities, others = [], [], [], []
    for data, ((mean_, half, away), (rank, rank_half, rank_away)) in activity.ordered(runs).items():
        held.append(mean_ > half and rank > rank_half)
        activities.append(mean_)
        others.append(away)
        parts.append(
            f"{data}: first 5 % at {mean_:+.2f} ± {half:.2f} standard deviations, rank correlation "
            f"{rank:.2f}; other methods within {away:.2f} and {rank_away:.2f}"
        )
    return Claim(
        "high scores are active molecules (section 4.6)",
        "yes" if held and all(held) else "no",
        "; ".join(parts),
        f"first 5 % at {_range(activities, 'standard deviations of activity', 2)}, cross-entropy, "
        f"logistic regression and boosting within {max(others):.2f} of it",
    )


def _smooth(found, runs_of):
    every = _of(found, "reproduce_label_noise", "smooth_topk")
    clean = [f for f in every if f.setting.endswith("p = 0")]
    noisy = [f for f in every if f not in clean]
    fewer = _of(found, "reproduce_training_size", "smooth_topk")
    papers = [f.paper for f in noisy if f.paper is not None]
    return [
        _ahead(
            "labels redrawn within groups of classes: the smooth loss is ahead at five guesses, "
            f"{_range(papers)} at p = .4 and .8 (table 1)",
            noisy,
        ),
        _clean(clean),
        _ahead(
            f"few training rows: ahead at five guesses, {_range([f.paper for f in fewer])} "
            "(table 2)",
            fewer,
        ),
        _margin(runs_of("reproduce_margin")),
        _annealing(runs_of("reproduce_margin")),
        _crops(runs_of("reproduce_crops")),
        _temperature(runs_of("reproduce_temperature")),
    ]


def _clean(findings):
    held = [f.verdict in ("won", "as good") for f in findings]
    return Claim(
        "clean labels: as good, -0.05 points (table 1)",
        "yes" if all(held) else "in part" if any(held) else "no",
        f"{_range(_differences(findings))}: {_counted(f.verdict for f in findings)}",
    )


def _margin(runs):
    gains = [(won, paper) for *_, won, paper in margin.gains(runs) if paper is not None]
    verdicts = [won.verdict for won, _ in gains]
    papers = sorted({paper for _, paper in gains})
    text = f"{_range([won.mean for won, _ in gains])}: {_counted(verdicts)}"
    away = _range([won.mean - paper for won, paper in gains])
    return Claim(
        "a margin of 1 in the place of 0 is worth "
        f"{' and '.join(f'{p:+.2f}' for p in papers)} points (tables 7 and 8)",
        _held(verdicts),
        f"{text}; deviation {away}",
        text,
    )


def _annealing(runs):
    gains = [won for _, won in margin.annealing(runs)]
    held = not any(won.verdict == "won" for won in gains)
    return Claim(
        "a temperature that falls is no better than a fixed one (appendix D)",
        "yes" if held else "no",
        f"{_range([won.mean for won in gains])}: {_counted(won.verdict for won in gains)}",
    )


def _crops(runs):
    long = crops.by_decision(runs)
    gains = [
        crops.of_decisions(long, method, crops.INCLUSION, crops.SOFTMAX)
        for method in (crops.CROSS_ENTROPY, crops.SMOOTH)
    ]
    text = f"{_range([won.mean for won in gains])}: {_counted(won.verdict for won in gains)}"
    away = _range([won.mean - crops.PAPER for won in gains])
    return Claim(
        "over ten crops the mean of its probabilities is ahead of that of the softmax, by "
        f"{crops.PAPER:g} points and more (section 5.2)",
        _held([won.verdict for won in gains]),
        f"{text}; deviation from {crops.PAPER:g} {away}",
        text,
    )


def _temperature(runs):
    runs = runs[runs.recipe == temperature.PUBLISHED]
    test = 100 * runs.groupby("tau").test_top5.mean()
    low, high = test[test.index <= 1e-3], test[test.index >= 1e-2]
    fails, works = low.max() < test.max() / 2, high.min() > test.max() / 2
    best = test[test.index.isin(list(temperature.PAPER))].idxmax()
    held = fails and works
    return Claim(
        "training fails for temperatures up to .001 and works from .01 on, best at .1 (table 6)",
        "yes" if held and best == 0.1 else "in part" if held else "no",
        f"top-5 at most {low.max():.1f} % and at least {high.min():.1f} %; best at {best:g}",
    )


def _grouping_transition(found, runs_of):
    statements = circle_modes.findings(runs_of("reproduce_circle_modes"))
    held = sum(row[-1] == "yes" for row in statements)
    text = f"{held} of {len(statements)} of its statements"
    runs = runs_of("reproduce_top_curve")
    runs = runs[runs.seed != top_curve.TUNING]
    by = {name: here for name, here in runs.groupby("augmentation", sort=False)}
    mixup = by["mixup"]
    fewer, theirs = (
        top_curve.needed(mixup, "transition"),
        top_curve.PAPER_AIM["transition"] - top_curve.PAPER_AIM["cross_entropy"],
    )
    ahead = {loss: top_curve.ahead_from(mixup, loss) for loss in top_curve.PAPER_AHEAD}
    crossings = ", ".join(
        f"{loss} {f'from k = {k}' if k else 'for no k up to 25'}" for loss, k in ahead.items()
    )
    papers = ", ".join(f"{loss} from k = {k}" for loss, k in top_curve.PAPER_AHEAD.items())
    first = [here.groupby("loss").top1.mean().idxmax() == "cross_entropy" for here in by.values()]
    return [
        Claim(
            "generated data: cross-entropy gives up top-2 accuracy where classes have two modes "
            "and the model is small; with 8 hidden units it is the best again (figures 2 to 5)",
            "yes" if held == len(statements) else "in part",
            text,
            text,
        ),
        *(_on_curve(augmentation, here) for augmentation, here in by.items()),
        Claim(
            "cross-entropy is the best at one guess (table I)",
            "yes" if all(first) else "no",
            f"in {sum(first)} of {len(first)} augmentations",
        ),
        Claim(
            f"the transition loss has 99 % with {top_curve.PAPER_AIM['transition']} candidates, "
            f"{-theirs} fewer than cross-entropy",
            "yes" if fewer < 0 else "no",
            f"{fewer:+.1f} candidates (deviation {fewer - theirs:+.1f})",
        ),
        Claim(
            f"ahead of cross-entropy with mixup: {papers} (figure 6)",
            "yes" if ahead == top_curve.PAPER_AHEAD else "in part" if any(ahead.values()) else "no",
            crossings,
        ),
    ]


def _on_curve(augmentation, runs):
    won = top_curve.against(runs, "transition")
    theirs = top_curve.papers_gain(augmentation, "transition")
    smooth = top_curve.against(runs, "smooth")
    return Claim(
        f"CIFAR-100 with {augmentation}: the transition loss is ahead at five guesses, "
        f"{theirs:+.2f} points (table I)",
        _held([won.verdict]),
        f"{won} (deviation {won.mean - theirs:+.2f}); smooth {smooth}",
        f"{won.difference} points",
    )


def _noised(found, runs_of):
    return [
        *_noise_level(runs_of("reproduce_noise_level")),
        _ahead(
            "labels redrawn within groups, not clean: the noised loss is ahead (table 4)",
            [
                f
                for f in _of(found, "reproduce_label_noise", "noised_topk")
                if "p = 0," not in f.setting
            ],
        ),
        *_long_tails(found, runs_of("reproduce_long_tails")),
        *_epochs(runs_of("reproduce_epochs")),
        Claim("ImageNet: all three losses alike (table 9)", "not run", ""),
    ]


def _noise_level(runs):
    published = noise_level.of(runs, training="published", loss="noised_topk")
    level = published.groupby("sigma")["top-5"].mean()
    weak, strong = level[level.index <= 1e-3], level[level.index >= 0.1]
    trains = strong.min() > 2 * weak.max()
    text = (
        f"top-5 {strong.min():.1f} to {strong.max():.1f} % from .1 on, {weak.min():.1f} to "
        f"{weak.max():.1f} % up to .001"
    )
    draws = noise_level.of(runs, training="default", sigma=noise_level.SIGMA)
    draws = draws.groupby("n_noise")["top-5"].mean()
    lost, theirs = (
        {n: each[n] - each[max(each.keys())] for n in (1, 10)}
        for each in (draws, noise_level.TABLE_3)
    )
    return [
        Claim(
            "noise of .1 and more makes the calibrated hinge trainable (table 2)",
            "yes" if trains else "no",
            text,
            text,
        ),
        Claim(
            f"one draw is enough: {theirs[1]:+.1f} points to a hundred, ten {theirs[10]:+.1f} "
            "(table 3)",
            "yes" if abs(lost[1]) <= 1 else "in part" if abs(lost[10]) <= 1 else "no",
            f"one {lost[1]:+.1f}, ten {lost[10]:+.1f} (deviation {lost[1] - theirs[1]:+.1f}, "
            f"{lost[10] - theirs[10]:+.1f})",
        ),
    ]


def _long_tails(found, runs):
    shown = []
    for (loss, metric, other, _), says in zip(
        long_tails.CLAIMS,
        (
            "long tails: with margins it is the best, ahead of LDAM (tables 5 and 6)",
            "long tails: without margins it is like cross-entropy (table 5)",
            "the smooth loss fails on the tail (table 5)",
        ),
        strict=True,
    ):
        gains = [
            won
            for *_, here in long_tails.cases(runs)
            if (won := long_tails.against(here, loss, metric, other)) is not None
        ]
        verdicts = [won.verdict for won in gains]
        text = f"{_range([won.mean for won in gains])}: {_counted(verdicts)}"
        short = ""
        if other == "ldam":
            of_all = _differences(_of(found, "reproduce_long_tails", loss))
            short = text = f"{text}; over cross-entropy {_range(of_all)}"
            holds = _held(verdicts)
        else:
            fits = "as good" if metric == "macro" else "lost"
            held = verdicts.count(fits)
            holds = "yes" if held == len(verdicts) else "in part" if held else "no"
        shown.append(Claim(says, holds, text, short))
    return shown


def _epochs(runs):
    _, of_noise = epochs.by_k(runs)
    dense = of_noise[of_noise.sigma >= 1]["not zero"].mean()
    ours = {loss: epochs.more(runs, loss, epochs.K) for loss in epochs.PAPER}
    here = "; ".join(
        f"{loss} {value:+.0f} % (deviation {value - epochs.PAPER[loss]:+.0f})"
        for loss, value in ours.items()
    )
    says = ", ".join(f"{loss} {value:+.1f} %" for loss, value in epochs.PAPER.items())
    return [
        Claim(
            f"its gradient is sparse: {epochs.DENSE} scores of 100 on average where sigma is large "
            "(figure 2)",
            "yes" if dense < 20 else "no",
            f"{dense:.1f} (deviation {dense - epochs.DENSE:+.1f})",
        ),
        Claim(
            f"an epoch at k = 5, over cross-entropy: {says} (figure 3)",
            "yes" if all(value <= epochs.PAPER[loss] for loss, value in ours.items()) else "no",
            here + "; of a small network, where the loss is a larger part",
        ),
    ]


def _programs(found, runs_of):
    halves, tables = (found.get(name, ()) for name in ("reproduce_halves", "imbalance"))
    parts = []
    for model in ("convolutional", "linear"):
        of_model = [f for f in halves if f.setting.startswith(model)]
        parts.append(
            _ahead(
                f"trained for AUC or F-measure under imbalance, {model} model: better",
                of_model,
            )
        )
    parts.append(_ahead("the same on thinned tables", tables, shown=False))
    solver = table_below("linear_program_solver.md", "| scores").set_index("scores")
    newton, highs = (
        solver[name].astype(float) for name in ("newton, sparse, ms", "HiGHS, sparse, ms")
    )
    areas = table_below("linear_program.md", "| loss | batch")
    areas = areas[areas.loss == "pairwise_auc_loss"].set_index("batch")
    closed, pairs = (areas[name].astype(float) for name in ("closed form, ms", "another way, ms"))
    slower = [int(batch) for batch in areas.index if closed[batch] > pairs[batch]]
    sparse, dense = solver["newton, sparse, MB"].iloc[-1], solver["newton, dense, MB"]["256"]
    return [
        *parts,
        Claim(
            "Newton's method needs no line search",
            "no",
            "full steps alone: 1 of 20 random programs at a penalty of width .01, none at .0001",
            "1 of 20 random programs with full steps alone",
        ),
        Claim(
            "it is a fast way to solve them",
            "yes" if (newton < highs).all() else "in part" if (newton < highs).any() else "no",
            f"{newton.iloc[0]:.1f} to {newton.iloc[-1]:.1f} ms, HiGHS {highs.iloc[0]:.1f} to "
            f"{highs.iloc[-1]:.1f} ms, from {solver.index[0]} to {solver.index[-1]} scores; the "
            f"closed form of the area is slower than all pairs up to {max(slower, default=0)} rows",
        ),
        Claim(
            "sparse matrices fit ten times the batch",
            "yes",
            f"{sparse} MB for {solver.index[-1]} scores, dense {dense} MB for 256",
        ),
        Claim(
            "sufficient dimension reduction gives accurate gradients",
            "not run",
            "not in this package",
        ),
    ]


OF_PAPERS = {
    "deep_top_push": _deep_top_push,
    "smooth_topk": _smooth,
    "grouping_transition": _grouping_transition,
    "noised_topk": _noised,
    "linear_programs": _programs,
}
