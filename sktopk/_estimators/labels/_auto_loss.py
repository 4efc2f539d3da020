"""loss="auto": a short validation inside `fit`, in which cross-entropy has the benefit of doubt."""

import hashlib
import inspect
import warnings

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed

from sktopk._common._labels import (
    check_labels,
    encode,
)
from sktopk._common._tables import (
    take_rows,
)
from sktopk._training._distributed import all_objects
from sktopk._training._net import DivergedError
from sktopk.metrics import make_topk_scorer
from sktopk.metrics._statistics import (
    corrected_standard_error,
)

BASELINE = "cross_entropy"
# Of the top-k losses those that were never far behind and often ahead with default settings.
CHALLENGERS = ("smooth_topk", "topk_hinge_convex", "noised_topk")
N_FOLDS = 5
# With fewer distinct rows to score, a standard error says little.
LEAST_ROWS = 100


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
        and standard_error (dicts of floats), test_fraction (float) and reason (str).
    """
    # On a copy, which may note what it likes.
    copy = clone(estimator)
    y = check_labels(y)
    (X, y, weight), classes = copy._check_data(X, y, sample_weight, True)
    # A CSR matrix without its rows of weight 0.
    X = X[:] if hasattr(X, "nnz") and not issparse(X) else X
    validation = copy._check_validation(X_val, y_val, classes)
    k = max(estimator.k) if isinstance(estimator.k, dict) else estimator.k
    k = min(int(k), len(classes) - 1)
    # A generator that a later call shall find where this one found it draws nothing here.
    keeps = estimator.random_state is None and estimator.checkpoint is not None
    random = check_random_state(0 if keeps else estimator.random_state)
    seed = random.randint(np.iinfo(np.int32).max)
    X_judged, y_judged = (X, y) if validation is None else validation[:2]
    part, n_distinct = deal(X_judged, encode(classes, y_judged), N_FOLDS, seed)
    if k == 1:
        return BASELINE, _no_comparison("k_=1 leaves a top-k loss nothing to gain")
    if min(all_objects(n_distinct)) < LEAST_ROWS:
        return BASELINE, _no_comparison(
            f"{n_distinct} distinct rows to score are too few, at least {LEAST_ROWS}"
        )
    copy.set_params(random_state=seed, warm_start=False, verbose=0, checkpoint=None)
    scorer = make_topk_scorer(k)
    if estimator.scoring is not None:
        scorer = check_scoring(estimator, scoring=estimator.scoring)
    X = _with_names(X, copy)
    if validation is None:
        folds = [(part != fold, [part == fold]) for fold in range(N_FOLDS)]
        judged, given = (X, y, weight), {}
    else:
        folds = [(np.ones(len(y), dtype=bool), [part == block for block in range(N_FOLDS)])]
        X_val = _with_names(validation[0], copy)
        judged, given = (X_val, *validation[1:]), {"X_val": X_val, "y_val": validation[1]}
    losses = (BASELINE, *CHALLENGERS)
    found = Parallel()(
        delayed(_scores)(copy, loss, (X, y, weight), train, judged, blocks, given, scorer)
        for loss in losses
        for train, blocks in folds
    )
    scores = np.reshape(found, (len(losses), N_FOLDS))
    scores = np.mean(all_objects(scores), axis=0)  # processes that train together agree
    return _verdict(dict(zip(losses, scores, strict=True)), 0 if given else 1 / N_FOLDS)


def _verdict(scores, test_fraction):
    """Return the loss to use: the best of those above the baseline by a standard error."""
    base = scores[BASELINE]
    # Training that diverges is out of the race, and refused in `fit` if nothing else remains.
    runs = {n: each - base for n, each in scores.items() if np.isfinite(each + base).all()}
    errors = {n: float(corrected_standard_error(d, test_fraction)) for n, d in runs.items()}
    gains = {name: float(difference.mean()) for name, difference in runs.items()}
    eligible = [name for name in gains if gains[name] > errors[name]]
    loss = max(eligible, key=gains.get, default=BASELINE)
    if loss == BASELINE:
        reason = f"no loss is better than {BASELINE} by more than a standard error"
    else:
        reason = (
            f"{loss} is better than {BASELINE} by {gains[loss]:.4f}, more than a standard error "
            f"({errors[loss]:.4f})"
        )
    return loss, {
        "scores": {name: [float(s) for s in each] for name, each in scores.items()},
        "difference": gains,
        "standard_error": errors,
        "test_fraction": float(test_fraction),
        "reason": reason,
    }


def _no_comparison(reason):
    return {
        "scores": {},
        "difference": {},
        "standard_error": {},
        "test_fraction": 0.0,
        "reason": f"{BASELINE}: {reason}",
    }


def _scores(estimator, loss, data, train, judged, blocks, given, scorer):
    """Train with one loss; return its score on each block of the rows that judge."""
    model = clone(estimator).set_params(loss=loss)
    X, y, weight = (take_rows(each, np.flatnonzero(train)) for each in data)
    weighted = not np.all(judged[2] == 1)
    scores = []
    try:
        with warnings.catch_warnings():
            # They come again, once, from the fit to all rows.
            warnings.simplefilter("ignore")
            model.fit(X, y, weight, **given)
            for block in blocks:
                X, y, weight = (take_rows(each, np.flatnonzero(block)) for each in judged)
                params = {}
                if weighted and "sample_weight" in inspect.signature(scorer).parameters:
                    params["sample_weight"] = weight
                scores.append(float(scorer(model, X, y, **params)))
    except DivergedError:
        return [-np.inf] * len(blocks)
    except Exception as error:
        raise ValueError(f"loss='auto' cannot compare {loss!r}: {error}") from error
    if np.isnan(scores).any():
        raise ValueError(f"loss='auto' needs a scoring that is defined; got NaN for {loss!r}")
    return scores


def deal(X, target, n_parts, seed):
    """Deal rows into parts of about the same make-up, by their content.

    Parameters
    ----------
    X : ndarray or CSR
    target : ndarray of shape (n_samples,)
        Class indices.
    n_parts, seed : int

    Returns
    -------
    part : ndarray of shape (n_samples,)
        From 0 to n_parts - 1; -1 for a row whose class has no other, which stays in training.
    n_distinct : int
        Number of rows in these parts, counting equal ones with equal labels once.
    """
    key = _row_keys(X, seed)
    order = np.lexsort((key, target))
    target, key = target[order], key[order]
    new_class = np.r_[True, target[1:] != target[:-1]]
    new_row = new_class | np.r_[True, key[1:] != key[:-1]]
    group = np.cumsum(new_class) - 1
    single = (np.bincount(group, weights=new_row) == 1)[group]
    number = np.cumsum(new_row & ~single) - 1
    part = np.empty(len(order), dtype=np.int64)
    # Rows of a class have consecutive numbers, so its parts differ by one row at most.
    part[order] = np.where(single, -1, number % n_parts)
    return part, int(number[-1]) + 1


def _row_keys(X, seed):
    """A random number of 64 bits for each row that depends on its content only."""
    if issparse(X):
        X = X.copy()
        X.sum_duplicates()
    salt = int(seed).to_bytes(8, "little")
    keys = np.empty(X.shape[0], dtype=np.uint64)
    for i in range(len(keys)):
        if issparse(X):
            span = slice(X.indptr[i], X.indptr[i + 1])
            columns, values = X.indices[span], X.data[span]
            columns, values = columns[values != 0], values[values != 0]
        else:
            values = np.ravel(X[i])
            columns = np.flatnonzero(values)
            values = values[columns]
        content = hashlib.blake2b(columns.astype(np.int64).tobytes(), digest_size=8, key=salt)
        content.update(values.astype(np.float64).tobytes())
        keys[i] = int.from_bytes(content.digest(), "little")
    return keys


def _with_names(X, checked):
    """X as a frame where `fit` was given one: scorers may ask for columns."""
    if not hasattr(checked, "feature_names_in_"):
        return X
    make = pd.DataFrame.sparse.from_spmatrix if issparse(X) else pd.DataFrame
    return make(X, columns=checked.feature_names_in_)
