"""Rows looked at by chance: a queue whose labels tell about all rows, and what logs of it weigh."""

import inspect
from typing import NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from sktopk._common._input import take_rows
from sktopk._estimators._logs import labelled, weighed


class Queue(NamedTuple):
    """Rows to look at, best first, and how likely each of them was to be."""

    rows: np.ndarray
    propensity: np.ndarray


def draw_rows(certain, group, n_drawn, keys, seed):
    """Draw rows beside those that are `certain`, and return the mask and the chance of every row.

    Of each group `n_drawn` rows are drawn without replacement, all with the same chance. The draw
    is a function of the seed and of the content of all rows of the group, in any order: the same
    batch has the same queue, and a row that comes again in another batch is drawn anew.

    Parameters
    ----------
    certain : ndarray of shape (n_samples,), bool
    group : ndarray of shape (n_samples,), int
    n_drawn : ndarray of shape (n_groups,), int
    keys : ndarray of shape (n_samples,), uint64
        Of the content of the rows.
    seed : int
    """
    drawn, chance = certain.copy(), certain.astype(np.float64)
    order = np.lexsort((keys, group))
    ends = np.cumsum(np.bincount(group, minlength=len(n_drawn)))
    for rows, n in zip(np.split(order, ends[:-1]), n_drawn.tolist(), strict=True):
        rest = rows[~certain[rows]]
        if n and len(rest):
            # A sum of integers that wraps round does not depend on their order.
            batch = int(keys[rows].sum(dtype=np.uint64))
            drawn[np.random.default_rng([seed, batch]).choice(rest, n, replace=False)] = True
            chance[rest] = n / len(rest)
    return drawn, chance


def labelled_for(estimator, X, y, propensity, params, likelihood_ratio):
    """Return the `Log` of rows given to `fit`, and their ratios; where these train, they weigh."""
    log = labelled(X, y, propensity, params | {"": likelihood_ratio})
    likelihood_ratio = log.params.pop("")
    if not isinstance(estimator, FrozenEstimator):
        if not takes_weights(estimator):
            raise ValueError(
                "propensity weighs the rows that train, but "
                f"{type(estimator).__name__}.fit takes no sample_weight: take another estimator, "
                "or freeze it fitted by FrozenEstimator"
            )
        log.params["sample_weight"] = weighed(log.params.get("sample_weight"), log.propensity)
    return log, likelihood_ratio


def takes_weights(estimator):
    """Whether `fit` takes sample_weight, or may pass it on."""
    parameters = inspect.signature(estimator.fit).parameters
    passes_on = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return passes_on or "sample_weight" in parameters


def thinned(trained, propensity, random):
    """Return the rows to calibrate with of which each is as likely as any other to be there.

    A row stays with the smallest propensity of all, divided by its own. What is left is a sample
    of all rows, whatever the queue preferred, and what is promised for such a sample holds.
    """
    propensity = take_rows(propensity, trained.held_out)
    kept = np.flatnonzero(random.uniform(size=len(propensity)) * propensity < propensity.min())
    rows = kept if trained.held_out is None else trained.held_out[kept]
    return trained._replace(
        X=take_rows(trained.X, kept),
        y=take_rows(trained.y, kept),
        held_out=rows,
        y_score=None if trained.y_score is None else trained.y_score[kept],
    )
