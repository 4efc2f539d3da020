import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler


@pytest.fixture(autouse=True)
def _quiet():
    """What short fits warn of is no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="session")
def cancer():
    """Two classes, 30 features."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def named(blobs):
    """Five classes with names beyond ASCII, one the beginning of another."""
    X, y = blobs
    return X, np.array(["ä", "äb", "c", "日本", ""], dtype=object)[y]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sktopk"
