"""Classifiers with guarantees for review budgets and prediction sets."""
