"""TopVotingClassifier: a network of this package and trees, the mean of their probabilities."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from sktopk._common._available import available_if, chooses_labels, ranks
from sktopk._common._folds_by_content import deal_distinct, keys_of_groups
from sktopk._common._groups import encode_groups
from sktopk._common._input import (
    check_classes,
    check_labelled,
    check_rows,
    columns_kept,
    encode,
    own_labels,
    take,
)
from sktopk._common._lazy_rows import LazyRows
from sktopk._common._notebook import ShownInNotebooks
from sktopk._common._public import public
from sktopk._common._row_keys import row_keys
from sktopk._common._scalars import (
    check_number,
    check_pos_label,
    check_random,
    on_host,
    place_of,
    positive_label,
)
from sktopk._common._types import Label, RowsLike
from sktopk._estimators._best_rows import rows_on_top
from sktopk._estimators._calibration import calibrated_proba, columns_of_score
from sktopk._estimators._logs import rows_to_train_with
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators._validation import MeanOverGroups, refuse_groups
from sktopk._estimators.decisions._any_classifier import predict_class_proba
from sktopk._estimators.labels._topk_classifier import TopKClassifier
from sktopk._estimators.ranking._ranking import RankingClassifier
from sktopk._estimators.ranking._top import PatMatClassifier

# The default voters: of two classes four members of 30 epochs, of which five without a gain end it,
# do beside trees what eight of 100 do, and as many trees of each fold as these what 100 do.
NETWORK = {"n_members": 4, "max_epochs": 30, "n_iter_no_change": 5}
N_TREES = 40


@public
class TopVotingClassifier(ShownInNotebooks, ClassifierMixin, BaseEstimator):
    r"""A network trained for the top and trees: the mean of their probabilities.

    .. math::
        p(y \mid x) = \frac{1}{1 + m} \Bigl( p_{\text{network}}(y \mid x)
        + \sum_{j=1}^m \frac{1}{K} \sum_{k=1}^K p_{jk}(y \mid x) \Bigr)

    where p_jk is the j-th of m other classifiers, trained without the k-th of K folds of the
    rows. Networks and trees err on different rows, and their mean ranks better than either.
    `predict` says the more probable label; what is done about the rows at the top is up to
    `predict_top`, or to a :class:`BudgetClassifier` around it, which promises something of them.

    Missing values and, of frames, columns of categories are taken as the network takes them; trees
    see the numbers of the categories, the most frequent first. No column needs scaling.

    Parameters
    ----------
    estimator : estimator, default=None
        A classifier of this package with a network, such as ``RecallAtKClassifier(k=100)``: cloned
        and, unless it has `calibration`, fitted with ``calibration="auto"``. One that leaves out
        no rows, and whose loss has no probabilities, holds some out to calibrate with. None is
        ``PatMatClassifier(tau=0.01, n_members=4, max_epochs=30, n_iter_no_change=5)`` for two
        classes, and for several ``TopKClassifier()``.
    others : "trees" or list of classifiers, default="trees"
        What votes beside it: classifiers with `predict_proba`, cloned. "trees" is scikit-learn's
        ``ExtraTreesClassifier(n_estimators=40)`` and, for two classes and rows that are not sparse,
        HistGradientBoostingClassifier, which grows a tree for each of several.
    n_folds : int, default=5
        How often each of the others is fitted, each time without one fold of the rows. Equal rows
        lie in one fold, with groups the rows of a group.
    pos_label : int, float, bool or str, default=None
        Of two classes the label of the positives, in place of the `pos_label` of the network. None
        is that one, see :class:`PatMatClassifier`; of `TopKClassifier` the second label.
    random_state : int, RandomState or None, default=None
        Seed of all that have a `random_state` of None.

    Attributes
    ----------
    estimator_ : estimator
        The fitted network.
    others_ : list of list of classifiers
        Of each of the others the fitted ones, one for each fold.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    pos_label_ : int, float, bool or str
        Of two classes the label of the positives: `predict_top` has their rows first.
    oob_decision_function_ : ndarray of shape (n_samples,)
        Of a ranking whose network is cross-fitted: what `decision_function` says of the rows of
        `fit`, by the vote of those that have not seen them. NaN for a row of weight 0 and for one
        that all have seen.
    oob_score_ : float
        The metric of `score`, of these.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a frame with string names.
    categories_ : object
        The categories of the columns that hold some, if there are any.

    See Also
    --------
    TopBoostClassifier : LightGBM trained for the top.
    PatMatClassifier, TopKClassifier : The networks alone.

    Notes
    -----
    `class_weight` of the network is its own; the others have theirs. Of so few rows that the
    network can leave none out, its scores are taken for log odds. The estimator is kept by pickle
    or joblib; :func:`sktopk.io.dump` refuses it, as scikit-learn follows the nodes of trees without
    checking them. :func:`sktopk.io.to_onnx` writes it as a graph.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sktopk import RecallAtKClassifier, TopVotingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> network = RecallAtKClassifier(k=20, n_members=2, max_epochs=20)
    >>> clf = TopVotingClassifier(network, n_folds=2, random_state=0).fit(X, y)
    >>> clf.predict_top(X, n=5).shape
    (5,)
    """

    # For `predict_top`, whose metadata pipelines route as that of `predict`.
    __metadata_request__predict = {"groups": True}  # noqa: RUF012

    # What the checks of rows ask: any float type, no images.
    dtype, module = "auto", None

    def __init__(
        self,
        estimator: Any = None,
        others: Any = "trees",
        *,
        n_folds: int = 5,
        pos_label: Label | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.others = others
        self.n_folds = n_folds
        self.pos_label = pos_label
        self.random_state = random_state

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
    ) -> Self:
        """Fit the network, and the others without a fold each.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`TopKClassifier.fit`; rows have two axes.
        groups : array-like of shape (n_samples,), default=None
            As for :meth:`RecallAtKClassifier.fit`, for the loss of the network and the threshold.
            The rows of a group are in one fold.
        propensity : array-like of shape (n_samples,), default=None
            As for :meth:`RecallAtKClassifier.fit`: for the log of a queue, of which the rows of
            known label weigh 1 / propensity.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not allowed, and what the others raise; TypeError for
            groups of an estimator that takes none.
        """
        self._check_params()
        if propensity is not None:
            given = X, y, sample_weight, groups
            X, y, sample_weight, groups = rows_to_train_with(*given, propensity)
        fitted = type(self)(**self.get_params(deep=False))
        with columns_kept(fitted):
            fitted._fit(X, y, sample_weight, groups)
        # In one step: a fit that fails leaves the earlier one whole.
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = kept | {k: v for k, v in vars(fitted).items() if k.endswith("_")}
        return self

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return the votes, of two classes as a difference.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        y_score : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Of two classes the probability of ``classes_[1]`` minus that of ``classes_[0]``, in
            [-1, 1]; where `pos_label_` is ``classes_[0]`` the lowest numbers are the likeliest
            positives. Of several classes their probabilities. float64.
        """
        return self._decision(self._votes(X))

    def predict(self, X: RowsLike) -> np.ndarray:
        """Return the most probable label of each row.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            In the dtype of the y of `fit`; the first of tied ones.
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return the probability of each class: the mean of what the voters say.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`. float64.
        """
        votes = self._votes(X)
        if votes.ndim == 2:
            return votes
        proba = np.column_stack([1 - votes, votes])
        return proba[:, ::-1] if self._turned else proba

    def _proba_of(self, y_score):
        """The probabilities of decision scores of two classes."""
        return np.column_stack([1 - y_score, 1 + y_score]) / 2

    @available_if(ranks)
    def predict_top(self, X: RowsLike, n: int, groups: ArrayLike | None = None) -> np.ndarray:
        """Return the rows of most probable positives, of each group if there are groups.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            Or a stream of such tables, of which only the best rows' votes are kept.
        n : int
            How many, 1 <= n <= n_samples; with groups of each, all of one that has fewer, with a
            warning.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, known from `fit` or not: "100 a day".

        Returns
        -------
        index : ndarray of shape (n_top,)
            Row numbers, best first, also across groups; tied rows in the order of X.

        Raises
        ------
        TypeError, ValueError
            If n is not an integer or out of range, or groups are not one for each row.
        """
        check_is_fitted(self)
        return rows_on_top(self._votes, X, n, groups)

    @available_if(chooses_labels)
    def predict_topk(self, X: RowsLike, k: int | None = None) -> np.ndarray:
        """Return the k most probable labels of each row, where there are several classes.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        k : int, default=None
            Number of labels, 1 <= k < n_classes; None is that of the network, if it has one.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Best first, in the dtype of the y of `fit`; tied labels in the order of `classes_`.

        Raises
        ------
        TypeError, ValueError
            If k is not an integer or out of range.
        """
        check_is_fitted(self)
        if k is None:
            k = getattr(self.estimator_, "k_", None)
        if k is None:
            raise TypeError(
                "k must be an integer, as the network of the vote, "
                f"{type(self.estimator_).__name__}, has no k; got None"
            )
        check_number(k, "k", 1, len(self.classes_) - 1, integer=True)
        order = np.argsort(-self._votes(X), axis=1, kind="stable")
        return self.classes_[order[:, :k]]

    def score(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the metric of `score` of the network, of the votes.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels; None only for a Dataset that has them.
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row; the score is then the mean over groups, of those that
            have rows of both classes.

        Returns
        -------
        score : float
            The larger, the better; NaN, with a warning, where y lacks the class it needs.

        Raises
        ------
        ValueError
            If there are groups and more than two classes, or not one for each row.
        """
        y = np.asarray(on_host(own_labels(X, y, needed=True), "y"))
        return self._score(self._votes(X), y, sample_weight, groups)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        voters = [] if isinstance(self.others, str) else list(self.others)
        own = [get_tags(each).input_tags for each in voters]
        tags.input_tags.sparse = all(each.sparse for each in own)
        tags.input_tags.allow_nan = all(each.allow_nan for each in own)
        if self.estimator is not None:
            network = get_tags(self.estimator)
            tags.input_tags.allow_nan &= network.input_tags.allow_nan
            tags.classifier_tags.multi_class = network.classifier_tags.multi_class
        return tags

    def _check_params(self):
        """Raise unless all parameters are allowed."""
        if self.estimator is not None and not isinstance(self.estimator, NetClassifier):
            raise TypeError(
                "estimator must be a classifier of sktopk with a network, or None; got "
                f"{self.estimator!r}"
            )
        if isinstance(self.others, str):
            if self.others != "trees":
                raise ValueError(
                    f"others must be 'trees' or a list of classifiers; got {self.others!r}"
                )
        elif not isinstance(self.others, list | tuple):
            raise TypeError(f"others must be 'trees' or a list of classifiers; got {self.others!r}")
        else:
            for each in self.others:
                if isinstance(each, type) or not hasattr(each, "predict_proba"):
                    raise TypeError(f"others must be classifiers with predict_proba; got {each!r}")
        check_number(self.n_folds, "n_folds", 2, 1000, integer=True)
        check_pos_label(self.pos_label)
        check_random(self.random_state)

    def _fit(self, X, y, sample_weight, groups):
        """Set all that is fitted."""
        random = check_random(self.random_state)
        rows = check_labelled(self, X, y, sample_weight, groups, reset=True, takes_tables=True)
        self.classes_ = check_classes(rows.y)
        target, values = encode(self.classes_, rows.y), in_memory(rows.X)
        others = self._others_in_use(len(self.classes_), issparse(values))
        if sample_weight is not None:
            for each in others:
                if not has_fit_parameter(each, "sample_weight"):
                    raise TypeError(f"others must take sample_weight in fit; {each!r} takes none")
        if len(self.classes_) > 2 and self.pos_label is not None:
            raise ValueError(
                f"pos_label must be None where y has {len(self.classes_)} classes, none of which "
                f"is positive; got {self.pos_label!r}"
            )
        if self.pos_label is not None:
            place_of(self.pos_label, self.classes_)
        network = self._network(len(self.classes_), random)
        if groups is not None and not has_fit_parameter(network, "groups"):
            raise TypeError(
                "groups must be None unless estimator ranks rows, of which groups can have a part "
                f"each; got groups and {network!r}"
            )
        named = {} if groups is None else {"groups": groups}
        self.estimator_ = network.fit(X, y, sample_weight, **named)
        if len(self.classes_) == 2:
            self.pos_label_ = getattr(network, "pos_label_", None)
            if self.pos_label_ is None:
                own = self.classes_[1] if self.pos_label is None else self.pos_label
                self.pos_label_ = positive_label(own, self.classes_, network.class_count_)
        key = keys_of_groups(row_keys(values, 0), rows.groups)
        fold = deal_distinct(key, target, self.n_folds)
        self.others_, unseen = [], np.full((len(others), *self._shape(len(target))), np.nan)
        for j, other in enumerate(others):
            fitted = []
            for m in range(self.n_folds):
                left_out = fold == m
                each = with_seed(clone(other), random)
                weight = {} if sample_weight is None else {"sample_weight": rows.weight[~left_out]}
                fitted.append(each.fit(take(values, ~left_out), rows.y[~left_out], **weight))
                if left_out.any():
                    unseen[j, left_out] = self._own(each.predict_proba(take(values, left_out)))
            self.others_.append(fitted)
        if self._is_ranking and hasattr(network, "oob_decision_function_"):
            own = network.oob_decision_function_
            own = columns_of_score(own if rows.present is None else own[rows.present])
            own = self._own(calibrated_proba(*network.calibration_, own))
            votes = (own + unseen.sum(axis=0)) / (1 + len(others))
            self.oob_decision_function_ = rows.as_given(self._decision(votes))
            known = np.isfinite(votes)
            if known.any():
                judged = rows.take(known)
                self.oob_score_ = self._score(votes[known], judged.y, judged.weight, None)

    def _network(self, n_classes, random):
        """The network to fit, with calibrated scores."""
        network = self.estimator
        if network is None:
            network = PatMatClassifier(tau=0.01, **NETWORK) if n_classes == 2 else TopKClassifier()
        network = with_seed(clone(network), random)
        if self.pos_label is not None and isinstance(network, RankingClassifier):
            network.set_params(pos_label=self.pos_label)
        if network.calibration is None:
            network.set_params(calibration="auto")
        if not hasattr(network, "predict_proba"):
            # One that leaves out no rows, and has a loss without probabilities, holds some out.
            network.set_params(calibration=network._auto_calibration)
        return network

    def _others_in_use(self, n_classes, is_sparse):
        if not isinstance(self.others, str):
            return list(self.others)
        from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

        if n_classes > 2 or is_sparse:
            return [ExtraTreesClassifier(N_TREES)]
        return [HistGradientBoostingClassifier(), ExtraTreesClassifier(N_TREES)]

    @property
    def _is_ranking(self):
        """Whether the network ranks rows, with a threshold."""
        return len(self.classes_) == 2 and isinstance(self.estimator_, RankingClassifier)

    @property
    def _turned(self):
        """Whether the first of two classes is the positive one."""
        return len(self.classes_) == 2 and bool(self.pos_label_ == self.classes_[0])

    def _shape(self, n):
        return (n,) if len(self.classes_) == 2 else (n, len(self.classes_))

    def _own(self, proba):
        """Of probabilities of two classes those of the positive one, in float64."""
        proba = np.asarray(proba, dtype=np.float64)
        return proba[:, 0 if self._turned else 1] if len(self.classes_) == 2 else proba

    def _votes(self, X):
        """The mean of the probabilities: of the positives, or of each of several classes."""
        check_is_fitted(self)
        values = in_memory(check_rows(self, X, reset=False))
        votes = self._own(predict_class_proba(self.estimator_, X)[1])
        for fitted in self.others_:
            each = [self._own(one.predict_proba(values)) for one in fitted]
            votes = votes + sum(each) / len(each)
        return votes / (1 + len(self.others_))

    def _decision(self, votes):
        if votes.ndim == 2:
            return votes
        # Of a probability of a half exactly 0.
        return 1 - 2 * votes if self._turned else 2 * votes - 1

    def _score(self, votes, y, sample_weight, groups):
        """The metric of the network of rows with these votes."""
        numbers = np.arange(len(votes))
        if isinstance(self.estimator_, RankingClassifier):
            judged = self.estimator_._knowing(votes)
            if self._is_ranking:
                judged = judged._with(threshold_=0.5)  # that of `predict`
            scorer = judged._default_scorer()
        else:
            scorer, judged = self.estimator_._default_scorer(), self._knowing(votes)
        if groups is not None:
            refuse_groups(self.classes_)
            groups, of_all = encode_groups(groups, len(y)), scorer
            scorer = MeanOverGroups(judged, y, groups, lambda _: of_all)
        return float(scorer(judged, numbers, y, sample_weight=sample_weight))

    # What `MeanOverGroups` asks for.
    def _scores(self, X):
        return self._votes(X)

    def _knowing(self, votes):
        """This estimator for rows that are known by number, with these votes."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _votes=lambda X: votes[X])
        return other


def with_seed(estimator, random):
    """The estimator, with a seed of its own if it takes one and has none."""
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=random.randint(np.iinfo(np.int32).max))
    return estimator


def in_memory(X):
    """Rows as trees need them."""
    X = X[np.arange(X.shape[0])] if isinstance(X, LazyRows) else X
    if issparse(X) and X.indices.dtype != np.int32 and X.nnz <= np.iinfo(np.int32).max:
        indices, indptr = (each.astype(np.int32) for each in (X.indices, X.indptr))
        X = type(X)((X.data, indices, indptr), shape=X.shape)
    return X
