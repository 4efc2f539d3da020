"""Generated datasets, and transformations that make a classification problem harder."""

from ._circle_modes import make_circle_modes
from ._label_noise import inject_label_noise
from ._long_tail import make_long_tail

__all__ = ["inject_label_noise", "make_circle_modes", "make_long_tail"]
