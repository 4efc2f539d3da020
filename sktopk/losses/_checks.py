"""What every loss asks of its arguments."""

import torch


def check_scores(scores):
    """Return floating `scores` of shape (n_samples, n_classes), half precision as float32.

    Losses are differences of large sums, which bfloat16 and float16 cannot hold.
    """
    check_floating(scores, "scores")
    if scores.ndim != 2:
        raise ValueError(
            f"scores must have shape (n_samples, n_classes); got shape {tuple(scores.shape)}"
        )
    return _at_least_single(scores)


def check_binary(scores, target):
    """Return floating `scores` of shape (n_samples,) and the mask of the positive ones.

    Half precision becomes float32. `target` holds 0 and 1 in any dtype; the values of a
    boolean one need no look, which spares a GPU a synchronisation.
    """
    check_floating(scores, "scores")
    if scores.ndim != 1:
        raise ValueError(f"scores must have shape (n_samples,); got shape {tuple(scores.shape)}")
    _check_tensor(target, "target")
    if target.shape != scores.shape:
        raise ValueError(
            f"target must have the shape of scores {tuple(scores.shape)}; got {tuple(target.shape)}"
        )
    if target.dtype != torch.bool:
        refused = target[(target != 0) & (target != 1)]
        if len(refused):
            raise ValueError(f"target must hold 0 and 1; got {refused[0].item():g}")
        target = target == 1
    return _at_least_single(scores), target


def check_floating(tensor, name):
    """Raise unless `tensor` is one of a floating point dtype."""
    _check_tensor(tensor, name)
    if not tensor.is_floating_point():
        raise TypeError(f"{name} must be floating point; got {tensor.dtype}")


def _check_tensor(tensor, name):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {type(tensor).__name__}")


def _at_least_single(scores):
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def check_weight(sample_weight, scores):
    """Return None, or a weight of each row in the dtype and on the device of `scores`."""
    if sample_weight is None:
        return None
    sample_weight = torch.as_tensor(sample_weight, dtype=scores.dtype, device=scores.device)
    if sample_weight.shape != scores.shape[:1]:
        raise ValueError(
            f"sample_weight must have shape {tuple(scores.shape[:1])}, one weight per sample; "
            f"got {tuple(sample_weight.shape)}"
        )
    return sample_weight


def check_name(value, name, allowed):
    """Raise unless `value` is one of the strings `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")


def check_fraction(value, name):
    """Return the float `value` if it is in (0, 1]."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number; got {value!r}")
    value = float(value)
    if not 0 < value <= 1:
        raise ValueError(f"{name}={value:g} must be in (0, 1]")
    return value


def is_soft(scores, target):
    """Tell class indices from soft targets, refusing anything else.

    Soft targets are rows of nonnegative weights over the classes, of the shape of `scores`.
    """
    _check_tensor(target, "target")
    if target.is_floating_point():
        if target.shape != scores.shape:
            raise ValueError(
                f"soft target must have the shape of scores {tuple(scores.shape)}; "
                f"got {tuple(target.shape)}"
            )
        return True
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"target must hold integer class indices; got {target.dtype}")
    if target.shape != scores.shape[:1]:
        raise ValueError(
            f"target must have shape ({scores.shape[0]},), one class index per row of scores; "
            f"got {tuple(target.shape)}"
        )
    return False


def check_target(scores, target, name):
    """Return `target` as int64 class indices, refusing soft targets for the loss `name`."""
    if is_soft(scores, target):
        raise TypeError(f"{name} is defined for integer class indices; got {target.dtype} target")
    return target.long()


def check_count(value, name):
    """Raise unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if value < 1:
        raise ValueError(f"{name}={value} must be at least 1")


def check_k(k, n_classes):
    """Return `k` if it is an integer with 1 <= k < n_classes."""
    check_count(k, "k")
    if k >= n_classes:
        raise ValueError(f"k={k} must be smaller than the number of classes ({n_classes})")
    return int(k)


def check_nonnegative(value, name, *, positive=False):
    """Return the float `value` if it is finite and >= 0 (> 0 where `positive`)."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number; got {value!r}")
    value = float(value)
    if not (value > 0 if positive else value >= 0) or value == float("inf"):
        raise ValueError(
            f"{name}={value:g} must be finite and {'positive' if positive else 'nonnegative'}"
        )
    return value
