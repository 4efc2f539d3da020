"""compare_losses: who was trained on what, with how many tries, and what is not done twice."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GroupKFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer, topk_accuracy_score
from sktopk.model_selection import _baselines, compare_losses

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*must be smaller than the number of classes"),
    pytest.mark.filterwarnings("ignore:.*runs stopped while training could go on"),
]

QUICK = {"hidden_layer_sizes": (), "max_epochs": 2, "learning_rate": 0.05}
BASELINES = ["cross_entropy", "logit_adjusted", "weighted_cross_entropy", "hist_gradient_boosting"]
BASELINES += ["lightgbm"]
FITS = []


class Recorder(ClassifierMixin, BaseEstimator):
    """Notes the rows it is fitted to (column 0 of X); right for `quality` of the rows."""

    def __init__(self, learning_rate=1.0, best_rate=1.0, fail=None, random_state=None):
        self.learning_rate = learning_rate
        self.best_rate = best_rate
        self.fail = fail
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        if self.fail is not None and len(FITS) >= self.fail[0]:
            raise self.fail[1]("stop here")
        self.classes_ = np.unique(y)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        FITS.append((self.learning_rate, self.random_state, X[:, 0].astype(int), weight))
        return self

    def decision_function(self, X):
        # The label is column 1; the further from the best rate, the more rows are wrong.
        share = 1 / (1 + abs(np.log(self.learning_rate / self.best_rate)))
        right = np.arange(len(X)) < share * len(X)
        guess = np.where(right, X[:, 1], (X[:, 1] + 1) % len(self.classes_))
        return (guess[:, None] == np.arange(len(self.classes_))).astype(float)


@pytest.fixture(autouse=True)
def _forget_fits():
    FITS.clear()


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """Who is fitted to what is asked here, in hundreds of fits; not how well trees do."""
    whole = _baselines._boosting

    def few(X):
        rivals, omitted = whole(X)
        for name, steps in rivals.items():
            steps[-1].set_params(**{"n_estimators" if name == "lightgbm" else "max_iter": 5})
        return rivals, omitted

    monkeypatch.setattr(_baselines, "_boosting", few)


@pytest.fixture
def rows(rng):
    """60 rows of three classes; column 0 is the row, column 1 the label."""
    y = np.arange(60) % 3
    return np.column_stack([np.arange(60), y, rng.normal(size=60) + y]), y


def compare(X, y, losses=(), **params):
    params = {"cv": 2, "grid": None, "progress": False, "scoring": make_topk_scorer(1)} | params
    return compare_losses(TopKClassifier(k=1, **QUICK), losses, X, y, **params)


def test_scores_are_those_of_a_plain_loop(blobs):
    X, y = blobs
    clf = TopKClassifier(k=2, **QUICK)
    frame = compare_losses(
        clf, ["smooth_topk"], X, y, cv=3, n_seeds=2, grid=None, progress=False
    ).frame
    assert set(frame["loss"]) == {*BASELINES, "smooth_topk"}
    assert len(frame) == 6 * 3 * 2
    for loss in ("cross_entropy", "smooth_topk"):
        starts = frame.loc[frame["fold"] == 0, "seed"].unique()
        for repeat, start in zip([0, 1], starts, strict=True):
            folds = StratifiedKFold(3, shuffle=True, random_state=int(start))
            for fold, (train, test) in enumerate(folds.split(X, y)):
                model = TopKClassifier(loss, k=2, random_state=int(start) + fold, **QUICK)
                scores = model.fit(X[train], y[train]).decision_function(X[test])
                rows = frame.set_index(["loss", "repeat", "fold"])
                expected = topk_accuracy_score(y[test], scores, k=2)
                assert rows.loc[(loss, repeat, fold), "score"] == pytest.approx(expected)


def test_losses_share_rows_and_seeds_and_choose_off_the_test_rows(rows):
    X, y = rows
    losses = {"one": Recorder(), "two": Recorder()}
    frame = compare(X, y, losses, cv=3, n_seeds=2, grid="default").frame
    fits = {}
    per_run = 5  # four settings and the fit of the best
    of_one, of_two = np.array_split(np.array(range(len(FITS))).reshape(-1, 2 * per_run), 2, axis=1)
    assert len(of_one) == 6
    for run, (first, second) in enumerate(zip(of_one, of_two, strict=True)):
        for i, j in zip(first, second, strict=True):
            assert FITS[i][1] == FITS[j][1]
            np.testing.assert_array_equal(FITS[i][2], FITS[j][2])
        *tuning, final = (set(FITS[i][2]) for i in first)
        assert all(each < final for each in tuning)
        assert {len(each) for each in tuning} == {30}
        assert len(final) == 40
        fits[run] = final
    for repeat in range(2):
        tests = [set(range(60)) - fits[3 * repeat + fold] for fold in range(3)]
        assert set.union(*tests) == set(range(60))
        assert sum(map(len, tests)) == 60
    assert fits[0] != fits[3]
    assert frame["n_candidates"].eq(4).all()


def test_the_setting_that_held_out_rows_prefer_is_used(rows):
    frame = compare(*rows, {"a": Recorder(best_rate=3.0)}, grid="default").frame
    chosen = frame[frame["loss"] == "a"]
    assert [each["learning_rate"] for each in chosen["params"]] == [3.0, 3.0]
    assert chosen["score"].eq(1.0).all()


def test_a_killed_comparison_goes_on_where_it_was(rows, tmp_path, monkeypatch):
    X, y = rows
    params = {"cache": tmp_path, "grid": "default"}
    whole = compare(X, y, {"a": Recorder(), "b": Recorder(best_rate=3.0)}, grid="default").frame
    n_fits = len(FITS)
    FITS.clear()
    losses = {"a": Recorder(), "b": Recorder(best_rate=3.0)}
    monkeypatch.setattr(Recorder, "fit", interrupted(fit := Recorder.fit, after=7))
    with pytest.raises(KeyboardInterrupt):
        compare(X, y, losses, **params)
    assert len(FITS) == 7
    monkeypatch.setattr(Recorder, "fit", fit)
    again = compare(X, y, losses, **params).frame
    assert len(FITS) == n_fits
    columns = ["loss", "fold", "seed", "score", "validation_score", "params"]
    pd.testing.assert_frame_equal(whole[columns], again[columns])
    # Not one fit for what is known; more seeds only do what is new.
    compare(X, y, losses, **params)
    assert len(FITS) == n_fits
    compare(X, y, {"a": Recorder()}, n_seeds=2, **params)
    assert len(FITS) == n_fits + n_fits // 2
    entries = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert {"loss", "fold", "seed", "params", "versions"} <= set(entries[0]["about"])
    assert all(path.suffix == ".json" for path in tmp_path.iterdir())


def interrupted(fit, after):
    def stopping(self, X, y, sample_weight=None):
        if len(FITS) == after:
            raise KeyboardInterrupt
        return fit(self, X, y, sample_weight)

    return stopping


def test_only_the_same_question_finds_an_answer(rows, tmp_path):
    X, y = rows

    def fits_of(X=X, y=y, **params):
        FITS.clear()
        compare(X, y, {"a": Recorder()}, cache=tmp_path, **params)
        return len(FITS)

    assert fits_of() == 2
    assert fits_of() == 0
    assert fits_of(scoring=make_topk_scorer(2)) == 2
    assert fits_of(X=X + 1e-9) == 2
    assert fits_of(y=(y + 1) % 3) == 2
    assert fits_of(sample_weight=np.full(60, 2.0)) == 2
    assert fits_of(random_state=1) == 2
    assert fits_of(X=np.asfortranarray(X)) == 0
    for path in tmp_path.iterdir():
        path.write_text(path.read_text()[:30])
    assert fits_of() == 2
    assert fits_of() == 0


def test_failures_name_their_run(rows):
    X, y = rows
    broken = Recorder(fail=(1, OSError))
    with pytest.raises(RuntimeError, match=r"loss='a' in fold 1, repeat 0 \(seed \d+\).*OSError"):
        compare(X, y, {"a": broken})
    with pytest.raises(RuntimeError, match=r"loss='cross_entropy' in fold 0.*finite number"):
        compare(X, y, scoring=lambda estimator, X, y: np.nan)


def test_a_rate_that_diverges_loses(blobs):
    X, y = blobs
    nets = ["cross_entropy", "logit_adjusted", "weighted_cross_entropy"]

    def run(*rates):
        rates = [{"learning_rate": rate} for rate in rates]
        grid = {name: rates for name in [*nets, "hist_gradient_boosting"]}
        for name in ("hist_gradient_boosting", "lightgbm"):
            grid[name] = [{"learning_rate": 0.1}, {"learning_rate": 0.2}]
        clf = TopKClassifier(k=1, optimizer="sgd", **QUICK)
        return compare_losses(clf, [], X, y, cv=2, grid=grid, progress=False).frame

    frame = run(0.1, 1e300).query("loss in @nets")
    assert frame["n_diverged"].eq(1).all()
    assert {each["learning_rate"] for each in frame["params"]} == {0.1}
    with pytest.raises(RuntimeError, match=r"failed with every setting.*diverged"):
        run(1e300, 1e301)


def answers(estimator):
    """What scores rows: boosted trees of LightGBM have probabilities only."""
    return getattr(estimator, "decision_function", None) or estimator.predict_proba


def test_weights_reach_fits_and_scores(rows):
    X, y = rows
    weight = np.arange(60) % 4 + 1.0
    found = []

    def scoring(estimator, X, y, sample_weight=None):
        found.append((X[:, 0].astype(int), sample_weight))
        return accuracy_score(y, np.asarray(answers(estimator)(X)).argmax(1))

    compare(X, y, {"a": Recorder()}, sample_weight=weight, scoring=scoring)
    for *_, row, given in FITS:
        np.testing.assert_array_equal(given, weight[row])
    for row, given in found:
        np.testing.assert_array_equal(given, weight[row])
    # In a pipeline they reach the last step: here the second half of the rows weighs nothing.
    pipe = make_pipeline(StandardScaler(), TopKClassifier(k=1, **QUICK))
    splits = [(np.arange(0, 50), np.arange(50, 60)), (np.arange(4, 54), np.arange(54, 60))]
    only = (np.arange(60) < 30).astype(float)
    result = compare_losses(
        pipe, [], X, y, sample_weight=only, grid=None, progress=False, cv=splits,
        scoring=lambda estimator, X, y: float(answers(estimator)(X).sum()),
    )  # fmt: skip
    for (train, test), score in zip(splits, result.scores["cross_entropy"], strict=True):
        row = result.frame.query("loss == 'cross_entropy'").iloc[int(train[0] > 0)]
        scaler = StandardScaler().fit(X[train])
        net = TopKClassifier("cross_entropy", k=1, random_state=int(row["seed"]), **QUICK)
        net.fit(scaler.transform(X[train]), y[train], only[train])
        assert net.decision_function(scaler.transform(X[test])).sum() == pytest.approx(score)


def test_groups_stay_together_in_folds_and_inside_them(rows):
    X, y = rows
    groups = np.arange(60) // 6
    compare(X, y, {"a": Recorder()}, groups=groups, grid="default", cv=2)
    compare(X, y, {"a": Recorder()}, groups=groups, grid="default", cv=GroupKFold(2))
    for run in np.split(np.arange(20), 4):
        final = FITS[run[-1]][2]
        for i in run[:-1]:
            held = np.setdiff1d(final, FITS[i][2])
            assert len(held)
            assert not set(groups[held]) & set(groups[FITS[i][2]])
        assert not set(groups[np.setdiff1d(np.arange(60), final)]) & set(groups[final])


def test_seeds_on_the_same_rows_are_one_split(rows):
    X, y = rows
    fixed = compare(X, y, {"a": Recorder()}, n_seeds=3, cv=StratifiedKFold(2))
    assert fixed.frame["split"].nunique() == 2
    assert len(fixed.scores["a"]) == 2
    assert fixed.frame["seed"].nunique() == 6
    anew = compare(X, y, {"a": Recorder()}, n_seeds=3, cv=ShuffleSplit(2, random_state=None))
    assert anew.frame["split"].nunique() == 6
    assert len(anew.scores["a"]) == 6


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("sparse", "dense rows, and these would be 0.00488 MiB; at most 0.00391"),
        ("many classes", "35 classes"),
        ("images", "X has 3 dimensions"),
    ],
)
def test_boosting_is_left_out_with_a_reason(kind, why, rng, monkeypatch):
    monkeypatch.setattr("sktopk.model_selection._baselines.MOST_BYTES_TO_BOOST", 4096)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    y = np.arange(320) % (35 if kind == "many classes" else 3)
    X = rng.normal(size=(320, 2, 2) if kind == "images" else (320, 4))
    X = csr_array(X) if kind == "sparse" else X
    clf = TopKClassifier(k=1, **QUICK)
    if kind == "images":
        clf.set_params(module=lambda *_: nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))
    result = compare_losses(clf, [], X, y, cv=2, grid=None, progress=False)
    assert set(result.frame["loss"]) == {*BASELINES[:3]}
    assert "Left out: hist_gradient_boosting: " in repr(result)
    assert why in repr(result)


class ShowsTheLabel(TransformerMixin, BaseEstimator):
    """Sparse rows as of a one-hot column, which say the label."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        codes = np.asarray(X)[:, 0].astype(int)
        return csr_array(np.eye(3)[codes // 2])


@pytest.mark.parametrize("in_pipeline", [True, False])
def test_boosting_is_a_rival_of_sparse_rows(in_pipeline, rng):
    codes = np.arange(180) % 6
    y = np.array(list("abc"))[codes // 2]
    X = pd.DataFrame({"code": codes, "noise": rng.normal(size=180)})
    clf = TopKClassifier(k=1, **QUICK)
    if in_pipeline:
        clf = make_pipeline(ShowsTheLabel(), clf)
    else:
        X = ShowsTheLabel().transform(X)
    name = "topkclassifier__learning_rate" if in_pipeline else "boosting__learning_rate"
    grid = {"hist_gradient_boosting": [{name: rate} for rate in (0.1, 0.2, 0.3, 0.4)]}
    nets = BASELINES[:3]
    grid |= {net: [{}] * 4 for net in nets}
    result = compare_losses(
        clf, [], X, y, cv=2, grid=grid, progress=False, sample_weight=np.ones(180)
    )
    assert "hist_gradient_boosting" in set(result.frame["loss"])
    assert not result.omitted
    assert result.summary().loc["hist_gradient_boosting", "mean"] == 1


@pytest.mark.parametrize("kind", ["array", "sparse", "frame"])
def test_lightgbm_is_a_rival_where_it_is_installed(kind):
    pytest.importorskip("lightgbm")
    codes = np.arange(180) % 3
    y = np.array(list("abc"))[codes]
    X = np.eye(3)[codes]
    if kind == "frame":
        X = pd.DataFrame(X, columns=["code[1]", "{", ":"])
    X = csr_array(X) if kind == "sparse" else X
    result = compare_losses(
        TopKClassifier(k=1, **QUICK), [], X, y, cv=2, grid=None, progress=False,
        sample_weight=np.ones(180),
    )  # fmt: skip
    assert result.summary().loc["lightgbm", "mean"] == 1


def test_without_lightgbm_nothing_is_missed(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    result = compare(*rows)
    assert result.frame["loss"].unique().tolist() == BASELINES[:-1]
    assert not result.omitted


def test_frames_pipelines_and_jobs(blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = np.array(list("vwxyz"))[y]
    pipe = make_pipeline(StandardScaler(), TopKClassifier(k=2, **QUICK))
    one = compare_losses(pipe, ["focal"], frame, labels, cv=2, grid=None, progress=False)
    with parallel_config("threading", n_jobs=2):
        two = compare_losses(pipe, ["focal"], frame, labels, cv=2, grid=None, progress=False)
    drop = ["fit_seconds", "run_seconds"]
    pd.testing.assert_frame_equal(one.frame.drop(columns=drop), two.frame.drop(columns=drop))
    assert one.metric == "top-2 accuracy"


@pytest.mark.filterwarnings("always:.*runs stopped while training could go on")
def test_training_that_could_go_on_is_told_once(blobs):
    X, y = blobs
    clf = TopKClassifier(
        hidden_layer_sizes=(), max_epochs=11, n_iter_no_change=5, k=2, learning_rate=0.03
    )
    with pytest.warns(ConvergenceWarning, match=r"\d of \d+ runs stopped") as caught:
        result = compare_losses(clf, [], X, y, cv=2, grid=None, progress=False)
    assert len([each for each in caught if each.category is ConvergenceWarning]) == 1
    assert not result.frame["settled"].all()


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"losses": ["crossentropy"]}, ValueError, "losses must be one of"),
        ({"losses": "focal"}, TypeError, "losses must be a list"),
        ({"losses": ["focal", "focal"]}, ValueError, "'focal' twice"),
        ({"losses": [("a", 3)]}, TypeError, "must be a classifier"),
        (
            {"losses": [("a", LogisticRegression)]},
            TypeError,
            r"losses\['a'\] must .* the class L",
        ),
        (
            {"losses": np.eye(60)},
            TypeError,
            r"losses must .*\(estimator, losses, X, y\); got ar",
        ),
        ({"scoring": "topk"}, ValueError, "scoring must be None.*make_topk_scorer.*got 'topk'"),
        ({"scoring": ["accuracy"]}, ValueError, r"scoring must be None.*got \['accuracy'\]"),
        ({"cache": True}, TypeError, "cache must be a folder, str or Path, or None; got True"),
        ({"cache": __file__}, ValueError, "cache must be a folder; got the file .*test_compare"),
        ({"losses": [3]}, TypeError, "names and .name, estimator. pairs"),
        ({"n_seeds": 0}, ValueError, "n_seeds must be at least 1"),
        ({"n_seeds": 1.5}, TypeError, "n_seeds must be an integer"),
        ({"grid": "small"}, ValueError, "grid must be"),
        ({"grid": {"other": [{}]}}, ValueError, "grid must have losses of the comparison"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"margin": -1}, ValueError, "margin == -1, must be >= 0"),
        ({"margin": "1 %"}, TypeError, "margin must be"),
        ({"cv": [(np.arange(30), np.arange(30, 60))]}, ValueError, "at least two"),
        ({"cv": [(np.arange(30), np.arange(29, 60))] * 2}, ValueError, "apart"),
    ],
)
def test_bad_arguments_are_refused_before_training(params, error, message, rows):
    with pytest.raises(error, match=message):
        compare(*rows, **params)


def test_estimator_must_hold_one_classifier_of_ours(rows):
    with pytest.raises(TypeError, match=r"exactly one.*found 0 in LogisticRegression"):
        compare_losses(LogisticRegression(), [], *rows)
    with pytest.raises(TypeError, match="estimator must be an estimator; got the class TopKClass"):
        compare_losses(TopKClassifier, ["focal"], *rows)


def test_arguments_in_another_order_are_named(rows):
    X, y = rows
    for wrong in ((X, y, ["focal"]), (X.tolist(), ["focal"], y), (pd.DataFrame(X), y, ["focal"])):
        with pytest.raises(TypeError, match=r"losses must .*; got") as caught:
            compare_losses(TopKClassifier(), *wrong)
        assert len(str(caught.value)) < 300
