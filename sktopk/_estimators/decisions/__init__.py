"""Promises on top of any classifier."""
