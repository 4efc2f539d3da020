"""Every step that a file may hold transforms or predicts, once it is back, as it did before."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, PCA
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection

from sktopk import BudgetClassifier, TopKClassifier
from sktopk.io import STEPS, dump, load

rng = np.random.default_rng(0)
X = rng.random((90, 4))
Y = np.arange(90) % 3
NAMES = np.array(["a", "b", "c", "a", "b", "rare"], dtype=object)[rng.integers(0, 6, (90, 2))]
HOLES = np.where(X < 0.1, np.nan, X)
TEXTS = [" ".join(np.array(["eins", "zwei", "drei", "Ärger"])[row > 0.5]) + " x y" for row in X]
FIELDS = [{"a": row[0], "b": "yes" if row[1] > 0.5 else "no"} for row in X]

SOME = {
    "ColumnTransformer": (
        ColumnTransformer(
            [
                ("by name", StandardScaler(), ["a", "c"]),
                ("by slice", MinMaxScaler(), slice(1, 2)),
                ("skip", "passthrough", [3]),
                ("drop", "drop", [0]),
            ],
            remainder=StandardScaler(),
        ),
        pd.DataFrame(X, columns=list("abcd")),
    ),
    "CountVectorizer": (CountVectorizer(max_features=3, ngram_range=(1, 2)), TEXTS),
    "HashingVectorizer": (HashingVectorizer(n_features=64, norm=None), TEXTS),
    "TfidfVectorizer": (TfidfVectorizer(stop_words=["eins"], dtype=np.float32), TEXTS),
    "DictVectorizer": (None, FIELDS),
    "FeatureHasher": (FeatureHasher(32), FIELDS),
    "FeatureUnion": (FeatureUnion([("a", PCA(2)), ("b", StandardScaler()), ("c", "drop")]), X),
    "Pipeline": (Pipeline([("a", StandardScaler()), ("b", PCA(2))], memory=None), X),
    "FunctionTransformer": (FunctionTransformer(validate=True), X),
    "OneHotEncoder": (OneHotEncoder(min_frequency=10, drop="first"), NAMES),
    "OrdinalEncoder": (
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
        NAMES,
    ),
    "TargetEncoder": (TargetEncoder(random_state=np.random.RandomState(1)), NAMES),
    "LabelBinarizer": (None, Y),
    "KNNImputer": (KNNImputer(add_indicator=True), HOLES),
    "MissingIndicator": (None, HOLES),
    "SimpleImputer": (SimpleImputer(strategy="median", add_indicator=True), HOLES),
    "KBinsDiscretizer": (
        KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf", dtype=np.float32),
        X,
    ),
    "PolynomialFeatures": (PolynomialFeatures((1, 3), interaction_only=True), X),
    "PowerTransformer": (PowerTransformer("box-cox"), X + 1),
    "NMF": (NMF(2, max_iter=500), X),
    "Nystroem": (Nystroem(n_components=5, random_state=0), X),
    "RBFSampler": (RBFSampler(n_components=5, random_state=0), X),
    "GaussianRandomProjection": (GaussianRandomProjection(3, random_state=0), X),
    "DummyClassifier": (DummyClassifier(strategy="stratified", random_state=0), X),
    "TfidfTransformer": (TfidfTransformer(sublinear_tf=True), (X > 0.5).astype(int)),
}


def outputs(step, data):
    for method in ("transform", "predict", "predict_proba", "decision_function"):
        if hasattr(step, method):
            out = getattr(step, method)(data)
            yield out.toarray() if issparse(out) else np.asarray(out)


@pytest.mark.parametrize("name", [name for names in STEPS.values() for name in names])
def test_a_step_is_what_it_was(name, path):
    (module,) = (module for module, names in STEPS.items() if name in names)
    step, data = SOME.get(name, (None, X))
    step = getattr(import_module(module), name)() if step is None else step
    if "n_components" in inspect.signature(type(step)).parameters:
        step.set_params(n_components=1)
    # Attributes with the version of scikit-learn alone, as those of steps without a fit.
    assert type(load(dump(make_pipeline(step, TopKClassifier()), path))[0]) is type(step)
    step.fit(data) if name == "LabelBinarizer" else step.fit(data, Y)
    if is_classifier(step) and hasattr(step, "classes_"):
        binary = type(step)().set_params(**step.get_params()).fit(data, Y > 0)
        model = BudgetClassifier(FrozenEstimator(binary), per="batch", budget=0.2)
        model.fit(data, Y > 0)
        back = load(dump(model, path))
        np.testing.assert_array_equal(back.predict(data), model.predict(data))
        back = back.estimator_.estimator
        step = binary
    else:
        back = load(dump(make_pipeline(step, TopKClassifier()), path))[0]
    # Loaded arrays are contiguous; products with a view that is not are summed in another order.
    for attribute, value in vars(step).items():
        if isinstance(value, np.ndarray):
            setattr(step, attribute, np.ascontiguousarray(value))
    found, expected = list(outputs(back, data)), list(outputs(step, data))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    # But for where generators lie.
    assert re.sub("0x.*", "", repr(back)) == re.sub("0x.*", "", repr(step))


def test_a_step_of_another_version_warns(path):
    pipe = make_pipeline(StandardScaler().fit(X), TopKClassifier())
    pipe[0].__dict__["_sklearn_version"] = "0.1"
    state = type(pipe[0]).__getstate__
    try:
        StandardScaler.__getstate__ = lambda self: state(self) | {"_sklearn_version": "0.1"}
        dump(pipe, path)
    finally:
        del StandardScaler.__getstate__
    with pytest.warns(UserWarning, match=r"unpickle estimator StandardScaler from version 0\.1"):
        load(path)


def test_the_guide_lists_all_steps():
    guide = Path(__file__).parents[2] / "docs" / "ship.md"
    if not guide.is_file():
        pytest.skip("runs in a checkout")
    text = re.split("### Steps that may be inside", guide.read_text(encoding="utf-8"))[1]
    for names in STEPS.values():
        for name in names:
            assert re.search(rf"\b{name}\b", text), name


def test_a_scaled_logistic_regression_under_a_budget(path):
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    budget = BudgetClassifier(inner, budget=0.2, constraint="fpr", random_state=0)
    budget.fit(X, Y > 0)
    np.testing.assert_array_equal(load(dump(budget, path)).predict(X), budget.predict(X))
