"""Losses defined as the optimum of a linear program, and solvers for linear programs."""
