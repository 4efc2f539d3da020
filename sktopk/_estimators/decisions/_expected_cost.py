"""ExpectedCostClassifier: the label of least expected cost, on top of any classifier."""

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sktopk._common._input import check_labels, check_weight, encode_labels
from sktopk._common._public import public
from sktopk._common._scalars import on_host
from sktopk._common._types import RowsLike

from ._any_classifier import predict_class_proba
from ._base import Decision


@public
class ExpectedCostClassifier(Decision):
    r"""Classifier that predicts the label of least expected cost, made from any other classifier.

    With the probabilities :math:`p(i \mid x)` of the classifier and the cost :math:`C_{ij}` of
    answering j where i is true, the answer is [1]_

    .. math::
        \hat y(x) = \arg\min_j \sum_i p(i \mid x) \, C_{ij}

    Of all rules that know x alone, this one has the least cost on average, if the probabilities are
    right: if among new rows of the same probabilities each class has the share that they say. That
    is all it rests on, and scores that were never calibrated seldom are. Calibrate them
    inside, by a :class:`~sklearn.calibration.CalibratedClassifierCV` or the `calibration` of
    a `TopKClassifier`. A prior shift, such as of rows that were resampled for training, breaks it
    as well.

    Parameters
    ----------
    estimator : estimator
        Classifier with `predict_proba`. `fit` trains a clone on all rows; a fitted classifier in a
        :class:`~sklearn.frozen.FrozenEstimator` is kept.
    cost_matrix : array-like or frame of shape (n_classes, n_classes), default=None
        Cost of each answer, in any unit: a row for each true class and a column for each
        answer, as in a confusion matrix. An array has both in the order of `classes_`; a
        frame names them by its index and columns, in any order, and may have more labels.
        Numbers below 0 are gains. None: 1 for each error, so that the most probable label is
        predicted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Its labels.
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        The costs, in the order of `classes_`.
    n_features_in_ : int
        Number of features seen in `fit`, if `estimator_` knows it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features seen in `fit`, if `estimator_` knows them.

    See Also
    --------
    BudgetClassifier : Rows of most expected value within a budget.
    SetClassifier : Several labels where one is not sure.
    sklearn.model_selection.FixedThresholdClassifier : Of two classes, by a threshold of one's own.

    Notes
    -----
    Of answers that cost the same the one of the lower column is given. A number added to a row of
    the matrix changes no answer. An answer that costs more than another one, whatever is true, is
    never given. There is no `predict_proba`: the probabilities of `estimator_` know no
    costs, and would contradict `predict`.

    References
    ----------
    .. [1] C. Elkan. The foundations of cost-sensitive learning. IJCAI 2001, equation 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sktopk import ExpectedCostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> names = load_iris().target_names
    >>> cost = pd.DataFrame(1.0, index=names, columns=names)
    >>> for name in names:
    ...     cost.loc[name, name] = 0
    >>> cost.loc["virginica", "versicolor"] = 4
    >>> X, y = X[:, :2], names[y]
    >>> clf = ExpectedCostClassifier(GaussianNB(), cost_matrix=cost).fit(X, y)
    >>> plain = ExpectedCostClassifier(GaussianNB()).fit(X, y)
    >>> int(sum(plain.predict(X) == "versicolor")), int(sum(clf.predict(X) == "versicolor"))
    (57, 21)
    >>> print(f"{clf.score(X, y):.2f}")
    -0.34
    """

    def __init__(self, estimator: Any, *, cost_matrix: ArrayLike | None = None) -> None:
        self.estimator = estimator
        self.cost_matrix = cost_matrix

    def fit(self, X: RowsLike, y: ArrayLike, **fit_params: Any) -> Self:
        """Train the classifier on all rows, and put the costs in the order of its labels.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Whatever `estimator` takes.
        y : array-like of shape (n_samples,)
            Class labels.
        **fit_params : dict
            Passed to the `fit` of `estimator`. With metadata routing enabled, what it requests.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or y is not allowed, or if the classifier has no probabilities.
        """
        self._check_params()
        y, fit_params = check_labels(y), self._routed(fit_params)
        estimator = self._fitted_clone(X, y, fit_params)
        if not (hasattr(estimator, "predict_proba") and hasattr(estimator, "classes_")):
            raise TypeError(
                "estimator must have predict_proba and classes_, since expected costs need "
                "probabilities; got "
                f"{estimator!r:.80}: wrap it in a CalibratedClassifierCV"
            )
        classes = np.asarray(on_host(estimator.classes_, "classes_ of estimator"))
        cost_matrix = costs_of(self.cost_matrix, classes)
        return self._replace_fitted(estimator, classes_=classes, cost_matrix_=cost_matrix)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the label of least expected cost.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`.
        """
        answer = self._expected_cost(X).argmin(axis=1)
        return self.classes_[answer]

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return what each answer is expected to save, compared with a cost of 0.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Minus the expected cost of each answer, in the unit of `cost_matrix`. Of two classes
            what ``classes_[1]`` saves: above 0 it is predicted.
        """
        cost = self._expected_cost(X)
        return cost[:, 0] - cost[:, 1] if cost.shape[1] == 2 else -cost

    def score(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean cost of `predict`, the larger the better.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            In the unit of `cost_matrix`; without one minus the share of errors.

        Raises
        ------
        ValueError
            If the costs of a label are not known, or weights are not allowed.
        """
        check_is_fitted(self)
        y = check_labels(y)
        true, answer = encode_labels(self.classes_, y), self._expected_cost(X).argmin(axis=1)
        if (true < 0).any() and self.cost_matrix is not None:
            raise ValueError(
                f"y must have labels with a row in cost_matrix, {self.classes_[:5].tolist()}; got "
                f"{y[true < 0][0]!r}"
            )
        cost = np.where(true < 0, 1.0, self.cost_matrix_[true, answer])
        return -float(np.average(cost, weights=check_weight(sample_weight, len(y))))

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator).classifier_tags
        if inner is not None:
            tags.classifier_tags = inner
        return tags

    def _check_params(self):
        super()._check_params()
        if self.cost_matrix is not None:
            _values(self.cost_matrix)

    def _expected_cost(self, X):
        check_is_fitted(self)
        _, proba = predict_class_proba(self.estimator_, X)
        # In an order of its own for each row: a product of matrices rounds by their size, which
        # would break ties in one batch otherwise than in another.
        return np.einsum("ni,ij->nj", proba.astype(np.float64), self.cost_matrix_)


def costs_of(cost_matrix, classes):
    """Return the costs in the order of the classes."""
    n_classes = len(classes)
    if cost_matrix is None:
        return 1.0 - np.eye(n_classes)
    values = _values(cost_matrix)
    if isinstance(cost_matrix, pd.DataFrame):
        places = []
        for name, labels in {"index": cost_matrix.index, "columns": cost_matrix.columns}.items():
            place = {label: i for i, label in enumerate(labels.tolist())}
            missing = [label for label in classes.tolist() if label not in place]
            if missing or len(place) < len(labels):
                problem = f"none for {missing[:5]}" if missing else f"some twice: {[*labels][:5]}"
                raise ValueError(
                    f"cost_matrix must have each class once in its {name}; got {problem}"
                )
            places.append([place[label] for label in classes.tolist()])
        return values[np.ix_(*places)]
    if values.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost_matrix must have a row and a column for each of the {n_classes} classes "
            f"{classes[:5].tolist()}; got shape {values.shape}"
        )
    return values


def _values(cost_matrix):
    """Return the costs as floats; raise unless they are finite numbers in a table."""
    try:
        values = np.asarray(cost_matrix)
    except (RuntimeError, TypeError, ValueError):
        values = np.empty(0, dtype=object)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"cost_matrix must be a table of numbers, a row per true class; got {cost_matrix!r:.80}"
        )
    values = values.astype(np.float64)
    refused = values[~np.isfinite(values)]
    if len(refused):
        raise ValueError(f"cost_matrix must be finite; got {refused[0]:g}")
    # Expected costs are differences of what may be as large.
    if np.abs(values).max(initial=0) > 1e300:
        raise ValueError(f"cost_matrix must be below 1e300; got {np.abs(values).max():g}")
    return values
