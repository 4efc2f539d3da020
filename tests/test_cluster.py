"""Searches over our estimators on a cluster find what they find on one machine."""

import warnings

import numpy as np
import pytest
import torch
from joblib import parallel_config
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import make_topk_scorer

X, y = load_digits(return_X_y=True)
X, y = X[:300], y[:300]
SEARCHES = {
    "labels": (
        TopKClassifier(k=3, max_epochs=3, n_estimators=2, random_state=0),
        {"topkclassifier__tau": [0.1, 1.0], "topkclassifier__loss": ["smooth_topk"]},
        make_topk_scorer(3),
        y,
    ),
    "ranking": (
        DeepTopPushClassifier(max_epochs=3, n_estimators=2, random_state=0),
        {"deeptoppushclassifier__surrogate": ["hinge", "quadratic"]},
        "roc_auc",
        y == 8,
    ),
}


def search(name, backend, n_jobs=2):
    clf, grid, scoring, target = SEARCHES[name]
    found = GridSearchCV(make_pipeline(StandardScaler(), clf), grid, scoring=scoring, cv=2)
    with parallel_config(backend, n_jobs=n_jobs):
        return found.fit(X, target)


def assert_same(found, expected, target):
    for key in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(found.cv_results_[key], expected.cv_results_[key])
    assert found.best_params_ == expected.best_params_
    assert found.score(X, target) == expected.score(X, target)


@pytest.fixture(scope="module")
def dask_client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.parametrize("name", SEARCHES)
def test_dask_workers_find_the_same(name, dask_client):
    assert_same(search(name, "dask"), search(name, "sequential", 1), SEARCHES[name][3])


def test_dask_workers_have_a_thread_each(dask_client):
    assert set(dask_client.run(torch.get_num_threads).values()) == {1}


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="ray is not among the test dependencies")
    from ray.util.joblib import register_ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        register_ray()
        yield ray
        ray.shutdown()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ray_workers_find_the_same(ray):
    assert_same(search("labels", "ray"), search("labels", "sequential", 1), y)
