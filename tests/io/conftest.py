import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler


@pytest.fixture(autouse=True)
def _quiet():
    """Ignore the warning that short fits have not converged."""
    with warnings.catch_warnings(action="ignore"):
        yield


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["ä", "日本", ""], dtype=object)[y]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"
