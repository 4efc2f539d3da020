"""An estimator from a file predicts and trains on like the original."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context, model_selection
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import LRScheduler

import sktopk
from sktopk.io import dump, load
from sktopk.losses import TopMean
from sktopk.metrics import make_top_scorer, make_topk_scorer
from sktopk.modules import MLP

pytest.importorskip("skops")
QUICK = {"max_epochs": 2, "random_state": 0}
SMALL = {"hidden_layer_sizes": (8,), "n_estimators": 2, **QUICK}

RANKER = sktopk.RecallAtKClassifier(k=50, calibration="sigmoid", **SMALL)
LABELS, LINEAR = sktopk.TopKClassifier(k=2, **SMALL), LogisticRegression()
TAUS, KS = {"tau": [0.1, 1.0]}, {"k": [9, 50]}
ON_TWO_CLASSES = {
    "ranker": RANKER,
    "ranker of the first label": clone(RANKER).set_params(pos_label="no"),
    "ranker with hard examples": sktopk.DeepTopPushClassifier(buffer_size=20, **SMALL),
    "threshold": sktopk.ThresholdClassifier(TopMean("negatives", k=5), **SMALL),
    "budget": sktopk.BudgetClassifier(RANKER, constraint="fpr", budget=0.1, pos_label="yes"),
    "budget of scikit-learn": sktopk.BudgetClassifier(
        LogisticRegression(), constraint="precision", budget=0.8, pos_label="yes"
    ),
    "pipeline": sktopk.make_pipeline(SimpleImputer(), StandardScaler(), RANKER),
    "pipeline of scikit-learn": sklearn_pipeline(StandardScaler(), RANKER),
    "search for the top": GridSearchCV(
        RANKER, KS, cv=2, scoring=make_top_scorer("recall_at_k", k=9, pos_label="yes")
    ),
    "several scores": GridSearchCV(
        RANKER, KS, cv=2, scoring=["average_precision", "roc_auc"], refit="roc_auc"
    ),
    "sigmoid": CalibratedClassifierCV(RANKER, cv=2),
    "isotonic": CalibratedClassifierCV(RANKER, cv=2, method="isotonic"),
    "stacking": StackingClassifier([("net", RANKER), ("linear", LINEAR)], cv=2),
    "threshold of scikit-learn": model_selection.TunedThresholdClassifierCV(
        RANKER, cv=2, response_method="decision_function"
    ),
}
ON_THREE_CLASSES = {
    "default": sktopk.TopKClassifier(k=2, **QUICK),
    "calibrated": LABELS,
    "noise": sktopk.TopKClassifier("noised_topk", k=2, **SMALL),
    "MLP": sktopk.TopKClassifier(k=2, module=MLP, **SMALL),
    "sets": sktopk.SetClassifier(LABELS, method="topk"),
    "sets of classes": sktopk.SetClassifier(LINEAR, method="lac", conditional="class"),
    "frozen": FrozenEstimator(LABELS),
    "search": GridSearchCV(LABELS, TAUS, cv=2),
    "search by score": GridSearchCV(LABELS, TAUS, cv=model_selection.KFold(2), scoring="accuracy"),
    "search with a loss": model_selection.RandomizedSearchCV(
        LABELS, TAUS, n_iter=2, cv=model_selection.StratifiedShuffleSplit(2), scoring="neg_log_loss"
    ),
    "search with our score": GridSearchCV(LABELS, TAUS, cv=2, scoring=make_topk_scorer(2)),
    "voting": VotingClassifier([("net", LABELS), ("linear", LINEAR)], voting="soft"),
    "device": sktopk.TopKClassifier(k=2, device=torch.device("cpu"), **SMALL),
}
METHODS = ["decision_function", "predict", "predict_proba", "predict_topk", "predict_set"]


def outputs(estimator, X):
    found = {name: getattr(estimator, name)(X) for name in METHODS if hasattr(estimator, name)}
    if hasattr(estimator, "predict_top"):
        found["predict_top"] = estimator.predict_top(X, 10)
    return found


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def fitted(estimator, X, y):
    if isinstance(estimator, FrozenEstimator):
        return FrozenEstimator(clone(estimator.estimator).fit(X, y))
    return clone(estimator).fit(X, y)


@pytest.mark.parametrize("name", [*ON_TWO_CLASSES, *ON_THREE_CLASSES])
def test_an_estimator_is_loaded_unchanged_without_the_parameter_trusted(cancer, iris, path, name):
    X, y = iris if name in ON_THREE_CLASSES else (cancer[0], np.array(["no", "yes"])[cancer[1]])
    estimator = fitted((ON_TWO_CLASSES | ON_THREE_CLASSES)[name], X, y)
    loaded = load(dump(estimator, path))
    assert type(loaded) is type(estimator)
    assert str(loaded) == str(estimator)
    assert_same(outputs(loaded, X), outputs(estimator, X))


@pytest.mark.parametrize("labels", [[0, 1, 2], [0.0, 1.0, 5.0], ["a", "b", "ab"], [-1, 7, 2**40]])
def test_a_loaded_estimator_keeps_the_type_of_its_labels(iris, path, labels):
    X, y = iris
    y = np.array(labels)[np.unique(y, return_inverse=True)[1]]
    clf = sktopk.TopKClassifier(k=1, **SMALL).fit(X, y)
    assert_same(outputs(load(dump(clf, path)), X), outputs(clf, X))


def test_class_weight_of_boolean_labels_is_saved(path):
    weight = {True: 20, False: 1}
    assert load(dump(LogisticRegression(class_weight=weight), path)).class_weight == weight


def test_metadata_requests_are_not_written(iris, path):
    again = pytest.warns(UserWarning, match="if you called set_fit_request, call it after load")
    with config_context(enable_metadata_routing=True), again:
        clf = sktopk.TopKClassifier(k=1, **SMALL).set_fit_request(groups=True)
        search = GridSearchCV(clf, {"k": [1]}, cv=3).fit(*iris, groups=np.arange(len(iris[1])))
        assert_same(outputs(load(dump(search, path)), iris[0]), outputs(search, iris[0]))


def test_a_loaded_estimator_reads_frames_with_categories_and_missing_values(cancer, path):
    X = pd.DataFrame(cancer[0][:, :3].copy(), columns=["a", "b", "c"])
    X["kind"] = pd.Categorical(np.where(X["a"] > 0, "u", "v"))
    X.loc[::5, "b"] = np.nan
    clf = sktopk.RecallAtKClassifier(k=50, **SMALL).fit(X, cancer[1])
    assert_same(outputs(load(dump(clf, path)), X), outputs(clf, X))


@pytest.mark.parametrize(
    "estimator",
    [sktopk.TopKClassifier("noised_topk", k=1), sktopk.DeepTopPushClassifier()],
    ids=["labels", "ranking"],
)
def test_a_loaded_estimator_continues_training_like_the_original(cancer, path, estimator):
    X, y = cancer
    schedule = LRScheduler(policy="StepLR", step_size=2)
    estimator = clone(estimator).set_params(callbacks=[schedule], module=MLP, random_state=0)
    estimator.set_params(hidden_layer_sizes=(8,)).partial_fit(X[:300], y[:300], classes=[0, 1])
    trusted = [LRScheduler, torch.optim.lr_scheduler.StepLR]
    others = [load(dump(estimator, path), trusted=trusted), pickle.loads(pickle.dumps(estimator))]
    for each in (estimator, *others):
        each.partial_fit(X[300:], y[300:])
        assert_same(outputs(each, X), outputs(estimator, X))


ELSEWHERE = """
import pickle, sys
import numpy as np
from sktopk.io import load
folder = sys.argv[1]
X = np.load(f"{folder}/X.npy")
found = [load(f"{folder}/file"), pickle.load(open(f"{folder}/pickle", "rb"))]
np.save(f"{folder}/found.npy", [each.decision_function(X) for each in found])
"""


def test_another_process_reads_a_file_and_a_pickle(cancer, tmp_path):
    pipe = sktopk.make_pipeline(StandardScaler(), clone(RANKER)).fit(*cancer)
    budget = sktopk.BudgetClassifier(FrozenEstimator(pipe), constraint="fpr", budget=0.1)
    budget.fit(*cancer)
    np.save(tmp_path / "X.npy", cancer[0])
    dump(budget, tmp_path / "file")
    (tmp_path / "pickle").write_bytes(pickle.dumps(budget))
    subprocess.run([sys.executable, "-W", "ignore", "-c", ELSEWHERE, str(tmp_path)], check=True)
    expected = budget.decision_function(cancer[0])
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), [expected] * 2)
