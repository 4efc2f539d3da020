"""The function `compare_losses`, which tests whether a top-k loss improves a score."""

import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid
from sklearn.utils import indexable
from sklearn.utils.parallel import Parallel, delayed

from sktopk import TopKClassifier
from sktopk._common._input import check_classes, check_labels, check_table, check_weight
from sktopk._common._samples import encode_groups
from sktopk._common._scalars import check_count, check_flag, check_number, check_option, on_host
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn_of_order
from sktopk.losses._registry import OF_LABELS
from sktopk.metrics import make_topk_scorer

from ._baselines import last_step, loss_baselines, other_baselines, with_pos_label
from ._result import LossComparison
from ._runs import Rows, Run, do_run, make_splits, requests_groups

# Factors of the default settings: for the learning rate, and for tau if the loss uses tau.
_RATES = (1 / 3, 1.0, 3.0, 10.0)
_RATES_WITH_TAU = (1.0, 3.0)
_TAUS = (1.0, 0.1)


def compare_losses(
    estimator: Any,
    losses: Sequence | dict[str, Any],
    X: RowsLike,
    y: ArrayLike,
    *,
    scoring: str | Callable | None = None,
    cv: Any = 5,
    n_seeds: int = 2,
    grid: str | dict | None = "default",
    n_jobs: int | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    margin: float = 0.01,
    baselines: dict[str, Any] | None = None,
    progress: bool = True,
    random_state: int | np.random.RandomState | None = 0,
) -> LossComparison:
    r"""Compare losses, or any classifiers, with baselines on the same cross-validation splits.

    In each fold, every model uses the setting from `grid` with the best score on a held-out quarter
    of the training samples. The model is refitted to all training samples, and scored on the test
    samples. All models share folds and seeds. The best loss is compared with the baseline that has
    the highest mean test score. The highest of several scores is partly due to chance, so the
    comparison slightly favors the baseline. Baselines:

    - "logistic_regression", "extra_trees" and "hist_gradient_boosting" of scikit-learn, with
      encoding, imputation and scaling as needed. `omitted` of the result lists omitted baselines.
    - for a TopKClassifier, its network with the losses "cross_entropy", "logit_adjusted" and
      "weighted_cross_entropy" (balanced class weights). For two classes without `sample_weight`, if
      `scoring` uses predicted labels, "weighted_cross_entropy" gets a tuned decision threshold.

    Parameters
    ----------
    estimator : classifier or pipeline
        A TopKClassifier, or a pipeline that contains one: each name in `losses` replaces its loss.
        Any other classifier is itself one of the compared models. Its name in the results is its
        class name. A pipeline has the class name of its last step.
    losses : list of str or (str, estimator) pairs, or dict of str to estimator
        Names of losses of TopKClassifier, or named classifiers of any kind. May be empty.
    X : {array, sparse matrix, frame, pyarrow.Table, list} of shape (n_samples, ...)
        Samples for training and tests, divided by `cv`.
    y : array-like of shape (n_samples,)
        Class labels.
    scoring : str or callable, default=None
        Score to maximize (see :func:`sktopk.metrics.make_top_scorer`). None means top-k accuracy,
        with the k of the TopKClassifier. For two classes, the first `pos_label` that is not None in
        `scoring`, `estimator`, `losses` and `baselines` replaces every ``pos_label=None``.
    cv : int, splitter or iterable of (train, test), default=5
        An integer is the number of stratified folds, shuffled for each seed. With `groups`, each
        group is in one fold. A splitter with ``random_state=None`` gets a new seed per repetition.
    n_seeds : int, default=2
        Number of repetitions of all folds with different seeds.
    grid : "default", None or dict, default="default"
        Settings to try for each loss. "default" tries the learning rate times 1/3, 1, 3 and 10. For
        a loss with a temperature tau, it tries the learning rate times 1 and 3, each with tau and
        tau / 10. None keeps the given parameters. A dict maps losses to ``ParameterGrid``
        arguments; other losses get "default". All losses need the same number of settings.
    n_jobs : int, default=None
        Number of parallel runs. None means 1 unless in a ``joblib.parallel_config`` context.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, for `fit` and, if the scorer takes weights, for `scoring`.
    groups : array-like of shape (n_samples,), default=None
        Group of each sample. Groups are passed to `cv`, and to a scorer on which you called
        ``set_score_request(groups=True)``. To select from `grid`, whole groups are held out.
    confidence : float, default=0.95
        Confidence level of the intervals, in (0, 1).
    margin : float, default=0.01
        Largest difference of scores that is negligible (see :class:`LossComparison`).
    baselines : dict of str to estimator, default=None
        Further baselines, such as ``{"lightgbm": LGBMClassifier()}``.
    progress : bool, default=True
        Whether to show a progress bar.
    random_state : int, RandomState or None, default=0
        Seed for drawing seeds of runs. The seed of a run replaces each `random_state` of its model.

    Returns
    -------
    comparison : LossComparison
        Result with the attributes and methods `frame`, `summary()`, `verdict` and `plot()`.

    Raises
    ------
    RuntimeError
        If a run fails, or all its settings diverge. The message has the loss, fold and seed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.model_selection import compare_losses
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), learning_rate=0.05, max_epochs=20)
    >>> comparison = compare_losses(clf, ["focal"], X, y, cv=3, grid=None, progress=False)
    >>> comparison.summary().loc[["focal", "cross_entropy"], "mean"].round(2).tolist()
    [1.0, 1.0]
    """
    prefix = _classifier_prefix(estimator)
    with_loss = None if prefix is None else partial(_with_loss, estimator, prefix)
    itself = {type(last_step(estimator)[1]).__name__: estimator} if prefix is None else {}
    asked = itself | _named_estimators(with_loss, losses, "losses", itself)
    more = _named_estimators(None, baselines or {}, "baselines", asked)
    check_count(n_seeds, "n_seeds")
    check_flag(progress, "progress")
    check_number(confidence, "confidence", 0, 1, bounds="neither")
    check_number(margin, "margin", 0)
    check_table(X)
    warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
    X, y = indexable(on_host(X, "X"), check_labels(y))
    if groups is not None:
        encode_groups(groups, len(y))  # raises if a group is missing
        (groups,) = indexable(on_host(groups, "groups"))
    classes = check_classes(y)
    weight = None if sample_weight is None else check_weight(sample_weight, len(y))
    scorer, metric = _scorer(estimator, prefix, scoring, len(classes))
    pools = getattr(scorer, "takes_groups", False) and not requests_groups(scorer)
    if groups is not None and pools:
        warnings.warn(
            f"{metric} ranks all samples of a test fold together. To rank each group, call "
            "sklearn.set_config(enable_metadata_routing=True) and "
            "scoring.set_score_request(groups=True)",
            stacklevel=2,
        )
    splits = make_splits(cv, n_seeds, random_state, X, y, groups)
    rows = Rows(X, y, weight, groups)
    references = {}
    if prefix is not None:
        references = loss_baselines(with_loss, prefix, len(classes), scorer, weight is not None)
    first = rows.take(splits[0][3])
    others, omitted = other_baselines(estimator, len(classes), first.X, first.y)
    if same := sorted({*asked, *more} & {*others}):
        raise ValueError(f"names of models must differ from those of default baselines; got {same}")
    references |= others | more
    omitted = {name: why for name, why in omitted.items() if name not in asked | more}
    references = {name: each for name, each in references.items() if name not in asked}
    everything = asked | references
    if len(everything) < 2:
        why = f"got {baselines!r}, and the default baselines are omitted: {omitted}"
        raise ValueError(f"baselines must have at least one classifier; {why}")
    if len(classes) == 2:
        scorer, everything = with_pos_label(estimator, scorer, everything, y)
    candidates = candidates_of(everything, grid)
    pairs = product(splits, everything.items())
    runs = [Run(name, each, candidates[name], *split) for split, (name, each) in pairs]
    tasks = (delayed(do_run)(run, rows, scorer) for run in runs)
    done = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    found, messages = [], set()
    from tqdm.auto import tqdm  # this import warns in Jupyter without ipywidgets

    # Parallel runs in threads change the warning filters. Restore the filters after the runs.
    with warnings.catch_warnings():
        for row, said in tqdm(done, total=len(runs), desc="Runs", unit="run", disable=not progress):
            found.append(row)
            messages.update(f"{row['loss']}: {message}" for message in said)
    frame = pd.DataFrame(found)
    for message in sorted(messages):
        warnings.warn(message, stacklevel=2)
    best = frame.groupby("loss")["score"].mean()[list(references or everything)].idxmax()
    words = {"metric": metric, "confidence": confidence, "margin": margin, "omitted": omitted}
    return LossComparison(frame, losses=list(asked), baseline=best, **words)


def _classifier_prefix(estimator):
    """Return the parameter prefix of the TopKClassifier, such as "clf__". None if there is none."""
    if isinstance(estimator, type):
        raise TypeError(f"estimator must be an instance of a classifier; got {_said(estimator)}")
    _refuse_frozen(estimator)
    if isinstance(estimator, TopKClassifier):
        return ""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    names = [name for name, value in params.items() if isinstance(value, TopKClassifier)]
    if len(names) > 1 or not is_classifier(estimator):
        raise TypeError(
            "estimator must be a classifier that contains at most one TopKClassifier; got "
            f"{type(estimator).__name__} with {len(names)} of them. For scores of other "
            "estimators, use sktopk.metrics.LossComparisonDisplay.from_scores"
        )
    return f"{names[0]}__" if names else None


def _scorer(estimator, prefix, scoring, n_classes):
    if isinstance(scoring, str) or callable(scoring):
        with suppress(ValueError):
            scorer = check_scoring(estimator, scoring=scoring)
            name = getattr(scorer, "__name__", repr(scorer))
            return scorer, scoring if isinstance(scoring, str) else name
    if scoring is not None:
        raise ValueError(
            "scoring must be None, the name of a scikit-learn scorer or a callable, such as "
            "sktopk.metrics.make_top_scorer('recall_at_k', k=100) or make_topk_scorer(5); "
            f"got {scoring!r}"
        )
    if prefix is None:
        raise ValueError(
            "if estimator contains no TopKClassifier, scoring must be a scorer, such as "
            "sktopk.metrics.make_top_scorer('true_positive_rate_at_fpr', fpr=0.01); got None"
        )
    k = estimator.get_params()[f"{prefix}k"]
    k = min(int(max(k) if isinstance(k, Mapping) else k), n_classes - 1)
    return make_topk_scorer(k), f"top-{k} accuracy"


def _said(value):
    return f"the class {value.__name__}: call it" if isinstance(value, type) else repr(value)


def _refuse_frozen(estimator):
    """Raise TypeError if a part of an estimator would not be trained in each split."""
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    if any(isinstance(part, FrozenEstimator) for part in (estimator, *params.values())):
        raise TypeError(
            f"classifiers must be trained in each split; got {estimator!r:.80}. Pass the "
            "classifier without FrozenEstimator"
        )


def _named_estimators(with_loss, losses, parameter, known):
    """Return a dict of named estimators. Raise an error if a name is in `known`."""
    entries = list(losses.items()) if isinstance(losses, Mapping) else losses
    if not isinstance(entries, list | tuple):
        raise TypeError(
            f"{parameter} must be a list of names and (name, estimator) pairs, or a dict of "
            f"estimators; got {reprlib.repr(losses)}. The order of the arguments is "
            "compare_losses(estimator, losses, X, y)"
        )
    named = {}
    for entry in entries:
        if isinstance(entry, str) and with_loss is not None:
            check_option(entry, parameter, sorted(OF_LABELS))
            entry = entry, with_loss(entry)
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            names = "" if with_loss is None else "names and "
            came = reprlib.repr(entry)
            raise TypeError(f"{parameter} must have {names}(name, estimator) pairs; got {came}")
        name, each = entry
        if isinstance(each, type) or not hasattr(each, "fit") or not is_classifier(each):
            raise TypeError(f"{parameter}[{name!r}] must be a classifier; got {_said(each)}")
        _refuse_frozen(each)
        if name in named or name in known:
            raise ValueError(f"{parameter} must have distinct names; got {name!r} twice")
        named[name] = each
    return named


def _with_loss(estimator, prefix, loss):
    """Return a copy with another loss. Reset tau and sigma if the new loss does not use them."""
    params = estimator.get_params(deep=True)
    changed = {"loss": loss}
    if params[f"{prefix}loss"] != loss:
        changed["loss_params"] = None
        unused = {"tau", "sigma"} - {*OF_LABELS[loss].params}
        changed |= {each: getattr(TopKClassifier, each) for each in unused}
    changed = {f"{prefix}{name}": each for name, each in changed.items()}
    return clone(estimator).set_params(**changed)


def candidates_of(estimators, grid):
    """Return a dict that maps each estimator's name to a list of parameter dicts to try."""
    if grid is None:
        return {name: [{}] for name in estimators}
    grid = {} if grid == "default" else grid
    if not isinstance(grid, Mapping):
        raise ValueError(f'grid must be "default", None or a dict of grids; got {grid!r}')
    if unknown := sorted(grid.keys() - estimators.keys()):
        names = list(estimators)
        raise ValueError(f"keys of grid must be in {names}, the compared losses; got {unknown}")
    candidates = {name: _default_candidates(each) for name, each in estimators.items()}
    for name, each in grid.items():
        candidates[name] = list(ParameterGrid(each))
        for params in candidates[name]:
            clone(estimators[name]).set_params(**params)  # raises if a parameter is unknown
    # Do not check estimators without a learning rate. Their only setting is the empty dict.
    sizes = {name: len(each) for name, each in candidates.items() if each != [{}]}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            "grid must have the same number of settings for every loss. A loss without an entry in "
            f"grid gets {len(_RATES)} default settings; got {sizes}"
        )
    return candidates


def _default_candidates(estimator):
    """Return four settings of learning rate (and tau), or [{}] if there is no learning rate."""
    params = estimator.get_params(deep=True)
    rates = [name for name in params if name.split("__")[-1] == "learning_rate"]
    if len(rates) != 1 or not isinstance(params[rates[0]], Real):
        return [{}]
    rate = params[rates[0]]
    for name in params:
        loss = OF_LABELS.get(str(params.get(name.removesuffix("tau") + "loss")))
        if name.split("__")[-1] == "tau" and loss is not None and "tau" in loss.params:
            taus = [params[name] * factor for factor in _TAUS]
            grid = {rates[0]: [rate * step for step in _RATES_WITH_TAU], name: taus}
            return list(ParameterGrid(grid))
    return [{rates[0]: rate * step} for step in _RATES]
