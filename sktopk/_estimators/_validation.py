"""The score of validation rows after each epoch."""

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._scoring import check_scorer, weight_for, with_names
from sktopk._common._warnings import warn
from sktopk.metrics._scorer import TopKScorer, label_ranks
from sktopk.metrics._top_scorer import TopScorer


class OrderScorer:
    """How well the classes of each row are in order, which hangs on more rows than the k first.

    That is :func:`sktopk.metrics.topk_auc_log_score`; of two classes, which have no order but the
    first place, the mean log-probability of the labels, with scores in units of `unit`.

    Parameters
    ----------
    unit : float
        What the loss divides scores by.
    balanced : bool, default=False
        Whether every class of the rows weighs as much.
    """

    def __init__(self, unit=1.0, balanced=False):
        self.unit, self.balanced = unit, balanced

    def __call__(self, estimator, X, y, sample_weight=None):
        """Return the score, the larger the better."""
        classes = estimator.classes_
        if self.balanced:
            sample_weight = np.ones(len(y)) if sample_weight is None else sample_weight
            index = np.unique(y, return_inverse=True)[1]
            total = np.bincount(index, sample_weight)[index]
            sample_weight = np.divide(sample_weight, total, where=total > 0, out=np.zeros(len(y)))
        if len(classes) > 2:
            return label_ranks(estimator, X, y, sample_weight).auc_log()
        # A label that is neither has no probability to speak of.
        sign = np.select([y == classes[1], y == classes[0]], [1.0, -1.0])
        y_score = estimator.decision_function(X)
        log_proba = -np.logaddexp(0, -sign * y_score.astype(np.float64) / self.unit)
        return float(np.average(log_proba, weights=sample_weight))


class ValidationScore:
    """Score the validation rows with the network as it is.

    Parameters
    ----------
    classifier : NetClassifier
        With a net.
    rows : Labelled
        The validation rows.
    settle : callable
        Readies the classifier to predict labels.
    """

    def __init__(self, classifier, rows, settle):
        self.classifier, self.rows, self.settle = classifier, rows, settle
        self.X, scoring = with_names(rows, classifier), classifier.scoring
        if scoring is None:
            self.scorer = classifier._validation_scorer(rows.y, rows.weight)
            if rows.groups is not None:
                scorer_of = classifier._validation_scorer
                of_groups = MeanOverGroups(
                    classifier,
                    rows.y,
                    rows.groups,
                    lambda own: scorer_of(rows.y[own], rows.weight[own]),
                )
                # Those of a fold may all be of one class: its rows are judged as one list.
                self.scorer = of_groups if of_groups.each else self.scorer
        else:
            self.scorer = check_scorer(classifier, scoring)
        self.needs_labels = asks_for_labels(self.scorer) and (
            scoring is not None or classifier._scores_labels
        )
        weighted = not np.all(rows.weight == 1)
        self.params = weight_for(self.scorer, rows.weight if weighted else None)

    def __call__(self):
        classifier = self.classifier
        if self.needs_labels:
            self.settle()
        try:
            return self._score()
        except AttributeError as error:
            if not lacks_proba(classifier, error):
                raise
            if classifier.calibration is None:
                raise refused_proba(
                    classifier.scoring,
                    "without calibration: set calibration='temperature', 'sigmoid' or 'auto', or "
                    "scoring=None",
                ) from error
        # On the rows that it judges, and for this once: the final one comes after training.
        classifier._calibrate(self.rows)
        try:
            return self._score()
        finally:
            del classifier.calibration_

    def _score(self):
        return self.scorer(self.classifier, self.X, self.rows.y, **self.params)


def asks_for_labels(scorer):
    """Whether a scorer may ask for labels, and so for a threshold; rankings need none."""
    return not isinstance(scorer, TopKScorer | TopScorer | OrderScorer | MeanOverGroups)


def lacks_proba(classifier, error):
    """Whether a scorer failed because `classifier` has no `predict_proba`."""
    return "predict_proba" in str(error) and not hasattr(classifier, "predict_proba")


def refused_proba(scoring, instead):
    """The error of a `scoring` that asks for what `lacks_proba`; `instead` ends its sentence."""
    return ValueError(f"scoring={scoring!r} asks for predict_proba, which there is not {instead}")


def rows_of_groups(groups):
    """The row numbers of each group, of those that have some."""
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, cuts)


def refuse_groups(classes):
    """Raise unless there is one order of rows, of which groups can have a part each."""
    if len(classes) > 2:
        raise ValueError(
            f"groups must be None for {len(classes)} classes: groups are parts of an order of "
            "rows, which two classes have"
        )


class MeanOverGroups:
    """The mean of the scores of groups of rows, of those that have positives and others.

    Parameters
    ----------
    classifier : NetClassifier or TopBoostClassifier
        Fitted, with one score a row.
    y, groups : ndarray of shape (n_samples,)
        Labels, and the numbers of the groups, of the rows to score.
    scorer_of : callable
        Returns the scorer of rows from their numbers.
    """

    def __init__(self, classifier, y, groups, scorer_of):
        self.y, positive = y, y == classifier.pos_label_
        each = [rows for rows in rows_of_groups(groups) if 0 < positive[rows].mean() < 1]
        self.each = [(rows, scorer_of(rows)) for rows in each]

    def __call__(self, classifier, X, y, sample_weight=None):
        known = classifier._knowing(classifier._scores(X))
        scores = []
        for rows, scorer in self.each:
            weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
            scores.append(scorer(known, rows, self.y[rows], **weight_for(scorer, weight)))
        scores = [score for score in scores if not np.isnan(score)]
        if scores:
            return float(np.mean(scores))
        reason = "score: no group has both positives and other rows, the score is NaN"
        warn(reason, UndefinedMetricWarning)
        return float("nan")


class MemberScores:
    """Score each member of a network on the rows that it leaves out.

    Parameters
    ----------
    classifier : NetClassifier
        With a net.
    rows : Labelled
        Those of the training.
    folds : Folds
    settle : callable
        Readies the classifier to predict labels.
    """

    def __init__(self, classifier, rows, folds, settle):
        self.net = classifier.net_
        of_fold = [
            ValidationScore(classifier, rows.take(folds.fold == fold), settle)
            for fold in range(folds.n_folds)
        ]
        self.of_member = [of_fold[fold] for fold in folds.of_member]

    def __call__(self):
        scores = []
        for m, score in enumerate(self.of_member):
            with self.net.only(m):
                scores.append(score())
        return scores
