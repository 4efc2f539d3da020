"""Objectives and metrics inside LightGBM and XGBoost."""

import inspect

import numpy as np
import pytest

from sktopk.boosting import initial_score, metric, objective
from sktopk.losses import TopMean
from sktopk.metrics import positives_at_top_score

lightgbm = pytest.importorskip("lightgbm")
# Disable LightGBM's own metric, because it would also stop the training.
SMALL = {"n_estimators": 20, "n_jobs": 1, "verbosity": -1, "metric": "None"}
TOP = {"threshold": TopMean("negatives", tau=0.05), "surrogate": "logistic"}


def judged_by(X, y):
    """Return validation samples in the arguments that `fit` of the installed LightGBM has."""
    if "eval_X" in inspect.signature(lightgbm.LGBMClassifier.fit).parameters:
        return {"eval_X": X, "eval_y": y}
    return {"eval_set": [(X, y)]}


@pytest.mark.parametrize("name", ["binary", "several"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_log_loss_objective_grows_the_same_trees_as_lightgbm(name, is_weighted, request):
    X, y = request.getfixturevalue(name)
    weight = 0.5 + np.arange(len(y)) % 3 if is_weighted else None
    own = lightgbm.LGBMClassifier(**SMALL).fit(X, y, sample_weight=weight)
    loss = "top_push" if name == "binary" else "focal"
    ours = lightgbm.LGBMClassifier(objective=objective(loss, log_loss_share=1), **SMALL)
    # LightGBM starts from `start`. For several classes, `initial_score` differs by a constant.
    if name == "binary":
        start = np.full(len(y), initial_score(y, sample_weight=weight))
    else:
        start = np.log(np.bincount(y, weight) / (len(y) if weight is None else weight.sum()))
        start = np.tile(start, (len(y), 1))
    ours.fit(X, y, sample_weight=weight, init_score=start)
    scores = ours.predict(X, raw_score=True) + start
    np.testing.assert_allclose(scores, own.predict(X, raw_score=True), atol=1e-6)


def test_lightgbm_stops_early_by_a_metric_of_sktopk(binary):
    X, y = binary
    f, start = objective("accuracy_at_top", **TOP), np.full(1000, initial_score(y[:1000]))
    model = lightgbm.LGBMClassifier(objective=f, **SMALL | {"n_estimators": 100})
    options = judged_by(X[1000:], y[1000:]) | {"eval_init_score": [start[:200]]}
    options["callbacks"] = [lightgbm.early_stopping(5, verbose=False)]
    options["eval_metric"] = metric("positives_at_top")
    model.fit(X[:1000], y[:1000], init_score=start, **options)
    found = model.evals_result_["valid_0"]["positives_at_top"]
    scores = model.predict(X[1000:], raw_score=True)
    assert found[model.best_iteration_ - 1] == positives_at_top_score(y[1000:], scores)
    assert max(found) == found[model.best_iteration_ - 1]


def test_xgboost_trains_and_stops_early(binary):
    xgboost = pytest.importorskip("xgboost")
    X, y = binary
    weight = 0.5 + np.arange(1000) % 3
    params = {"n_estimators": 50, "n_jobs": 1, "early_stopping_rounds": 5}
    params |= {"base_score": y[:1000].mean(), "objective": objective("accuracy_at_top", **TOP)}
    params["eval_metric"] = metric("positives_at_top", library="xgboost")
    model = xgboost.XGBClassifier(**params)
    model.fit(X[:1000], y[:1000], sample_weight=weight, eval_set=[(X[1000:], y[1000:])], verbose=0)
    scores = model.predict(X[1000:], output_margin=True)
    found = model.evals_result()["validation_0"]["positives_at_top"]
    best = positives_at_top_score(y[1000:], scores)
    assert -found[model.best_iteration] == pytest.approx(best, rel=1e-5)
    assert min(found) == found[model.best_iteration]
