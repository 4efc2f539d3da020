"""Losses of minibatches, with the state that they keep between minibatches."""
