"""The text of a LightGBM model is checked before LightGBM reads it."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

from sktopk import TopBoostClassifier
from sktopk.io import dump, load

lightgbm = pytest.importorskip("lightgbm")
SMALL = {"n_estimators": 5, "n_members": 2, "random_state": 0}
KINDS = {
    "two classes": (TopBoostClassifier(**SMALL), "binary"),
    "four classes": (TopBoostClassifier("topk_hinge", k=2, **SMALL), "several"),
    "early stopping": (TopBoostClassifier(n_iter_no_change=2, **SMALL), "binary"),
    "trees of one leaf": (TopBoostClassifier(min_child_samples=700, **SMALL), "binary"),
    "a parameter": (TopBoostClassifier("pat_mat", loss_params={"tau": 0.1}, **SMALL), "binary"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_file_predicts_the_same_if_loaded_without_the_parameter_trusted(name, tmp_path, request):
    pytest.importorskip("skops")
    clf, data = KINDS[name][0], request.getfixturevalue(KINDS[name][1])
    clf.fit(*data)
    expected = clf.decision_function(data[0])
    for again in (load(dump(clf, tmp_path / "file")), pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(again.decision_function(data[0]), expected)
        assert [b.num_trees() for b in again.boosters_] == [b.num_trees() for b in clf.boosters_]


def line(name, new):
    def edit(text):
        start = text.index(f"\n{name}=") + 1
        stop = text.index("\n", start)
        values = text[start:stop].partition("=")[2].split()
        return text[:start] + f"{name}=" + " ".join(new(values)) + text[stop:]

    return edit


EDITS = {
    "a column that X lacks": (line("split_feature", lambda v: ["20", *v[1:]]), "20 columns"),
    "a negative column": (line("split_feature", lambda v: ["-1", *v[1:]]), "20 columns"),
    "a child that is its parent": (line("left_child", lambda v: ["0", *v[1:]]), "after their par"),
    "a child that does not exist": (line("left_child", lambda v: ["99", *v[1:]]), "parent per n"),
    "a leaf that does not exist": (line("right_child", lambda v: [*v[:-1], "-99"]), "per leaf"),
    "a leaf too few": (line("leaf_value", lambda v: v[1:]), "numbers leaf_value"),
    "a node too few": (line("threshold", lambda v: v[1:]), "numbers threshold"),
    "a leaf that is not finite": (line("leaf_value", lambda v: ["nan", *v[1:]]), "finite leaf_v"),
    "more leaves": (line("num_leaves", lambda v: ["100000"]), "99999 numbers"),
    "no leaves": (line("num_leaves", lambda v: ["0"]), "num_leaves in"),
    "categories": (line("decision_type", lambda v: ["1", *v[1:]]), "for categories"),
    "more classes": (line("num_class", lambda v: ["2"]), "num_class=1"),
    "more columns": (line("max_feature_idx", lambda v: ["30"]), "max_feature_idx=19"),
    "an objective": (lambda text: text.replace("\n", "\nobjective=binary\n", 1), "no objective"),
    "a tree too few": (lambda text: text[: text.index("\nTree=4")], "5 trees; got 4"),
    "no text": (lambda text: 3, r"model texts \(str\); got int"),
}


@pytest.fixture(scope="module")
def state(binary):
    return TopBoostClassifier(**SMALL).fit(*binary).__getstate__()


@pytest.mark.parametrize("name", EDITS)
def test_model_text_with_an_index_outside_of_its_memory_raises(name, state):
    edit, message = EDITS[name]
    edited = {"boosters_": [edit(text) for text in state["boosters_"]]}
    with pytest.raises(ValueError, match=f"boosters_ must have .*{message}"):
        TopBoostClassifier().__setstate__(state | edited)


NUMBERS = ["-1", "0", "1", "7", "-9", "99999", "2147483647", "-2147483648", "4294967296", "1e300"]
NUMBERS += ["1e999", "nan", "inf", "-inf", "", "a", "0.5", "1" * 400, "1 2", "\0", "=", "\n", "é"]


def edited(text, rng):
    for _ in range(rng.integers(1, 4)):
        parts = re.split("([\n= ])", text)
        i, j = 2 * rng.integers(0, (len(parts) + 1) // 2, 2)
        stop, kind = rng.choice([i + 1, i + 20, len(parts)]), rng.integers(0, 9)
        if kind == 0:
            parts[i:stop] = []
        elif kind == 1:
            parts[j:j] = parts[i:stop]
        elif kind == 2:
            parts[i], parts[j] = parts[j], parts[i]
        else:
            parts[i] = chr(rng.integers(0, 256)) if kind == 3 else str(rng.choice(NUMBERS))
        text = "".join(parts)
    return text


def use_edited_texts(seed):
    """Print how many edited texts were loaded; errors other than ValueError end the process."""
    rng, n_loaded = np.random.default_rng(seed), 0
    X = rng.standard_normal((200, 4))
    X[:, 0] = rng.integers(0, 30, 200)
    X[::7, 1] = np.nan
    y = (X[:, 0] % 3 == 0).astype(int)
    params = {"n_estimators": 3, "n_members": 1, "min_child_samples": 5, "random_state": 0}
    state = TopBoostClassifier(**params).fit(X, y).__getstate__()
    # The data include a column of categories.
    data = lightgbm.Dataset(X, y, categorical_feature=[0], params={"verbosity": -1})
    booster = lightgbm.Booster({"objective": "none", "min_child_samples": 3, "verbosity": -1}, data)
    for _ in range(3):
        booster.update(fobj=lambda scores, _: (scores - y, np.ones(len(y))))
    texts = [*state["boosters_"], booster.model_to_string()]
    for i in range(400):
        clf, text = TopBoostClassifier(), edited(texts[i % 2], rng)
        try:
            clf.__setstate__(state | {"boosters_": [text]})
        except ValueError:
            continue
        n_loaded += 1
        assert clf.decision_function(X).shape == y.shape
        clf.boosters_[0].predict(X, pred_contrib=True)
        clf.boosters_[0].dump_model()
        clf.__getstate__()
    print(n_loaded)


def test_randomly_edited_texts_are_loaded_or_raise_value_error():
    code = f"from {__name__} import use_edited_texts as use; [*map(use, range(3))]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [20 < int(n_loaded) < 380 for n_loaded in done.stdout.split()] == [True] * 3


def test_a_split_into_missing_and_other_values_survives_a_copy(rng):
    X = rng.normal(size=(2000, 1))
    X[rng.random(2000) < 0.3] = np.nan
    y = rng.random(2000) < np.where(np.isnan(X[:, 0]), 0.3, 0.02)
    clf = TopBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    texts = clf.__getstate__()["boosters_"]
    assert any("inf" in line for text in texts for line in text.splitlines() if "threshold" in line)
    copied = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copied.decision_function(X), clf.decision_function(X))
