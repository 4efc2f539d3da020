"""Doctests of the classes of `sktopk` are found there, once it has loaded them."""

from sktopk import *  # noqa: F403
