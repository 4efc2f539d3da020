"""Schedules train what they say, and their differences are those of a paired test."""

import numpy as np
import pandas as pd
import pytest
import schedule
from schedule import ALONE, DEFAULT, MIXTURE, OWN, PURE, SCHEDULES, START
from scipy.stats import ttest_1samp
from sklearn.datasets import load_breast_cancer, load_digits
from skorch.callbacks import Callback

# The defaults of the estimators.
RATE = 3e-3


class FirstEpoch(Callback):
    """Notes rate, share, and weights when an epoch begins for the first time."""

    def __deepcopy__(self, memo):
        return self

    def on_train_begin(self, net, **kwargs):
        self.seen = None

    def on_epoch_begin(self, net, **kwargs):
        if self.seen is None:
            weights = {name: w.clone() for name, w in net.module_.state_dict().items()}
            self.seen = net.optimizer_.param_groups[0]["lr"], net.criterion_, weights


@pytest.fixture(params=[("letter", "smooth_topk"), ("churn", "DeepTopPush")], ids=lambda p: p[1])
def case(request, monkeypatch):
    """A table by name, in whose place there are 150 rows, and a loss."""
    table, loss = request.param
    load = load_digits if loss == "smooth_topk" else load_breast_cancer
    X, y = load(return_X_y=True)
    rows = X[:150].astype(np.float32), y[:150], X[150:300].astype(np.float32), y[150:300]
    monkeypatch.setattr(schedule, "rows_of", lambda table, split: rows)
    monkeypatch.setattr(schedule, "N_MEMBERS", 2)
    monkeypatch.setattr(schedule, "MAX_EPOCHS", 4)
    schedule.alone.cache_clear()
    yield table, loss
    schedule.alone.cache_clear()


@pytest.mark.filterwarnings("ignore")
def test_first_phase_is_that_of_the_estimator(case):
    table, loss = case
    alone = schedule.alone(table, 0, loss)
    whole = type(alone).__mro__[2](**alone.get_params(deep=False)).fit(*schedule.rows_of("", 0)[:2])
    scores = [[row["valid_score"] for row in each.history_] for each in (alone, whole)]
    assert len(whole.history_) > len(alone.history_) == 4
    assert scores[0] == scores[1][:4]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "rate", "share", "goes_on"),
    [
        (DEFAULT, 0.25, 0.5, True),
        (PURE, 0.25, 0.0, True),
        (MIXTURE, 1.0, 0.5, False),
        (START, 1.0, None, False),
        (ALONE, 1.0, None, False),
    ],
)
def test_schedules_begin_as_they_say(case, name, rate, share, goes_on):
    table, loss = case
    first = FirstEpoch()
    estimator = schedule.estimator_of(table, 0, loss, name).set_params(callbacks=[first])
    estimator.fit(*schedule.rows_of("", 0)[:2])
    found, criterion, weights = first.seen
    assert found == rate * RATE
    # Without a first phase there is no such criterion, and with nothing else no end of it.
    assert hasattr(criterion, "warm") == (name != START)
    assert getattr(criterion, "warm", None) == {START: None, ALONE: False}.get(name, True)
    if share is not None:
        assert criterion.share == share
    if name != START:  # whose network has the scale of the loss
        best = schedule.alone(table, 0, loss).validation.weights_
        assert all(bool((best[n] == w).all()) for n, w in weights.items()) == goes_on


@pytest.mark.filterwarnings("ignore")
def test_what_cross_entropy_had_reached_is_kept_where_the_loss_gains_nothing(case):
    table, loss = case
    alone, X = schedule.alone(table, 0, loss), schedule.rows_of("", 0)[2]
    # No score is better.
    alone.validation.best_ = np.full_like(alone.validation.best_, np.inf)
    estimator = schedule.estimator_of(table, 0, loss, DEFAULT)
    estimator.fit(*schedule.rows_of("", 0)[:2])
    # A threshold differs by the loss, a difference of two scores does not.
    scores = [np.diff(each.decision_function(X), axis=0) for each in (alone, estimator)]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_differences_are_those_of_a_paired_test():
    rng = np.random.default_rng(0)
    runs = pd.DataFrame(
        [
            {"table": f"t{t}", "split": 0, "loss": loss, "schedule": s, OWN: rng.random()}
            for t in range(6)
            for loss in ("focal", "ldam")
            for s in SCHEDULES
        ]
    )
    # One that is not done with all schedules says nothing.
    runs = runs[~((runs.table == "t5") & (runs["loss"] == "ldam") & (runs.schedule == ALONE))]
    for loss, n_tables in (("focal", 6), ("ldam", 5)):
        of = runs[runs["loss"] == loss].pivot(index="table", columns="schedule", values=OWN)
        of = 100 * of.dropna()
        interval = ttest_1samp(of[START] - of[DEFAULT], 0).confidence_interval()
        mean, half = (interval.high + interval.low) / 2, (interval.high - interval.low) / 2
        found = schedule.differences(runs, loss, OWN)
        assert len(found) == n_tables
        assert schedule.said(found[START]).startswith(f"{mean:+.2f} ± {half:.2f}, ")
    assert len(schedule.differences(runs, None, OWN)) == 6


@pytest.mark.parametrize(
    ("losses", "unsaid"), [(("focal",), "rankers"), (("AUC",), "losses of several classes")]
)
def test_page_of_the_runs_of_one_kind(losses, unsaid):
    rng = np.random.default_rng(0)
    done = {"split": 0, "epochs": 9, "fit_s": 1.0, **schedule.NAMES}
    runs = pd.DataFrame(
        [
            done | {"table": f"t{t}", "loss": loss, "schedule": s, OWN: rng.random()}
            for t in range(3)
            for loss in losses
            for s in SCHEDULES
        ]
    )
    page = schedule.page(runs)
    assert f"- Of {unsaid} nothing can be said yet." in page
    assert page.count("nothing can be said yet") == 1
    assert "nan" not in page
