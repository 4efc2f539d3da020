"""Conformity scores of labels, thresholds of the scores, and sets of labels above a threshold."""

import math
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from numbers import Real
from struct import pack

import numpy as np
from scipy.sparse import csr_array, issparse

from sktopk._common._input import as_lazy, class_counts, encode_labels
from sktopk._common._samples import chunks, encode_groups
from sktopk._common._scalars import check_nonnegative, n_kept, on_host
from sktopk._common._warnings import warn

# Parameters of SetClassifier that only some values of `method` use, and these values.
USERS = {
    "k": ("topk", "average_k", "raps"),
    "coverage": ("lac", "aps", "raps", "pas"),
    "randomized": ("aps", "raps"),
    "penalty": ("raps",),
    "prevalence": ("pas",),
}


@dataclass(frozen=True)
class Conformity:
    """Conformity score of one `method` of `SetClassifier`."""

    method: str
    k: float = 1
    penalty: float = 0.0
    prevalence: np.ndarray | None = None

    def __call__(self, proba, u):
        """Return the conformity scores of all labels, an array of the shape of `proba`."""
        if self.method == "pas":
            return proba / self.prevalence
        if self.method not in ("aps", "raps"):
            return proba
        # Subtract the score of Romano et al. (2020) or Angelopoulos et al. (2021) from 1.
        order = _ranking(proba)
        ranked = np.take_along_axis(proba, order, axis=1).astype(np.float64)
        # Start the sum with the smallest probabilities, so that rounding does not remove them.
        mass = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1]
        below = np.zeros_like(mass)
        below[:, :-1] = mass[:, 1:]
        # Divide by the sum of all probabilities, which can differ from 1 by rounding.
        ranked = (below + u[:, None] * ranked) / mass[:, :1]
        if self.method == "raps":
            rank = np.arange(1, proba.shape[1] + 1)
            ranked -= self.penalty * np.maximum(0, rank - self.k)
        out = np.empty_like(mass)
        np.put_along_axis(out, order, ranked, axis=1)
        return out

    def draw(self, X, n_samples, seed):
        """Return one number u in [0, 1] per sample: a hash of the sample and of the seed.

        Only "aps" and "raps" use u. For other methods, u is 1. The hash of a sample is the same for
        all formats of X, for equal float32 and float64 numbers, for 0.0 and -0.0, for None and NaN.
        """
        if self.method not in ("aps", "raps"):
            return np.ones(n_samples)
        # For each seed, u is a fixed function of the sample, so the guarantee of sets holds.
        key = int(seed).to_bytes(8, "little")
        digests = [blake2b(each, digest_size=8, key=key).digest() for each in _contents(as_lazy(X))]
        return np.frombuffer(b"".join(digests), dtype="<u8") / 2.0**64

    def of_labels(self, proba, u, code):
        """Return the conformity score of each sample's label; -inf for unknown labels (code -1)."""
        out = np.full(len(proba), -np.inf)
        for rows in chunks(*proba.shape):
            known = np.flatnonzero(code[rows] >= 0)
            out[rows][known] = self(proba[rows], u[rows])[known, code[rows][known]]
        return out

    def sets(self, proba, u, threshold, max_size, empty):
        """Return the class indices of all sets as one array, and the start of each set in it."""
        columns, sizes = [np.zeros(0, np.intp)], [[0]]
        per_row = np.ndim(threshold) == 2  # else `threshold` is a number, or one number per class
        for rows in chunks(*proba.shape):
            least = threshold[rows] if per_row else threshold
            chosen, size = _choose(self(proba[rows], u[rows]), least, max_size, empty)
            columns.append(chosen)
            sizes.append(size)
        return np.concatenate(columns), np.concatenate(sizes).cumsum()


def find_threshold(conformity, proba, u, code, coverage):
    """Return the conformity threshold. `code` has class indices, or -1 for unknown labels."""
    if conformity.method == "topk":
        return -np.inf
    if conformity.method == "average_k":
        # Sets contain k labels on average, or more if labels tie.
        n_labels = max(1, math.ceil(round(len(proba) * conformity.k, 9)))
        best = proba.size - n_labels
        return -np.inf if best <= 0 else float(np.partition(proba, best, axis=None)[best])
    n, n_unknown = len(code), warn_of_unknown(code)
    threshold = conformal_threshold(conformity.of_labels(proba, u, code), coverage)
    if np.isneginf(threshold):
        reason = f"cannot hold if estimator does not know the labels of {n_unknown} of {n} samples"
        if n < n_needed(coverage):
            reason = f"needs at least {n_needed(coverage)} calibration samples; got {n}"
        warn(f"coverage={coverage} {reason}: every set holds all classes")
    return threshold


def warn_of_unknown(code):
    """Return the number of samples with labels unknown to the classifier (code -1). Warn if > 0."""
    n_unknown = np.count_nonzero(code < 0)
    if n_unknown:
        warn(
            f"{n_unknown} of {len(code)} calibration samples have labels that estimator was not "
            "trained on. No set contains these labels: train estimator on all labels"
        )
    return n_unknown


def warn_of_single_samples(y, coverage, n_calibration):
    """Warn if new samples probably have so many unseen classes that the coverage is too low."""
    # Estimate the share of samples with unseen classes by the share of samples that are the only
    # sample of their class (I. J. Good, Biometrika 40, 237-264, 1953).
    counts = np.unique(y, return_counts=True)[1]
    n_single = np.count_nonzero(counts == 1)
    possible = 1 - n_single / len(y)
    if coverage * (1 - possible) <= 1 / (n_calibration + 1):
        return
    needed = coverage / possible
    or_set = f", or set coverage={needed:.4f}" if needed < 0.9999 else ""
    warn(
        f"the coverage will be about {coverage * possible:.2f} instead of {coverage}, because "
        f"{n_single} of {len(counts)} classes have only one sample. No coverage above "
        f"{possible:.2f} is possible. Merge rare classes or add samples{or_set}"
    )


def conformal_threshold(scores, coverage):
    """Return the ceil((n + 1) coverage)-th largest of n scores; -infinity if n is too small."""
    # The rank of a new score is uniform, so P(new score >= threshold) is at least `coverage`.
    rank = n_kept(coverage, len(scores) + 1)
    return float(np.partition(scores, -rank)[-rank]) if rank <= len(scores) else -np.inf


def conditional_thresholds(scores, code, n_codes, coverage, conditional, units="samples"):
    """Return an array: the threshold of each class or group, or -inf if it has too few samples."""
    order = np.argsort(code, kind="stable")
    parts = np.split(scores[order], np.searchsorted(code[order], np.arange(n_codes + 1)))[1:-1]
    threshold = np.array([conformal_threshold(part, coverage) for part in parts])
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        each, have_fewer = "class", "classes have fewer, and are in every set"
        if conditional == "group":
            each = "group, with labels known to estimator"
            have_fewer = "groups have fewer, and their sets have all classes"
        warn(
            f'coverage={coverage} with conditional="{conditional}" needs {n_needed(coverage)} '
            f"calibration {units} per {each}; {n_few} of {n_codes} {have_fewer}. Use more {units} "
            "or a lower coverage"
        )
    return threshold


def thresholds_of_samples(groups, names, threshold):
    """Return for each sample the threshold of its group, or -inf for an unknown group."""
    index = encode_labels(names, groups, "groups") if len(groups) else np.zeros(0, np.intp)
    if n_unknown := np.count_nonzero(index < 0):
        warn(
            f"{n_unknown} of {len(groups)} samples have groups without calibration "
            "samples, so their prediction sets have all classes: fit with samples of these groups"
        )
    return np.where(index < 0, -np.inf, threshold[index])


def check_conditional_groups(groups, n_samples, conditional):
    """Return groups as an array or None. Only conditional="group" requires and allows groups."""
    if (groups is None) == (conditional == "group"):
        raise ValueError(
            'groups must be passed if and only if conditional="group"; got '
            f"conditional={conditional!r} and {'no groups' if groups is None else 'groups'}"
        )
    if groups is None:
        return None
    encode_groups(groups, n_samples)  # raises if groups are not valid
    groups = np.asarray(on_host(groups, "groups"))
    if groups.dtype.kind not in "OT":
        return groups
    values = groups.tolist()
    if len({isinstance(value, str) for value in values}) > 1:
        raise ValueError("groups must not mix strings and other values: pass strings only")
    return np.array(values)  # NumPy chooses the dtype again: a string dtype instead of object


def n_needed(coverage):
    """Return the smallest number of calibration samples that can guarantee the coverage."""
    # This is the smallest n with ceil((n + 1) coverage) <= n.
    return math.ceil(round(1 / (1 - coverage), 6)) - 1


def class_shares(given, trained, classes):
    """Return class shares: from `given`, else from training data, else from calibration data."""
    name = "prevalence"
    if given is None and trained.y_train is None and hasattr(trained.estimator, "class_count_"):
        given, name = trained.estimator.class_count_, "class_count_ of estimator"
    if given is None:
        count = class_counts(classes, trained.y if trained.y_train is None else trained.y_train)
    else:
        which = "one per class in the order of classes_"
        count = check_nonnegative(given, name, len(classes), which)
    if not count.any():
        raise ValueError("prevalence must be positive for at least one class; all are zero")
    count = np.where(count > 0, count, count[count > 0].min())
    return count / count.sum()


def _ranking(proba):
    """Return the class indices of each sample, sorted by decreasing probability, then index."""
    order = np.argsort(-proba, axis=1)
    ranked = np.take_along_axis(proba, order, axis=1)
    # A stable sort is several times slower, so use it only for samples with ties.
    tied = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
    order[tied] = np.argsort(-proba[tied], axis=1, kind="stable")
    return order


def _choose(conformity, threshold, max_size, empty):
    """Return the class indices of all sets as one array (best first in each set), and set sizes."""
    inside = conformity >= threshold
    if empty == "top1":
        without = np.flatnonzero(~inside.any(axis=1))
        inside[without, conformity[without].argmax(axis=1)] = True
    n_classes = conformity.shape[1]
    if max_size < n_classes:
        # Keep only the max_size best labels of each sample, so that fewer labels are sorted.
        last = np.partition(conformity, n_classes - max_size, axis=1)[:, n_classes - max_size]
        inside &= conformity >= last[:, None]
    row, column = np.nonzero(inside)
    # lexsort is stable, so tied labels stay in the order of their class indices.
    order = np.lexsort((-conformity[row, column], row))
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = rank < max_size
    return column[order][kept], np.bincount(row[kept], minlength=len(conformity))


def _contents(X):
    """Yield the bytes of each sample, from which the hash is computed."""
    if isinstance(X, list | tuple):
        yield from map(_content, X)
        return
    if hasattr(X, "iter_rows") and not all(dtype.is_numeric() for dtype in X.dtypes):
        yield from map(_content, X.iter_rows())  # NumPy converts times of polars to integers
        return
    X = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    for rows in chunks(X.shape[0], math.prod(X.shape[1:])):
        part = getattr(X, "iloc", X)[rows]
        if not issparse(part):
            part = np.asarray(part)
            part = part.reshape(len(part), math.prod(part.shape[1:]))
        if part.dtype.kind in "fiub":
            yield from _contents_of_numbers(part)
        else:
            yield from map(_content, part.astype(object).tolist())


def _contents_of_numbers(rows):
    """Yield the same bytes as `_content`, for each row of a numeric array or CSR matrix."""
    rows = csr_array(rows, dtype=np.float64)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.data[np.isnan(rows.data)] = np.nan  # all NaN get the same bits
    columns, values = rows.indices.astype("i8").tobytes(), rows.data.tobytes()
    for start, end in pairwise((8 * rows.indptr.astype(np.int64)).tolist()):
        yield columns[start:end] + values[start:end]


def _content(row):
    """Return the bytes of a row: columns and values of nonzero numbers, then of other objects."""
    row = np.ravel(row).tolist() if hasattr(row, "__array__") else row
    numbers, others = {}, []
    for column, value in enumerate(row if isinstance(row, list | tuple) else [row]):
        if value is None or isinstance(value, Real | np.bool_):
            number = math.nan if value is None or value != value else float(value)
            if number != 0:
                numbers[column] = number
        elif type(value).__name__ in ("NAType", "NaTType"):  # missing values of pandas
            numbers[column] = math.nan
        else:
            time = getattr(value, "isoformat", None)  # the same text for times of all libraries
            others.append((column, repr(value) if time is None else time()))
    content = pack(f"={len(numbers)}q{len(numbers)}d", *numbers, *numbers.values())
    return content + repr(others).encode() if others else content
