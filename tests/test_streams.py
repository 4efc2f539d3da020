"""Streams: pieces to train on one after another, and the best rows of all pieces."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from sktopk import AUCClassifier, BudgetClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((230, 4)).astype(np.float32)
Y = (X[:, :3] + 0.3 * rng.standard_normal((230, 3))).argmax(axis=1)
POSITIVE = Y == 1
WEIGHT = rng.random(230)
SMALL = {
    "module": MLP,
    "hidden_layer_sizes": (5,),
    "batch_size": 32,
    "device": "cpu",
    "random_state": 0,
}
CUTS = [0, 70, 71, 130, 230]


def pieces(*columns):
    """Tuples of slices of the columns."""
    for start, stop in pairwise(CUTS):
        yield tuple(column[start:stop] for column in columns)


class Stream(IterableDataset):
    def __iter__(self):
        return pieces(torch.from_numpy(X), torch.from_numpy(Y))


class Sized:
    """A sequence of pieces that can be looped over again, and has a length."""

    def __len__(self):
        return len(CUTS) - 1

    def __iter__(self):
        return pieces(X, Y)


STREAMS = {
    "generator": lambda: pieces(X, Y),
    "with weights": lambda: pieces(X, Y, WEIGHT),
    "without weights": lambda: ((*piece, None) for piece in pieces(X, Y)),
    "lists": lambda: map(list, pieces(X, Y)),
    "tensors": lambda: pieces(torch.from_numpy(X), torch.from_numpy(Y)),
    "sparse": lambda: pieces(csr_array(X), Y),
    "frames": lambda: pieces(pd.DataFrame(X, columns=list("abcd")), pd.Series(Y)),
    "again and again": Sized,
    "IterableDataset": Stream,
    "loader of a stream": lambda: DataLoader(Stream(), batch_size=None),
}


@pytest.mark.parametrize("name", STREAMS)
def test_training_equals_partial_fit_of_each_piece(name):
    expected, found = TopKClassifier(k=1, **SMALL), TopKClassifier(k=1, **SMALL)
    weights = WEIGHT if name == "with weights" else np.ones(len(X))
    table = pd.DataFrame(X, columns=list("abcd")) if name == "frames" else X
    for part, y, weight in pieces(table, Y, weights):
        expected.partial_fit(part, y, [0, 1, 2], weight if name == "with weights" else None)
    assert found.partial_fit(STREAMS[name](), classes=[0, 1, 2]) is found
    assert found.n_iter_ == len(CUTS) - 1
    np.testing.assert_array_equal(found.decision_function(table), expected.decision_function(table))
    np.testing.assert_array_equal(found.class_count_, expected.class_count_)


def test_batches_of_a_loader_train_a_ranker():
    loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(POSITIVE)), 60)
    expected = DeepTopPushClassifier(buffer_size=3, **SMALL)
    for start in range(0, len(X), 60):
        expected.partial_fit(X[start : start + 60], POSITIVE[start : start + 60])
    found = DeepTopPushClassifier(buffer_size=3, **SMALL).partial_fit(loader)
    np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))
    np.testing.assert_array_equal(found.predict_top(loader, 20), expected.predict_top(X, 20))


def unlabelled_third():
    yield from [(X[:70], Y[:70]), (X[70:130], Y[70:130])]
    yield X[130:]


def broken_third():
    yield from [(X[:70], Y[:70]), (X[70:130], Y[70:130]), (X[130:] * np.nan, Y[130:])]


def unknown_third():
    yield from [(X[:70], Y[:70]), (X[70:130], Y[70:130]), (X[130:], Y[130:] + 9)]


def ends_in_an_error():
    yield from [(X[:70], Y[:70]), (X[70:130], Y[70:130])]
    raise OSError("no such disk")


@pytest.mark.parametrize(
    ("stream", "error", "says"),
    [
        (unlabelled_third, ValueError, "piece 3 is ndarray"),
        (
            lambda: ((*p[:1], None) if p[0] is None else p for p in with_none()),
            ValueError,
            "piece 3",
        ),
        (broken_third, ValueError, "contains NaN"),
        (unknown_third, ValueError, "not among the classes"),
        (ends_in_an_error, OSError, "no such disk"),
    ],
)
def test_what_came_before_a_bad_piece_stays_learnt(stream, error, says):
    expected = (
        TopKClassifier(k=1, **SMALL).partial_fit(X[:70], Y[:70]).partial_fit(X[70:130], Y[70:130])
    )
    clf = TopKClassifier(k=1, **SMALL)
    with pytest.raises(error, match=says) as raised:
        clf.partial_fit(stream())
    if stream in (broken_third, unknown_third):
        assert "piece 3 of the stream" in raised.value.__notes__[0]
    assert clf.n_iter_ == 2
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))
    # And it goes on from there.
    for model in (clf, expected):
        model.partial_fit(X[130:], Y[130:])
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))


def with_none():
    yield from [(X[:70], Y[:70]), (X[70:130], Y[70:130]), (X[130:], None)]


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (iter([]), "must have pieces; it has none"),
        (iter([X]), "piece 1 is ndarray"),
        (iter([(X,)]), "piece 1 is a tuple of 1"),
        (iter([(X, Y, WEIGHT, 0)]), "piece 1 is a tuple of 4"),
        (iter([(X, None)]), "piece 1 has none"),
        (iter([{"X": X, "y": Y}]), "piece 1 is dict"),
    ],
)
def test_refused_as_pieces(stream, says):
    clf = TopKClassifier(k=1, **SMALL)
    with pytest.raises(ValueError, match=says):
        clf.partial_fit(stream, classes=[0, 1, 2])
    assert not hasattr(clf, "net_")


def test_labels_beside_a_stream_and_streams_in_other_places_are_refused():
    clf = TopKClassifier(k=1, **SMALL)
    with pytest.raises(ValueError, match="y must be None if X is a stream"):
        clf.partial_fit(pieces(X, Y), Y)
    with pytest.raises(ValueError, match="sample_weight must be None if X is a stream"):
        clf.partial_fit(pieces(X, Y), sample_weight=WEIGHT)
    with pytest.raises(TypeError, match=r"a stream, generator.*train by partial_fit"):
        clf.fit(pieces(X, Y))
    clf.fit(X, Y)
    for method in ("predict", "decision_function", "predict_topk", "score"):
        with pytest.raises(TypeError, match=r"a stream, generator.*piece by piece"):
            getattr(clf, method)(pieces(X, Y))
    with pytest.raises(AttributeError) as caught:
        TopKClassifier(early_stopping=True).partial_fit(pieces(X, Y))
    assert "early_stopping=True, which needs all data at once" in str(caught.value)


@pytest.fixture(scope="module")
def rankers():
    fitted = [make(max_epochs=3, **SMALL).fit(X, POSITIVE) for make in RANKERS]
    with torch.no_grad():
        for parameter in [p for clf in fitted for p in clf.net_.module_.parameters()]:
            # Products of quarters are exact: a row scores the same in any batch.
            parameter.copy_((4 * parameter).round() / 4)
    return fitted


RANKERS = DeepTopPushClassifier, AUCClassifier
# Few distinct rows, so that scores tie.
TIED = (4 * X[np.random.default_rng(1).integers(0, 40, 230)]).round() / 4
CHUNKS = {
    "arrays": lambda folder: (piece for (piece,) in pieces(TIED)),
    "tuples": lambda folder: pieces(TIED, Y),
    "tensors": lambda folder: pieces(torch.from_numpy(TIED)),
    "sparse": lambda folder: pieces(csr_array(TIED)),
    "loader": lambda folder: DataLoader(TensorDataset(torch.from_numpy(TIED)), 50),
    "lists": lambda folder: (piece.tolist() for (piece,) in pieces(TIED)),
    "Dataset": lambda folder: TensorDataset(torch.from_numpy(TIED)),
    "memory map": lambda folder: memory_map(folder),
}


def memory_map(folder):
    np.save(folder / "X.npy", TIED)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("name", CHUNKS)
def test_the_best_of_a_stream_are_those_of_the_table(name, rankers, tmp_path, monkeypatch):
    # So that tables on disk come in parts, too.
    monkeypatch.setattr("sktopk._common._streams._PART_ROWS", 64)
    for clf in rankers:
        order = np.argsort(-clf.decision_function(TIED), kind="stable")
        for n in (1, 30, 230):
            found = clf.predict_top(CHUNKS[name](tmp_path), n)
            np.testing.assert_array_equal(found, order[:n])
            np.testing.assert_array_equal(found, clf.predict_top(TIED, n))
        with pytest.raises(
            ValueError, match=r"n=231 must be at most the number of rows of X \(230"
        ):
            clf.predict_top(CHUNKS[name](tmp_path), 231)


@pytest.mark.filterwarnings("ignore:.* rows tie at")
@pytest.mark.parametrize("name", CHUNKS)
@pytest.mark.parametrize(
    ("params", "n"),
    [({}, None), ({}, 7), ({"budget": 9, "per": "batch"}, None), ({"per": "batch"}, None)],
    ids=str,
)
def test_the_rows_of_a_budget_are_those_of_the_table(name, params, n, tmp_path, monkeypatch):
    monkeypatch.setattr("sktopk._common._streams._PART_ROWS", 64)
    clf = BudgetClassifier(FrozenEstimator(LogisticRegression().fit(X, POSITIVE)), **params)
    clf.fit(X, POSITIVE)
    expected = clf.predict_top(TIED, n)
    if n is None:
        assert sorted(expected) == np.flatnonzero(clf.predict(TIED)).tolist()
    np.testing.assert_array_equal(clf.predict_top(CHUNKS[name](tmp_path), n), expected)


def test_budgets_of_streams_warn_and_refuse_as_those_of_tables():
    inner = FrozenEstimator(LogisticRegression().fit(X, POSITIVE))
    with pytest.raises(NotFittedError):
        BudgetClassifier(inner).predict_top(pieces(TIED))
    clf = BudgetClassifier(inner).fit(X, POSITIVE)
    # The second row of a pair is left out, in the piece after that of the first.
    best = int(np.argmax(clf.decision_function(X)))
    twice = np.concatenate([X[best : best + 1], X[:70], X[best : best + 1]])
    n_tied = 2 + (best < 70)
    with pytest.warns(UserWarning, match=f"{n_tied} rows tie at the cut; broken by row order"):
        assert clf.predict_top((twice[i : i + 1] for i in range(len(twice))), 1).tolist() == [0]
    with pytest.warns(UserWarning, match="n=300 but only 230 rows"):
        assert len(clf.predict_top(pieces(TIED), 300)) == 230
    with pytest.raises(ValueError, match='groups must be passed with per="group"'):
        clf.predict_top(pieces(TIED), 3, groups=Y)


def test_only_the_best_are_kept_in_memory(rankers):
    seen = []

    def chunks():
        for start in range(5):
            yield np.random.default_rng(start).standard_normal((1_000, 4), dtype=np.float32)
            # Nothing of the piece before is there when the next one is asked for.
            seen.append(start)

    scores = np.concatenate([rankers[0].decision_function(chunk) for chunk in chunks()])
    found = rankers[0].predict_top(chunks(), 10)
    np.testing.assert_array_equal(found, np.argsort(-scores, kind="stable")[:10])
