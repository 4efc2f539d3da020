"""What happens during a fit: seeds, continuing, stopping, callbacks, copies, accidents."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import LRScheduler
from torch import nn

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings(
    "ignore:The training loss still fell", "ignore:max_epochs=.*ended the training before"
)


def quick(**params):
    params = {
        "k": 2,
        "module": MLP,
        "hidden_layer_sizes": (8,),
        "max_epochs": 8,
        "batch_size": 32,
        **params,
    }
    return TopKClassifier(**{"random_state": 0, **params})


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 9), nn.Dropout(0.5), nn.Linear(9, n_outputs))


MODULES = {"default": {}, "dropout": {"module": WithDropout}}


@pytest.mark.parametrize("params", MODULES.values(), ids=MODULES)
def test_same_seed_same_fit(blobs, params):
    X, y = blobs
    a = quick(**params).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(a, quick(**params).fit(X, y).decision_function(X))
    assert not np.array_equal(a, quick(**params, random_state=1).fit(X, y).decision_function(X))


@pytest.mark.parametrize("params", MODULES.values(), ids=MODULES)
def test_global_generators_are_left_alone(blobs, params):
    X, y = blobs
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    quick(**params).fit(X, y).predict(X)
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("params", MODULES.values(), ids=MODULES)
def test_fits_in_threads_equal_fits_in_turn(blobs, params):
    X, y = blobs

    def run(seed):
        return quick(**params, random_state=seed).fit(X, y).decision_function(X)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, range(8)))
    np.testing.assert_array_equal(together, [run(seed) for seed in range(8)])


@pytest.mark.parametrize("params", MODULES.values(), ids=MODULES)
def test_two_warm_starts_equal_one_long_fit(blobs, params):
    X, y = blobs
    once = quick(**params).fit(X, y)
    twice = quick(**params, max_epochs=4, warm_start=True).fit(X, y)
    assert twice.n_iter_ == 4
    twice.fit(X, y)
    assert twice.n_iter_ == 8
    np.testing.assert_array_equal(once.decision_function(X), twice.decision_function(X))


def test_partial_fits_equal_epochs(blobs):
    X, y = blobs
    clf = quick()
    for _ in range(8):
        clf.partial_fit(X, y, classes=range(5))
    np.testing.assert_array_equal(clf.decision_function(X), quick().fit(X, y).decision_function(X))
    np.testing.assert_array_equal(clf.class_count_, 8 * np.bincount(y))


def test_partial_fit_takes_pieces_that_lack_classes(blobs):
    X, y = blobs
    clf = quick()
    for label in range(5):
        clf.partial_fit(X[y == label], y[y == label], classes=range(5))
    assert clf.predict_topk(X, k=4).shape == (len(X), 4)


def test_fit_without_warm_start_starts_anew(blobs):
    X, y = blobs
    clf = quick().fit(X[:, :2], y % 3)
    np.testing.assert_array_equal(
        clf.fit(X, y).decision_function(X), quick().fit(X, y).decision_function(X)
    )


@pytest.mark.parametrize("copied", ["pickle", "joblib", "deepcopy"])
@pytest.mark.parametrize("params", MODULES.values(), ids=MODULES)
def test_a_copy_predicts_and_trains_on_like_the_original(blobs, tmp_path, params, copied):
    X, y = blobs
    clf = quick(**params, max_epochs=4, warm_start=True, optimizer="adamw").fit(X, y)
    if copied == "joblib":
        joblib.dump(clf, tmp_path / "clf")
        twin = joblib.load(tmp_path / "clf")
    else:
        twin = pickle.loads(pickle.dumps(clf)) if copied == "pickle" else copy.deepcopy(clf)
    np.testing.assert_array_equal(clf.decision_function(X), twin.decision_function(X))
    assert twin.history_ == clf.history_
    np.testing.assert_array_equal(
        clf.fit(X, y).decision_function(X), twin.fit(X, y).decision_function(X)
    )


def test_fitted_state_is_arrays_and_plain_values(blobs):
    X, y = blobs
    state = quick().fit(X, y, X_val=X, y_val=y).__getstate__()

    def kinds(value):
        if isinstance(value, dict):
            return set().union(*map(kinds, value.values()), set())
        if isinstance(value, list | tuple):
            return set().union(*map(kinds, value), set())
        return {type(value)}

    fitted = {name: value for name, value in state.items() if name.endswith("_")}
    assert "net_" in fitted
    assert kinds(fitted) <= {np.ndarray, np.float64, np.str_, str, int, float, bool, type(None)}


def test_early_stopping_puts_the_best_weights_back(digits):
    X, y, X_val, y_val = digits
    clf = quick(k=3, early_stopping=True, n_iter_no_change=3, max_epochs=200, learning_rate=0.02)
    clf.set_params(scoring=make_topk_scorer(3)).fit(X, y, X_val=X_val, y_val=y_val)
    valid = [row["valid_score"] for row in clf.history_]
    assert clf.n_iter_ < 200
    assert make_topk_scorer(3)(clf, X_val, y_val) == max(valid)
    assert max(valid) > valid[-1]
    # The last gain above tol was n_iter_no_change epochs ago, and not longer.
    assert max(valid[:-3]) >= max(valid) - 1e-4
    best = -np.inf
    age = 0
    for score in valid:
        age = 0 if score > best + 1e-4 else age + 1
        best = max(best, score)
    assert age == 3


def test_early_stopping_holds_out_rows_but_no_class(blobs):
    X, y = blobs
    y = y.copy()
    y[0] = 77
    seen = []

    def scoring(clf, X_val, y_val):
        seen.append(y_val)
        return 0.5

    clf = quick(early_stopping=True, scoring=scoring, validation_fraction=0.25).fit(X, y)
    assert 77 in clf.classes_
    assert 77 not in seen[0]
    assert len(seen[0]) == round(0.25 * len(y))
    assert clf.class_count_.sum() == len(y) - len(seen[0])


@pytest.mark.parametrize(
    "scoring", ["balanced_accuracy", make_topk_scorer(3, average="macro"), None]
)
def test_early_stopping_takes_any_scorer(blobs, scoring):
    X, y = blobs
    clf = quick(early_stopping=True, scoring=scoring).fit(X, y)
    assert all(0 <= row["valid_score"] <= 1 for row in clf.history_)


def test_validation_data_without_early_stopping_only_record(blobs):
    X, y = blobs
    clf = quick(scoring=make_topk_scorer(2)).fit(X, y, X_val=X[:50], y_val=y[:50])
    np.testing.assert_array_equal(clf.decision_function(X), quick().fit(X, y).decision_function(X))
    assert clf.history_[-1]["valid_score"] == make_topk_scorer(2)(clf, X[:50], y[:50])
    assert "valid_score" not in quick().fit(X, y).history_[-1]


def test_validation_data_pass_through_a_pipeline(blobs, digits):
    import sklearn

    X, y = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        clf = quick(early_stopping=True).set_fit_request(X_val=True, y_val=True)
        pipe = Pipeline([("scale", StandardScaler()), ("clf", clf)], transform_input=["X_val"])
        pipe.fit(X * 100, y, X_val=X[:60] * 100, y_val=y[:60])
    scaled = StandardScaler().fit(X * 100)
    alone = quick(early_stopping=True).fit(
        scaled.transform(X * 100), y, X_val=scaled.transform(X[:60] * 100), y_val=y[:60]
    )
    np.testing.assert_array_equal(
        pipe.decision_function(X * 100), alone.decision_function(scaled.transform(X * 100))
    )


def test_net_params_are_parameters(blobs):
    X, y = blobs
    clf = quick(net_params={"optimizer__betas": (0.5, 0.9)})
    assert clf.get_params()["optimizer__betas"] == (0.5, 0.9)
    assert "optimizer__betas" not in clf.get_params(deep=False)
    other = clone(clf).set_params(optimizer__betas=(0.1, 0.2), module__batch_norm=True, k=3)
    assert clf.net_params == {"optimizer__betas": (0.5, 0.9)}
    assert other.net_params == {"optimizer__betas": (0.1, 0.2), "module__batch_norm": True}
    other.fit(X, y)
    assert other.net_.optimizer_.param_groups[0]["betas"] == (0.1, 0.2)
    assert any(isinstance(layer, nn.BatchNorm1d) for layer in other.net_.module_.modules())


def test_net_params_can_be_searched(blobs):
    X, y = blobs
    pipe = make_pipeline(StandardScaler(), quick())
    grid = {
        "topkclassifier__optimizer__betas": [(0.9, 0.999), (0.5, 0.9)],
        "topkclassifier__callbacks__lr__step_size": [1, 4],
    }
    pipe[-1].callbacks = [("lr", LRScheduler("StepLR", step_size=2))]
    search = GridSearchCV(pipe, grid, scoring=make_topk_scorer(2), cv=2).fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_search_over_tau_sigma_k_is_the_same_in_parallel(blobs):
    X, y = blobs
    pipe = make_pipeline(StandardScaler(), quick(max_epochs=3))
    grid = {
        "topkclassifier__tau": [0.1, 1.0],
        "topkclassifier__sigma": [0.1, 0.3],
        "topkclassifier__k": [1, 2],
    }
    results = [
        GridSearchCV(pipe, grid, scoring=make_topk_scorer(2), cv=3, n_jobs=n_jobs)
        .fit(X, y)
        .cv_results_["mean_test_score"]
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(*results)
    assert len(set(results[0])) > 1


def test_batch_normalisation_survives_a_batch_of_one(blobs):
    X, y = blobs
    clf = quick(batch_size=34, net_params={"module__batch_norm": True})
    assert 205 % 34 == 1
    clf.fit(X[:205], y[:205])
    assert np.isfinite(clf.decision_function(X)).all()


def test_mean_loss_of_weighted_minibatches_is_that_of_the_whole(blobs):
    X, y = blobs
    weight = np.where(y == 0, 100.0, 0.01) * np.random.default_rng(0).uniform(size=len(y))
    whole, batches = (
        quick(batch_size=b, learning_rate=1e-12, max_epochs=1).fit(X, y, sample_weight=weight)
        for b in (len(y), 16)
    )
    assert batches.history_[0]["train_loss"] == pytest.approx(whole.history_[0]["train_loss"])


def test_low_precision_trains_nearly_as_well(digits):
    X, y, X_test, y_test = digits
    X, X_test = X.astype(np.float32), X_test.astype(np.float32)
    full, half = (
        make_topk_scorer(3)(quick(k=3, precision=p).fit(X, y), X_test, y_test)
        for p in (None, "bfloat16")
    )
    assert half == pytest.approx(full, abs=0.02)


@pytest.mark.parametrize(
    "optimizer", ["adam", "adamw", "sgd", torch.optim.LBFGS, torch.optim.RMSprop]
)
def test_every_optimizer_lowers_the_loss(blobs, optimizer):
    X, y = blobs
    rate = 1.0 if optimizer is torch.optim.LBFGS else 1e-3
    clf = quick(optimizer=optimizer, learning_rate=rate, score_scale=1, batch_size=240).fit(X, y)
    losses = [row["train_loss"] for row in clf.history_]
    assert losses[-1] < losses[0]


class Exploding(nn.Linear):
    """Returns NaN from its twentieth training batch on."""

    calls = 0

    def forward(self, x):
        scores = super().forward(x)
        self.calls += self.training
        return scores * float("nan") if self.training and self.calls > 20 else scores


def test_divergence_is_an_error_that_keeps_the_last_good_weights(blobs):
    X, y = blobs
    clf = quick(module=Exploding)
    with pytest.raises(
        ValueError, match=r"the loss became nan in batch 5 of epoch 3\. Try to lower learning"
    ):
        clf.fit(X, y)
    good = quick(module=nn.Linear, max_epochs=2).fit(X, y)
    assert clf.n_iter_ == 2
    np.testing.assert_array_equal(clf.decision_function(X), good.decision_function(X))


def test_divergence_in_the_first_epoch_leaves_no_fit(blobs):
    X, y = blobs
    clf = quick(module=Exploding, batch_size=8).fit
    with pytest.raises(ValueError, match="nan in batch 21 of epoch 1"):
        clf(X, y)
    assert not hasattr(clf.__self__, "net_")


def test_weights_that_overflow_are_noticed(blobs):
    X, y = blobs
    clf = quick(optimizer="sgd", learning_rate=1e300, loss="cross_entropy")
    with pytest.raises(ValueError, match="Training diverged"):
        clf.fit(X, y)


@pytest.mark.filterwarnings("default")
def test_training_that_has_not_settled_says_so(blobs):
    X, y = blobs
    with pytest.warns(
        ConvergenceWarning, match=r"still fell from .* raise max_epochs or learning_rate"
    ):
        quick(max_epochs=30, learning_rate=1e-4).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"max_epochs=3 ended the training before"):
        quick(max_epochs=3, early_stopping=True).fit(X, y)


def test_verbose_shows_one_bar_over_the_epochs(blobs, capsys):
    X, y = blobs
    quick(verbose=1, early_stopping=True, max_epochs=3).fit(X, y)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3/3" in shown.err
    assert "train_loss=" in shown.err
    assert "valid_score=" in shown.err
    quick(max_epochs=2).fit(X, y)
    assert capsys.readouterr() == ("", "")
    quick(verbose=2, max_epochs=2).fit(X, y)
    assert "train_loss" in capsys.readouterr().out


def test_lines_have_colours_on_a_terminal_alone(blobs, capsys, monkeypatch):
    X, y = blobs
    quick(verbose=2, max_epochs=2).fit(X, y)
    shown = capsys.readouterr().out
    assert "train_loss" in shown
    assert "\x1b" not in shown
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    quick(verbose=2, max_epochs=2).fit(X, y)
    assert "\x1b[36m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    quick(verbose=2, max_epochs=2).fit(X, y)
    assert "\x1b" not in capsys.readouterr().out


def test_default_network_has_the_layers_asked_for(blobs):
    X, y = blobs
    clf = quick(hidden_layer_sizes=(6, 4), score_scale=1, max_epochs=1).fit(X, y)
    shapes = [tuple(p.shape) for p in clf.net_.module_.parameters()]
    assert shapes == [(6, 4), (6,), (4, 6), (4,), (5, 4), (5,)]
    dropout = MLP(4, 3, hidden_layer_sizes=(5,), dropout=0.5, batch_norm=True)
    kinds = (nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Dropout, nn.Linear)
    assert all(isinstance(layer, kind) for layer, kind in zip(dropout, kinds, strict=True))


def test_normalized_scores_are_cosines(blobs):
    X, y = blobs
    clf = quick(net_params={"module__normalize": True}, score_scale=1).fit(X, y)
    assert np.abs(clf.decision_function(X)).max() <= 1 + 1e-12
