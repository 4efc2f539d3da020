"""Steps and an estimator in one, with the verbs of the estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config, pipeline
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted

from sktopk._common._available import available_if
from sktopk._common._input import views_of
from sktopk._common._notebook import ShownInNotebooks
from sktopk._common._public import public
from sktopk._common._streams import has_parts, parts
from sktopk._common._types import RowsLike

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from .decisions._exploration import Queue


def _last_has(name):
    """Whether the last step has the method; for `available_if`."""

    def check(pipe):
        getattr(_last(pipe), name)
        return True

    return check


def _last(pipe):
    try:
        return pipe.steps[-1][1]
    except (AttributeError, IndexError, KeyError, TypeError):
        # Steps are checked by fit.
        raise AttributeError("steps must end in a pair (name, estimator)") from None


@public
class Pipeline(ShownInNotebooks, pipeline.Pipeline):
    r"""scikit-learn's Pipeline with the verbs of its last step: predict_top, predict_topk, ...

    .. math::
        f_{\text{pipeline}}(X) = f\bigl(T_m(\cdots T_1(X))\bigr)

    for each verb f of the last step, with the transforms T of the others. It is a
    :class:`sklearn.pipeline.Pipeline` and does nothing else differently. A verb is there if the
    last step has it, and so are its attributes that begin with ``oob_``. Where it has no
    `predict_proba`, say, the error ends in its reason.

    Parameters
    ----------
    steps : list of tuple
        Pairs (name, estimator), all but the last transformers, in the order in which they apply.
    transform_input : list of str, default=None
        Parameters of `fit`, such as "X_val", that go through the steps as X does. With metadata
        routing only.
    memory : str or object with the joblib.Memory interface, default=None
        Where to cache fitted transformers.
    verbose : bool, default=False
        Whether to print how long each step takes to fit, in seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Those of the last step.

    See Also
    --------
    make_pipeline : The same without names.

    Notes
    -----
    A pipeline of scikit-learn's own gets the verbs, without another fit, as
    ``Pipeline(pipe.steps)``.

    The best pipeline of a search has the verbs: ``search.best_estimator_.predict_top(X, 100)``.
    A :class:`~sklearn.frozen.FrozenEstimator` around it, or as its last step, has them, too. A
    :class:`~sklearn.calibration.CalibratedClassifierCV` has none, neither around it nor as its last
    step: take the `calibration` of the classifier, or put a `BudgetClassifier` or `SetClassifier`
    around the whole.

    Metadata that a verb gets is routed as that of `predict`: to the last step as it requests it
    by ``set_predict_request``, to the others as they request it for `transform`. Without metadata
    routing the last step gets all of it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sktopk import Pipeline, TopKClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0)
    >>> pipe = Pipeline([("scale", StandardScaler()), ("clf", clf)]).fit(X, y)
    >>> pipe.predict_topk(X[:1])
    array([[0, 2]])
    """

    @available_if(_last_has("predict_top"))
    def predict_top(self, X: RowsLike, n: int | None = None, **params: Any) -> np.ndarray:
        """Transform X, and return the rows that the last step ranks first.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Or a stream: an iterable without shape and indexing of such tables, or of tuples that
            begin with one, each of which is transformed when it comes. A Dataset and a memory map
            are read in parts, too.
        n : int, default=None
            How many rows; None where the last step takes it.
        **params : dict
            Metadata, such as the `groups` of a `BudgetClassifier`.

        Returns
        -------
        index : ndarray of shape (n,)
            Row numbers, best first.

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        Xt = map(transformed, parts(X)) if has_parts(X) else transformed(X)
        return _last(self).predict_top(Xt, n, **metadata)

    @available_if(_last_has("predict_queue"))
    def predict_queue(self, X: RowsLike, **params: Any) -> Queue:
        """Transform X, and return the rows to look at and the chance with which each was chosen.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            A batch as a whole.
        **params : dict
            Metadata, such as the `groups` of a `BudgetClassifier`.

        Returns
        -------
        rows : ndarray of shape (n_top,)
            Row numbers, best first.
        propensity : ndarray of shape (n_top,)
            Probability in (0, 1].

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        return _last(self).predict_queue(transformed(X), **metadata)

    @available_if(_last_has("predict_topk"))
    def predict_topk(self, X: RowsLike, k: int | None = None, **params: Any) -> np.ndarray:
        """Transform X, and return the k best labels of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        k : int, default=None
            Number of labels, 1 <= k < n_classes; None is that of the last step.
        **params : dict
            Metadata.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Best first.

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        return _last(self).predict_topk(transformed(X), k, **metadata)

    @available_if(_last_has("predict_topk_proba"))
    def predict_topk_proba(
        self,
        X: RowsLike,
        k: int | None = None,
        *,
        transform: Sequence[Callable] | None = None,
        **params: Any,
    ) -> np.ndarray:
        """Transform X, and return the probability of each class to belong to the top k.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features), or a list
            A list of such tables holds several views of the same rows.
        k : int, default=None
            Number of classes drawn, 1 <= k < n_classes; None is that of the last step.
        transform : list of callables, default=None
            Each makes one view of X, before the steps.
        **params : dict
            Metadata.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to k.

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        views = [transformed(view) for view in views_of(X, transform)]
        return _last(self).predict_topk_proba(views, k, **metadata)

    @available_if(_last_has("predict_set"))
    def predict_set(
        self, X: RowsLike, *, groups: ArrayLike | None = None, output: str = "matrix", **params: Any
    ) -> csr_array | list[np.ndarray]:
        """Transform X, and return the set of labels of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, where the last step needs them.
        output : {"matrix", "labels", "nodes"}, default="matrix"
            A matrix with one column per class, the labels themselves, or nodes of a hierarchy.
        **params : dict
            Metadata.

        Returns
        -------
        y_set : CSR array of shape (n_samples, n_classes), bool, or list of ndarray
            True where the class of the column is in the set of the row, or one array per row.

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        return _last(self).predict_set(transformed(X), groups=groups, output=output, **metadata)

    @available_if(_last_has("hits_interval"))
    def hits_interval(self, X: RowsLike, n: ArrayLike, **params: Any) -> tuple[Any, Any]:
        """Transform X, and bound how many of its n best rows are positive.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            A batch as a whole.
        n : int or array-like of int of shape (n_numbers,)
            How many rows, those of ``predict_top(X, n)``.
        **params : dict
            Metadata.

        Returns
        -------
        low, high : int or ndarray of shape (n_numbers,)
            Numbers of positives.

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        return _last(self).hits_interval(transformed(X), n, **metadata)

    @available_if(_last_has("expected_value"))
    def expected_value(
        self, X: RowsLike, value: ArrayLike | None = None, **params: Any
    ) -> np.ndarray:
        """Transform X, and return what each row is expected to bring.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        value : array-like of shape (n_samples,), default=None
            What each row is worth if it is positive. None: 1.
        **params : dict
            Metadata.

        Returns
        -------
        value : ndarray of shape (n_samples,)
            In the unit of `value`.

        Raises
        ------
        TypeError, ValueError
            As the steps do.
        """
        transformed, metadata = self._before_last(params)
        return _last(self).expected_value(transformed(X), value, **metadata)

    def __getattr__(self, name):
        # Python comes here with what is not there: methods, too, that are not available.
        is_method = not name.startswith("_") and hasattr(type(self), name)
        if "steps" in vars(self) and (is_method or name.startswith("oob_")):
            try:
                found = getattr(_last(self), name)
            except AttributeError as reason:
                raise AttributeError(f"{type(self).__name__}: {reason}") from None
            if not is_method:
                return found
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _in_one_line(self):
        steps = self.steps if isinstance(self.steps, list) and self.steps else [("", None)]
        in_one_line = getattr(steps[-1][1], "_in_one_line", super()._in_one_line)
        return in_one_line()

    def _before_last(self, params):
        """Return what transforms X for the last step, and what of the metadata this gets."""
        check_is_fitted(self)
        is_routed = get_config()["enable_metadata_routing"]
        routed = process_routing(self, "predict", **(params if is_routed else {}))
        *before, (name, _) = self.steps

        def transformed(X):
            for each, step in before:
                if step is not None and step != "passthrough":
                    X = step.transform(X, **routed[each].transform)
            return X

        return transformed, routed[name].predict if is_routed else params


@public
def make_pipeline(
    *steps: Any, memory: Any = None, transform_input: list[str] | None = None, verbose: bool = False
) -> Pipeline:
    """Make a `Pipeline` of steps, each named after its class in lower case.

    Parameters
    ----------
    *steps : estimators
        All but the last transformers, in the order in which they apply.
    memory : str or object with the joblib.Memory interface, default=None
        Where to cache fitted transformers.
    transform_input : list of str, default=None
        Parameters of `fit`, such as "X_val", that go through the steps as X does. With metadata
        routing only.
    verbose : bool, default=False
        Whether to print how long each step takes to fit, in seconds.

    Returns
    -------
    pipe : Pipeline
        scikit-learn's, with the verbs of its last step.

    Raises
    ------
    ValueError, TypeError
        When fitted, if a step is none.

    See Also
    --------
    Pipeline : With names, and what the verbs do.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sktopk import DeepTopPushClassifier, make_pipeline
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = DeepTopPushClassifier(max_epochs=20, random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), clf).fit(X, y)
    >>> bool(y[pipe.predict_top(X, 100)].all())
    True
    """
    named = pipeline.make_pipeline(*steps).steps
    return Pipeline(named, transform_input=transform_input, memory=memory, verbose=verbose)
