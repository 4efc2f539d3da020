"""Does the right one of two labels come on top, whatever the two are called?"""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import (
    AUCClassifier,
    BudgetClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    PrecisionAtRecallProgramClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    RecallAtPrecisionClassifier,
    ThresholdClassifier,
    TopKClassifier,
    TopPushKClassifier,
)
from sktopk.io import dump, load
from sktopk.metrics import make_top_scorer
from sktopk.model_selection import compare_losses
from sktopk.modules import MLP

OF_TABLES = {
    "max_epochs": 3,
    "learning_rate": 0.02,
    "random_state": 0,
    "hidden_layer_sizes": (4,),
}
SHORT = {"module": MLP, **OF_TABLES}
RANKERS = [
    AUCClassifier(**SHORT),
    AUCClassifier(calibration="sigmoid", **SHORT),
    DeepTopPushClassifier(early_stopping=True, **SHORT),
    FScoreClassifier(early_stopping=True, **SHORT),
    PatMatClassifier(tau=0.1, **SHORT),
    PatMatNPClassifier(tau=0.1, **SHORT),
    PrecisionAtRecallClassifier(**SHORT),
    PrecisionAtRecallProgramClassifier(**SHORT),
    RecallAtFPRClassifier(fpr=0.1, **SHORT),
    RecallAtKClassifier(k=20, calibration="temperature", **SHORT),
    RecallAtPrecisionClassifier(precision=0.5, **SHORT),
    ThresholdClassifier(errors="false_positives", **SHORT),
    TopPushKClassifier(k=300, batch_size=64, buffer_size=20, **SHORT),
    AUCClassifier(calibration="sigmoid", **OF_TABLES),
    DeepTopPushClassifier(n_members=1, **OF_TABLES),
    PatMatClassifier(tau=0.1, **OF_TABLES),
    RecallAtPrecisionClassifier(precision=0.5, n_members=3, **OF_TABLES),
]
every_ranker = pytest.mark.parametrize("ranker", RANKERS, ids=repr)
QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def rows():
    """Rows of which a tenth is positive."""
    rng = np.random.default_rng(0)
    positive = rng.random(400) < 0.1
    return rng.normal(size=(400, 3)) + 1.5 * positive[:, None], positive


def fitted(estimator, X, y, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return type(estimator)(**(estimator.get_params(deep=False) | params)).fit(X, y)


@QUIET
@every_ranker
def test_a_ranker_is_the_same_whatever_the_labels_are_called(ranker, rows):
    X, positive = rows
    plain = fitted(ranker, X, positive.astype(int))
    # The positive label is the first of the two.
    y = np.where(positive, "fraud", "ok")
    named = fitted(ranker, X, y, pos_label="fraud")
    assert (plain.pos_label_, named.pos_label_) == (1, "fraud")
    assert named.classes_.tolist() == ["fraud", "ok"]
    np.testing.assert_array_equal(named.class_count_, plain.class_count_[::-1])
    np.testing.assert_array_equal(named.predict_top(X, 50), plain.predict_top(X, 50))
    np.testing.assert_array_equal(named.predict(X) == "fraud", plain.predict(X) == 1)
    expected = plain.score(X, positive.astype(int))
    assert named.score(X, y) == pytest.approx(expected, rel=1e-12)
    assert named.threshold_ == plain.threshold_
    # As scikit-learn has it: above 0 the second class.
    np.testing.assert_array_equal(named.decision_function(X), -plain.decision_function(X))
    np.testing.assert_array_equal(named.decision_function(X) > 0, named.predict(X) == "ok")
    if ranker.calibration:
        proba = named.predict_proba(X)
        np.testing.assert_allclose(proba, plain.predict_proba(X)[:, ::-1], atol=1e-6)
    for name in ("train_loss", "valid_score"):
        found, expected = ([row.get(name) for row in clf.history_] for clf in (named, plain))
        assert found == (expected if None in expected else pytest.approx(expected, rel=1e-12))


@QUIET
@every_ranker
def test_the_rarer_of_two_labels_that_do_not_tell_is_positive_and_said_to_be(ranker, rows):
    X, positive = rows
    match = "'fraud' is taken, the rarer one. Set pos_label='fraud' or pos_label='ok'"
    with pytest.warns(UserWarning, match=match):
        clf = ranker.fit(X, np.where(positive, "fraud", "ok"))
    assert clf.pos_label_ == "fraud"
    told = fitted(ranker, X, np.where(positive, "fraud", "ok"), pos_label="fraud")
    np.testing.assert_array_equal(clf.predict_top(X, 40), told.predict_top(X, 40))


DESK = BudgetClassifier(LogisticRegression(), budget=40, random_state=0)


@pytest.mark.parametrize(
    "labels",
    [("ok", "fraud"), ("a sale", "fraud"), (1, 2), (2, 1), (-1, 0), (0, -1), (3.0, 7.0)],
    ids=repr,
)
@pytest.mark.parametrize(
    "estimator", [DeepTopPushClassifier(**SHORT), AUCClassifier(**SHORT), DESK], ids=repr
)
def test_labels_that_do_not_tell(estimator, labels, rows):
    X, positive = rows
    y = np.array(labels)[positive.astype(int)]
    for pos_label, warned in ((labels[1], False), (None, True), (labels[0], False)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf = type(estimator)(
                **(estimator.get_params(deep=False) | {"pos_label": pos_label})
            ).fit(X, y)
        said = [str(each.message) for each in caught if "do not tell" in str(each.message)]
        assert len(said) == warned
        assert clf.pos_label_ == (labels[1] if pos_label is None else pos_label)
        top = y[clf.predict_top(X, 20)]
        assert np.mean(top == clf.pos_label_) > (0.95 if pos_label == labels[0] else 0.3)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), (0.0, 1.0)], ids=repr)
@pytest.mark.parametrize("estimator", [AUCClassifier(**SHORT), DESK], ids=repr)
def test_labels_that_tell_and_a_positive_class_that_is_no_top(estimator, labels, rows):
    X, positive = rows
    negative, one = labels
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf = estimator.fit(X, np.array(labels)[positive.astype(int)])
        assert clf.pos_label_ == one
        assert not [each for each in caught if "pos_label" in str(each.message)]
        upside_down = np.array(labels)[(~positive).astype(int)]
        clf = estimator.fit(X, upside_down)
    assert clf.pos_label_ == one
    (said,) = (str(each.message) for each in caught if "pos_label" in str(each.message))
    assert f"% of the rows are positive, labelled {one!r}: if {negative!r} is what" in said
    for pos_label in labels:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clf.set_params(pos_label=pos_label).fit(X, upside_down)
        assert not [each for each in caught if "pos_label" in str(each.message)]
        assert clf.pos_label_ == pos_label
    clf.set_params(pos_label=None)


def test_equally_frequent_labels_that_do_not_tell_leave_it_to_their_order(rows):
    X, _ = rows
    y = np.where(np.arange(400) % 2, "b", "a")
    match = "'b' is taken, the second in sorted order, as both are equally frequent"
    for estimator in (AUCClassifier(**SHORT), DESK):
        with pytest.warns(UserWarning, match=match):
            assert estimator.fit(X, y).pos_label_ == "b"
    # Whole weights are rows: weights that balance the classes hide which is rare.
    y, weight = np.where(np.arange(400) < 100, "a", "b"), np.where(np.arange(400) < 100, 0.3, 0.1)
    with pytest.warns(UserWarning, match=match):
        assert AUCClassifier(**SHORT).fit(X, y, sample_weight=weight).pos_label_ == "b"


@pytest.mark.parametrize(
    "estimator", [DeepTopPushClassifier(**SHORT), AUCClassifier(**SHORT), DESK], ids=repr
)
def test_what_is_no_label_is_refused_before_any_training(estimator, rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    for pos_label in ("Fraud", 1, True):
        with pytest.raises(ValueError, match=r"pos_label must be one of \['fraud', 'ok'\]; got"):
            fitted(estimator, X, y, pos_label=pos_label)
    with pytest.raises(TypeError, match="pos_label must be a label or None; got"):
        fitted(estimator, X, y, pos_label=["fraud"])


def test_several_classes_have_no_positive_one(rows):
    X, _ = rows
    y = np.arange(400) % 3
    with pytest.raises(ValueError, match="pos_label must be None where y has 3 classes"):
        fitted(AUCClassifier(**SHORT), X, y, pos_label=2)
    assert not hasattr(fitted(AUCClassifier(**SHORT), X, y), "pos_label_")


@QUIET
def test_a_net_that_goes_on_keeps_its_positive_label(rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    clf = DeepTopPushClassifier(**SHORT)
    with pytest.warns(UserWarning, match="'fraud' is taken"):
        clf.partial_fit(X, y)
    # By now fraud is the more frequent one.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.partial_fit(X[positive], y[positive], sample_weight=np.full(positive.sum(), 1e3))
    assert clf.pos_label_ == "fraud"
    assert not [each for each in caught if "pos_label" in str(each.message)]
    clf.set_params(warm_start=True, pos_label="ok")
    with pytest.raises(ValueError, match="started with pos_label=None cannot go on with pos_label"):
        clf.fit(X, y)


def make_desk(rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    net = fitted(DeepTopPushClassifier(**SHORT), X, y, pos_label="fraud")
    frozen = FrozenEstimator(net)
    return X, {
        "ranker": net,
        "budget": fitted(BudgetClassifier(frozen, budget=0.1), X, y),
        "other way round": fitted(BudgetClassifier(frozen, budget=0.2, pos_label="ok"), X, y),
    }


@QUIET
@pytest.mark.parametrize("name", ["ranker", "budget", "other way round"])
def test_files_keep_it(name, rows, tmp_path):
    X, desks = make_desk(rows)
    clf = desks[name]
    assert clf.pos_label_ == ("ok" if name == "other way round" else "fraud")
    for other in (pickle.loads(pickle.dumps(clf)), load(dump(clf, tmp_path / "desk.sktopk"))):
        assert other.pos_label_ == clf.pos_label_
        np.testing.assert_array_equal(other.predict(X), clf.predict(X))
        np.testing.assert_array_equal(other.predict_top(X, 9), clf.predict_top(X, 9))


@QUIET
@pytest.mark.parametrize(
    "params",
    [
        {"budget": 40},
        {"budget": 0.1, "per": "batch"},
        {"budget": 0.1, "constraint": "fpr"},
        {"budget": 0.3, "constraint": "precision"},
        {"budget": 0.6, "constraint": "recall"},
        {"budget": 0.5, "constraint": "fdr"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("inner", [LogisticRegression(), GaussianNB()], ids=repr)
def test_a_budget_is_the_same_whatever_the_labels_are_called(inner, params, rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    turned = np.where(positive, "z", "ok")
    # Two columns of probabilities, or a score that means the second class. Frozen, as rows that
    # are held out by class depend on the order of the labels.
    plain, named = (FrozenEstimator(clone(inner).fit(X, each)) for each in (turned, y))
    plain = BudgetClassifier(plain, random_state=0, pos_label="z", **params).fit(X, turned)
    named = BudgetClassifier(named, random_state=0, pos_label="fraud", **params).fit(X, y)
    assert (plain.pos_label_, named.pos_label_) == ("z", "fraud")
    np.testing.assert_array_equal(named.predict(X) == "fraud", plain.predict(X) == "z")
    np.testing.assert_array_equal(named.predict_top(X), plain.predict_top(X))
    np.testing.assert_allclose(
        named.decision_function(X), -plain.decision_function(X), rtol=1e-6, atol=1e-9
    )
    assert named.score(X, y) == plain.score(X, turned)
    assert (named.predict(X) == "fraud").any()


@QUIET
def test_a_budget_takes_for_positive_what_its_classifier_does(rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    pipe = make_pipeline(StandardScaler(), DeepTopPushClassifier(pos_label="ok", **SHORT))
    search = GridSearchCV(pipe, {"deeptoppushclassifier__max_epochs": [2]}, cv=2)
    for inner in (pipe, search):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*pos_label")
            assert BudgetClassifier(inner, random_state=0).fit(X, y).pos_label_ == "ok"


def test_rankers_and_scorers_of_named_labels_can_be_compared(rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    comparison = compare_losses(
        TopKClassifier(k=1, **SHORT),
        {"push": DeepTopPushClassifier(pos_label="fraud", **SHORT)},
        X,
        y,
        scoring=make_top_scorer("recall_at_k", k=20, pos_label="fraud"),
        cv=2,
        grid=None,
        progress=False,
    )
    scores = comparison.frame.groupby("loss")["score"].mean()
    # 20 of 200 rows by chance: .1.
    assert scores["hist_gradient_boosting"] > 0.2
    assert set(scores.index) >= {"push", "cross_entropy", "weighted_cross_entropy"}
