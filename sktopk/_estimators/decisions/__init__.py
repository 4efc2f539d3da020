"""Decisions with guarantees, on top of any classifier."""
