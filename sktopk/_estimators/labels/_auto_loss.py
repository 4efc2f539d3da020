"""loss="auto": a short validation inside `fit`, in which cross-entropy has the benefit of doubt."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import stdtr, stdtrit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from sktopk._common._folds_by_content import deal
from sktopk._common._input import check_labelled, encode
from sktopk._common._scalars import check_random
from sktopk._common._scoring import with_names
from sktopk._common._warnings import warn
from sktopk._training._process import all_objects
from sktopk.metrics._scorer import TopKScorer
from sktopk.metrics._statistics import CANNOT_TELL, PairedDifference, verdict_in_words

from ._comparison import Rows, largest_k, make_scorer, run_trial, score_rows, with_params
from ._losses import MOST_ROOM, params_for

BASELINE = "cross_entropy"
# Of the other losses those that were never far behind and often ahead with default settings, and
# the one for scores that weigh classes equally. Mixtures of k are left out: docs/compare.md.
CHALLENGERS = ("smooth_topk", "topk_hinge_convex", "logit_adjusted")
# The second scale of a loss that needs none.
ROOM = 10.0
N_FOLDS = 5
# With fewer distinct rows to score, a standard error says little.
LEAST_ROWS = 100
# What the verdicts on the losses say together, beside the choice: see LossComparison.
CONFIDENCE, MARGIN = 0.95, 0.01


class _Candidate(NamedTuple):
    """A loss with the scale of its scores."""

    loss: str
    scale: float

    def __str__(self):
        return f"{self.loss} (score_scale={self.scale:g})"


class _Judged(NamedTuple):
    """The scores of a candidate, whether it was done training, and its fit if that is kept."""

    scores: np.ndarray
    settled: bool
    messages: list
    fitted: Any = None


def choose_loss(estimator, X, y, sample_weight, X_val, y_val):
    """Return the fitted attributes that say which loss `fit` shall use, and why.

    Every candidate is trained on the same rows with the same seed and otherwise the parameters
    of `estimator`, which stays as it is. Equal rows with equal labels share a fold, and folds do
    not depend on the order of the rows: weight 2 equals the row given twice.

    Returns
    -------
    chosen : dict
        loss_ (str); score_scale_ (float), where there was a choice of it; comparison_ (dict of
        plain values, see TopKClassifier); and fitted (estimator), if its fit to all rows is there.
    """
    # On a copy, which may note what it likes.
    copy = clone(estimator)
    of_tables = copy._suits_tables
    labelled = check_labelled(copy, X, y, sample_weight, reset=True, takes_tables=of_tables)
    X, y = labelled[:2]
    # A CSR matrix without its rows of weight 0.
    X = X[:] if hasattr(X, "nnz") and not issparse(X) else X
    labelled = labelled._replace(X=X)
    classes = copy._all_classes(y)
    target = encode(classes, y)
    validation = copy._validation(X_val, y_val, classes)
    k = largest_k(estimator.k, len(classes))
    # A generator that a later call shall find where this one found it draws nothing here.
    keeps = estimator.random_state is None and estimator.checkpoint is not None
    random = check_random(0 if keeps else estimator.random_state)
    seed = random.randint(np.iinfo(np.int32).max)
    if k == 1:
        return _without(f"{BASELINE}: k_=1 leaves a top-k loss nothing to gain")
    X_judged, y_judged = (X, y) if validation is None else validation[:2]
    part, n_distinct = deal(X_judged, encode(classes, y_judged), N_FOLDS, seed)
    if min(all_objects(n_distinct)) < LEAST_ROWS:
        return _without(
            f"{BASELINE}: {n_distinct} distinct rows to score are too few, at least {LEAST_ROWS}"
        )
    scorer = make_scorer(estimator, estimator.scoring, k)
    rows = _rows(copy, labelled)
    judged = rows if validation is None else _rows(copy, validation)
    settings = copy._settings(of_tables)
    members = None
    if validation is None and settings.cross_fit:
        members = copy._folds(labelled, target, settings.n_members)
    keeps_fit = members is not None and estimator.checkpoint is None
    copy.set_params(warm_start=False, verbose=0, checkpoint=None)
    # A fit that is kept has the seed that it would have alone.
    if not (keeps_fit and isinstance(estimator.random_state, int | np.integer)):
        copy.set_params(random_state=seed)
    blocks = [np.flatnonzero(part == block) for block in range(N_FOLDS)]
    given, test_fraction = {}, 1 / N_FOLDS
    if members is not None:
        test_fraction = 1 / members.n_folds
        ways = [(None, _on_unseen_rows, (rows, members, scorer))]
    elif validation is None:
        ways = [
            (np.flatnonzero(part != i), _on_blocks, (judged, [block], scorer))
            for i, block in enumerate(blocks)
        ]
    else:
        test_fraction = 0.0
        ways = [(None, _on_blocks, (judged, blocks, scorer))]
        given = {"X_val": judged.X, "y_val": judged.y}
    candidates = list(_candidates(copy, k, settings.of_tables))
    found = Parallel()(
        delayed(_judge)(copy, each, rows, train, score, about, given, keeps_fit)
        for each in candidates
        for train, score, about in ways
    )
    n = len(ways)
    judgements = {each: found[n * i : n * (i + 1)] for i, each in enumerate(candidates)}
    unsettled = [each for each, runs in judgements.items() if not all(run.settled for run in runs)]
    if unsettled:
        warn(
            "loss='auto' compared networks that were not done training, "
            f"{', '.join(map(str, unsettled))}: raise max_epochs",
            ConvergenceWarning,
        )
    scores = [np.concatenate([run.scores for run in runs]) for runs in judgements.values()]
    scores = np.mean(all_objects(scores), axis=0)  # processes that train together agree
    scores = dict(zip(candidates, scores, strict=True))
    best, comparison = _verdict(scores, test_fraction)
    chosen = {"loss_": best.loss, "comparison_": comparison}
    if isinstance(estimator.score_scale, str):
        chosen["score_scale_"] = best.scale
    winner = judgements[best][0]
    if winner.fitted is not None:
        for message in winner.messages:
            warn(message)
        chosen["fitted"] = winner.fitted
    return chosen


def _candidates(estimator, k, of_tables):
    """Yield each loss with each scale of it."""
    for loss in (BASELINE, *CHALLENGERS):
        if not isinstance(estimator.score_scale, str):
            yield _Candidate(loss, float(estimator.score_scale))
            continue
        scale = estimator._auto_scale(loss, k, of_tables)
        yield _Candidate(loss, 1.0)
        if scale == 1:
            scale = MOST_ROOM if of_tables else ROOM
        yield _Candidate(loss, scale)


def _rows(estimator, labelled):
    weight = None if np.all(labelled.weight == 1) else labelled.weight
    return Rows(with_names(labelled, estimator), labelled.y, weight)


def _judge(estimator, candidate, rows, train, score, about, given, keeps_fit):
    """Train with one loss and score it."""
    loss, scale = candidate
    try:
        params = params_for(estimator, loss) | {"score_scale": scale}
        model = with_params(estimator, params)
        trial = run_trial(model, rows.take(train), lambda fitted: score(fitted, *about), **given)
    except Exception as error:
        raise ValueError(f"loss='auto' cannot compare {loss!r}: {error}") from error
    if trial.diverged:
        n_scores = about[1].n_folds if score is _on_unseen_rows else len(about[1])
        return _Judged(np.full(n_scores, -np.inf), True, [])
    fitted = model if keeps_fit else None
    return _Judged(np.array(trial.scores), trial.settled, trial.messages, fitted)


def _on_blocks(fitted, rows, blocks, scorer):
    """Scores of blocks of rows."""
    return [score_rows(fitted, rows.take(block), scorer) for block in blocks]


def _on_unseen_rows(fitted, rows, members, scorer):
    """Scores of the folds that members have left out, by these members."""
    found = []
    for index, judged in fitted._unseen(rows.X, members):
        fold = rows.take(index)
        if isinstance(scorer, TopKScorer):
            # Which may ask for some of them at a time.
            fold = fold._replace(X=np.arange(len(index)))
        found.append(score_rows(judged, fold, scorer))
    return found


def _verdict(scores, test_fraction):
    """Return the candidate to use, and the comparison of each loss with its best scale.

    Cross-entropy, unless the best other is ahead by more than the luckiest of as many would be
    by chance, as rarely as one by a standard error.
    """
    of_loss = {}
    for each, runs in scores.items():
        best = of_loss.setdefault(each.loss, each)
        of_loss[each.loss] = max(best, each, key=lambda one: scores[one].mean())
        n_runs = len(runs)
    base = scores[of_loss[BASELINE]]
    # Training that diverges is out of the race, and refused in `fit` if nothing else remains.
    found = {
        loss: PairedDifference.of(scores[each], base, test_fraction)
        for loss, each in of_loss.items()
        if np.isfinite(scores[each] + base).all()
    }
    n_others = sum(each.loss != BASELINE for each in scores)
    level = 1 - (1 - CONFIDENCE) / n_others
    errors = float(-stdtrit(n_runs - 1, stdtr(n_runs - 1, -1.0) / n_others))
    limit = f"{errors:.2g} standard errors, what the best of {n_others} takes"
    others = {loss: each for loss, each in found.items() if loss != BASELINE}
    better = [loss for loss, each in others.items() if each.mean > errors * each.error]
    best, reason = BASELINE, f"no loss is ahead of {BASELINE} by more than {limit}"
    if better:
        best = max(better, key=lambda loss: found[loss].mean)
        reason = (
            f"{best} is ahead of {BASELINE} by {found[best].mean:.4f}, more than {limit} "
            f"({errors * found[best].error:.4f})"
        )
    if others:
        judged = max(others, key=lambda loss: others[loss].mean)
        reason += f"; {judged}: {_in_words(judged, others[judged], level)}"
    comparison = {
        "tried": [[each.loss, each.scale, float(runs.mean())] for each, runs in scores.items()],
        "score_scale": {loss: each.scale for loss, each in of_loss.items()},
        "scores": {loss: scores[each].tolist() for loss, each in of_loss.items()},
        "difference": {loss: each.mean for loss, each in found.items()},
        "standard_error": {loss: each.error for loss, each in found.items()},
        "verdict": {loss: each.verdict(level, MARGIN) for loss, each in others.items()},
        "test_fraction": test_fraction,
        "reason": reason,
    }
    return of_loss[best], comparison


def _in_words(loss, difference, level):
    """What the interval says of a loss, and where it does not tell what it would take."""
    said = difference.verdict(level, MARGIN)
    words = verdict_in_words(said, loss, BASELINE)
    if said != CANNOT_TELL:
        return words
    # Of the folds there are as many, whatever is wanted.
    factor = difference.times_rows(level, MARGIN)
    return f"{words} without about {factor:.2g} times the rows"


def _without(reason):
    """Cross-entropy without a comparison."""
    names = ("score_scale", "scores", "difference", "standard_error", "verdict")
    comparison = {"tried": [], **{name: {} for name in names}}
    return {
        "loss_": BASELINE,
        "comparison_": comparison | {"test_fraction": 0.0, "reason": reason},
    }
