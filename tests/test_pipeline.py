"""A pipeline transforms X with its other steps and returns the predictions of its last step."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline as Plain
from sklearn.preprocessing import StandardScaler

import sktopk
from sktopk import BudgetClassifier, Pipeline, SetClassifier, TopKClassifier, make_pipeline

QUICK = {"hidden_layer_sizes": (), "max_epochs": 3, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
DIGITS = load_digits(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)
GROUPS = {"groups": np.arange(569) % 2}
CASES = {
    "predict_topk": (TopKClassifier(k=3, **QUICK), DIGITS, [{}, {"k": 2}]),
    "predict_top of a ranker": (sktopk.DeepTopPushClassifier(**QUICK), CANCER, [{"n": 7}]),
    "predict_top": (BudgetClassifier(LogisticRegression(), random_state=0), CANCER,
        [{}, {"n": 7}, {"n": 7, **GROUPS}]),
    "hits_interval": (BudgetClassifier(LogisticRegression(), random_state=0), CANCER,
        [{"n": 7}, {"n": [5, 9]}, {"n": 7, **GROUPS}]),
    "predict_set": (SetClassifier(GaussianNB(), method="lac", random_state=0), DIGITS,
        [{}, {"output": "labels"}]),
}  # fmt: skip


def as_list(found):
    if isinstance(found, list):
        return [each.tolist() for each in found]
    return np.asarray(found).tolist()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.* tie at the cuts")
def test_a_pipeline_predicts_like_its_last_step_on_transformed_samples(name):
    last, (X, y), calls = CASES[name]
    method = name.split()[0]
    pipe = make_pipeline(StandardScaler(), "passthrough", PCA(9), None, clone(last)).fit(X, y)
    Xt, plain = pipe[:-1].transform(X), Pipeline(Plain(pipe.steps).steps)
    for params in calls:
        expected = as_list(getattr(pipe[-1], method)(Xt, **params))
        for each in (pipe, plain, pickle.loads(pickle.dumps(pipe))):
            assert as_list(getattr(each, method)(X, **params)) == expected
    assert as_list(getattr(make_pipeline(clone(last)).fit(X, y), method)(X, **calls[-1]))
    for other in ("predict_topk", "predict_top", "hits_interval", "predict_set"):
        assert hasattr(pipe, other) == hasattr(last, other)


def test_frozen_pipelines_and_the_best_of_a_search_have_predict_top():
    X, y = CANCER
    pipe = make_pipeline(StandardScaler(), BudgetClassifier(LogisticRegression(), random_state=0))
    search = GridSearchCV(pipe, {"budgetclassifier__estimator__C": [0.1, 1.0]}, cv=2).fit(X, y)
    best = search.best_estimator_
    assert isinstance(best, Pipeline)
    expected = best.predict_top(X, 5).tolist()
    assert FrozenEstimator(best).predict_top(X, 5).tolist() == expected
    wrapped = make_pipeline(StandardScaler(), FrozenEstimator(best[-1])).fit(X, y)
    assert wrapped.predict_top(X, 5).tolist() == expected


class Doubles(BaseEstimator):
    """A step that resamples, as in imbalanced-learn. It has no transform."""

    def fit_resample(self, X, y):
        raise NotImplementedError


def test_a_sampler_in_a_pipeline_of_scikit_learn_raises_an_error_with_the_solution():
    with pytest.raises(TypeError, match=r"sampler 'doubles'.*BudgetClassifier\(imb_pipeline\)"):
        make_pipeline(StandardScaler(), Doubles(), LogisticRegression()).fit(*CANCER)


def test_a_pipeline_raises_before_fit_and_may_be_empty():
    pipe = make_pipeline(StandardScaler(), TopKClassifier(k=3, **QUICK))
    with pytest.raises(NotFittedError):
        pipe.predict_topk(DIGITS[0])
    assert not hasattr(Pipeline([]), "predict_topk")
    assert make_pipeline(PCA(), memory="cache", verbose=True).get_params()["memory"] == "cache"
