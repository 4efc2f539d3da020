"""Accuracy at the top: positives above a threshold that is one of the scores."""

import math
from dataclasses import KW_ONLY
from numbers import Integral, Real

from sktopk._common._public import public
from sktopk._common._scalars import check_number, check_option
from sktopk._estimators._between_scores import midway_above
from sktopk._estimators._parameters import estimator
from sktopk.losses import SurrogateQuantile
from sktopk.losses._top_push import pat_mat_np_threshold, top_push_k_threshold, top_push_threshold
from sktopk.losses._top_quantile import (
    PRECISION_AT_RECALL_ERRORS,
    pat_mat_threshold,
    precision_at_recall_threshold,
    recall_at_k_threshold,
)

from ._ranking import TopClassifier, cuts


def check_share(tau, of, of_a_number):
    """Check that tau is a share, and say who takes a number where it is one."""
    if isinstance(tau, Integral) and not isinstance(tau, bool) and tau >= 1:
        raise ValueError(
            f"tau must be a share of the {of}, in (0, 1); got {tau}. A number of {of} is the k of "
            f"{of_a_number}(k={tau})"
        )
    check_number(tau, "tau", 0, 1, bounds="neither")


@estimator
@public
class DeepTopPushClassifier(TopClassifier):
    r"""For a list that is read until the first false alarm: positives above every negative.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = \max_{j : y_j = 0} f(x_j)

    For whoever looks at the first few rows alone, where one negative above the positives spoils
    it [1]_. Not for 100 or 200 rows: a loss that hangs on one negative knows little of them, and
    :class:`PatMatClassifier` (a share of the rows) or :class:`RecallAtKClassifier` (so many of each
    day) is for that. On the tables by which defaults were chosen PatMatClassifier came first at
    this job, too: :doc:`what was found </top>`.

    The threshold t is one of the scores, and its gradient is part of that of the loss. On
    minibatches it is the largest of the batch and of `buffer_size` hard rows carried over from
    the batches before, by row number, scored anew: 1 is the delayed sample of the paper, 0 its
    ablation DeepTopPush_0.

    `score` is :func:`sktopk.metrics.positives_at_top_score`, the share of positives above every
    negative. `threshold_` lies midway between the largest score of a negative and the next higher
    score, of training rows as the attribute says: none of these negatives is flagged.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    buffer_size : int or "auto", default=1
        Number of hard rows that every minibatch gets from those before it; 0 for none. "auto"
        is 102, of several members 16 for each.

    See Also
    --------
    TopPushKClassifier : Lets k - 1 negatives stay on top.
    sktopk.losses.top_push_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import DeepTopPushClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = DeepTopPushClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.predict_top(scale(X), n=5).shape
    (5,)
    """

    _: KW_ONLY
    buffer_size: int | str = 1

    _threshold = staticmethod(top_push_threshold)

    def _scorer(self):
        return "positives_at_top", {}

    def _midway(self, scores, t):
        return midway_above(scores, t)


@estimator
@public
class TopPushKClassifier(TopClassifier):
    r"""For a list that is read until the k-th false alarm: positives above the k-th negative.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f^-_{[k]}

    For the first few rows where some negatives are outliers or mislabelled: as
    :class:`DeepTopPushClassifier`, but k - 1 negatives may stay on top [1]_, of each group where
    `fit` gets `groups`. With `buffer_size` of at least k the k highest negatives are carried from
    batch to batch; below, the threshold is estimated at the same quantile of the batch.

    `score` is :func:`sktopk.metrics.positives_at_top_score` with this k. `threshold_` lies midway
    between the k-th largest score of a negative and the next lower score, of training rows as
    the attribute says.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    k : int, default=5
        Rank of the negative that is the threshold, at least 1; clipped to the number of
        negatives with a warning, see `k_`.

    See Also
    --------
    sktopk.losses.top_push_k_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import TopPushKClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TopPushKClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.predict_top(scale(X), n=5).shape
    (5,)
    """

    k: int = 5

    def _check_params(self):
        super()._check_params()
        check_number(self.k, "k", 1, integer=True)

    def _prepare(self, partial):
        super()._prepare(partial)
        self._clip_k(partial, self._group_count[0], "negatives")

    def _threshold(self):
        return top_push_k_threshold(self.k_)

    def _scorer(self):
        return "positives_at_top", {"k": self.k}


@estimator
@public
class RecallAtKClassifier(TopClassifier):
    r"""For 100 rows a day: positives among the k highest scored rows, of each group or of all.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f_{[k]}

    For a fixed number of rows to be looked at [1]_, of each day, query or plate. For so many of one
    long list :class:`PatMatClassifier` with the share that they are trains the same; at 100 rows it
    cannot be told from boosting: :doc:`what was found </top>`.

    A number k is one of each group, "100 a day",
    where `fit` gets `groups`, and of the whole training set where it does not: a hundred of a
    year's rows are not a hundred a day. A k below 1 is a share of the rows, whatever their
    number, as :class:`PatMatClassifier` takes it.

    `score` is :func:`sktopk.metrics.recall_at_k_score`. `threshold_` lies midway between the k-th
    largest score and the next lower one, of training rows as the attribute says: k of these
    are flagged, more if they tie; with groups it is the median of those of the groups. Of other
    rows it may flag far fewer: `predict_top` and :class:`BudgetClassifier` name exactly k.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    k : int or float, default=100
        Number of rows, at least 1, or share of them, in (0, 1). A number for the training set is
        clipped to its rows with a warning, see `k_`.
    per : {"auto", "fit", "group"}, default="auto"
        What k rows are looked at of: "fit", all rows given to `fit`; "group", each group, which
        `fit` then needs. "auto" is "group" if it gets groups. A word that `fit` contradicts is
        an error.

    Attributes
    ----------
    k_ : int or float
        The k that was used.

    See Also
    --------
    sktopk.losses.recall_at_k_loss : The loss on torch tensors.
    BudgetClassifier : Flags k rows of each batch or group, whatever scores them.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import RecallAtKClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = RecallAtKClassifier(k=10, max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.predict_top(scale(X), n=5).shape
    (5,)

    Ten a day, of days that need not be those of `fit`:

    >>> import numpy as np
    >>> day = np.arange(len(y)) // 100
    >>> clf = RecallAtKClassifier(k=10, per="group", max_epochs=20, random_state=0)
    >>> clf.fit(scale(X), y, groups=day).predict_top(scale(X), n=10, groups=day).shape
    (60,)
    """

    k: int | float = 100
    _: KW_ONLY
    per: str = "auto"

    def _check_params(self):
        super()._check_params()
        check_option(self.per, "per", ("auto", "fit", "group"))
        is_share = isinstance(self.k, Real) and 0 < self.k < 1
        check_number(self.k, "k", 0 if is_share else 1, integer=not is_share)

    def _check_groups(self, groups):
        super()._check_groups(groups)
        if self.per == "group" and groups is None:
            raise ValueError(
                'per="group" needs groups, in fit and in score: pass groups=, such as the day of '
                "each row; in a search or a pipeline ask for them by set_fit_request(groups=True) "
                "and set_score_request(groups=True), with enable_metadata_routing of scikit-learn"
            )
        if self.per == "fit" and groups is not None:
            raise ValueError('per="fit" needs no groups: leave them out, or set per="group"')

    def _prepare(self, partial):
        super()._prepare(partial)
        if isinstance(self.k, Integral):
            self._clip_k(partial, self.class_count_.sum(), "rows")
        else:
            self.k_ = float(self.k)

    def _threshold(self):
        if isinstance(self.k_, Integral):
            return recall_at_k_threshold(self.k_)
        return pat_mat_threshold(self.k_)

    def _scorer(self):
        return "recall_at_k", {"k": self.k}


@estimator
@public
class PatMatClassifier(TopClassifier):
    r"""For the first 1 % of a list, or another share tau of it: positives among these rows.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f_{[j]}, \quad j = \max(1, \lceil n \tau \rceil)

    The one to take in doubt, with the share of the rows that is looked at. On tables that had no
    say in it, it is ahead of logistic regression in precision at 100 rows and at 1 %, and in
    average precision, and cannot be told from boosting and forests; with trees that vote beside
    it, :class:`TopVotingClassifier`, it is ahead of these: :doc:`what was found </top>`.

    It is Pat&Mat with the threshold at the quantile itself [1]_. Minibatches have more positives
    than the data; the quantile is taken as if they had not.

    `score` is :func:`sktopk.metrics.recall_at_k_score` at the fraction tau. `threshold_` lies
    midway between the quantile of the scores and the next lower one, of training rows as
    the attribute says. Of other rows it may flag far fewer than the share: `predict_top` and
    :class:`BudgetClassifier` name as many as are wanted.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    tau : float, default=0.01
        Share of the rows that is looked at, in (0, 1).

    See Also
    --------
    PatMatNPClassifier : A share of the negatives.
    sktopk.losses.pat_mat_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import PatMatClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = PatMatClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.predict_top(scale(X), n=5).shape
    (5,)
    """

    tau: float = 0.01

    def _check_params(self):
        super()._check_params()
        check_share(self.tau, "rows", "RecallAtKClassifier")

    def _threshold(self):
        return pat_mat_threshold(self.tau)

    def _scorer(self):
        return "recall_at_k", {"k": self.tau}


@estimator
@public
class PatMatNPClassifier(TopClassifier):
    r"""For at most 1 % false alarms: positives above all but a share tau of the negatives.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f^-_{[j]}, \quad j = \max(1, \lceil n_- \tau \rceil)

    The Neyman-Pearson form of Pat&Mat [1]_: the most true positives at a false-positive rate of
    about tau. For this job begin with :class:`RecallAtFPRClassifier`, whose threshold hangs on
    more than one negative; it is the one that was measured beside boosting and forests:
    :doc:`what was found </top>`.

    `score` is :func:`sktopk.metrics.true_positive_rate_at_fpr_score` at this rate. `threshold_`
    lies midway between the quantile of the scores of negatives and the next lower score, so that a
    share tau of these negatives is flagged, of training rows as the attribute says. Of other
    negatives it mostly flags fewer.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    tau : float, default=0.01
        Share of the negatives that may be flagged, in (0, 1).

    See Also
    --------
    PatMatClassifier : A share of all rows.
    sktopk.losses.pat_mat_np_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import PatMatNPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = PatMatNPClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.predict_top(scale(X), n=5).shape
    (5,)
    """

    tau: float = 0.01

    def _check_params(self):
        super()._check_params()
        check_share(self.tau, "negatives", "TopPushKClassifier")

    def _threshold(self):
        return pat_mat_np_threshold(self.tau)

    def _scorer(self):
        return "true_positive_rate_at_fpr", {"fpr": self.tau}


@estimator
@public
class RecallAtFPRClassifier(TopClassifier):
    r"""For at most 1 % false alarms: positives found while so many negatives are flagged at most.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        \frac{1}{n_-} \sum_{j : y_j = 0} \ell(f(x_j) - t) = \varphi

    The one to take where false alarms are limited. On tables that had no say in it, or little, it
    finds more positives at a rate of 1 % than logistic regression, and cannot be told from boosting
    and forests; a vote with trees is ahead, :class:`TopVotingClassifier`: :doc:`what was found
    </top>`.

    The surrogate l counts the errors on both sides of a free
    threshold t, which :class:`PatMatNPClassifier` puts at one of the scores: where l is the
    hinge, the loss is :func:`sktopk.losses.recall_at_fpr_loss` with the margin 1, the optimum of
    a linear program, and where it is quadratic the original Pat&Mat-NP [1]_. As hinges count at
    least the errors, fewer negatives than the share lie above t in training.

    The rows of a batch estimate t together with the hard rows of the batches before, which
    `buffer_size` holds. Without them a batch sees fpr times its negatives above t, which should
    be 10 or more: ``batch_size=1000`` at ``fpr=0.01``. With ``buffer_size="auto"`` batches may be
    small up to 51 200 negatives at this rate; beyond, a warning names the sizes that are needed.

    `score` is :func:`sktopk.metrics.true_positive_rate_at_fpr_score`, the recall at this rate on
    the rows given. `threshold_` is the lowest at which a share `fpr` of the negatives is flagged at
    most, of training rows as the attribute says, midway between two scores: negatives that tie
    there are all below it, and with fewer than 1 / fpr negatives none is flagged. It promises
    nothing of other rows: :class:`BudgetClassifier` promises a rate on them.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    fpr : float, default=0.01
        Share of the negatives that may be flagged, in (0, 1).
    surrogate : {"hinge", "quadratic", "logistic"}, default="hinge"
        The function l: max(0, 1 + z), max(0, 1 + z)^2 or log2(1 + exp z). The threshold of the
        others has no closed form: a step takes several times as long.

    See Also
    --------
    PatMatNPClassifier : The threshold at a score.
    sktopk.losses.recall_at_fpr_loss : The loss on torch tensors.
    sktopk.losses.SurrogateQuantile : Its threshold.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 11.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import RecallAtFPRClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = RecallAtFPRClassifier(fpr=0.02, max_epochs=20, random_state=0).fit(scale(X), y)
    >>> bool(clf.predict(scale(X))[y == 0].mean() <= 0.02)
    True
    """

    fpr: float = 0.01
    _: KW_ONLY
    surrogate: str = "hinge"

    def _check_params(self):
        super()._check_params()
        check_number(self.fpr, "fpr", 0, 1, bounds="neither")

    def _threshold(self):
        return SurrogateQuantile("negatives", float(self.fpr), self.surrogate)

    def _scorer(self):
        return "true_positive_rate_at_fpr", {"fpr": float(self.fpr)}

    def _score_threshold(self, scores, positive, weight):
        """The highest score at which too many negatives would be flagged."""
        score, found, _ = cuts(scores, ~positive, weight)
        # The last digit of a sum of weights must not decide.
        beyond = found > float(self.fpr) * found[-1] * (1 + 1e-10)
        return score[beyond][0] if beyond.any() else scores.new_tensor(-math.inf)

    def _midway(self, scores, t):
        return midway_above(scores, t)


@estimator
@public
class PrecisionAtRecallClassifier(TopClassifier):
    r"""For 80 % found, or another share r of the positives, with the fewest negatives among them.

    .. math::
        \min_f \; \frac{1}{n_-} \sum_{i : y_i = 0} \ell(f(x_i) - t), \qquad
        t = f^+_{[j]}, \quad j = \max(1, \lceil n_+ r \rceil)

    At a fixed recall r, few false positives are a high precision (Prec@Rec, eq. 4 of [1]_). Beside
    cross-entropy it mostly won on images, and mostly could not be told from it on small tables:
    :doc:`the evidence </evidence>`. It has not been measured beside boosting.

    `score` is :func:`sktopk.metrics.precision_at_recall_score`. `threshold_` lies midway between
    the score that a share r of the positives reaches and the next lower score, so that the recall
    is reached exactly on the training rows, scored as the attribute says, or on the validation
    rows if `fit` gets X_val and y_val.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    recall : float, default=0.8
        The recall r, in (0, 1].

    See Also
    --------
    PrecisionAtRecallProgramClassifier : The same by a linear program.
    sktopk.losses.precision_at_recall_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import PrecisionAtRecallClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = PrecisionAtRecallClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.predict_top(scale(X), n=5).shape
    (5,)
    """

    recall: float = 0.8

    errors = PRECISION_AT_RECALL_ERRORS
    _judged_on_validation = True

    def _check_params(self):
        super()._check_params()
        check_number(self.recall, "recall", 0, 1, bounds="right")

    def _threshold(self):
        return precision_at_recall_threshold(self.recall)

    def _scorer(self):
        return "precision_at_recall", {"recall": self.recall}
