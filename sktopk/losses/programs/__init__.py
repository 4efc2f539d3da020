"""Losses that are the optimum of a linear program, and its solver."""
