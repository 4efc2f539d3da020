"""Imports of optional dependencies."""

from importlib import import_module


def import_extra(module, caller, extra):
    """Import an optional module. If it is missing, the error shows the command to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f'{caller} needs {package}: pip install {package}, or "sktopk[{extra}]" ({error})'
        ) from error
