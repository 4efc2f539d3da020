"""A loss of a few of very many classes."""

from sktopk.losses._candidates import Candidates, sample_candidates

from ._base import Criterion


class SampledLoss(Criterion):
    """A loss of all classes that also takes the scores of candidates.

    Parameters
    ----------
    loss : Criterion
    n_classes, n_candidates : int
        See :func:`sktopk.losses.sample_candidates`.
    unit : float
        What the loss divides scores by in its sums of exponentials.
    """

    draws = True

    def __init__(self, loss, n_classes, n_candidates, unit):
        super().__init__()
        self.loss, self.unit = loss, unit
        self.n_classes, self.n_candidates = n_classes, n_candidates

    def draw(self, target):
        """Candidates for a batch with these labels."""
        return sample_candidates(
            target, self.n_classes, self.n_candidates, generator=self.generator
        )

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of the scores of all classes, or of those of `target`'s candidates."""
        if isinstance(target, Candidates):
            scores, target = scores + self.unit * target.log_weight, target.target
        return self.loss(scores, target, sample_weight)
