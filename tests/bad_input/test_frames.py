"""What of a frame is no table of numbers is refused by the name of its column."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataConversionWarning

from sktopk import DeepTopPushClassifier, TopBoostClassifier, TopKClassifier
from sktopk.modules import MLP

Y = np.tile([0, 0, 1], 10)
NUMBERS = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["age", "size"])
DAYS = pd.date_range("2020-01-01", periods=30)


def with_column(values, name="town"):
    return NUMBERS.assign(**{name: values})


REFUSED = {
    "words": (with_column(["x"] * 30), ValueError, "column 'town' has 'x' in row 0.*OneHotEncoder"),
    "one word": (
        with_column([*range(7), "?", *range(22)]),
        ValueError,
        r"column 'town' has '\?' in row 7",
    ),
    "categories": (with_column(pd.Categorical(["x", "z"] * 15)), ValueError, "column 'town' has"),
    "strings with NA": (
        with_column(pd.array([pd.NA, "x", "y"] * 10, dtype="string")),
        ValueError,
        "column 'town' has 'x' in row 1",
    ),
    "NA alone": (
        with_column(pd.array([pd.NA] * 30, dtype="string")),
        ValueError,
        "NaN: column 'town', in 30 of 30 rows",
    ),
    "booleans with None": (
        with_column(np.array([True, False, None] * 10, dtype=object)),
        ValueError,
        "NaN: column 'town', in 10 of 30 rows, the first of them row 2",
    ),
    "integers with NA": (
        with_column(pd.array([1, pd.NA, 2] * 10, dtype="Int64")),
        ValueError,
        "NaN: column 'town', in 10 of 30 rows, the first of them row 1",
    ),
    "NaN": (NUMBERS.mask(NUMBERS > 1.9), ValueError, "NaN: column '(age|size)', in"),
    "infinity": (with_column([np.inf, *range(29)]), ValueError, "infinity: column 'town', in 1 of"),
    "lists": (with_column([[1, 2]] * 30), TypeError, r"column 'town' has \[1, 2\] in row 0"),
    "times": (with_column(DAYS), TypeError, "column 'town' holds times .datetime64"),
    "times of a place": (with_column(DAYS.tz_localize("UTC")), TypeError, "'town' holds times"),
    "durations": (with_column(DAYS - DAYS[0]), TypeError, "column 'town' holds times"),
    "dates of Python": (
        with_column([day.date() for day in DAYS]),
        TypeError,
        r"column 'town' has datetime.date\(2020, 1, 1\) in row 0.*: turn it into what counts",
    ),
    "periods": (with_column(DAYS.to_period("D")), TypeError, "column 'town' holds times"),
    "a name twice": (NUMBERS.set_axis(["age"] * 2, axis=1), ValueError, "got 'age' more than once"),
    "a number twice": (NUMBERS.set_axis([3, 3], axis=1), ValueError, "got 3 more than once"),
    "polars words": (pl.DataFrame({"town": ["x"] * 30}), ValueError, "column 'town' has 'x' in"),
    "polars times": (pl.DataFrame({"town": DAYS.to_numpy()}), TypeError, "'town' holds times"),
    "polars null": (pl.DataFrame({"town": [None, 1] * 15}), ValueError, "column 'town', in 15 of"),
}
# What the default network takes of these, tests/test_missing_and_categories.py has.
CLASSIFIERS = (
    TopKClassifier(k=1, module=MLP, max_epochs=1),
    DeepTopPushClassifier(module=MLP, max_epochs=1),
)


@pytest.mark.parametrize("case", REFUSED)
def test_names_the_column(case):
    X, error, says = REFUSED[case]
    for clf in CLASSIFIERS:
        with pytest.raises(error, match=says):
            clf.fit(X, Y)
        with pytest.raises(error, match=says):
            clf.partial_fit(X, Y)


@pytest.mark.parametrize("case", ["words", "times", "booleans with None"])
def test_names_it_in_validation_rows_and_predictions(case):
    X, error, says = REFUSED[case]
    clf = TopKClassifier(k=1, module=MLP, max_epochs=1).fit(with_column(range(30)), Y)
    with pytest.raises(error, match=says):
        clf.predict(X)
    with pytest.raises(error, match=f"X_val is not allowed.*{says}"):
        clf.fit(with_column(range(30)), Y, X_val=X, y_val=Y)


def test_booleans_are_numbers():
    flags = np.array([True, False, False] * 10)
    plain = with_column(flags * 1.0)
    expected = TopKClassifier(k=1, max_epochs=1, random_state=0).fit(plain, Y)
    for column in (flags, flags.astype(object), pd.array(flags, dtype="boolean")):
        found = TopKClassifier(k=1, max_epochs=1, random_state=0).fit(with_column(column), Y)
        np.testing.assert_array_equal(
            found.decision_function(with_column(column)), expected.decision_function(plain)
        )


def test_other_refusals_stay_as_they_are():
    clf = TopKClassifier(k=1, max_epochs=1).fit(NUMBERS, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(NUMBERS[["size", "age"]])
    with pytest.raises(ValueError, match="0 sample"):
        clf.predict(NUMBERS[:0])


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "UInt8"])
def test_nullable_labels_stay_of_their_kind(dtype):
    labels = pd.Series(Y).astype(dtype)
    expected = labels.dtype.numpy_dtype
    for clf in (*CLASSIFIERS, TopBoostClassifier(n_estimators=2, n_members=1)):
        clf.fit(NUMBERS, labels)
        assert clf.classes_.dtype == clf.predict(NUMBERS).dtype == expected
    with pytest.warns(DataConversionWarning):
        clf = CLASSIFIERS[0].fit(NUMBERS, labels.to_frame())
    assert clf.classes_.dtype == expected


def test_labels_of_one_kind_that_is_none_are_not_said_to_be_of_several():
    with pytest.raises(TypeError, match="Support for labels represented as bytes"):
        CLASSIFIERS[0].fit(NUMBERS, np.array([b"a", b"b", b"c"] * 10))
    with pytest.raises(ValueError, match="Unknown label type"):
        CLASSIFIERS[0].fit(NUMBERS, np.array([1, 2.0, 3] * 10, dtype=object))


def test_a_query_that_was_not_run_is_no_table():
    with pytest.raises(TypeError, match=r"X must be a table; got a LazyFrame: pass X.collect\(\)"):
        TopKClassifier().fit(pl.DataFrame({"a": range(30)}).lazy(), Y)
