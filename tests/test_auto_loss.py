"""TopKClassifier(loss="auto"): a fair comparison inside fit, in doubt for cross-entropy."""

import json
import pickle
from dataclasses import dataclass
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from scipy.stats import t
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer, topk_accuracy_score

pytestmark = pytest.mark.filterwarnings(
    "ignore:The training loss still fell",
    "ignore:.*not done training",
    "ignore:max_epochs=.*ended the training before",
)
BASELINE = "cross_entropy"
CHALLENGERS = ("smooth_topk", "topk_hinge_convex", "logit_adjusted")
LOSSES = (BASELINE, *CHALLENGERS)
QUICK = {"hidden_layer_sizes": (), "max_epochs": 3, "learning_rate": 0.05, "random_state": 0}


@pytest.fixture
def circle(rng):
    """Four classes around each of four places on a circle, but for one place of each."""
    y = rng.integers(4, size=400)
    place = (y + rng.integers(1, 4, size=400)) % 4
    angle = place * np.pi / 2 + 0.2 * rng.normal(size=400)
    return np.column_stack([np.cos(angle), np.sin(angle)]), y


def auto(loss="auto", **params):
    """One with a linear model, and one scale for every loss unless it is given."""
    return TopKClassifier(loss, **{"k": 2, "score_scale": 10.0, **QUICK, **params})


def cross_fitted(loss="auto", **params):
    """One with three members, each of which leaves out a third of the rows."""
    shared = {"k": 2, "n_members": 3, "hidden_layer_sizes": (8,), "max_epochs": 2}
    return TopKClassifier(loss, **{**shared, "random_state": 0, **params})


@dataclass
class Favouring:
    """A scorer that finds networks of one loss, or one with a scale, better than they are."""

    loss: str
    scale: float | None = None

    def __call__(self, model, X, y):
        wanted = model.loss == self.loss and self.scale in (None, model.score_scale)
        return make_topk_scorer(2)(model, X, y) + 0.5 * wanted


def luckiest(n, n_runs):
    """Standard errors that the best of n equal losses exceeds as rarely as one exceeds one."""
    return t(n_runs - 1).isf(t(n_runs - 1).sf(1) / n)


@pytest.mark.parametrize("test_fraction", [0.0, 0.2])
def test_more_than_luck_in_favour_of_cross_entropy(test_fraction, blobs, rng):
    X, y = blobs
    base = 0.5 + 0.1 * rng.random(5)
    noise = rng.normal(size=5)
    noise -= noise.mean()
    variance = sum(noise**2) / 4
    error = sqrt((1 / 5 + test_fraction / (1 - test_fraction)) * variance)
    luck = luckiest(3, 5)

    def choose(*gains):
        shown = {
            loss: iter(base + gain * error + noise)
            for loss, gain in zip(CHALLENGERS, gains, strict=True)
        }
        shown[BASELINE] = iter(base)

        def scoring(model, X_part, y):
            # All rows are there to validate training epochs, which nothing depends on.
            return next(shown[model.loss]) if len(X_part) < len(X) else 0.0

        given = {} if test_fraction else {"X_val": X, "y_val": y}
        return auto(max_epochs=1, scoring=scoring).fit(X, y, **given)

    assert choose(0.99 * luck, -1.0, 0.5).loss_ == BASELINE
    assert choose(1.01 * luck, -1.0, 0.5).loss_ == CHALLENGERS[0]
    assert choose(1.01 * luck, 1.5 * luck, 0.5).loss_ == CHALLENGERS[1]
    assert choose(-3.0, -3.0, -3.0).loss_ == BASELINE
    found = choose(1.5, 0.3, 0.0).comparison_
    assert found["test_fraction"] == test_fraction
    assert found["difference"][CHALLENGERS[0]] == pytest.approx(1.5 * error)
    assert found["standard_error"][CHALLENGERS[1]] == pytest.approx(error)
    # Three intervals that hold together at level .95: 3.96 standard errors.
    assert found["verdict"] == dict.fromkeys(CHALLENGERS, "cannot tell")
    rows = (t(4).isf(0.025 / 3) / 1.5) ** 2
    assert f"{CHALLENGERS[0]}: cannot tell without about {rows:.2g} times" in found["reason"]
    assert set(choose(2.8, 0.0, -2.8).comparison_["verdict"].values()) == {"cannot tell"}
    clear = choose(4.0, 0.0, -4.0).comparison_
    assert list(clear["verdict"].values()) == ["better", "cannot tell", "worse"]
    assert f"{CHALLENGERS[0]} is better than cross_entropy" in clear["reason"]
    noise *= 0.001
    error *= 0.001
    small = choose(0.5, 0.0, -0.5).comparison_
    assert small["verdict"] == dict.fromkeys(CHALLENGERS, "as good")
    assert small["reason"].endswith(f"{CHALLENGERS[0]}: cross_entropy is as good")


def test_training_that_diverges_is_out_of_the_race(circle, monkeypatch):
    X, y = circle
    winner = CHALLENGERS[1]
    scoring = Favouring(winner)
    assert auto(scoring=scoring).fit(X, y).loss_ == winner
    with pytest.raises(ValueError, match="diverged") as caught:
        auto(loss=BASELINE, optimizer="sgd", learning_rate=1e300).fit(X, y)
    fit = TopKClassifier.fit

    def fit_or_diverge(self, *args, **params):
        if self.loss == diverging:
            raise caught.value
        return fit(self, *args, **params)

    monkeypatch.setattr(TopKClassifier, "fit", fit_or_diverge)
    diverging = winner
    clf = auto(scoring=scoring).fit(X, y)
    assert clf.loss_ != winner
    assert clf.comparison_["scores"][winner] == [-np.inf] * 5
    assert set(clf.comparison_["difference"]) == {BASELINE, *CHALLENGERS} - {winner}
    # Nothing is better than what has no number, and the fit itself refuses it.
    diverging = BASELINE
    clf = auto(scoring=scoring).fit(X, y)
    assert clf.loss_ == BASELINE
    assert clf.comparison_["difference"] == {}


class Noted:
    """A scorer that remembers what it was asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, model, X, y):
        self.calls.append((clone(model), X, y))
        return make_topk_scorer(2)(model, X, y)


def row_numbers(X, part):
    """Where the rows of `part` stand in X, which has no row twice."""
    return np.flatnonzero((X[:, None] == part).all(axis=2).any(axis=1))


def test_scores_are_those_of_plain_folds_and_the_winner_is_refitted(blobs):
    X, y = blobs
    noted = Noted()
    auto(random_state=3, scoring=noted).fit(X, y)
    clf = auto(random_state=3).fit(X, y)
    assert list(clf.comparison_["scores"]) == list(LOSSES)
    tests = {loss: [] for loss in clf.comparison_["scores"]}
    for model, X_test, y_test in noted.calls:
        test = row_numbers(X, X_test)
        tests[model.loss].append(test)
        model = auto(random_state=model.random_state).set_params(loss=model.loss)
        model.fit(np.delete(X, test, axis=0), np.delete(y, test))
        expected = topk_accuracy_score(y_test, model.decision_function(X_test), k=2)
        found = clf.comparison_["scores"][model.loss][len(tests[model.loss]) - 1]
        assert found == pytest.approx(expected)
    for each in tests.values():
        assert len(each) == 5
        np.testing.assert_array_equal(np.sort(np.concatenate(each)), np.arange(len(X)))
        for one, other in zip(each, tests[BASELINE], strict=True):
            np.testing.assert_array_equal(one, other)
    assert len({model.random_state for model, *_ in noted.calls}) == 1
    plain = auto(random_state=3).set_params(loss=clf.loss_).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), clf.decision_function(X))
    np.testing.assert_array_equal(plain.predict_topk_proba(X), clf.predict_topk_proba(X))
    with parallel_config("threading", n_jobs=2):
        side_by_side = auto(random_state=3).fit(X, y)
    assert side_by_side.comparison_ == clf.comparison_


def test_what_follows_from_the_choice_of_a_top_k_loss(circle):
    X, y = circle
    clf = auto(max_epochs=25, scoring=Favouring(CHALLENGERS[1]))
    assert not hasattr(clf, "predict_proba")
    clf.fit(X, y)
    assert clf.loss_ == CHALLENGERS[1]
    assert clf.comparison_["difference"][clf.loss_] > clf.comparison_["standard_error"][clf.loss_]
    assert clf.comparison_["reason"].startswith(f"{clf.loss_} is ahead of cross_entropy")
    with pytest.raises(AttributeError) as refusal:
        clf.predict_proba(X)
    assert f"not available for loss={clf.loss_!r}" in str(refusal.value)
    copy = pickle.loads(pickle.dumps(clf))
    assert copy.loss_ == clf.loss_
    assert json.loads(json.dumps(copy.comparison_)) == clf.comparison_
    np.testing.assert_array_equal(copy.decision_function(X), clf.decision_function(X))
    # A later fit forgets it, and a warm start does not choose again.
    weights = clf.set_params(warm_start=True, max_epochs=2).net_
    comparison = clf.comparison_
    clf.fit(X, y)
    assert clf.net_ is weights
    assert clf.comparison_ is comparison
    assert clf.n_iter_ == 27
    clf.set_params(warm_start=False, loss="focal").fit(X, y)
    assert not hasattr(clf, "loss_")
    assert not hasattr(clf, "comparison_")


def test_easy_data_keep_cross_entropy_and_its_probabilities(rng):
    y = np.arange(120) % 3
    X = np.eye(3)[y] * 20 + rng.normal(size=(120, 3))
    clf = auto(max_epochs=40).fit(X, y)
    assert clf.loss_ == BASELINE
    assert clf.comparison_["reason"].startswith("no loss is ahead")
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("kind", ["dense", "sparse", "one class is a single row"])
def test_weight_two_is_the_row_twice_and_weight_zero_its_absence(kind, circle, rng):
    X, y = (each[:160] for each in circle)
    if kind.startswith("one"):
        y = np.where(np.arange(160) == 7, 9, y)
    weight = rng.integers(0, 4, size=160)
    weight[7] = 2
    container = csr_array if kind == "sparse" else np.asarray
    full = {"batch_size": 1000, "max_epochs": 10}
    a = auto(**full).fit(container(X), y, weight)
    order = rng.permutation(int(weight.sum()))
    b = auto(**full).fit(container(X.repeat(weight, axis=0)[order]), y.repeat(weight)[order])
    assert a.loss_ == b.loss_
    assert a.comparison_["scores"]
    for loss, scores in a.comparison_["scores"].items():
        np.testing.assert_allclose(scores, b.comparison_["scores"][loss], err_msg=loss)
    np.testing.assert_allclose(
        a.decision_function(container(X)), b.decision_function(container(X)), rtol=1e-6
    )


def test_nothing_to_compare(blobs):
    X, y = blobs
    two = auto(k=1).fit(X, y)
    few = auto().fit(X[:99], y[:99])
    many_times = auto().fit(np.tile(X[:50], (4, 1)), np.tile(y[:50], 4))
    for clf, why in ((two, "k_=1"), (few, "99 distinct rows"), (many_times, "50 distinct rows")):
        assert clf.loss_ == BASELINE
        assert why in clf.comparison_["reason"]
        assert clf.comparison_["scores"] == {}
    with pytest.warns(UserWarning, match="k=2 must be smaller"):
        assert auto().fit(X[y < 2], y[y < 2]).loss_ == BASELINE


def test_given_validation_rows_decide(circle, monkeypatch):
    X, y = circle
    fits = []
    fit = TopKClassifier.fit
    monkeypatch.setattr(
        TopKClassifier, "fit", lambda self, X, *a, **p: fits.append(len(X)) or fit(self, X, *a, **p)
    )
    noted = Noted()
    clf = auto(scoring=noted).fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    assert fits == [200] * 5  # the call itself and four losses
    found = {loss: iter(scores) for loss, scores in clf.comparison_["scores"].items()}
    # All rows are there to validate training epochs.
    calls = [call for call in noted.calls if len(call[1]) < 200]
    for model, X_part, y_part in calls:
        model = auto(random_state=model.random_state).set_params(loss=model.loss)
        shown = model.fit(X[:200], y[:200]).decision_function(X_part)
        expected = topk_accuracy_score(y_part, shown, k=2)
        assert next(found[model.loss]) == pytest.approx(expected)
    for i in range(len(LOSSES)):
        parts = [row_numbers(X[200:], part) for _, part, _ in calls[5 * i : 5 * i + 5]]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(200))
    assert clf.comparison_["test_fraction"] == 0
    few = auto().fit(X[:200], y[:200], X_val=X[300:350], y_val=y[300:350])
    assert "50 distinct rows" in few.comparison_["reason"]


def test_scoring_sees_names_and_weights(blobs):
    X, y = blobs
    weight = np.where(np.arange(240) % 2, 1.0, 3.0)
    seen = []

    def scoring(estimator, X, y, sample_weight=None):
        seen.append((list(getattr(X, "columns", [])), sample_weight))
        return make_topk_scorer(2)(estimator, X, y, sample_weight=sample_weight)

    auto(scoring=scoring).fit(pd.DataFrame(X, columns=list("abcd")), y, weight)
    assert len(seen) == 20
    assert all(names == list("abcd") for names, _ in seen)
    assert {value for _, each in seen for value in each} == {1.0, 3.0}


def test_what_cannot_be_is_said(blobs):
    X, y = blobs
    clf = auto()
    assert not hasattr(clf, "partial_fit")
    with pytest.raises(AttributeError) as refusal:
        clf.partial_fit(X, y)
    assert "not available for loss='auto', which needs all data" in str(refusal.value)
    with pytest.raises(ValueError, match=r"cannot compare 'smooth_topk': .*predict_proba"):
        auto(scoring="neg_log_loss").fit(X, y)
    with pytest.raises(ValueError, match=r"compare 'cross_entropy': scoring must give .* got nan"):
        auto(scoring=lambda estimator, X, y: float("nan")).fit(X, y)
    with pytest.raises(ValueError, match=r"loss must be one of.*'auto'; got 'Auto'"):
        TopKClassifier("Auto").fit(X, y)
    # What fails leaves a fitted estimator as it was.
    fitted = auto().fit(X, y)
    scores = fitted.decision_function(X)
    with pytest.raises(ValueError, match="got nan"):
        fitted.set_params(scoring=lambda estimator, X, y: float("nan")).fit(X[:, :2], y)
    np.testing.assert_array_equal(fitted.decision_function(X), scores)
    assert clone(fitted).loss == "auto"


def test_the_checkpoint_is_that_of_the_last_fit(blobs, tmp_path):
    X, y = blobs
    path = tmp_path / "fit.ckpt"
    seen = []

    def scoring(estimator, X, y):
        seen.append(path.exists())
        return make_topk_scorer(2)(estimator, X, y)

    kept = auto(checkpoint=path, scoring=scoring).fit(X, y)
    assert seen == [False] * 20
    plain = auto().fit(X, y)
    np.testing.assert_array_equal(kept.decision_function(X), plain.decision_function(X))


def test_calibration_gives_every_choice_probabilities(circle):
    X, y = circle
    clf = auto(calibration="temperature")
    assert hasattr(clf, "predict_proba")
    clf.fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1)


def test_every_loss_may_have_its_better_scale(blobs):
    X, y = blobs
    clf = auto(score_scale="auto", scoring=Favouring("topk_hinge_convex", scale=1.0)).fit(X, y)
    found = clf.comparison_
    scales = {BASELINE: [1.0, 10.0], "smooth_topk": [1.0, 20.0]}
    scales |= {"topk_hinge_convex": [1.0, 10.0], "logit_adjusted": [1.0, 10.0]}
    for loss, of_loss in scales.items():
        means = {scale: mean for name, scale, mean in found["tried"] if name == loss}
        assert list(means) == of_loss
        assert means[found["score_scale"][loss]] == max(means.values())
        assert np.mean(found["scores"][loss]) == pytest.approx(max(means.values()))
    assert len(found["tried"]) == 8
    assert (clf.loss_, clf.score_scale_) == ("topk_hinge_convex", 1.0)
    assert f"more than {luckiest(6, 5):.2g} standard errors, what the best of 6" in found["reason"]
    plain = auto("topk_hinge_convex", score_scale=1.0).fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(X))
    copy = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copy.decision_function(X), clf.decision_function(X))
    given = auto(score_scale=3.0).fit(X, y)
    assert {scale for _, scale, _ in given.comparison_["tried"]} == {3.0}
    assert not hasattr(given, "score_scale_")


def test_cross_fitted_members_are_judged_by_rows_that_they_leave_out(circle, monkeypatch):
    X, y = (each[:150] for each in circle)
    fits = []
    fit = TopKClassifier.fit
    monkeypatch.setattr(
        TopKClassifier, "fit", lambda self, *a, **p: fits.append(self) or fit(self, *a, **p)
    )
    clf = cross_fitted().fit(X, y)
    assert len(fits) == 1 + 8  # the call itself and each loss with two scales
    assert clf.comparison_["test_fraction"] == pytest.approx(1 / 3)
    assert {scale for _, scale, _ in clf.comparison_["tried"]} == {1.0, 5.0}
    for model, (loss, scale, mean) in zip(fits[1:], clf.comparison_["tried"], strict=True):
        assert (model.loss, model.score_scale) == (loss, scale)
        known = np.isfinite(model.oob_decision_function_).all(axis=1)
        of_all = topk_accuracy_score(y[known], model.oob_decision_function_[known], k=2)
        assert mean == pytest.approx(of_all, abs=0.01)  # folds differ by a row
    plain = cross_fitted(clf.loss_, score_scale=clf.score_scale_).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), clf.decision_function(X))
    assert plain.oob_score_ == clf.oob_score_
    copy = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copy.decision_function(X), clf.decision_function(X))
    weights = clf.set_params(warm_start=True).net_
    n_epochs = clf.n_iter_
    clf.fit(X, y)
    assert clf.net_ is weights
    assert clf.n_iter_ > n_epochs


def test_any_scoring_sees_rows_and_answers_of_members_that_left_them_out(circle):
    X, y = (each[:150] for each in circle)
    seen = []

    def scoring(model, X_part, y_part):
        rows = row_numbers(X, X_part)
        seen.append(rows)
        order = [int(np.flatnonzero((X[rows] == row).all(axis=1))[0]) for row in X_part]
        expected = model.oob_decision_function_[rows][order]
        np.testing.assert_allclose(model.decision_function(X_part), expected)
        np.testing.assert_array_equal(
            model.predict(X_part), model.classes_[expected.argmax(axis=1)]
        )
        np.testing.assert_allclose(model.predict_proba(X_part).sum(axis=1), 1)
        return topk_accuracy_score(y_part, model.decision_function(X_part), k=2)

    fixed = {"calibration": "temperature", "early_stopping": False, "score_scale": 1.0}
    clf = cross_fitted(scoring=scoring, **fixed).fit(X, y)
    assert len(seen) == 3 * 4
    np.testing.assert_array_equal(np.sort(np.concatenate(seen[:3])), np.arange(150))
    plain = cross_fitted(**fixed).fit(X, y)
    assert plain.comparison_["scores"] == clf.comparison_["scores"]


@pytest.mark.filterwarnings("default")
def test_networks_that_were_not_done_are_named_once(blobs):
    with pytest.warns(ConvergenceWarning, match="not done training") as caught:
        auto(max_epochs=25, learning_rate=3e-4, batch_size=32).fit(*blobs)
    said = [str(each.message) for each in caught if "not done" in str(each.message)]
    assert len(said) == 1
    assert all(f"{loss} (score_scale=10)" in said[0] for loss in LOSSES)


def test_a_fit_after_another_loss_was_chosen_has_its_own_epochs(circle):
    """What the last choice was says nothing of the next training."""
    X, y = (each[:150] for each in circle)
    clf = cross_fitted().fit(X, y)
    clf.loss_ = BASELINE
    then = clf.set_params(loss="smooth_topk").fit(X, y)
    plain = cross_fitted("smooth_topk").fit(X, y)
    assert then.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(then.decision_function(X), plain.decision_function(X))
