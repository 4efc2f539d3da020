"""The table of accuracy-at-the-top losses that the tests ask their questions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch

from sktopk import losses
from sktopk.losses import SurrogateQuantile, TopMean
from tests.losses import top_references as references


@dataclass(frozen=True)
class TopCase:
    """A loss with parameters and the definition of its threshold.

    `row` returns the row j* of Table 1 whose score the threshold is; losses with another
    kind of threshold have none, and no module either.
    """

    name: str
    module: str | None
    of: str
    threshold: Callable
    parameters: dict = field(default_factory=dict)
    row: Callable | None = None
    errors: str = "false_negatives"
    surrogate: str = "quadratic"

    def __str__(self):
        values = [v if k == "threshold" else f"{k}={v}" for k, v in self.parameters.items()]
        return f"{self.name}({', '.join(map(str, [*values, self.surrogate]))})"

    @property
    def counted(self):
        """The label of the rows that can be errors."""
        return 1 if self.errors == "false_negatives" else 0

    def __call__(self, scores, target, **changes):
        parameters = {"surrogate": self.surrogate} | self.parameters | changes
        return getattr(losses, self.name)(scores, target, **parameters)

    def defined(self, scores, target):
        """Return the losses of each row by definition."""
        scores, labels = scores.tolist(), target.tolist()
        t = self.threshold(scores, labels)
        rows = references.losses(scores, labels, t, self.errors, self.surrogate)
        return torch.tensor(rows, dtype=torch.float64)

    def defined_factors(self, scores, target):
        """Return the factors of eq. 6."""
        scores, labels = scores.tolist(), target.tolist()
        at = self.row(scores, labels)
        rows = references.row_factors(scores, labels, at, self.errors, self.surrogate)
        return torch.tensor(rows, dtype=torch.float64)


def of_rank(name, module, of, surrogate, rank, parameters=None, errors="false_negatives"):
    """A loss whose threshold is the score of one row."""
    return TopCase(
        name,
        module,
        of,
        partial(references.kth_largest, of=of, **rank),
        rank if parameters is None else parameters,
        partial(references.kth_row, of=of, **rank),
        errors,
        surrogate,
    )


def of_threshold(kind, definition, of, surrogate, arguments, errors="false_negatives"):
    """`accuracy_at_top_loss` with another kind of threshold."""
    return TopCase(
        "accuracy_at_top_loss",
        None,
        of,
        partial(definition, of=of, **arguments),
        {"threshold": kind(of, **arguments), "errors": errors},
        None,
        errors,
        surrogate,
    )


def all_with(surrogate):
    tau, recall = {"tau": 0.3}, {"tau": 0.6}
    false_positives = "false_positives"
    mean = TopMean, references.top_mean
    quantile = SurrogateQuantile, references.surrogate_quantile
    return [
        of_rank("top_push_loss", "TopPushLoss", "negatives", surrogate, {"k": 1}, {}),
        of_rank("top_push_k_loss", "TopPushKLoss", "negatives", surrogate, {"k": 3}),
        of_rank("pat_mat_np_loss", "PatMatNPLoss", "negatives", surrogate, tau),
        of_rank("recall_at_k_loss", "RecallAtKLoss", "all", surrogate, {"k": 4}),
        of_rank("pat_mat_loss", "PatMatLoss", "all", surrogate, tau),
        of_rank(
            "precision_at_recall_loss",
            "PrecisionAtRecallLoss",
            "positives",
            surrogate,
            recall,
            {"recall": 0.6},
            false_positives,
        ),
        of_threshold(*mean, "negatives", surrogate, {"k": 3}),
        of_threshold(*mean, "positives", surrogate, recall, false_positives),
        of_threshold(*quantile, "negatives", surrogate, {**tau, "surrogate": surrogate}),
        of_threshold(*quantile, "all", surrogate, tau, false_positives),
    ]


TOP_LOSSES = [case for name in references.SURROGATES for case in all_with(name)]


def every(cases):
    return pytest.mark.parametrize("case", cases, ids=str)


every_top_loss = every(TOP_LOSSES)
every_ranked_loss = every([case for case in TOP_LOSSES if case.row])
every_named_loss = every([case for case in TOP_LOSSES if case.module])
# Where the surrogate does not matter, one is enough.
THRESHOLDS = all_with("quadratic")
every_threshold = every(THRESHOLDS)


def top_batch(n_samples=14, seed=0, dtype=torch.float64):
    """Return random scores, as leaf of a graph, and labels of both classes."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(n_samples, dtype=dtype, generator=generator)
    target = torch.randperm(n_samples, generator=generator) < 0.4 * n_samples
    return scores.requires_grad_(), target.long()
