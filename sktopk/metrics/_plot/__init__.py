"""Displays: arrays that know how to draw themselves."""
