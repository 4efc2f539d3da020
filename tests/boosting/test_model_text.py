"""The text of a booster is checked before LightGBM reads it."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification

from sktopk import TopBoostClassifier
from sktopk.io import dump, load

pytest.importorskip("lightgbm")
SMALL = {"n_estimators": 5, "n_members": 2, "random_state": 0}


@pytest.fixture(scope="module")
def binary():
    return make_classification(300, n_features=5, weights=[0.8], flip_y=0.05, random_state=0)


@pytest.fixture(scope="module")
def several():
    return make_classification(300, n_classes=4, n_informative=6, random_state=0)


KINDS = {
    "two classes": (TopBoostClassifier(**SMALL), "binary"),
    "four classes": (TopBoostClassifier("topk_hinge", k=2, **SMALL), "several"),
    "early stopping": (TopBoostClassifier(n_iter_no_change=2, **SMALL), "binary"),
    "trees of one leaf": (TopBoostClassifier(min_child_samples=200, **SMALL), "binary"),
    "a loss with parameters": (TopBoostClassifier("pat_mat", loss_params={"tau": 0.1}), "binary"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_loaded_without_trust_and_predicts_the_same(name, tmp_path, request):
    pytest.importorskip("skops")
    clf, data = KINDS[name][0], request.getfixturevalue(KINDS[name][1])
    clf.fit(*data)
    expected = clf.decision_function(data[0])
    for again in (load(dump(clf, tmp_path / "file")), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(again.decision_function(data[0]), expected)
        assert [each.num_trees() for each in again.boosters_] == [
            each.num_trees() for each in clf.boosters_
        ]


def line(name, new):
    """An edit of the first line of a name."""

    def edit(text):
        start = text.index(f"\n{name}=") + 1
        stop = text.index("\n", start)
        values = text[start:stop].partition("=")[2].split()
        return text[:start] + f"{name}=" + " ".join(new(values)) + text[stop:]

    return edit


EDITS = {
    "a column that X lacks": (line("split_feature", lambda v: ["5", *v[1:]]), "5 columns"),
    "a negative column": (line("split_feature", lambda v: ["-1", *v[1:]]), "5 columns"),
    "a child that is its parent": (line("left_child", lambda v: ["0", *v[1:]]), "after their par"),
    "a child that does not exist": (
        line("left_child", lambda v: ["99", *v[1:]]),
        "parent per node",
    ),
    "a leaf that does not exist": (line("right_child", lambda v: [*v[:-1], "-99"]), "per leaf"),
    "a leaf too few": (line("leaf_value", lambda v: v[1:]), "numbers leaf_value"),
    "a node too few": (line("threshold", lambda v: v[1:]), "numbers threshold"),
    "a leaf that is not finite": (line("leaf_value", lambda v: ["nan", *v[1:]]), "finite leaf_v"),
    "more leaves": (line("num_leaves", lambda v: ["100000"]), "99999 numbers"),
    "no leaves": (line("num_leaves", lambda v: ["0"]), "num_leaves in"),
    "categories": (line("decision_type", lambda v: ["1", *v[1:]]), "for categories"),
    "more classes": (line("num_class", lambda v: ["2"]), "num_class=1"),
    "more columns": (line("max_feature_idx", lambda v: ["9"]), "max_feature_idx=4"),
    "an objective": (lambda text: text.replace("\n", "\nobjective=binary\n", 1), "no objective"),
    "a tree too few": (lambda text: text[: text.index("\nTree=4")], "5 trees; got 4"),
    "no text": (lambda text: 3, "text of each booster; got int"),
}


@pytest.mark.parametrize("name", EDITS)
def test_text_that_would_index_outside_of_its_memory_is_refused(name, binary):
    edit, message = EDITS[name]
    state = TopBoostClassifier(**SMALL).fit(*binary).__getstate__()
    state["boosters_"] = [edit(text) for text in state["boosters_"]]
    with pytest.raises(ValueError, match=f"boosters_ must have .*{message}"):
        TopBoostClassifier().__setstate__(state)


@pytest.mark.parametrize("seed", [0, 1])
def test_random_edits_are_loaded_or_raise_value_error(seed):
    command = [sys.executable, "-m", "tests.boosting.edit_texts", str(seed), "400"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    n_loaded, n_refused = map(int, done.stdout.split())
    assert min(n_loaded, n_refused) > 20
