"""The score of validation rows after each epoch."""

import inspect

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.metrics import check_scoring

from sktopk._common._lazy_rows import LazyRows
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
        self.X = X = rows.X
        if hasattr(classifier, "feature_names_in_") and not isinstance(X, LazyRows):
            make = pd.DataFrame.sparse.from_spmatrix if issparse(X) else pd.DataFrame
            self.X = make(X, columns=classifier.feature_names_in_)
        scoring = classifier.scoring
        if scoring is None:
            self.scorer = classifier._validation_scorer(rows.y)
        else:
            try:
                self.scorer = check_scoring(classifier, scoring=scoring)
            except ValueError as error:
                raise ValueError(
                    "scoring must be None, the name of a score of scikit-learn or a callable, "
                    "such as sktopk.metrics.make_top_scorer('recall_at_k', k=100) or "
                    f"make_topk_scorer(5); got {scoring!r}"
                ) from error
        self.params = {}
        takes_weight = "sample_weight" in inspect.signature(self.scorer).parameters
        if takes_weight and not np.all(rows.weight == 1):
            self.params["sample_weight"] = rows.weight
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
                    "without calibration: set calibration='temperature' or 'sigmoid', or "
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
