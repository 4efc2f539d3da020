"""Multiplication of sample weights by class weights."""

from sktopk._common._labels import class_weights
from sktopk._training._process import all_objects


def times_class_weight(weight, target, class_weight, classes, count):
    """Return the sample weights multiplied by the weights of their classes.

    Parameters
    ----------
    weight : ndarray of shape (n_samples,)
    target : ndarray of int of shape (n_samples,)
        Class indices.
    class_weight : dict or "balanced"
        Weight of each label. "balanced" computes the weights from `count`.
    classes, count : ndarray of shape (n_classes,)
        Labels, and the sum of the sample weights of each label over all processes.
    """
    weight = weight * class_weights(class_weight, classes, count)[target]
    if not any(all_objects(weight.any())):
        raise ValueError("sample_weight times class_weight must not be 0 for every sample")
    return weight
