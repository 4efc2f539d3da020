"""Missing values and columns of categories, as the network of tables takes them."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from torch.utils.data import TensorDataset

from sktopk import BudgetClassifier, DeepTopPushClassifier, TopKClassifier, make_pipeline
from sktopk._common._categories import MOST, Categories
from sktopk.io import dump, load, to_onnx
from sktopk.modules import MLP, TabularMLP

pytestmark = pytest.mark.filterwarnings("ignore:max_epochs:sklearn.exceptions.ConvergenceWarning")
QUICK = {"hidden_layer_sizes": (8,), "n_members": 2, "max_epochs": 2, "random_state": 0}
RNG = np.random.default_rng(0)
N = 240
Y = np.arange(N) % 3


def frame():
    """Numbers, texts with missing ones, categories, texts that are numbers, booleans."""
    x = RNG.normal(size=N)
    x[::7] = np.nan
    town = np.array(["ulm", "rom", "wien"], dtype=object)[Y]
    town[RNG.random(N) < 0.4] = "bonn"
    town[::11] = None
    return pd.DataFrame(
        {
            "x": x,
            "town": town,
            "grade": pd.Categorical(RNG.integers(1, 5, N)),
            "code": [f"{value:.3f}" for value in RNG.normal(size=N)],
            "flag": RNG.random(N) > 0.5,
            "z": RNG.normal(size=N),
        }
    )


X = frame()
CODES = "town", "grade"


@pytest.fixture(scope="module")
def clf():
    return TopKClassifier(k=1, **QUICK).fit(X, Y)


def weightless(values):
    return np.ones(len(values))


# Which numbers the categories have


# Of exactly as many as there may be it calls the rarest one infrequent.
@pytest.mark.parametrize("n_categories", [3, MOST - 1, MOST + 1, 200])
def test_codes_are_the_columns_of_scikit_learns_encoder(n_categories):
    # Frequencies without ties, the rarest of which is 1.
    values = np.repeat([f"c{i}" for i in range(n_categories)], np.arange(1, n_categories + 1))
    table = pd.DataFrame({"a": RNG.permutation(values)})
    asked = pd.DataFrame({"a": [*values[:400], "unseen"]})
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MOST, sparse_output=False
    )
    expected = encoder.fit(table).transform(asked)
    categories = Categories.of(table, weightless(table))
    codes = categories.encode(asked)["a"].to_numpy()
    found = (codes[:, None] == np.arange(categories.sizes[0])).astype(float)
    assert found.shape == expected.shape
    # Their columns are in the order of the names.
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, expected.T))


def test_categories_are_ordered_by_what_their_rows_weigh():
    table = pd.DataFrame({"a": ["x", "y", "y", "z", None, "w"]})
    weight = np.array([3.0, 1, 1, 5, 0, 0])
    assert Categories.of(table, weight).values == {0: ["z", "x", "y"]}
    assert Categories.of(table, np.ones(6)).values == {0: [None, "y", "w", "x", "z"]}
    assert Categories.of(table.iloc[::-1], np.ones(6)).values == {0: [None, "y", "w", "x", "z"]}


def test_missing_and_unseen_values_are_none_where_fit_had_none():
    categories = Categories.of(pd.DataFrame({"a": ["x", "y", "x"]}), np.ones(3))
    asked = pd.DataFrame({"a": ["y", "x", "unseen", None, np.nan, [1]]})
    assert categories.encode(asked)["a"].tolist() == [1, 0, -1, -1, -1, -1]


def test_a_missing_value_is_never_one_of_the_rare_categories():
    table = pd.DataFrame({"a": [f"c{i}" for i in range(60)]})
    categories = Categories.of(table, np.ones(60))
    assert categories.pooled == (0,)
    asked = pd.DataFrame({"a": [table["a"][59], "unseen", None]})
    codes = categories.encode(asked)["a"].tolist()
    assert codes[1:] == [MOST - 1, -1]


@pytest.mark.parametrize("n", [2, 60])
def test_values_of_another_kind_are_refused_whatever_rows_are_beside_them(n):
    numbers = Categories.of(pd.DataFrame({"a": pd.Categorical([*range(n), None])}), np.ones(n + 1))
    texts = Categories.of(pd.DataFrame({"a": [f"t{i}" for i in range(n)]}), np.ones(n))
    for allowed in ([2.0, None], [7], [None, None], [True]):
        numbers.encode(pd.DataFrame({"a": pd.Series(allowed, dtype=object)}))
    for beside in ([], [1], [None]):
        with pytest.raises(TypeError, match=r"'a' held .* such as 0.0 \(float\); got '1' \(str\)"):
            numbers.encode(pd.DataFrame({"a": pd.Series([*beside, "1"], dtype=object)}))
    for beside in ([], ["t1"], [None]):
        with pytest.raises(TypeError, match=r"'a' held .* such as 't0' \(str\); got 1 \(int\)"):
            texts.encode(pd.DataFrame({"a": pd.Series([*beside, 1], dtype=object)}))


def test_texts_and_numbers_are_no_categories_of_one_column():
    table = pd.DataFrame({"a": pd.Categorical(["x", "y", 3, None])})
    with pytest.raises(TypeError, match=r"column 'a' .* such as 'x', and others .* such as 3:"):
        Categories.of(table, np.ones(4))
    # A row of no weight is not there.
    assert Categories.of(table, np.array([1, 1, 0, 1])).values == {0: [None, "x", "y"]}


def test_numbers_that_a_blank_makes_categories_are_said():
    numbers = [f"{i / 4}" for i in range(60)]
    said = "column 'a' of X holds 61 different texts, .* but not ' ', .*to_numeric"
    with pytest.warns(UserWarning, match=said):
        Categories.of(pd.DataFrame({"a": [*numbers, " "]}), np.ones(61))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Few; many that are texts; those of a dtype that says what they are.
        Categories.of(pd.DataFrame({"a": [*numbers[:30], " "]}), np.ones(31))
        Categories.of(pd.DataFrame({"a": [f"{i}-{i}" for i in range(60)] * 2}), np.ones(120))
        Categories.of(pd.DataFrame({"a": pd.Categorical([*numbers, " "])}), np.ones(61))


def test_texts_that_name_the_rows_are_said():
    days = pd.date_range("2024-01-01", periods=90).astype(str)
    with pytest.warns(UserWarning, match="'a' of X holds 90 different texts in 90 rows.*'2024-"):
        Categories.of(pd.DataFrame({"a": days}), np.ones(90))


COLUMNS = {
    "texts": (["a", "b", None], ["a", "b"]),
    "pandas strings": (pd.array(["a", "b", pd.NA], dtype="string"), ["a", "b"]),
    "categories": (pd.Categorical(["a", "b", None]), ["a", "b"]),
    "categories of numbers": (pd.Categorical([2.0, 7.0, None]), [2.0, 7.0]),
    "intervals": (pd.cut([0.0, 2.0, np.nan], [-1, 1, 3]), ["(-1.0, 1.0]", "(1.0, 3.0]"]),
    "nothing at all": (np.array([None, None, None]), []),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_that_hold_categories(case):
    column, expected = COLUMNS[case]
    found = Categories.of(pd.DataFrame({"x": [1.0, 2, 3], "a": column}), np.ones(3))
    assert found.values == {1: [None, *expected]}


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["a", "b"])])
def test_columns_of_polars_that_hold_categories(kind):
    table = pl.DataFrame({"x": [1, 2, 3], "a": pl.Series(["a", "b", None], dtype=kind)})
    categories = Categories.of(table, np.ones(3))
    assert categories.values == {1: [None, "a", "b"]}
    assert categories.encode(table).to_numpy().tolist() == [[1, 1], [2, 2], [3, 0]]


@pytest.mark.parametrize(
    "column",
    [["1.5", "2", None], [True, False, None], np.array([1, 2, None]), ["1", 2, 3], [1, 2, "?"]],
    ids=str,
)
def test_columns_that_hold_none(column):
    assert Categories.of(pd.DataFrame({"a": pd.Series(column, dtype=object)}), np.ones(3)) is None


def test_float32_stays():
    table = pd.DataFrame({"a": ["x", "y"], "b": np.array([1, 2], np.float32)})
    categories = Categories.of(table, np.ones(2))
    assert {*map(str, categories.encode(table).dtypes)} == {"float32"}
    assert str(categories.encode(table.astype({"b": float}))["a"].dtype) == "float64"


# What the network makes of them


def encoded(clf, table):
    """The numbers that the network sees, by the definition."""
    out = table.assign(code=table["code"].astype(float), flag=table["flag"].astype(float))
    for name in CODES:
        values = clf.categories_.values[list(table.columns).index(name)]
        out[name] = [
            values.index(None if pd.isna(v) else v) if (None if pd.isna(v) else v) in values else -1
            for v in table[name].tolist()
        ]
    return out.to_numpy(dtype=float)


def test_a_fit_is_that_of_the_numbers_of_its_categories(clf):
    params = {"module__n_categories": {1: 5, 2: 4}, "module__missing_indicator": [0]}
    rows = encoded(clf, X)
    plain = TopKClassifier(k=1, net_params=params, **QUICK).fit(rows, Y)
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(rows))
    assert clf.oob_score_ == plain.oob_score_
    assert (clf.n_features_in_, clf.input_shape_) == (6, (6,))
    assert clf.feature_names_in_.tolist() == X.columns.tolist()


def test_an_unseen_category_is_none(clf):
    strange = X.assign(town="atlantis")
    rows = torch.from_numpy(encoded(clf, strange))
    assert (rows[:, 1] == -1).all()
    with torch.no_grad():
        expected = clf.net_.answer(clf.net_.module_(rows).mean(1)).numpy()
    np.testing.assert_allclose(clf.decision_function(strange), expected)


def test_an_unseen_category_of_many_is_one_of_the_rare_ones():
    many = X.assign(town=[f"town {i // 2}" for i in range(N)])
    clf = TopKClassifier(k=1, **QUICK).fit(many, Y)
    assert clf.categories_.pooled == (1,)
    rare = many["town"][~many["town"].isin(clf.categories_.values[1])].iloc[0]
    np.testing.assert_array_equal(
        clf.decision_function(many.assign(town="atlantis")),
        clf.decision_function(many.assign(town=rare)),
    )


@pytest.mark.parametrize("to", [np.asarray, sparse.csr_array], ids=["array", "sparse"])
def test_a_missing_value_is_told_from_the_median_where_fit_has_seen_some(to):
    rows = RNG.normal(size=(N, 3))
    rows[::5, 1] = np.nan
    clf = TopKClassifier(k=1, **QUICK).fit(to(rows), Y)
    assert clf.net_.network.missing_column.tolist() == [1]
    center = clf.net_.network.center.numpy()
    assert center == pytest.approx(np.nanmedian(rows, axis=0))
    for column, is_told in [(0, False), (1, True), (2, False)]:
        median, missing = rows[1:5].copy(), rows[1:5].copy()
        median[:, column], missing[:, column] = center[column], np.nan
        same = clf.decision_function(to(median)) == clf.decision_function(to(missing))
        assert not same.any() if is_told else same.all()


def test_a_row_of_no_weight_has_no_category_and_no_missing_value():
    table, weight = X.copy(), np.ones(N)
    table.loc[3, "town"], weight[3] = "atlantis", 0
    weight[X["x"].isna()] = 0
    clf = TopKClassifier(k=1, **QUICK).fit(table, Y, sample_weight=weight)
    assert "atlantis" not in clf.categories_.values[1]
    assert clf.net_.network.missing_column.tolist() == []
    left = weight > 0
    again = TopKClassifier(k=1, **QUICK).fit(table[left], Y[left])
    np.testing.assert_array_equal(clf.decision_function(X), again.decision_function(X))


def test_a_new_fit_forgets_the_columns_of_the_last():
    clf = TopKClassifier(k=1, **QUICK).fit(X, Y)
    clf.fit(X[["z"]].to_numpy(), Y)
    assert not hasattr(clf, "categories_")
    assert clf.net_.network.missing_column.tolist() == []
    assert clf.predict(X[["z"]].to_numpy()).shape == (N,)


# Everything that takes rows


def test_frames_of_polars_and_pandas_are_alike(clf):
    table = pl.from_pandas(X.assign(grade=X["grade"].astype(int)))
    plain = X.assign(grade=X["grade"].astype(int))
    found = TopKClassifier(k=1, **QUICK).fit(table, Y)
    expected = TopKClassifier(k=1, **QUICK).fit(plain, Y)
    assert found.categories_ == expected.categories_
    np.testing.assert_array_equal(found.decision_function(table), expected.decision_function(plain))


def test_what_is_left_of_a_fit(clf, tmp_path):
    expected = clf.decision_function(X)
    copies = pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)
    loaded = load(dump(clf, tmp_path / "model"))
    for each in (*copies, loaded):
        np.testing.assert_array_equal(each.decision_function(X), expected)
        assert each.categories_ == clf.categories_
        each.partial_fit(X.assign(town="atlantis"), Y)
        assert each.categories_ == clf.categories_
    assert not hasattr(clone(clf), "categories_")


def test_validation_rows_and_scorers_have_the_columns():
    seen = []

    def scoring(estimator, table, y):
        seen.append((list(table.columns), table["town"].isna().any()))
        return estimator.score(table, y)

    clf = TopKClassifier(k=1, scoring=scoring, **QUICK)
    strange = X.assign(town="atlantis")
    clf.fit(X, Y, X_val=strange, y_val=Y)
    assert {tuple(names) for names, _ in seen} == {tuple(X.columns)}
    assert clf.history_[0]["valid_score"] >= 0
    clf.fit(X, Y)
    assert any(missing for _, missing in seen)


def test_the_loss_is_chosen_on_frames_as_well():
    clf = TopKClassifier("auto", k=2, **QUICK).fit(X, Y)
    assert clf.predict_topk(X).shape == (N, 2)


def test_tools_of_scikit_learn():
    y = (Y == 1).astype(int)
    search = GridSearchCV(
        make_pipeline("passthrough", DeepTopPushClassifier(**QUICK)),
        {"deeptoppushclassifier__learning_rate": [1e-2]},
        cv=2,
    ).fit(X, y)
    assert len(search.best_estimator_.predict_top(X, 5)) == 5
    importance = permutation_importance(search, X, y, n_repeats=1, random_state=0)
    assert np.isfinite(importance.importances_mean).all()
    budget = BudgetClassifier(DeepTopPushClassifier(**QUICK), budget=20, per="batch").fit(X, y)
    assert budget.predict(X).sum() == 20


class Stop(Exception):
    pass


CALLS = []


def stopping(estimator, table, y):
    """Stops at its fifth call."""
    CALLS.append(1)
    if len(CALLS) == 5:
        raise Stop
    return 0.0


def test_a_checkpoint_is_of_the_categories_as_well(tmp_path):
    clf = TopKClassifier(k=1, checkpoint=tmp_path / "fit", scoring=stopping, **QUICK)
    with pytest.raises(Stop):
        clf.fit(X, Y)
    renamed = X.assign(town=X["town"].replace("ulm", "bern"))
    with pytest.raises(ValueError, match=r"belongs to another call of fit .categories was"):
        clf.fit(renamed, Y)
    clf.fit(X, Y)
    again = TopKClassifier(k=1, scoring=stopping, **QUICK).fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), again.decision_function(X))


def test_a_graph_takes_missing_values_and_no_categories(clf, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    with pytest.raises(ValueError, match=r"categories, in columns \[1, 2\]"):
        to_onnx(clf, tmp_path / "graph.onnx", X)
    rows = X[["x", "z"]].to_numpy(copy=True)
    plain = TopKClassifier(k=1, **QUICK).fit(rows, Y)
    session = onnxruntime.InferenceSession(to_onnx(plain, tmp_path / "graph.onnx", rows))
    rows[::3, 1] = np.nan
    scores = session.run(None, {"X": rows})[0]
    np.testing.assert_allclose(scores, plain.decision_function(rows), atol=1e-9)


# Who refuses them


def test_the_first_piece_decides_where_partial_fit_begins():
    clf = TopKClassifier(k=1, module=TabularMLP, **QUICK | {"n_members": 1})
    clf.partial_fit(X[:120], Y[:120], classes=[0, 1, 2])
    first = clf.categories_
    clf.partial_fit(X[120:].assign(town="atlantis"), Y[120:])
    assert clf.categories_ is first
    assert np.isfinite(clf.decision_function(X)).all()


OTHERS = {
    "MLP": {"module": MLP},
    "linear": {"hidden_layer_sizes": ()},
    "normalized": {"net_params": {"module__normalize": True}},
    "of a function": {"module": lambda n_in, n_out: TabularMLP(n_in, n_out)},
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_networks_say_which_one_takes_them(other):
    clf = TopKClassifier(k=1, **{"max_epochs": 1} | OTHERS[other])
    assert not get_tags(clf).input_tags.allow_nan
    rows = X[["x", "z"]]
    for table in (rows, rows.to_numpy(), X[["town"]], pl.DataFrame({"x": X["x"].to_numpy()})):
        with pytest.raises(ValueError, match="the default network takes"):
            clf.fit(table, Y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        clf.fit(sparse.csr_array(rows.to_numpy()), Y)


def test_partial_fit_begins_with_another_network():
    assert get_tags(TopKClassifier()).input_tags.allow_nan
    with pytest.raises(ValueError, match=r"the default network takes missing values.*, in fit"):
        TopKClassifier(k=1).partial_fit(X[["x"]].to_numpy(), Y)


REFUSED = {
    "an array": (X.to_numpy(), TypeError, r"X must be a frame, as in fit, where columns 1, 2"),
    "another order": (X[X.columns[::-1]], ValueError, "feature names should match"),
    "fewer columns": (X[["x", "town"]], ValueError, "feature names should match"),
    "infinity": (X.assign(z=np.inf), ValueError, "infinity: column 'z', in 240 of 240"),
    "texts for numbers": (X.assign(z="low"), ValueError, "column 'z' has 'low' in row 0"),
    "lists": (X.assign(z=[[1]] * N), (TypeError, ValueError), "column 'z' has|setting an array"),
    "times": (X.assign(town=pd.Timestamp("2020-01-01")), TypeError, "'town' holds times"),
    "times beside all others": (
        X.assign(day=pd.Timestamp("2020-01-01")),
        ValueError,
        "feature names should match",
    ),
    "a row": (X.iloc[0], ValueError, "Expected .*2"),
    "numbers for texts": (
        X.assign(town=3.5),
        TypeError,
        r"column 'town' held categories such as '\w+' \(str\); got 3.5 \(float\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_of_a_frame_with_categories(case, clf):
    table, error, says = REFUSED[case]
    with pytest.raises(error, match=says):
        clf.predict(table)


@pytest.mark.parametrize("column", [[*range(N - 1), "?"], [[1, 2]] * N, [{}] * N])
def test_mixed_columns_are_refused_by_name(column):
    with pytest.raises((TypeError, ValueError), match="column 'town' has"):
        TopKClassifier(k=1, **QUICK).fit(X.assign(town=pd.Series(column, dtype=object)), Y)


def test_rows_of_a_dataset_have_none():
    rows = TensorDataset(torch.from_numpy(X[["x", "z"]].to_numpy()), torch.from_numpy(Y))
    with pytest.raises(ValueError, match="Input X contains NaN: row"):
        TopKClassifier(k=1, **QUICK).fit(rows)
