"""Output layer that scores a class by the angle between features and a weight vector."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class NormalizedLinear(nn.Module):
    r"""Score each class by the cosine between the features and the weight vector of the class.

    .. math::
        s_j = \frac{w_j^\top x}{\lVert w_j \rVert \, \lVert x \rVert} \in [-1, 1]

    There is no bias. All vectors are normalized. Without normalization, frequent classes and easy
    samples would get larger scores, because their vectors are longer. The weight has shape
    (out_features, in_features). Initial weight vectors are uniform on the unit sphere.
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
        self.in_features = in_features
        self.out_features = out_features
        weight = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(weight)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new random directions."""
        nn.init.normal_(self.weight, generator=generator)
        with torch.no_grad():
            self.weight.copy_(_normalize(self.weight))

    def forward(self, features: Tensor) -> Tensor:
        """Return scores (n_samples, out_features) of `features` (n_samples, in_features)."""
        return F.linear(_normalize(features), _normalize(self.weight))

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def _normalize(rows):
    """Divide each row by its length. Zero rows stay zero, and have a finite gradient."""
    norm = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / torch.where(norm == 0, 1.0, norm)
