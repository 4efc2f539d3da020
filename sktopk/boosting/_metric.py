"""Metrics of `sktopk.metrics` as evaluation functions for boosted trees."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_option
from sktopk.metrics import make_top_scorer, make_topk_scorer, topk_accuracy_score
from sktopk.metrics._top_scorer import METRICS

from ._objective import group_codes


def metric(name: str, /, *, library: str = "lightgbm", **params: Any) -> "Metric":
    """Return a metric of :mod:`sktopk.metrics` as `eval_metric` for LightGBM or XGBoost.

    Parameters
    ----------
    name : str
        Name of the metric: "topk_accuracy", or a name from :func:`sktopk.metrics.make_top_scorer`.
    library : {"lightgbm", "xgboost"}, default="lightgbm"
        Library that calls the metric. For LightGBM, the metric returns ``(name, score, True)``. For
        XGBoost, it returns ``-score``, because XGBoost minimizes metrics.
    **params
        Parameters of the metric, such as ``k=100``.

    Returns
    -------
    metric : Metric
        Called as ``metric(y_true, y_score, sample_weight=None, group=None)``. The labels are 0 and
        1, or class indices. `group` has the sizes of consecutive groups.

    Examples
    --------
    >>> from sktopk.boosting import metric
    >>> metric("precision_at_k", k=2)([0, 1, 1, 0], [0.1, 0.9, 0.4, 0.5])
    ('precision_at_k_2', 0.5, True)
    """
    return Metric(name, library, params)


class Metric:
    """Evaluation function returned by `metric`."""

    def __init__(self, name, library, params):
        self.name, self.library, self.params = name, library, params
        check_option(library, "library", ("lightgbm", "xgboost"))
        if name == "topk_accuracy":
            make_topk_scorer(**params)
            self.__name__ = "_".join(map(str, [name, *params.values()]))
        else:
            self.__name__ = make_top_scorer(name, pos_label=1, **params).__name__

    def __repr__(self):
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        return f"metric({self.name!r}, library={self.library!r}{params})"

    def __call__(
        self,
        y_true: ArrayLike,
        y_score: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> Any:
        y_true, y_score = np.asarray(y_true), np.asarray(y_score)
        function, params = METRICS.get(self.name), {**self.params, "pos_label": 1}
        if function is None:
            n_classes = y_score.shape[1] if y_score.ndim == 2 else 2
            function, params = topk_accuracy_score, {**self.params, "labels": range(n_classes)}
        if group is not None:
            if "groups" not in inspect.signature(function).parameters:
                got = f"{len(group)} groups"
                raise ValueError(f"group must be None for name={self.name!r}; got {got}")
            params["groups"] = group_codes(group, len(y_true))
        score = float(function(y_true, y_score, sample_weight=sample_weight, **params))
        return -score if self.library == "xgboost" else (self.__name__, score, True)
