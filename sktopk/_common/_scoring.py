"""Checks of `scoring`, and arguments of scorers."""

import inspect
from contextlib import suppress

from sklearn.metrics import check_scoring


def check_scorer(estimator, scoring):
    """Return the scorer for the parameter `scoring`, a name or a callable."""
    with suppress(ValueError):
        if isinstance(scoring, str) or callable(scoring):
            return check_scoring(estimator, scoring=scoring)
    raise ValueError(
        "scoring must be None, the name of a scikit-learn scorer or a callable, such as "
        "sktopk.metrics.make_top_scorer('recall_at_k', k=100) or make_topk_scorer(5); "
        f"got {scoring!r}"
    )


def weight_for(scorer, weight):
    """Return a dict with the weights; empty if there are none or the scorer takes none."""
    takes = weight is not None and "sample_weight" in inspect.signature(scorer).parameters
    return {"sample_weight": weight} if takes else {}
