"""Losses that are the optimum of a linear program, and solvers of linear programs."""
