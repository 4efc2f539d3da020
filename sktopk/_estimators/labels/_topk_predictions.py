"""What a fitted TopKClassifier answers beside labels: subsets and probabilities."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import softmax

from sktopk._common._available import available_if
from sktopk._common._input import views_of
from sktopk._common._types import RowsLike
from sktopk._estimators._calibration import calibrate, calibrated_proba, is_planned, way_out
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._training._class_blocks import best_classes
from sktopk.losses._loss import check_k
from sktopk.losses._smooth_topk import topk_inclusion_proba

from ._losses import LOSSES, log_frequencies


def has_proba(classifier):
    """Return True if `predict_proba` means something, else raise with the way out."""
    loss = classifier._loss_in_use
    if hasattr(classifier, "net_"):
        available = hasattr(classifier, "calibration_") or classifier._models_proba_
    else:
        # Which loss "auto" becomes is not known yet.
        available = is_planned(classifier) or classifier.order is not None
        available = available or classifier._loss_has_proba()
    if not available:
        proper = [name for name, each in LOSSES.items() if each.models_proba]
        raise AttributeError(
            f"predict_proba is not available for loss={loss!r} without calibration: its "
            f"scores are not probabilities. {way_out(classifier)}, or set loss to one of "
            f"{', '.join(map(repr, proper))}, and fit"
        )
    return True


class TopKPredictions:
    """Predictions of one score per class: the k best labels, and probabilities."""

    def predict(self, X: RowsLike) -> np.ndarray:
        return self._best(self._rows(X), 1)[:, 0]

    predict.__doc__ = NetClassifier.predict.__doc__

    def predict_topk(self, X: RowsLike, k: int | None = None) -> np.ndarray:
        """Return the k labels of highest score of each row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        k : int, default=None
            Number of labels, 1 <= k < n_classes; None is `k_`.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Best first, in the dtype of the y of `fit`; tied labels in the order of `classes_`.

        Raises
        ------
        TypeError, ValueError
            If k is not an integer or out of range.
        """
        rows = self._rows(X)
        return self._best(rows, self._check_predict_k(k))

    def predict_topk_proba(
        self, X: RowsLike, k: int | None = None, *, transform: Sequence[Callable] | None = None
    ) -> np.ndarray:
        """Return the probability of each class to belong to the top k.

        See Berrada, Zisserman and Kumar (2018), eq. 63: exponents are ``c s / (k_ tau)`` for the
        smooth losses, whose model they are, and s for any other. c is the `score_scale` where
        the loss had it, which is after a warm-up, and 1 where the scores have it themselves.
        "smooth_topk_adjusted" models classes that are equally frequent: its sets are not those
        of the frequencies of the training.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features), or a list
            A list of such tables holds several views of the same rows, such as crops of
            images; the probabilities are averaged over them.
        k : int, default=None
            Number of classes drawn, 1 <= k < n_classes; None is `k_`. It sets the size of the
            sets only, not the exponents.
        transform : list of callables, default=None
            Each makes one view of X.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to k; columns in the order of `classes_`.

        Raises
        ------
        TypeError, ValueError
            If k is not an integer or out of range; if views differ in their number of rows.
        """
        views = [self._rows(view) for view in views_of(X, transform)]
        sizes = [len(rows) for rows in views]
        if len(set(sizes)) != 1:
            raise ValueError(f"X must be one table or views of the same rows; got {sizes} rows")
        k = self._check_predict_k(k)
        unit, shape = self._exponent_unit_, (len(self.classes_),)
        each = [
            self._map_rows(
                rows, shape, None, lambda s: topk_inclusion_proba(s / unit, k=k), in_order=True
            )
            for rows in views
        ]
        return sum(each) / len(each)

    @available_if(has_proba)
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return the probability of each class.

        Available if the loss models probabilities, "cross_entropy" (also as a module, also of
        torch, and with label smoothing, where they are those of the smoothed labels) and
        "logit_adjusted"; or with `calibration`. Classes have the frequencies of the training, also
        for "logit_adjusted", whose `predict` looks for the label that is best where all are
        equally frequent: it need not be the most probable one.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        return self._proba_of(self._scores(X, in_order=True))

    def _proba_of(self, scores):
        """The probabilities of scores; with two heads, of those of cross-entropy."""
        scores = self._log_proba(scores)
        if not hasattr(self, "calibration_"):
            return softmax(scores, axis=1)
        return calibrated_proba(*self.calibration_, scores)

    def _best(self, rows, k):
        """Labels (n_samples, k) of highest score."""
        index = np.empty((len(rows), k), np.int32)
        for chunk, classes in best_classes(self.net_, rows, k):
            index[chunk] = classes.cpu().numpy()
        return self.classes_[index]

    def _unseen(self, X, folds):
        """For each fold of the rows of a fit, this estimator as members that left it out answer.

        Yields
        ------
        index : ndarray
            The rows of the fold.
        judged : estimator
            Which predicts from the scores of those members, for rows that are given as their
            numbers in the fold, or else for all of the fold.
        """
        scores = self.net_.score_out_of_fold(self._rows(X), folds)
        for fold in range(folds.n_folds):
            index = np.flatnonzero(folds.fold == fold)
            yield index, self._answering(scores[index])

    def _answering(self, scores):
        """This estimator with these scores of its network, whatever rows it is asked for."""
        answer, judged = self.net_.answer, self._knowing(None)

        def map_rows(rows, shape, dtype, function, in_order=False):
            some = scores[rows] if np.ndim(rows) == 1 else scores
            return function(answer.in_order(some) if in_order else answer(some)).numpy()

        def best(rows, k):
            order = np.argsort(-judged._scores(rows), axis=1, kind="stable")
            return self.classes_[order[:, :k]]

        del judged._scores
        vars(judged).update(_map_rows=map_rows, _best=best, _rows=lambda X: X)
        return judged

    def _calibrate(self, rows, scores=None):
        if scores is None:
            scores = self._scores(self.net_.rows(rows.X), in_order=True)
        else:
            scores = self.net_.answer.in_order(scores).numpy()
        calibrate(self, self._log_proba(scores), rows.y, rows.weight)

    def _log_proba(self, scores):
        """Scores with what the loss has taken out of them, if they stand for probabilities."""
        return scores + np.asarray(self._log_frequencies, dtype=scores.dtype)

    @property
    def _log_frequencies(self):
        """What `_log_proba` adds: 0, or a number per class."""
        if not self._models_proba_ or self.net_.k_ordered is not None:
            return 0.0
        return log_frequencies(self.net_.criterion_.losses)

    def _check_predict_k(self, k):
        return self.k_ if k is None else check_k(k, len(self.classes_))
