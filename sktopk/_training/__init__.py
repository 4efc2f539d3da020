"""Training of networks with skorch, independent of the estimators."""
