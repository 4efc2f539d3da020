"""Wrong arguments of losses, scores and scorers are refused by name; inputs stay as they are."""

import inspect
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression

from sktopk import losses, metrics
from tests.bad_input.refusals import OF_TWO, Row, X

V, T = ValueError, TypeError

SCORES, TARGET = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4
RANKED, BINARY = SCORES[:, 0].clone(), torch.arange(6) % 2
MULTI_CLASS = {
    "cross_entropy_loss": {},
    "smooth_topk_loss": {"k": 2},
    "topk_hinge_loss": {"k": 2},
    "topk_hinge_convex_loss": {"k": 2},
    "topk_hinge_calibrated_loss": {"k": 2},
    "topk_grouping_loss": {"k": 2},
    "topk_transition_loss": {"k": 2},
    "noised_topk_loss": {"k": 2, "sigma": 0.1},
    "noised_topk_imbalanced_loss": {"k": 2, "sigma": 0.1, "class_counts": [4, 3, 2, 1]},
    "focal_loss": {},
    "ldam_loss": {"class_counts": [4, 3, 2, 1]},
    "logit_adjusted_loss": {"class_counts": [4, 3, 2, 1]},
    "smooth_topk_adjusted_loss": {"class_counts": [4, 3, 2, 1], "k": 2},
}
OF_ROWS = {
    "top_push_loss": {},
    "top_push_k_loss": {"k": 2},
    "recall_at_k_loss": {"k": 2},
    "pat_mat_loss": {"tau": 0.5},
    "pat_mat_np_loss": {"tau": 0.5},
    "precision_at_recall_loss": {"recall": 0.5},
    "pairwise_auc_loss": {},
    "fbeta_loss": {},
    "precision_at_recall_program_loss": {"recall": 0.5},
    "recall_at_fpr_loss": {"fpr": 0.5},
    "recall_at_precision_loss": {"precision": 0.5},
    "precision_at_k_loss": {"k": 2},
}
LOSSES = {
    name: {"scores": SCORES, "target": TARGET} | params for name, params in MULTI_CLASS.items()
} | {name: {"scores": RANKED, "target": BINARY} | params for name, params in OF_ROWS.items()}

# Asked of every loss that has the parameter.
LOSS_ROWS = {
    "scores: an array": Row({"scores": X}, T, "scores must be a torch.Tensor; got ndarray"),
    "scores: None": Row({"scores": None}, T, "scores must be a torch.Tensor; got NoneType"),
    "scores: whole numbers": Row({"scores": TARGET[:, None]}, (V, T), "scores must"),
    "scores: three axes": Row({"scores": SCORES[None]}, V, r"scores must have shape.*\(1, 6, 4\)"),
    "scores: a number": Row({"scores": SCORES[0, 0]}, V, "scores must have shape"),
    "scores: complex": Row({"scores": SCORES * 1j}, (V, T), "scores must"),
    "target: a list": Row({"target": [0] * 6}, T, "target must be a torch.Tensor; got list"),
    "target: None": Row({"target": None}, T, "target must be a torch.Tensor; got NoneType"),
    "target: a row short": Row({"target": TARGET[:-1]}, V, r"target must have.*\(5,\)"),
    "target: a table": Row({"target": TARGET[:, None]}, V, "target must have"),
    "target: too large": Row({"target": TARGET + 9}, (V, IndexError, RuntimeError), "9|10|out of"),
    "target: negative": Row({"target": TARGET - 9}, (V, IndexError, RuntimeError), "-9|-8|out of"),
    "sample_weight: short": Row({"sample_weight": [1.0]}, V, r"sample_weight must have.*\(1,\)"),
    "sample_weight: a table": Row({"sample_weight": SCORES}, V, "sample_weight must have shape"),
    "sample_weight: words": Row({"sample_weight": ["a"] * 6}, (V, T), "str|sample_weight"),
    "sample_weight: objects": Row({"sample_weight": [None] * 6}, T, "sample_weight must hold num"),
    "reduction: unknown": Row({"reduction": "max"}, V, "reduction='max' must be one of"),
    "reduction: None": Row({"reduction": None}, V, "reduction=None must be one of"),
    "k: 0": Row({"k": 0}, V, "k=0 must be at least 1"),
    "k: a fraction": Row({"k": 0.5}, T, "k must be an integer; got 0.5"),
    "k: a bool": Row({"k": True}, T, "k must be an integer; got True"),
    "k: None": Row({"k": None}, (T, V), "k must be an integer; got None|got k=None"),
    "k: a word": Row({"k": "1"}, T, "k must be an integer; got '1'"),
    "k: an array": Row({"k": np.ones(3)}, (T, V), r"k must be an integer; got array|got k=array"),
    "tau: with a gradient": Row(
        {"tau": torch.tensor(0.5, requires_grad=True)}, T, "tau must be a number.*with a gradient"
    ),
    "tau: an array": Row({"tau": np.ones(3)}, T, "tau must be a number; got array"),
    "tau: beyond all floats": Row({"tau": 10**400}, V, "tau must be finite as a float; got 1000"),
    "tau: negative": Row({"tau": -1.0}, V, "tau=-1 must be"),
    "tau: NaN": Row({"tau": float("nan")}, V, "tau=nan must be"),
    "tau: a word": Row({"tau": "1"}, T, "tau must be a number; got '1'"),
    "tau: None": Row({"tau": None}, (T, V), "tau must be a number; got None|got.*tau=None"),
    "sigma: infinite": Row({"sigma": float("inf")}, V, "sigma=inf must be finite"),
    "margin: beyond float32": Row({"margin": 1e308}, V, r"margin=1e\+308 must be finite.*at most"),
    "margin: negative": Row({"margin": -1}, V, "margin=-1 must be finite and"),
    "margin: a bool": Row({"margin": True}, T, "margin must be a number; got True"),
    "gamma: NaN": Row({"gamma": float("nan")}, V, "gamma=nan must be finite"),
    "scale: 0": Row({"scale": 0}, V, "scale=0 must be finite and positive"),
    "label_smoothing: 2": Row({"label_smoothing": 2}, V, "label_smoothing=2 must be at most 1"),
    "class_counts: short": Row({"class_counts": [1, 2]}, V, r"class_counts must have shape \(4,"),
    "class_counts: words": Row({"class_counts": "4321"}, T, "class_counts must hold numbers"),
    "class_counts: 0": Row({"class_counts": [0, 1, 1, 1]}, V, "class_counts must be positive; go"),
    "class_counts: NaN": Row({"class_counts": [np.nan, 1, 1, 1]}, V, "class_counts must be"),
    "n_noise: 0": Row({"n_noise": 0}, V, "n_noise=0 must be at least 1"),
    "noise: short": Row({"noise": torch.ones(6, 3, 1)}, V, "noise must have shape"),
    "surrogate: unknown": Row({"surrogate": "step"}, V, "surrogate='step' must be one of"),
    "recall: 0": Row({"recall": 0}, V, r"recall=0 must be in \(0, 1\]"),
    "recall: above 1": Row({"recall": 1.5}, V, r"recall=1.5 must be in \(0, 1\]"),
    "fpr: NaN": Row({"fpr": float("nan")}, V, r"fpr=nan must be in \(0, 1\]"),
    "precision: None": Row({"precision": None}, T, "precision must be a number; got None"),
    "penalty: 0": Row({"penalty": 0}, V, "penalty=0 must be finite and positive"),
    "beta: infinite": Row({"beta": float("inf")}, V, "beta=inf must be finite and positive"),
    "solver: unknown": Row({"solver": "simplex"}, V, "solver='simplex' must be one of"),
    "multi_class: unknown": Row({"multi_class": "all"}, V, "multi_class='all' must be one of"),
}
HUGE = {name: Row({"k": 10**12}, V, "k=1000000000000 must be") for name in MULTI_CLASS} | {
    "precision_at_k_loss": Row({"k": 7}, V, r"k=7 must be at most the number of samples \(6\)")
}


def assert_refuses(function, arguments, row):
    before = joblib.hash([np.asarray(each) for each in arguments.values() if _is_data(each)])
    with pytest.raises(row.error, match=f"(?s){row.says}"):
        function(**arguments | row.passed)
    after = joblib.hash([np.asarray(each) for each in arguments.values() if _is_data(each)])
    assert after == before


def _is_data(value):
    return isinstance(value, np.ndarray | torch.Tensor | list)


@pytest.mark.parametrize("case", LOSS_ROWS)
def test_losses(case):
    row = LOSS_ROWS[case]
    functions = {name: getattr(losses, name) for name in LOSSES}
    concerned = [
        name
        for name in LOSSES
        if set(row.passed) <= set(inspect.signature(functions[name]).parameters)
    ]
    assert concerned
    for name in concerned:
        assert_refuses(functions[name], LOSSES[name], row)


@pytest.mark.parametrize("name", [name for name in HUGE if "k" in LOSSES[name]])
def test_losses_of_a_huge_k(name):
    assert_refuses(getattr(losses, name), LOSSES[name], HUGE[name])


Y, S = OF_TWO, X[:, 0]
LABELS, TABLE = np.arange(40) % 3, X
SETS = X > 0
TOPK = {"y_true": LABELS, "y_score": TABLE, "k": 2}
SHOT = TOPK | {"class_counts": [9, 9, 9]}
COVERAGE = {"y_true": LABELS, "y_set": SETS, "labels": [0, 1, 2]}
ROWS = {"y_true": Y, "y_score": S}
NAN = np.where(np.arange(40) == 3, np.nan, S)
TRAINED = torch.ones(40, requires_grad=True)
OF_ALL_ROWS = {
    "precision_at_k_score": {"k": 5},
    "recall_at_k_score": {"k": 5},
    "enrichment_factor_score": {"fraction": 0.1},
    "precision_at_recall_score": {"recall": 0.5},
    "recall_at_precision_score": {"precision": 0.5},
    "positives_at_top_score": {},
    "true_positive_rate_at_fpr_score": {"fpr": 0.1},
    "bedroc_score": {},
}
ROW_SCORES = {
    "y_true: three labels": Row({"y_true": LABELS}, V, "y_true must hold two labels; got 3"),
    "y_true: continuous": Row({"y_true": S}, V, "y_true must hold two labels; got 40 values"),
    "y_true: a table": Row({"y_true": SETS}, V, "y_true must have shape"),
    "y_true: None": Row({"y_true": None}, V, "y_true must have shape"),
    "y_true: short": Row({"y_true": Y[:-1]}, V, "y_score must have one score per row"),
    "y_true: NaN": Row({"y_true": np.where(Y == 1, np.nan, 0)}, V, "y_true contains NaN"),
    "y_true: a missing word": Row({"y_true": ["a", None] * 20}, V, "y_true.*none missing"),
    "y_score: NaN": Row({"y_score": NAN}, V, "y_score must not contain NaN"),
    "y_score: with a gradient": Row({"y_score": TRAINED}, T, r"y_score must.*y_score.detach\(\)"),
    "y_true: with a gradient": Row({"y_true": TRAINED}, T, "y_true must.*gradient"),
    "sample_weight: with a gradient": Row({"sample_weight": TRAINED}, T, "sample_weight.*gradient"),
    "y_score: a table": Row({"y_score": TABLE}, V, r"y_score must have shape.*\(40, 3\)"),
    "y_score: words": Row({"y_score": ["a"] * 40}, V, "y_score must hold real numbers; got dtype"),
    "y_score: complex": Row({"y_score": S + 1j}, V, "y_score must hold real numbers; got dtype"),
    "y_score: objects": Row({"y_score": S.astype(object)}, V, "y_score must hold real numbers"),
    "y_score: sparse": Row({"y_score": sparse.csr_array(S[None])}, V, "y_score must hold real"),
    "y_score: dates": Row({"y_score": S.astype("M8[D]")}, V, "y_score must hold real numbers"),
    "y_score: None": Row({"y_score": None}, V, "y_score must hold real numbers; got dtype object"),
    "y_score: a frame": Row({"y_score": pd.DataFrame(X)}, V, "y_score must have shape"),
    "pos_label: unknown": Row({"pos_label": 7}, V, r"pos_label must be one of \[0, 1\]; got 7"),
    "pos_label: a word": Row({"pos_label": "1"}, V, "y_true and pos_label"),
    "sample_weight: short": Row({"sample_weight": [1.0]}, V, "sample_weight must be 40 numbers"),
    "sample_weight: negative": Row({"sample_weight": -abs(S)}, V, "sample_weight must be finite"),
    "sample_weight: NaN": Row({"sample_weight": NAN}, V, "sample_weight must be finite"),
    "sample_weight: words": Row({"sample_weight": ["a"] * 40}, V, "sample_weight must be 40 num"),
    "ties: unknown": Row({"ties": "first"}, V, "ties must be one of.*got 'first'"),
    "groups: short": Row({"groups": [1]}, V, "groups must name .* each of the 40 rows"),
    "groups: a missing one": Row({"groups": ["a", None] * 20}, V, "groups must name .* got None"),
    "k: 0": Row({"k": 0}, V, "k must be .*got 0"),
    "k: a float of 1": Row({"k": 1.0}, (V, T), "k must be .*got 1.0"),
    "k: None": Row({"k": None}, T, "k must be .*got None"),
    "k: a word": Row({"k": "5"}, T, "k must be .*got '5'"),
}
OTHERS = {
    "topk_accuracy_score": (
        TOPK,
        {
            "k is 0": Row({"k": 0}, V, "k must be .*got 0"),
            "k is a bool": Row({"k": True}, T, "k must be .*got True"),
            "labels short": Row({"labels": [0, 1]}, V, "labels must name each of the 3 classes"),
            "labels repeated": Row({"labels": [0, 1, 1]}, V, "labels must be distinct"),
            "labels of another kind": Row({"labels": ["a", "b", "c"]}, V, "labels and y_true must"),
            "labels are needed": Row({"y_true": 0 * LABELS}, V, "labels=None needs as many"),
            "NaN": Row({"y_score": np.where(X > 2, np.nan, X)}, V, "y_score must not contain NaN"),
            "a gradient": Row(
                {"y_score": torch.tensor(X, requires_grad=True)}, T, "y_score.*gradient"
            ),
            "sparse": Row({"y_score": sparse.csr_array(X)}, V, "y_score must be a dense array"),
            "no columns": Row({"y_score": X[:, :0]}, V, "y_score must have shape"),
            "rows": Row({"y_true": LABELS[1:]}, V, "same number of rows; got 39 and 40"),
            "average": Row({"average": "weighted"}, V, "average must be one of.*got 'weighted'"),
        },
    ),
    "shot_accuracy_score": (
        SHOT,
        {
            "counts short": Row({"class_counts": [1, 2]}, V, "class_counts must be 3 numbers"),
            "counts negative": Row({"class_counts": [-1, 1, 1]}, V, "class_counts must be finite"),
            "few above many": Row({"few": 200}, V, "few=200 must not exceed many=100"),
        },
    ),
    "set_coverage_score": (
        COVERAGE,
        {
            "numbers": Row({"y_set": X}, V, "y_set must hold True"),
            "labels short": Row({"labels": [0, 1]}, V, "labels must be 3 distinct labels"),
            "rows": Row({"y_true": LABELS[1:]}, V, r"y_true must have shape \(40,\)"),
            "NaN": Row({"y_set": np.where(X > 2, np.nan, 1)}, V, "y_set contains NaN"),
            "average": Row({"average": None}, V, "average must be one of"),
        },
    ),
    "set_size_score": (
        {"y_set": SETS},
        {
            "a gradient": Row(
                {"y_set": torch.ones(4, 3, requires_grad=True)}, T, "y_set.*gradient"
            ),
            "words": Row({"y_set": [["a"]]}, V, "y_set must hold True"),
            "weights": Row({"sample_weight": [1]}, V, "sample_weight must be 40 numbers"),
        },
    ),
    "make_topk_scorer": (
        {"k": 3},
        {
            "k is 0": Row({"k": 0}, V, "k must be an integer >= 1"),
            "k is None": Row({"k": None}, T, "k must be .*got None"),
            "average": Row({"average": "mean"}, V, "average must be one of"),
            "ties": Row({"ties": "last"}, V, "ties must be one of"),
        },
    ),
    "make_top_scorer": (
        {"name": "recall_at_k", "k": 3},
        {
            "unknown": Row({"name": "recall"}, V, "name must be one of.*got 'recall'"),
            "a score": Row({"name": "recall_at_k_score"}, V, "name must be one of"),
            "k is missing": Row({"k": None}, V, "name='recall_at_k' needs k.*got nothing"),
            "a parameter too many": Row({"recall": 0.5}, V, "name='recall_at_k' needs k.*recall=0"),
            "k is 0": Row({"k": 0}, V, "k must be .*got 0"),
        },
    ),
    "make_set_scorer": (
        {"score": "coverage"},
        {"unknown": Row({"score": "size"}, V, "score must")},
    ),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("case", ROW_SCORES)
def test_scores_of_rows(case):
    row, n_concerned = ROW_SCORES[case], 0
    for name, params in OF_ALL_ROWS.items():
        function = getattr(metrics, name)
        counts = name == "positives_at_top_score" and row.passed.get("k") == 1.0
        if set(row.passed) <= set(inspect.signature(function).parameters):
            n_concerned += 1
            says = "k must be an integer; got 1.0" if counts else row.says
            assert_refuses(function, ROWS | params, row._replace(says=says))
    assert n_concerned


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name in OTHERS for case in OTHERS[name][1]]
)
def test_other_functions(name, case):
    arguments, rows = OTHERS[name]
    assert_refuses(getattr(metrics, name), arguments, rows[case])


# No error: the score is defined, but the same for any order of the rows.
FEW = {
    "recall of more rows than there are": ("recall_at_k_score", {"k": 41}, r"rows \(40\)"),
    "precision of more rows": ("precision_at_k_score", {"k": 41}, "k=41 exceeds the number of row"),
    "more negatives": ("positives_at_top_score", {"k": 31}, r"negatives \(30\)"),
    "weights that sum to 1": (
        "recall_at_k_score",
        {"k": 3, "sample_weight": np.full(40, 1 / 40)},
        r"k=3 exceeds the number of rows \(1\)",
    ),
}


@pytest.mark.parametrize("case", FEW)
def test_a_k_that_leaves_nothing_to_choose_is_said(case):
    name, params, says = FEW[case]
    rows = {"y_value": S, "y_score": S} if name.startswith("mean") else ROWS
    with pytest.warns(UserWarning, match=says) as record:
        getattr(metrics, name)(**rows, **params)
    assert record[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(metrics, name)(**rows, k=30)


SCORERS = {
    "no classifier": Row(LinearRegression().fit(X, S), T, "estimator must be a classifier with cl"),
    "three classes": Row(LogisticRegression().fit(X, LABELS), V, "must know two classes; got 3"),
    "a string": Row("estimator", (T, V), "estimator"),
}


@pytest.mark.parametrize("case", SCORERS)
def test_scorers(case):
    row = SCORERS[case]
    with pytest.raises(row.error, match=row.says):
        metrics.make_top_scorer("recall_at_k", k=3)(row.passed, X, Y)


def test_scorers_have_no_use_for_groups():
    scorer = metrics.make_top_scorer("bedroc")
    with pytest.raises(ValueError, match="name='bedroc' has no use for groups"):
        scorer(LogisticRegression().fit(X, Y), X, Y, groups=S)
