"""Pipeline with the prediction methods of sktopk."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import pipeline
from sklearn.utils.validation import check_is_fitted

from sktopk._common._estimator import Versioned, available_if, public
from sktopk._common._types import RowsLike


def _last_has(name):
    return lambda pipe: callable(getattr(pipe.steps[-1][1] if pipe.steps else None, name))


@public
class Pipeline(Versioned, pipeline.Pipeline):
    """scikit-learn's Pipeline with the prediction methods of sktopk.

    `predict_topk`, `predict_top`, `hits_interval` and `predict_set` transform X and call the same
    method of the last step. ``Pipeline(pipe.steps)`` converts a fitted pipeline of scikit-learn.

    Parameters
    ----------
    steps : list of tuple
        Pairs (name, estimator) in the order of application.
    transform_input : list of str, default=None
        Names of parameters of `fit`, such as "X_val", which the steps transform as they transform
        X. Requires metadata routing.
    memory : str or object with the joblib.Memory interface, default=None
        Cache for fitted transformers, or its folder. None means no cache.
    verbose : bool, default=False
        Whether to print the fit time of each step.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sktopk import Pipeline, TopKClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, n_estimators=2, random_state=0)
    >>> pipe = Pipeline([("scale", StandardScaler()), ("clf", clf)]).fit(X, y)
    >>> pipe.predict_topk(X[70:71])
    array([[1, 2]])
    """

    def fit(self, X: RowsLike, y: Any = None, **params: Any) -> Self:
        """Fit all steps, as scikit-learn does. All steps but the last must have `transform`."""
        for name, step in self.steps[:-1]:
            if hasattr(step, "fit_resample") and not hasattr(step, "transform"):
                raise TypeError(
                    f"steps before the last must have transform; got the sampler {name!r}. Use a "
                    "pipeline of imbalanced-learn, for example in BudgetClassifier(imb_pipeline)"
                )
        return super().fit(X, y, **params)

    @available_if(_last_has("predict_top"))
    def predict_top(self, X: RowsLike, n: int | None = None, **params: Any) -> np.ndarray:
        """Transform X and call `predict_top` of the last step."""
        # Do not pass n=None, because `predict_top` of some classifiers requires a number.
        params = params if n is None else {"n": n, **params}
        return self.steps[-1][1].predict_top(self._transformed(X), **params)

    @available_if(_last_has("hits_interval"))
    def hits_interval(self, X: RowsLike, n: ArrayLike, **params: Any) -> tuple[Any, Any]:
        """Transform X and call `hits_interval` of the last step."""
        return self.steps[-1][1].hits_interval(self._transformed(X), n, **params)

    @available_if(_last_has("predict_topk"))
    def predict_topk(self, X: RowsLike, k: int | None = None) -> np.ndarray:
        """Transform X and call `predict_topk` of the last step."""
        return self.steps[-1][1].predict_topk(self._transformed(X), k)

    @available_if(_last_has("predict_set"))
    def predict_set(self, X: RowsLike, **params: Any) -> Any:
        """Transform X and call `predict_set` of the last step."""
        return self.steps[-1][1].predict_set(self._transformed(X), **params)

    def _transformed(self, X):
        check_is_fitted(self)
        # A pipeline of scikit-learn needs at least one step.
        return pipeline.Pipeline([("", "passthrough"), *self.steps[:-1]]).transform(X)


@public
def make_pipeline(
    *steps: Any, memory: Any = None, transform_input: list[str] | None = None, verbose: bool = False
) -> Pipeline:
    """Return a `Pipeline` whose steps are named after their classes in lower case.

    Parameters
    ----------
    *steps : estimators
        Estimators in the order of application.
    memory, transform_input, verbose
        Parameters of `Pipeline`, with the same defaults.

    Returns
    -------
    pipe : Pipeline

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sktopk import TopKClassifier, make_pipeline
    >>> [name for name, step in make_pipeline(StandardScaler(), TopKClassifier()).steps]
    ['standardscaler', 'topkclassifier']
    """
    named = pipeline.make_pipeline(*steps).steps
    return Pipeline(named, transform_input=transform_input, memory=memory, verbose=verbose)
