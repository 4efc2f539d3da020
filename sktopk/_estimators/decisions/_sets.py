"""SetClassifier: a set of labels per sample, on top of any classifier."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sktopk._common._available import available_if
from sktopk._common._input import take_rows
from sktopk._common._labels import check_labels, encode_labels
from sktopk._common._public import public
from sktopk._common._scalars import check_flag, check_number, check_option, check_random
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn
from sktopk.metrics._ranking import row_weights

from ._any_classifier import predict_class_proba, proba_of_scores
from ._base import CalibratedDecision, refuse_masked
from ._conditional import (
    CONDITIONS,
    check_conditional_groups,
    class_thresholds,
    group_thresholds,
    thresholds_of_samples,
)
from ._conformal import (
    METHODS,
    USERS,
    Conformity,
    class_shares,
    find_threshold,
    warn_of_single_samples,
    warn_of_unknown,
)


def _forwards(name):
    """Whether the classifier has the method; for `available_if`."""

    def check(self):
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return check


@public
class SetClassifier(CalibratedDecision):
    r"""Classifier that predicts a set of labels per sample, made from any other classifier.

    .. math::
        C(x) = \{ y : s(x, y) \ge t \}, \qquad
        t = \text{the } \lceil (n + 1)(1 - \alpha) \rceil \text{-th largest of }
        s(x_1, y_1), \dots, s(x_n, y_n)

    with a conformity score s, made from the probabilities :math:`p(y \mid x)` of the
    classifier, n calibration samples that did not train it, and the coverage :math:`1 - \alpha`. If
    calibration samples and a new sample are exchangeable, then [1]_ [2]_

    .. math::
        1 - \alpha \le P(Y \in C(X)) \le 1 - \alpha + \frac{1}{n + 1},

    for any classifier. The upper bound needs scores without ties. The probability is over new
    samples *and* calibration samples.

    Parameters
    ----------
    estimator : estimator
        Classifier with `predict_proba` or `decision_function`. Without probabilities, the softmax
        of its decision scores is used; the guarantee does not depend on how good they are. `fit`
        trains a clone on a part of its samples and calibrates with the rest. A fitted classifier in
        a :class:`~sklearn.frozen.FrozenEstimator` is kept, and all samples given to `fit`
        calibrate. Put preprocessing inside, ``SetClassifier(make_pipeline(...))``: steps in front
        of it, in a :class:`Pipeline`, are also fitted on the calibration samples.
    method : {"topk", "average_k", "lac", "aps", "raps", "pas"}, default="topk"
        Which conformity score, and so which sets; see Notes. `fit` warns of parameters that are
        set and that the method does not use.
    k : int or float, default=5
        Number of labels per set for "topk", or their average for "average_k", for example 1.5. For
        "raps" the number of ranks without penalty. The first two clip it to the number of classes.
    coverage : float, default=0.9
        Probability, in (0, 1), that a set contains the label; not for "topk" and "average_k".
    conditional : {None, "class", "group"}, default=None
        What the coverage is guaranteed for: all samples together (None), the samples of each class,
        or the samples of each of the `groups` that `fit` and `predict_set` get. A class or group
        with fewer than ceil(coverage / (1 - coverage)) calibration samples has all its labels
        covered: the class is in every set, or the sets of the group hold all classes. `fit` warns.
    empty : {"allow", "top1"}, default="allow"
        Whether sets may be empty, as the upper bound needs, or contain at least the best label.
    randomized : bool, default=False
        For "aps" and "raps": whether `predict_set` draws u for each sample, so that the coverage is
        exact and some sets are empty. By default u = 1: sets are never empty and cover more.
    penalty : float, default=0.1
        Nonnegative penalty for each rank beyond k of "raps", lambda in [5]_.
    prevalence : array-like of shape (n_classes,), default=None
        For "pas": counts or shares of the classes in training, in the order of `classes_`. By
        default they are counted in the training samples of the clone. A frozen estimator has them
        in ``class_count_``; without it the calibration samples are counted, and the coverage
        is approximate. A class without samples counts as the rarest other one.
    cross_fit : bool, default=False
        Whether all samples train `estimator`, and its out-of-fold scores
        `oob_decision_function_` calibrate. Ensembles of networks of this package have these
        scores if `calibration` or `n_iter_no_change` is set, random forests with
        ``oob_score=True``. No sample is held out, but
        the guarantee has no proof. The sets are then made from the softmax of the decision scores.
    validation_fraction : float, default=0.2
        Share of the samples given to `fit` that is held out for calibration, stratified by class.
        Each class keeps a sample for training. If samples of a group depend on each other, wrap a
        fitted estimator in FrozenEstimator and pass other groups to `fit`.
    random_state : int, RandomState or None, default=None
        Seed of the held-out samples and of u.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Its labels.
    threshold_ : float or ndarray of shape (n_classes,) or (n_groups,)
        Smallest conformity score in a set; minus infinity if all labels are. One for each class
        with ``conditional="class"``, one for each group with "group".
    groups_ : ndarray of shape (n_groups,)
        Sorted names of the groups, with ``conditional="group"``.
    k_ : int or float
        k, at most the number of classes.
    n_calibration_ : int
        Number of calibration samples, 0 for "topk".
    prevalence_ : ndarray of shape (n_classes,) or None
        Shares of the classes that "pas" divides by.
    n_features_in_ : int
        Number of features seen in `fit`, if `estimator_` knows it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features seen in `fit`, if `estimator_` knows them.

    See Also
    --------
    sktopk.metrics.set_coverage_score : Share of samples, or of classes, that are covered.
    sktopk.metrics.set_size_score : Mean size of sets.
    sktopk.metrics.SetSizeDisplay : Distribution of set sizes.

    Notes
    -----
    The methods differ in the conformity score s:

    - "topk": the k labels of highest probability. No calibration, no guarantee.
    - "average_k": :math:`s = p(y \mid x)`, with the threshold that leaves k labels on average on
      calibration samples [3]_: more for hard samples, fewer for easy ones. No guarantee either.
    - "lac": :math:`s = p(y \mid x)`. The smallest sets on average [1]_. Hard samples, whose largest
      probability is small, are covered less, and their sets may be empty.
    - "aps": s is the probability of the labels ranked below y, plus a share u of that of y, with u
      uniform in [0, 1] [4]_. Hard samples get larger sets and more coverage.
    - "raps": the same, minus `penalty` for each rank beyond k [5]_: no very large sets.
    - "pas": :math:`s = p(y \mid x) / \pi(y)`, with the prevalence :math:`\pi` of the class in
      training [6]_. Best for the coverage averaged over classes: rare classes are covered more,
      common ones less.

    With `conditional` the guarantee holds for each class or group [2]_,
    :math:`P(Y \in C(X) \mid Y = y) \ge 1 - \alpha` for each y. Each threshold is found on its
    calibration samples alone. These have to be exchangeable with new samples of the class or group,
    whatever its share among new samples. Thresholds for each class make "pas" and "lac" the same.

    u is a hash of the content of the sample and of a seed from `random_state`: the set of a sample
    is the same alone and in any batch. The content is its numbers in float64 and its texts, in an
    array, a sparse matrix, a frame or a list. Equal samples share a draw. "aps" and "raps" always
    calibrate with a drawn u.

    No set covers a class without a sample in training. If :math:`n_1` of the n samples given to
    `fit` are the only ones of their class, about :math:`n_1 / n` of new samples belong to a class
    that has none [7]_, and the coverage is about :math:`(1 - \alpha)(1 - n_1 / n)`. `fit` warns. A
    frozen estimator with other samples in `fit` keeps the guarantee.

    Samples of weight 0 are left out. Other weights go to the `fit` of `estimator`; calibration
    counts samples, whatever their weights.

    With ``cross_fit=True`` new samples are scored by all parts of the classifier and calibration
    samples by some [8]_. The guarantee holds as far as the mean of all parts is no worse than each.
    In simulations with coverage=0.9, sets covered 91 to 93 %.

    A frozen classifier must not have been trained on the calibration samples. `fit` warns if it
    makes no error on many of them.

    References
    ----------
    .. [1] M. Sadinle, J. Lei, L. Wasserman. Least ambiguous set-valued classifiers with
       bounded error levels. Journal of the American Statistical Association, 2019.
    .. [2] V. Vovk, A. Gammerman, G. Shafer. Algorithmic learning in a random world. 2005.
    .. [3] C. Denis, M. Hebiri. Confidence sets with expected sizes for multiclass
       classification. Journal of Machine Learning Research, 2017.
    .. [4] Y. Romano, M. Sesia, E. J. Candès. Classification with valid and adaptive coverage.
       NeurIPS 2020.
    .. [5] A. N. Angelopoulos, S. Bates, M. I. Jordan, J. Malik. Uncertainty sets for image
       classifiers using conformal prediction. ICLR 2021.
    .. [6] T. Ding, J.-B. Fermanian, J. Salmon. Conformal prediction for long-tailed
       classification. arXiv:2507.06867, 2025.
    .. [7] I. J. Good. The population frequencies of species and the estimation of population
       parameters. Biometrika 40(3/4), 237-264, 1953.
    .. [8] R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani. Predictive inference with the
       jackknife+. Annals of Statistics 49(1), 486-507, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sktopk import SetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> names = load_iris().target_names[y]
    >>> clf = SetClassifier(LogisticRegression(max_iter=1000), method="lac", random_state=0)
    >>> clf.fit(X[:, :2], names).predict_set(X[[0, 60, 149], :2], output="labels")
    [array(['setosa'], ...), array(['versicolor'], ...), array(['versicolor', 'virginica'], ...)]

    The coverage guaranteed for each class:

    >>> clf.set_params(conditional="class", coverage=0.8).fit(X[:, :2], names).threshold_.round(2)
    array([0.84, 0.3 , 0.17])
    """

    _fitted_names = ("_conformity", "_seed", "_use_scores")

    # Without groups conditional="group" can do nothing: nobody should have to request them.
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        estimator: Any,
        *,
        method: str = "topk",
        k: int = 5,
        coverage: float = 0.9,
        conditional: str | None = None,
        empty: str = "allow",
        randomized: bool = False,
        penalty: float = 0.1,
        prevalence: ArrayLike | None = None,
        cross_fit: bool = False,
        validation_fraction: float = 0.2,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.k = k
        self.coverage = coverage
        self.conditional = conditional
        self.empty = empty
        self.randomized = randomized
        self.penalty = penalty
        self.prevalence = prevalence
        self.cross_fit = cross_fit
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier on a part of the samples and find the threshold on the others.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Whatever `estimator` takes. With a frozen estimator all samples calibrate, for "topk"
            all are trained on.
        y : array-like of shape (n_samples,)
            Class labels. No set covers calibration samples whose label a frozen estimator does not
            know.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights for the `fit` of `estimator`, or of its last step. Samples of weight 0
            are left out.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, for ``conditional="group"`` only, which needs them.
        **fit_params : dict
            Passed to the `fit` of `estimator`; arrays of length n_samples are split with the
            samples. With metadata routing enabled, the metadata that `estimator` requests.

        Returns
        -------
        self : object
        """
        self._check_params()
        self._warn_of_ignored()
        X, y, groups, fit_params = self._checked(X, y, sample_weight, groups, fit_params)
        groups = check_conditional_groups(groups, len(y), self.conditional)
        random, coverage = check_random(self.random_state), float(self.coverage)
        calibrates = self.method != "topk"
        trained = self._train_and_hold_out(X, y, fit_params, random, calibrates=calibrates)
        has_coverage = self.method not in ("topk", "average_k")
        if trained.y_train is not None and self.conditional is None and has_coverage:
            warn_of_single_samples(y, coverage, len(trained.y))
        if trained.y_score is None:
            classes, proba = predict_class_proba(trained.estimator, trained.X)
        else:
            classes, proba = trained.estimator.classes_, trained.y_score
            if hasattr(trained.estimator, "decision_function"):
                proba = proba_of_scores(proba)
        code = encode_labels(classes, trained.y)
        if np.array_equal(proba.argmax(axis=1), code):
            self._warn_if_seen(len(code))
        k = self._clipped_k(len(classes))
        prevalence = class_shares(self.prevalence, trained, code) if self.method == "pas" else None
        conformity = Conformity(self.method, k, float(self.penalty), prevalence)
        seed = random.randint(np.iinfo(np.int32).max)
        u = conformity.draw(trained.X, len(code), seed)
        fitted = {}
        if self.conditional is None:
            fitted["threshold_"] = find_threshold(conformity, proba, u, code, coverage)
        else:
            warn_of_unknown(code)
            scores = conformity.of_labels(proba, u, code)
            if self.conditional == "class":
                fitted["threshold_"] = class_thresholds(scores, code, len(classes), coverage)
            else:
                groups = take_rows(groups, trained.index)
                thresholds = group_thresholds(scores, groups, coverage)
                fitted["groups_"], fitted["threshold_"] = thresholds
        return self._replace_fitted(
            trained.estimator,
            classes_=classes,
            k_=k,
            prevalence_=prevalence,
            n_calibration_=len(code) if calibrates else 0,
            _conformity=conformity,
            _seed=seed,
            # New samples have probabilities of the kind that calibrated.
            _use_scores=trained.y_score is not None,
            **fitted,
        )

    def predict_set(
        self, X: RowsLike, *, groups: ArrayLike | None = None, output: str = "matrix"
    ) -> csr_array | list[np.ndarray]:
        """Return the set of labels of each sample.

        Sets are nested in `coverage` (or k): a label in a set is also in the set of any larger
        coverage. Of labels with equal scores, the one of the lower column comes first.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, for ``conditional="group"`` only, which needs them.
        output : {"matrix", "labels"}, default="matrix"
            Whether to return a matrix with one column per class, or the labels themselves.

        Returns
        -------
        y_set : CSR array of shape (n_samples, n_classes), bool, or list of ndarray
            True where the class of the column is in the set. With "labels" one array per sample,
            best label first: in the order of p / prevalence for "pas", of p for all others.
        """
        check_is_fitted(self)
        check_option(output, "output", ("matrix", "labels"))
        refuse_masked(X=X, groups=groups)
        _, proba = predict_class_proba(self.estimator_, X, use_scores=self._use_scores)
        n_samples, n_classes = proba.shape
        conditional = "group" if hasattr(self, "groups_") else None
        groups = check_conditional_groups(groups, n_samples, conditional)
        threshold = self.threshold_
        if groups is not None:
            threshold = thresholds_of_samples(groups, self.groups_, threshold)[:, None]
        u = np.ones(n_samples)
        if self.randomized:
            u = self._conformity.draw(X, n_samples, self._seed)
        max_size = self.k_ if self._conformity.method == "topk" else n_classes
        columns, start = self._conformity.sets(
            proba, u, threshold=threshold, max_size=max_size, empty=self.empty
        )
        if output == "labels":
            return np.split(self.classes_[columns], start[1:-1])
        inside = np.ones(len(columns), dtype=bool)
        y_set = csr_array((inside, columns, start), shape=(n_samples, n_classes))
        y_set.sort_indices()
        return y_set

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the label that `estimator_` predicts for each sample."""
        return self._fitted(X).predict(X)

    @available_if(_forwards("predict_proba"))
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return the probabilities of `estimator_`, if it has them."""
        return self._fitted(X).predict_proba(X)

    @available_if(_forwards("decision_function"))
    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return the decision scores of `estimator_`, if it has them."""
        return self._fitted(X).decision_function(X)

    def score(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of `predict`, not of the sets.

        Sets have no single score: more labels always cover more. To search over sets use
        :func:`sktopk.metrics.make_set_scorer`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Share of the samples whose label is predicted, in [0, 1].
        """
        y = check_labels(y)
        if sample_weight is not None:
            sample_weight = row_weights(sample_weight, len(y), "X")
        return super().score(X, y, sample_weight)

    def _fitted(self, X):
        check_is_fitted(self)
        refuse_masked(X=X)
        return self.estimator_

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator).classifier_tags
        if inner is not None:
            tags.classifier_tags = inner
        return tags

    def _check_params(self):
        super()._check_params()
        check_option(self.method, "method", METHODS)
        if self.method == "average_k":
            check_number(self.k, "k", 0, bounds="neither")
        else:
            check_number(self.k, "k", 1, integer=True)
        check_number(self.coverage, "coverage", 0, 1, bounds="neither")
        check_option(self.conditional, "conditional", CONDITIONS)
        if self.conditional is not None and self.method in ("topk", "average_k"):
            raise ValueError(
                f"conditional must be None for method={self.method!r}, which guarantees no "
                f"coverage; got {self.conditional!r}"
            )
        check_option(self.empty, "empty", ("allow", "top1"))
        check_flag(self.randomized, "randomized")
        check_number(self.penalty, "penalty", 0)

    def _warn_of_ignored(self):
        default = type(self)(self.estimator)
        for name, users in USERS.items():
            value = getattr(self, name)
            if self.method not in users and not np.array_equal(value, getattr(default, name)):
                warn(
                    f"{name}={value!r:.80} is ignored by method={self.method!r}: it is a parameter "
                    f"of {' and '.join(map(repr, users))}"
                )

    def _clipped_k(self, n_classes):
        if self.k > n_classes and self.method in ("topk", "average_k"):
            warn(
                f"k={self.k} must not exceed the number of classes ({n_classes}): "
                f"k_={n_classes} is used",
            )
        return min(self.k, n_classes)
