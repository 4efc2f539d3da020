"""Criteria: losses of minibatches, and the state that is kept between minibatches."""
