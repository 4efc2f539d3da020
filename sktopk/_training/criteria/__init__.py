"""Losses of minibatches, with what they remember of earlier ones."""
