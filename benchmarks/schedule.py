"""Cross-entropy first, the loss from the start, or both at once: what trains each loss best?

By default the network of tables begins with cross-entropy, and goes on from its best weights at a
quarter of the rate with a mixture of cross-entropy and the loss. Beside it, for every loss: the
loss and the mixture from the start, the loss without cross-entropy after it, and cross-entropy
alone. The tables of the choosing half of `top_of_the_table.py`, one of each family, at most
2 000 rows to train, four members, one thread.

    SKTOPK_DATA=... python benchmarks/schedule.py

Runs that are in the CSV are not done again: delete their lines to repeat them. `--report` writes
the page without training.
"""

import copy
import math
import time
from functools import cache, partial

import numpy as np
from reproduce._protocol import (
    arguments,
    markdown,
    mean_and_half,
    run_missing,
    seeds_of,
    write_page,
)
from sklearn.metrics import precision_recall_curve, roc_auc_score
from sklearn.model_selection import train_test_split
from tables._data import HALF, TABLES, loaded, split_of
from tables._jobs import JOBS, scores_of

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    PrecisionAtRecallProgramClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    RecallAtPrecisionClassifier,
    ThresholdClassifier,
    TopKClassifier,
    TopPushKClassifier,
)
from sktopk._training._callbacks import RATE_AFTER_WARM_UP
from sktopk.losses import TopMean
from sktopk.metrics import (
    positives_at_top_score,
    precision_at_recall_score,
    recall_at_k_score,
    recall_at_precision_score,
    true_positive_rate_at_fpr_score,
)
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._statistics import BETTER, WORSE, clear_sign, verdict_of

MAX_TRAIN, N_MEMBERS, MAX_EPOCHS = 2000, 4, 100
# What is called as good, in points.
MARGIN = 1.0
# Fewer tables say nothing.
LEAST = 3
# Of a family one table is enough: they have rows in common.
LEFT_OUT = {
    "clinc150",
    "clinc150, long tail",
    "leaves100, margin",
    "merck CYP 2D6",
    "merck CYP 3A4",
    "satellite",
}
CHOSEN = [name for name in TABLES if HALF[name] == "choosing" and name not in LEFT_OUT]
# Those with class priors or counts, which are for classes that weigh alike.
BALANCED = ("smooth_topk_adjusted", "ldam", "noised_topk_imbalanced")


def best_f_score(y, y_score):
    """The F-score at the threshold that suits it."""
    precision, recall, _ = precision_recall_curve(y, y_score)
    return float((2 * precision * recall / np.maximum(precision + recall, 1e-12)).max())


# Each ranker with what its own job is judged by. The losses that the docs name first come first.
RANKERS = {
    "PatMat(.01)": (PatMatClassifier(tau=0.01), partial(recall_at_k_score, k=0.01)),
    "RecallAtFPR(.01)": (
        RecallAtFPRClassifier(fpr=0.01),
        partial(true_positive_rate_at_fpr_score, fpr=0.01),
    ),
    "DeepTopPush": (DeepTopPushClassifier(), positives_at_top_score),
    "AUC": (AUCClassifier(), roc_auc_score),
    "FScore": (FScoreClassifier(), best_f_score),
    "PatMatNP(.01)": (
        PatMatNPClassifier(tau=0.01),
        partial(true_positive_rate_at_fpr_score, fpr=0.01),
    ),
    "RecallAtK(100)": (RecallAtKClassifier(k=100), partial(recall_at_k_score, k=100)),
    "PrecisionAtRecall(.8)": (
        PrecisionAtRecallClassifier(recall=0.8),
        partial(precision_at_recall_score, recall=0.8),
    ),
    "TopMean(.01)": (
        ThresholdClassifier(TopMean("negatives", tau=0.01)),
        partial(true_positive_rate_at_fpr_score, fpr=0.01),
    ),
    "TopPushK(5)": (TopPushKClassifier(k=5), partial(positives_at_top_score, k=5)),
    "RecallAtPrecision(.8)": (
        RecallAtPrecisionClassifier(precision=0.8),
        partial(recall_at_precision_score, precision=0.8),
    ),
    "PrecisionAtRecallProgram(.8)": (
        PrecisionAtRecallProgramClassifier(recall=0.8),
        partial(precision_at_recall_score, recall=0.8),
    ),
}
LOSSES = {
    "binary": tuple(RANKERS),
    "multiclass": (
        "smooth_topk",
        "smooth_topk_adjusted",
        "topk_transition",
        "noised_topk",
        "topk_hinge_convex",
        "focal",
        "ldam",
        "topk_hinge",
        "topk_grouping",
        "topk_hinge_calibrated",
        "noised_topk_imbalanced",
    ),
}


class MixtureFromTheStart:
    """Stands before an estimator: the second phase is all there is, at the whole rate."""

    def _start(self, *args):
        super()._start(*args)
        self.net_.criterion_.end_warm_up()


class CrossEntropyAlone:
    """Stands before an estimator: the first phase is all there is."""

    def _n_warm_up(self, training):
        return 0

    def _callbacks_of(self, training):
        callbacks = super()._callbacks_of(training)
        self.validation = callbacks["validation"]
        return callbacks


class SecondPhase(MixtureFromTheStart):
    """Stands before an estimator: goes on from the best weights of one of cross-entropy alone.

    The first phase does not hang on the loss, and takes most of the time: `first` has done it for
    all losses.
    """

    first = None

    def _start(self, *args):
        super()._start(*args)
        self.net_.module_.load_state_dict(self.first.validation.weights_)

    def _callbacks_of(self, training):
        callbacks = super()._callbacks_of(training)
        validation, done = callbacks["validation"], self.first.validation
        begin = validation.on_train_begin

        def go_on(net, *args, **kwargs):
            begin(net, *args, **kwargs)
            validation.best_, validation.recent_ = done.best_, list(done.recent_)
            validation.weights_ = copy.deepcopy(done.weights_)

        validation.on_train_begin = go_on
        return callbacks


DEFAULT = "cross-entropy, then half of each"
START = "the loss from the start"
MIXTURE = "half of each from the start"
PURE = "cross-entropy, then the loss"
ALONE = "cross-entropy alone"
# What stands before the class of the estimator, and its parameters. With one phase there is time
# for as many epochs as with two.
SCHEDULES = {
    DEFAULT: (SecondPhase, {}),
    PURE: (SecondPhase, {"cross_entropy_share": 0.0}),
    START: (None, {"warm_up": 0, "max_epochs": 2 * MAX_EPOCHS}),
    MIXTURE: (MixtureFromTheStart, {"max_epochs": 2 * MAX_EPOCHS}),
    ALONE: (CrossEntropyAlone, {}),
}
OTHERS = [name for name in SCHEDULES if name != DEFAULT]
OWN = "own job"
NAMES = {name: math.nan for name in (OWN, *JOBS["binary"], *JOBS["multiclass"])}
TITLES = {"multiclass": "Losses of several classes", "binary": "Rankers, two classes"}
KINDS = {"multiclass": "losses of several classes", "binary": "rankers"}
# What is shown of each kind, by the column.
SHOWN = {
    "multiclass": {
        OWN: "Top-5 accuracy, its mean over classes for `smooth_topk_adjusted`, `ldam` and "
        "`noised_topk_imbalanced`:",
        "top-1": "Top-1 accuracy:",
    },
    "binary": {
        OWN: "By the job of each: recall at 1 % of the rows or of the false alarms, at 100 rows or "
        "at a precision of .8; positives above every negative or all but 4; precision at a recall "
        "of .8; the largest F-score; the area under the ROC curve:",
        "average precision": "Average precision:",
    },
}


@cache
def rows_of(table, split):
    """X, y and rows to test of a split, of at most MAX_TRAIN rows to train."""
    rows = split_of(table, split)
    # Whole tables need more memory than what is kept here.
    loaded.cache_clear()
    X, y = rows.X, rows.y
    if len(y) > MAX_TRAIN:
        X, _, y, _ = train_test_split(X, y, train_size=MAX_TRAIN, stratify=y, random_state=split)
    return X, y, rows.X_test, rows.y_test


def estimator_of(table, split, loss, schedule):
    n_classes = TABLES[table].n_classes
    of = RANKERS[loss][0] if loss in RANKERS else TopKClassifier(loss, k=min(5, n_classes - 1))
    before, settings = SCHEDULES[schedule]
    kind, changed = type(of), {}
    if before is SecondPhase:
        changed["first"] = alone(table, split, judge_of(loss))
        rate = RATE_AFTER_WARM_UP * changed["first"]._settings().learning_rate
        settings = settings | {"learning_rate": rate}
    if before is not None:
        kind = type(kind.__name__, (before, kind), changed)
    shared = {"n_members": N_MEMBERS, "max_epochs": MAX_EPOCHS, "device": "cpu"}
    return kind(**of.get_params(deep=False)).set_params(**shared | settings, random_state=split)


def fitted(table, split, loss, schedule):
    """The estimator, with the seconds of the processor that it took."""
    X, y, *_ = rows_of(table, split)
    estimator = estimator_of(table, split, loss, schedule)
    begin = time.process_time()
    estimator.fit(X, y)
    estimator.seconds = time.process_time() - begin
    return estimator


@cache
def alone(table, split, judge):
    """Cross-entropy alone, stopped by the score that stops all losses with the same judge."""
    return fitted(table, split, judge, ALONE)


def run(table, split, loss, schedule):
    """The scores of one fit, its epochs and its seconds of the processor."""
    _, y, X_test, y_test = rows_of(table, split)
    first = alone(table, split, judge_of(loss))
    estimator = first if schedule == ALONE else fitted(table, split, loss, schedule)
    epochs, seconds = estimator.n_iter_, estimator.seconds
    if SCHEDULES[schedule][0] is SecondPhase:
        epochs, seconds = epochs + first.n_iter_, seconds + first.seconds
    labels, y_score = predict_scores(estimator, X_test)
    scores = scores_of(TABLES[table].kind, y_test, y_score, labels)
    if loss in RANKERS:
        scores[OWN] = float(RANKERS[loss][1](y_test, y_score))
    else:
        scores[OWN] = scores["macro top-5" if loss in BALANCED else "top-5"]
    return {"n_train": len(y), "epochs": epochs, "fit_s": seconds} | NAMES | scores


def judge_of(loss):
    """The loss with which cross-entropy is trained in place of others that stop it alike.

    Their score of rows left out is the same, and so is what batches are made of.
    """
    if loss in RANKERS:
        own = {"AUC"}, {"FScore", "RecallAtPrecision(.8)", "PrecisionAtRecallProgram(.8)"}
        return "AUC" if loss in own[0] else "FScore" if loss in own[1] else "DeepTopPush"
    return BALANCED[0] if loss in BALANCED else "smooth_topk"


def settings(args):
    # Loss by loss, on all tables: what is there when time is over can be judged.
    return [
        {"table": table, "split": split, "loss": loss, "schedule": schedule}
        for split in seeds_of(args)
        for kind in LOSSES
        for loss in LOSSES[kind]
        for table in CHOSEN
        if TABLES[table].kind == kind
        for schedule in SCHEDULES
    ]


def differences(runs, loss, job):
    """What the other schedules are ahead of the default, in points: a table a row.

    Of splits that have all schedules.
    """
    here = runs[runs["loss"] == loss] if loss else runs
    scores = 100 * here.pivot_table(job, ["table", "loss", "split"], "schedule")
    scores = scores.reindex(columns=list(SCHEDULES)).dropna()
    return scores[OTHERS].sub(scores[DEFAULT], axis=0).groupby("table").mean()


def said(values):
    """A mean difference, half its interval, and what these say."""
    mean, half = mean_and_half(values)
    if len(values) < LEAST:
        return "too few tables"
    return f"{mean:+.2f} ± {half:.2f}, {verdict_of(mean, half, MARGIN)}"


def lines(runs, kind, job):
    """A line for each loss, after one for their mean on each table."""
    found = []
    for loss in (None, *LOSSES[kind]):
        of_tables = differences(runs, loss, job)
        if len(of_tables):
            name = loss or "mean of the losses"
            found.append([name, len(of_tables), *(said(of_tables[name]) for name in OTHERS)])
    return markdown(["loss", "tables", *OTHERS], found)


def what_follows(runs, kind):
    """A sentence on each schedule, of the mean of the losses and of how many of them."""
    sentences = []
    for schedule in OTHERS:
        each = [differences(runs, loss, OWN)[schedule] for loss in LOSSES[kind]]
        each = [mean_and_half(values) for values in each if len(values) >= LEAST]
        verdicts = [verdict_of(*pair, MARGIN) for pair in each]
        sentences.append(
            f"- {schedule[0].upper()}{schedule[1:]}: {said(differences(runs, None, OWN)[schedule])}"
            f", in the mean of the losses; better for {verdicts.count(BETTER)} and worse for "
            f"{verdicts.count(WORSE)} of those with {LEAST} tables or more, {len(each)}."
        )
    return "\n".join(sentences)


def of_the_default(runs):
    """What the mean of the losses of each kind says of the default."""
    sentences = []
    for kind, of_kind in KINDS.items():
        own = runs[runs["loss"].isin(LOSSES[kind])]
        n_done = sum(len(differences(own, loss, OWN)) >= LEAST for loss in LOSSES[kind])
        if not n_done:
            sentences.append(f"- Of {of_kind} nothing can be said yet.")
            continue
        ahead = differences(own, None, OWN)
        better = [s for s in OTHERS if clear_sign(*mean_and_half(ahead[s])) > 0]
        word = " or ".join(better) if better else "No other schedule"
        sentences.append(
            f"- Of {of_kind}, {n_done} of {len(LOSSES[kind])}: {word[0].lower()}{word[1:]} is "
            "better than the default in the mean by the own job."
        )
    return "\n".join(sentences)


def still_to_do(runs):
    """Which losses have not been run on all tables, in words."""
    few = []
    for kind in LOSSES:
        n_wanted = sum(TABLES[name].kind == kind for name in CHOSEN)
        for loss in LOSSES[kind]:
            n_tables = len(differences(runs, loss, OWN))
            if n_tables < n_wanted:
                few.append(f"{loss} ({n_tables} of {n_wanted})")
    return f"Losses still to be run on tables: {', '.join(few)}." if few else ""


def page(runs):
    n_epochs = runs.groupby("schedule")[["epochs", "fit_s"]].median()
    seconds = runs.pivot_table("fit_s", ["table", "loss", "split"], "schedule")
    ratio = seconds.div(seconds[DEFAULT], axis=0).median()
    n_tables = runs.groupby(runs["loss"].isin(RANKERS))["table"].nunique()
    text = [
        "# Which schedule trains each loss best",
        "",
        f"`benchmarks/schedule.py`: {n_tables.get(False, 0)} tables of several classes and "
        f"{n_tables.get(True, 0)} of two, of the choosing half, one of each family; at most "
        f"{MAX_TRAIN} rows to train, {runs.split.nunique()} split(s); the network of tables with "
        f"{N_MEMBERS} members, all else by default but the schedule. The default is "
        f"*{DEFAULT}*: cross-entropy until it no longer gains, then half cross-entropy and half "
        "the loss at a quarter of the rate, the best epoch of both kept. Two phases have at most "
        f"{MAX_EPOCHS} epochs each, a single one {2 * MAX_EPOCHS} (cross-entropy alone, which is "
        f"the first of two, {MAX_EPOCHS}); all are stopped by the rows that members leave out. "
        "The first phase does not hang on the loss, and was trained once for all losses that are "
        "stopped by the same score. `score_scale` is that of the default in all of them, at most "
        f"5, also where the loss comes first and might want more. {still_to_do(runs)}",
        "",
        "Points that each schedule is ahead of the default: the mean over tables ± half its 95 % "
        "interval (Student's t, tables as the sample). An interval above 0 is better, one below "
        f"worse; one that holds 0 is as good if all of it lies within {MARGIN:g} point, and else "
        "cannot tell. They are not corrected for their number: of 100 where nothing differs "
        "some five say better or worse. *mean of the losses* is that of the losses on each table.",
        "",
        "`logit_adjusted` is not here: it is a cross-entropy, and has no first phase.",
        "",
        markdown(
            ["schedule", "epochs", "times the default's seconds"],
            [[s, f"{n_epochs.epochs[s]:.0f}", f"{ratio[s]:.2f}"] for s in SCHEDULES],
        ),
    ]
    for kind, jobs in SHOWN.items():
        own = runs[runs["loss"].isin(LOSSES[kind])]
        text += ["", f"## {TITLES[kind]}"]
        for job, judged in jobs.items():
            text += ["", judged, "", lines(own, kind, job)]
        text += ["", "By the own job:", "", what_follows(own, kind)]
    text += ["", "## What follows for the default", "", of_the_default(runs)]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "schedule", seeds={"full": 2}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=3)))


if __name__ == "__main__":
    main()
