"""Losses of minibatches and their state."""
