"""Wrong data raise errors that name them, and change neither the data nor the estimator."""

import re
import warnings
from enum import Enum
from functools import cache

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import sktopk
from sktopk import BudgetClassifier, DeepTopPushClassifier, SetClassifier, TopKClassifier
from sktopk.model_selection import compare_losses
from sktopk.modules import MLP
from tests.test_parameters import OF_FOUR, OF_TWO, X, labels

V, T = ValueError, TypeError
QUICK = {"n_estimators": 1, "hidden_layer_sizes": (), "max_epochs": 1, "module": MLP}
NETS = {
    "TopKClassifier": lambda: TopKClassifier(k=2, **QUICK),
    "DeepTopPushClassifier": lambda: DeepTopPushClassifier(**QUICK),
    "AUCClassifier": lambda: sktopk.AUCClassifier(**QUICK),
}
EACH = NETS | {"TopBoostClassifier": lambda: sktopk.TopBoostClassifier(n_estimators=2, n_members=1)}
ANY = EACH | {
    "BudgetClassifier": lambda: BudgetClassifier(LogisticRegression(), random_state=0),
    "SetClassifier": lambda: SetClassifier(LogisticRegression(), method="lac", random_state=0),
}
NAN, INF = X.copy(), X.copy()
NAN[1, 1], INF[1, 1] = np.nan, np.inf
MASKED = np.ma.masked_array(X, mask=X > 1)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
ONES = np.ones(40)
TRAINED = torch.tensor(X, requires_grad=True)


def at(values, value, row=3):
    values = np.asarray(values, dtype=object)
    values[row] = value
    return values


@cache
def fitted(name):
    clf = ANY[name]().fit(X, labels(name))
    return clf, clf.decision_function(X)


def assert_refused(name, error, says, method, *args, **params):
    """Call a method of an estimator that was fitted before: it raises, and nothing changes."""
    clf, scores = fitted(name)
    before, given = [joblib.hash(each) for each in (X, OF_FOUR, OF_TWO)], repr((args, params))
    with warnings.catch_warnings(action="ignore"):
        with pytest.raises(error) as caught:
            getattr(clf, method)(*args, **params)
    assert re.search(says, str(caught.value), re.DOTALL), f"{name}: {caught.value}"
    assert before == [joblib.hash(each) for each in (X, OF_FOUR, OF_TWO)]
    assert repr((args, params)) == given
    np.testing.assert_array_equal(clf.decision_function(X), scores)


SAMPLES = {
    "NaN": (NAN, V, "NaN", NETS),
    "infinity": (INF, V, "infinity"),
    "a sparse NaN": (sparse.csr_array(NAN), V, "NaN", NETS),
    "a frame with pandas.NA": (FRAME.round().astype("Int64").mask(FRAME > 1), V, "NaN|NA", NETS),
    "objects with pandas.NA": (FRAME.astype(object).mask(FRAME > 1, pd.NA), T, "pd.NA in", NETS),
    "a polars frame with a null": (pl.DataFrame({"a": [None, *range(39)]}), V, "NaN", NETS),
    "masked": (MASKED, V, r"X must have no masked entries; got \d+ of 120"),
    "words": (np.full((40, 2), "a"), V, "could not convert|string|numeric"),
    "lists of different lengths": ([[1.0, 2.0], [1.0]] * 20, V, "inhomogeneous|shape"),
    "None": (None, (V, T), "None|NoneType|scalar"),
    "a file name": ("rows.csv", (V, T), "scalar|0D|str|could not convert|inconsistent"),
    "images": (X.reshape(10, 2, 2, 3), V, "dim|inconsistent|samples of shape"),
    "half precision": (torch.ones(40, 3).bfloat16(), T, "X must be.*bfloat16"),
    "a gradient": (TRAINED, T, r"X must be.*gradient.*X.detach\(\)"),
    "beyond float64": (at(X, 10**400), (V, OverflowError), "X must hold.*range|infinity|too large"),
    "integers beyond float64": ([[10**400]] * 40, V, "X must hold numbers within the range of fl"),
    "a frame of integers beyond float64": (pd.Series([10**400] * 40, dtype=object).to_frame("a"), V,
        "X must hold numbers; got 1000.* in column 'a', row 0: int too large"),
    "a frame of complex numbers": (FRAME + 1j, V, "X must hold numbers; got complex128 in column"),
    "a sparse tensor": (torch.eye(40).to_sparse_csr(), T,
        r"X must be a dense tensor or a scipy .* torch.sparse_csr: pass X.to_dense\(\)"),
    "a generator": ((row for row in X), T, r"X must be .* got a generator: pass list\(X\)"),
    "a dict": ({"a": X[:, 0]}, T, r"X must be a table; got a dict: pass pandas.DataFrame\(X\)"),
    "a set": ({1, 2}, T, "X must have samples in an order; got a set"),
    "dicts": ([{"a": 1.0}] * 40, T, "X must hold numbers: .*'dict'"),
    "a loader": (
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(X))), T,
        "X must be an array, table or Dataset; got a DataLoader: pass X.dataset"),
    "a query": (pl.DataFrame(X).lazy(), T, r"X must be in memory; got a LazyFrame: pass X.collect"),
}  # fmt: skip


def asked(cases, names=EACH):
    """Pairs of an estimator and a test case that applies to it."""
    return [
        pytest.param(name, case, id=f"{name}-{case}")
        for name in names
        for case, (*_, last) in cases.items()
        if isinstance(last, str) or name in last
    ]


@pytest.mark.parametrize(("name", "case"), asked(SAMPLES))
def test_samples_that_are_no_table_of_finite_numbers_raise_in_every_method(name, case):
    passed, error, says, *_ = SAMPLES[case]
    y = labels(name)[: len(passed)] if case == "images" else labels(name)
    for method in ("fit", "partial_fit") if name in NETS else ("fit",):
        assert_refused(name, error, says, method, passed, y)
    for method in ("predict", "decision_function", "predict_topk", "predict_proba"):
        if hasattr(fitted(name)[0], method):
            assert_refused(name, error, says, method, passed)


DAYS = np.datetime64("2020-01-01") + np.arange(40)
TIMES = {
    "days": DAYS,
    "a missing day": np.where(OF_FOUR == 1, np.datetime64("NaT"), DAYS),
    "durations": DAYS - DAYS[0],
    "objects of NumPy": np.array([*DAYS], dtype=object),
    "objects of Python": DAYS.astype(object),
    "a list": [*DAYS],
    "a series": pd.Series(DAYS),
}
COMPLEX = {"complex": OF_FOUR + 1j, "complex objects": (OF_FOUR + 1j).astype(object)}


@pytest.mark.parametrize("case", TIMES | COMPLEX)
@pytest.mark.parametrize("name", EACH)
def test_times_and_complex_numbers_raise(name, case):
    values = (TIMES | COMPLEX)[case]
    error, got = (T, "got (times|np|date|NaT)") if case in TIMES else (V, "got (complex128|1j)")
    table = [[each] for each in values] if isinstance(values, list) else np.array(values)[:, None]
    y = labels(name)
    assert_refused(name, error, f"X must hold numbers; {got}", "fit", table, y)
    assert_refused(name, error, f"X must hold numbers; {got}", "predict", table)
    frame = pd.DataFrame(table, columns=["a"])
    frame = pa.Table.from_pandas(frame) if case == "days" else frame
    assert_refused(name, error, f"X must hold numbers; {got}.* in column 'a'", "fit", frame, y)
    assert_refused(name, error, f"sample_weight must hold numbers; {got}", "fit", X, y, values)
    if case != "a missing day":
        assert_refused(name, error, f"y must hold class labels; {got}", "fit", X, values)


LABELS = {
    "beyond 64 bits": (lambda y: [10**400 * int(each) for each in y], V, "y must hold strings, "),
    "a generator": (lambda y: (each for each in y), V, "y must be an array or list of labels"),
    "missing": (lambda y: None, V, "y must have one class label|requires y"),
    "one too few": (lambda y: y[:-1], V, "[Ii]nconsistent"),
    "NaN": (lambda y: np.where(y == 1, np.nan, y), V, "y contains NaN: .* 10 of 40, .* row 1"),
    "infinity": (lambda y: np.where(y == 1, np.inf, y), V, "y.*infinity"),
    "NaT": (lambda y: np.where(y == 1, np.datetime64("NaT"), np.datetime64("2020-01-01")), V,
        "Input y contains NaT: .* 10 of 40, .* row 1"),
    "masked": (lambda y: np.ma.masked_equal(y, 1), V, "y must have no masked entries; got 10 of"),
    "a None": (lambda y: at(y, None), V, "y .*missing labels; got 1 of 40, first in row 3"),
    "a NaN among words": (lambda y: at(np.where(y == 1, "a", "b"), np.nan).tolist(), V,
        "y .*missing labels; got 1 of 40, first in row 3"),
    "a word": (lambda y: at(y, "a").tolist(), V, r"y must hold only strings or.*\['int', 'str'\]"),
    "a list": (lambda y: at(y, [1]), (V, T), "y |label|sequence"),
    "dates": (lambda y: np.datetime64("2020-01-01") + y, T,
        r"y must hold class labels; got times \(datetime64\[D\]\): convert.* astype\(str\)"),
    "date objects": (lambda y: (np.datetime64("2020-01-01") + y).astype(object), T,
        r"y must hold class labels; got datetime.date.*: convert them to strings"),
    "other objects": (lambda y: np.array([V, T])[y % 2], V,
        r"y must hold labels that are strings.*; got type. Pass \[str\(label\) for label in y\]"),
    "an enumeration": (
        lambda y: np.array([Enum("Colour", "RED GREEN BLUE GREY")(i + 1) for i in y]), V,
        r"y must hold labels that are strings.*; got Colour. Pass \[label.name for label in y\]"),
    "bytes": (lambda y: np.array([b"a", b"b"])[y % 2], T, "labels represented as bytes"),
    "continuous": (lambda y: X[:, 0], V, "y must hold .*continuous.*y >= "),
    "continuous objects": (lambda y: X[:, 0].astype(object), V, "y must hold .*continuous"),
    "complex": (lambda y: y + 1j, V, "[Cc]omplex|y |label"),
    "multi-label": (lambda y: np.eye(4, dtype=int)[y], V, "y must hold one class label"),
    "a word alone": (lambda y: "target", (V, T), "y|1d|Expected sequence|scalar"),
    "a gradient": (lambda y: torch.tensor(y * 1.0, requires_grad=True), T,
        r"y must be.*gradient.*y.detach\(\)"),
    "sparse": (lambda y: sparse.csr_array(y[:, None]), (V, T), "[Ss]parse|y must hold"),
    "one class": (lambda y: np.zeros(40), V, "at least 2 classes|one class|class"),
    "three classes": (
        lambda y: np.arange(40) % 3, V, "binary|2 classes|two classes", ["DeepTopPushClassifier"]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "case"), asked(LABELS, ANY))
def test_y_without_one_valid_class_label_per_sample_raises(name, case):
    make, error, says, *_ = LABELS[case]
    assert_refused(name, error, says, "fit", X, make(labels(name)))


WEIGHTS = {
    "one too few": (ONES[1:], r"sample_weight.*\(40,\).*\(39,\)"),
    "a table": (np.ones((40, 2)), "sample_weight must be 1D"),
    "negative": (-ONES, "sample_weight.*got -1"),
    "NaN": (np.nan * ONES, "sample_weight.*finite.*nan"),
    "masked": (np.ma.masked_equal(OF_FOUR, 1), "sample_weight must have no masked entries"),
    "all zero": (0 * ONES, "sample_weight.*got only zeros"),
    "words": (["a"] * 40, "sample_weight must hold numbers"),
    "too large": (1e306 * ONES, r"sample_weight .* at most 1e\+150; got weights up to 1e\+306"),
    "a negative number": (-1.0, "sample_weight.*got -1"),
    "of one class alone": ((OF_FOUR == 1) * 1.0, "got 1 class|only one class"),
}


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("case", WEIGHTS)
def test_sample_weights_that_are_not_finite_nonnegative_and_one_per_sample_raise(name, case):
    passed, says = WEIGHTS[case]
    in_parts = name in NETS and case != "of one class alone"
    for method in ("fit", "partial_fit") if in_parts else ("fit",):
        assert_refused(name, V, says, method, X, labels(name), sample_weight=passed)


VALIDATION = {
    "no labels": (lambda y: (X, None), V, "passed together; y_val is None"),
    "no samples": (lambda y: (None, y), V, "passed together; X_val is None"),
    "NaN": (lambda y: (NAN, y), V, "X_val is not valid.*NaN"),
    "masked": (lambda y: (MASKED, y), V, "X_val is not valid.*masked"),
    "masked labels": (lambda y: (X, np.ma.masked_equal(y, 1)), V, "y_val must have no masked"),
    "a column short": (lambda y: (X[:, :2], y), V, "X_val is not valid.*2 features"),
    "empty": (lambda y: (X[:0], y[:0]), V, "X_val is not valid.*0 sample"),
    "a label short": (lambda y: (X, y[:-1]), V, "y_val must have .* inconsistent length 39"),
    "continuous labels": (lambda y: (X, X[:, 0]), V, "y_val must hold .*continuous"),
    "a gradient": (lambda y: (TRAINED, y), T, "X_val is not valid.*gradient"),
    "other labels": (lambda y: (X, y + 7), V, r"y_val must have .* labels of y: .*got only"),
    "another kind": (lambda y: (X, y.astype(str)), V, "y_val must have the same type"),
    "one class": (lambda y: (X, 0 * y), V, "y_val must have both", ["AUCClassifier"]),
}


@pytest.mark.parametrize(("name", "case"), asked(VALIDATION, NETS))
def test_invalid_validation_samples_or_labels_raise(name, case):
    make, error, says, *_ = VALIDATION[case]
    X_val, y_val = make(labels(name))
    assert_refused(name, error, says, "fit", X, labels(name), X_val=X_val, y_val=y_val)


NUMBERS = {
    "k of all classes": ("TopKClassifier", "predict_topk", 4, V, "k=4 must be small"),
    "k is 0": ("TopKClassifier", "predict_topk", 0, V, "k=0 must be at least 1"),
    "k is a fraction": ("TopKClassifier", "predict_topk", 1.5, T, "k must be an integer"),
    "k is a bool": ("TopKClassifier", "predict_topk", True, T, "k must be an integer"),
    "n is 0": ("DeepTopPushClassifier", "predict_top", 0, V, "n == 0, must be >= 1"),
    "n is a fraction": ("DeepTopPushClassifier", "predict_top", 0.5, T, "n must be an instance"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_wrong_k_of_predict_topk_and_n_of_predict_top_raise(case):
    name, method, value, error, says = NUMBERS[case]
    assert_refused(name, error, says, method, X, value)


PARTS = {
    "a new label": ({"y": OF_FOUR + 1}, V, r"y has labels \[4\]|y has labels \[2 3 4\]"),
    "labels of another kind": ({"y": OF_FOUR.astype(str)}, (V, T), "y|label|dtype|kind"),
    "other classes": ({"classes": [0, 1, 7]}, V, "classes must be as in the first|2 classes"),
    "one class announced": ({"classes": [0]}, V, "classes must have at least 2|2 classes"),
    "NaN announced": ({"classes": [0, np.nan]}, V, "classes.*NaN"),
    "a column less": ({"X": X[:, :2]}, V, "2 features"),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("case", PARTS)
def test_partial_fit_raises_for_new_labels_invalid_classes_and_missing_columns(name, case):
    passed, error, says = PARTS[case]
    assert_refused(name, error, says, "partial_fit", **{"X": X, "y": labels(name)} | passed)


def test_values_of_X_that_make_scores_nan_raise():
    for name, make in NETS.items():
        clf = make().fit(X.astype(np.float32), labels(name))
        for method in ("predict", "decision_function"):
            with pytest.raises(ValueError, match="X has values too large for its dtype"):
                getattr(clf, method)(X * [1, -1e39, 1e39])
        with pytest.raises(ValueError, match="X_val has values too large for its dtype"):
            clf.fit(X.astype(np.float32), labels(name), X_val=X * 1e39, y_val=labels(name))


def test_probabilities_of_infinite_scores_raise():
    clf = TopKClassifier(k=2, random_state=0, **QUICK).fit(np.float32(X), OF_FOUR)
    with torch.no_grad():
        for weight in clf.net_.module_.parameters():
            weight.abs_().add_(1.0)
    with pytest.raises(ValueError, match="returns NaN or infinity: X has values too large"):
        clf.predict_proba(np.full((3, 3), 3e38))


WITHOUT_A_DAY = np.where(np.arange(40) == 3, np.datetime64("NaT"), np.datetime64("2020-01-01"))
SCORED = {
    "two columns": (
        np.c_[OF_TWO, OF_TWO], None, V, "1d array|must have shape|one (class )?label per"),
    "one too few": (
        OF_TWO[1:], None, V, "one (class )?label per|scores, one per|equal len|inconsist"),
    "empty": ([], None, V, "y must have at least one label|one label per|equal len"),
    "a missing day": (WITHOUT_A_DAY, None, V, "y(_true)? must not .*got 1 of 40, first in row 3"),
    "a missing object": (WITHOUT_A_DAY.astype(object), None, V, "y(_true)? must not .*got 1 of 40"),
    "masked": (np.ma.masked_equal(OF_TWO, 1), None, V, "must have no masked entries; got 10 of"),
    "negative weights": (OF_TWO, -ONES, V, "sample_weight must"),
    "large weights": (OF_TWO, 1e308 * ONES, V, "sample_weight must"),
    "masked weights": (OF_TWO, np.ma.masked_equal(OF_FOUR, 1), V, "sample_weight must"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("case", SCORED)
def test_wrong_labels_and_weights_of_the_method_score_raise(name, case):
    y, weight, error, says = SCORED[case]
    assert_refused(name, error, says, "score", X, y, sample_weight=weight)


@pytest.mark.parametrize("name", ["BudgetClassifier", "SetClassifier"])
def test_decision_classifiers_raise_for_dates_and_masked_samples(name):
    dates = np.full(40, "2026-01-01", dtype="M8[D]")
    for y, got in ((dates, r"times \(datetime64"), (dates.astype(object), "datetime.date")):
        says = f"y must hold class labels; got {got}.*to strings"
        assert_refused(name, T, says, "score", X, y)
    for method, *y in (("fit", OF_TWO), ("predict",)):
        assert_refused(name, V, r"X must have no masked entries; got \d+ of", method, MASKED, *y)
    assert_refused(name, V, "y_score must have no masked", "from_scores", MASKED[:, 0], OF_TWO)
    assert_refused(name, V, "X must hold the samples; got None", "fit", None, OF_TWO)


def test_top_boost_raises_if_every_value_of_X_is_zero_for_lightgbm(capfd):
    for few in (X * 1e-300, sparse.csr_array((40, 3))):
        with pytest.raises(ValueError, match="X must have numbers other than 0"):
            EACH["TopBoostClassifier"]().fit(few, OF_TWO)
    assert capfd.readouterr() == ("", "")


def test_a_class_weight_that_is_too_large_raises():
    for clf in (TopKClassifier(k=2, **QUICK), EACH["TopBoostClassifier"]()):
        with pytest.raises(ValueError, match=r"class_weight must .*at most 1e\+100; got"):
            clf.set_params(class_weight={0: 1e306, 1: 1.0}).fit(X, OF_TWO)


def test_a_frame_of_dask_raises_an_error_with_the_solution():
    frame = pytest.importorskip("dask.dataframe").from_pandas(FRAME, 2)
    for make in ANY.values():
        with pytest.raises(TypeError, match=r"X must be in memory; .*dask\. Pass X\.compute\(\)"):
            make().fit(frame, OF_TWO)
    with pytest.raises(TypeError, match="X must be in memory"):
        compare_losses(TopKClassifier(k=1), ["focal"], frame, OF_TWO)
    with pytest.raises(ValueError, match="groups must have no masked entries"):
        compare_losses(TopKClassifier(k=1), [], X, OF_TWO, groups=np.ma.masked_equal(OF_FOUR, 1))


@pytest.mark.parametrize("name", EACH)
def test_labels_of_object_and_nullable_dtype_keep_their_type(name):
    for kind in (bool, int, float):
        expected = (OF_TWO == 1).astype(kind)
        given = pd.Series([*expected.tolist(), None], dtype=object).dropna()
        of_category = EACH[name]().fit(X, pd.Series(expected).astype("category"))
        assert of_category.classes_.dtype == expected.dtype
        clf = EACH[name]().fit(X, given)
        assert clf.classes_.dtype == clf.predict(X).dtype == expected.dtype
        assert clf.score(X, given) == clf.score(X, expected)
    for dtype in ("Int64", "boolean", "UInt8"):
        given = pd.Series(OF_TWO, index=np.arange(40) + 7).astype(dtype)
        clf = EACH[name]().fit(X, given)
        assert clf.classes_.dtype == clf.predict(X).dtype == given.dtype.numpy_dtype
    with warnings.catch_warnings(action="ignore"):
        for same in (given.tolist(), given.to_frame(), OF_TWO == 1):
            assert clf.score(X, same) == clf.score(X, OF_TWO)
    for words in (np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object)):
        clf = EACH[name]().fit(X, pd.Series(pd.Categorical(words[OF_TWO])))
        assert clf.fit(X, words[OF_TWO]).predict(X).dtype == words.dtype
        assert clf.classes_.tolist() == ["no", "yes"]


def test_very_large_and_very_small_numbers_give_finite_scores():
    clf = TopKClassifier(k=2, n_estimators=1, max_epochs=2)
    for unit in (1e-310, 1e-300, 1e300):
        assert np.isfinite(clf.fit(X * [1, unit, 1], OF_FOUR).decision_function(X)).all()


@pytest.mark.parametrize(
    ("shape", "is_said"), [((8, 32, 24, 3), True), ((8, 3, 32, 32), False), ((8, 64, 1, 1), False)]
)
def test_images_with_channels_last_give_a_warning(shape, is_said):
    def module(n_channels, n_outputs):
        layers = torch.nn.Conv2d(n_channels, n_outputs, 1), torch.nn.AdaptiveAvgPool2d(1)
        return torch.nn.Sequential(*layers, torch.nn.Flatten())

    images = np.random.default_rng(0).normal(size=shape)
    with warnings.catch_warnings(record=True, action="always") as record:
        clf = TopKClassifier(k=2, module=module, n_estimators=1, max_epochs=1, calibration=None)
        clf.fit(images, np.arange(8) % 4).predict(images)
    said = [str(each.message) for each in record if "channels last" in str(each.message)]
    assert len(said) == is_said
    assert all(f"with {shape[1]} channels: pass X.transpose(0, 3, 1, 2)" in each for each in said)
    says = r"X must have samples of shape .*, as in fit; got|dim 4"
    for other in (images[:, :1], images.reshape(len(images), -1), images.tolist()):
        with pytest.raises(ValueError, match=says):
            clf.predict(other)
