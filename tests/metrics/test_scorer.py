import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktopk.metrics import _scorer, make_topk_scorer, topk_accuracy_score


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], np.array(list("qwertyuiop"))[y[:400]]


@pytest.fixture
def weights(digits):
    return np.random.default_rng(0).integers(0, 4, size=len(digits[1])).astype(float)


CLASSIFIERS = [
    GaussianNB(),
    RandomForestClassifier(5, random_state=0),
    SVC(),
    make_pipeline(StandardScaler(), LogisticRegression(C=0.01)),
    GridSearchCV(GaussianNB(), {"var_smoothing": [1e-2, 1e-1]}, cv=2),
]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("average", ["micro", "macro"])
def test_is_the_score_of_the_estimators_own_classes(estimator, average, digits):
    X, y = digits
    train = y != "q"
    fitted = clone(estimator).fit(X[train], y[train])
    method = "decision_function" if hasattr(fitted, "decision_function") else "predict_proba"
    expected = topk_accuracy_score(
        y, getattr(fitted, method)(X), k=2, labels=fitted.classes_, average=average
    )
    assert make_topk_scorer(2, average=average)(fitted, X, y) == expected


def test_class_unseen_in_training_is_a_miss(digits):
    X, y = digits
    estimator = GaussianNB().fit(X[y != "q"], y[y != "q"])
    scorer = make_topk_scorer(9)
    assert scorer(estimator, X, y) == np.mean(y != "q")
    assert scorer(estimator, X[y == "q"], y[y == "q"]) == 0.0


def test_no_fold_is_nan_when_classes_are_singletons():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = np.r_[np.arange(20), np.arange(20), np.arange(20, 40)]
    for average in ["micro", "macro"]:
        scorer = make_topk_scorer(5, average=average)
        scores = cross_val_score(
            GaussianNB(var_smoothing=1.0), X, y, cv=KFold(5), scoring=scorer, error_score="raise"
        )
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("estimator", [LogisticRegression(), GaussianNB()], ids=["1-d", "2-d"])
def test_top1_of_two_classes_is_accuracy(estimator):
    X, y = make_classification(200, random_state=0)
    estimator.fit(X, y)
    assert make_topk_scorer(1)(estimator, X, y) == estimator.score(X, y)
    assert make_topk_scorer(2)(estimator, X, y) == 1.0


def test_constant_classifier_scores_k_over_n_classes(digits):
    X, y = digits
    estimator = DummyClassifier(strategy="uniform").fit(X, y)
    assert make_topk_scorer(3)(estimator, X, y) == 0.3
    assert make_topk_scorer(0.25)(estimator, X, y) == 0.3
    assert make_topk_scorer(3, ties="pessimistic")(estimator, X, y) == 0.0


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search_finds_the_best_for_this_k(digits, n_jobs):
    X, y = digits
    pipe = make_pipeline(StandardScaler(), GaussianNB())
    grid = {"gaussiannb__var_smoothing": [1e-9, 1e-2, 100.0]}
    scorer = make_topk_scorer(3)
    search = GridSearchCV(pipe, grid, scoring=scorer, cv=2, n_jobs=n_jobs, error_score="raise")
    search.fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.best_params_ == {"gaussiannb__var_smoothing": 1e-2}
    assert search.score(X, y) == scorer(search, X, y)


def test_learning_curve_and_several_scorers_at_once(digits):
    X, y = digits
    *_, scores = learning_curve(
        GaussianNB(), X, y, scoring=make_topk_scorer(3), cv=2, train_sizes=[0.5, 1.0]
    )
    assert np.isfinite(scores).all()
    result = cross_validate(
        GaussianNB(), X, y, cv=2, scoring={f"top{k}": make_topk_scorer(k) for k in (1, 3, 10)}
    )
    assert (result["test_top1"] < result["test_top3"]).all()
    assert (result["test_top10"] == 1.0).all()


def fold_scores(X, y, scorer, weights):
    """The definition of a weighted cross-validation score."""
    scores = []
    for train, test in KFold(3).split(X):
        fitted = GaussianNB(var_smoothing=0.1).fit(X[train], y[train], sample_weight=weights[train])
        scores.append(scorer(fitted, X[test], y[test], sample_weight=weights[test]))
    return scores


def test_sample_weight_reaches_the_scorer_by_metadata_routing(digits, weights):
    X, y = digits
    expected = fold_scores(X, y, make_topk_scorer(2), weights)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = GaussianNB(var_smoothing=0.1).set_fit_request(sample_weight=True)
        scorer = make_topk_scorer(2).set_score_request(sample_weight=True)
        kwargs = dict(cv=KFold(3), params={"sample_weight": weights}, error_score="raise")
        result = cross_validate(estimator, X, y, scoring=scorer, **kwargs)
        assert result["test_score"].tolist() == expected
        several = cross_validate(estimator, X, y, scoring={"top2": clone(scorer)}, **kwargs)
        assert several["test_top2"].tolist() == expected
        search = GridSearchCV(estimator, {"var_smoothing": [0.1]}, scoring=scorer, cv=KFold(3))
        search.fit(X, y, sample_weight=weights)
        assert search.best_score_ == pytest.approx(np.mean(expected))
        unasked = make_topk_scorer(2).set_score_request(sample_weight=False)
        unweighted = cross_validate(estimator, X, y, scoring=unasked, **kwargs)
        assert unweighted["test_score"].tolist() != expected


def test_sample_weight_is_the_only_metadata(digits):
    with sklearn.config_context(enable_metadata_routing=True):
        request = make_topk_scorer(2).get_metadata_routing()
    assert request.score.requests == {"sample_weight": None}


def test_weight_two_is_the_row_twice(digits, weights):
    X, y = digits
    estimator = GaussianNB().fit(X, y)
    scorer = make_topk_scorer(2, average="macro")
    counts = weights.astype(int)
    assert scorer(estimator, X, y, sample_weight=weights) == pytest.approx(
        scorer(estimator, X.repeat(counts, axis=0), y.repeat(counts))
    )


def test_stops_scikit_learns_boosting_early(digits):
    X, y = digits
    estimator = HistGradientBoostingClassifier(
        max_iter=3, max_leaf_nodes=3, early_stopping=True, scoring=make_topk_scorer(2)
    ).fit(X, y)
    assert np.isfinite(estimator.validation_score_).all()
    assert estimator.validation_score_[-1] > 0.5


def test_has_a_column_in_the_history_of_skorch(digits):
    skorch = pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")
    X, y = load_digits(return_X_y=True)
    net = skorch.NeuralNetClassifier(
        torch.nn.Linear,
        module__in_features=64,
        module__out_features=10,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=1,
        callbacks=[skorch.callbacks.EpochScoring(make_topk_scorer(3), lower_is_better=False)],
        verbose=0,
    ).fit(X.astype(np.float32), y)
    assert 0.2 < net.history[-1, "top3_accuracy"] <= 1.0


def test_survives_pickle_and_clone_and_says_what_it_is(digits):
    X, y = digits
    estimator = GaussianNB().fit(X, y)
    scorer = make_topk_scorer(2, average="macro", ties="pessimistic")
    for other in (pickle.loads(pickle.dumps(scorer)), clone(scorer)):
        assert other(estimator, X, y) == scorer(estimator, X, y)
        assert repr(other) == "TopKScorer(average='macro', k=2, ties='pessimistic')"
    assert repr(make_topk_scorer(0.1)) == "TopKScorer(k=0.1)"


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        (dict(k=0), ValueError, "k must be an integer >= 1 or a fraction"),
        (dict(k=1.5), ValueError, r"k must be .* got 1\.5"),
        (dict(k=None), TypeError, "k must be .* got None"),
        (dict(k=3, average="weighted"), ValueError, "average must be one of .*'weighted'"),
        (dict(k=3, ties="first"), ValueError, "ties must be one of .* got 'first'"),
    ],
)
def test_bad_parameters_are_refused_when_made(kwargs, error, match):
    with pytest.raises(error, match=match):
        make_topk_scorer(**kwargs)


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("make", [lambda svc: svc, make_pipeline], ids=["svc", "pipeline"])
def test_pairwise_scores_are_refused(n_classes, make):
    """With three classes their number is that of class scores."""
    X, y = make_classification(90, n_informative=4, n_classes=n_classes, random_state=0)
    estimator = make(SVC(decision_function_shape="ovo")).fit(X, y)
    with pytest.raises(ValueError, match=f"score each of its {n_classes} classes.*SVC"):
        make_topk_scorer(1)(estimator, X, y)


class Recorded(LogisticRegression):
    """Notes how many rows were scored at a time."""

    def decision_function(self, X):
        Recorded.n_rows.append(X.shape[0])
        return super().decision_function(X)


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize(
    "table", [np.asarray, sparse.csr_array, pd.DataFrame, pl.DataFrame, lambda X: X[::-1][::-1]]
)
def test_scores_of_many_rows_and_classes_are_counted_in_pieces(table, average, digits, monkeypatch):
    X, y = digits
    estimator = Recorded(C=1e-3, max_iter=500).fit(X, y)
    y = np.where(np.arange(400) % 7, y, "z")  # not seen in training
    weight = np.linspace(0, 1, 400)
    scorer = make_topk_scorer(2, average=average)
    for model in (estimator, make_pipeline("passthrough", estimator)):
        Recorded.n_rows = []
        whole = scorer(model, table(X), y), scorer(model, table(X), y, sample_weight=weight)
        assert Recorded.n_rows == [400] * 2
        with monkeypatch.context() as patch:
            patch.setattr(_scorer, "_MOST_SCORES", 70 * 10)
            pieces = scorer(model, table(X), y), scorer(model, table(X), y, sample_weight=weight)
            assert Recorded.n_rows[2:] == ([70] * 5 + [50]) * 2
            with pytest.raises(ValueError, match="same number of rows; got 395 and 400"):
                scorer(model, table(X), y[:395])
            with pytest.raises(ValueError, match=r"y_true must have shape .*got shape \(400, 2\)"):
                scorer(model, table(X), np.column_stack([y, y]))
            with pytest.raises(ValueError, match="same number of rows; got 401 and 400"):
                scorer(model, table(X), np.append(y, "z"))
            with pytest.raises(ValueError, match="sample_weight must"):
                scorer(model, table(X), y, sample_weight=weight[1:])
            # Whatever is refused, before any row is scored.
            assert len(Recorded.n_rows) == 14
        assert pieces == whole


def test_what_is_no_classifier_is_refused(digits):
    class OnlyLabels(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

    X, y = digits
    regressor = LinearRegression().fit(X, np.arange(len(y)))
    for estimator in (regressor, OnlyLabels().fit(X, y)):
        with pytest.raises(TypeError, match="must be a classifier with classes_ and dec"):
            make_topk_scorer(1)(estimator, X, y)
    with pytest.raises(NotFittedError):
        make_topk_scorer(1)(LogisticRegression(), X, y)
