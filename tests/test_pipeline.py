"""A pipeline answers what its last step answers, with X sent through the other steps."""

import inspect
import pickle
import re
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline as Plain
from sklearn.pipeline import make_pipeline as make_plain
from sklearn.preprocessing import StandardScaler
from torch.utils.data import Dataset

import sktopk
from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    DeepTopPushClassifier,
    Pipeline,
    SetClassifier,
    TopKClassifier,
    make_pipeline,
)
from sktopk.io import dump, load
from sktopk.metrics import make_set_scorer, make_top_scorer, make_topk_scorer

QUICK = {"hidden_layer_sizes": (), "max_epochs": 3, "random_state": 0}
# What three epochs may say, and ties of few distinct rows.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.* rows tie at the cut"
)
DIGITS = load_digits(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)


def labels(**params):
    X, y = DIGITS
    return make_pipeline(StandardScaler(), PCA(5), TopKClassifier(k=3, **QUICK | params)).fit(X, y)


def ranker(last=None):
    X, y = CANCER
    last = DeepTopPushClassifier(**QUICK) if last is None else last
    return make_pipeline(StandardScaler(), last).fit(X, y)


def budget(**params):
    return BudgetClassifier(LogisticRegression(), random_state=0, **params)


def sets():
    X, y = DIGITS
    return make_pipeline(StandardScaler(), SetClassifier(GaussianNB(), random_state=0)).fit(X, y)


def as_arrays(answer):
    if isinstance(answer, list):
        return np.concatenate(answer)
    return answer.toarray() if hasattr(answer, "toarray") else answer


ANSWERS = {
    "predict_topk": (labels, DIGITS[0], ((), (2,))),
    "predict_topk_proba": (labels, DIGITS[0], ((), (2,))),
    "predict_top": (ranker, CANCER[0], ((7,), (569,))),
    "predict_set": (sets, DIGITS[0], ((),)),
    "hits_interval": (lambda: ranker(budget()), CANCER[0], ((50,), ([9, 99],))),
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_a_verb_answers_as_the_last_step_on_transformed_rows(verb):
    make, X, calls = ANSWERS[verb]
    pipe = make()
    for args in calls:
        expected = getattr(pipe[-1], verb)(pipe[:-1].transform(X), *args)
        found = getattr(pipe, verb)(X, *args)
        np.testing.assert_array_equal(as_arrays(found), as_arrays(expected))
        assert getattr(pipe, verb)(X, *args).__class__ is expected.__class__


def test_arguments_by_name():
    X, _ = DIGITS
    pipe, Xt = labels(), labels()[:-1].transform(X)
    np.testing.assert_array_equal(pipe.predict_topk(X, k=1), pipe[-1].predict_topk(Xt, k=1))
    some = sets()
    by_label = some.predict_set(X[:9], output="labels")
    assert [len(each) for each in by_label] == some.predict_set(X[:9]).sum(axis=1).tolist()


def test_every_verb_of_an_estimator_is_one_of_a_pipeline():
    # Of a table; scikit-learn's pipelines are not trained in pieces.
    beyond = {"partial_fit"}
    for name in sktopk.__all__:
        cls = getattr(sktopk, name)
        is_estimator = inspect.isclass(cls) and issubclass(cls, BaseEstimator)
        for verb in dir(cls) if is_estimator else ():
            method = inspect.getattr_static(cls, verb)
            takes_rows = hasattr(method, "__get__") and not verb.startswith("_")
            if takes_rows and verb not in beyond and callable(getattr(cls, verb)):
                if "X" in inspect.signature(getattr(cls, verb)).parameters:
                    assert hasattr(Pipeline, verb), (name, verb)


@pytest.mark.parametrize("last", [LogisticRegression(), "passthrough", None])
def test_a_verb_is_there_only_if_the_last_step_has_it(last):
    pipe = make_pipeline(StandardScaler(), last)
    for verb in ANSWERS:
        assert not hasattr(pipe, verb)
    assert hasattr(ranker(), "predict_top")
    assert not hasattr(ranker(), "predict_topk")
    assert hasattr(Pipeline([("clf", TopKClassifier())]), "predict_topk")
    for steps in ([], None, [TopKClassifier()], "ab"):
        assert not hasattr(Pipeline(steps), "predict_topk")


def test_rows_of_pipelines_within_pipelines_and_of_steps_that_pass():
    X, y = CANCER
    expected = ranker().predict_top(X, 20)
    clf = DeepTopPushClassifier(**QUICK)
    for steps in (
        ["passthrough", StandardScaler(), None, clf],
        [StandardScaler(), make_pipeline(clf)],
        [make_pipeline(StandardScaler()), make_pipeline("passthrough", clf)],
    ):
        pipe = make_pipeline(*[clone(s) if hasattr(s, "fit") else s for s in steps]).fit(X, y)
        np.testing.assert_array_equal(pipe.predict_top(X, 20), expected)
        np.testing.assert_array_equal(pipe.predict_top(iter([X[:99], X[99:]]), 20), expected)


def test_it_is_scikit_learns_in_all_else():
    pipe, plain = labels(), make_plain(StandardScaler(), PCA(5), TopKClassifier(k=3, **QUICK))
    assert isinstance(pipe, Plain)
    assert [name for name, _ in pipe.steps] == [name for name, _ in plain.steps]
    assert list(pipe.get_params()) == list(plain.get_params())
    assert repr(clone(pipe)) == repr(plain)
    assert inspect.signature(Pipeline) == inspect.signature(Plain)
    assert set(inspect.signature(make_pipeline).parameters) == set(
        inspect.signature(make_plain).parameters
    )
    for part in (pipe[1:], pipe[:1], clone(pipe), pickle.loads(pickle.dumps(pipe))):
        assert type(part) is Pipeline
    Xt = pipe[:1].transform(DIGITS[0])
    np.testing.assert_array_equal(pipe[1:].predict_topk(Xt), pipe.predict_topk(DIGITS[0]))
    html = pipe._repr_html_()
    assert all(type(step).__name__ in html for step in pipe)
    with pytest.raises(sklearn.exceptions.NotFittedError, match="This Pipeline instance"):
        clone(pipe).predict_topk(DIGITS[0])


def test_the_verbs_of_a_plain_pipeline_that_is_fitted():
    X, y = CANCER
    plain = make_plain(StandardScaler(), DeepTopPushClassifier(**QUICK)).fit(X, y)
    guide = (Path(__file__).parents[1] / "docs" / "guide" / "estimator.rst").read_text()
    with pytest.raises(AttributeError) as error:
        plain.predict_top(X, 5)
    # Who looks for what it says finds the way out.
    assert f"AttributeError: {error.value}\n" in guide
    assert "``sktopk.Pipeline(pipe.steps)``" in guide
    expected = plain.decision_function(X).argsort(stable=True)[::-1][:5]
    np.testing.assert_array_equal(Pipeline(plain.steps).predict_top(X, 5), expected)


def test_frames_and_texts():
    X, y = CANCER
    frame = pd.DataFrame(X).add_prefix("x")
    pipe = clone(ranker()).set_output(transform="pandas").fit(frame, y)
    np.testing.assert_array_equal(pipe.predict_top(frame, 9), ranker().predict_top(X, 9))
    assert pipe.feature_names_in_[0] == "x0"
    texts = ["gold iron", "iron", "gold gold", "lead"] * 10
    words = make_pipeline(CountVectorizer(), DeepTopPushClassifier(**QUICK))
    words.fit(texts, np.array(["gold" in text for text in texts]))
    expected = words.predict_top(texts, 20)
    pieces = (texts[i : i + 7] for i in range(0, 40, 7))
    np.testing.assert_array_equal(words.predict_top(pieces, 20), expected)


class Rows(Dataset):
    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i]


STREAMS = {
    "pieces": lambda X, folder: (X[i : i + 100] for i in range(0, len(X), 100)),
    "tuples": lambda X, folder: ((X[i : i + 100], None) for i in range(0, len(X), 100)),
    "Dataset": lambda X, folder: Rows(X),
    "memory map": lambda X, folder: memory_map(X, folder),
}


def memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("name", STREAMS)
def test_each_piece_of_a_stream_is_transformed(name, tmp_path, monkeypatch):
    monkeypatch.setattr("sktopk._common._streams._PART_ROWS", 64)
    X, _ = CANCER
    stream = STREAMS[name]
    for last, n in [(None, 20), (budget(), 20), (budget(), None), (budget(per="batch"), None)]:
        pipe = ranker(last)
        found = pipe.predict_top(stream(X, tmp_path), n)
        np.testing.assert_array_equal(found, pipe.predict_top(X, n))


def test_no_more_than_a_piece_is_transformed_at_a_time():
    X, y = CANCER
    sizes = []

    class Seen(StandardScaler):
        def transform(self, X):
            sizes.append(len(X))
            return super().transform(X)

    def pieces():
        for start in range(0, 500, 100):
            yield X[start : start + 100]
            # What came is asked for before the next one is.
            assert len(sizes) == start // 100 + 1

    pipe = make_pipeline(Seen(), DeepTopPushClassifier(**QUICK)).fit(X, y)
    sizes.clear()
    pipe.predict_top(pieces(), 5)
    assert sizes == [100] * 5


def test_views_are_transformed_each():
    X, _ = DIGITS
    pipe = labels()
    other = X[:, ::-1]
    each = [pipe.predict_topk_proba(view) for view in (X, other)]
    mean = (each[0] + each[1]) / 2
    np.testing.assert_allclose(pipe.predict_topk_proba([X, other]), mean, rtol=1e-12)
    views = [lambda X: X, lambda X: X[:, ::-1]]
    np.testing.assert_allclose(pipe.predict_topk_proba(X, transform=views), mean, rtol=1e-12)
    with pytest.raises(TypeError, match="transform must be a list of callables"):
        pipe.predict_topk_proba(X, transform="flip")


@pytest.mark.parametrize("routed", [False, True])
def test_groups_reach_the_last_step(routed):
    X, _ = CANCER
    groups = np.arange(len(X)) % 4
    with sklearn.config_context(enable_metadata_routing=routed):
        pipe = ranker(budget(budget=3, per="group"))
        flagged = np.flatnonzero(pipe.predict(X, groups=groups))
        found = pipe.predict_top(X, groups=groups)
        assert sorted(found) == flagged.tolist()
        assert np.bincount(groups[pipe.predict_top(X, 5, groups=groups)]).tolist() == [5] * 4
        with pytest.raises(ValueError, match="groups must be passed"):
            pipe.predict_top(X)
        if routed:
            with pytest.raises(TypeError, match="other"):
                pipe.predict_top(X, other=groups)


def test_groups_of_sets_are_an_argument():
    X, y = DIGITS
    groups = np.where(y > 4, "high", "low")
    with sklearn.config_context(enable_metadata_routing=True):
        last = SetClassifier(GaussianNB(), conditional="group", method="lac", random_state=0)
        pipe = make_pipeline(StandardScaler(), last).fit(X, y, groups=groups)
        expected = last.predict_set(pipe[0].transform(X), groups=groups).toarray()
        np.testing.assert_array_equal(pipe.predict_set(X, groups=groups).toarray(), expected)
        with pytest.raises(ValueError, match="groups must be passed"):
            pipe.predict_set(X)


def test_metadata_reach_the_steps_that_request_them():
    X, y = CANCER

    class Shift(StandardScaler):
        def transform(self, X, shift=None):
            return super().transform(X) * (1 if shift is None else shift)

    with sklearn.config_context(enable_metadata_routing=True):
        steps = Shift().set_transform_request(shift=True), DeepTopPushClassifier(**QUICK)
        pipe = make_pipeline(*steps).fit(X, y)
        upside_down = pipe.predict_top(X, len(X), shift=-1)
        assert pipe.predict_top(X, 1)[0] == upside_down[-1]


def test_validation_rows_go_through_the_steps():
    X, y = CANCER
    clf = DeepTopPushClassifier(**QUICK)
    with sklearn.config_context(enable_metadata_routing=True):
        clf.set_fit_request(X_val=True, y_val=True)
        pipe = make_pipeline(StandardScaler(), clf, transform_input=["X_val"])
        pipe.fit(X, y, X_val=X[:90], y_val=y[:90])
        found = pipe.predict_top(X, 9)
    Xt = StandardScaler().fit_transform(X)
    alone = DeepTopPushClassifier(**QUICK).fit(Xt, y, X_val=Xt[:90], y_val=y[:90])
    assert [row["valid_score"] for row in pipe[-1].history_] == [
        row["valid_score"] for row in alone.history_
    ]
    np.testing.assert_array_equal(found, alone.predict_top(Xt, 9))


def test_searches_and_frozen_ones():
    X, y = DIGITS
    grid = {"topkclassifier__tau": [0.3, 1.0]}
    search = GridSearchCV(clone(labels()), grid, scoring=make_topk_scorer(3), cv=2).fit(X, y)
    assert search.best_estimator_.predict_topk(X[:4]).shape == (4, 3)
    frozen = FrozenEstimator(search.best_estimator_)
    expected = search.best_estimator_.predict_topk(X)
    np.testing.assert_array_equal(frozen.predict_topk(X), expected)
    inside = make_pipeline(FrozenEstimator(labels()[0]), FrozenEstimator(labels()[1:])).fit(X, y)
    np.testing.assert_array_equal(inside.predict_topk(X), labels().predict_topk(X))
    scoring = make_set_scorer("coverage")
    found = GridSearchCV(clone(sets()), {"setclassifier__k": [2, 4]}, scoring=scoring, cv=2)
    assert found.fit(X, y).best_params_ == {"setclassifier__k": 4}
    top = make_top_scorer("precision_at_k", k=50)
    assert top(ranker(), *CANCER) == top(Plain(ranker().steps), *CANCER)


def test_calibrated_ones_have_probabilities_and_decisions_on_top_the_verbs():
    X, y = CANCER
    calibrated = CalibratedClassifierCV(FrozenEstimator(ranker())).fit(X, y)
    assert not hasattr(calibrated, "predict_top")
    desk = BudgetClassifier(FrozenEstimator(calibrated), budget=9, per="batch").fit(X, y)
    assert len(desk.predict_top(X)) == 9
    last = make_pipeline(StandardScaler(), CalibratedClassifierCV(LogisticRegression())).fit(X, y)
    assert hasattr(last, "predict_proba")
    assert not hasattr(last, "predict_top")


def test_out_of_bag_attributes_are_those_of_the_last_step():
    X, y = CANCER
    forest = RandomForestClassifier(20, oob_score=True, random_state=0)
    pipe = make_pipeline(StandardScaler(), forest)
    assert not hasattr(pipe, "oob_score_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.fit(X, y)
    assert pipe.oob_score_ == forest.oob_score_
    assert pipe.oob_decision_function_ is forest.oob_decision_function_
    assert not hasattr(pipe, "feature_importances_")
    with pytest.raises(AttributeError, match="'Pipeline' object has no attribute 'nonsense'"):
        _ = pipe.nonsense


@pytest.mark.parametrize("make", [labels, sets, lambda: ranker(budget())], ids=["k", "sets", "top"])
def test_files_keep_the_kind_of_pipeline(make, tmp_path):
    pipe = make()
    X = DIGITS[0] if pipe.n_features_in_ == 64 else CANCER[0]
    back = load(dump(pipe, tmp_path / "pipe"))
    assert type(back) is Pipeline
    assert repr(back) == repr(pipe)
    for verb, (_, _, calls) in ANSWERS.items():
        assert hasattr(back, verb) == hasattr(pipe, verb)
        if hasattr(pipe, verb):
            found, expected = (
                as_arrays(getattr(each, verb)(X, *calls[0])) for each in (back, pipe)
            )
            np.testing.assert_array_equal(found, expected)
    plain = Plain(pipe.steps)
    assert type(load(dump(plain, tmp_path / "plain"))) is Plain
    within = make_plain(Pipeline(pipe.steps[:-1]), Plain(pipe.steps[-1:]))
    kinds = [type(step) for step in load(dump(within, tmp_path / "within"))]
    assert kinds == [Pipeline, Plain]


def test_graphs_are_those_of_a_plain_pipeline(tmp_path):
    pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from sktopk.io import to_onnx

    X, y = DIGITS
    pipe = make_pipeline(make_pipeline(StandardScaler(), PCA(5)), TopKClassifier(k=3, **QUICK))
    pipe.fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(pipe, tmp_path / "graph.onnx", X))
    _, found = session.run(None, {"X": X})
    assert (found == pipe.predict_topk(X)).mean() > 0.999


def last_line(error):
    return traceback.format_exception(error)[-1]


WITHOUT = {
    "ranker": (lambda: ranker()[-1], "DeepTopPushClassifier: .*scores above a threshold are not"),
    "labels": (lambda: labels()[-1], "TopKClassifier: .*loss='smooth_topk' without calibration"),
    "in our pipeline": (ranker, "Pipeline: DeepTopPushClassifier: .*Set calibration='temperature'"),
    "in two": (lambda: make_pipeline("passthrough", ranker()), "Set calibration='temperature'"),
    "in a set": (
        lambda: SetClassifier(FrozenEstimator(labels()[-1])),
        "SetClassifier: TopKClassifier: .*Set calibration='temperature'",
    ),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_the_last_line_says_why_there_are_no_probabilities(name):
    make, says = WITHOUT[name]
    estimator = make()
    assert not hasattr(estimator, "predict_proba")
    with pytest.raises(AttributeError) as refused:
        estimator.predict_proba(CANCER[0])
    assert re.search(says, last_line(refused.value))
    if isinstance(estimator, DeepTopPushClassifier | TopKClassifier):
        assert refused.value.__suppress_context__


def test_so_it_does_where_votes_are_soft():
    X, y = CANCER
    for clf in (DeepTopPushClassifier(**QUICK), clone(ranker())):
        votes = VotingClassifier([("a", clf), ("b", GaussianNB())], voting="soft").fit(X, y)
        with pytest.raises(AttributeError) as refused:
            votes.predict(X)
        assert "Set calibration='temperature' or 'sigmoid'" in last_line(refused.value)


def test_one_order_of_rows_takes_two_classes():
    X, y = DIGITS
    pipe = make_pipeline(StandardScaler(), AUCClassifier(**QUICK)).fit(X, y)
    with pytest.raises(AttributeError, match="predict_top is not available for 10 classes"):
        pipe.predict_top(X, 3)
