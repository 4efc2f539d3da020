"""Values that were once wrong without an error or a warning."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from skorch.callbacks import LRScheduler

from sktopk import RecallAtFPRClassifier, TopKClassifier
from sktopk.io import dump
from sktopk.metrics import make_top_scorer, true_positive_rate_at_fpr_score
from sktopk.modules import MLP

QUICK = {"n_estimators": 2, "max_epochs": 2, "hidden_layer_sizes": (8,), "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def test_stochastic_gradient_descent_trains_without_the_weight_decay_of_adamw(digits):
    # With the default weight decay of AdamW, the score would be that of chance.
    X, y = digits
    clf = TopKClassifier(
        k=5,
        log_loss_share=0,
        n_estimators=1,
        calibration=None,
        module=MLP,
        batch_size=256,
        max_epochs=40,
        learning_rate=0.1,
        net_params={"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9},
        random_state=0,
    )
    assert clf.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.97


def test_cross_entropy_helps_a_loss_of_cosines_on_a_long_tail():
    weights = 0.88 ** np.arange(30)
    X, y = make_classification(
        9000,
        20,
        n_informative=15,
        n_classes=30,
        n_clusters_per_class=1,
        weights=weights / weights.sum(),
        class_sep=2,
        random_state=0,
    )
    found = {}
    for share in (0, 0.6):
        clf = TopKClassifier(
            "noised_topk_imbalanced",
            log_loss_share=share,
            module=MLP,
            net_params={"module__normalize": True},
            n_estimators=2,
            random_state=0,
        )
        clf.fit(X[:1500], y[:1500])
        found[share] = balanced_accuracy_score(y[1500:], clf.predict(X[1500:]))
    assert found[0.6] > max(found[0], 0.65)


def test_a_search_over_fpr_compares_one_metric_if_a_scorer_is_given(digits):
    X, y = digits
    X, y = X[:600], np.where(y[:600] == 8, "fraud", "ok")
    clf = RecallAtFPRClassifier(pos_label="fraud", n_estimators=2, max_epochs=4, random_state=0)
    grid, folds = {"fpr": [0.01, 0.05, 0.3]}, StratifiedKFold(2)
    scorer = make_top_scorer("true_positive_rate_at_fpr", fpr=0.05, pos_label="fraud")
    found = GridSearchCV(clf, grid, scoring=scorer, cv=folds).fit(X, y).cv_results_
    for fpr, score in zip(grid["fpr"], found["mean_test_score"], strict=True):
        expected = []
        for train, test in folds.split(X, y):
            # "fraud" is the first label, so that its scores are negative.
            scores = -clf.set_params(fpr=fpr).fit(X[train], y[train]).decision_function(X[test])
            expected.append(true_positive_rate_at_fpr_score(y[test] == "fraud", scores, fpr=0.05))
        assert score == pytest.approx(np.mean(expected))
    # `score` of the classifier is another metric for each candidate, and the easiest one wins.
    own = GridSearchCV(clf, grid, cv=folds).fit(X, y)
    assert own.best_params_ == {"fpr": 0.3}
    assert np.ptp(found["mean_test_score"]) < np.ptp(own.cv_results_["mean_test_score"]) / 2


def test_numbers_with_a_decimal_comma_are_said():
    table = pd.DataFrame({"length": [f"0,{i % 7}" for i in range(60)]})
    with pytest.warns(UserWarning, match="column 'length' of X has numbers with a decimal comma"):
        TopKClassifier(k=1, **QUICK).fit(table, np.arange(60) % 3)


def test_two_corrections_for_class_frequencies_are_said():
    clf = TopKClassifier("logit_adjusted", class_weight="balanced", k=1, **QUICK)
    with pytest.warns(UserWarning, match="both correct for class frequencies"):
        clf.fit(np.arange(60.0)[:, None], np.arange(60) % 3)


def test_one_row_of_a_frame_says_how_to_pass_it():
    table = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60) % 3})
    clf = TopKClassifier(k=1, **QUICK).fit(table, table["b"])
    with pytest.raises(ValueError, match=r"X must have two dimensions; .* pass X.iloc\[\[i\]\]"):
        clf.predict_topk(table.iloc[7])


def test_a_loss_of_weighted_samples_has_to_return_their_mean():
    def each(scores, target, sample_weight=None):
        values = torch.nn.functional.cross_entropy(scores, target, reduction="none")
        return values if sample_weight is None else values * sample_weight

    X, y = np.arange(60.0)[:, None], np.arange(60) % 3
    clf = TopKClassifier(each, k=1, **QUICK).fit(X, y)
    with pytest.raises(TypeError, match=r"the weighted mean, a scalar.* shape \(\d+,\)"):
        clf.fit(X, y, sample_weight=1.0 + y)


def test_an_estimator_with_a_learning_rate_schedule_can_be_written(tmp_path):
    schedule = LRScheduler(policy="StepLR", step_size=2)
    X, y = np.arange(60.0)[:, None], np.arange(60) % 3
    clf = TopKClassifier(k=1, callbacks=[schedule], **QUICK).fit(X, y)
    dump(clf, tmp_path / "clf.skops")
    pickle.loads(pickle.dumps(clf)).partial_fit(X, y)
