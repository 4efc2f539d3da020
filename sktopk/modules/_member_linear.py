"""Linear layers of several networks, in one product."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MemberLinear(nn.Module):
    r"""One linear layer for each of several networks that share no weight.

    .. math::
        z_m = W_m x_m + b_m, \qquad m = 1, \dots, M

    The products of all members are one: of rows that all of them read, a product with the
    stacked weights; of rows of their own, a batched product.

    Parameters
    ----------
    n_members : int
        Number M of networks.
    in_features : int
        Number of columns of a row.
    out_features : int
        Number of values that each member returns for a row.
    device, dtype : default=None
        Where and in which precision the weights are kept, as in :class:`torch.nn.Linear`.
    generator : torch.Generator, default=None
        Draws the first weights; None is torch's own.

    Attributes
    ----------
    weight : Parameter of shape (n_members, out_features, in_features)
        Drawn as :class:`torch.nn.Linear` draws its own, anew for every member.
    bias : Parameter of shape (n_members, out_features)
        The same.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import MemberLinear
    >>> layer = MemberLinear(3, 4, 2)
    >>> layer(torch.zeros(5, 4)).shape, layer(torch.zeros(3, 5, 4)).shape
    (torch.Size([3, 5, 2]), torch.Size([3, 5, 2]))
    """

    def __init__(
        self,
        n_members: int,
        in_features: int,
        out_features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_members = n_members
        self.in_features = in_features
        self.out_features = out_features
        kwargs = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(n_members, out_features, in_features, **kwargs))
        self.bias = nn.Parameter(torch.empty(n_members, out_features, **kwargs))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw new weights for every member."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return (n_members, n_samples, out_features).

        The rows x are (n_samples, in_features), the same for all members, or (n_members,
        n_samples, in_features).
        """
        if x.dim() == 2:
            values = F.linear(x, self.weight.flatten(0, 1), self.bias.flatten())
            return values.unflatten(1, self.weight.shape[:2]).transpose(0, 1)
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight.transpose(1, 2))

    def of_member(self, x: Tensor, m: int) -> Tensor:
        """Return (n_samples, out_features) of rows (n_samples, in_features) by member m alone."""
        return F.linear(x, self.weight[m], self.bias[m])

    def extra_repr(self) -> str:
        return (
            f"n_members={self.n_members}, in_features={self.in_features}, "
            f"out_features={self.out_features}"
        )
