"""What the classifiers that rank rows share: one score a row, and a threshold on it."""

import dataclasses
import math
from dataclasses import KW_ONLY
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import hypergeom
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sktopk._common._available import available_if
from sktopk._common._groups import encode_groups
from sktopk._common._input import check_classes, check_table, own_labels
from sktopk._common._scalars import (
    check_auto,
    check_number,
    check_option,
    check_pos_label,
    negative_first,
    on_host,
    place_of,
    positive_label,
)
from sktopk._common._types import Label, RowsLike
from sktopk._common._unseen import scores_as_unseen
from sktopk._common._warnings import warn
from sktopk._estimators._best_rows import rows_on_top
from sktopk._estimators._between_scores import midway_below
from sktopk._estimators._calibration import (
    calibrate,
    calibrated_proba,
    columns_of_score,
    is_planned,
    way_out,
)
from sktopk._estimators._logs import rows_to_train_with
from sktopk._estimators._net_classifier import NetClassifier, has_partial_fit
from sktopk._estimators._parameters import estimator
from sktopk._estimators._validation import MeanOverGroups, refuse_groups, rows_of_groups
from sktopk._training._process import joined
from sktopk._training.criteria._top import TopCriterion
from sktopk.losses._accuracy_at_top import SURROGATES
from sktopk.losses._thresholds import in_group
from sktopk.metrics._top_scorer import TopScorer

# The share of what precision could be at its own threshold below which a training has failed.
POOR = 2 / 3
# How often rows drawn by lot may be as good before it is said.
CHANCE = 0.05
BEGIN_WITH_CROSS_ENTROPY = ", and warm_up=20, which begins with cross-entropy"


def has_proba(classifier):
    """Return True if `predict_proba` means something, else raise with the way out."""
    fitted = hasattr(classifier, "net_")
    if not (hasattr(classifier, "calibration_") if fitted else is_planned(classifier)):
        raise AttributeError(
            "predict_proba is not available without calibration: scores above a threshold are "
            f"not probabilities. {way_out(classifier)}, and fit"
        )
    return True


@estimator
class RankingClassifier(NetClassifier):
    """A classifier of two classes that scores rows, with a threshold on the scores.

    A subclass defines `_task(dtype)`, `_scorer()` (name and parameters of `make_top_scorer`) and
    `_score_threshold(scores, positive, weight)`: the score of the last row that is flagged, of
    all scores, the mask of the positives and weights, tensors in float64. It may define

    - `_is_ranking(classes)`: whether there is one score a row, with a threshold;
    - `_check_groups(groups)`: raises where the loss cannot have groups, or must have some;
    - `_has_threshold(positive, weight)`: whether a group of such rows has a threshold;
    - `_midway(scores, t)`: what `threshold_` is, of the score t that `_score_threshold` finds;
    - `_judged_on_validation`: whether validation rows of the user's, where there are some,
      determine the threshold;
    - `_default_scorer()`: the scorer behind `score`, if it is none of `make_top_scorer`;
    - `_has_places`: whether the threshold stands for a number of rows that are flagged;
    - `_unit`: the distance that the loss asks of scores;
    - `_warn_of_ranking(scores, positive, weight)`: says at the end of a fit what it lacks.

    Parameters
    ----------
    pos_label : int, float, bool or str, default=None
        Label of the positives, which should come on top. None is 1 or True beside 0, -1 or
        False, with a warning where positives are at least twice as many as negatives. Of other
        labels, such as "fraud" and "ok", None is the rarer one in the first rows that come (by
        weight; of two equally frequent ones the second), with a warning that names it. It comes
        first in `predict_top`, scorers and displays; `decision_function` stays one of
        ``classes_[1]``.
    min_positives : int, default=5
        Least number of positives in a minibatch, see
        :class:`sktopk.samplers.StratifiedBatchSampler`. Smaller than `batch_size`.
    module : callable, default=None
        An nn.Module class or a function ``(n_features, n_outputs) -> nn.Module`` with
        n_outputs = 1, for images ``(n_channels, n_outputs)``. None is
        :class:`sktopk.modules.TabularMLP`. A network that has a method ``from_data(X)`` is shown
        the rows it is to be trained on before the first step, a Tensor on the CPU, at most
        32 768 of them, to take scales or bins of the columns from.
    max_epochs : int, default=100
        Passes over the data; over the negatives, if positives are too rare for every batch.
    scoring : str, callable or None, default=None
        Score of the validation rows. None is :func:`sktopk.metrics.partial_auc_log_score` from a
        false-positive rate of one negative to 1, which hangs on many rows, where the metric of
        `score` may hang on one. One of probabilities, such as "neg_log_loss", needs
        `calibration`, which is then fitted on these rows after each epoch.
    calibration : {"temperature", "sigmoid", "auto"} or None, default=None
        How held-out rows (X_val, y_val, or `validation_fraction` of the rows) turn scores into
        probabilities after training; only then is there a `predict_proba`. "temperature"
        leaves 1/2 at `threshold_`, "sigmoid" also fits the base rate. "auto" is "sigmoid" where
        rows are left out of the training anyway, by `cross_fit`, `early_stopping` or X_val, and
        nothing elsewhere: it costs no row.
    callbacks : list, default=None
        skorch callbacks or ``(name, callback)`` pairs; copied. They see labels 0 and 1, which
        is the positive one.

    Attributes
    ----------
    threshold_ : float
        What is subtracted from the scores, of which the higher are the likelier positive;
        `predict` says `pos_label_` above it. It is taken from the scores of the training rows, with
        `cross_fit` from those that the mean of all members would give if none had seen the row:
        a member's scores of the rows that it was trained on are moved, by rank and class, to those
        of the rows that it left out. It then flags about as many fresh rows as asked for, up to
        twice as many where these are a few of the training rows (:doc:`measured </top>`), and
        more of those in `oob_decision_function_`, each scored by one member. Of a class with
        fewer than three rows left out by a member, the scores are those of the members that left
        a row out. After `partial_fit` it is estimated from the last piece.
    pos_label_ : int, float, bool or str
        Label of the positives. `predict_top` has their rows first, and `score` counts them.
    classes_ : ndarray of shape (2,)
        Sorted labels, whichever is the positive one.
    class_count_ : ndarray of shape (2,)
        Sum of the sample weights of each class in training, float64.
    n_groups_ : int
        Number of groups, if `fit` got more than one.
    """

    _: KW_ONLY
    pos_label: Label | None = None
    min_positives: int = 5

    # For `predict_top`, whose metadata pipelines route as that of `predict`.
    __metadata_request__predict = {"groups": True}  # noqa: RUF012
    # As decisions have it: a log is meant for whoever fits.
    __metadata_request__fit = {"propensity": True}  # noqa: RUF012

    _multi_class, _unit = False, 1.0
    _stratify = True
    # A threshold at the top is no even chance.
    _auto_calibration = "sigmoid"
    # Whether so many rows are above the threshold, whatever their labels.
    _has_places = False
    _judged_on_validation = False

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        X_val: RowsLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        r"""Train the network, with groups for the top of each of them.

        .. math:: L = \frac{1}{G} \sum_g L_g

        The loss of each group is that of the class on its rows alone, with a threshold of their
        own, as the losses of :mod:`sktopk.losses` have it. A rank k is one of each group, and so
        is an F-score, a recall or a precision.

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val
            As for :meth:`TopKClassifier.fit`, but that `y_val` of two classes has rows of both
            and of no other. Validation rows of your own have no groups. A rank that is a number
            of rows, such as k=100, counts weights: let them be about 1 a row.
            A share asks for the same whatever they sum to, but for the rounding to whole rows.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, such as its day, query or plate: anything that can be
            a key of a dict. Groups that lack the rows that can be errors (most often the
            positives) teach nothing, and those without rows of the threshold (most often the
            negatives) count with a loss of zero; where the loss is a linear program, groups that
            lack a class teach nothing. Rows are held out, by `early_stopping`,
            `calibration` and `cross_fit`, as whole groups, and scored by groups unless `scoring`
            is set. None, and one group: all rows are one list.
        propensity : array-like of shape (n_samples,), default=None
            For the log of a queue: the probability in (0, 1] with which the label of each row came
            to be known, NaN where it did not. Such rows are left out, whatever their y, and the
            others weigh 1 / propensity, times their weight: the same fit as of these rows with such
            weights. It warns if all known ones are 1: then no other row had a chance.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As :meth:`TopKClassifier.fit` does; TypeError if the threshold takes no groups,
            ValueError for groups of rows of more than two classes.

        Notes
        -----
        A minibatch has whole groups, up to `batch_size` rows and one group more. Groups of more
        rows come in parts, each with its share of the positives, at least `min_positives`; parts of
        up to ten groups make a batch of `batch_size`. Their thresholds are estimated with the hard
        rows of the group, and linear programs have the classes weigh what they weigh in the group.
        `threshold_` is the median of the thresholds of the groups: for "k of each day" of new
        days take `predict_top`, which needs no threshold. It can fit no day exactly.
        """
        self._check_params()
        self._check_groups(groups)
        if propensity is not None:
            given = X, y, sample_weight, groups
            X, y, sample_weight, groups = rows_to_train_with(*given, propensity)
        return self._fit(X, y, sample_weight, X_val, y_val, groups)

    @available_if(has_partial_fit)
    def partial_fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on a piece of the data.

        Parameters
        ----------
        X, y, classes, sample_weight
            As for :meth:`TopKClassifier.partial_fit`.
        groups : array-like of shape (n_samples,), default=None
            As for `fit`. Groups of different pieces are different groups, whatever their names:
            a piece should have whole ones. Hard rows are forgotten with the piece.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As :meth:`TopKClassifier.partial_fit` does, and TypeError for groups of a stream.
        """
        self._check_params()
        self._check_groups(groups)
        if groups is not None:
            check_table(X)
        return self._partial_fit(X, y, classes, sample_weight, groups)

    def score(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the metric that the estimator optimises; see the class.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels; None only for a Dataset that has them.
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, known from `fit` or not. The score is then the mean
            over the groups that have both classes of that of each.

        Returns
        -------
        score : float
            The larger, the better; NaN, with a warning, where y lacks the class it needs.
        """
        check_is_fitted(self)
        fitted = self._as_fitted(self.net_.params_of_net)
        if groups is None:
            fitted._check_groups(None)
            return super().score(X, y, sample_weight)
        refuse_groups(self.classes_)
        y = np.asarray(on_host(own_labels(X, y, needed=True), "y"))
        groups = encode_groups(groups, len(y))
        of_all = fitted._default_scorer()
        scorer = MeanOverGroups(fitted, y, groups, lambda _: of_all)
        return scorer(fitted, X, y, sample_weight)

    def _check_groups(self, groups):
        """Raise where groups are given to a loss that takes none; once parameters are checked."""

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Score every row, relative to the threshold.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples,)
            Score minus `threshold_`, in the float type of the network. A number above 0 means
            ``classes_[1]``, as everywhere in scikit-learn: where `pos_label_` is ``classes_[0]``
            the sign is turned, and the lowest numbers are the likeliest positives: pass
            the negative to :func:`sktopk.metrics.precision_at_k_score` and the like.
            :class:`AUCClassifier` has a score for each of several classes.
        """
        return super().decision_function(X)

    def _decision(self, scores):
        y_score = self._above_threshold(scores)
        return -y_score if self._turned else y_score

    def _above_threshold(self, scores):
        """Scores of the network minus the threshold: above 0 is positive."""
        # In float64, where the difference of two scores cannot vanish.
        return (scores.astype(np.float64) - getattr(self, "threshold_", 0.0)).astype(scores.dtype)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the label of each row: `pos_label_` above `threshold_`.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`. Of several classes the one of the highest score, the
            first of tied ones.
        """
        check_is_fitted(self)
        if not self._is_ranking(self.classes_):
            return super().predict(X)
        above = self._above_threshold(self._scores(X)) > 0
        return negative_first(self.classes_, self.pos_label_)[above.astype(np.intp)]

    def predict_top(self, X: RowsLike, n: int, groups: ArrayLike | None = None) -> np.ndarray:
        """Return the rows of highest score, of each group if there are groups.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            Or a stream: an iterable without shape and indexing of such tables, or of tuples
            that begin with one. Of it, no more than a piece is in memory, and n rows' scores.
        n : int
            How many, 1 <= n <= n_samples; with groups of each, all of one that has fewer, with a
            warning.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, known from `fit` or not: "100 a day".

        Returns
        -------
        index : ndarray of shape (n_top,)
            Row numbers, best first, also across groups; tied rows in the order of X. Those of a
            stream go on from piece to piece.

        Raises
        ------
        TypeError, ValueError
            If n is not an integer or out of range, or groups are not one for each row.
        """
        check_is_fitted(self)
        return rows_on_top(self._scores, X, n, groups)

    @available_if(has_proba)
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return the probability of each class; available with `calibration`.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, 2)
            Rows sum to 1; columns in the order of `classes_`.
        """
        check_is_fitted(self)
        return self._proba_of(self.decision_function(X))

    def _proba_of(self, y_score):
        """The probabilities of decision scores."""
        return calibrated_proba(*self.calibration_, columns_of_score(y_score))

    @property
    def _group_count(self):
        """What negatives and positives weigh in training."""
        return self.class_count_[::-1] if self._turned else self.class_count_

    def _prepare(self, partial):
        if hasattr(self, "n_groups_"):
            refuse_groups(self.classes_)
        # A net that goes on keeps to it.
        if self._is_ranking(self.classes_) and not hasattr(self, "pos_label_"):
            self.pos_label_ = positive_label(self.pos_label, self.classes_, self.class_count_)

    def _check_params(self):
        super()._check_params()
        check_pos_label(self.pos_label)
        check_number(self.min_positives, "min_positives", 0, integer=True)
        # The least that "auto" may be.
        batch_size = 128 if isinstance(self.batch_size, str) else self.batch_size
        if self.min_positives >= batch_size:
            raise ValueError(
                f"min_positives={self.min_positives} must be smaller than batch_size={batch_size}"
            )

    def _check_classes(self, y, name="y"):
        classes = check_classes(y, name)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"multiclass: {name} must have 2 classes; got {len(classes)}"
            )
        if self.pos_label is not None:
            place_of(self.pos_label, classes)  # raises if it is none of them
        return classes

    def _check_validation(self, X_val, y_val, classes):
        rows = super()._check_validation(X_val, y_val, classes)
        if self._is_ranking(classes) and not np.array_equal(np.unique(rows.y), classes):
            raise ValueError(
                f"y_val must have rows of both classes, {classes.tolist()}, and no others; "
                f"got {np.unique(rows.y).tolist()}"
            )
        return rows

    def _is_ranking(self, classes):
        """Whether there is one score a row, with a threshold, and not one for each class."""
        return True

    def _default_scorer(self):
        name, params = self._scorer()
        # make_top_scorer tries it, with the warning filters of all threads set aside.
        return TopScorer(name, **params)

    def _validation_scorer(self, y_val, weight):
        # Below a rate of one negative all rates are the same, that of the highest negative.
        own = weight[y_val != self.pos_label_]
        n_negatives = max(own.sum(), np.count_nonzero(own))  # of rows that weigh next to nothing
        return TopScorer("partial_auc_log", min_fpr=1 / max(2.0, float(n_negatives)), max_fpr=1.0)

    def _settle(self, training, final=True):
        if not self._is_ranking(self.classes_):
            return
        rows = training.given
        if self._judged_on_validation and training.own_validation:
            rows = training.validation
        if rows is training.given and training.folds is not None:
            rows, of_members = self._out_of_fold(training)
            scores = left_out = self._answered(of_members)
            if final:
                # In training each member is judged by the rows that it left out.
                scores = self._scores_as_unseen(training)
        else:
            scores = left_out = self._scores(self.net_.rows(rows.X))
        # Rows of labels that are neither are negatives.
        positive = rows.y == self.pos_label_
        scores, left_out, positive, weight = joined(scores, left_out, positive, rows.weight)
        t = self._threshold_of(rows.groups, scores, positive, weight)
        if np.isfinite(t):
            self.threshold_ = self._midway(scores, t)
        elif not hasattr(self, "threshold_"):
            # Of a piece without the rows that the threshold is computed from.
            self.threshold_ = 0.0
        if final:
            self._warn_of_ranking(scores, positive, weight)
            if self._has_places and not training.partial:
                if rows is training.given:
                    warms_up = training.settings.warm_up > 0
                    self._warn_of_precision(scores > self.threshold_, positive, weight, warms_up)
                else:
                    t = self._threshold_of(rows.groups, left_out, positive, weight)
                    self._warn_of_chance(left_out >= t, positive)

    def _scores_as_unseen(self, training):
        """Of the rows that some members have not seen, those of all members if none had."""
        known = training.folds.fold >= 0
        rows, folds = training.rows.take(known), training.folds.take(known)
        of_members = self.net_.score_by_member(self.net_.rows(training.rows.X))[known].numpy()
        unseen = (folds.unseen(slice(None)) > 0).numpy()
        scores = scores_as_unseen(of_members, unseen, rows.y == self.pos_label_, rows.weight)
        return scores.astype(of_members.dtype)

    def _score_by_number(self, knowing, rows):
        if self._scores_labels:
            # Scores of the few members that left a row out have a threshold of their own.
            scores, positive, weight = joined(
                knowing._scores(slice(None)), rows.y == self.pos_label_, rows.weight
            )
            t = self._threshold_of(rows.groups, scores, positive, weight)
            if np.isfinite(t):
                knowing = knowing._with(threshold_=self._midway(scores, t))
        return super()._score_by_number(knowing, rows)

    def _threshold_of(self, groups, scores, positive, weight):
        """The score of the last row that is flagged, with groups the median of that of each."""
        scores, positive, weight = tensors(scores, positive, weight)
        if groups is None:
            return self._score_threshold(scores, positive, weight).item()
        each = [
            self._score_threshold(scores[rows], positive[rows], weight[rows])
            for rows in rows_of_groups(groups)
            if self._has_threshold(positive[rows], weight[rows])
        ]
        each = torch.stack(each) if each else scores[:0]
        return each[each.isfinite()].median().item()  # NaN of none

    def _has_threshold(self, positive, weight):
        """Whether a group has one; that of rows which are not there may also be infinite."""
        return True

    def _warn_of_ranking(self, scores, positive, weight):
        """Say at the end of a fit what the ranking lacks."""
        spread, unit = float(scores.std()), float(self._unit)
        if len(scores) > 1 and spread < 0.01 * unit:
            warn(
                "The network gives every row nearly the same score (their standard deviation is "
                f"{spread:.2g}, where the loss asks for distances of {unit:g}): it has not "
                "learned to rank. Raise learning_rate, max_epochs or batch_size, let more rows "
                "stay on top (a larger k or tau), or check that X tells the classes apart",
                ConvergenceWarning,
            )

    def _warn_of_precision(self, flagged, positive, weight, warms_up):
        """Warn if many of the rows trained on that came to the places of positives are none."""
        weights = [float(weight[mask].sum()) for mask in (flagged & positive, flagged, positive)]
        found, looked_at, there = weights
        best = min(looked_at, there)
        if found < POOR * best:
            warn(
                f"Of the training rows above threshold_, {found / looked_at:.0%} are positive, "
                f"where {best / looked_at:.0%} could be: the training has not put the positives on "
                f"top. Another random_state may{'' if warms_up else BEGIN_WITH_CROSS_ENTROPY}; "
                "where X does not tell more, TopKClassifier('cross_entropy') orders rows as well"
            )

    def _warn_of_chance(self, flagged, positive):
        """Warn if rows drawn by lot would do for those left out that came to the places.

        How precise these could be is not known, as X may not tell more.
        """
        n, n_positives, n_flagged = len(positive), int(positive.sum()), int(flagged.sum())
        n_found = int((flagged & positive).sum())
        by_lot = hypergeom.sf(n_found - 1, n, n_positives, n_flagged)
        if n_found < POOR * min(n_flagged, n_positives) and by_lot > CHANCE:
            warn(
                f"Of the {n_flagged} rows on top, each scored by a member that had left it out of "
                f"its training, {n_found} are positive, and {n_positives} of all {n}: rows drawn "
                f"by lot have as many in {by_lot:.0%} of the draws, so that this does not show "
                "that the order at the top is better than chance. Let more rows stay on top (a "
                "larger k or tau), take more rows, or check that X tells the classes apart"
            )

    def _midway(self, scores, t):
        """What `threshold_` is, of the score t of the last row that is flagged.

        For a subclass whose t is that of the first row that is not, `midway_above`.
        """
        return midway_below(scores, t)

    def _calibrate(self, rows, scores=None):
        known = scores is not None
        scores = self._answered(scores) if known else self._scores(self.net_.rows(rows.X))
        calibrate(self, columns_of_score(self._decision(scores)), rows.y, rows.weight)


@estimator
class TopClassifier(RankingClassifier):
    """Threshold, kind of errors and surrogate; subclasses say which threshold and errors.

    They do so by `_threshold()`, for the rows of the training, and `errors`, one of those of
    :func:`sktopk.losses.accuracy_at_top_loss`; by `_score_threshold` where `threshold_` is not that
    of the loss, of scores that count as rows do.

    Parameters
    ----------
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2 as in the paper, max(0, 1 + z) or log2(1 + exp z).
    buffer_size : int or "auto", default="auto"
        Number of hard rows that every minibatch gets from those before it; 0 for none. "auto"
        is twice the rank of the threshold among the training rows and 100 more, at most 512. A
        step of the default network then takes about twice as long, one of a large network as
        much longer as the batch has grown. Beyond rank 512 it is 1 where a batch has the rank
        10 or more itself, and 512 with a warning where it does not. Of several members each has at
        most 128 / `n_members`, 16 by default: their threshold in training is rougher, and it is
        that of more rows, with a warning, where a batch has less than one of those above it.
    batch_size : int or "auto", default="auto"
        "auto" is min(256, n_samples) for TabularMLP, else min(128, n_samples). A batch of all
        rows needs no estimate of the threshold, nor does one of whole groups.

    Attributes
    ----------
    history_ : list of dict
        A row per epoch: train_loss, valid_score and valid_loss if there were validation rows,
        dur (seconds), what callbacks recorded, and `threshold`, an array of its estimate in each
        step (with :class:`sktopk.callbacks.TrueThreshold` `true_threshold` beside it). With
        groups it is the mean over those of the batch, and losses of validation rows are those of
        one list.
    """

    _: KW_ONLY
    surrogate: str = "quadratic"
    buffer_size: int | str = "auto"

    errors = "false_negatives"
    # The optimum flags few rows, whatever the labels.
    _poor_score = True

    def _check_params(self):
        super()._check_params()
        check_option(self.surrogate, "surrogate", tuple(SURROGATES))
        check_auto(self.buffer_size, "buffer_size", check_number, low=0, integer=True)

    def _threshold(self):
        """The threshold of the loss, for the rows of the training."""
        raise NotImplementedError(f"{type(self).__name__} must define _threshold")

    def _task(self, dtype):
        threshold, size = self._threshold(), self.buffer_size
        return self._task_of(dtype, TopCriterion(threshold, self.errors, self.surrogate, size), 1)

    def _go_on(self, count, partial):
        super()._go_on(count, partial)
        # Its rank may be clipped to other rows now.
        for criterion in self.net_.criterion_.losses:
            criterion.threshold = self._threshold()

    @property
    def _has_places(self):
        return getattr(self._threshold(), "of", None) == "all"

    def _warn_of_ranking(self, scores, positive, weight):
        super()._warn_of_ranking(scores, positive, weight)
        each = self.net_.criterion_.losses
        if (missing := each[0].missing) is not None:
            enough = f"set buffer_size to {missing['enough']}"
            held = (
                f"The threshold is that of {missing['rank']} rows, of which a batch of "
                f"batch_size={self._batch_size} has {missing['in_batch']:.2g} and "
                f"buffer_size='auto' holds {each[0].hard_rows.size}"
            )
            if len(each) == 1:
                larger = math.ceil(10 * self._batch_size / missing["in_batch"])
                said = (
                    f"{held}: in training it is off by more than a third in many steps. Raise "
                    f"batch_size to {larger}, or {enough}"
                )
            else:
                said = (
                    f"{held} for each of {len(each)} members: in training it is that of more rows "
                    f"in most steps. To train for so few, {enough}"
                )
            warn(said, ConvergenceWarning)

    def _clip_k(self, partial, total, what):
        """Set `k_`; later pieces of a stream may have the rows that the first one lacks."""
        is_light = total <= 1 or total % 1 > 0
        hint = "; k counts sample_weight, which should be about 1 a row" if is_light else ""
        total = int(total)
        # Of a group, it is left to the loss.
        partial = partial or hasattr(self, "n_groups_")
        self.k_ = self.k if partial else max(1, min(self.k, total))
        if self.k_ < self.k:
            warn(
                f"k={self.k} must be at most the number of {what} ({total}): k_={self.k_} is "
                f"used{hint}"
            )

    def _scaled(self, k, of, positive, weight):
        """The rank k of the training set among rows that are a part of it; k of each group."""
        if hasattr(self, "n_groups_"):
            return k
        total = self._group_count
        total = {"all": total.sum(), "negatives": total[0], "positives": total[1]}[of]
        share = float(weight[in_group(positive, of)].sum()) / total
        return max(1, round(k * min(1.0, share)))

    def _score_threshold(self, scores, positive, weight):
        threshold = self._threshold()
        if getattr(threshold, "k", None) is not None:
            # A piece of a stream has a part of the ranks.
            k = self._scaled(threshold.k, threshold.of, positive, weight)
            threshold = dataclasses.replace(threshold, k=k)
        return threshold(scores, positive, weight)


def tensors(scores, positive, weight):
    """Arrays as `cuts` and `_score_threshold` take them: scores in float64."""
    return tuple(map(torch.from_numpy, (scores.astype(np.float64), positive, weight)))


def cuts(scores, positive, weight):
    """The distinct scores from the largest down, and the weights at or above each of them."""
    order = scores.argsort(descending=True, stable=True)
    scores, own = scores[order], weight[order]
    found = (own * positive[order]).cumsum(0)
    looked_at = own.cumsum(0)
    last = torch.cat([scores[1:] != scores[:-1], torch.ones(1, dtype=torch.bool)])
    return scores[last], found[last], looked_at[last]
