"""Output layer that scores a class by the angle between features and a weight vector."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class NormalizedLinear(nn.Module):
    r"""Score each class by the cosine between the features and the weight vector of the class.

    .. math::
        s_j = \frac{w_j^\top x}{\lVert w_j \rVert \, \lVert x \rVert} \in [-1, 1]

    There is no bias. Without division by the norms, frequent classes and easy samples would get
    larger scores. Losses with margins such as :func:`sktopk.losses.ldam_loss` need this layer.

    Parameters
    ----------
    in_features : int
        Number of input columns.
    out_features : int
        Number of scores, one per class.
    device : torch.device or str, default=None
        Device of the weight. None means torch's default.
    dtype : torch.dtype, default=None
        Data type of the weight. None means torch's default.
    generator : torch.Generator, default=None
        Random generator for initial weights. None means torch's global generator.

    Attributes
    ----------
    weight : Parameter of shape (out_features, in_features)
        Weight vector of each class. Initial vectors are uniform on the unit sphere.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import NormalizedLinear
    >>> scores = NormalizedLinear(4, 3)(torch.randn(2, 4))
    >>> scores.shape, bool((scores.abs() <= 1).all())
    (torch.Size([2, 3]), True)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(weight)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new random weight vectors."""
        nn.init.normal_(self.weight, generator=generator)
        with torch.no_grad():
            self.weight.copy_(_normalize(self.weight))

    def forward(self, features: Tensor) -> Tensor:
        """Return scores (n_samples, out_features) of `features` (n_samples, in_features)."""
        return F.linear(_normalize(features), _normalize(self.weight))

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class MemberNormalizedLinear(NormalizedLinear):
    """One :class:`NormalizedLinear` for each of several networks that share no weights."""

    def __init__(self, n_members, in_features, out_features, *, dtype=None, generator=None):
        super().__init__(in_features, n_members * out_features, dtype=dtype, generator=generator)
        self.n_members, self.out_features = n_members, out_features
        self.weight = nn.Parameter(self.weight.detach().unflatten(0, (n_members, out_features)))

    def forward(self, features: Tensor) -> Tensor:
        """Return scores (n_members, n_samples, out_features) of all members."""
        return _normalize(features) @ _normalize(self.weight).transpose(1, 2)

    def of_member(self, features, m):
        """Return scores (n_samples, out_features) of member m."""
        return F.linear(_normalize(features), _normalize(self.weight[m]))


def _normalize(rows):
    """Divide each row by its Euclidean norm. Rows of zeros stay zero, with a finite gradient."""
    # Divide by the largest entry first, because its square may overflow or underflow.
    largest = rows.detach().abs().amax(-1, keepdim=True)
    rows = rows / torch.where(largest == 0, 1.0, largest)
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / torch.where(norm == 0, 1.0, norm)
