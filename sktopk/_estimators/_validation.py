"""The score of validation rows after each epoch."""

import numpy as np

from sktopk._common._scoring import check_scorer, weight_for, with_names
from sktopk.metrics._scorer import TopKScorer
from sktopk.metrics._top_scorer import TopScorer


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
        self.X, scoring = with_names(rows.X, classifier), classifier.scoring
        if scoring is None:
            self.scorer = classifier._validation_scorer(rows.y)
        else:
            self.scorer = check_scorer(classifier, scoring)
        weighted = not np.all(rows.weight == 1)
        self.params = weight_for(self.scorer, rows.weight if weighted else None)
        # Rankings need no threshold.
        ranks = isinstance(self.scorer, TopKScorer | TopScorer)
        self.needs_labels = not ranks and (scoring is not None or classifier._scores_labels)

    def __call__(self):
        classifier = self.classifier
        if self.needs_labels:
            self.settle()
        try:
            return self._score()
        except AttributeError as error:
            if "predict_proba" not in str(error) or hasattr(classifier, "predict_proba"):
                raise
            if classifier.calibration is None:
                raise ValueError(
                    f"scoring={classifier.scoring!r} asks for predict_proba, which there is not "
                    "without calibration: set calibration='temperature', 'sigmoid' or 'auto', or "
                    "scoring=None"
                ) from error
        # On the rows that it judges, and for this once: the final one comes after training.
        classifier._calibrate(self.rows)
        try:
            return self._score()
        finally:
            del classifier.calibration_

    def _score(self):
        return self.scorer(self.classifier, self.X, self.rows.y, **self.params)


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
