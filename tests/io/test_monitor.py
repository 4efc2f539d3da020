"""Does a monitor watch on from a file, and is one that lies refused?"""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sktopk import BudgetClassifier, SetClassifier
from sktopk.io import dump, load
from tests.decisions.test_monitor import day, desk_of
from tests.io.forged import edit, replace_array

DESKS = {
    "precision": {},
    "fpr": {"constraint": "fpr", "budget": 0.2},
    "fdr": {"constraint": "fdr", "budget": 0.3},
    "count": {"constraint": "count", "budget": 0.2},
}


def watch(monitors, rng, n_days, shift=0.0, name=None):
    """Show all of them the same days; return their reports."""
    for number in range(n_days):
        scores, y = day(rng, 80, shift)
        groups = None if name is None else np.repeat(f"{name} {number}", 80)
        for monitor in monitors:
            report = monitor.update(scores.round(1), groups=groups)
            if "promise" in report:
                queue = monitor.decision.predict(scores) == monitor.decision.pos_label_
                labels = slice(None) if monitor.decision.constraint == "fpr" else queue
                of_day = None if groups is None else groups[labels]
                if np.any(labels):
                    monitor.update_labels(scores[labels], y[labels], groups=of_day)
    return [monitor.report() for monitor in monitors]


@pytest.mark.parametrize("params", DESKS.values(), ids=DESKS)
@pytest.mark.parametrize("n_days", [0, 20])
def test_it_goes_on_as_if_nothing_had_been_saved(params, n_days, rng, path):
    desk = desk_of(rng, **params)
    one = desk.monitor(delta=0.1, tolerance=0.05, random_state=0)
    watch([one], rng, n_days, name="day")
    other = load(dump(one, path))
    assert one.report() == other.report()
    reports = watch([one, other], rng, 10, shift=0.5)
    assert reports[0] == reports[1]
    for name, logs in one.history_.items():
        np.testing.assert_array_equal(other.history_[name], logs)
    assert dump(other, path)
    if "constraint" not in params:
        again = [each.recalibrate(random_state=0) for each in (one, other)]
        assert again[0].threshold_ == again[1].threshold_


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, list])
def test_rows_in_any_container_calibrate_anew(make, path):
    X, y = make_classification(900, n_informative=5, n_classes=3, random_state=0)
    sets = SetClassifier(LogisticRegression(), method="lac", random_state=0).fit(X[:500], y[:500])
    one = sets.monitor(random_state=0)
    one.update_labels(make(X[500:]), y[500:], groups=np.arange(400) // 100)
    other = load(dump(one, path))
    assert other.report() == one.report()
    again = [each.recalibrate(random_state=0).threshold_ for each in (one, other)]
    assert again[0] == again[1]


def test_what_a_file_cannot_hold_is_named(path):
    X, y = make_classification(300, n_informative=5, random_state=0)
    desk = BudgetClassifier(LogisticRegression(), constraint="fpr", budget=0.2).fit(X, y)
    monitor = desk.monitor()
    monitor.update_labels(csr_array(X), y)
    with pytest.raises(ValueError, match="labelled of Monitor: <Compressed Sparse Row"):
        dump(monitor, path)


def test_a_desk_of_an_earlier_version_promises_what_its_parameters_say(rng, path):
    dump(desk_of(rng), path)
    edit(path, lambda header, content: content["model"]["fitted"].pop("_promised_params"))
    monitor = load(path).monitor(random_state=0)
    assert watch([monitor], rng, 3)[0]["promise"].promise == "precision >= 0.6"
    assert monitor.recalibrate().budget == 0.6


@pytest.mark.parametrize(
    ("promised", "message"),
    [
        ([1], "_promised_params of BudgetClassifier has a wrong type"),
        ({"dict": [["budget"], [-1.0]]}, "budget"),
        ({"dict": [["budgets"], [0.5]]}, "_promised_params of BudgetClassifier has a wrong type"),
        # A parameter, but none that a fit has promised.
        ({"dict": [["delta"], [0.5]]}, "_promised_params of BudgetClassifier has a wrong type"),
    ],
)
def test_a_forged_promise_is_refused(promised, message, rng, path):
    dump(desk_of(rng), path)
    edit(path, lambda h, content: content["model"]["fitted"].update(_promised_params=promised))
    with pytest.raises(ValueError, match=f"cannot be loaded: .*{message}"):
        load(path)


FORGED = {
    "delta": 2.0,
    "tolerance": -1.0,
    "random": 3,
    "limit": 1.5,
    "labelled": [1],
    "decision": 7,
    "tests": {"dict": [["rows"], [1]]},
}
IN_TESTS = {
    "n_rows": -1,
    "alarm": "never",
    "names": ["a"],
    "t": 10**9,
    "log_e": ["a", "b", "c"],
    "highest": {"float": "nan"},
}


@pytest.fixture
def saved(rng, path):
    monitor = desk_of(rng).monitor(random_state=0)
    watch([monitor], rng, 3)
    dump(monitor, path)
    return path


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_part_is_refused(saved, name):
    edit(saved, lambda header, content: content["model"]["monitor"].update({name: FORGED[name]}))
    with pytest.raises(ValueError, match=rf"cannot be loaded: {name} "):
        load(saved)


@pytest.mark.parametrize("test", ["rows", "promise"])
@pytest.mark.parametrize("name", IN_TESTS)
def test_a_forged_record_is_refused(saved, test, name):
    def change(header, content):
        tests = content["model"]["monitor"]["tests"]["dict"]
        named = dict(zip(*tests, strict=True))[test]["dict"]
        assert name in named[0]
        named[1][named[0].index(name)] = IN_TESTS[name]

    edit(saved, change)
    with pytest.raises(ValueError, match=f"cannot be loaded: {name} of Monitor"):
        load(saved)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("key", ["mass", "urn", "remembered", "places"])
def test_forged_arrays_are_refused(saved, key, value):
    places = {}

    def find(header, content):
        state = content["model"]["monitor"]
        for tree in (state["bins"], dict(zip(*state["tests"]["dict"], strict=True))["rows"]):
            places.update(zip(*tree["dict"], strict=True))
        places["header"] = header

    edit(saved, find)
    name = places[key]["array"]
    shape = places["header"][name]["shape"]
    if key == "places" and value == -1.0:
        # A place that no row has is harmless: so is any number of places too few.
        shape, value = [shape[0] + 1], 0.5
    replace_array(saved, name, np.full(shape, value))
    with pytest.raises(ValueError, match=f"{'bins' if key in ('mass', 'places') else key} of Mon"):
        load(saved)


def test_a_monitor_of_a_monitor_is_none(saved):
    def change(header, content):
        state = content["model"]["monitor"]
        state["decision"] = {"monitor": {**state}}

    edit(saved, change)
    with pytest.raises(
        ValueError, match=r"missing or used twice|decision of Monitor|arrays do not belong"
    ):
        load(saved)
