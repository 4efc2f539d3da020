"""Monitor: whether new rows are still like those that calibrated, and a promise still kept."""

from __future__ import annotations

from copy import copy
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from sktopk._common._input import check_labels, check_table, take_rows
from sktopk._common._public import public
from sktopk._common._scalars import check_number, check_random, on_host
from sktopk._common._types import RowsLike
from sktopk._estimators._logs import labelled_rows
from sktopk.metrics._ranking import encode_groups

from ._betting import RateBets, RowBets, ScoreBins
from ._likelihood_ratio import n_rows, stacked

if TYPE_CHECKING:
    from ._budget import BudgetClassifier
    from ._sets import SetClassifier


class Evidence(NamedTuple):
    """What speaks against a promise: so far, at most and since when it is enough.

    `e_value` is the capital now, `p_value` one over the largest that it ever was, valid whenever
    one looks; `alarm` names the batch in which that fell to the level of the test, or is None.
    """

    promise: str
    n_batches: int
    n_rows: int
    e_value: float
    p_value: float
    alarm: Any


class _Test:
    """Bets against a promise, and what became of them."""

    def __init__(self, promise, bets, level):
        self.promise, self.bets, self.level = promise, bets, level
        self.n_rows, self.highest, self.alarm = 0, 0.0, None
        self.names, self.log_e = [], []

    def played(self, name, n_rows):
        """Note a batch of this name, which the bets have played."""
        log_e = float(self.bets.capital.log)
        self.names.append(name)
        self.log_e.append(log_e)
        self.n_rows += n_rows
        self.highest = max(self.highest, log_e)
        if self.alarm is None and -self.highest <= np.log(self.level):
            self.alarm = name

    def evidence(self):
        """Return it as `Evidence`."""
        e_value = float(np.exp(min(self.log_e[-1] if self.log_e else 0.0, 700.0)))
        p_value = float(np.exp(-self.highest))
        counts = len(self.names), self.n_rows
        return Evidence(self.promise, *counts, e_value, p_value, self.alarm)


@public
class Monitor:
    r"""Watch whether rows are as they were, and whether a desk or sets still keep their promise.

    Both questions are bets, whose capital E is 1 at first and, if all is as promised, cannot be
    expected to grow. By Ville's inequality [1]_

    .. math::
        P\Bigl( \sup_t E_t \ge \frac{1}{\delta} \Bigr) \le \delta,

    however long one watches, and however often one looks: an alarm is given once E reaches
    1 / (level of the test), two tests sharing `delta`.

    "rows": the scores of new rows are exchangeable with those of the calibration rows. Conformal
    p-values, each of a row among all rows before it, are then uniform and independent [2]_; the
    bet is that they are not, on where scores fall among bins of the calibration scores, with a
    memory from a few to all batches. It needs no labels.

    "promise": the rate that `constraint` names keeps the budget, or sets keep the coverage. Of
    each row of known label, with g = budget - 1 for a positive flagged row under "precision",
    budget for a negative one, and so for the other rates, such that the mean of g over all rows is
    at most 0 if and only if the promise is kept, the capital is multiplied by [3]_

    .. math::
        1 + \lambda \frac{g_i}{\pi_i}, \qquad
        0 < \lambda < \frac{\min_i \pi_i}{-\min g}

    with the propensity :math:`\pi_i` of its label, for a grid of :math:`\lambda`. Both
    bets may begin with any batch, so that a change after years is found nearly as fast as one at
    once.

    Parameters
    ----------
    decision : BudgetClassifier or SetClassifier
        Fitted; without a classifier if made by its ``from_scores``, when scores take the place of
        X everywhere.
    reference : array-like of shape (n_reference, n_features), default=None
        Rows that new rows should be like, which trained nothing. None: the rows that calibrated
        `decision`, if it kept their scores.
    delta : float, default=0.05
        Probability in (0, 1) of a false alarm, over all time and both tests.
    tolerance : float, default=0.0
        How much worse than its budget a rate may be before it counts, in [0, 1).
    random_state : int, RandomState or None, default=None
        Seed of the places of rows that tie.

    Attributes
    ----------
    history_ : dict of str to ndarray of shape (n_batches,)
        For each test the decadic logarithm of the capital after each batch.

    See Also
    --------
    BudgetClassifier.monitor : Makes one.
    SetClassifier.monitor : Makes one.

    Notes
    -----
    Whether the promise holds is judged for the calibration rows as they are. A threshold of
    "fpr", "recall" or "precision" keeps its budget with a probability of 1 - its own delta over
    them; in the other cases an alarm that it does not is no false one. Coverage is promised on
    average over them: what is tested is whether it has fallen below what n calibration rows
    leave possible, a quantile of a beta distribution, for which half the level of the test is
    spent. The mean of "fdr" over calibration rows may lie a little above the budget for those at
    hand: give a `tolerance`. "count" promises no rate.

    It is assumed that rows come independently, that the propensity is right, that labels become
    known independently of each other given the rows, and that *when* a label comes has nothing to
    do with what it is: where frauds are confirmed before the others, wait until all of a day
    are known. Rows of a shift that is here to stay join those that new rows are compared with, so
    that "rows" may miss a small one that comes soon after few calibration rows.

    X is what `decision` takes: behind a pipeline the rows that its last step gets. Of sets that
    promise coverage by class the coverage of all rows is watched, which follows; of sets by group,
    and of those that `max_size` cuts (without a hierarchy), the rows alone. What is watched is
    `decision` as its fit made it, whose promise no parameter that is set later changes: after
    another fit make a new monitor. A monitor can be pickled, and goes on.

    Of the rows that `update` gets a monitor keeps counts alone. All rows whose labels
    `update_labels` gets it keeps as they are, since `recalibrate` needs them. By these it grows, as
    do its pickles and files, which hold whatever personal data the rows do. A new monitor begins
    without any.

    References
    ----------
    .. [1] J. Ville. Étude critique de la notion de collectif. Gauthier-Villars, 1939.
    .. [2] V. Vovk, I. Nouretdinov, A. Gammerman. Testing exchangeability on-line. ICML 2003.
    .. [3] I. Waudby-Smith, A. Ramdas. Estimating means of bounded random variables by betting.
       Journal of the Royal Statistical Society B 86(1), 1-27, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sktopk import BudgetClassifier, Monitor
    >>> rng = np.random.default_rng(0)
    >>> def day(shift=0.0):
    ...     fraud = rng.random(500) < 0.2
    ...     return rng.normal(size=500) + 2 * fraud + shift * ~fraud, fraud
    >>> y_score, fraud = day()
    >>> params = {"constraint": "precision", "budget": 0.6, "random_state": 0}
    >>> desk = BudgetClassifier.from_scores(y_score, fraud, **params)
    >>> monitor = Monitor(desk, random_state=0)
    >>> for number in range(40):
    ...     y_score, fraud = day(shift=0.4 if number >= 20 else 0.0)
    ...     queue = desk.predict_top(y_score)
    ...     report = monitor.update(y_score)
    ...     report = monitor.update_labels(y_score[queue], fraud[queue])
    >>> report["rows"].alarm > 19, report["promise"].alarm > 19
    (True, True)
    """

    def __init__(
        self,
        decision: BudgetClassifier | SetClassifier,
        reference: RowsLike | None = None,
        *,
        delta: float = 0.05,
        tolerance: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        check_number(delta, "delta", 0, 1, bounds="neither")
        check_number(tolerance, "tolerance", 0, 1, bounds="left")
        if not hasattr(decision, "_promised"):
            raise TypeError(
                "decision must be a fitted BudgetClassifier or SetClassifier; got "
                f"{type(decision).__name__}"
            )
        check_is_fitted(decision, "estimator_")
        # A copy: neither a later fit nor other parameters of `decision` change what is watched.
        self.decision = decision = copy(decision)
        scores = decision._reference_scores() if reference is None else self._scores(reference)
        random = check_random(random_state)
        self._begin(decision, delta, tolerance, random, ScoreBins.of(scores, random))

    def _begin(self, decision, delta, tolerance, random, bins):
        """Begin to watch."""
        self.decision, self.delta, self.tolerance = decision, delta, tolerance
        # Whole rows: a decision fitted anew asks for more than scores, such as draws by content.
        self._random, self._bins, self._labelled = random, bins, []
        self._promise, of_rows = None, float(delta)
        if decision._promises():
            of_rows = of_promise = float(delta) / 2
            self._promise, of_promise = decision._promised(float(tolerance), of_promise)
        like = "rows are like those that calibrated"
        self._tests = {"rows": _Test(like, RowBets(bins.mass), of_rows)}
        if self._promise is not None:
            self._tests["promise"] = _Test(str(self._promise), self._promise.bets(), of_promise)

    def update(self, X: RowsLike, groups: ArrayLike | None = None) -> dict[str, Evidence]:
        """Look at new rows, as they come: are they like those that calibrated?

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Each row once, flagged or not; scores of a `decision` made by ``from_scores``.
        groups : array-like of shape (n_samples,), default=None
            Name of the batch of each row, such as its day, by which alarms are named; batches
            follow each other as their first rows do. Of times the name is their text, such as
            "2026-05-01". None: one batch, with a number from 0.

        Returns
        -------
        report : dict of str to Evidence
            As `report` returns it.

        Raises
        ------
        TypeError, ValueError
            If there are no rows, groups are not one per row, or the scores are not finite.
        """
        test, scores = self._tests["rows"], self._scores(X)
        for name, rows in _batches(groups, len(scores), test):
            test.bets.update(self._bins.counts(scores[rows], self._random))
            test.played(name, len(rows))
        return self.report()

    def update_labels(
        self,
        X: RowsLike,
        y: ArrayLike,
        *,
        propensity: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> dict[str, Evidence]:
        """Look at labels, as they come in: is the promise still kept?

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Rows whose labels have come in, of which `update` may have seen the features before.
            Labels of flagged rows tell about "precision" and "fdr" alone; for "fpr" and "recall"
            some of the others have to be known, too. For "fdr" all rows that were flagged in
            the batch. No rows are a batch in which nothing was flagged: no mistake, which tells
            something about "fdr" alone, the mean over all batches.
        y : array-like of shape (n_samples,)
            Their labels.
        propensity : array-like of shape (n_samples,), default=None
            Probability in (0, 1] with which each label came to be known, NaN where it did not.
            None: 1; of "precision" and "fdr", whatever is the same for all flagged rows.
        groups : array-like of shape (n_samples,), default=None
            Name of the batch of each row, as in `update`.

        Returns
        -------
        report : dict of str to Evidence
            As `report` returns it.

        Raises
        ------
        TypeError, ValueError
            If `decision` promises no rate, a label is unknown, or an argument is not allowed.
        """
        if self._promise is None:
            raise ValueError(
                f"decision promises no rate that labels could refute; got {self.decision!r}"
            )
        check_table(X)
        X, y = indexable(X)[0], on_host(y, "y")
        n_samples = len(y)
        rows, chance = np.arange(n_samples), np.ones(n_samples)
        if propensity is not None:
            rows, chance = labelled_rows(propensity, n_samples, "X")
            X, y = take_rows(X, rows), take_rows(y, rows)
            groups = None if groups is None else np.asarray(on_host(groups, "groups"))[rows]
        test = self._tests["promise"]
        if n_samples:
            y = check_labels(y)
            batches = _batches(groups, len(y), test)
            gain, flagged = self._promise.gain(X, y)
        elif n_rows(X):
            raise ValueError(f"y must have a label for each of the {n_rows(X)} rows of X; got none")
        else:
            batches = [(len(test.names), rows)]
            y, gain, flagged = np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool)
        for name, batch in batches:
            test.bets.update(*self._promise.of_batch(gain[batch], chance[batch]))
            test.played(name, len(batch))
            known = take_rows(X, batch) if len(batch) else None
            self._labelled.append((name, known, y[batch], chance[batch], flagged[batch]))
        return self.report()

    def report(self) -> dict[str, Evidence]:
        """Return what speaks against each promise.

        Returns
        -------
        report : dict of str to Evidence
            Under "rows" and, where a rate is promised, "promise": named tuples (promise,
            n_batches, n_rows, e_value, p_value, alarm). `p_value` is valid at any time; `alarm` is
            the name of the first batch in which it fell to the level of the test, or None.
        """
        return {name: test.evidence() for name, test in self._tests.items()}

    @property
    def history_(self) -> dict[str, np.ndarray]:
        """For each test the decadic logarithm of the capital after each batch."""
        return {name: np.array(test.log_e) / np.log(10) for name, test in self._tests.items()}

    def recalibrate(
        self,
        since: int | str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> BudgetClassifier | SetClassifier:
        """Return `decision` calibrated anew, with the labels that have come in.

        The classifier stays. Rows are thinned to a sample of all by their propensities, as in
        `BudgetClassifier.fit`. Watch over what this returns with a new monitor, which has a
        `delta` of its own.

        Parameters
        ----------
        since : int or str, default=None
            Name of the first batch of labels to use. None: all of them, those from before a
            change, too.
        random_state : int, RandomState or None, default=None
            Seed of the thinning.

        Returns
        -------
        decision : BudgetClassifier or SetClassifier
            With the parameters that the old one had when this monitor was made, what it promises as
            in its fit, and `estimator` frozen. Of labels of flagged rows alone it knows no rate but
            the precision.

        Raises
        ------
        ValueError
            If there are no labels, no batch of this name, or only labels of flagged rows, which
            say nothing about the threshold of a rate other than "precision". Of "fdr" there are
            no others: fit it on a random sample of all rows.
        """
        names = [name for name, *_ in self._labelled]
        if not names or (since is not None and since not in names):
            raise ValueError(
                "since must be the name of a batch of update_labels, or None if there is one; got "
                f"{since!r}, and {len(names)} batches: {names[:5]}"
            )
        kept = self._labelled[0 if since is None else names.index(since) :]
        kept = [part for part in kept if part[1] is not None]
        if not kept:
            raise ValueError(
                f"since must leave a batch with labels; got {since!r}, and none has any"
            )
        _, X, y, propensity, flagged = zip(*kept, strict=True)
        y, propensity, flagged = (np.concatenate(each) for each in (y, propensity, flagged))
        if flagged.all() and self._promise.needs_all_rows:
            way_out = "give update_labels some of the others, too, with their propensity"
            if self._promise.name == "fdr":
                way_out = "fit it on a random sample of all rows"
            raise ValueError(
                "labels must be of some rows that were not flagged, too, to calibrate "
                f"{self._promise.name!r} anew; all {len(y)} were flagged: {way_out}"
            )
        random = check_random(random_state)
        rows = np.flatnonzero(random.uniform(size=len(y)) * propensity < propensity.min())
        X = reduce(stacked, X)
        fitted = self.decision.estimator_
        frozen = fitted if isinstance(fitted, FrozenEstimator) else FrozenEstimator(fitted)
        promised = self.decision._promised_params
        decision = clone(self.decision).set_params(estimator=frozen, **promised)
        decision.fit(take_rows(X, rows), y[rows])
        if flagged.all() and "precision" in getattr(decision, "rates_", {}):
            # Of rows that were flagged before, the other rates are none of all rows.
            decision.rates_ = {"precision": decision.rates_["precision"]}
        return decision

    def _scores(self, X):
        check_table(X)
        scores = np.asarray(self.decision._watched_scores(X), dtype=np.float64)
        if not len(scores):
            raise ValueError("X must have at least one row; got none")
        return scores


class Promise:
    """A rate that a decision keeps at a limit, above or below, and what rows say of it.

    Parameters
    ----------
    decision : estimator
        With `_outcome(X, y)`, of three masks: which rows count, which of these are good, and which
        are flagged.
    name : str
    limit : float
        In (0, 1).
    at_least : bool
        Whether the share of good rows among those that count is at least `limit`, or at
        most, of "fpr" and "fdr", where good ones are those one would rather not have.
    """

    def __init__(self, decision, name, limit, at_least):
        if not 0 < limit < 1:
            raise ValueError(f"tolerance must leave {name} a limit in (0, 1); got {limit:g}")
        self.decision, self.name, self.limit, self.at_least = decision, name, limit, at_least

    def __str__(self):
        return f"{self.name} {'>=' if self.at_least else '<='} {self.limit:.4g}"

    @property
    def needs_all_rows(self):
        """Whether rows that were not flagged have a say in its threshold."""
        return self.name in ("fpr", "recall", "fdr")

    def bets(self):
        """Return bets against it."""
        return RateBets(1 - self.limit if self.at_least else self.limit)

    def gain(self, X, y):
        """Return what each row adds to the evidence, on average at most 0; and who is flagged."""
        counts, good, flagged = self.decision._outcome(X, y)
        gain = self.limit - good if self.at_least else good - self.limit
        return np.where(counts, gain, 0.0), flagged

    def of_batch(self, gain, propensity):
        """Return the gains of a batch and their propensities: of "fdr" the batch is one row.

        Where nothing was flagged, nothing is false.
        """
        if self.name == "fdr":
            return gain.mean(keepdims=True) if len(gain) else np.array([-self.limit]), np.ones(1)
        return gain, propensity


def coverage_left(coverage, n, level):
    """Return below which the coverage that n calibration rows leave lies with a chance `level`.

    Of scores without ties it has a beta distribution over calibration rows, and is larger with.
    """
    rank = min(np.ceil(round((n + 1) * coverage, 9)), n)
    return float(beta.ppf(level, rank, n + 1 - rank))


def _batches(groups, n_samples, test):
    """Return the name and the numbers of the rows of each batch."""
    if not n_samples:
        raise ValueError("X must have at least one row; got none")
    if groups is None:
        return [(len(test.names), np.arange(n_samples))]
    code = encode_groups(groups, n_samples)
    first = np.unique(code, return_index=True)[1]
    names = np.asarray(on_host(groups, "groups"))[first]
    # NumPy would make integers of times in nanoseconds.
    names = np.datetime_as_string(names, "auto") if names.dtype.kind == "M" else names
    return [(name, np.flatnonzero(code == number)) for number, name in enumerate(names.tolist())]
