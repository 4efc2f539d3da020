"""Boosted trees trained for the top."""
