"""Checks of an installed wheel with its core dependencies only; run by `make test-wheel`."""

import importlib
import pickle
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sktopk
from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import topk_accuracy_score


def main():
    where = Path(sktopk.__file__)
    assert "site-packages" in where.parts, f"{where} is not an installed package"
    for extra in ("matplotlib", "onnx"):
        assert find_spec(extra) is None, f"{extra} is here: this is no environment of core packages"
    for name in sktopk.__all__:
        assert getattr(sktopk, name).__doc__, name
    for each in iter_modules(sktopk.__path__):
        if not each.name.startswith("_"):
            importlib.import_module(f"sktopk.{each.name}")

    X, y = load_digits(return_X_y=True)
    clf = make_pipeline(StandardScaler(), TopKClassifier(k=3, max_epochs=20, random_state=0))
    clf.fit(X[::2], y[::2])
    accuracy = topk_accuracy_score(y[1::2], clf.decision_function(X[1::2]), k=3)
    assert accuracy > 0.97, accuracy

    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    top = DeepTopPushClassifier(max_epochs=20, random_state=0).fit(X[::2], y[::2])
    assert y[1::2][top.predict_top(X[1::2], 20)].mean() > 0.9
    again = pickle.loads(pickle.dumps(top))
    np.testing.assert_array_equal(again.decision_function(X), top.decision_function(X))
    print(f"sktopk {sktopk.__version__} in {where.parents[1].name}: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
