"""Trained nets as arrays and plain values, and checkpoint files."""
