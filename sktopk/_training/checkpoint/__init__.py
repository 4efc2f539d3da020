"""Training that goes on after a crash."""
