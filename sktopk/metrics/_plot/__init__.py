"""Displays of metrics, drawn with matplotlib."""
