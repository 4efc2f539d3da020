"""Callbacks for the networks of this package, beside those of skorch."""

from sktopk._training._callbacks import TrueThreshold

__all__ = ["TrueThreshold"]
