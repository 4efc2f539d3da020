"""What users name of torch: devices, optimizers, float types."""

import torch

from sktopk._common._scalars import check_option

OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


PRECISIONS = (None, "bfloat16")


DTYPES = ("auto", "float32", "float64")


def check_device(device):
    """Return the torch.device that `device` names; "auto" is a GPU if there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f'device must be "auto" or a torch device such as "cpu" or "cuda:0"; got {device!r}'
        ) from error
    if checked.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but this torch sees no GPU; use 'cpu' or 'auto'")
    try:
        torch.zeros(1, device=checked).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device={device!r} cannot be used here: {error}") from error
    return checked


def check_optimizer(optimizer):
    """Return the optimizer class that `optimizer` names."""
    if isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        return optimizer
    if not isinstance(optimizer, str):
        raise TypeError(
            f"optimizer must be one of {', '.join(map(repr, OPTIMIZERS))} or a subclass of "
            f"torch.optim.Optimizer; got {optimizer!r}"
        )
    check_option(optimizer, "optimizer", tuple(OPTIMIZERS))
    return OPTIMIZERS[optimizer]
