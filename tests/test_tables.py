"""The default network accepts missing values and categories; other networks raise."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

from sktopk import TopKClassifier
from sktopk.modules import MLP, TabularMLP

QUICK = {"hidden_layer_sizes": (8,), "n_estimators": 2, "max_epochs": 2, "random_state": 0}
RNG = np.random.default_rng(0)
N = 240
Y = np.arange(N) % 3
DAYS = pd.date_range("2020-01-01", periods=N)


def frame():
    """A frame of numbers, strings with missing values, categories, numeric strings, booleans."""
    x, town = RNG.normal(size=N), np.array(["ulm", "rom", "wien"], dtype=object)[Y]
    x[::7] = np.nan
    town[RNG.random(N) < 0.4] = "bonn"
    town[::11] = None
    columns = {
        "x": x,
        "town": town,
        "grade": pd.Categorical(RNG.integers(1, 5, N)),
        "code": [f"{value:.0f}" for value in RNG.normal(size=N)],
        "flag": RNG.random(N) > 0.5,
        "z": RNG.normal(size=N),
    }
    return pd.DataFrame(columns)


X = frame()


def trained(table, y=Y, sample_weight=None, **params):
    return TopKClassifier(k=1, **QUICK | params).fit(table, y, sample_weight)


def of_column(values, **params):
    values, params = [*values] * 2, {"hidden_layer_sizes": (), **params}
    return trained(pd.DataFrame({"a": values}), np.arange(len(values)) % 2, **params)


def scores_of(clf, values):
    return clf.decision_function(pd.DataFrame({"a": pd.Series(values, dtype=object)}))


@pytest.fixture(scope="module")
def clf():
    return trained(X)


@pytest.mark.parametrize("n", [50, 51])
def test_each_of_many_categories_has_its_own_scores(n):
    rates = np.linspace(0, 1, n)
    values, y = np.repeat([f"c{i}" for i in range(n)], 20), np.tile(np.linspace(0.01, 0.99, 20), n)
    y = (y < np.repeat(rates, 20)).astype(int)
    clf = trained(pd.DataFrame({"a": values}), y, hidden_layer_sizes=())
    scores = scores_of(clf, [f"c{i}" for i in range(n)])
    assert len(np.unique(scores)) >= 18
    if n > 50:
        # Each category is encoded as one number: scores increase with the share of positives.
        assert (np.diff(scores) >= 0).all()


@pytest.mark.parametrize(("known", "like"), [("yxx", "xy"), ("x", "x"), (["x", "x", None], [None])])
def test_unseen_values_count_as_missing_or_if_none_was_as_the_average(known, like):
    clf = of_column([*known] * 5)  # linear, so that the average category has the average score
    expected = [scores_of(clf, like).mean()] * 3
    np.testing.assert_allclose(scores_of(clf, ["unseen", None, np.nan]), expected, rtol=1e-5)


COLUMNS = {
    "strings": ["a", "b", None] * 5,
    "pandas strings": pd.array(["a", "b", pd.NA] * 5, dtype="string"),
    "categories": pd.Categorical(["a", "b", None] * 5),
    "categories of numbers": pd.Categorical([2.0, 7.0, None] * 5),
    "intervals": pd.cut([0.0, 2.0, np.nan] * 5, [-1, 1, 3]),
    "polars strings": pl.Series("a", ["a", "b", None] * 5),
    "polars categories": pl.Series("a", ["a", "b", None] * 5, dtype=pl.Categorical),
    "polars enum": pl.Series("a", ["a", "b", None] * 5, dtype=pl.Enum(["a", "b"])),
}


def test_categories_of_any_dtype_give_the_same_scores():
    plain, y = pd.DataFrame({"a": COLUMNS["strings"]}), np.arange(15) % 2
    expected = trained(plain, y).decision_function(plain)
    for case, column in COLUMNS.items():
        make = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
        table = make({"a": column})
        found = trained(table, y)
        assert found.categories_.sizes == {0: 3}, case
        np.testing.assert_array_equal(found.decision_function(table), expected, err_msg=case)


def test_columns_of_numbers_of_any_dtype_are_no_categories():
    for kind, column in [
        ("object", [True, False, None]), ("object", [1, 2, None]), ("object", ["1", 2, 3]),
        ("boolean", [True, False, None]), ("Int64", [1, 2, None]), ("bool", [True, False, True]),
        ("polars", [1, 2, None]),
    ]:  # fmt: skip
        plain, y = pd.DataFrame({"a": pd.Series(column * 5, dtype=object)}), np.arange(15) % 2
        table = pl.DataFrame({"a": column * 5}) if kind == "polars" else plain.astype(kind)
        plain = plain.astype(float)
        clf, expected = trained(table, y), trained(plain, y).decision_function(plain)
        assert not hasattr(clf, "categories_")
        np.testing.assert_array_equal(clf.decision_function(table), expected)


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array], ids=["array", "sparse"])
def test_missing_values_have_an_indicator_if_fit_has_seen_some(to):
    rows = RNG.normal(size=(N, 3))
    rows[::5, 1] = np.nan
    clf = trained(to(rows))
    center = clf.net_.module_.encoder.center.numpy()
    for column, is_told in [(0, False), (1, True), (2, False)]:
        median, missing = rows[1:5].copy(), rows[1:5].copy()
        median[:, column], missing[:, column] = center[column], np.nan
        same = clf.decision_function(to(median)) == clf.decision_function(to(missing))
        assert not same.any() if is_told else same.all()


def test_categories_and_missing_values_of_samples_of_weight_zero_are_ignored():
    table, weight = X.copy(), np.ones(N)
    table.loc[3, "town"], weight[3] = "atlantis", 0
    weight[X["x"].isna()] = 0
    found, left = trained(table, sample_weight=weight), weight > 0
    expected = trained(table[left], Y[left])
    np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))


def test_copies_and_later_calls_of_partial_fit_keep_the_categories(clf):
    scores = clf.decision_function(X)
    for each in (pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)):
        np.testing.assert_array_equal(each.decision_function(X), scores)
        each.partial_fit(X.assign(town="atlantis"), Y)
        assert each.categories_ == clf.categories_
    assert not hasattr(clone(clf), "categories_")
    assert not hasattr(copy.deepcopy(clf).fit(X[["z"]].to_numpy(), Y), "categories_")


OTHERS = {
    "MLP": {"module": MLP},
    "of a function": {"module": lambda n_in, n_out: TabularMLP(n_in, n_out), "n_estimators": 1},
}


@pytest.mark.parametrize("case", OTHERS)
def test_networks_other_than_the_default_raise_for_categories_and_missing_values(case):
    clf = TopKClassifier(k=1, **{"max_epochs": 1} | OTHERS[case])
    assert not get_tags(clf).input_tags.allow_nan
    assert get_tags(TopKClassifier()).input_tags.allow_nan
    rows = X[["x", "z"]]
    for table in (rows, rows.to_numpy(), X[["town"]], pl.DataFrame({"x": X["x"].to_numpy()})):
        with pytest.raises(ValueError, match="the default network accepts"):
            clf.fit(table, Y)


REFUSED = {
    "an array": (X.to_numpy(), TypeError, r"X must be a data frame as in fit, because columns"),
    "another order": (X[X.columns[::-1]], ValueError, "feature names should match"),
    "fewer columns": (X[["x", "town"]], ValueError, "feature names should match"),
    "infinity": (X.assign(z=np.inf), ValueError, "infinity: 240 of 240 rows of column 'z'"),
    "strings for numbers": (X.assign(z="low"), ValueError, "'low' in column 'z', row 0"),
    "times": (X.assign(town=DAYS), TypeError, "times .* in column 'town'"),
    "a sample": (X.iloc[0], ValueError, r"two dimensions; got a Series.* pass X.iloc\[\[i\]\]"),
    "numbers for strings": (X.assign(town=pd.Series(["ulm", 3.5] * 120, dtype=object)), TypeError,
        r"column 'town' had categories such as '\w+' \(str\); got 3.5 \(float\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_predict_raises_for_a_table_whose_columns_or_types_differ_from_fit(case, clf):
    table, error, says = REFUSED[case]
    with pytest.raises(error, match=says):
        clf.predict(table)


NUMBERS = X[["x", "z"]].fillna(0.0)
WRONG = {
    "words": (["x"] * N, ValueError, "'x' in column 'town', row 0.*OneHotEncoder"),
    "NA alone": (
        pd.array([pd.NA] * N, dtype="string"), ValueError, "NaN: 240 of 240 rows of column 'town'"),
    "integers with NA": (pd.array([1, pd.NA, 2] * 80, dtype="Int64"), ValueError,
        "NaN: 80 of 240 rows of column 'town', first row 1"),
    "infinity": ([np.inf, *range(N - 1)], ValueError, "infinity: 1 of 240 rows of column 'town'"),
    "lists": ([[1, 2]] * N, TypeError, r"got \[1, 2\] in column 'town', row 0"),
    "times of a place": (DAYS.tz_localize("UTC"), TypeError, "times .* in column 'town'"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_column_without_numbers_raises_an_error_that_names_the_column(case):
    column, error, says = WRONG[case]
    clf, table = TopKClassifier(k=1, **QUICK | {"module": MLP}), NUMBERS.assign(town=column)
    for call in (clf.fit, clf.partial_fit):
        with pytest.raises(error, match=says):
            call(table, Y)
    with pytest.raises(error, match=f"X_val is not valid.*{says}"):
        clf.fit(NUMBERS.assign(town=0.0), Y, X_val=table, y_val=Y)


KINDS = pd.Categorical(["x", "y", 3, None] * 60)
MIXED = {
    "a word": (X.assign(town=[*range(N - 1), "?"]), "in column 'town', row"),
    "lists": (X.assign(town=[[1, 2]] * N), "in column 'town', row"),
    "two kinds": (X.assign(town=KINDS), r"got 'x' and 3 in column 'town':"),
    "two columns": (X.set_axis(["x", *"xbcde"], axis=1), "got 'x' more than once"),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_column_of_mixed_types_or_a_name_of_two_columns_raises_and_is_named(case):
    table, says = MIXED[case]
    with pytest.raises((TypeError, ValueError), match=says):
        trained(table)


CODES = {
    "leading zeros and exponents": ["100", "0100", "1E2"],
    "infinity and NaN": ["inf", "nan", "infinity"],
    "postal codes": ["10115", "10117", "10119"],
    "decimals": ["1.5", "1.50", "2"],
}


@pytest.mark.parametrize("kind", ["object", "string", "category", "polars"])
@pytest.mark.parametrize("case", CODES)
def test_strings_that_look_like_numbers_are_categories(case, kind):
    code = np.array(CODES[case])[np.random.default_rng(0).integers(0, 3, 120)]
    if kind == "polars":
        table = pl.DataFrame({"code": code})
    else:
        table = pd.DataFrame({"code": pd.Series(code).astype(kind)})
    with warnings.catch_warnings(action="error"):
        clf = TopKClassifier(k=1, **QUICK | {"n_estimators": 1, "max_epochs": 20}).fit(table, code)
    assert clf.score(table, code) == 1


def test_the_warning_of_many_categories_states_the_share_of_samples_in_rare_ones():
    codes = pd.Categorical([*range(150), *[0] * 50])
    with pytest.warns(UserWarning, match="'a' of X has 150 different cat.* 74% of the samples"):
        trained(pd.DataFrame({"a": codes}), np.arange(200) % 2)


def test_strings_that_are_numbers_or_dates_give_a_warning():
    numbers = [f"{i / 4}" for i in range(60)]
    for values in (numbers, [f"{i}" for i in range(60)]):
        with pytest.warns(UserWarning, match="'a' of X has 60 different strings.*to_numeric"):
            of_column(values)
    with pytest.warns(UserWarning, match="61 different strings, .* but not ' ', .*to_numeric"):
        of_column([*numbers, " "])
    with pytest.warns(UserWarning, match="21 different strings, .* but not 'n/a'"):
        of_column([*(str(i) for i in range(20)), "n/a"])
    days = DAYS[:90].astype(str)
    with pytest.warns(UserWarning, match="'a' of X has dates as strings, such as '2020-"):
        trained(pd.DataFrame({"a": days}), np.arange(90) % 2)
    with pytest.warns(UserWarning, match="column 'a' of X has numbers with a decimal comma"):
        of_column([f"0,{i % 7}" for i in range(60)])
    with warnings.catch_warnings(action="error"):
        of_column([*numbers[:10], " "])
        of_column([f"1{i:04}" for i in range(60)])  # postal codes
        of_column([f"{i:05}" for i in range(60)] + ["unknown"])


@pytest.mark.filterwarnings("error")
def test_a_column_with_only_unknown_categories_gives_a_warning():
    table = pd.DataFrame({"site": ["wood", "Meadow", "ALPS"] * 20, "size": np.arange(60.0)})
    clf = trained(table, np.arange(60) % 3)
    clf.predict(table.assign(site=None))
    clf.predict(table[:1].assign(site="WOOD"))  # one new category gives no warning
    with pytest.warns(UserWarning, match="column 'site' .* no category that fit has seen.*'WOOD'"):
        clf.predict(table.assign(site="WOOD"))


def test_a_column_without_values_is_ignored_with_a_warning():
    table = np.column_stack([np.full(N, np.nan), RNG.normal(size=(N, 2))])
    with pytest.warns(UserWarning, match=r"columns \[0\] of X have no values, and are ignored"):
        clf = TopKClassifier(k=1, **QUICK).fit(table, Y)
    before = clf.decision_function(table)
    np.testing.assert_array_equal(clf.decision_function(np.c_[Y, table[:, 1:]]), before)
