"""Steps of `fit` after the training: warnings, threshold, calibration, out-of-fold scores."""

import numpy as np
import torch

from sktopk._common._process import joined
from sktopk._common._samples import HeldOut
from sktopk._common._warnings import warn
from sktopk._training._scores import loss_of, scores_by_member, scores_of
from sktopk.metrics import topk_accuracy_score

from ._build import OURS
from ._calibration import fit_calibration, scores_as_unseen
from ._fit import are_probabilities, in_dtype_of

# If there are more than MOST_SCORES out-of-fold scores, only PART_OF_SCORES of them are computed.
MOST_SCORES, PART_OF_SCORES = 1 << 27, 1 << 25
NEARLY = 0.97  # training has failed if loss > NEARLY * (loss of constant scores)


def check_scores(clf, data):
    """Warn if scores seem to come from a sigmoid, or if they are no better than random scores."""
    net, task = clf.net_, clf._task_
    own_module = clf.module not in OURS and net.criterion_.named.takes_scores
    loss_only = not task.is_ranking and clf.log_loss_share == 0
    if not own_module and not loss_only:
        return
    n_rows, n_classes = min(len(data.y), 1000), len(clf.classes_)
    rows = np.linspace(0, len(data.y) - 1, n_rows).astype(np.intp)
    scores = scores_of(net, data.X[rows])
    in_range = scores.min() >= 0 and scores.max() <= 1
    if own_module and in_range and not are_probabilities(torch.from_numpy(scores)):
        warn("module returns scores in [0, 1], as after a sigmoid: remove this sigmoid")
    if loss_only:
        chance = clf.k_ / n_classes
        settings = {"k": clf.k_, "labels": np.arange(n_classes), "average": "macro"}
        found = topk_accuracy_score(data.target[rows], task.decide(scores), **settings)
        if found < min(1, chance + 3 * np.sqrt(chance * (1 - chance) / n_rows)):
            warn(
                f"The balanced top-{clf.k_} accuracy in training ({found:.3g}) is about as low "
                f"as for random labels ({chance:.3g}): raise log_loss_share, or lower learning_rate"
            )


def check_learned(clf, data, totals):
    """Warn if the training loss of a ranker is hardly lower than that of constant scores."""
    # Use at most 3000 samples of each class, because losses of pairs take quadratic time.
    rows = np.concatenate([np.flatnonzero(data.target == c)[:3000] for c in (0, 1)])
    target, total = data.target[rows], np.bincount(data.target, data.weight)
    weight = (total / np.bincount(target))[target]
    share = np.average(target, weights=weight)
    dtype = str(clf.net_.settings.dtype).removeprefix("torch.")
    # The smaller loss of two constant scores: 0, and the log-odds of the share of positives.
    constant = min(
        loss_of(clf.net_, np.full((len(target), 1), each, dtype=dtype), target, weight, totals)
        for each in (0.0, np.log(share / (1 - share)))
    )
    last = clf.history_[-1]["train_loss"]
    if last > NEARLY * constant:
        advice = "raise log_loss_share" if clf.log_loss_share < 1 else "raise max_epochs"
        warn(
            f"The training loss ({last:.3g}) is about as high as for constant scores "
            f"({constant:.3g}), so the ranking can be poor: {advice}, or compare with other "
            "estimators"
        )


def finish(clf, data, validation=None, folds=None, totals=None):
    """Set the attributes that depend on scores: `threshold_`, `calibration_`, `oob_*`."""
    net, task = clf.net_, clf._task_
    if totals is not None:
        check_scores(clf, data)
        if task.is_ranking:
            check_learned(clf, data, totals)
    with net.isolated():
        if folds is not None:
            return finish_out_of_fold(clf, data, folds)
        if task.is_ranking:
            set_threshold(clf, scores_of(net, data.X), data)
        if validation is not None and clf.calibration is not None:
            calibrate(clf, scores_of(net, validation.X), validation.target, validation.weight)


def finish_out_of_fold(clf, data, folds):
    """Set `threshold_`, `calibration_` and `oob_*` from out-of-fold scores."""
    net, task, n_samples = clf.net_, clf._task_, len(data.y)
    n_scores = n_samples * task.n_outputs
    if n_scores > MOST_SCORES:
        part = np.random.RandomState(0).random(n_samples) < PART_OF_SCORES / n_scores
        data, folds = data.take(part), folds.take(part)
    X, known = HeldOut(data.X, folds), folds.fold >= 0
    scores = scores_of(net, X)[np.argsort(X.index)]
    held_out = data.take(known)
    target, weight, fresh = held_out.target, held_out.weight, scores
    if task.is_ranking:
        unseen = folds.fold[known, np.newaxis] == folds.of_member
        fresh = scores_as_unseen(scores_by_member(net, data.X)[known], unseen, target, weight)
        fresh = fresh.astype(scores.dtype)[:, np.newaxis]
        set_threshold(clf, fresh, held_out)
    decision = in_dtype_of(data.X, task.decide(scores, clf))
    if n_scores <= MOST_SCORES:
        clf.oob_decision_function_ = data.as_given(decision, known)
    clf.oob_score_ = float(task.score(target, scores, held_out.count, held_out.groups, clf))
    if clf.calibration is not None:
        calibrate(clf, fresh, target, weight)


def set_threshold(clf, scores, data):
    """Set `threshold_` from the scores of all processes of a distributed training."""
    scores, target, weight = joined(scores, data.target, data.weight)
    found = clf._task_.finish(scores, target, weight, data.groups)
    vars(clf).update(found)
    if not found:
        lacks = "the samples lack" if data.groups is None else "each group lacks"
        warn(f"threshold_ is not updated, because {lacks} one of the two classes")


def calibrate(clf, scores, target, weight):
    known, task = target >= 0, clf._task_
    target, weight = target[known], task.calibration_weights(target[known], weight[known])
    clf.calibration_ = fit_calibration(*joined(scores[known], target, weight))
