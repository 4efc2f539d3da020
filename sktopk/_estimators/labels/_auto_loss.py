"""loss="auto": a short validation inside `fit`, in which cross-entropy has the benefit of doubt."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from sktopk._common._folds_by_content import deal
from sktopk._common._input import check_labelled, encode
from sktopk._common._scalars import check_random
from sktopk._common._scoring import with_names
from sktopk._training._process import all_objects
from sktopk.metrics._statistics import (
    CANNOT_TELL,
    PairedDifference,
    clear_sign,
    verdict_in_words,
)

from ._comparison import Rows, largest_k, make_scorer, run_trial, with_params
from ._losses import params_for

BASELINE = "cross_entropy"
# Of the top-k losses those that were never far behind and often ahead with default settings.
CHALLENGERS = ("smooth_topk", "topk_hinge_convex", "noised_topk")
N_FOLDS = 5
# With fewer distinct rows to score, a standard error says little.
LEAST_ROWS = 100
# What the verdicts on the losses say, beside the choice: see LossComparison.
CONFIDENCE, MARGIN = 0.95, 0.01


def choose_loss(estimator, X, y, sample_weight, X_val, y_val):
    """Return the name of the loss that `fit` shall use, and the comparison behind it.

    Every loss is trained on the same rows with the same seed and otherwise the parameters of
    `estimator`, which stays as it is. Equal rows with equal labels share a fold, and folds do
    not depend on the order of the rows: weight 2 equals the row given twice.

    Returns
    -------
    loss : str
    comparison : dict of plain values
        scores (dict of lists, one number per fold or block of validation rows), difference
        and standard_error (dicts of floats), verdict (dict of str), test_fraction (float) and
        reason (str).
    """
    # On a copy, which may note what it likes.
    copy = clone(estimator)
    X, y, weight = check_labelled(copy, X, y, sample_weight, reset=True)
    # A CSR matrix without its rows of weight 0.
    X = X[:] if hasattr(X, "nnz") and not issparse(X) else X
    classes = copy._all_classes(y)
    validation = copy._validation(X_val, y_val, classes)
    k = largest_k(estimator.k, len(classes))
    # A generator that a later call shall find where this one found it draws nothing here.
    keeps = estimator.random_state is None and estimator.checkpoint is not None
    random = check_random(0 if keeps else estimator.random_state)
    seed = random.randint(np.iinfo(np.int32).max)
    X_judged, y_judged = (X, y) if validation is None else validation[:2]
    part, n_distinct = deal(X_judged, encode(classes, y_judged), N_FOLDS, seed)
    if k == 1:
        return BASELINE, _report(f"{BASELINE}: k_=1 leaves a top-k loss nothing to gain")
    if min(all_objects(n_distinct)) < LEAST_ROWS:
        return BASELINE, _report(
            f"{BASELINE}: {n_distinct} distinct rows to score are too few, at least {LEAST_ROWS}"
        )
    copy.set_params(random_state=seed, warm_start=False, verbose=0, checkpoint=None)
    scorer = make_scorer(estimator, estimator.scoring, k)
    rows = _rows(copy, X, y, weight)
    judged = rows if validation is None else _rows(copy, *validation)
    blocks = [np.flatnonzero(part == block) for block in range(N_FOLDS)]
    if validation is None:
        folds = [(np.flatnonzero(part != i), [block]) for i, block in enumerate(blocks)]
        given = {}
    else:
        folds, given = [(None, blocks)], {"X_val": judged.X, "y_val": judged.y}
    losses = (BASELINE, *CHALLENGERS)
    found = Parallel()(
        delayed(_scores)(copy, loss, rows, train, judged, test, scorer, given)
        for loss in losses
        for train, test in folds
    )
    scores = np.reshape(found, (len(losses), N_FOLDS))
    scores = np.mean(all_objects(scores), axis=0)  # processes that train together agree
    return _verdict(dict(zip(losses, scores, strict=True)), 0.0 if given else 1 / N_FOLDS)


def _rows(estimator, X, y, weight):
    return Rows(with_names(X, estimator), y, None if np.all(weight == 1) else weight)


def _scores(estimator, loss, rows, train, judged, blocks, scorer, given):
    """Train with one loss; return its score on each block of the rows that judge."""
    tests = (judged.take(block) for block in blocks)
    try:
        model = with_params(estimator, params_for(estimator, loss))
        trial = run_trial(model, rows.take(train), tests, scorer, **given)
    except Exception as error:
        raise ValueError(f"loss='auto' cannot compare {loss!r}: {error}") from error
    return trial.scores or [-np.inf] * len(blocks)


def _verdict(scores, test_fraction):
    """Return the loss to use: the best of those above the baseline by a standard error."""
    base = scores[BASELINE]
    # Training that diverges is out of the race, and refused in `fit` if nothing else remains.
    found = {
        loss: PairedDifference.of(each, base, test_fraction)
        for loss, each in scores.items()
        if np.isfinite(each + base).all()
    }
    better = [loss for loss, each in found.items() if clear_sign(each.mean, each.error) > 0]
    best, reason = BASELINE, f"no loss is ahead of {BASELINE} by more than a standard error"
    if better:
        best = max(better, key=lambda loss: found[loss].mean)
        reason = (
            f"{best} is ahead of {BASELINE} by {found[best].mean:.4f}, more than a standard "
            f"error ({found[best].error:.4f})"
        )
    others = {loss: each for loss, each in found.items() if loss != BASELINE}
    if others:
        judged = max(others, key=lambda loss: others[loss].mean)
        reason += f"; {judged}: {_in_words(judged, others[judged])}"
    return best, _report(reason, scores, found, test_fraction)


def _in_words(loss, difference):
    """What the interval says of a loss, and where it does not tell what it would take."""
    said = difference.verdict(CONFIDENCE, MARGIN)
    words = verdict_in_words(said, loss, BASELINE)
    if said != CANNOT_TELL:
        return words
    # Of the folds there are five, whatever is wanted.
    factor = difference.times_rows(CONFIDENCE, MARGIN)
    return f"{words} without about {factor:.2g} times the rows"


def _report(reason, scores=(), found=(), test_fraction=0.0):
    """Return the comparison as plain values."""
    scores, found = dict(scores), dict(found)
    return {
        "scores": {loss: each.tolist() for loss, each in scores.items()},
        "difference": {loss: each.mean for loss, each in found.items()},
        "standard_error": {loss: each.error for loss, each in found.items()},
        "verdict": {
            loss: each.verdict(CONFIDENCE, MARGIN)
            for loss, each in found.items()
            if loss != BASELINE
        },
        "test_fraction": test_fraction,
        "reason": reason,
    }
