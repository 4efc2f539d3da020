"""A search on a cluster of dask finds what it finds on one machine."""

import numpy as np
import pytest
import torch
from joblib import parallel_config
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer


def test_dask_workers_find_the_same_with_a_thread_each():
    distributed = pytest.importorskip("distributed")
    X, y = (each[:200] for each in load_digits(return_X_y=True))
    clf = TopKClassifier(k=3, max_epochs=2, n_estimators=2, random_state=0)
    search = GridSearchCV(clf, {"tau": [0.1, 1.0]}, scoring=make_topk_scorer(3), cv=2)
    expected = search.fit(X, y).cv_results_
    cluster = distributed.LocalCluster(1, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client, parallel_config("dask", n_jobs=2):
        found = search.fit(X, y).cv_results_
        assert set(client.run(torch.get_num_threads).values()) == {1}
    for key in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(found[key], expected[key])
