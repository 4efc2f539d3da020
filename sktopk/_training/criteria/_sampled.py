"""A loss of a few of very many classes."""

from sktopk.losses._candidates import draw_candidates

from ._base import Criterion

# In the place of minus infinity: a class of this score has the share 0, and a row of weight 0 that
# has it for its label a finite loss.
_NO_CLASS = -1e4


class SampledLoss(Criterion):
    """A loss of all classes that also takes the scores of candidates.

    Parameters
    ----------
    loss : Criterion
    n_classes, n_candidates : int
        See :func:`sktopk.losses.sample_candidates`.
    unit : float
        What the loss divides scores by in its sums of exponentials.

    Attributes
    ----------
    log_weight : Tensor of shape (m,) or (n_members, m), or None
        That of the candidates whose scores come; of members with rows of their own, scores
        (n_samples * n_members, m) have those of all members of a row after each other. None: scores
        of all classes come.
    """

    draws = True
    log_weight = None

    def __init__(self, loss, n_classes, n_candidates, unit):
        super().__init__()
        self.loss, self.unit = loss, unit
        self.n_classes, self.n_candidates = n_classes, n_candidates

    def draw(self, target, seen=None):
        """Candidates for a batch with these labels, see `draw_candidates`."""
        return draw_candidates(target, self.n_classes, self.n_candidates, self.generator, seen)

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows, whose labels are columns of the scores."""
        if self.log_weight is not None:
            scores = self._shifted(scores)
        return self.loss(scores, target, sample_weight)

    def _shifted(self, scores):
        if self.log_weight.ndim == 1:
            return scores + self.unit * self.log_weight
        by_member = scores.unflatten(0, (-1, len(self.log_weight)))
        return (by_member + self.unit * self.log_weight.clamp(min=_NO_CLASS)).flatten(0, 1)
