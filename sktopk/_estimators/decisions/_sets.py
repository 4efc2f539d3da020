"""SetClassifier: a set of labels per row, on top of any classifier."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sktopk._common._available import available_if
from sktopk._common._input import check_labels, check_length, encode_labels, take_rows
from sktopk._common._public import public
from sktopk._common._scalars import check_flag, check_number, check_option, check_random
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn

from ._any_classifier import out_of_fold_proba, predict_class_proba
from ._base import CalibratedDecision
from ._conformal import (
    METHODS,
    USERS,
    Conformity,
    class_shares,
    find_threshold,
    warn_of_single_rows,
    warn_of_unknown,
)
from ._hierarchy import read_hierarchy, read_parents
from ._mondrian import (
    CONDITIONS,
    check_conditional_groups,
    class_thresholds,
    cluster_thresholds,
    group_thresholds,
    thresholds_of_rows,
)
from ._monitor import Promise, coverage_left


def _forwards(name):
    """Whether the classifier has the method; for `available_if`."""

    def check(self):
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return check


@public
class SetClassifier(CalibratedDecision):
    r"""Classifier that answers with a set of labels per row, made from any other classifier.

    .. math::
        C(x) = \{ y : s(x, y) \ge t \}, \qquad
        t = \text{the } \lceil (n + 1)(1 - \alpha) \rceil \text{-th largest of }
        s(x_1, y_1), \dots, s(x_n, y_n)

    with a conformity score s, made from the probabilities :math:`p(y \mid x)` of the
    classifier, n calibration rows that it was not trained on, and :math:`1 - \alpha` the
    `coverage`. If calibration rows and a new row are exchangeable, then [1]_ [2]_

    .. math::
        1 - \alpha \le P(Y \in C(X)) \le 1 - \alpha + \frac{1}{n + 1},

    whatever the classifier; the upper bound needs scores without ties. The probability is
    over rows *and* calibration rows: with those at hand coverage may be a little more or less,
    and for a single class far less, unless `conditional` asks for more. The methods differ in s:

    - "topk": the k labels of highest probability. No calibration, no guarantee.
    - "average_k": :math:`s = p(y \mid x)` and the threshold that leaves k labels on average
      on calibration rows [3]_: more for hard rows, fewer for easy ones. No guarantee either.
    - "lac": :math:`s = p(y \mid x)`. The smallest sets on average [1]_; hard rows, whose
      largest probability is small, are covered less, up to empty sets.
    - "aps": s is the probability of the labels ranked below y, and a share u of that of y, with
      u uniform in [0, 1] [4]_. Hard rows get larger sets and more coverage.
    - "raps": the same, less `penalty` for each rank beyond k [5]_: no very large sets.
    - "pas": :math:`s = p(y \mid x) / \pi(y)`, with the prevalence :math:`\pi` of the class in
      training [6]_. Best for the coverage averaged over classes: rare classes are kept, common
      ones pay.

    With `conditional` the promise is one for each class, or each group of rows [2]_,

    .. math::
        P(Y \in C(X) \mid Y = y) \ge 1 - \alpha
        \quad \text{for each } y, \qquad
        C(x) = \{ y : s(x, y) \ge t_y \},

    with the threshold of each found on its calibration rows alone, which have to be exchangeable
    with new rows of the same class or group, whatever the share of that among them.

    With a `hierarchy`, a taxonomy whose leaves are the classes, and a `max_size` each set is a
    union of at most `max_size` of its nodes [9]_ [10]_: a genus in the place of twelve species.
    Labels enter a set one by one, in the order of s. Where that would take more nodes, a common
    ancestor of several takes their place, and all labels below it enter at the same s: the
    ancestor that adds the fewest labels, of these the one that adds most probability. The sets
    of a row are a growing sequence, fixed before any threshold, and the threshold is found on the s
    at which the label of each calibration row enters; for such nested sets the promises above
    hold as they stand [11]_.

    Parameters
    ----------
    estimator : estimator
        Classifier with `predict_proba` or `decision_function`. Without probabilities the
        softmax of its decision scores takes their place: coverage does not depend on how good
        they are. `fit` trains a clone on a part of its rows and calibrates with the rest; a
        fitted classifier inside a :class:`~sklearn.frozen.FrozenEstimator` is kept, and all
        rows given to `fit` calibrate. Preprocessing belongs inside,
        ``SetClassifier(make_pipeline(...))``: steps in front of it, in a :class:`Pipeline`, learn
        from the calibration rows, too.
    method : {"topk", "average_k", "lac", "aps", "raps", "pas"}, default="topk"
        Which sets, see above. `fit` warns of parameters that are set and that it does not use.
    k : int or float, default=5
        "topk": labels per set. "average_k": their average, for example 1.5. "raps": ranks
        without penalty. The first two clip it to the number of classes with a warning.
    coverage : float, default=0.9
        Probability, in (0, 1), that a set holds the label; not of "topk" and "average_k".
    conditional : {None, "class", "cluster", "group"}, default=None
        What the coverage is promised for, all but None for methods with coverage. None: all rows
        together. "class": the rows of each class. A class of fewer calibration rows
        than ceil(coverage / (1 - coverage)) is in every set, which keeps the promise, and
        `fit` warns; of two classes the sets are one of them, both or none.
        "cluster": the rows of classes with like
        scores, clustered conformal prediction [8]_, for many classes of too few rows. A random
        part of the calibration rows finds clusters by k-means, the others their thresholds;
        classes of too few rows to tell have the threshold of all rows, without a promise of
        their own. "group": the rows of each of the `groups` that `fit` and `predict_set`
        get; a group of too few calibration rows, or of none, has all classes in its sets.
    max_size : int, default=None
        Keep only the `max_size` best labels of each set. That voids the guarantee, unless there is
        a `hierarchy`: then sets are unions of at most `max_size` nodes, and keep it. That is
        the `max_size` of `fit`, for ``conditional=None`` and "group".
    hierarchy : mapping, Series or frame, default=None
        Taxonomy above the classes: the parent of every child, by the names of both,
        texts or numbers; or a frame of shape (n_rows, n_levels), each of whose rows leads from a
        child to its ancestors, such as species, genus, family. Every class is a leaf, and all
        have one root. Nodes without a class below, and those with a single child, are left out;
        what is missing (None, NaN) is passed over. For methods with coverage.
    empty : {"allow", "top1"}, default="allow"
        Whether sets may be empty, as the upper bound needs them to, or get their best label.
    randomized : bool, default=False
        Of "aps" and "raps": whether `predict_set` draws u for each row, so that the coverage is
        exact and some sets are empty, or takes u = 1. That keeps every label which a draw might
        have dropped: sets that are never empty, and cover more than was asked. The draw is a
        hash of the row as `predict_set` gets it and of a seed from `random_state`, so that the
        set of a row is the same alone and in any batch; see Notes.
    penalty : float, default=0.1
        Nonnegative, of "raps"; lambda in [5]_.
    prevalence : array-like of shape (n_classes,), default=None
        Of "pas": row counts or shares of the classes in training, in the order of `classes_`.
        None: counted in the rows that the clone was trained on; of a frozen estimator its
        ``class_count_``, or the calibration rows if it has none, and then coverage holds only
        approximately. A class without rows counts as the rarest that has some.
    cross_fit : bool, default=False
        Whether `estimator` is trained with all rows, and calibrated with what the parts of it say
        of rows that they have not seen, its `oob_decision_function_`. Of the networks of this
        package that is what their own `cross_fit` leaves behind, of scikit-learn's forests
        ``oob_score=True``. No row is lost, and less is promised: see Notes.
    validation_fraction : float, default=0.2
        Share of the rows given to `fit` that is held out to calibrate, drawn by class. Every
        class keeps a row in training, so that a class of a single row is never calibrated
        with; where there are many, `fit` warns, see Notes. With groups of rows that depend on
        each other freeze a fitted estimator and give `fit` rows of their own.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows and of u, by which "aps" and "raps" calibrate in any case.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Its labels.
    threshold_ : float or ndarray of shape (n_classes,) or (n_groups,)
        Smallest conformity score in a set; minus infinity where no score is too small. By class
        with ``conditional="class"`` and "cluster", by group with "group".
    clusters_ : ndarray of shape (n_classes,)
        With ``conditional="cluster"`` the number of each class's cluster, -1 for none.
    groups_ : ndarray of shape (n_groups,)
        With ``conditional="group"`` the names of the groups, sorted.
    k_ : int or float
        k, at most the number of classes.
    n_calibration_ : int
        Rows that the threshold was found with, 0 for "topk".
    prevalence_ : ndarray of shape (n_classes,) or None
        Shares of the classes that "pas" divides by.
    n_features_in_ : int
        Number of features seen in `fit`, if `estimator_` knows it.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features seen in `fit`, if `estimator_` knows them.

    See Also
    --------
    sktopk.metrics.set_coverage_score : Share of rows, or of classes, that were covered.
    sktopk.metrics.set_size_score : Mean size of sets.
    sktopk.metrics.SetSizeDisplay : Distribution of set sizes.

    Notes
    -----
    For u the content of a row is its numbers in float64 and its texts, wherever they stand: the
    same in an array, a sparse matrix, a frame and a list, for 0.0 and -0.0, and without names of
    columns; what is neither, such as a dict, counts by its `repr`. Equal rows share a draw. That
    costs no coverage, since the rows that calibrate draw in the same way, but where many rows
    are equal there may be more of it than asked. Rounding counts: preprocessing that gives a
    row other last digits in another batch belongs inside `estimator`.

    A frozen classifier must not have seen the rows that calibrate. `fit` warns if it makes no
    error on many of them; of one that learns its rows less well nothing tells.

    No set covers a class without a row in training. With a long tail there are many: if
    :math:`n_1` of the n rows given to `fit` are the only ones of their class, about
    :math:`n_1 / n` of new rows drawn like them belong to a class that has none [7]_, and rows
    held out of `fit` bring a coverage of about :math:`(1 - \alpha)(1 - n_1 / n)`. `fit` warns
    where that costs more than the slack of 1 / (n + 1) that n calibration rows have. A
    frozen estimator with rows of their own keeps the promise: those it cannot cover count.

    With ``cross_fit=True`` the promise is no longer that of the first formula, as new rows are
    scored by all members and those that calibrate by some. What is proven is less: if each new row
    were compared with every fold by the members that left that out, nothing else having seen it,
    coverage would be at least :math:`1 - 2 \alpha` and a term of the order of
    :math:`n^{-1/2}` less [12]_. Here even that is not proven: members stop by the rows that they
    leave out, and their mean takes their place. Where that is no worse than they are, no less is
    covered: in simulations, asked for .9, .91 to .92 with networks of four members and .92 to .93
    with forests, and sets up to 7 % larger than with rows held out, but half the scatter from draw
    to draw (``benchmarks/cross_fit.py``). For the exact promise leave it False, or freeze. A
    :class:`Monitor` then needs `reference`, and watches no coverage.

    "pas" and ``conditional="class"`` both keep rare classes. The first promises coverage over all
    rows, with sets as small as its average over classes allows; a single class may be covered
    less. The second promises it for each class, and pays where calibration rows are few; its
    thresholds by class make "pas" and "lac" the same. With "cluster" the promise is that
    of the average over the rows of a cluster. Which classes are clustered depends on `coverage`, so
    that sets are nested in it only within "class" and "group".

    Coverage with a `hierarchy` is that of the label: it lies below one of the nodes of the set with
    a probability of `coverage`. It is bounded from above, too, since thresholds know that
    ancestors were put in: the sets are not sets of labels that were widened afterwards, which
    would cover more than asked. To find the smallest union of nodes for each row is a problem of
    its own [10]_; this takes one ancestor at a time.

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
    .. [8] T. Ding, A. N. Angelopoulos, S. Bates, M. I. Jordan, R. J. Tibshirani.
       Class-conditional conformal prediction with many classes. NeurIPS 2023.
    .. [9] T. Mortier, E. Hüllermeier, K. Dembczyński, W. Waegeman. Set-valued prediction in
       hierarchical classification with constrained representation complexity. UAI 2022.
    .. [10] T. Mortier, A. Javanmardi, Y. Sale, E. Hüllermeier, W. Waegeman. Conformal prediction
       in hierarchical classification with constrained representation complexity.
       arXiv:2501.19038, 2025.
    .. [11] C. Gupta, A. K. Kuchibhotla, A. Ramdas. Nested conformal prediction and quantile
       out-of-bag ensemble methods. Pattern Recognition 127, 2022.
    .. [12] R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani. Predictive inference with the
       jackknife+. Annals of Statistics 49(1), 486-507, 2021, theorem 4.

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

    Each species with a coverage of its own:

    >>> clf.set_params(conditional="class", coverage=0.8).fit(X[:, :2], names).threshold_.round(2)
    array([0.84, 0.3 , 0.17])

    One name per flower, that of the section where the species is in doubt:

    >>> section = {"setosa": "Tripetalae", "versicolor": "Laevigatae", "virginica": "Laevigatae"}
    >>> above = {**section, "Tripetalae": "Iris", "Laevigatae": "Iris"}
    >>> clf.set_params(conditional=None, coverage=0.9, hierarchy=above, max_size=1)
    SetClassifier(...)
    >>> clf.fit(X[:, :2], names).predict_set(X[[0, 60, 149], :2], output="nodes")
    [array(['setosa'], ...), array(['versicolor'], ...), array(['Laevigatae'], ...)]
    """

    _fitted_names = ("_calibration_certainty", "_conformity", "_promised_params", "_seed")

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
        max_size: int | None = None,
        hierarchy: dict | None = None,
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
        self.max_size = max_size
        self.hierarchy = hierarchy
        self.empty = empty
        self.randomized = randomized
        self.penalty = penalty
        self.prevalence = prevalence
        self.cross_fit = cross_fit
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(
        self, X: RowsLike, y: ArrayLike, *, groups: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Train the classifier on a part of the rows and find the threshold on the others.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Whatever `estimator` takes. With a frozen estimator and for "topk" there is no
            split: all rows calibrate, or are trained on.
        y : array-like of shape (n_samples,)
            Class labels. Calibration rows whose label a frozen estimator does not know count
            as rows that no set covers.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, for ``conditional="group"``, which needs them.
        **fit_params : dict
            Passed to the `fit` of `estimator`, those with one value per row for its rows. With
            metadata routing enabled, what it requests. Calibration counts rows, whatever
            their weights.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or y is not allowed, if no rows can be held out, or if the
            classifier has neither probabilities nor a score per class, or gives NaN.
        """
        self._check_params()
        self._warn_of_ignored()
        y, fit_params = check_labels(y), self._routed(fit_params)
        groups = check_conditional_groups(groups, len(y), self.conditional)
        random = check_random(self.random_state)
        calibrates = self.method != "topk"
        trained = self._train_and_hold_out(X, y, fit_params, random, calibrates=calibrates)
        over_all = self.conditional is None and self.method != "average_k"
        if trained.training is not None and over_all:
            warn_of_single_rows(y, float(self.coverage), len(trained.y))
        if trained.y_score is None:
            classes, proba = predict_class_proba(trained.estimator, trained.X)
        else:
            classes = trained.estimator.classes_
            proba = out_of_fold_proba(trained.estimator, trained.y_score)
        code = encode_labels(classes, trained.y)
        if np.array_equal(proba.argmax(axis=1), code):
            self._warn_if_seen(len(code))
        k = self._clipped_k(len(classes))
        prevalence = class_shares(self.prevalence, trained, code) if self.method == "pas" else None
        of_nodes = {}
        if self.hierarchy is not None:
            of_nodes["hierarchy"] = read_hierarchy(self.hierarchy, classes)
            of_nodes["max_size"] = self.max_size
        conformity = Conformity(self.method, k, float(self.penalty), prevalence, **of_nodes)
        seed = random.randint(np.iinfo(np.int32).max)
        u = conformity.draw(trained.X, len(code), seed)
        groups = None if groups is None else take_rows(groups, trained.held_out)
        thresholds = self._thresholds(conformity, proba, u, code, groups, random)
        certainty = {}
        if trained.y_score is None:
            # A mean of members is surer than those of them that have not seen a row.
            certainty["_calibration_certainty"] = proba.max(axis=1).astype(np.float64)
        return self._replace_fitted(
            trained.estimator,
            classes_=classes,
            k_=k,
            **thresholds,
            prevalence_=prevalence,
            n_calibration_=0 if self.method == "topk" else len(code),
            # What the threshold was found for, whatever is set later.
            _conformity=conformity,
            _promised_params={"coverage": float(self.coverage)},
            _seed=seed,
            **certainty,
        )

    def predict_set(
        self, X: RowsLike, *, groups: ArrayLike | None = None, output: str = "matrix"
    ) -> csr_array | list[np.ndarray]:
        """Return the set of labels of each row.

        Sets are nested in `coverage` (or k): a label that enters at some coverage stays for
        all larger ones (but for ``conditional="cluster"``). Of labels with tied scores the one
        of the lower column comes first.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, for ``conditional="group"``, which needs them.
        output : {"matrix", "labels", "nodes"}, default="matrix"
            A matrix with one column per class, the labels themselves, or the fewest nodes of the
            `hierarchy` that describe the set.

        Returns
        -------
        y_set : CSR array of shape (n_samples, n_classes), bool, or list of ndarray
            True where the class of the column is in the set of the row. With "labels" one
            array per row, in the dtype of `classes_`, in the order in which labels would
            leave the set as coverage falls: best first. "pas" orders by p / prevalence, all
            others by p, with thresholds by class too. With "nodes" names of classes and of
            inner nodes, of dtype object if only one of them are texts; that of the best label
            first.

        Raises
        ------
        ValueError
            If `output` is unknown, or "nodes" without a `hierarchy`, if groups are missing, or
            given where they are not used, or the classifier gives NaN.
        """
        check_is_fitted(self)
        check_option(output, "output", ("matrix", "labels", "nodes"))
        hierarchy = self._conformity.hierarchy
        if output == "nodes" and hierarchy is None:
            raise ValueError('output="nodes" needs a hierarchy in fit; got hierarchy=None')
        _, proba = predict_class_proba(self.estimator_, X)
        n_samples, n_classes = proba.shape
        conditional = "group" if hasattr(self, "groups_") else None
        groups = check_conditional_groups(groups, n_samples, conditional)
        threshold = self.threshold_
        if groups is not None:
            threshold = thresholds_of_rows(groups, self.groups_, threshold)[:, None]
        u = np.ones(n_samples)
        if self.randomized:
            u = self._conformity.draw(X, n_samples, self._seed)
        columns, start = self._conformity.sets(
            proba, u, threshold=threshold, max_size=self._most_labels(n_classes), empty=self.empty
        )
        if output == "labels":
            return np.split(self.classes_[columns], start[1:-1])
        if output == "nodes":
            nodes, start = hierarchy.describe(columns, start)
            return np.split(hierarchy.nodes(self.classes_)[nodes], start[1:-1])
        inside = np.ones(len(columns), dtype=bool)
        y_set = csr_array((inside, columns, start), shape=(n_samples, n_classes))
        y_set.sort_indices()
        return y_set

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the label that `estimator_` predicts for each row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_forwards("predict_proba"))
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return the probabilities of `estimator_`, if it has them.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_forwards("decision_function"))
    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return the decision scores of `estimator_`, if it has them.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def score(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of `predict`, the first label of each row, not of the sets.

        Sets have no single score: the more labels, the better their coverage. A search over sets
        wants both, by :func:`sktopk.metrics.make_set_scorer`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Share of the rows, or of their weight, that `predict` gives their label, in [0, 1].
        """
        return super().score(X, y, sample_weight)

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
        if self.max_size is not None:
            check_number(self.max_size, "max_size", 1, integer=True)
        check_option(self.conditional, "conditional", CONDITIONS)
        if self.conditional is not None and self.method in ("topk", "average_k"):
            raise ValueError(
                f"conditional must be None for method={self.method!r}, which promises no coverage; "
                f"got {self.conditional!r}"
            )
        if self.hierarchy is not None:
            self._check_hierarchy()
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

    def _check_hierarchy(self):
        if self.method in ("topk", "average_k"):
            raise ValueError(
                f"hierarchy must be None for method={self.method!r}, which promises no coverage; "
                f"got {self.hierarchy!r:.80}"
            )
        if self.max_size is not None and self.conditional in ("class", "cluster"):
            raise ValueError(
                "hierarchy with max_size takes conditional=None or 'group': thresholds of each "
                f"class do not make sets of a few nodes; got {self.conditional!r}"
            )
        read_parents(self.hierarchy)

    def _thresholds(self, conformity, proba, u, code, groups, random):
        """Return `threshold_` and what belongs to it, by attribute."""
        coverage = float(self.coverage)
        if self.conditional is None:
            return {"threshold_": find_threshold(conformity, proba, u, code, coverage)}
        warn_of_unknown(code)
        scores, n_classes = conformity.of_labels(proba, u, code), proba.shape[1]
        if self.conditional == "class":
            return {"threshold_": class_thresholds(scores, code, n_classes, coverage)}
        if self.conditional == "group":
            names, threshold = group_thresholds(scores, groups, coverage)
            return {"threshold_": threshold, "groups_": names}
        threshold, cluster = cluster_thresholds(scores, code, n_classes, coverage, random)
        return {"threshold_": threshold, "clusters_": cluster}

    def _watched_scores(self, X):
        check_is_fitted(self)
        return predict_class_proba(self.estimator_, X)[1].max(axis=1)

    def _reference_scores(self):
        if not self.n_calibration_ or not hasattr(self, "_calibration_certainty"):
            raise ValueError(
                "monitor needs rows to compare with, but fit kept none that calibrate: pass "
                "reference, rows that trained nothing"
            )
        return self._calibration_certainty

    def _promises(self):
        """Whether a coverage of all rows is promised, or follows from one of each class."""
        if not hasattr(self, "_calibration_certainty"):
            return False
        has_coverage = self._conformity.method not in ("topk", "average_k")
        return has_coverage and not self._is_cut() and not hasattr(self, "groups_")

    def _promised(self, tolerance, level):
        coverage = float(self._as_promised("coverage"))
        limit = coverage_left(coverage, self.n_calibration_, level / 2) - tolerance
        return Promise(self, "coverage", limit, at_least=True), level / 2

    def _outcome(self, X, y):
        y_set, column = self.predict_set(X), encode_labels(self.classes_, y)
        check_length(y, y_set.shape[0])
        row = np.repeat(np.arange(len(y)), np.diff(y_set.indptr))
        covered = np.bincount(row[y_set.indices == column[row]], minlength=len(y)) > 0
        everything = np.ones(len(y), dtype=bool)
        return everything, covered, everything

    def _is_cut(self):
        """Whether `max_size` cuts sets; those of a hierarchy are small enough as they are."""
        return self.max_size is not None and self._conformity.hierarchy is None

    def _most_labels(self, n_classes):
        """How many labels of a set are kept."""
        max_size = self.max_size if self._is_cut() else n_classes
        return min(max_size, self.k_) if self._conformity.method == "topk" else max_size

    def _clipped_k(self, n_classes):
        if self.k > n_classes and self.method in ("topk", "average_k"):
            warn(
                f"k={self.k} must not exceed the number of classes ({n_classes}): "
                f"k_={n_classes} is used",
            )
        return min(self.k, n_classes)
