"""Additional skorch callbacks for the networks of this package."""

from sktopk._training._callbacks import TrueThreshold

__all__ = ["TrueThreshold"]
