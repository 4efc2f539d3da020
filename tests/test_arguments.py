"""Wrong arguments of losses, scores and scorers raise errors that name them, and do not change."""

import inspect
import re

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.naive_bayes import GaussianNB

from sktopk import BudgetClassifier, SetClassifier, TopKClassifier, losses, metrics
from tests.metrics import top_cases

V, T = ValueError, TypeError
X = np.random.default_rng(0).normal(size=(40, 3))
SCORES, TARGET = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4
TOPK, SAMPLES = {"scores": SCORES, "target": TARGET, "k": 2}, torch.arange(6) % 2
TRAINED = torch.ones(40, requires_grad=True)
TOP = {"scores": SCORES[:, 0].clone(), "target": SAMPLES}
# tests/losses checks types, shapes and ranges for every loss.
OF_LOSSES = [
    ("smooth_topk_loss", TOPK | {"scores": SCORES * 1j}, (V, T), "scores must"),
    ("topk_hinge_loss", TOPK | {"target": TARGET + 9}, V, "class indices from 0 to"),
    ("topk_hinge_loss", TOPK | {"target": TARGET.float()}, T, r"use target\.long\(\)"),
    ("topk_hinge_loss", TOPK | {"sample_weight": ["a"] * 6}, (V, T), "str|sample_weight"),
    ("top_push_loss", TOP | {"sample_weight": [None] * 6}, T, "sample_weight must hold num"),
    ("smooth_topk_loss", TOPK | {"tau": torch.ones(1, requires_grad=True)}, T, "tau .*gradient"),
    ("smooth_topk_loss", TOPK | {"tau": 10**400}, V, "tau must be finite as a float; got 1000"),
    ("ldam_loss", {"scores": SCORES, "target": TARGET, "class_counts": "4321"}, T,
        "class_counts must hold numbers"),
]  # fmt: skip


def arrays(arguments):
    return repr([each for each in arguments.values() if not callable(each)])


def assert_refused(function, arguments, error, says):
    before = arrays(arguments)
    with pytest.raises(error) as caught:
        function(**arguments)
    assert re.search(says, str(caught.value), re.DOTALL), f"{function.__name__}: {caught.value}"
    assert arrays(arguments) == before


Y, S, LABELS = 1 * (np.arange(40) % 4 == 1), X[:, 0], np.arange(40) % 3
MASKED = np.ma.masked_equal(LABELS, 1)
OF_SCORES = [
    ({"y_true": LABELS}, V, "y_true must hold two labels; got 3"),
    ({"y_true": S}, V, "y_true must hold two labels; got 40 values"),
    ({"y_true": None}, V, "y_true must have shape"),
    ({"y_true": Y[:-1]}, V, "y_score must have 39 scores, one per"),
    ({"y_true": np.where(Y == 1, np.nan, 0)}, V, "y_true contains NaN"),
    ({"y_true": TRAINED}, T, "y_true must.*gradient"),
    ({"y_score": np.where(np.arange(40) == 3, np.nan, S)}, V, "y_score must not contain NaN"),
    ({"y_score": TRAINED}, T, r"y_score must.*y_score.detach\(\)"),
    ({"y_score": X}, V, r"y_score must have shape.*\(40, 3\)"),
    ({"y_score": ["a"] * 40}, V, "y_score must hold real numbers; got dtype"),
    ({"y_score": sparse.csr_array(S[None])}, V, "y_score must hold real"),
    ({"pos_label": 7}, V, r"pos_label must be one of \[0, 1\]; got 7"),
    ({"sample_weight": [1.0]}, V, "sample_weight must be 40 numbers"),
    ({"sample_weight": -abs(S)}, V, "sample_weight must be finite"),
    ({"sample_weight": np.full(40, 1e307)}, V, "sample_weight .* finite sum; got .* up to 1e.307"),
    ({"ties": "first"}, V, "ties must be one of.*got 'first'"),
    ({"y_true": MASKED}, V, "^y_true must have no masked entries; got 13 of 40"),
    ({"y_score": np.ma.masked_where(Y == 1, S)}, V, "^y_score must have no masked .* 10 of 40"),
    ({"sample_weight": MASKED}, V, "^sample_weight must have no masked entries; got 13 of 40"),
    ({"groups": MASKED}, V, "^groups must have no masked entries; got 13 of 40"),
    ({"groups": [1]}, V, r"groups must have one entry per sample \(40\)"),
    ({"groups": ["a", np.nan] * 20}, V, "groups must not have missing values; got 20 of 40"),
]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("passed", "error", "says"), OF_SCORES, ids=[c[-1] for c in OF_SCORES])
def test_wrong_arguments_of_binary_ranking_metrics_raise(passed, error, says):
    asked = 0
    for function, params in dict(top_cases.SCORES).items():
        if passed.keys() <= inspect.signature(function).parameters.keys():
            asked += 1
            assert_refused(function, {"y_true": Y, "y_score": S} | params | passed, error, says)
    assert asked


TOPK = {"y_true": LABELS, "y_score": X, "k": 2}
COVERAGE = {"y_true": LABELS, "y_set": X > 0, "labels": [0, 1, 2]}
OTHERS = [
    ("topk_accuracy_score", TOPK | {"k": True}, T, "k must be .*got True"),
    ("topk_accuracy_score", TOPK | {"labels": [0, 1]}, V, "labels must name the 3 columns"),
    ("topk_accuracy_score", TOPK | {"labels": [0, 1, 1]}, V, "labels must be distinct"),
    ("topk_accuracy_score", TOPK | {"y_true": 0 * LABELS}, V, "labels=None needs 3 distinct"),
    ("topk_accuracy_score", TOPK | {"y_true": MASKED}, V, "^y_true must have no masked entries"),
    ("topk_accuracy_score", TOPK | {"y_score": np.ma.masked_greater(X, 2)}, V, "y_score.*masked"),
    ("topk_accuracy_score", TOPK | {"y_score": sparse.csr_array(X)}, V, "y_score must be a dense"),
    ("topk_accuracy_score", TOPK | {"average": "weighted"}, V, "average must be one of"),
    ("topk_accuracy_score", TOPK | {"sample_weight": np.full(40, 1e307)}, V, "sample_weight.* sum"),
    ("shot_accuracy_score", TOPK | {"class_counts": [1, 2]}, V, "class_counts must be 3 numbers"),
    ("set_coverage_score", COVERAGE | {"y_set": X}, V, "y_set must have .* True"),
    ("set_coverage_score", COVERAGE | {"y_true": MASKED}, V, "^y_true must have no masked entries"),
    ("set_coverage_score", COVERAGE | {"labels": [0, 1]}, V, "labels must name the 3"),
    ("set_size_score", {"y_set": np.ma.masked_equal(X > 0, True)}, V, "^y_set must have no masked"),
    ("budget_table", {"y_true": MASKED, "y_score": S, "budgets": 1}, V, "^y_true must .* masked"),
    ("set_size_score", {"y_set": [["a"]]}, V, "y_set must have .* True"),
    ("make_topk_scorer", {"k": 0}, V, "k must be an integer >= 1"),
    ("make_top_scorer", {"name": "recall"}, V, "name must be one of.*got 'recall'"),
    ("make_top_scorer", {"name": "recall_at_k"}, V, "name='recall_at_k' requires k.*got nothing"),
    ("make_top_scorer", {"name": "recall_at_k", "k": 3, "recall": 0.5}, V, "requires k.*recall=0"),
    ("make_topk_scorer", {"k": "5"}, T, r"k must be .* got '5'"),
    ("make_top_scorer", {"name": "recall_at_k", "k": "5"}, T, r"k must be .* got '5'"),
    ("make_top_scorer", {"name": "recall_at_k", "k": 5, "ties": "first"}, V, "ties must.*'first"),
    ("make_top_scorer", {"name": "recall_at_k", "k": 5, "pos_label": ["fraud"]}, T,
        r"pos_label must be a label or None; got \['fraud'\]"),
    ("make_top_scorer", {"name": "precision_at_recall", "recall": 0.5, "ties": "expected"}, V,
        "requires recall and takes no others; got recall=0.5, ties='expected'"),
    ("make_top_scorer", {"name": "precision_at_recall", "recall": 2}, V, r"in \(0, 1\]; got 2"),
    ("make_top_scorer", {"name": "partial_auc_log", "min_fpr": 0.1}, V, "min_fpr=0.1 must be less"),
    ("make_set_scorer", {"score": "size"}, V, "score must"),
]  # fmt: skip
CASES = {f"{case[0]}: {case[-1]}": case for case in OF_LOSSES + OTHERS}


@pytest.mark.parametrize("case", CASES)
def test_wrong_arguments_of_losses_metrics_and_scorers_raise(case):
    name, *others = CASES[case]
    assert_refused(getattr(losses if name.endswith("_loss") else metrics, name), *others)


HUGE = 10**5000
OF_HUGE = {
    "topk_accuracy_score": lambda: metrics.topk_accuracy_score(LABELS, X, k=HUGE),
    "recall_at_k_score": lambda: metrics.recall_at_k_score(Y, S, k=HUGE),
    "positives_at_top_score": lambda: metrics.positives_at_top_score(Y, S, k=HUGE),
    "make_topk_scorer": lambda: metrics.make_topk_scorer(HUGE),
    "a loss": lambda: losses.topk_hinge_loss(SCORES, TARGET, k=HUGE),
    "predict_topk": lambda: TopKClassifier(k=1, max_epochs=1).fit(X, LABELS).predict_topk(X, HUGE),
    "TopKClassifier": lambda: TopKClassifier(k=HUGE).fit(X, LABELS),
    "SetClassifier": lambda: SetClassifier(GaussianNB(), k=HUGE).fit(X, LABELS),
    "budget": lambda: BudgetClassifier(GaussianNB(), budget=HUGE, constraint="count").fit(X, Y),
    "n": lambda: BudgetClassifier(GaussianNB()).fit(X, Y).predict_top(X, HUGE),
    "n of groups": lambda: BudgetClassifier(GaussianNB()).fit(X, Y).predict_top(X, HUGE, Y),
    "-n": lambda: BudgetClassifier(GaussianNB()).fit(X, Y).hits_interval(X, -HUGE),
}


@pytest.mark.parametrize("case", OF_HUGE)
def test_huge_integers_raise_errors_that_name_the_parameter(case):
    with pytest.raises(ValueError, match=r"^(k|n|budget) must be") as error:
        OF_HUGE[case]()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("recall_at_k_score", {"k": 41}, r"all samples \(total weight 40\)"),
        ("positives_at_top_score", {"k": 31}, r"all negatives \(total weight 30\)"),
        ("recall_at_k_score", {"k": 3, "sample_weight": np.full(40, 1 / 40)}, r"weight 1\)"),
    ],
)
def test_a_k_above_the_number_of_samples_gives_a_warning(name, params, says):
    with pytest.warns(UserWarning, match=says) as record:
        getattr(metrics, name)(Y, S, **params)
    assert record[0].filename == __file__
