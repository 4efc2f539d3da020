import pytest
from sklearn.datasets import make_classification


@pytest.fixture(scope="session")
def binary():
    return make_classification(1200, weights=[0.9], flip_y=0.05, random_state=0)


@pytest.fixture(scope="session")
def several():
    return make_classification(500, n_classes=4, n_informative=6, random_state=0)
