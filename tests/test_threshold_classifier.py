"""ThresholdClassifier: any threshold, either kind of errors."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sktopk import (
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtKClassifier,
    ThresholdClassifier,
    TopPushKClassifier,
)
from sktopk.io import dump, load
from sktopk.losses import (
    KthLargest,
    SurrogateQuantile,
    TopMean,
    accuracy_at_top_loss,
)
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def two_best_negatives(scores, positive, weight=None):
    """A threshold of a user's."""
    return scores.masked_fill(positive, -torch.inf).topk(2).values.mean()


THRESHOLDS = {
    "k-th": KthLargest("negatives", k=3),
    "share": KthLargest("all", tau=0.1),
    "mean": TopMean("negatives", k=4),
    "surrogate quantile": SurrogateQuantile("negatives", tau=0.2, surrogate="hinge"),
    "of a user": two_best_negatives,
}
every_threshold = pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=THRESHOLDS)
QUICK = {
    "module": MLP,
    "max_epochs": 4,
    "hidden_layer_sizes": (6,),
    "batch_size": 64,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(3)
    y = (rng.random(400) < 0.2).astype(int)
    return rng.standard_normal((400, 5)) + 0.7 * y[:, None], y


# Equation 1.
BOTH = {"false_positives": 0.2, "false_negatives": 0.8}


@every_threshold
@pytest.mark.parametrize("errors", ["false_negatives", "false_positives", BOTH], ids=str)
def test_a_step_is_that_of_the_loss_one_reads(rare, threshold, errors):
    X, y = rare
    linear = {"hidden_layer_sizes": (), "batch_size": len(y), "weight_decay": 0.0}
    clf = ThresholdClassifier(threshold, errors, optimizer="sgd", learning_rate=0.3, **linear)
    clf.set_params(max_epochs=1, random_state=0, warm_start=True)
    still = clone(clf).set_params(learning_rate=1e-300).fit(X, y)
    layer = still.net_.module_[0]
    layer.zero_grad()
    loss = accuracy_at_top_loss(
        layer(torch.from_numpy(X)).flatten(),
        torch.from_numpy(y),
        threshold=threshold,
        errors=errors,
    )
    loss.backward()
    expected = layer.weight - 0.3 * layer.weight.grad
    trained = clf.fit(X, y)
    assert trained.history_[0]["train_loss"] == pytest.approx(loss.item(), rel=1e-12)
    torch.testing.assert_close(trained.net_.module_[0].weight, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("buffer_size", [0, 5])
@every_threshold
def test_minibatches_bring_the_positives_up(rare, threshold, buffer_size):
    X, y = rare
    clf = ThresholdClassifier(threshold, buffer_size=buffer_size, **QUICK)
    clf.set_params(learning_rate=0.01, max_epochs=15).fit(X, y)
    assert np.isfinite(clf.history_[-1]["threshold"]).all()
    assert y[clf.predict_top(X, 20)].mean() > 2 * y.mean()
    assert clf.history_[-1]["train_loss"] < clf.history_[0]["train_loss"]


def test_with_both_kinds_of_errors_score_is_the_weighted_mean_of_the_shares(rare):
    X, y = rare
    clf = ThresholdClassifier(KthLargest("all", k=40), BOTH, **QUICK).fit(X, y)
    shares = [clone(clf).set_params(errors=name).fit(X, y) for name in BOTH]
    for each in shares:
        each.net_, each.threshold_ = clf.net_, clf.threshold_
    of_negatives, of_positives = (each.score(X, y) for each in shares)
    assert clf.score(X, y) == pytest.approx(0.2 * of_negatives + 0.8 * of_positives)


@pytest.mark.parametrize("groups", [None, "of ten"])
def test_both_kinds_of_errors_train_by_groups_and_by_batches(rare, groups):
    X, y = rare
    groups = None if groups is None else np.arange(len(y)) // 10
    threshold = KthLargest("all", k=40 if groups is None else 2)
    clf = ThresholdClassifier(threshold, BOTH, **QUICK)
    clf.set_params(learning_rate=0.01, max_epochs=15).fit(X, y, groups=groups)
    assert clf.history_[-1]["train_loss"] < clf.history_[0]["train_loss"]
    assert y[clf.predict_top(X, 20)].mean() > 2 * y.mean()


@pytest.mark.parametrize(
    ("named", "threshold", "errors"),
    [
        (TopPushKClassifier(k=4), KthLargest("negatives", k=4), "false_negatives"),
        (RecallAtKClassifier(k=30), KthLargest("all", k=30), "false_negatives"),
        (PatMatClassifier(tau=0.1), KthLargest("all", tau=0.1), "false_negatives"),
        (PatMatNPClassifier(tau=0.1), KthLargest("negatives", tau=0.1), "false_negatives"),
        (
            PrecisionAtRecallClassifier(recall=0.6),
            KthLargest("positives", tau=0.6),
            "false_positives",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_classifiers_with_a_name_are_this_one_with_a_default(rare, named, threshold, errors):
    X, y = rare
    named = named.set_params(buffer_size=3, **QUICK).fit(X, y)
    clf = ThresholdClassifier(threshold, errors, buffer_size=3, **QUICK).fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(X), named.decision_function(X))
    assert clf.threshold_ == named.threshold_


@pytest.mark.parametrize("errors", ["false_negatives", "false_positives"])
def test_score_is_the_share_on_the_right_side(rare, errors):
    X, y = rare
    clf = ThresholdClassifier(KthLargest("all", k=40), errors, **QUICK).fit(X, y)
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    scores = clf.decision_function(X)
    order, reached = np.argsort(-scores), 0.0
    for row in order:
        reached += weight[row]
        if reached >= 40:
            t = scores[row]
            break
    right = total = 0.0
    for s, label, w in zip(scores, y, weight, strict=True):
        if label == (errors == "false_negatives"):
            total += w
            right += w * ((s >= t) if label else (s < t))
    assert clf.score(X, y, weight) == pytest.approx(right / total)
    without = y == int(errors == "false_positives")
    with pytest.warns(UserWarning, match="y has no row that counts"):
        undefined = clf.score(X[without], y[without])
    assert np.isnan(undefined)


def test_threshold_flags_what_reaches_it(rare):
    X, y = rare
    clf = ThresholdClassifier(KthLargest("all", k=25), **QUICK).fit(X, y)
    assert clf.predict(X).sum() == 25
    clf = ThresholdClassifier(TopMean("negatives", k=5), **QUICK).fit(X, y)
    scores = clf.decision_function(X)
    assert (scores[y == 0] > 0).sum() == (
        scores[y == 0] >= np.sort(scores[y == 0])[-5:].mean()
    ).sum()


@pytest.mark.parametrize("name", ["k-th", "share", "mean", "surrogate quantile"])
def test_a_file_keeps_the_threshold(rare, name, tmp_path):
    X, y = rare
    clf = ThresholdClassifier(THRESHOLDS[name], **QUICK).fit(X, y)
    loaded = load(dump(clf, tmp_path / "clf"))
    assert loaded.threshold == clf.threshold
    np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
    loaded.partial_fit(X, y)
    np.testing.assert_array_equal(
        loaded.decision_function(X), clf.partial_fit(X, y).decision_function(X)
    )


def test_a_search_over_thresholds(rare):
    grid = {"threshold": [KthLargest("all", tau=0.05), TopMean("negatives", tau=0.05)]}
    search = GridSearchCV(ThresholdClassifier(**QUICK), grid, cv=2).fit(*rare)
    assert np.isfinite(search.best_score_)


def test_what_is_no_threshold_is_refused(rare):
    for params, error, message in [
        ({"threshold": 0.5}, TypeError, "threshold must be callable, such as .*; got 0.5"),
        ({"errors": "all"}, ValueError, "errors must be one of 'false_negatives', 'false_pos"),
    ]:
        with pytest.raises(error, match=message):
            ThresholdClassifier(**params).fit(*rare)
