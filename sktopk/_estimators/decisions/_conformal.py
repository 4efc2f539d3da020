"""Conformity of labels, thresholds on it, and the sets they give.

Each method gives a conformity score to each label of a sample, the larger the better. The set holds
the labels whose conformity is at least the threshold.
"""

import math
from dataclasses import dataclass

import numpy as np

from sktopk._common._labels import encode_labels
from sktopk._common._row_keys import row_keys
from sktopk._common._scalars import check_nonnegative, n_kept
from sktopk._common._warnings import warn

METHODS = ("topk", "average_k", "lac", "aps", "raps", "pas")
# Parameters that not all methods use, and the methods that do.
USERS = {
    "k": ("topk", "average_k", "raps"),
    "coverage": ("lac", "aps", "raps", "pas"),
    "randomized": ("aps", "raps"),
    "penalty": ("raps",),
    "prevalence": ("pas",),
}
# About 8 MB of float64: sorting copies chunks of rows, not all of them.
_CHUNK_SIZE = 2**20


@dataclass(frozen=True)
class Conformity:
    """How well each label conforms to a sample, by one of `METHODS`.

    `u`, one number in [0, 1] per sample, is the share of a label's own probability that counts
    for it in "aps" and "raps"; the other methods ignore it. With u = 1 the sets of "aps" are the
    shortest prefixes of the ranking whose probability exceeds 1 - threshold.
    """

    method: str
    k: float = 1
    penalty: float = 0.0
    prevalence: np.ndarray | None = None

    def __call__(self, proba, u):
        """Return the conformity of every label, of the shape of `proba`."""
        if self.method == "pas":
            return proba / self.prevalence
        if self.method in ("aps", "raps"):
            return self._mass_from_label_down(proba, u)
        return proba

    def draw(self, X, n_samples, seed):
        """Return u for each of the `n_samples` of X, a hash of its content and the seed.

        Calibration samples draw as new samples do. The conformity is then a function of sample and
        label, for which the guarantee holds whatever the seed.
        """
        drawn = self.method in ("aps", "raps")
        return row_keys(X, seed) / 2.0**64 if drawn else np.ones(n_samples)

    def of_labels(self, proba, u, code):
        """Return the conformity of column ``code[i]`` in row i, minus infinity for code -1."""
        out = np.full(len(proba), -np.inf)
        for rows in chunks(*proba.shape):
            known = np.flatnonzero(code[rows] >= 0)
            out[rows][known] = self(proba[rows], u[rows])[known, code[rows][known]]
        return out

    def sets(self, proba, u, *, threshold, max_size, empty):
        """Return the columns in the sets, sample by sample and best first, and where each begins.

        The threshold is one number, a row with one per class or a column with one per sample.
        """
        columns, sizes = [np.zeros(0, np.intp)], [[0]]
        per_row = np.ndim(threshold) == 2
        for rows in chunks(*proba.shape):
            least = threshold[rows] if per_row else threshold
            chosen, size = _choose(self(proba[rows], u[rows]), least, max_size, empty)
            columns.append(chosen)
            sizes.append(size)
        return np.concatenate(columns), np.concatenate(sizes).cumsum()

    def _mass_from_label_down(self, proba, u):
        """1 - E with the scores E of Romano et al. and Angelopoulos et al.; falls with rank."""
        order = _ranking(proba)
        ranked = np.take_along_axis(proba, order, axis=1).astype(np.float64)
        # Summed from the smallest: sums from the largest would round a small tail away.
        mass = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1]
        below = np.zeros_like(mass)
        below[:, :-1] = mass[:, 1:]
        # Over the sum of the row: probabilities sum to 1 up to rounding only.
        ranked = (below + u[:, None] * ranked) / mass[:, :1]
        if self.method == "raps":
            rank = np.arange(1, proba.shape[1] + 1)
            ranked -= self.penalty * np.maximum(0, rank - self.k)
        out = np.empty_like(mass)
        np.put_along_axis(out, order, ranked, axis=1)
        return out


def find_threshold(conformity, proba, u, code, coverage):
    """Return the threshold of the method; `code` are the labels' columns, -1 where unknown."""
    if conformity.method == "topk":
        return -np.inf
    if conformity.method == "average_k":
        return average_size_threshold(proba, conformity.k)
    n, n_unknown = len(code), warn_of_unknown(code)
    threshold = conformal_threshold(conformity.of_labels(proba, u, code), coverage)
    if np.isneginf(threshold):
        reason = f"cannot be reached with {n_unknown} of {n} labels unknown to estimator"
        if n < n_needed(coverage):
            reason = f"needs at least {n_needed(coverage)} calibration samples; got {n}"
        warn(f"coverage={coverage} {reason}: every set holds all classes")
    return threshold


def warn_of_unknown(code):
    """Warn of labels that the classifier does not know, -1 in `code`; return their number."""
    n_unknown = np.count_nonzero(code < 0)
    if n_unknown:
        warn(
            f"{n_unknown} of {len(code)} calibration samples have labels that estimator does not "
            "know: no set covers them",
        )
    return n_unknown


def warn_of_single_samples(y, coverage, n_calibration):
    """Warn if classes without a sample will cost more coverage than a threshold leaves open.

    The share of samples that are the only ones of their class estimates the share of new samples
    whose class has none (Good, 1953). Calibration samples have another one of their class in
    training, and the threshold holds for such samples only.
    """
    counts = np.unique(y, return_counts=True)[1]
    n_single = np.count_nonzero(counts == 1)
    possible = 1 - n_single / len(y)
    if coverage * (1 - possible) <= 1 / (n_calibration + 1):
        return
    asked = coverage / possible
    advice = f"No coverage that is asked for reaches {coverage}: merge"
    if asked < 0.9999:
        advice = f"Ask for coverage={asked:.4f}, merge"
    warn(
        f"coverage={coverage} will come out at about {coverage * possible:.2f}: {n_single} of "
        f"{len(counts)} classes have a single sample among the {len(y)} given to fit. About "
        f"{100 * (1 - possible):.2g} % of new samples will be of a class that has none. No set "
        f"covers these: at most {possible:.2f} can be reached. {advice} rare classes or get more "
        "samples of them. Or wrap a fitted estimator in FrozenEstimator, and pass other samples to "
        "fit: then samples that it cannot cover count"
    )


def conformal_threshold(scores, coverage):
    """Return what the score of a new sample reaches with a probability of at least `coverage`.

    Of n scores it is the ceil((n + 1) coverage)-th largest, since a new one is as likely to
    fall into each of the n + 1 gaps; minus infinity if n is smaller than that.
    """
    rank = n_kept(coverage, len(scores) + 1)
    return float(np.partition(scores, -rank)[-rank]) if rank <= len(scores) else -np.inf


def n_needed(coverage):
    """Return the smallest n with ceil((n + 1) coverage) <= n."""
    return math.ceil(round(coverage / (1 - coverage), 9))


def average_size_threshold(proba, k):
    """Return the threshold that leaves k labels per sample on average, or more if they tie."""
    n_labels = math.ceil(round(len(proba) * k, 9))
    if n_labels >= proba.size:
        return -np.inf
    return float(np.partition(proba, -n_labels, axis=None)[-n_labels])


def class_shares(given, trained, calibration):
    """Return the share of each class: as given, in training, or else in calibration."""
    estimator, training = trained.estimator, trained.y_train
    n_classes, which = len(estimator.classes_), "one per class in the order of classes_"
    if given is not None:
        count = check_nonnegative(given, "prevalence", n_classes, which)
    elif training is None and hasattr(estimator, "class_count_"):
        name = "class_count_ of estimator"
        count = check_nonnegative(estimator.class_count_, name, n_classes, which)
    else:
        code = calibration if training is None else encode_labels(estimator.classes_, training)
        count = np.bincount(code[code >= 0], minlength=n_classes)
    if not count.any():
        raise ValueError("prevalence must be positive for at least one class; all are zero")
    count = np.where(count > 0, count, count[count > 0].min())
    return count / count.sum()


def _ranking(proba):
    """Return the columns of each row, best first, tied ones in their order."""
    order = np.argsort(-proba, axis=1)
    ranked = np.take_along_axis(proba, order, axis=1)
    # A stable sort takes several times as long, and only ties need it.
    tied = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
    order[tied] = np.argsort(-proba[tied], axis=1, kind="stable")
    return order


def _choose(conformity, threshold, max_size, empty):
    """Return the columns in each set, best first, and the set sizes, at most `max_size`."""
    inside = conformity >= threshold
    if empty == "top1":
        without = np.flatnonzero(~inside.any(axis=1))
        inside[without, conformity[without].argmax(axis=1)] = True
    n_classes = conformity.shape[1]
    if max_size < n_classes:
        # Fewer labels to sort.
        last = np.partition(conformity, n_classes - max_size, axis=1)[:, n_classes - max_size]
        inside &= conformity >= last[:, None]
    row, column = np.nonzero(inside)
    # A stable sort: columns rise within a row, and go on to do so where labels tie.
    order = np.lexsort((-conformity[row, column], row))
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = rank < max_size
    return column[order][kept], np.bincount(row[kept], minlength=len(conformity))


def chunks(n_samples, width):
    """Yield slices of rows of `width` numbers each that do not take much memory."""
    n_rows = max(1, _CHUNK_SIZE // width)
    for start in range(0, n_samples, n_rows):
        yield slice(start, start + n_rows)
