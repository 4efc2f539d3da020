"""Checks of `scoring`, and arguments of scorers."""

import inspect
from contextlib import suppress

from sklearn.metrics import check_scoring


def check_scorer(estimator, scoring):
    """Return the scorer for `scoring`, which is a scikit-learn name or a callable."""
    with suppress(ValueError):
        if isinstance(scoring, str) or callable(scoring):
            return check_scoring(estimator, scoring=scoring)
    raise ValueError(
        "scoring must be None, the name of a scikit-learn scorer or a callable, such as "
        "sktopk.metrics.make_top_scorer('recall_at_k', k=100) or make_topk_scorer(5); "
        f"got {scoring!r}"
    )


def weight_for(scorer, weight):
    """Return ``{"sample_weight": weight}``, or an empty dict if the scorer takes no weights."""
    takes = weight is not None and "sample_weight" in inspect.signature(scorer).parameters
    return {"sample_weight": weight} if takes else {}
