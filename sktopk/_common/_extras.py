"""Packages that only some functions need."""

from importlib import import_module


def import_extra(module, caller, extra):
    """Return an optional module, or say which extra of this package `caller` needs."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f'{caller} needs {package}: pip install "sktopk[{extra}]" ({error})'
        ) from error
