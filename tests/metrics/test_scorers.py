"""Scorers of top-k accuracy, rankings and sets, called by scikit-learn and skorch."""

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktopk import SetClassifier, metrics
from sktopk.metrics import _scorer, make_set_scorer, make_top_scorer, make_topk_scorer
from tests.metrics.top_cases import SCORES, function_called

TOP = {score.__name__.removesuffix("_score"): params for score, params in SCORES}
every_name = pytest.mark.parametrize("name", TOP)
CLASSIFIERS = [
    GaussianNB(),
    RandomForestClassifier(5, random_state=0),
    SVC(),
    make_pipeline(StandardScaler(), LogisticRegression(C=0.01)),
    GridSearchCV(GaussianNB(), {"var_smoothing": [1e-2, 1e-1]}, cv=2),
]
every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], np.array(list("qwertyuiop"))[y[:400]]


@pytest.fixture(scope="module")
def frauds():
    X, y = make_classification(600, weights=[0.9], n_informative=4, flip_y=0.05, random_state=0)
    return X, np.where(y == 1, "fraud", "a sale")


@pytest.fixture(scope="module")
def sets():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    clf = SetClassifier(GaussianNB(), method="lac", coverage=0.8, random_state=0)
    return clf.fit(X[:, :2], names), X[:, :2], names


@every_classifier
def test_a_topk_scorer_uses_the_classes_of_the_estimator_and_others_are_misses(estimator, digits):
    X, y = digits
    train = y != "q"
    fitted = clone(estimator).fit(X[train], y[train])
    method = "decision_function" if hasattr(fitted, "decision_function") else "predict_proba"
    for average in ("micro", "macro"):
        expected = metrics.topk_accuracy_score(
            y, getattr(fitted, method)(X), k=2, labels=fitted.classes_, average=average
        )
        assert make_topk_scorer(2, average=average)(fitted, X, y) == expected


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("make", [make_pipeline, lambda svc: GridSearchCV(svc, {}, cv=2)])
def test_scores_of_pairs_of_classes_raise(n_classes, make):
    """Three classes have three pairs: scores of pairs have the same shape as scores of classes."""
    X, y = make_classification(90, n_informative=4, n_classes=n_classes, random_state=0)
    estimator = make(SVC(decision_function_shape="ovo")).fit(X, y)
    with pytest.raises(ValueError, match=f"for each of its {n_classes} classes.*SVC"):
        make_topk_scorer(1)(estimator, X, y)
    each = OneVsRestClassifier(estimator).fit(X, y)
    assert make_topk_scorer(1)(each, X, y) == each.score(X, y)


class Recorded(LogisticRegression):
    def decision_function(self, X):
        Recorded.n_rows.append(X.shape[0])
        return super().decision_function(X)


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("table", [np.asarray, sparse.coo_array, pd.DataFrame])
def test_scores_of_many_samples_and_classes_are_computed_in_chunks(table, digits, monkeypatch):
    X, y = digits
    model = make_pipeline("passthrough", Recorded(C=1e-3, max_iter=500)).fit(X, y)
    y, X = np.where(np.arange(400) % 7, y, "z"), table(X)  # "z" was not seen in training
    scorer, Recorded.n_rows, weight = make_topk_scorer(2, average="macro"), [], np.arange(400.0)
    whole = scorer(model, X, y, sample_weight=weight)
    monkeypatch.setattr(_scorer, "_MOST_SCORES", 70 * 10)
    assert scorer(model, X, y, sample_weight=weight) == whole
    assert Recorded.n_rows == [400] + [70] * 5 + [50]
    with pytest.raises(ValueError, match="equal lengths; got 395 and 400"):
        scorer(model, X, y[:395])
    assert len(Recorded.n_rows) == 7  # the error comes before any sample is scored


@every_classifier
@every_name
def test_a_top_scorer_equals_the_score_function_of_the_positive_class(estimator, name, frauds):
    (X, y), params = frauds, TOP[name]
    fitted = clone(estimator).fit(X[:400], y[:400])
    if hasattr(fitted, "decision_function"):
        y_score = fitted.decision_function(X[400:])
    else:
        y_score = fitted.predict_proba(X[400:])[:, 1]
    expected = function_called(f"{name}_score")(y[400:], y_score, pos_label="fraud", **params)
    assert make_top_scorer(name, pos_label="fraud", **params)(fitted, X[400:], y[400:]) == expected


@every_name
def test_a_fold_without_positives_scores_nan_and_the_warning_names_the_score(name, frauds):
    X, y = frauds[0], np.sort(frauds[1])  # all fraud at the end
    folds = [(np.arange(300, 600), np.arange(100)), (np.arange(0, 600, 2), np.arange(600))]
    scorer = make_top_scorer(name, pos_label="fraud", **TOP[name])
    with pytest.warns(UndefinedMetricWarning, match=f"{name}_score: no positives"):
        result = cross_validate(GaussianNB(), X, y, cv=folds, scoring=scorer, error_score="raise")
    assert np.isnan(result["test_score"]).tolist() == [True, False]


def test_a_scorer_uses_the_positive_label_of_the_classifier(frauds):
    X, y = frauds
    fitted = GaussianNB().fit(X, y)
    expected = make_top_scorer("recall_at_k", k=5, pos_label="a sale")(fitted, X, y)
    scorer = make_top_scorer("recall_at_k", k=5)
    with pytest.raises(ValueError, match=r"pos_label must be given .* 'a sale' and 'fraud'"):
        scorer(fitted, X, y)
    fitted.pos_label_ = "a sale"
    fitted.decision_function = lambda X: (y == "fraud").astype(np.uint8)  # has no negative numbers
    assert scorer(fitted, X, y) == 5 / np.sum(y == "a sale")
    del fitted.decision_function
    pipe = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    pipe.steps[-1][1].pos_label_ = "a sale"
    search = GridSearchCV(pipe, {"gaussiannb__var_smoothing": [1e-9]}, cv=2)
    search.set_params(scoring=make_top_scorer("bedroc", pos_label="a sale")).fit(X, y)
    search.best_estimator_.steps[-1][1].pos_label_ = "a sale"
    for each in (fitted, pipe, search):
        assert scorer(each, X, y) == pytest.approx(expected)


def test_a_classifier_trained_on_one_class_scores_nan_with_a_warning(frauds):
    X, y = frauds
    fitted = DummyClassifier().fit(X[:3], ["a sale"] * 3)
    with pytest.warns(UndefinedMetricWarning, match="recall_at_k_score: DummyC.* one class only"):
        assert np.isnan(make_top_scorer("recall_at_k", k=5, pos_label="fraud")(fitted, X, y))


@pytest.mark.parametrize("weight", [None, np.arange(150.0)], ids=["unweighted", "weighted"])
def test_a_set_scorer_equals_its_score_function(sets, weight):
    clf, X, y = sets
    y_set, options = clf.predict_set(X), {"labels": clf.classes_, "sample_weight": weight}
    for name, expected in {
        "coverage": metrics.set_coverage_score(y, y_set, **options),
        "macro_coverage": metrics.set_coverage_score(y, y_set, average="macro", **options),
        "neg_size": -metrics.set_size_score(y_set, sample_weight=weight),
    }.items():
        assert make_set_scorer(name)(clf, X, y, sample_weight=weight) == expected
    search = GridSearchCV(clf, {"coverage": [0.5, 0.9]}, scoring=make_set_scorer("neg_size"))
    assert search.fit(X, y).best_params_ == {"coverage": 0.5}


SCORERS = [make_topk_scorer(1, average="macro")]
SCORERS += [make_top_scorer("recall_at_k", k=20, pos_label="fraud")]
both = pytest.mark.parametrize("scorer", SCORERS, ids=["labels", "top"])


@both
def test_scorers_work_in_searches_and_cross_validation(scorer, frauds):
    X, y = frauds
    grid = {"var_smoothing": [1e-9, 1e-1, 100.0]}
    search = GridSearchCV(GaussianNB(), grid, scoring=scorer, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.score(X, y) == scorer(search, X, y)
    X, y = pd.DataFrame(X), pd.Series(y)
    result = cross_validate(GaussianNB(), X, y, cv=3, scoring={"a": scorer, "b": clone(scorer)})
    assert np.isfinite(result["test_a"]).all()
    np.testing.assert_array_equal(result["test_a"], result["test_b"])
    several = GridSearchCV(GaussianNB(), grid, scoring={"a": scorer}, refit="a", cv=2)
    assert np.isfinite(several.fit(X, y, sample_weight=np.ones(len(y))).best_score_)
    boosting = HistGradientBoostingClassifier(max_iter=3, early_stopping=True, scoring=scorer)
    assert np.isfinite(boosting.fit(X, y).validation_score_).all()


@pytest.mark.parametrize("scorer", [*SCORERS, make_set_scorer("coverage")])
def test_tuned_threshold_classifier_cv_raises_an_error_that_names_the_solution(scorer, frauds):
    X, y = frauds
    tuned = sklearn.model_selection.TunedThresholdClassifierCV(GaussianNB(), scoring=scorer, cv=2)
    with pytest.raises(AttributeError, match=r"TunedThresholdClassifierCV .*BudgetClassifier"):
        tuned.fit(X, y)


def test_sample_weights_and_groups_reach_scorers_by_metadata_routing(frauds):
    X, y = frauds
    rng = np.random.default_rng(0)
    day, weight = rng.integers(0, 12, len(y)), rng.integers(1, 4, len(y)).astype(float)
    splitter, expected = GroupKFold(3), {"top": [], "labels": []}
    for train, test in splitter.split(X, y, day):
        fitted = GaussianNB(var_smoothing=0.1).fit(X[train], y[train])
        proba = fitted.predict_proba(X[test])
        options = dict(k=5, pos_label="fraud", groups=day[test], sample_weight=weight[test])
        expected["top"].append(metrics.recall_at_k_score(y[test], proba[:, 1], **options))
        options = dict(k=1, labels=fitted.classes_, sample_weight=weight[test], average="macro")
        expected["labels"].append(metrics.topk_accuracy_score(y[test], proba, **options))
    with sklearn.config_context(enable_metadata_routing=True):
        scoring = {"labels": make_topk_scorer(1, average="macro")}
        scoring["top"] = make_top_scorer("recall_at_k", k=5, pos_label="fraud")
        scoring["labels"].set_score_request(sample_weight=True)
        scoring["top"].set_score_request(sample_weight=True, groups=True)
        estimator = GaussianNB(var_smoothing=0.1).set_fit_request(sample_weight=False)
        params = {"groups": day, "sample_weight": weight}
        result = cross_validate(estimator, X, y, scoring=scoring, cv=splitter, params=params)
        for name, scores in expected.items():
            assert result[f"test_{name}"].tolist() == scores
        top = scoring["top"]
        search = GridSearchCV(estimator, {"var_smoothing": [0.1]}, scoring=top, cv=splitter)
        assert search.fit(X, y, **params).best_score_ == pytest.approx(np.mean(expected["top"]))
        for scorer, names in [(make_topk_scorer(2), ["sample_weight"]), (clone(top), ["groups"])]:
            assert set(names) <= set(scorer.get_metadata_routing().score.requests)
            assert "estimator" not in scorer.get_metadata_routing().score.requests
        sets = make_set_scorer("coverage").get_metadata_routing()
        assert set(sets.score.requests) == {"sample_weight", "groups"}
    with pytest.raises(ValueError, match="groups must be None for name='bedroc'"):
        make_top_scorer("bedroc")(GaussianNB().fit(X, y == "fraud"), X, y == "fraud", groups=day)


@pytest.mark.parametrize("shape", ["one", "column", "two"])
def test_any_object_with_classes_and_scores_can_be_scored(shape, rng):
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    one = X[:, 0]
    scores = {"one": one, "column": one[:, None], "two": np.column_stack([-one, one])}[shape]
    net = SimpleNamespace(classes_=np.array([0, 1]), decision_function=lambda X: scores)
    net.predict = lambda X: (one > 0).astype(int)
    expected = metrics.recall_at_k_score(y, one, k=9)
    assert make_top_scorer("recall_at_k", k=9)(net, X, y) == expected
    assert make_topk_scorer(1)(net, X, y) == np.mean((one > 0) == y)


@pytest.mark.parametrize("binary", [False, True])
def test_skorch_calls_scorers_after_each_epoch(binary, frauds):
    skorch, torch = pytest.importorskip("skorch"), pytest.importorskip("torch")
    X, y = frauds[0].astype(np.float32), frauds[1] == "fraud"
    scorers = [make_top_scorer("precision_at_k", k=k) for k in (5, 10)] + [make_topk_scorer(1)]
    callbacks = [skorch.callbacks.EpochScoring(each, lower_is_better=False) for each in scorers]
    options = {"module__in_features": 20, "max_epochs": 1, "callbacks": callbacks, "verbose": 0}
    if binary:
        model = torch.nn.Sequential(torch.nn.Linear(20, 1), torch.nn.Flatten(0))
        del options["module__in_features"]
        net = skorch.NeuralNetBinaryClassifier(model, **options).fit(X, y.astype(np.float32))
    else:
        options |= {"module__out_features": 2, "criterion": torch.nn.CrossEntropyLoss}
        net = skorch.NeuralNetClassifier(torch.nn.Linear, **options).fit(X, y.astype(np.int64))
    for name in ("precision_at_k_5", "precision_at_k_10", "top1_accuracy"):
        assert 0 <= net.history[-1, name] <= 1


@pytest.mark.parametrize("scorer", [*SCORERS, make_set_scorer("coverage")])
def test_scorers_survive_pickle_and_clone(scorer):
    for other in (pickle.loads(pickle.dumps(scorer)), clone(scorer)):
        assert other.get_params() == scorer.get_params()
        assert repr(other) == repr(scorer)


def test_estimators_without_the_needed_method_raise(frauds, sets):
    class OnlyLabels(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

    X, y = frauds
    three = GaussianNB().fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match=r"two classes; got 3 from GaussianNB\(\)"):
        make_top_scorer("recall_at_k", k=5)(three, X, y)
    regressor = LinearRegression().fit(X, np.arange(len(y)))
    for scorer in SCORERS:
        for estimator in (regressor, OnlyLabels().fit(X, y)):
            with pytest.raises(TypeError, match="must be a classifier with classes_ and dec"):
                scorer(estimator, X, y)
        with pytest.raises(NotFittedError):
            scorer(LogisticRegression(), X, y)
    clf, X, y = sets
    pipe = make_pipeline(StandardScaler(), clf).fit(X, y)
    with pytest.raises(TypeError, match=r"(?s)must have predict_set.*use sktopk.Pipeline"):
        make_set_scorer("coverage")(pipe, X, y)
