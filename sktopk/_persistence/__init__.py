"""Conversion of trained nets to arrays and plain values, and checkpoint files."""
