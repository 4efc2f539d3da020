"""A threshold of conformity for each class, cluster of classes or group of rows.

What a threshold is found with are the rows of its class, cluster or group alone, so that the
coverage is that of such rows.
"""

import numpy as np

from sktopk._common._scalars import on_host
from sktopk._common._warnings import warn
from sktopk.metrics._ranking import encode_groups

from ._conformal import conformal_threshold, n_rows_needed

CONDITIONS = (None, "class", "cluster", "group")
# Of Ding et al. (2023): what a class is known by, and how many rows say so.
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)
_N_CLASSES_HALF = 75


def class_thresholds(scores, code, n_classes, coverage):
    """Return a threshold per class; minus infinity, with a warning, for those of too few rows."""
    threshold = _thresholds(scores, code, n_classes, coverage)
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        warn(
            f"coverage={coverage} of a class needs at least {n_rows_needed(coverage)} calibration "
            f"rows of it; {n_few} of {n_classes} classes have fewer, or their scores say nothing: "
            'they are in every set. conditional="cluster" lets classes share thresholds'
        )
    return threshold


def cluster_thresholds(scores, code, n_classes, coverage, random):
    """Return a threshold per class, that of its cluster, and the number of the cluster.

    Clustered conformal prediction (Ding et al., 2023): a random part of the rows says which
    classes have like scores, the rest brings the threshold of each cluster. A class of too few
    rows to tell is in none, -1, and has the threshold of all rows.
    """
    known = code >= 0
    n_needed = n_rows_needed(max(coverage, _LEVELS[-1]))
    count = np.bincount(code[known], minlength=n_classes)
    n_least = max(count.min(), n_needed)
    n_enough = np.count_nonzero(count >= n_least)
    share = n_enough / (_N_CLASSES_HALF + n_enough)
    n_clusters = int(n_least * share / 2)
    clustering = known & (random.random_sample(len(code)) < share)
    parts = _parts(scores[clustering], code[clustering], n_classes)
    cluster = _clusters(parts, sorted({*_LEVELS, coverage}), n_needed, n_clusters)
    if (cluster < 0).all():
        warn(
            f"{len(code)} calibration rows are too few to tell which of {n_classes} classes are "
            "alike: they share one threshold, of all rows"
        )
        return np.full(n_classes, conformal_threshold(scores, coverage)), cluster
    scores, code = scores[~clustering], code[~clustering]
    of_row = np.where(code >= 0, cluster[code], -1)
    threshold = _thresholds(scores, of_row, cluster.max() + 1, coverage)
    return np.append(threshold, conformal_threshold(scores, coverage))[cluster], cluster


def group_thresholds(scores, groups, coverage):
    """Return the names of the groups, sorted, and their thresholds; few rows as of a class."""
    names, code = np.unique(groups, return_inverse=True)
    threshold = _thresholds(scores, code, len(names), coverage)
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        warn(
            f"coverage={coverage} of a group needs at least {n_rows_needed(coverage)} calibration "
            f"rows of it, with labels that estimator knows; {n_few} of {len(names)} groups have "
            "fewer: every set of their rows holds all classes"
        )
    return names, threshold


def thresholds_of_rows(groups, names, threshold):
    """Return the threshold of each row's group; minus infinity, with a warning, for new groups."""
    if (groups.dtype.kind in "US") != (names.dtype.kind in "US"):
        raise ValueError(
            f"groups must be of the kind given to fit, such as {names[0]!r}; got {groups[0]!r}"
        )
    index = np.searchsorted(names, groups).clip(max=len(names) - 1)
    known = names[index] == groups
    if not known.all():
        warn(
            f"{np.count_nonzero(~known)} of {len(groups)} rows are of groups without calibration "
            "rows: their sets hold all classes"
        )
    return np.where(known, threshold[index], -np.inf)


def check_conditional_groups(groups, n_samples, conditional):
    """Return groups as an array; raise unless they come with ``conditional="group"`` alone."""
    if (groups is None) == (conditional == "group"):
        raise ValueError(
            'groups must be passed with conditional="group" and only then; got '
            f"conditional={conditional!r} and {'no groups' if groups is None else 'groups'}"
        )
    if groups is None:
        return None
    encode_groups(groups, n_samples)  # raises what cannot be compared
    # Texts in an array of objects and in one of their own are the same names.
    return np.array(np.asarray(on_host(groups, "groups")).tolist())


def _thresholds(scores, code, n_codes, coverage):
    """Return the threshold of the rows of each code; rows of code -1 count for none."""
    parts = _parts(scores, code, n_codes)
    return np.array([conformal_threshold(part, coverage) for part in parts])


def _parts(scores, code, n_codes):
    """Return a list of the scores of each code from 0."""
    order = np.argsort(code, kind="stable")
    return np.split(scores[order], np.searchsorted(code[order], np.arange(n_codes + 1)))[1:-1]


def _clusters(parts, levels, n_needed, n_clusters):
    """Return the cluster of each class by the quantiles of its scores, -1 for too few rows."""
    cluster = np.full(len(parts), -1)
    count = np.array([len(part) for part in parts])
    enough = np.flatnonzero(count >= n_needed)
    if not 1 < n_clusters < len(enough):
        return cluster
    # Imported where it is needed: it takes a tenth of a second.
    from sklearn.cluster import KMeans

    points = [np.quantile(parts[i], [1 - level for level in levels]) for i in enough]
    kmeans = KMeans(n_clusters, n_init=10, random_state=0)
    cluster[enough] = kmeans.fit_predict(points, sample_weight=np.sqrt(count[enough]))
    return cluster
