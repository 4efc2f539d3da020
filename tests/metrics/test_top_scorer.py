import math
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktopk import metrics
from sktopk.metrics import (
    make_top_scorer,
    mean_value_at_k_score,
    precision_at_k_score,
    recall_at_k_score,
)

NAMES = [
    ("precision_at_k", {"k": 20, "ties": "optimistic"}),
    ("precision_at_k", {"k": 0.05}),
    ("recall_at_k", {"k": 20}),
    ("enrichment_factor", {"fraction": 0.05}),
    ("precision_at_recall", {"recall": 0.5}),
    ("positives_at_top", {}),
    ("positives_at_top", {"k": 3}),
    ("true_positive_rate_at_fpr", {"fpr": 0.05}),
    ("partial_auc_log", {}),
    ("partial_auc_log", {"max_fpr": 0.2, "min_fpr": 0.01, "method": "sampled"}),
    ("auc_at_quantile", {"quantile": 0.1}),
    ("auc_at_quantile", {"quantile": 0.1, "normalize": True, "ties": "pessimistic"}),
    ("bedroc", {}),
    ("bedroc", {"alpha": 5.0}),
]
every_name = pytest.mark.parametrize(("name", "params"), NAMES)


def score_called(name):
    return getattr(metrics, f"{name}_score")


@pytest.fixture(scope="module")
def rows():
    """Rows of which a tenth is fraud."""
    X, y = make_classification(600, weights=[0.9], n_informative=4, flip_y=0.05, random_state=0)
    return X, np.where(y == 1, "fraud", "a sale")


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        SVC(),
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(GaussianNB(), {"var_smoothing": [1e-2, 1e-1]}, cv=2),
    ],
    ids=lambda e: type(e).__name__,
)
@every_name
def test_is_the_score_of_the_positive_class(estimator, name, params, rows):
    X, y = rows
    fitted = clone(estimator).fit(X[:400], y[:400])
    if hasattr(fitted, "decision_function"):
        y_score = fitted.decision_function(X[400:])
    else:
        y_score = fitted.predict_proba(X[400:])[:, 1]
    expected = score_called(name)(y[400:], y_score, pos_label="fraud", **params)
    assert make_top_scorer(name, pos_label="fraud", **params)(fitted, X[400:], y[400:]) == expected


@every_name
def test_grid_search_finds_the_best(name, params, rows):
    X, y = rows
    pipe = make_pipeline(StandardScaler(), GaussianNB())
    grid = {"gaussiannb__var_smoothing": [1e-9, 1e-1, 100.0]}
    scorer = make_top_scorer(name, pos_label="fraud", **params)
    search = GridSearchCV(pipe, grid, scoring=scorer, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.score(X, y) == scorer(search, X, y)


def test_several_scorers_at_once_on_a_data_frame(rows):
    X, y = rows
    scoring = {
        name + str(i): make_top_scorer(name, pos_label="fraud", **p)
        for i, (name, p) in enumerate(NAMES)
    }
    result = cross_validate(
        GaussianNB(), pd.DataFrame(X), pd.Series(y), cv=3, scoring=scoring, error_score="raise"
    )
    for name in scoring:
        assert np.isfinite(result[f"test_{name}"]).all()


@every_name
def test_fold_without_positives_is_nan_and_a_warning_that_names_the_score(name, params, rows):
    X, y = rows
    y = np.sort(y)  # all fraud at the end
    with pytest.warns(UndefinedMetricWarning, match=f"{name}_score: no positives"):
        result = cross_validate(
            GaussianNB(),
            X,
            y,
            cv=[(np.arange(300, 600), np.arange(100)), (np.arange(0, 600, 2), np.arange(600))],
            scoring=make_top_scorer(name, pos_label="fraud", **params),
            error_score="raise",
        )
    assert np.isnan(result["test_score"]).tolist() == [True, False]


def test_classifier_trained_on_one_class_is_nan_and_a_warning(rows):
    X, y = rows
    fitted = DummyClassifier().fit(X[:3], ["a sale"] * 3)
    with pytest.warns(UndefinedMetricWarning, match="recall_at_k_score: DummyC.* one class only"):
        assert math.isnan(make_top_scorer("recall_at_k", k=5, pos_label="fraud")(fitted, X, y))


def test_metadata_that_can_be_requested():
    with sklearn.config_context(enable_metadata_routing=True):
        request = make_top_scorer("recall_at_k", k=5, pos_label="fraud").get_metadata_routing()
    assert request.score.requests == {"sample_weight": None, "groups": None, "y_value": None}


def test_groups_and_weights_reach_the_scorer_by_metadata_routing(rows):
    X, y = rows
    rng = np.random.default_rng(0)
    day, weight = rng.integers(0, 12, len(y)), rng.integers(1, 4, len(y)).astype(float)
    splitter, expected = GroupKFold(3), []
    for train, test in splitter.split(X, y, day):
        fitted = GaussianNB(var_smoothing=0.1).fit(X[train], y[train])
        y_score = fitted.predict_proba(X[test])[:, 1]
        rows_of_fold = dict(k=5, pos_label="fraud", groups=day[test], sample_weight=weight[test])
        expected.append(recall_at_k_score(y[test], y_score, **rows_of_fold))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_top_scorer("recall_at_k", k=5, pos_label="fraud")
        scorer.set_score_request(groups=True, sample_weight=True)
        estimator = GaussianNB(var_smoothing=0.1).set_fit_request(sample_weight=False)
        params = {"groups": day, "sample_weight": weight}
        result = cross_validate(
            estimator, X, y, scoring={"at": clone(scorer)}, cv=splitter, params=params
        )
        assert result["test_at"].tolist() == expected
        search = GridSearchCV(estimator, {"var_smoothing": [0.1]}, scoring=scorer, cv=splitter)
        search.fit(X, y, **params)
        assert search.best_score_ == pytest.approx(np.mean(expected))


def test_values_reach_the_scorer_by_metadata_routing(rows):
    X, y = rows
    amount = np.random.default_rng(0).exponential(100.0, len(y)) * (y == "fraud")
    expected = []
    for train, test in KFold(3).split(X):
        y_score = GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1]
        expected.append(mean_value_at_k_score(amount[test], y_score, k=10))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_top_scorer("mean_value_at_k", k=10, pos_label="fraud").set_score_request(
            y_value=True
        )
        result = cross_validate(
            GaussianNB(), X, y, scoring=scorer, cv=KFold(3), params={"y_value": amount}
        )
    assert result["test_score"].tolist() == expected


def test_mean_value_of_a_continuous_y():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    activity = X @ [1.0, 2.0, 0.0] + rng.normal(size=200)
    scorer = make_top_scorer("mean_value_at_k", k=0.1)
    regressor = make_pipeline(StandardScaler(), LinearRegression()).fit(X, activity)
    expected = mean_value_at_k_score(activity, regressor.predict(X), k=0.1)
    assert scorer(regressor, X, activity) == expected
    classifier = LogisticRegression().fit(X, activity > 1)
    expected = mean_value_at_k_score(activity, classifier.decision_function(X), k=0.1)
    assert scorer(classifier, X, activity) == expected
    search = GridSearchCV(LinearRegression(), {"fit_intercept": [True]}, scoring=scorer, cv=2)
    assert search.fit(X, activity).best_score_ > activity.mean()


def test_metadata_without_a_use_are_refused(rows):
    X, y = rows
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match="name='bedroc' has no use for groups"):
        make_top_scorer("bedroc", pos_label="fraud")(fitted, X, y, groups=np.zeros(len(y)))
    with pytest.raises(ValueError, match="name='bedroc' has no use for y_value"):
        make_top_scorer("bedroc", pos_label="fraud")(fitted, X, y, y_value=np.zeros(len(y)))


def test_stops_scikit_learns_boosting_early(rows):
    estimator = HistGradientBoostingClassifier(
        max_iter=3, early_stopping=True, scoring=make_top_scorer("bedroc", pos_label="fraud")
    ).fit(*rows)
    assert np.isfinite(estimator.validation_score_).all()


def test_has_columns_in_the_history_of_skorch(rows):
    skorch = pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")
    X, y = rows
    scorers = [make_top_scorer("precision_at_k", k=k) for k in (5, 10)]
    net = skorch.NeuralNetClassifier(
        torch.nn.Linear,
        module__in_features=20,
        module__out_features=2,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=1,
        callbacks=[skorch.callbacks.EpochScoring(s, lower_is_better=False) for s in scorers],
        verbose=0,
    ).fit(X.astype(np.float32), (y == "fraud").astype(np.int64))
    for name in ("precision_at_k_5", "precision_at_k_10"):
        assert 0 <= net.history[-1, name] <= 1


@every_name
def test_survives_pickle_and_clone_and_says_what_it_is(name, params, rows):
    X, y = rows
    fitted = GaussianNB().fit(X, y)
    scorer = make_top_scorer(name, pos_label="fraud", **params)
    for other in (pickle.loads(pickle.dumps(scorer)), clone(scorer)):
        assert other(fitted, X, y) == scorer(fitted, X, y)
        assert f"name={name!r}" in repr(other)
        for key, value in params.items():
            assert f"{key}={value!r}" in repr(other)


@pytest.mark.parametrize(
    ("name", "kwargs", "match"),
    [
        ("recall", {"k": 5}, "name must be one of 'precision_at_k', .*; got 'recall'"),
        ("recall_at_k", {}, "name='recall_at_k' needs k and takes ties; got nothing"),
        ("recall_at_k", {"recall": 0.5}, "'recall_at_k' needs k and takes ties; got recall=0.5"),
        ("precision_at_recall", {"k": 5}, "needs recall and takes nothing else; got k=5"),
        ("precision_at_recall", {"recall": 0.5, "ties": "expected"}, "takes nothing else; got"),
        ("bedroc", {"fraction": 0.1}, "needs nothing and takes alpha, ties; got fraction=0.1"),
        ("auc_at_quantile", {"normalize": True}, "needs quantile and takes normalize, ties"),
        ("recall_at_k", {"k": 1.5}, "k must be an integer >= 1 or a fraction"),
        ("recall_at_k", {"k": 5, "ties": "first"}, "ties must be one of .* got 'first'"),
        ("precision_at_recall", {"recall": 2}, r"recall must be a number in \(0, 1\]; got 2"),
        ("partial_auc_log", {"min_fpr": 0.1}, "min_fpr=0.1 must be less than max_fpr=0.05"),
        ("bedroc", {"alpha": -1}, "alpha must be a positive finite number; got -1"),
    ],
)
def test_bad_parameters_are_refused_when_made(name, kwargs, match):
    with pytest.raises(ValueError, match=match):
        make_top_scorer(name, **kwargs)
    with pytest.raises(TypeError, match="k must be"):
        make_top_scorer("recall_at_k", k="5")


@pytest.mark.filterwarnings("error")
def test_making_a_scorer_warns_of_nothing():
    make_top_scorer("precision_at_k", k=100)


def test_what_is_no_classifier_of_two_classes_is_refused(rows):
    X, y = rows
    three = GaussianNB().fit(X, np.arange(len(y)) % 3)
    scorer = make_top_scorer("recall_at_k", k=5)
    with pytest.raises(ValueError, match=r"two classes; got 3 from GaussianNB\(\)"):
        scorer(three, X, y)
    regressor = LinearRegression().fit(X, np.arange(len(y)))
    with pytest.raises(TypeError, match="must be a classifier with classes_ and dec"):
        scorer(regressor, X, y)
    with pytest.raises(NotFittedError):
        scorer(LogisticRegression(), X, y)
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match="y_value must be one number per row; got dtype <U"):
        make_top_scorer("mean_value_at_k", k=5, pos_label="fraud")(fitted, X, y)


def test_more_places_than_rows_of_a_fold_are_misses(rows):
    X, y = rows
    fitted = GaussianNB().fit(X, y)
    with pytest.warns(UserWarning, match="k=700 exceeds the number of rows"):
        score = make_top_scorer("precision_at_k", k=700, pos_label="fraud")(fitted, X, y)
    assert score == (y == "fraud").sum() / 700
    assert score < precision_at_k_score(y, fitted.predict_proba(X)[:, 1], k=600, pos_label="fraud")


@every_name
def test_the_first_of_two_classes_may_be_positive(name, params, rows):
    X, y = rows
    # "a sale" sorts before "fraud", "z" after it.
    y_turned = np.where(y == "fraud", "fraud", "z")
    scorer = make_top_scorer(name, pos_label="fraud", **params)
    for estimator in (GaussianNB(), LogisticRegression()):
        expected = scorer(clone(estimator).fit(X, y), X, y)
        assert scorer(clone(estimator).fit(X, y_turned), X, y_turned) == pytest.approx(expected)


def test_labels_that_do_not_tell_need_pos_label(rows):
    X, y = rows
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match=r"'a sale' and 'fraud' do not tell .* pass pos_label"):
        make_top_scorer("recall_at_k", k=5)(fitted, X, y)
    with pytest.raises(ValueError, match=r"one of \['a sale', 'fraud'\]; got 'Fraud'"):
        make_top_scorer("recall_at_k", k=5, pos_label="Fraud")(fitted, X, y)
    with pytest.raises(TypeError, match=r"pos_label must be a label or None; got \['fraud'\]"):
        make_top_scorer("recall_at_k", k=5, pos_label=["fraud"])


def test_a_classifier_that_knows_its_positive_label_is_asked(rows):
    X, y = rows
    fitted = GaussianNB().fit(X, y)
    expected = make_top_scorer("recall_at_k", k=5, pos_label="a sale")(fitted, X, y)
    fitted.pos_label_ = "a sale"
    scorer = make_top_scorer("recall_at_k", k=5)
    pipe = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    pipe.steps[-1][1].pos_label_ = "a sale"
    search = GridSearchCV(pipe, {"gaussiannb__var_smoothing": [1e-9]}, cv=2)
    search.set_params(scoring=make_top_scorer("bedroc", pos_label="a sale")).fit(X, y)
    search.best_estimator_.steps[-1][1].pos_label_ = "a sale"
    for each in (fitted, pipe, search):
        assert scorer(each, X, y) == pytest.approx(expected)
