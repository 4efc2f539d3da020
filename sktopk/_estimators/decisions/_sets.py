"""SetClassifier: predict a set of labels for each sample, with any classifier."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sktopk._common._estimator import available_if, present, public
from sktopk._common._input import check_labels, encode_labels, take_rows
from sktopk._common._samples import encode_groups
from sktopk._common._scalars import (
    check_flag,
    check_number,
    check_option,
    check_random,
    number,
    option,
    refuse_masked,
)
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn
from sktopk.metrics._ranking import row_weights

from . import _conformal
from ._any_classifier import predict_class_proba, proba_of_scores, sorted_classes
from ._base import CalibratedDecision, tags_of


def _forwards(name):
    return lambda self: bool(getattr(getattr(self, "estimator_", self.estimator), name))


@public
@dataclass(eq=False, repr=False)
class SetClassifier(CalibratedDecision):
    r"""Predict a set of labels for each sample, from the probabilities of any classifier.

    The set contains all labels whose conformity score s (see Notes) is at least the threshold t.
    `fit` computes t from the scores of n calibration samples, which are not training samples:

    .. math::
        C(x) &= \{ y : s(x, y) \ge t \} \\
        t &= \text{the } \lceil (n + 1)(1 - \alpha) \rceil \text{-th largest of }
        s(x_1, y_1), \dots, s(x_n, y_n)

    where :math:`1 - \alpha` is `coverage`. If calibration samples and a new sample are
    exchangeable, the lower bound below holds [1]_ [2]_. The upper bound needs scores without ties,
    and for "aps" and "raps" also ``randomized=True``:

    .. math::
        1 - \alpha \le P(Y \in C(X)) \le 1 - \alpha + \frac{1}{n + 1}

    Samples that belong together, such as photos of one plant, are not exchangeable: pass `groups`.

    Parameters
    ----------
    estimator : estimator
        Classifier. If it has no `predict_proba`, the softmax of `decision_function` is used. A
        :class:`~sklearn.frozen.FrozenEstimator` is not trained: all samples are for calibration.
    method : {"topk", "average_k", "lac", "aps", "raps", "pas"}, default="lac"
        Conformity score (see Notes). "topk" and "average_k" do not guarantee a coverage.
    k : int or float, default=5
        For "topk": number of labels per set. For "average_k": mean number of labels per set. For
        "raps": the labels at ranks 1 to k have no penalty.
    coverage : float, default=0.9
        Probability in (0, 1) that a set contains the true label. Unused by "topk" and "average_k".
    conditional : {None, "class", "group"}, default=None
        Whether the coverage holds over all samples (None), in each class or in each group. A class
        with too few calibration samples is in every set, with a warning. Samples of a group with
        too few calibration samples get all labels, with a warning.
    empty : {"allow", "top1"}, default="allow"
        "allow": sets can be empty. "top1": empty sets get the label with the best score.
    randomized : bool, default=False
        For "aps" and "raps": whether `predict_set` uses a random u (see Notes). False means u = 1,
        which gives larger sets. With True, sets can be empty, and the upper bound above holds if
        no conformity scores tie, and `empty` and `conditional` have their defaults. Equal samples
        get the same u, and can tie.
    penalty : float, default=0.1
        For "raps": number >= 0, subtracted from a label's score per rank beyond k (lambda of [5]_).
    prevalence : array-like of shape (n_classes,), default=None
        For "pas": counts or shares of the classes in training, in the order of `classes_`. None
        counts the training samples. For a frozen estimator, None uses its ``class_count_``. Without
        this attribute, None counts the calibration samples, and the coverage is approximate.
    cross_fit : bool, default=False
        If True, train `estimator` on all samples, and calibrate with its out-of-fold scores
        `oob_decision_function_`. The guarantee is then not proven. Possible for ensembles of this
        package, and for forests and bagging with ``oob_score=True``.
    validation_fraction : float, default=0.2
        Share of the samples that is held out for calibration, stratified by class.
    random_state : int, RandomState or None, default=None
        Seed for the selection of held-out samples, and for the random u (see `randomized`).

    Attributes
    ----------
    estimator_ : estimator
        Fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels of `estimator_`.
    threshold_ : float or ndarray of shape (n_classes,) or (n_groups,)
        Minimum conformity score of labels in a set. With `conditional`, one per class or group.
    groups_ : ndarray of shape (n_groups,)
        Sorted names of the groups of the calibration samples. Only with ``conditional="group"``.
    k_ : int or float
        Value of k that `fit` used: `k`, or the number of classes if `k` is larger.
    n_calibration_ : int
        Number of calibration samples; 0 for ``method="topk"``.
    prevalence_ : ndarray of shape (n_classes,) or None
        Shares of the classes. "pas" divides probabilities by them. None for other methods.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number and names of the features, if `estimator_` has these attributes.

    See Also
    --------
    sktopk.metrics.set_coverage_score, sktopk.metrics.set_size_score : Scores of sets.
    sktopk.metrics.SetSizeDisplay : Distribution of set sizes.

    Notes
    -----
    - "topk": the k most probable labels, without calibration and without a guarantee.
    - "average_k": :math:`s = p(y \mid x)`. Sets have k labels on average over the calibration
      samples [3]_, without a guarantee.
    - "lac": :math:`s = p(y \mid x)`. With the true p, the mean set size is the smallest possible
      at this coverage [1]_. For uncertain samples, sets contain the true label less often.
    - "aps": s is the total probability of the labels that rank below y, plus
      :math:`u \, p(y \mid x)` with u uniform in [0, 1] [4]_. Uncertain samples have larger sets.
    - "raps": s of "aps", minus `penalty` for each rank beyond k [5]_, to avoid very large sets.
    - "pas": :math:`s = p(y \mid x) / \pi(y)` with the prevalence :math:`\pi` of the class [6]_.
      Rare labels are in more sets, frequent labels in fewer. Use "lac" if the classifier's loss
      corrects for class frequencies: its probabilities are already divided by :math:`\pi`.

    With `conditional`, the guarantee holds for each class or group [2]_, even if their shares
    change. A class without training samples is in no set.

    References
    ----------
    .. [1] M. Sadinle, J. Lei, L. Wasserman. Least ambiguous set-valued classifiers with bounded
       error levels. Journal of the American Statistical Association, 2019.
    .. [2] V. Vovk, A. Gammerman, G. Shafer. Algorithmic learning in a random world. 2005.
    .. [3] C. Denis, M. Hebiri. Confidence sets with expected sizes for multiclass
       classification. Journal of Machine Learning Research, 2017.
    .. [4] Y. Romano et al. Classification with valid and adaptive coverage. NeurIPS 2020.
    .. [5] A. N. Angelopoulos, S. Bates, M. I. Jordan, J. Malik. Uncertainty sets for image
       classifiers using conformal prediction. ICLR 2021.
    .. [6] T. Ding, J.-B. Fermanian, J. Salmon. Conformal prediction for long-tailed
       classification. arXiv:2507.06867, 2025.

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
    >>> # Coverage for each class
    >>> clf.set_params(conditional="class", coverage=0.8).fit(X[:, :2], names).threshold_.round(2)
    array([0.84, 0.3 , 0.17])
    """

    _checks: ClassVar = {
        "method": option("topk", "average_k", "lac", "aps", "raps", "pas"),
        "coverage": number(0, 1, "neither"),
        "conditional": option(None, "class", "group"),
        "empty": option("allow", "top1"),
        "randomized": check_flag,
        "penalty": number(0),
    }

    estimator: Any
    _: KW_ONLY
    method: str = "lac"
    k: int = 5
    coverage: float = 0.9
    conditional: str | None = None
    empty: str = "allow"
    randomized: bool = False
    penalty: float = 0.1
    prevalence: ArrayLike | None = None
    cross_fit: bool = False
    validation_fraction: float = 0.2
    random_state: int | np.random.RandomState | None = None

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        **fit_params: Any,
    ) -> Self:
        """Train the classifier on one part of the samples, and calibrate with the other part.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            Samples in a format that `estimator` accepts. ``method="topk"`` trains with all samples.
        y : array-like of shape (n_samples,)
            Class labels. Labels that a frozen estimator does not know are in no set.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights for training `estimator` or a pipeline's last step. Weight 0 drops a sample.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample. Whole groups are held out, and one sample of each held-out group
            is used for calibration. The guarantee holds for one random sample of a new group.
            Without metadata routing, ``estimator.fit`` gets `groups` if it has this parameter. An
            `estimator` with `pos_label` does not, because it would train one threshold per group.
            With ``cross_fit=True``, `estimator` itself holds out groups, so it must get `groups`.

            With ``conditional="group"``, single samples are held out instead of whole groups, and
            `estimator` never gets the groups. The coverage then holds in each group.
        **fit_params : dict
            Arguments for the `fit` of `estimator` (none if frozen). Arrays of length n_samples are
            split with the samples. With metadata routing, pass what `estimator` requests.

        Returns
        -------
        self : SetClassifier
        """
        self._check_params()
        conditional = self.conditional == "group"
        if not conditional:
            fit_params = self._with_groups(groups, fit_params)
        X, y, groups, fit_params = self._checked(X, y, sample_weight, groups, fit_params)
        units = None if conditional or groups is None else encode_groups(groups, len(y))
        groups = groups if conditional else None
        groups = _conformal.check_conditional_groups(groups, len(y), self.conditional)
        random, coverage = check_random(self.random_state), float(self.coverage)
        calibrates = self.method != "topk"
        trained = self._train_and_hold_out(X, y, fit_params, random, units, calibrates)
        if units is not None and calibrates:
            trained = trained.one_of_each(units, random)
        has_coverage = self.method not in ("topk", "average_k")
        if trained.y_train is not None and self.conditional is None and has_coverage:
            _conformal.warn_of_single_samples(y, coverage, len(trained.y))
        if trained.y_score is None:
            proba = predict_class_proba(trained.estimator, trained.X)
        else:
            proba = trained.y_score
            if hasattr(trained.estimator, "decision_function"):
                proba = proba_of_scores(proba)
        classes = sorted_classes(trained.estimator)
        code = encode_labels(classes, trained.y)
        if np.array_equal(proba.argmax(axis=1), code):
            self._warn_if_seen(len(code))
        k = min(self.k, len(classes))
        if k < self.k and not has_coverage:
            warn(f"k={self.k} exceeds the number of classes ({k}); using k_={k}")
        prevalence = None
        if self.method == "pas":
            prevalence = _conformal.class_shares(self.prevalence, trained, classes)
        conformity = _conformal.Conformity(self.method, k, float(self.penalty), prevalence)
        seed = random.randint(np.iinfo(np.int32).max)
        u = conformity.draw(trained.X, len(code), seed)
        fitted = {}
        if self.conditional is None:
            fitted["threshold_"] = _conformal.find_threshold(conformity, proba, u, code, coverage)
        else:
            _conformal.warn_of_unknown(code)
            scores = conformity.of_labels(proba, u, code)
            names, each = classes, code
            if self.conditional == "group":
                names, each = np.unique(take_rows(groups, trained.index), return_inverse=True)
                fitted["groups_"] = names
            which = len(names), coverage, self.conditional, "samples" if units is None else "groups"
            fitted["threshold_"] = _conformal.conditional_thresholds(scores, each, *which)
        return self._replace_fitted(
            trained.estimator,
            classes_=classes,
            k_=k,
            prevalence_=prevalence,
            n_calibration_=len(code) if calibrates else 0,
            _conformity_=conformity,
            _seed_=seed,
            # `predict_set` must use decision scores after `cross_fit`, which calibrates with them.
            _use_scores_=trained.y_score is not None,
            **fitted,
        )

    def predict_set(
        self, X: RowsLike, *, groups: ArrayLike | None = None, output: str = "matrix"
    ) -> np.ndarray | list[np.ndarray]:
        """Return the set of labels of each sample. Other samples of X do not change this set.

        With ``randomized=True``, u is a hash of the sample and of a seed from `random_state`.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        groups : array-like of shape (n_samples,), default=None
            Group of each sample. Required with ``conditional="group"``, else not allowed.
        output : {"matrix", "labels"}, default="matrix"
            Format of the sets (see Returns). Set metrics of :mod:`sktopk.metrics` need "matrix".

        Returns
        -------
        y_set : ndarray of shape (n_samples, n_classes), bool, or list of ndarray
            True if the class of the column is in the set. With "labels", one array of labels per
            sample, the best conformity score first. Tied labels are in the order of `classes_`.
        """
        check_is_fitted(now := present(self))
        check_option(output, "output", ("matrix", "labels"))
        for name in ("empty", "randomized"):  # a change after `fit` takes effect
            self._checks[name](getattr(self, name), name)
        refuse_masked(X=X, groups=groups)
        proba = predict_class_proba(now.estimator_, X, use_scores=now._use_scores_)
        n_samples, n_classes = proba.shape
        conditional = "group" if hasattr(now, "groups_") else None
        groups = _conformal.check_conditional_groups(groups, n_samples, conditional)
        threshold = now.threshold_
        if groups is not None:
            threshold = _conformal.thresholds_of_samples(groups, now.groups_, threshold)[:, None]
        conformity = now._conformity_
        u = conformity.draw(X, n_samples, now._seed_) if self.randomized else np.ones(n_samples)
        max_size = now.k_ if conformity.method == "topk" else n_classes
        columns, start = conformity.sets(proba, u, threshold, max_size, self.empty)
        if output == "labels":
            return np.split(now.classes_[columns], start[1:])[:-1]
        y_set = np.zeros((n_samples, n_classes), dtype=bool)
        y_set[np.repeat(np.arange(n_samples), np.diff(start)), columns] = True
        return y_set

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the labels predicted by `estimator_`."""
        return self._fitted(X).predict(X)

    @available_if(_forwards("predict_proba"))
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return ``estimator_.predict_proba(X)``. Available if `estimator` has this method."""
        return self._fitted(X).predict_proba(X)

    @available_if(_forwards("decision_function"))
    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return ``estimator_.decision_function(X)``. Available if `estimator` has this method."""
        return self._fitted(X).decision_function(X)

    def score(self, X: RowsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of ``predict(X)``, a float in [0, 1], for the true labels y.

        The accuracy does not depend on the sets of labels. For scores of the sets, use
        :func:`sktopk.metrics.make_set_scorer`.
        """
        y = check_labels(y)
        return super().score(X, y, row_weights(sample_weight, len(y), "X"))

    def _fitted(self, X):
        check_is_fitted(self)
        refuse_masked(X=X)
        return self.estimator_

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), tags_of(self.estimator)
        if inner is not None and inner.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
        return tags

    def _check_params(self):
        super()._check_params()
        if self.method == "average_k":
            check_number(self.k, "k", 0, bounds="neither")
        else:
            check_number(self.k, "k", 1, integer=True)
        if self.conditional is not None and self.method in ("topk", "average_k"):
            raise ValueError(
                f"conditional must be None for method={self.method!r}, which has no coverage "
                f"guarantee; got {self.conditional!r}"
            )
        default = type(self)(self.estimator)
        for name, users in _conformal.USERS.items():
            value = getattr(self, name)
            if self.method not in users and not np.array_equal(value, getattr(default, name)):
                warn(
                    f"{name}={value!r:.80} is ignored by method={self.method!r}: it is a parameter "
                    f"of {' and '.join(map(repr, users))}"
                )
