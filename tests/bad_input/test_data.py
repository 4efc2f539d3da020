"""Wrong data are refused before any training, in fit, partial_fit and every prediction."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

from tests.bad_input.refusals import DECISIONS, NETS, OF_FOUR, Row, X, assert_refused, fitted
from tests.bad_input.refusals import labels as labels_of

V, T = ValueError, TypeError
EVERY = (*NETS, *DECISIONS)
BINARY = tuple(n for n in EVERY if labels_of(n) is not OF_FOUR and n != "AUCClassifier")
MULTI_CLASS = ("TopKClassifier", "AUCClassifier")
RANKED = tuple(n for n in NETS if n != "TopKClassifier")
NAN, INF = X.copy(), X.copy()
NAN[1, 1], INF[1, 1] = np.nan, np.inf
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
WORDS = np.full((40, 2), "a")
ONES = np.ones(40)
TRAINED = torch.tensor(X, requires_grad=True)


def at(values, value, row=3):
    """Labels, one of which is something else."""
    values = np.asarray(values, dtype=object)
    values[row] = value
    return values


# X, or a function of the labels that returns what is passed to fit.
FEATURES = {
    "NaN": Row(NAN, V, "NaN"),
    "infinity": Row(INF, V, "infinity"),
    "a sparse NaN": Row(sparse.csr_array(NAN), V, "NaN"),
    "a sparse infinity": Row(sparse.csc_matrix(INF), V, "infinity"),
    "a frame with a missing number": Row(FRAME.mask(FRAME > 2), V, "NaN"),
    "a frame with pandas.NA": Row(FRAME.round().astype("Int64").mask(FRAME > 1), V, "NaN|NA"),
    "a polars frame with a null": Row(pl.DataFrame({"a": [None, *range(39)]}), V, "NaN"),
    "a frame of words": Row(pd.DataFrame(WORDS), V, "could not convert|string"),
    "words": Row(WORDS, V, "could not convert|string|numeric"),
    "None in objects": Row(at(X, None), (V, T), "NaN|NoneType"),
    "lists of different lengths": Row([[1.0, 2.0], [1.0]] * 20, V, "inhomogeneous|shape"),
    "complex numbers": Row(X + 1j, V, "[Cc]omplex"),
    "a sparse complex": Row(sparse.csr_array(X + 1j), V, "[Cc]omplex"),
    "no rows": Row(X[:0], V, "0 sample|inconsistent"),
    "no columns": Row(X[:, :0], V, "0 feature"),
    "one dimension": Row(X[:, 0], V, "1D array|2D array|1-D|dim"),
    "a single number": Row(3.0, (V, T), "scalar|0 dimensions|1 dimension|Singleton|iterable"),
    "None": Row(None, (V, T), "None|NoneType|scalar"),
    "a word": Row("rows.csv", (V, T), "scalar|0D|str|could not convert|iterable|inconsistent"),
    "a dict": Row({"a": ONES}, (V, T), "dict|inconsistent|scalar"),
    "a set": Row({1, 2}, (V, T), "set|sequence|scalar|inconsistent"),
    "images": Row(X.reshape(10, 2, 2, 3), V, "dim|inconsistent"),
    "a tensor in half precision": Row(torch.ones(40, 3).bfloat16(), T, "X must be.*bfloat16", NETS),
    "a tensor with a gradient": Row(TRAINED, T, r"X must be.*gradient.*X.detach\(\)", NETS),
    "numbers beyond float64": Row(at(X, 10**400), (V, OverflowError), "infinity|too large"),
}
LABELS = {
    "missing": Row(lambda y: None, V, "y must hold a class label|requires y"),
    "a row short": Row(lambda y: y[:-1], V, "inconsistent|[Ii]nconsistent"),
    "a row long": Row(lambda y: np.append(y, 1), V, "[Ii]nconsistent"),
    "NaN": Row(
        lambda y: np.where(y == 1, np.nan, y), V, "y contains NaN: .* of 40 are none, .* row"
    ),
    "infinity": Row(lambda y: np.where(y == 1, np.inf, y), V, "y.*infinity"),
    "a None": Row(lambda y: at(y, None), V, "y .*none missing; 1 of 40 .* row 3: .*propensity"),
    "a NaN among words": Row(
        lambda y: at(np.where(y == 1, "a", "b"), np.nan), V, "y .*none missing; 1 of 40 are.* row 3"
    ),
    "a word": Row(lambda y: at(y, "a"), V, r"y must hold labels of one kind.*\['int', 'str'\]"),
    "pandas.NA among words": Row(
        lambda y: pd.Series(at(np.where(y == 1, "a", "b"), pd.NA), dtype="string"),
        V,
        "y .*none missing; 1 of 40 are.* row 3",
    ),
    "a list": Row(lambda y: at(y, [1]), (V, T), "y |label|sequence"),
    "pandas.NA": Row(lambda y: pd.Series(y, dtype="Int64").mask(y == 1), (V, T), "y|NA|label"),
    "continuous": Row(lambda y: X[:, 0], V, "y is continuous.*y >= "),
    "complex": Row(lambda y: y + 1j, V, "[Cc]omplex|y |label"),
    "multi-label": Row(lambda y: np.eye(4, dtype=int)[y], V, "y must hold one class label"),
    "words and numbers": Row(
        lambda y: np.array([["a", 1.5], ["b", None]], dtype=object)[y % 2],
        V,
        "y must hold one class label per row; got shape",
    ),
    "two columns": Row(lambda y: np.column_stack([y, y]), V, "y must hold one class label"),
    "a number": Row(lambda y: 1, (V, T), "y|1d|iterable|Expected sequence"),
    "a word alone": Row(lambda y: "target", (V, T), "y|1d|Expected sequence|scalar"),
    "a tensor with a gradient": Row(
        lambda y: torch.tensor(y * 1.0, requires_grad=True), T, r"y must be.*gradient.*y.detach\(\)"
    ),
    "sparse": Row(lambda y: sparse.csr_array(y[:, None]), (V, T), "[Ss]parse|y must hold"),
    "one class": Row(lambda y: np.zeros(40), V, "at least 2 classes|one class|class"),
    "three classes": Row(lambda y: np.arange(40) % 3, V, "binary|2 classes|two classes", BINARY),
    "dates": Row(lambda y: np.array(["2020-01-01"], "M8[D]").repeat(40), (V, T), "class|y|label"),
}
WEIGHTS = {
    "a row short": Row(ONES[1:], V, r"sample_weight.*\(40,\).*\(39,\)"),
    "a table": Row(np.ones((40, 2)), V, "sample_weight must be 1D"),
    "negative": Row(-ONES, V, "sample_weight.*got -1"),
    "NaN": Row(np.nan * ONES, V, "sample_weight.*finite.*nan"),
    "infinity": Row(np.inf * ONES, V, "sample_weight.*finite.*inf"),
    "all zero": Row(0 * ONES, V, "sample_weight.*all are zero"),
    "words": Row(["a"] * 40, V, "sample_weight must hold numbers"),
    "complex": Row(1j * ONES, (V, T), "sample_weight|complex"),
    "None": Row(at(ONES, None), V, "sample_weight"),
    "a negative number": Row(-1.0, V, "sample_weight.*got -1"),
    "a tensor with a gradient": Row(
        torch.ones(40, requires_grad=True), T, "sample_weight must be.*gradient"
    ),
    "of one class alone": Row((OF_FOUR == 1) * 1.0, V, "got 1 class"),
}
# Of validation data, given the labels.
VALIDATION = {
    "no labels": Row(lambda y: (X, None), V, "passed together; y_val is None"),
    "no rows": Row(lambda y: (None, y), V, "passed together; X_val is None"),
    "NaN": Row(lambda y: (NAN, y), V, "X_val is not allowed.*NaN"),
    "infinity": Row(lambda y: (INF, y), V, "X_val is not allowed.*infinity"),
    "a column short": Row(lambda y: (X[:, :2], y), V, "X_val is not allowed.*2 features"),
    "empty": Row(lambda y: (X[:0], y[:0]), V, "X_val is not allowed.*0 sample"),
    "words": Row(lambda y: (WORDS, y), V, "X_val is not allowed"),
    "one dimension": Row(lambda y: (X[0], y), V, "X_val is not allowed"),
    "a label short": Row(lambda y: (X, y[:-1]), V, "y_val has inconsistent length 39"),
    "a NaN label": Row(lambda y: (X, np.where(y == 1, np.nan, y)), V, "y_val.*NaN"),
    "a missing label": Row(lambda y: (X, at(y, None)), V, "y_val|label"),
    "continuous labels": Row(lambda y: (X, X[:, 0]), V, "y_val is continuous"),
    "labels in a table": Row(lambda y: (X, np.eye(4, dtype=int)[y]), V, "y_val must hold one"),
    "a gradient": Row(lambda y: (TRAINED, y), T, "X_val is not allowed.*gradient"),
    "labels with a gradient": Row(
        lambda y: (X, torch.tensor(y * 1.0, requires_grad=True)), T, "y_val must be.*gradient"
    ),
    "labels of no class": Row(
        lambda y: (X, y + 7), V, r"y_val must have labels of y, \[0, 1.*none of them but \[7, 8"
    ),
    "labels of another kind": Row(lambda y: (X, y.astype(str)), V, "y_val must hold labels of the"),
    "one class": Row(lambda y: (X, 0 * y), V, "y_val must have rows of both classes", RANKED),
}
# Of predictions, on which columns and rows are known.
PREDICTIONS = {
    "NaN": Row(NAN, V, "NaN"),
    "infinity": Row(INF, V, "infinity"),
    "a column short": Row(X[:, :2], V, "2 features"),
    "a column long": Row(np.column_stack([X, X[:, 0]]), V, "4 features"),
    "sparse with a column short": Row(sparse.csr_array(X[:, :2]), V, "2 features"),
    "no rows": Row(X[:0], V, "0 sample"),
    "one dimension": Row(X[0], V, "1D array|2D array"),
    "an image": Row(X.reshape(10, 2, 2, 3), V, "dim"),
    "words": Row(WORDS, V, "could not convert|string|numeric"),
    "None": Row(None, (V, T), "None|NoneType|scalar|2D"),
    "a tensor with a gradient": Row(TRAINED, T, r"X must be.*gradient", NETS),
}
METHODS = ("predict", "decision_function", "predict_topk", "predict_topk_proba", "predict_set")


def concerned(row, names):
    return [name for name in names if row.only is None or name in row.only]


@pytest.mark.parametrize("case", FEATURES)
def test_features(case):
    row = FEATURES[case]
    for name in concerned(row, EVERY):
        y = labels_of(name)
        y = y[: len(row.passed)] if case == "images" else y
        assert_refused(name, row, lambda clf, y=y: clf.fit(row.passed, y), row.passed)


@pytest.mark.parametrize("case", LABELS)
def test_labels(case):
    row = LABELS[case]
    for name in concerned(row, EVERY):
        y = row.passed(labels_of(name))
        assert_refused(name, row, lambda clf, y=y: clf.fit(X, y), y)


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(case):
    row = WEIGHTS[case]
    for name in NETS:
        y = labels_of(name)

        def call(clf, y=y):
            clf.fit(X, y, sample_weight=row.passed)

        assert_refused(name, row, call, row.passed)


@pytest.mark.parametrize("case", VALIDATION)
def test_validation_rows(case):
    row = VALIDATION[case]
    for name in concerned(row, NETS):
        y = labels_of(name)
        X_val, y_val = row.passed(y)

        def call(clf, y=y, X_val=X_val, y_val=y_val):
            clf.fit(X, y, X_val=X_val, y_val=y_val)

        assert_refused(name, row, call, (X_val, y_val))


@pytest.mark.parametrize("case", PREDICTIONS)
def test_predictions(case):
    row = PREDICTIONS[case]
    for name in concerned(row, EVERY):
        for method in METHODS:
            if hasattr(fitted(name)[0], method):
                assert_refused(
                    name, row, lambda clf, m=method: getattr(clf, m)(row.passed), row.passed
                )
        if hasattr(fitted(name)[0], "predict_top"):
            assert_refused(name, row, lambda clf: clf.predict_top(row.passed, 2), row.passed)


NUMBERS = {
    "predict_topk: k of all classes": (MULTI_CLASS[:1], "predict_topk", 4, V, "k=4 must be small"),
    "predict_topk: k is huge": (MULTI_CLASS[:1], "predict_topk", 10**12, V, "k=1000000000000 must"),
    "predict_topk: k is 0": (MULTI_CLASS[:1], "predict_topk", 0, V, "k=0 must be at least 1"),
    "predict_topk: a fraction": (MULTI_CLASS[:1], "predict_topk", 1.5, T, "k must be an integer"),
    "predict_topk: a bool": (MULTI_CLASS[:1], "predict_topk", True, T, "k must be an integer"),
    "predict_topk: a word": (MULTI_CLASS[:1], "predict_topk", "1", T, "k must be an integer"),
    "proba: k of all classes": (MULTI_CLASS[:1], "predict_topk_proba", 4, V, "k=4 must be sma"),
    "proba: k is 0": (MULTI_CLASS[:1], "predict_topk_proba", 0, V, "k=0 must be at least 1"),
    "proba: k is a fraction": (MULTI_CLASS[:1], "predict_topk_proba", 0.5, T, "k must be an int"),
    "top: more than all rows": (RANKED, "predict_top", 41, V, r"n=41 must be at most.*\(40\)"),
    "top: no rows": (RANKED, "predict_top", 0, V, "n == 0, must be >= 1"),
    "top: a fraction": (RANKED, "predict_top", 0.5, T, "n must be an instance of int"),
    "top: None": (RANKED, "predict_top", None, T, "n must be an instance of int"),
    "top of a budget: no rows": (("BudgetClassifier",), "predict_top", 0, V, "n must be at least"),
    "top of a budget: a fraction": (("BudgetClassifier",), "predict_top", 0.5, T, "n must be an"),
    "sets: output": (("SetClassifier",), "predict_set", {"output": "list"}, V, "output must be on"),
    "groups of no use": (("BudgetClassifier",), "predict", {"groups": ONES}, V, "groups"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_in_predictions(case):
    names, method, value, error, says = NUMBERS[case]

    def call(clf):
        if isinstance(value, dict):
            return getattr(clf, method)(X, **value)
        return getattr(clf, method)(X, value)

    for name in names:
        assert_refused(name, Row(value, error, says), call)
