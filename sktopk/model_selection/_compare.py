"""compare_losses: is a top-k loss worth it here?"""

import os
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed
from tqdm.auto import tqdm

from sktopk._common._fingerprints import digest
from sktopk._common._input import check_classes, check_labels, check_weight, take_rows
from sktopk._common._scalars import check_count, check_flag, check_number, check_option, on_host
from sktopk._common._types import RowsLike
from sktopk._estimators.labels._comparison import Rows, largest_k, make_scorer, with_params
from sktopk._estimators.labels._losses import LOSSES, params_for
from sktopk._estimators.labels._topk_classifier import TopKClassifier

from ._baselines import make_baselines
from ._cache import RunCache
from ._grids import candidates_of
from ._result import LossComparison
from ._runs import Data, Run, do_run
from ._splits import make_splits


def compare_losses(
    estimator: Any,
    losses: Sequence | dict[str, Any],
    X: RowsLike,
    y: ArrayLike,
    *,
    scoring: str | Callable | None = None,
    cv: Any = 5,
    n_seeds: int = 1,
    grid: str | dict | None = "default",
    n_jobs: int | None = None,
    cache: str | os.PathLike | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    margin: float = 0.01,
    progress: bool = True,
    random_state: int | np.random.RandomState | None = 0,
) -> LossComparison:
    r"""Train losses on the same splits with equal budgets, and say which are worth it.

    Each loss meets the same folds with the same seeds. On the training rows of a fold, a
    quarter held out (by class, or by group) chooses among as many settings for one loss as for
    another; the chosen setting is fitted to all training rows and scored on the test rows,
    which nothing was chosen on. The differences from cross-entropy get the intervals and
    p-values of the corrected resampled t-test, see :class:`LossComparison`. Values of the
    losses themselves are not comparable: scores are.

    Always in it, whatever `losses` says:

    - "cross_entropy", the baseline of the differences;
    - "logit_adjusted", cross-entropy with the class frequencies left to the loss
      (:func:`sktopk.losses.logit_adjusted_loss`), for scores that weigh classes equally;
    - "weighted_cross_entropy", with balanced class weights; for two classes the threshold of
      `predict` and `decision_function` is also tuned for `scoring`, on held-out training rows;
    - "hist_gradient_boosting", scikit-learn's, in the place of the network, for tables of
      numbers and at most 30 classes. Sparse rows, as of one-hot columns, are made dense for it,
      up to 512 MiB. Where it is left out the result says why;
    - "lightgbm", likewise, if it is installed; it takes sparse rows as they are.

    Parameters
    ----------
    estimator : TopKClassifier or pipeline
        Everything but the loss: the network, its epochs, the steps before it. Anything whose
        parameters hold exactly one TopKClassifier. Each `random_state` in it is set by
        `random_state`.
    losses : list of str or (str, estimator) pairs, or dict of str to estimator
        Names of losses of TopKClassifier, "auto" among them, and named classifiers of any
        kind, such as those of the top of a ranking, a TopKClassifier with another network or a
        :class:`sktopk.TopBoostClassifier`.
    X : {array, sparse matrix, frame, list} of shape (n_samples, ...)
        What `estimator` takes.
    y : array-like of shape (n_samples,)
        Class labels.
    scoring : str or callable, default=None
        The larger the better. None is :func:`sktopk.metrics.make_topk_scorer` at the k of
        `estimator`, at most n_classes - 1.
    cv : int, splitter or iterable of (train, test), default=5
        An integer is that number of stratified folds (with `groups`, of whole groups), shuffled
        anew for each seed. So is a splitter whose own `random_state` is None.
    n_seeds : int, default=1
        How often all folds are repeated with other seeds.
    grid : "default", None or dict, default="default"
        Settings to choose from. "default" has four for each loss: the learning rate times 1/3,
        1, 3, 10, or, where a loss has a parameter of its own, times 1 and 3 with two values of
        that (tau and tau / 10; sigma and 5 sigma; gamma and gamma / 2). A named classifier
        without a learning rate is fitted as it is. None chooses nothing. A dict maps losses to
        dicts of lists of values or to lists of dicts, with the names that ``set_params``
        takes; losses it does not name have the default. All lists must be of equal length.
    n_jobs : int, default=None
        Runs at a time, as in joblib; None is 1 unless ``joblib.parallel_config`` says more.
    cache : str or Path, default=None
        Folder for the score of each fit, a JSON file named by a fingerprint of all that it
        depends on: estimator, loss, data, rows, seed, scoring, versions. What is found there
        is not done again, so that a comparison goes on where it was killed, and one with more
        losses or seeds only does what is new. None keeps nothing.
    sample_weight : array-like of shape (n_samples,), default=None
        Passed to the fits, and to `scoring` if it takes weights.
    groups : array-like of shape (n_samples,), default=None
        Passed to `cv`; rows held out to choose settings are whole groups, too.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).
    margin : float, default=0.01
        The difference that does not matter to you, in units of `scoring`, at least 0: one point
        of an accuracy. "As good" means that the whole interval lies within it.
    progress : bool, default=True
        Whether to show a progress bar over the runs.
    random_state : int, RandomState or None, default=0
        Where the seeds come from. A number by default, so that a rerun finds its cache.

    Returns
    -------
    comparison : LossComparison
        With `frame`, `summary()`, `verdict`, `plot()` and `to_latex()`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not allowed, before any training; ValueError if settings are not as
        many for each loss.
    RuntimeError
        If a run fails, with the name of its loss, fold and seed. Training that diverges with
        one of several settings is no failure; `frame` counts it.

    Warns
    -----
    ConvergenceWarning, UserWarning
        Once for all runs: how many stopped while training could go on, and what other
        warnings the fits gave.

    See Also
    --------
    sktopk.TopKClassifier : With ``loss="auto"`` it chooses a loss inside `fit`.

    Notes
    -----
    The fits of tuning take three quarters of the training rows: with 5 folds and four settings,
    a loss costs about 20 fits. `frame` has the seconds of each run.

    The verdict is one of three: a loss is better, or as good, or the runs cannot tell, and then
    it says about how many folds or rows would; more folds come from a larger `n_seeds`. A
    narrower interval within the margin is the only ground for "as good": with few rows nearly
    every interval holds zero.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.model_selection import compare_losses
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), learning_rate=0.05, max_epochs=20)
    >>> comparison = compare_losses(
    ...     clf, ["smooth_topk"], X, y, cv=3, grid=None, progress=False
    ... )
    >>> comparison.summary().index.tolist()[:4]
    ['cross_entropy', 'smooth_topk', 'logit_adjusted', 'weighted_cross_entropy']
    >>> print(comparison.verdict)
    cannot tell cross_entropy from smooth_topk: difference ... is neither clear nor within 0.01; it
    would take about ... times the rows
    """
    prefix = _classifier_prefix(estimator)
    asked = _named_estimators(estimator, prefix, losses)
    store = None if cache is None else RunCache(cache)
    check_count(n_seeds, "n_seeds")
    check_flag(progress, "progress")
    check_number(confidence, "confidence", 0, 1, bounds="neither")
    check_number(margin, "margin", 0)
    X, y, groups = indexable(on_host(X, "X"), check_labels(y), groups)
    y = np.asarray(y)
    n_classes = len(check_classes(y))
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    k = largest_k(estimator.get_params()[f"{prefix}k"], n_classes)
    scorer = make_scorer(estimator, scoring, k)
    metric = f"top-{k} accuracy" if scoring is None else _name_of(scorer, scoring)
    splits = make_splits(cv, n_seeds, random_state, X, y, groups)
    first = take_rows(X, splits[0][3])
    baselines, omitted = make_baselines(estimator, prefix, n_classes, scorer, first)
    omitted = {name: why for name, why in omitted.items() if name not in asked}
    # The baseline first; what was asked for under a baseline's name stays as it was asked.
    everything = {"cross_entropy": baselines["cross_entropy"]} | asked
    everything |= {name: each for name, each in baselines.items() if name not in everything}
    candidates = candidates_of(everything, grid)
    fingerprint = digest([X, y, weight, groups]) if cache is not None else ""
    data = Data(Rows(X, y, weight), groups, fingerprint)
    runs = [
        Run(name, each, candidates[name], repeat, fold, seed, train, test)
        for repeat, fold, seed, train, test, _ in splits
        for name, each in everything.items()
    ]
    done = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(do_run)(run, data, scorer, store) for run in runs
    )
    rows, messages = [], set()
    for row, warned in tqdm(done, total=len(runs), desc="Runs", unit="run", disable=not progress):
        rows.append(row)
        messages.update(f"{row['loss']}: {message}" for message in warned)
    frame = pd.DataFrame(rows)
    frame.insert(3, "split", np.repeat([split for *_, split in splits], len(everything)))
    n_unsettled = int((~frame["settled"]).sum())
    if n_unsettled:
        warnings.warn(
            f"{n_unsettled} of {len(frame)} runs stopped while training could go on, see the "
            'column "settled" of frame: raise max_epochs before you conclude anything',
            ConvergenceWarning,
            stacklevel=2,
        )
    for message in sorted(messages):
        warnings.warn(message, stacklevel=2)
    return LossComparison(
        frame,
        losses=list(asked),
        metric=metric,
        confidence=confidence,
        margin=margin,
        omitted=omitted,
    )


def _classifier_prefix(estimator):
    """Return "clf__" for a pipeline with a TopKClassifier in step "clf", "" for the classifier.

    Parameters
    ----------
    estimator : estimator
        A TopKClassifier, or anything whose parameters hold exactly one, at any depth.
    """
    if isinstance(estimator, type):
        raise TypeError(f"estimator must be an estimator; got {_said(estimator)}")
    if isinstance(estimator, TopKClassifier):
        return ""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    names = [name for name, value in params.items() if isinstance(value, TopKClassifier)]
    if len(names) != 1:
        raise TypeError(
            "estimator must be a TopKClassifier or hold exactly one, as a pipeline does that ends "
            f"in it; found {len(names)} in {type(estimator).__name__}. Other estimators are "
            "compared by their scores: sktopk.metrics.LossComparisonDisplay.from_scores"
        )
    return f"{names[0]}__"


def _said(value):
    is_class = isinstance(value, type)
    return f"the class {value.__name__}: call it" if is_class else repr(value)


def _name_of(scorer, scoring):
    if isinstance(scoring, str):
        return scoring
    function = getattr(scorer, "_score_func", scorer)
    return getattr(function, "__name__", type(scorer).__name__)


def _named_estimators(estimator, prefix, losses):
    """Return what was asked for, by name."""
    entries = list(losses.items()) if isinstance(losses, Mapping) else losses
    if isinstance(entries, str) or not isinstance(entries, list | tuple):
        raise TypeError(
            "losses must be a list of names and (name, estimator) pairs, or a dict of estimators, "
            f"as in compare_losses(estimator, losses, X, y); got {reprlib.repr(losses)}"
        )
    named = {}
    for entry in entries:
        if isinstance(entry, str):
            check_option(entry, "losses", (*LOSSES, "auto"))
            entry = entry, with_params(estimator, params_for(estimator, entry, prefix))
        if not isinstance(entry, tuple | list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise TypeError(
                f"losses must hold names and (name, estimator) pairs; got {reprlib.repr(entry)}"
            )
        name, each = entry
        if isinstance(each, type) or not hasattr(each, "fit") or not is_classifier(each):
            raise TypeError(f"losses[{name!r}] must be a classifier; got {_said(each)}")
        if name in named:
            raise ValueError(f"losses must have different names; got {name!r} twice")
        named[name] = each
    return named
