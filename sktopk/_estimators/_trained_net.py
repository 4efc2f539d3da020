"""A trained network as an estimator: what it answers, and a state that outlives the process."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sktopk._common._input import check_rows, own_labels
from sktopk._common._types import RowsLike
from sktopk._training._batches import Rows
from sktopk._training._process import trainable
from sktopk._training._state import load_net_state, net_state

from ._parameters import TrainingParameters


class TrainedNet(ClassifierMixin, TrainingParameters):
    """Scores and labels of the network that a subclass keeps as `net_`, and copies of it.

    A subclass defines `_task(dtype)` and `_default_scorer()`, see :class:`NetClassifier`.
    """

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Score every class of every row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores in the float type of the network, columns in the order of `classes_`. For
            two classes the second score minus the first: positive means ``classes_[1]``.
        """
        return self._decision(self._scores(X))

    def _decision(self, scores):
        """What `decision_function` makes of the scores of the network."""
        return scores if len(self.classes_) > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the label of the highest score of each row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`; the first of tied labels.
        """
        y_score = self.decision_function(X)
        index = y_score > 0 if y_score.ndim == 1 else y_score.argmax(axis=1)
        return self.classes_[index.astype(np.intp)]

    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the metric that the estimator optimises; see the class.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels; None only for a Dataset that has them.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            The larger, the better; NaN, with a warning, where y lacks the class it needs.
        """
        check_is_fitted(self)
        fitted = self._as_fitted(self.net_.params_of_net)
        y = own_labels(X, y, needed=True)
        return fitted._default_scorer()(fitted, X, y, sample_weight=sample_weight)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "net_")

    def __getstate__(self):
        # A skorch net carries a pickle inside its pickle: keep arrays and plain values, and
        # the parameters it was built from, which set_params may have changed since.
        state = dict(super().__getstate__())
        if "net_" in state:
            net = state.pop("net_")
            state["net_"], state["_params_of_net"] = net_state(net), net.params_of_net
        return state

    def __setstate__(self, state):
        state = dict(state)
        net, params = state.pop("net_", None), state.pop("_params_of_net", None)
        super().__setstate__(state)
        if net is None:
            return
        fitted = self._as_fitted(params)
        if not torch.cuda.is_available():
            # A model from a machine with a GPU still loads where there is none.
            fitted.device = "cpu"
        with trainable():
            task = fitted._task(net["dtype"])
            self.net_ = task.net.build(task, seed=0)
            load_net_state(self.net_, net)
        self.net_.params_of_net = params

    def _as_fitted(self, params):
        """This estimator with the parameters of its fit, which set_params may have changed."""
        fitted = type(self)(**params)
        vars(fitted).update({k: v for k, v in vars(self).items() if k.endswith("_")})
        return fitted

    def _knowing(self, scores):
        """This estimator for rows that are known by number, with these scores of the network."""
        return self._with(_scores=lambda X: scores[X])

    def _with(self, **attributes):
        """A shallow copy, which shares the net, with some more attributes."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), **attributes)
        return other

    def _numpy_dtype(self):
        return np.dtype(str(self.net_.dtype).removeprefix("torch."))

    def _rows(self, X):
        """X, checked, as rows to predict."""
        check_is_fitted(self)
        return self.net_.rows(check_rows(self, X, reset=False))

    def _map_rows(self, X, shape, dtype, function, in_order=False):
        """Apply `function` to the scores of chunks of rows; X may be checked `Rows`."""
        rows = X if isinstance(X, Rows) else self._rows(X)
        out = np.empty((len(rows), *shape), self._numpy_dtype() if dtype is None else dtype)
        for chunk, scores in self.net_.score_rows(rows, in_order):
            out[chunk] = function(scores).cpu().numpy()
        return out

    def _scores(self, X, in_order=False):
        """Scores of shape (n_samples, n_classes), or (n_samples,) of one output.

        With two heads, they are one, or those of the second, see `Answer`.
        """
        check_is_fitted(self)
        if self.net_.n_scores == 1:
            return self._map_rows(X, (), None, lambda scores: scores.flatten())
        return self._map_rows(X, (self.net_.n_scores,), None, lambda scores: scores, in_order)
