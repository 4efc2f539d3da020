"""Assignment of fitted attributes at the end of a fit, in one step."""


def fitted_attributes(estimator):
    """Return the attributes that `fit` sets: those whose names end with an underscore."""
    return {k: v for k, v in vars(estimator).items() if k.endswith("_") and not k.endswith("__")}


def assign(estimator, fitted):
    """Replace all fitted attributes in one step, so that other threads see the old or the new."""
    before = fitted_attributes(estimator)
    own = {name: value for name, value in vars(estimator).items() if name not in before}
    estimator.__dict__ = own | fitted_attributes(fitted)


def present(estimator):
    """Return the estimator in its present state, whatever a `fit` in another thread does."""
    now = object.__new__(type(estimator))
    now.__dict__ = estimator.__dict__
    return now
