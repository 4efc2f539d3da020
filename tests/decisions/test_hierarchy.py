"""Are sets of a few nodes of a taxonomy as likely to hold the label as was promised?"""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktopk import SetClassifier, make_pipeline
from sktopk._estimators.decisions._conformal import Conformity, conformal_threshold
from sktopk._estimators.decisions._hierarchy import Hierarchy, read_hierarchy
from sktopk.io import dump, load
from tests.given import Given, draw, frozen

N_DRAWS = 2000
CONFORMAL = ["lac", "aps", "raps", "pas"]
# Eight classes in three genera of a family and one of another.
EIGHT = {0: "a", 1: "b", 2: "a", 3: "c", 4: "c", 5: "b", 6: "c", 7: "d"}
EIGHT |= {"a": "A", "b": "A", "c": "A", "d": "B", "A": "root", "B": "root"}
DIGITS = {i: "round" if i in (0, 6, 8, 9) else "other" for i in range(10)}
DIGITS |= {"round": "digit", "other": "digit"}
# Whatever the labels of scikit-learn's checks are.
ANY = {label: "all" for label in (*range(-3, 12), "one", "two", "three", "setosa", "eggs", "spam")}


def tree(n_classes, rng):
    """A random taxonomy, child to parent, with nodes of a single child."""
    hierarchy, top, number = {}, list(range(n_classes)), 0
    while len(top) > 1:
        size = rng.integers(1, 4)
        below, number = rng.choice(len(top), min(size, len(top)), replace=False), number + 1
        hierarchy |= {top[i]: f"n{number}" for i in below}
        top = [node for i, node in enumerate(top) if i not in below] + [f"n{number}"]
    return hierarchy or {0: "n"}


def leaves_of(hierarchy, n_classes):
    """The classes below each node, as a dict of sets."""
    found = {label: {label} for label in range(n_classes)}
    for label in range(n_classes):
        node = label
        while node in hierarchy:
            node = hierarchy[node]
            found.setdefault(node, set()).add(label)
    return found


def description(labels, leaves):
    """The fewest nodes that describe a set: those inside it that no other inside it holds."""
    inside = {node: below for node, below in leaves.items() if below <= labels}
    largest = {
        node for node, below in inside.items() if not any(below < more for more in inside.values())
    }
    # Of nodes with the same classes, the lowest, which comes first.
    return {
        node: inside[node]
        for node in inside
        if node in largest
        and next(each for each, below in inside.items() if below == inside[node]) == node
    }


def slow_entry(conformity, proba, leaves, max_size):
    """The definition, one label after another."""
    labels, entered = set(), {}
    for label in np.argsort(-conformity, kind="stable").tolist():
        if label in labels:
            continue
        labels = labels | {label}
        entered[label] = conformity[label]
        nodes = description(labels, leaves)
        if len(nodes) <= max_size:
            continue
        ancestors = [
            below for below in leaves.values() if sum(each <= below for each in nodes.values()) > 1
        ]
        best = min(
            ancestors, key=lambda below: (len(below - labels), -sum(proba[list(below - labels)]))
        )
        entered |= {each: conformity[label] for each in best - labels}
        labels |= best
        assert len(description(labels, leaves)) <= max_size
    return [entered[label] for label in range(len(conformity))]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("max_size", [1, 2, 3, 7])
@pytest.mark.parametrize("n_classes", [1, 2, 5, 12])
def test_labels_enter_as_defined(n_classes, max_size, tied, rng):
    for _ in range(8):
        hierarchy = tree(n_classes, rng)
        proba = rng.dirichlet(np.ones(n_classes), size=6)
        conformity = rng.normal(size=proba.shape)
        conformity = conformity.round() if tied else conformity
        leaves = leaves_of(hierarchy, n_classes)
        read = read_hierarchy(hierarchy, np.arange(n_classes))
        expected = [
            slow_entry(*rows, leaves, max_size) for rows in zip(conformity, proba, strict=True)
        ]
        np.testing.assert_array_equal(read.entry(conformity, proba, max_size), expected)


@pytest.mark.parametrize("method", CONFORMAL)
@pytest.mark.parametrize("max_size", [1, 2, 3])
def test_sets_are_few_nodes_and_nested(method, max_size, rng):
    X, y = draw(600, n_classes=8)
    leaves = leaves_of(EIGHT, 8)
    before = np.zeros((300, 8), dtype=bool)
    clf = SetClassifier(frozen(), method=method, hierarchy=EIGHT, max_size=max_size, random_state=0)
    for coverage in (0.3, 0.6, 0.8, 0.95):
        clf.set_params(coverage=coverage).fit(X[:300], y[:300])
        matrix = clf.predict_set(X[300:]).toarray()
        nodes = clf.predict_set(X[300:], output="nodes")
        labels = clf.predict_set(X[300:], output="labels")
        assert (matrix >= before).all()
        assert max(map(len, nodes)) <= max_size
        for row, own, ranked in zip(matrix, nodes, labels, strict=True):
            expected = set(np.flatnonzero(row).tolist())
            assert set(own) == set(description(expected, leaves))
            assert set(ranked.tolist()) == expected
            # Nodes stand where the first of their labels does.
            places = [min(ranked.tolist().index(label) for label in leaves[node]) for node in own]
            assert places == sorted(places)
        before = matrix
    assert max(map(len, nodes)) == max_size


def entries_of_draws(n, max_size, method="lac"):
    """Conformity of all labels, plain and with the hierarchy, and of the right one, by draw."""
    X, y = draw(N_DRAWS * n, seed=max_size)
    read = read_hierarchy(EIGHT, np.arange(8))
    prevalence = np.geomspace(1, 0.1, 8) / np.geomspace(1, 0.1, 8).sum()
    kind = {"k": 2, "penalty": 0.01, "prevalence": prevalence if method == "pas" else None}
    plain = Conformity(method, **kind)
    ours = Conformity(method, **kind, hierarchy=read, max_size=max_size)
    u = np.random.default_rng(1).random(len(X))
    rows = np.arange(len(y))
    for conformity in (plain(X, u), ours(X, u)):
        of_label = conformity[rows, y].reshape(N_DRAWS, n)
        yield conformity.reshape(N_DRAWS, n, 8), of_label


@pytest.mark.parametrize("method", CONFORMAL)
@pytest.mark.parametrize("max_size", [1, 2])
def test_coverage_is_what_was_promised_and_no_more(method, max_size):
    n, n_new, coverage = 39, 20, 0.9
    (plain, plain_label), (ours, our_label) = entries_of_draws(n + n_new, max_size, method)
    threshold = np.array([conformal_threshold(each, coverage) for each in our_label[:, :n]])
    covered = our_label[:, n:] >= threshold[:, None]
    slack = 4 * covered.mean(axis=1).std() / N_DRAWS**0.5
    assert abs(covered.mean() - coverage) < slack < 0.02  # 36 of 40 gaps
    # Sets of labels that are widened afterwards cover more than asked, and are larger.
    narrow = np.array([conformal_threshold(each, coverage) for each in plain_label[:, :n]])
    assert (our_label[:, n:] >= narrow[:, None]).mean() > coverage + slack
    size, widened = (
        (ours[:, n:] >= least[:, None, None]).sum(axis=2).mean() for least in (threshold, narrow)
    )
    assert size < widened - 0.1
    # Those that are cut cover less.
    best = np.sort(plain[:, n:], axis=2)[..., -max_size]
    least = np.maximum(narrow[:, None], best)
    assert (plain_label[:, n:] >= least).mean() < coverage - slack


@pytest.mark.parametrize("method", CONFORMAL)
def test_classifier_thresholds_what_was_simulated(method):
    X, y = draw(200)
    clf = SetClassifier(
        frozen(), method=method, hierarchy=EIGHT, max_size=2, coverage=0.7, random_state=0
    ).fit(X[:150], y[:150])
    conformity = Conformity(
        method, 5, 0.1, clf.prevalence_, hierarchy=read_hierarchy(EIGHT, np.arange(8)), max_size=2
    )
    u = conformity.draw(X, 200, clf._seed)
    of_label = conformity(X[:150], u[:150])[np.arange(150), y[:150]]
    assert clf.threshold_ == conformal_threshold(of_label, 0.7)
    expected = conformity(X[150:], np.ones(50)) >= clf.threshold_
    np.testing.assert_array_equal(clf.predict_set(X[150:]).toarray(), expected)


def test_groups_have_their_own_coverage():
    n, covered = 60, []
    clf = SetClassifier(
        frozen(), method="lac", conditional="group", hierarchy=EIGHT, max_size=1, coverage=0.8
    )
    groups = np.arange(200) % 2
    for seed in range(100):
        X, y = draw(200, seed=seed)
        X[groups == 1] = 1 / 8 + np.random.default_rng(seed).random((100, 8)) / 99
        clf.fit(X[:n], y[:n], groups=groups[:n])
        sets = clf.predict_set(X[n:], groups=groups[n:]).toarray()
        assert max(map(len, clf.predict_set(X[n:], groups=groups[n:], output="nodes"))) == 1
        inside = sets[np.arange(200 - n), y[n:]]
        covered.append([inside[groups[n:] == group].mean() for group in (0, 1)])
    slack = 4 * np.std(covered, axis=0) / 10
    assert (np.mean(covered, axis=0) > 0.8 - slack).all()
    assert np.mean(covered, axis=0)[0] < 0.8 + 2 / 31 + slack[0]


def test_without_max_size_nodes_are_another_name_for_the_same_sets():
    X, y = draw(400)
    clf = SetClassifier(frozen(), method="lac", conditional="class", hierarchy=EIGHT, coverage=0.6)
    plain = clone(clf).set_params(hierarchy=None)
    with pytest.warns(UserWarning, match="needs at least"):
        clf.set_params(coverage=0.99).fit(X, y)
    clf.set_params(coverage=0.6).fit(X, y)
    plain.fit(X, y)
    assert (clf.predict_set(X) != plain.predict_set(X)).nnz == 0
    sizes = [len(nodes) for nodes in clf.predict_set(X, output="nodes")]
    assert np.mean(sizes) < plain.predict_set(X).sum(axis=1).mean()
    with pytest.raises(ValueError, match=r'output="nodes" needs a hierarchy in fit; got hier'):
        plain.predict_set(X, output="nodes")


def test_empty_sets_may_be_filled():
    X, y = np.tile([[0.9, 0.1], [0.6, 0.4]], (50, 1)), np.zeros(100, dtype=int)
    given = FrozenEstimator(Given([0, 1]).fit(None, None))
    clf = SetClassifier(given, method="lac", coverage=0.4, hierarchy={0: "r", 1: "r"}, max_size=1)
    found = clf.fit(X, y).predict_set(X[:2], output="nodes")
    assert [each.tolist() for each in found] == [[0], []]
    found = clf.set_params(empty="top1").predict_set(X[:2], output="nodes")
    assert [each.tolist() for each in found] == [[0], [0]]


SPECIES = ["Abies alba", "Picea abies", "Quercus ilex", "Quercus robur"]
LINEAGE = pd.DataFrame(
    {
        "species": [*SPECIES, "Quercus suber"],
        "genus": ["Abies", "Picea", "Quercus", "Quercus", "Quercus"],
        "family": ["Pinaceae", "Pinaceae", "Fagaceae", "Fagaceae", "Fagaceae"],
        "kingdom": "Plantae",
    }
)
PAIRS = {
    **dict(zip(LINEAGE.species, LINEAGE.genus, strict=True)),
    **dict(zip(LINEAGE.genus, LINEAGE.family, strict=True)),
    **dict(zip(LINEAGE.family, LINEAGE.kingdom, strict=True)),
}
CONTAINERS = {
    "mapping": PAIRS,
    "mapping with a root": PAIRS | {"Plantae": None},
    "mapping with a root of its own": PAIRS | {"Plantae": "Plantae"},
    "series": pd.Series(PAIRS),
    "pairs": pd.DataFrame(PAIRS.items(), columns=["child", "parent"]),
    "polars": pl.DataFrame([list(pair) for pair in PAIRS.items()], orient="row"),
    "lineage": LINEAGE,
    "lineage of polars": pl.DataFrame(LINEAGE.to_dict("list")),
    "lineage with gaps": LINEAGE.assign(order=np.nan, genus=LINEAGE.genus.astype("string"))[
        ["species", "genus", "order", "family", "kingdom"]
    ],
    "categories": LINEAGE.astype("category"),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", [str, object])
def test_taxonomies_of_every_container(container, kind):
    read = read_hierarchy(CONTAINERS[container], np.array(SPECIES, dtype=kind))
    # Quercus suber is no class; Abies and Picea have one each, and say no more than it.
    assert set(read.names) == {"Quercus", "Pinaceae", "Plantae"} - {"Pinaceae"} | {"Pinaceae"}
    parents = [read.nodes(np.array(SPECIES, dtype=kind))[i] for i in read.parent]
    assert parents[:4] == ["Pinaceae", "Pinaceae", "Quercus", "Quercus"]
    assert parents[-1] == "Plantae"


@pytest.mark.parametrize(
    ("labels", "hierarchy", "expected"),
    [
        ([1, 2, 3], {1: 10, 2: 10, 3: 11, 10: 12, 11: 12}, [10]),
        ([1, 2, 3], {1: "low", 2: "low", 3: "high", "low": "all", "high": "all"}, ["low"]),
        (["x", "y", "z"], {"x": 7, "y": 7, "z": 8, 7: 9, 8: 9}, [7]),
        ([False, True], {False: "any", True: "any"}, ["any"]),
        ([1.0, 2.0, 3.0], {1: "low", 2: "low", 3: "all", "low": "all"}, ["low"]),
    ],
)
def test_nodes_are_texts_or_numbers(labels, hierarchy, expected, tmp_path):
    X = np.tile(np.array([0.5, 0.4, 0.1])[: len(labels)], (40, 1))
    y = np.array(labels)[np.arange(40) % 2]
    params = {"method": "lac", "hierarchy": hierarchy, "max_size": 1}
    clf = SetClassifier.from_scores(X, y, classes=labels, **params)
    assert clf.predict_set(X[:1], output="nodes")[0].tolist() == expected
    loaded = load(dump(clf, tmp_path / "sets.sktopk"))
    assert loaded.predict_set(X[:1], output="nodes")[0].tolist() == expected
    assert loaded.hierarchy == hierarchy


@pytest.mark.parametrize("container", ["mapping", "series", "lineage", "lineage with gaps"])
def test_comes_back_from_files(container, tmp_path):
    X, y = draw(300, n_classes=4)
    y = np.array(SPECIES)[y]
    clf = SetClassifier(GaussianNB(), method="lac", max_size=1, random_state=0)
    clf.set_params(hierarchy=CONTAINERS[container]).fit(X, y)
    for again in (load(dump(clf, tmp_path / "sets.sktopk")), pickle.loads(pickle.dumps(clf))):
        assert (again.predict_set(X) != clf.predict_set(X)).nnz == 0
        assert again.fit(X, y).threshold_ == clf.threshold_


def test_no_classifier_a_pipeline_and_weights(tmp_path):
    X, y = load_digits(return_X_y=True)
    params = {"method": "lac", "hierarchy": DIGITS, "max_size": 1, "random_state": 0}
    inner = LogisticRegression(max_iter=200).fit(X[:600] / 16, y[:600])
    proba = inner.predict_proba(X[600:] / 16)
    ours = SetClassifier.from_scores(proba[:600], y[600:1200], **params)
    clf = SetClassifier(FrozenEstimator(inner), **params).fit(X[600:1200] / 16, y[600:1200])
    expected = clf.predict_set(X[1200:] / 16, output="nodes")
    for found, nodes in zip(ours.predict_set(proba[600:], output="nodes"), expected, strict=True):
        np.testing.assert_array_equal(found, nodes)
    assert {len(nodes) for nodes in expected} == {0, 1}
    pipe = make_pipeline(StandardScaler(), SetClassifier(GaussianNB(), **params))
    pipe.fit(X, y, setclassifier__sample_weight=1 + y)
    assert {"round"} <= {nodes[0] for nodes in pipe.predict_set(X, output="nodes")}


REFUSED = {
    "a list": ([("a", "b")], TypeError, "hierarchy must be a mapping of child to parent, or a fr"),
    "a word": ("taxonomy", TypeError, "hierarchy must be a mapping .*got 'taxonomy'"),
    "nodes are lists": ({0: ["a"]}, TypeError, r"hierarchy must have texts or .*; got \['a'\]"),
    "one column": (pd.DataFrame({"a": [1]}), ValueError, r"hierarchy must have a column .*\['a'\]"),
    "a class is missing": (
        {0: "a", 1: "a"},
        ValueError,
        r"hierarchy must have a parent for every class; got none for 2, 3$",
    ),
    "texts for numbers": (
        {str(i): "a" for i in range(4)},
        ValueError,
        "got none for 0, 1, 2, 3, but for '0', which is of another kind",
    ),
    "several roots": (
        {0: "a", 1: "a", 2: "b", 3: "b"},
        ValueError,
        "hierarchy must have one root above all classes; got 'a', 'b'",
    ),
    "a circle": (
        {0: "a", 1: "a", 2: "a", 3: "a", "a": "b", "b": "c", "c": "a"},
        ValueError,
        "hierarchy must have no circle; got 'a' below 'b' below 'c' below 'a'",
    ),
    "a class is a parent": (
        {0: 3, 1: 3, 2: "a", 3: "a"},
        ValueError,
        "hierarchy must have the classes as leaves; got 3 as a parent of 0, 1",
    ),
    "two parents": (
        pd.DataFrame([[0, "a"], [0, "b"]], columns=["child", "parent"]),
        ValueError,
        "hierarchy must give each child one parent; got 'a' and 'b' for 0",
    ),
    "texts and numbers": (
        {0: 10, 1: 10, 2: "a", 3: "a", 10: "b", "a": "b"},
        ValueError,
        "hierarchy must name its inner nodes all by texts or all by numbers",
    ),
}


@pytest.mark.parametrize(("hierarchy", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_hierarchies_are_checked(hierarchy, error, message):
    X, y = draw(60, n_classes=4)
    with pytest.raises(error, match=message):
        SetClassifier(frozen(4), method="lac", hierarchy=hierarchy).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "topk"}, "hierarchy must be None for method='topk', which promises no cov"),
        ({"method": "average_k"}, "hierarchy must be None for method='average_k'"),
        ({"conditional": "class", "max_size": 2}, "hierarchy with max_size takes conditional=None"),
        ({"conditional": "cluster", "max_size": 2}, "or 'group': .*; got 'cluster'"),
    ],
)
def test_what_does_not_go_together_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        SetClassifier(frozen(), **{"method": "lac", "hierarchy": EIGHT} | params).fit(*draw(60))


def test_taxonomy_stays_as_it_is():
    X, y = draw(100)
    given, before = dict(EIGHT), dict(EIGHT)
    clf = SetClassifier(frozen(), method="lac", hierarchy=given, max_size=2).fit(X, y)
    clf.predict_set(X, output="nodes")
    assert given == before
    # What the threshold was found for stays, whatever is set later.
    sets = clf.predict_set(X)
    assert (clf.set_params(max_size=1, hierarchy=None).predict_set(X) != sets).nnz == 0


@pytest.mark.filterwarnings("ignore:coverage=0.9 needs at least", "ignore:.*single row")
@parametrize_with_checks(
    [SetClassifier(LogisticRegression(), method="lac", hierarchy=ANY, max_size=1)]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


FORGED = {
    "a circle": (["a", "b"], [4, 4, 4, 5, 5, 4]),
    "beyond the root": (["a", "b"], [4, 4, 5, 5, 9, 5]),
    "below itself": (["a", "b"], [4, 4, 4, 4, 4, 5]),
    "a class as a parent": (["a", "b"], [1, 4, 4, 5, 5, 5]),
    "a single child": (["a", "b"], [4, 5, 5, 5, 5, 5]),
    "too few names": (["a"], [4, 4, 5, 5, 5, 5]),
    "negative": (["a", "b"], [-1, 4, 4, 5, 5, 5]),
    "no integers": (["a", "b"], [4.0, 4.0, 5.0, 5.0, 5.0, 5.0]),
}


@pytest.mark.parametrize(("names", "parent"), FORGED.values(), ids=FORGED)
def test_files_with_what_is_no_tree_are_refused(names, parent, tmp_path):
    X, y = draw(300, n_classes=4)
    params = {
        "method": "lac",
        "max_size": 1,
        "hierarchy": {0: "a", 1: "a", 2: "b", 3: "b", "a": "b"},
    }
    clf = SetClassifier.from_scores(X, y, **params)
    assert clf._conformity.hierarchy.parent.tolist() == [4, 4, 5, 5, 5, 5]
    load(dump(clf, tmp_path / "sets.sktopk"))
    forged = Hierarchy(np.array(names), np.array(parent))
    clf._conformity = replace(clf._conformity, hierarchy=forged)
    with pytest.raises(ValueError, match="_conformity of SetClassifier has a wrong type, shape or"):
        load(dump(clf, tmp_path / "sets.sktopk"))
