"""The accuracy-at-the-top classifiers: what they fit, flag, rank and refuse."""

import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import (
    DeepTopPushClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)
from sktopk.metrics import (
    positives_at_top_score,
    precision_at_recall_score,
    recall_at_k_score,
    true_positive_rate_at_fpr_score,
)
from sktopk.modules import MLP

CLASSIFIERS = [
    DeepTopPushClassifier(),
    TopPushKClassifier(k=7),
    RecallAtKClassifier(k=30),
    PatMatClassifier(tau=0.07),
    PatMatNPClassifier(tau=0.03),
    RecallAtFPRClassifier(fpr=0.07),
    PrecisionAtRecallClassifier(recall=0.75),
]
each_classifier = pytest.mark.parametrize(
    "classifier", CLASSIFIERS, ids=lambda c: type(c).__name__.removesuffix("Classifier")
)


@pytest.fixture(scope="module")
def rare():
    """600 rows of which 60 are positive, not separable, and 600 more to judge."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1200, 6))
    risk = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(1200)
    y = (risk > np.quantile(risk, 0.9)).astype(int)
    return X[:600], y[:600], X[600:], y[600:]


def quick(classifier, **params):
    defaults = {
        "module": MLP,
        "max_epochs": 6,
        "batch_size": 64,
        "learning_rate": 0.01,
        "random_state": 0,
    }
    return clone(classifier).set_params(**defaults | params)


def raw_scores(clf, X):
    return clf.decision_function(X).astype(float) + clf.threshold_


def rank_of_threshold(clf, y):
    """The scores that the threshold is among, and its place in them by Table 1 of the paper."""
    n, n_positives = len(y), int(np.sum(y))
    return {
        "DeepTopPushClassifier": (y == 0, 1),
        "TopPushKClassifier": (y == 0, 7),
        "RecallAtKClassifier": (y >= 0, 30),
        "PatMatClassifier": (y >= 0, math.ceil(Fraction(7, 100) * n)),
        "PatMatNPClassifier": (y == 0, math.ceil(Fraction(3, 100) * (n - n_positives))),
        # The first that is too many.
        "RecallAtFPRClassifier": (y == 0, math.floor(Fraction(7, 100) * (n - n_positives)) + 1),
        "PrecisionAtRecallClassifier": (y == 1, math.ceil(Fraction(3, 4) * n_positives)),
    }[type(clf).__name__]


# What is fitted.


@each_classifier
def test_flags_the_training_rows_above_the_score_of_the_rank(classifier, rare):
    X, y, *_ = rare
    clf = quick(classifier).fit(X, y)
    group, rank = rank_of_threshold(clf, y)
    scores = raw_scores(clf, X)
    t = sorted(scores[group], reverse=True)[rank - 1]
    if isinstance(clf, DeepTopPushClassifier | RecallAtFPRClassifier):
        np.testing.assert_array_equal(clf.predict(X) == 1, scores > t + 1e-12)
        assert clf.predict(X)[y == 0].sum() == rank - 1
    else:
        np.testing.assert_array_equal(clf.predict(X) == 1, scores >= t - 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_classifier
def test_threshold_lies_midway_between_two_scores(classifier, dtype, rare):
    X, y, *_ = rare
    clf = quick(classifier, max_epochs=1).fit(X.astype(dtype), y)
    distance = np.sort(clf.decision_function(X.astype(dtype)))
    above, below = distance[distance > 0].min(), distance[distance <= 0].max()
    assert above == pytest.approx(-below, rel=1e-3)


@each_classifier
def test_score_is_the_metric_of_the_estimator(classifier, rare):
    X, y, X_test, y_test = rare
    clf = quick(classifier).fit(X, y)
    metric = {
        "DeepTopPushClassifier": lambda y, s: positives_at_top_score(y, s),
        "TopPushKClassifier": lambda y, s: positives_at_top_score(y, s, k=7),
        "RecallAtKClassifier": lambda y, s: recall_at_k_score(y, s, k=30),
        "PatMatClassifier": lambda y, s: recall_at_k_score(y, s, k=0.07),
        "PatMatNPClassifier": lambda y, s: true_positive_rate_at_fpr_score(y, s, fpr=0.03),
        "RecallAtFPRClassifier": lambda y, s: true_positive_rate_at_fpr_score(y, s, fpr=0.07),
        "PrecisionAtRecallClassifier": lambda y, s: precision_at_recall_score(y, s, recall=0.75),
    }[type(clf).__name__]
    expected = metric(y_test, clf.decision_function(X_test))
    assert clf.score(X_test, y_test) == expected


@each_classifier
def test_learns_to_rank_positives_first(classifier, rare):
    X, y, X_test, y_test = rare
    clf = quick(classifier, max_epochs=30).fit(X, y)
    top = clf.predict_top(X_test, n=30)
    # By chance 3 of 30.
    assert y_test[top].sum() >= 12


@pytest.mark.parametrize("recall", [0.01, 0.5, 0.8, 1.0])
def test_recall_is_reached_exactly_where_the_threshold_is_set(recall, rare):
    X, y, X_val, y_val = rare
    clf = quick(PrecisionAtRecallClassifier(recall=recall)).fit(X, y)
    assert clf.predict(X)[y == 1].sum() == math.ceil(recall * y.sum() - 1e-9)
    clf.fit(X, y, X_val=X_val, y_val=y_val)
    assert clf.predict(X_val)[y_val == 1].sum() == math.ceil(recall * y_val.sum() - 1e-9)


def test_predict_top_is_best_first_and_keeps_the_order_of_ties(rare):
    X, y, *_ = rare
    clf = quick(DeepTopPushClassifier()).fit(X, y)
    scores = clf.decision_function(X)
    top = clf.predict_top(X, n=len(X))
    assert (np.diff(scores[top]) <= 0).all()
    np.testing.assert_array_equal(clf.predict_top(np.zeros((4, 6)), n=3), [0, 1, 2])
    for n, error in [(601, ValueError), (0, ValueError), (2.0, TypeError)]:
        with pytest.raises(error, match="n"):
            clf.predict_top(X, n=n)


# What goes in.


@each_classifier
def test_labels_may_be_strings(classifier, rare):
    X, y, *_ = rare
    names = np.array(["active", "inactive"])
    clf = quick(classifier).set_params(pos_label="inactive").fit(X, names[1 - y])
    numbers = quick(classifier).fit(X, 1 - y)
    assert clf.classes_.tolist() == ["active", "inactive"]
    np.testing.assert_array_equal(clf.decision_function(X), numbers.decision_function(X))
    np.testing.assert_array_equal(clf.predict(X), names[numbers.predict(X)])


@each_classifier
def test_sparse_rows_and_frames_equal_arrays(classifier, rare):
    X, y, *_ = rare
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = quick(classifier).fit(X, y).decision_function(X)
    sparse = quick(classifier).fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.decision_function(csr_array(X)), dense, rtol=1e-6, atol=1e-9)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    framed = quick(classifier).fit(frame, pd.Series(y))
    np.testing.assert_allclose(framed.decision_function(frame), dense, rtol=1e-6, atol=1e-9)


@each_classifier
def test_weight_two_equals_a_repeated_row(classifier, rare):
    X, y = rare[0][:120], rare[1][:120]
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    # In one batch, where the order of the rows does not matter.
    params = {"batch_size": 1000, "random_state": 0, "max_epochs": 20}
    weighted = clone(classifier).set_params(**params).fit(X, y, sample_weight=weight)
    repeated = clone(classifier).set_params(**params)
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.threshold_, repeated.threshold_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-6, atol=1e-9
    )


@each_classifier
def test_weights_may_sum_to_one(classifier, rare):
    X, y = rare[0][:200], rare[1][:200]
    if isinstance(getattr(classifier, "k", None), int):
        return  # a number of rows of weight 1
    clf = quick(classifier, early_stopping=True).fit(X, y)
    light = quick(classifier, early_stopping=True).fit(X, y, sample_weight=np.full(200, 1 / 200))
    # A rank is rounded up to a row only where there is a whole one.
    assert abs(light.predict(X).sum() - clf.predict(X).sum()) <= 1
    assert light.history_[-1]["valid_score"] == pytest.approx(clf.history_[-1]["valid_score"])


@each_classifier
def test_works_in_a_pipeline_and_a_grid(classifier, rare):
    X, y, *_ = rare
    name = type(classifier).__name__.lower()
    grid = {
        f"{name}__surrogate": ["quadratic", "hinge", "logistic"],
        f"{name}__buffer_size": [0, 3],
    }
    pipe = make_pipeline(StandardScaler(), quick(classifier, max_epochs=1))
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@each_classifier
def test_pickled_copy_predicts_and_trains_the_same(classifier, rare):
    X, y, *_ = rare
    clf = quick(classifier, buffer_size=3, warm_start=True).fit(X, y)
    copy = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(copy.decision_function(X), clf.decision_function(X))
    assert copy.threshold_ == clf.threshold_
    np.testing.assert_array_equal(
        copy.fit(X, y).decision_function(X), clf.fit(X, y).decision_function(X)
    )


@each_classifier
def test_same_seed_same_scores_and_global_state_untouched(classifier, rare):
    import torch

    X, y, *_ = rare
    state = torch.get_rng_state()
    first, second = (quick(classifier).fit(X, y).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert torch.equal(state, torch.get_rng_state())


# Validation and probabilities.


@each_classifier
def test_early_stopping_holds_out_rows_of_both_classes(classifier, rare):
    X, y, *_ = rare
    clf = quick(classifier, early_stopping=True, max_epochs=40, n_iter_no_change=3).fit(X, y)
    scores = [row["valid_score"] for row in clf.history_]
    assert len(scores) < 40
    assert np.isfinite(scores).all()
    assert np.isfinite([row["valid_loss"] for row in clf.history_]).all()


def test_a_scorer_of_labels_sees_the_threshold_of_its_epoch(rare):
    X, y, X_val, y_val = rare
    clf = quick(PatMatClassifier(tau=0.1), scoring="f1").fit(X, y, X_val=X_val, y_val=y_val)
    assert clf.history_[-1]["valid_score"] > 0.2


def test_probabilities_come_with_calibration_only(rare):
    X, y, X_test, y_test = rare
    clf = quick(DeepTopPushClassifier()).fit(X, y)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError) as refused:
        clf.predict_proba(X)
    assert "predict_proba is not available without calibration" in str(refused.value)
    for method in ("sigmoid", "temperature"):
        clf = quick(PatMatNPClassifier(), calibration=method, max_epochs=20).fit(X, y)
        proba = clf.predict_proba(X_test)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
        order = np.argsort(clf.decision_function(X_test), kind="stable")
        assert (np.diff(proba[order, 1]) >= 0).all()
    # Platt's sigmoid moves the base rate where it belongs, a temperature cannot.
    clf = quick(PatMatNPClassifier(), calibration="sigmoid", max_epochs=20).fit(X, y)
    assert clf.predict_proba(X_test)[:, 1].mean() == pytest.approx(y_test.mean(), abs=0.05)


# Degenerate data.


@each_classifier
def test_a_single_positive_and_equal_scores_are_defined(classifier):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), np.zeros(300, dtype=int)
    y[17] = 1
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        clf = quick(classifier).fit(X, y)
        assert np.isfinite(clf.decision_function(X)).all()
        constant = quick(classifier).fit(np.zeros((300, 3)), y)
    flagged = constant.predict(np.zeros((300, 3)))
    none = isinstance(classifier, DeepTopPushClassifier | RecallAtFPRClassifier)
    assert (flagged == (0 if none else 1)).all()


@pytest.mark.parametrize(
    ("classifier", "total", "what"),
    [(TopPushKClassifier(k=1000), 540, "negatives"), (RecallAtKClassifier(k=1000), 600, "rows")],
)
def test_k_beyond_the_rows_is_clipped_with_a_word(classifier, total, what, rare):
    X, y, *_ = rare
    total = int((y == 0).sum()) if what == "negatives" else total
    with pytest.warns(UserWarning, match=rf"k=1000 must be at most the number of {what} \({total}"):
        clf = quick(classifier).fit(X, y)
    assert clf.k_ == total
    assert clf.predict(X)[y == 0].all()
    with pytest.warns(UserWarning, match="k counts sample_weight, which should be about 1 a row"):
        quick(classifier).set_params(k=20).fit(X, y, sample_weight=np.full(len(y), 1 / len(y)))


@each_classifier
def test_more_than_two_classes_are_refused(classifier, rare):
    X, *_ = rare
    with pytest.raises(ValueError, match=r"Only binary .* y must have 2 classes; got"):
        quick(classifier).fit(X, np.arange(600) % 3)
    with pytest.raises(ValueError, match="1 class"):
        quick(classifier).fit(X, np.ones(600))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"surrogate": "cubic"}, ValueError, "surrogate must be one of 'quadratic', 'hinge', 'log"),
        ({"buffer_size": -1}, ValueError, "buffer_size"),
        ({"buffer_size": 1.0}, TypeError, "buffer_size"),
        ({"min_positives": -1}, ValueError, "min_positives"),
        ({"batch_size": 4}, ValueError, "min_positives=5 must be smaller than batch_size=4"),
        ({"calibration": "isotonic"}, ValueError, "calibration must be one of"),
        ({"score_scale": 0}, ValueError, "score_scale"),
    ],
)
def test_parameters_out_of_range_are_refused_before_training(params, error, message, rare):
    X, y, *_ = rare
    with pytest.raises(error, match=message):
        quick(DeepTopPushClassifier(), **params).fit(X, y)


@pytest.mark.parametrize(
    "classifier",
    [
        TopPushKClassifier(k=0),
        RecallAtKClassifier(k=1.5),
        RecallAtKClassifier(k=0.0),
        PatMatClassifier(tau=0),
        PatMatClassifier(tau=1.0),
        PatMatNPClassifier(tau=-0.1),
        RecallAtFPRClassifier(fpr=1.0),
        PrecisionAtRecallClassifier(recall=0),
        PrecisionAtRecallClassifier(recall=1.5),
        PrecisionAtRecallClassifier(recall="all"),
    ],
    ids=repr,
)
def test_the_rank_out_of_range_is_refused(classifier, rare):
    X, y, *_ = rare
    with pytest.raises((ValueError, TypeError), match=r"k|tau|fpr|recall"):
        classifier.fit(X, y)


def test_validation_rows_of_one_class_cannot_set_a_recall(rare):
    X, y, X_val, _ = rare
    with pytest.raises(ValueError, match="y_val must have rows of both classes"):
        quick(PrecisionAtRecallClassifier()).fit(X, y, X_val=X_val, y_val=np.zeros(600))


@pytest.mark.parametrize("cls", [RecallAtKClassifier, PatMatClassifier])
def test_warns_of_places_that_negatives_took_in_training(cls):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), np.arange(400) % 5 == 0
    params = {"k": 40} if cls is RecallAtKClassifier else {"tau": 0.1}
    params |= {"max_epochs": 30, "learning_rate": 0.01, "random_state": 0}
    params |= {"hidden_layer_sizes": ()}

    def poor(X, y, **more):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf = cls(**params | more).fit(X, y)
        texts = [str(w.message) for w in caught if "threshold_" in str(w.message)]
        return clf, [text for text in texts if "could be" in text]

    # Nothing to learn.
    clf, (text,) = poor(X, y)
    precision = y[clf.predict(X) == 1].mean()
    assert f"above threshold_, {precision:.0%} are positive, where 100% could be" in text
    # The way out is no advice for whoever takes it already.
    assert "warm_up=20" in text
    assert "warm_up" not in poor(X, y, warm_up=3)[1][0]
    # Labels that X tells; and as few positives as there can be, each of them found.
    told = X + 5 * y[:, None]
    assert poor(told, y)[1] == []
    few = y & (np.arange(400) < 20)
    assert poor(X + 9 * few[:, None], few)[1] == []
    # Of rows that a member has not seen, or of a piece of a stream, this would say nothing.
    assert poor(X, y, n_members=2, cross_fit=True)[1] == []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*could be")
        cls(**params).partial_fit(X, y)


@pytest.mark.parametrize("cls", [RecallAtKClassifier, PatMatClassifier])
def test_warns_of_places_that_rows_left_out_fill_no_better_than_by_lot(cls):
    params = {"k": 40} if cls is RecallAtKClassifier else {"tau": 0.1}
    params |= {"hidden_layer_sizes": (), "n_members": 2, "cross_fit": True, "random_state": 0}
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), np.arange(400) % 5 == 0

    def said(X, y):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf = cls(**params, max_epochs=30, learning_rate=0.02).fit(X, y)
        return clf, [str(each.message) for each in caught if "by lot" in str(each.message)]

    clf, (text,) = said(X, y)
    flagged = np.argsort(-clf.oob_decision_function_)[:40]
    n, found = 40, int(y[flagged].sum())
    as_many = sum(math.comb(80, i) * math.comb(320, n - i) for i in range(found, n + 1))
    share = as_many / math.comb(400, n)
    assert share > 0.05
    assert f"Of the {n} rows on top, each scored by a member that had left it out" in text
    assert f"{found} are positive, and 80 of all 400" in text
    assert f"as many in {share:.0%} of the draws" in text
    # Thrice the share of all rows may be all that X tells, and is no chance.
    clf, texts = said(X + 1.2 * y[:, None], y)
    assert y[np.argsort(-clf.oob_decision_function_)[:40]].mean() > 0.5
    assert texts == []


@pytest.mark.filterwarnings("ignore:max_epochs")
@pytest.mark.parametrize(
    "clf",
    [PatMatClassifier(tau=0.05), PatMatNPClassifier(tau=0.05), RecallAtKClassifier(k=100)],
    ids=["share", "share of negatives", "places"],
)
def test_about_as_many_fresh_rows_are_flagged_as_asked_for(clf):
    """Fresh rows are scored by the mean of members, those left out by one, on its own scale."""
    n = 2000
    rng = np.random.default_rng(1)
    y = rng.random(n + 20_000) < 0.1
    X = rng.standard_normal((len(y), 20)) + 0.3 * y[:, None]
    clf = clone(clf).set_params(n_members=8, random_state=1, max_epochs=10)
    clf.fit(X[:n], y[:n])
    fresh = slice(n, None)
    counted = ~y[fresh] if isinstance(clf, PatMatNPClassifier) else slice(None)
    flagged = (clf.decision_function(X[fresh]) > 0)[counted].mean() / 0.05
    assert 0.6 < flagged < 1.6
