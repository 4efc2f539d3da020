"""scikit-learn estimators for people who can only look at the top."""

__version__ = "0.1.0.dev0"
