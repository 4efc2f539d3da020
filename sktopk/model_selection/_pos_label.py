"""The positive label that all compared classifiers and the scorer use."""

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sktopk._common._labels import class_counts
from sktopk._common._scalars import positive_label


def with_pos_label(estimator, scorer, estimators, classes, y):
    """Return the scorer and the dict of estimators with a positive label, if they have none.

    The label is the `pos_label` of the scorer or of `estimator`, or else of all samples `y`: folds
    could differ.
    """
    named = {"scorer": scorer, "estimator": estimator} | estimators
    own = {name: _own_parameter(each) for name, each in named.items()}
    given = [named[name].get_params()[param] for name, param in own.items() if param is not None]
    if not given:
        return scorer, estimators
    known = (label for label in given if label is not None)
    pos_label = positive_label(next(known, None), classes, class_counts(classes, y))

    def with_label(name):
        each, param = named[name], own[name]
        if param is None or each.get_params()[param] is not None:
            return each
        return clone(each).set_params(**{param: pos_label})

    return with_label("scorer"), {name: with_label(name) for name in estimators}


def _own_parameter(estimator):
    """Return "pos_label", or for a pipeline e.g. "clf__pos_label", or None if there is none."""
    name = "pos_label"
    last = estimator
    while isinstance(last, Pipeline):
        step, last = last.steps[-1]
        name = name.replace("pos_label", f"{step}__pos_label")
    params = getattr(last, "get_params", dict)()
    return name if "pos_label" in params else None
