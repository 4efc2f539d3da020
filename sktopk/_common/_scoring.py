"""What users pass in as `scoring`, checked, and what a scorer is given."""

import inspect
from contextlib import suppress

import pandas as pd
from scipy.sparse import issparse
from sklearn.metrics import check_scoring

from ._lazy_rows import LazyRows


def check_scorer(estimator, scoring):
    """Return the scorer that `scoring` names or is."""
    with suppress(ValueError):
        if isinstance(scoring, str) or callable(scoring):
            return check_scoring(estimator, scoring=scoring)
    raise ValueError(
        "scoring must be None, the name of a score of scikit-learn or a callable, such as "
        "sktopk.metrics.make_top_scorer('recall_at_k', k=100) or make_topk_scorer(5); "
        f"got {scoring!r}"
    )


def weight_for(scorer, weight):
    """Return keyword arguments with the weights of rows, which may be None, if it takes them."""
    takes = weight is not None and "sample_weight" in inspect.signature(scorer).parameters
    return {"sample_weight": weight} if takes else {}


def with_names(rows, estimator):
    """Return X of `rows` as a frame if `estimator` was fitted to one: scorers may ask for columns.

    With categories it is the frame that was given.
    """
    X = rows.X
    if rows.frame is not None:
        return rows.frame
    if not hasattr(estimator, "feature_names_in_") or isinstance(X, LazyRows):
        return X
    make = pd.DataFrame.sparse.from_spmatrix if issparse(X) else pd.DataFrame
    return make(X, columns=estimator.feature_names_in_)
