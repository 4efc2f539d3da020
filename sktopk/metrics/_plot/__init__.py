"""Plots; matplotlib is imported when something is drawn."""
