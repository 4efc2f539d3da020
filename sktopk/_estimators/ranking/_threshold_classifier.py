"""What the accuracy-at-the-top classifiers share: a threshold, errors, a surrogate."""

import dataclasses
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch

from sktopk._common._scalars import (
    check_flag,
    check_number,
    check_option,
)
from sktopk._common._warnings import (
    warn,
)
from sktopk._training._callbacks import TrueThreshold
from sktopk._training._distributed import all_objects
from sktopk._training.criteria._top import TopCriterion
from sktopk.losses._accuracy_at_top import SURROGATES
from sktopk.losses._thresholds import in_group
from sktopk.metrics import make_top_scorer

from ._binary import BinaryNetClassifier

TOP_PARAMETERS = """\
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2 as in the paper, max(0, 1 + z) or log2(1 + exp z).
    buffer_size : int, default=1
        Number of hard rows that every minibatch gets from those before it; 0 for none.
    record_true_threshold : bool, default=False
        Whether `history_` has the threshold over all training rows before each step, beside
        its estimate. Costs a pass over the data per step.
"""


@dataclass(eq=False, repr=False)
class ThresholdParameters:
    """The parameters of the loss: the last base class, whose fields come first."""

    _: KW_ONLY
    surrogate: str = "quadratic"
    buffer_size: int = 1
    record_true_threshold: bool = False


@dataclass(eq=False, repr=False)
class ThresholdClassifier(BinaryNetClassifier, ThresholdParameters):
    """Threshold, kind of error and surrogate; a subclass names the first two."""

    _history = """, and `threshold`, an
        array of its estimate in each step (`true_threshold` beside it on demand)"""
    errors = "false_negatives"

    def __init_subclass__(cls, **kwargs):
        cls.__doc__ = cls.__doc__ and cls.__doc__.replace(
            "    <training parameters>\n", TOP_PARAMETERS + "    <training parameters>\n"
        )
        super().__init_subclass__(**kwargs)

    def _check_params(self):
        super()._check_params()
        check_option(self.surrogate, "surrogate", tuple(SURROGATES))
        check_number(self.buffer_size, "buffer_size", 0, integer=True)
        check_flag(self.record_true_threshold, "record_true_threshold")
        if hasattr(self, "k"):
            check_number(self.k, "k", 1, integer=True)

    def _clip_k(self, partial, total, what):
        """Set `k_`; later pieces of a stream may have the rows that the first one lacks."""
        total = int(sum(all_objects(total)))
        self.k_ = self.k if partial else max(1, min(self.k, total))
        if self.k_ < self.k:
            warn(
                f"k={self.k} must be at most the number of {what} ({total}): k_={self.k_} is used",
            )

    def _criterion(self):
        return TopCriterion(self._threshold(), self.errors, self.surrogate, self.buffer_size)

    def _share(self, positive, weight):
        """What part of the group of the threshold, as it is in training, these rows are."""
        group = in_group(positive, self._threshold().of)
        total = self.class_count_
        total = {"all": total.sum(), "negatives": total[0], "positives": total[1]}
        return float(weight[group].sum()) / total[self._threshold().of]

    def _scaled(self, k, positive, weight):
        """The rank k of the training set among fewer rows."""
        return max(1, round(k * min(1.0, self._share(positive, weight))))

    def _score_threshold(self, scores, positive, weight):
        threshold = self._threshold()
        if getattr(threshold, "k", None) is not None:
            # A piece of a stream has a part of the ranks.
            k = self._scaled(threshold.k, positive, weight)
            threshold = dataclasses.replace(threshold, k=k)
        return threshold(scores, positive, weight)

    def _validation_scorer(self, y_val):
        name, params = self._scorer()
        if hasattr(self, "k_"):
            positive = torch.from_numpy(np.asarray(y_val == self.classes_[1]))
            weight = torch.ones(len(positive))
            params = {"k": self._scaled(self.k_, positive, weight)}
        return make_top_scorer(name, **params)

    def _make_callbacks(self, X, target, weight):
        if not self.record_true_threshold:
            return {}
        rows, positive = self.net_.rows(X), torch.from_numpy(target == 1)
        weight = torch.from_numpy(weight)

        def true_threshold():
            scores = torch.from_numpy(self._scores(rows)).double()
            return self._score_threshold(scores, positive, weight).item()

        return {"true_threshold": TrueThreshold(true_threshold)}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The optimum flags few rows, whatever the labels.
        tags.classifier_tags.poor_score = True
        return tags
