"""Datasets, methods, metrics and page of top_of_the_table.py."""
