"""Imports of optional dependencies."""

from importlib import import_module


def import_extra(module, caller, extra):
    """Return an optional module; if it is missing, raise with the command to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f'{caller} needs {package}: pip install "sktopk[{extra}]" ({error})'
        ) from error
