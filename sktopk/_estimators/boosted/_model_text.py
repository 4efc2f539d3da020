"""Check the text of a LightGBM booster, and write a new text with only the checked values.

LightGBM's parser does not check indices and lengths. Manipulated text could make the parser, or a
later prediction, read outside of its memory or run forever.
"""

import re

import numpy as np

from sktopk._common._estimator import Versioned
from sktopk._common._extras import import_extra

MOST_LEAVES = 131072
# Bits of `decision_type`: 1 for categories, 2 if missing values go left, 4 or 8 for their type.
_CATEGORICAL, _DECISIONS = 1, range(12)
_FEATURE_INFO = re.compile(r"none|\[[-+.e\d]+:[-+.e\d]+\]|-?\d+(:-?\d+)*")
# Fields of a tree, with the type of their values. Each field has one value per node or per leaf.
_OF_NODES = {
    "split_feature": int, "split_gain": float, "threshold": float, "decision_type": int,
    "left_child": int, "right_child": int, "internal_value": float, "internal_weight": float,
    "internal_count": int,
}  # fmt: skip
_OF_LEAVES = {"leaf_value": float, "leaf_weight": float, "leaf_count": int}
# Required fields. The other fields only describe the training, and can be absent.
_NEEDED = "split_feature threshold decision_type left_child right_child leaf_value".split()


class BoostersAsText(Versioned):
    """Mixin that stores the fitted attribute `boosters_` as text in pickles and files."""

    def __getstate__(self):
        state = super().__getstate__()
        if "boosters_" in state:
            texts = [each.model_to_string(num_iteration=-1) for each in state["boosters_"]]
            state["boosters_"] = [text.partition("end of trees")[0] for text in texts]
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "boosters_" in state:
            lightgbm = import_extra("lightgbm", type(self).__name__, "boosting")
            n_classes = 1 if len(self.classes_) == 2 else len(self.classes_)
            n_columns = int(self.input_shape_[0])  # with target statistics
            self.boosters_ = [
                booster_from_text(lightgbm, text, n_columns, n_classes, int(n_rounds))
                for text, n_rounds in zip(state["boosters_"], self.n_iter_, strict=True)
            ]


def booster_from_text(lightgbm, text, n_features, n_classes, n_rounds):
    """Return the booster that `text` describes. Raise ValueError if a check of the text fails."""
    if not isinstance(text, str):
        raise ValueError(f"boosters_ must have model texts (str); got {type(text).__name__}")
    header, *trees = re.split(r"^Tree=\d+$", text, flags=re.MULTILINE)
    found = _fields(header)
    expected = {
        "version": "v4",
        "num_class": str(n_classes),
        "num_tree_per_iteration": str(n_classes),
        "label_index": "0",
        "max_feature_idx": str(n_features - 1),
    }
    for name, value in expected.items():
        _check(found.get(name) == value, f"{name}={value}", found.get(name))
    _check("objective" not in found, "no objective", found.get("objective"))
    n_trees = n_rounds * n_classes
    _check(len(trees) == n_trees, f"{n_trees} trees", len(trees))
    infos = found.get("feature_infos", "").split()
    infos = infos if all(map(_FEATURE_INFO.fullmatch, infos)) else []
    _check(len(infos) == n_features, f"feature_infos of {n_features} columns", infos)
    lines = ["tree", *(f"{name}={value}" for name, value in expected.items())]
    lines += ["feature_names=" + " ".join(f"Column_{j}" for j in range(n_features))]
    lines += ["feature_infos=" + " ".join(infos), ""]
    for i, tree in enumerate(trees):
        tree = _checked_tree(_fields(tree), n_features)
        values = {k: " ".join(map(repr, np.asarray(v).tolist())) for k, v in tree.items()}
        lines += [f"Tree={i}", *(f"{name}={each}" for name, each in values.items()), "", ""]
    lines += ["end of trees", "", "pandas_categorical:[]", ""]  # see `grow`
    return lightgbm.Booster(model_str="\n".join(lines))


def _checked_tree(found, n_features):
    n_leaves, n_cat = (int(_numbers(found, name, int, 1)[0]) for name in ("num_leaves", "num_cat"))
    _check(1 <= n_leaves <= MOST_LEAVES, f"num_leaves in [1, {MOST_LEAVES}]", n_leaves)
    _check(0 <= n_cat < n_leaves, "num_cat below num_leaves", n_cat)
    # `fit` does not allow linear trees.
    _check(found.get("is_linear") == "0", "is_linear=0", found.get("is_linear"))
    tree = {"num_leaves": [n_leaves], "num_cat": [n_cat]}
    for fields, length in ((_OF_NODES, n_leaves - 1), (_OF_LEAVES, n_leaves)):
        for name, kind in fields.items():
            if name in _NEEDED or found.get(name):
                tree[name] = _numbers(found, name, kind, length)
    _check_nodes(tree, n_leaves, n_cat, n_features)
    if n_cat:
        ends = tree["cat_boundaries"] = _numbers(found, "cat_boundaries", int, n_cat + 1)
        rises = ends[0] == 0 and (np.diff(ends) >= 0).all()
        _check(rises, "cat_boundaries that increase from 0", ends)
        tree["cat_threshold"] = _numbers(found, "cat_threshold", int, ends[-1], 2**32)
        _check((tree["cat_threshold"] >= 0).all(), "nonnegative cat_threshold", ends)
    return tree | {"is_linear": [0], "shrinkage": _numbers(found, "shrinkage", float, 1)}


def _check_nodes(tree, n_leaves, n_cat, n_features):
    """Check that each node splits an existing column, and that the nodes form a single tree."""
    column, kind, threshold = (tree[k] for k in ("split_feature", "decision_type", "threshold"))
    _check(((column >= 0) & (column < n_features)).all(), f"{n_features} columns", column)
    _check(np.isin(kind, _DECISIONS).all(), "decision_type in [0, 11]", kind)
    # The threshold of a split by categories is the index of a set of categories.
    sets = threshold[(kind & _CATEGORICAL) != 0]
    is_set = (sets >= 0) & (sets < n_cat) & (sets == np.floor(sets))
    _check(is_set.all(), f"thresholds in [0, {n_cat}) for categories", sets)
    node = np.arange(n_leaves - 1)
    children = np.concatenate([tree["left_child"], tree["right_child"]])
    inner = children >= 0
    # A child node has a larger index than its parent, so that no path is a cycle.
    later = children[inner] > np.tile(node, 2)[inner]
    _check(later.all(), "children after their parents", children)
    _check(np.array_equal(np.sort(children[inner]), node[1:]), "one parent per node", children)
    leaves, of_root = np.sort(~children[~inner]), np.arange(n_leaves if n_leaves > 1 else 0)
    _check(np.array_equal(leaves, of_root), "one parent per leaf", children)


def _fields(text):
    """Return the lines ``name=value`` of a text as a dict."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        _check(name not in found or not line, "distinct lines", name)
        found[name] = value
    return found


def _numbers(found, name, kind, length, limit=2**31):
    """Return the `length` numbers in a field of a tree, after checks of their number and size."""
    words = found.get(name, "").split()
    _check(len(words) == length, f"{length} numbers {name}", len(words))
    try:
        values = np.array([kind(each) for each in words], np.int64 if kind is int else np.float64)
    except (OverflowError, ValueError):
        values = None
    _check(values is not None, f"numbers {name}", found.get(name))
    if kind is int:
        _check((np.abs(values) < limit).all(), f"{name} below {limit}", values)
    else:
        largest = np.finfo(np.float32 if name == "split_gain" else np.float64).max
        # A split into missing and other values has an infinite threshold.
        largest = np.inf if name == "threshold" else largest
        _check((np.abs(values) <= largest).all(), f"finite {name}", values)
    return values


def _check(is_met, allowed, got):
    if not is_met:
        what = f"its text in boosters_ must have {allowed}; got {got!r:.80}"
        raise ValueError(f"the LightGBM model cannot be read: {what}")
