"""Products of sample weights and class weights."""

import numpy as np

from sktopk._common._labels import class_weights
from sktopk._training._process import all_objects


def times_class_weight(weight, target, class_weight, classes):
    """Return the sample weights multiplied by the weights of their classes.

    Parameters
    ----------
    weight : ndarray of shape (n_samples,)
    target : ndarray of int of shape (n_samples,)
        Class indices.
    class_weight : dict or "balanced"
        "balanced" uses the sample weights of all processes.
    classes : ndarray of shape (n_classes,)
    """
    count = sum(all_objects(np.bincount(target, weight, len(classes))))
    weight = weight * class_weights(class_weight, classes, count)[target]
    if not any(all_objects(weight.any())):
        raise ValueError("sample_weight times class_weight must not be 0 for every sample")
    return weight
