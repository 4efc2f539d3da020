"""Does a monitor hardly ever cry wolf, however long it watches, and does it see the wolf?"""

import pickle
import warnings
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import factorial
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sktopk import BudgetClassifier, Monitor, SetClassifier
from sktopk._estimators.decisions._betting import _STAKES, Capital, RateBets, RowBets, ScoreBins
from sktopk._estimators.decisions._monitor import Promise, coverage_left
from sktopk.io import dump, load

DELTA = 0.1


def share_of_alarms(bets, batches, n_draws):
    """The share of so many capitals that ever reach 1 / DELTA; `batches` yields what they play."""
    highest = np.zeros(n_draws)
    for play in batches:
        play()
        np.maximum(highest, bets.capital.log, out=highest)
    return np.mean(highest >= -np.log(DELTA))


def within(share, n_draws):
    return share <= DELTA + 3 * (DELTA * (1 - DELTA) / n_draws) ** 0.5


def test_factors_of_any_batch_have_mean_one_after_any_past(rng):
    bets = RowBets(np.array([3.0, 1.0, 2.0]))
    for _ in range(4):
        mean = 0
        for counts in product(range(4), repeat=3):
            if sum(counts) == 3:
                urn, counts = bets.urn, np.array(counts, dtype=float)
                # The urn gives a row at a time, and takes back two.
                chance = 6 / factorial(counts).prod()
                chance *= np.prod([urn[b] + i for b in range(3) for i in range(int(counts[b]))])
                chance /= np.prod(urn.sum() + np.arange(3))
                again = pickle.loads(pickle.dumps(bets))
                again.update(counts)
                mean += chance * np.exp(again.capital.log)
        assert mean == pytest.approx(np.exp(bets.capital.log))
        bets.update(np.array([1.0, 2.0, 0.0]))


def test_capital_is_a_mixture_over_all_beginnings(rng):
    factors = rng.normal(size=(30, 2))
    capital = Capital((2,))
    for each in factors:
        capital.multiply(each)
    waits = 1 / np.log2(np.arange(31) + 2)
    begun = [
        (waits[t] - waits[t + 1]) / 2 * np.exp(factors[t:].sum(axis=0)).sum() for t in range(30)
    ]
    assert capital.log == pytest.approx(np.log(sum(begun) + waits[-1]))
    assert waits[0] == 1


@pytest.mark.parametrize("digits", [12, 1, 0])
def test_rows_like_the_calibration_rows_fall_into_bins_as_the_urn_says(digits, rng):
    counts = []
    for _ in range(2000):
        scores = rng.normal(size=60).round(digits)
        bins = ScoreBins.of(scores[:50], rng)
        counts.append(bins.counts(scores[50:], rng))
    expected = bins.mass / 51 * 10
    error = np.std(counts, axis=0) / 2000**0.5
    assert (np.abs(np.mean(counts, axis=0) - expected) < 4 * error).all()
    # Draws from an urn scatter more than those with fixed shares do.
    share = bins.mass / 51
    variance = 10 * share * (1 - share) * (51 + 10) / (51 + 1)
    np.testing.assert_allclose(np.var(counts, axis=0), variance, rtol=0.2)


def test_rows_alike_hardly_ever_raise_an_alarm(rng):
    n_draws, n_days = 2000, 100
    mass = ScoreBins.of(rng.normal(size=30), rng).mass
    share = rng.dirichlet(mass, size=n_draws)  # what so many calibration rows leave possible
    bets = RowBets(mass, (n_draws,))
    days = (partial(bets.update, rng.multinomial(20, share).astype(float)) for _ in range(n_days))
    assert within(share_of_alarms(bets, days, n_draws), n_draws)


@pytest.mark.parametrize(("limit", "at_least"), [(0.6, True), (0.05, False)])
def test_a_rate_at_its_limit_hardly_ever_raises_an_alarm(limit, at_least, rng):
    n_draws, n_days = 2000, 500
    bets = RateBets(1 - limit if at_least else limit, (n_draws,))

    def days():
        for _ in range(n_days):
            n_good = rng.binomial(20, limit, size=n_draws)
            # Of "at most" those are bad that should be few.
            counts = (20 - n_good, n_good) if at_least else (n_good, 20 - n_good)
            yield partial(bets.update_counts, *counts, limit if at_least else 1 - limit)

    assert within(share_of_alarms(bets, days(), n_draws), n_draws)


def capitals(factors):
    """Yield the capitals after each day without logarithms, of the factors (n_strategies, ...)."""
    in_play, waited = 0.0, 1.0
    for t, each in enumerate(factors):
        waits = 1 / np.log2(t + 3)
        in_play = (in_play + (waited - waits) / len(each)) * each
        waited = waits
        yield in_play.sum(axis=0) + waits


def factors_of_rows(mass, bins):
    """The factors of days of one row each, which falls into one of the bins, of many streams."""
    n_bins, n_draws = len(mass), bins.shape[1]
    memory, draws = np.array([0.5, 0.9, 0.98, 1.0])[:, None], np.arange(n_draws)
    urn, remembered = np.tile(mass, (n_draws, 1)), np.zeros((4, n_draws, n_bins))
    rows_remembered = np.zeros((4, 1))
    for t, each in enumerate(bins):
        usual = urn[draws, each] / (mass.sum() + t)
        other = (n_bins * usual + remembered[:, draws, each]) / (n_bins + rows_remembered)
        yield other / usual
        urn[draws, each] += 1
        remembered *= memory[:, None]
        remembered[:, draws, each] += 1
        rows_remembered = memory * rows_remembered + 1


def factors_of_rates(limit, bad):
    """The factors of days of one row each, which is bad or good: a rate of at most `limit`."""
    of_bad = 1 + _STAKES[:, None] * (1 - limit) / limit
    for each in bad:
        yield np.where(each, of_bad, 1 - _STAKES[:, None])


def test_in_ten_thousand_days_two_thousand_streams_hardly_ever_raise_an_alarm(rng):
    n_draws, n_days = 2000, 10_000
    mass = ScoreBins.of(rng.normal(size=30), rng).mass
    edges = rng.dirichlet(mass, size=n_draws).cumsum(axis=1)[:, :-1]
    bins = np.empty((n_days, n_draws), dtype=np.int8)
    for each in bins:
        np.sum(rng.random((n_draws, 1)) > edges, axis=1, out=each)
    bad = {limit: rng.random((n_days, n_draws)) < limit for limit in (0.4, 0.05)}
    streams = {"rows": factors_of_rows(mass, bins)}
    streams |= {limit: factors_of_rates(limit, bad[limit]) for limit in bad}
    for name, factors in streams.items():
        highest = np.zeros(n_draws)
        for capital in capitals(factors):
            np.maximum(highest, capital, out=highest)
        share = np.mean(highest >= 1 / DELTA)
        assert within(share, n_draws), name
        # Some do: the promise is not kept by never saying anything.
        assert share > DELTA / 10, name
    # The first streams of the same days are those of the classes.
    first = slice(0, 3)
    of_rows, of_rates = RowBets(mass, (3,)), RateBets(0.4, (3,))
    both = capitals(factors_of_rows(mass, bins[:300, first]))
    for day, row, is_bad, rate in zip(
        bins[:300, first],
        both,
        bad[0.4][:300, first],
        capitals(factors_of_rates(0.4, bad[0.4][:300, first])),
        strict=True,
    ):
        of_rows.update(np.eye(len(mass))[day])
        of_rates.update_counts(is_bad.astype(float), 1.0 - is_bad, 0.6)
        np.testing.assert_allclose(of_rows.capital.log, np.log(row), atol=1e-9)
        np.testing.assert_allclose(of_rates.capital.log, np.log(rate), atol=1e-9)


def test_coverage_by_any_calibration_rows_hardly_ever_raises_an_alarm(rng):
    n_draws, n, coverage = 2000, 99, 0.9
    left = coverage_left(coverage, n, DELTA / 2)
    rate = rng.beta(90, 10, size=n_draws)
    assert np.mean(rate < left) == pytest.approx(DELTA / 2, abs=0.02)
    bets, highest = RateBets(1 - left, (n_draws,)), np.zeros(n_draws)
    for _ in range(500):
        covered = rng.binomial(300, rate)
        bets.update_counts(300 - covered, covered, left)
        np.maximum(highest, bets.capital.log, out=highest)
    found = np.mean(highest >= -np.log(DELTA / 2))
    assert within(found, n_draws)
    # Those below the limit are found, so that it is not met by being blind.
    assert found > DELTA / 4


def day(rng, n=400, shift=0.0):
    """Scores and labels: with a shift the negatives score higher."""
    y = rng.random(n) < 0.25
    return rng.normal(size=n) + 2 * y + shift * ~y, y


def desk_of(rng, **params):
    params = {"constraint": "precision", "budget": 0.6, "random_state": 0} | params
    return BudgetClassifier.from_scores(*day(rng, 3000), **params)


def test_a_shift_is_seen_soon_by_rows_and_by_labels_of_flagged_rows_alone(rng):
    desk = desk_of(rng)
    monitor = desk.monitor(random_state=0)
    for number in range(60):
        scores, y = day(rng, shift=0.5 if number >= 30 else 0.0)
        queue = desk.predict_top(scores)
        monitor.update(scores)
        report = monitor.update_labels(scores[queue], y[queue])
        assert number >= 30 or not any(each.alarm for each in report.values())
    assert report["rows"].alarm in (30, 31, 32)
    assert report["promise"].alarm in range(30, 36)
    assert report["promise"].promise == "precision >= 0.6"
    assert report["rows"].n_rows == 60 * 400
    assert report["rows"].n_batches == 60
    assert report["rows"].p_value < 1e-6 < 1e6 < report["rows"].e_value
    assert (np.diff(monitor.history_["rows"][32:40]) > 0).all()
    assert Monitor(desk).report()["rows"].p_value == 1


def test_batches_by_name_are_those_of_a_loop(rng):
    desk = desk_of(rng)
    days = [day(rng, 50, shift=max(0, i - 8)) for i in range(12)]
    one, other = (Monitor(desk, random_state=3) for _ in range(2))
    for scores, y in days:
        one.update(scores)
        one.update_labels(scores, y)
    scores, y = (np.concatenate(each) for each in zip(*days, strict=True))
    names = np.repeat([f"day {i}" for i in range(12)], 50)
    other.update(scores, groups=pd.Series(names))
    report = other.update_labels(scores, y, groups=names.tolist())
    for name, expected in one.report().items():
        assert report[name][1:5] == expected[1:5]
        assert report[name].alarm == f"day {expected.alarm}"
        np.testing.assert_array_equal(one.history_[name], other.history_[name])


@pytest.mark.parametrize("constraint", ["fpr", "recall"])
def test_labels_found_by_selection_need_their_propensity(constraint):
    budget = {"fpr": 0.15, "recall": 0.75}[constraint]
    alarms = {"known": 0, "naive": 0, "shifted": 0}
    n_draws = 10
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        desk = desk_of(rng, constraint=constraint, budget=budget)
        for name in alarms:
            monitor = desk.monitor(random_state=0)
            for _ in range(25):
                scores, y = day(rng, 200, shift=0.0)
                if name == "shifted":
                    scores = scores + (0.6 if constraint == "fpr" else -0.6)
                chance = np.where(scores > desk.threshold_, 1.0, 0.2)
                known = rng.random(200) < chance
                if constraint == "recall" and name == "naive":
                    # Who takes the labels of a queue for a sample finds any recall good.
                    known = scores <= desk.threshold_
                    known[::2] = True
                propensity = np.where(known, chance, np.nan) if name != "naive" else None
                rows = slice(None) if name != "naive" else known
                report = monitor.update_labels(scores[rows], y[rows], propensity=propensity)
            alarms[name] += report["promise"].alarm is not None
    assert alarms["known"] <= 1
    assert min(alarms["naive"], alarms["shifted"]) >= n_draws - 1


def test_rows_of_a_queue_drawn_by_lot_raise_no_alarms(rng):
    # The false positive rate is the budget; labels are those of the 20 best rows of a day and of
    # 10 others, drawn without replacement.
    n_draws, n_days, n = 200, 60, 100
    desk = desk_of(rng, constraint="fpr", budget=0.2)
    desk.threshold_, alarms = float(norm.isf(0.2)), 0
    chance = np.where(np.arange(n) < 20, 1.0, 10 / 80)
    for _ in range(n_draws):
        y = rng.random((n_days, n)) < 0.2
        scores = np.sort(rng.normal(size=y.shape), axis=1)[:, ::-1]
        lot = rng.random((n_days, n - 20)).argsort(axis=1) < 10
        known = np.column_stack([np.ones((n_days, 20), dtype=bool), lot])
        log = {"propensity": np.where(known, chance, np.nan).ravel()}
        monitor = desk.monitor(random_state=0, delta=2 * DELTA)
        names = np.repeat(np.arange(n_days), n)
        report = monitor.update_labels(scores.ravel(), y.ravel(), groups=names, **log)
        alarms += report["promise"].alarm is not None
    assert within(alarms / n_draws, n_draws)


def test_bets_by_propensity_hardly_ever_raise_an_alarm_on_two_thousand_streams(rng):
    # As above, with the arithmetic of all streams at once: a false positive rate of 0.2 is kept.
    n_draws, n_days, n, limit = 2000, 40, 60, 0.2
    chance = np.where(np.arange(n) < 12, 1.0, 6 / 48)
    stakes = _STAKES * chance.min() / limit

    def days():
        for _ in range(n_days):
            y = rng.random((n_draws, n)) < 0.2
            scores = np.sort(rng.normal(size=y.shape), axis=1)[:, ::-1]
            lot = rng.random((n_draws, n - 12))
            known = np.column_stack([np.ones((n_draws, 12), dtype=bool), lot.argsort(axis=1) < 6])
            gain = np.where(scores > norm.isf(limit), 1 - limit, -limit) * ~y
            yield gain, known

    bets, highest = RateBets(limit), np.zeros(n_draws)
    drawn = [*days()]
    factors = (
        np.prod(1 + stakes[:, None, None] * np.where(known, gain / chance, 0.0), axis=-1)
        for gain, known in drawn
    )
    for (gain, known), capital in zip(drawn, capitals(factors), strict=True):
        np.maximum(highest, capital, out=highest)
        bets.update(gain[0, known[0]], chance[known[0]])
    assert bets.capital.log == pytest.approx(np.log(capital[0]))
    share = np.mean(highest >= 1 / DELTA)
    assert within(share, n_draws)
    assert share > DELTA / 20


def test_fdr_is_watched_by_batch(rng):
    desk = desk_of(rng, constraint="fdr", budget=0.3)
    quiet, loud = (desk.monitor(tolerance=0.05, random_state=0) for _ in range(2))
    for _ in range(120):
        for monitor, shift in ((quiet, 0.0), (loud, 0.7)):
            scores, y = day(rng, shift=shift)
            queue = desk.predict_top(scores)
            report = monitor.update_labels(scores[queue], y[queue])["promise"]
            assert monitor is loud or report.alarm is None
    assert report.alarm is not None
    assert report.promise == "fdr <= 0.35"


def test_a_batch_in_which_nothing_was_flagged_is_no_mistake(rng, tmp_path):
    scores, y = day(rng)
    for constraint, gain in (("precision", []), ("fdr", [-0.35])):
        desk = desk_of(rng, constraint=constraint, budget=0.3 if constraint == "fdr" else 0.6)
        monitor = desk.monitor(tolerance=0.05, random_state=0)
        queue = desk.predict_top(scores)
        monitor.update_labels(scores[queue], y[queue])
        bets = pickle.loads(pickle.dumps(monitor._tests["promise"].bets))
        for none in (scores[:0], [], np.zeros((0, 1))):
            report = monitor.update_labels(none, y[:0], groups=y[:0])["promise"]
            bets.update(np.array(gain), np.ones(len(gain)))
            assert report.e_value == pytest.approx(np.exp(bets.capital.log))
        assert (report.n_batches, report.n_rows) == (4, len(queue))
        again = load(dump(monitor, tmp_path / "monitor"))
        assert again.report() == monitor.report()
        with pytest.raises(ValueError, match="since must leave a batch with labels; got 1"):
            again.recalibrate(since=1)
        # Labels that come later count, from a day on without any.
        again.update_labels(scores, y, propensity=np.ones(len(y)))
        if constraint == "precision":
            first = again.recalibrate(since=1, random_state=0)
            assert len(first._calibration_rows.scores) == len(y)
        else:
            with pytest.raises(ValueError, match="fit it on a random sample of all rows"):
                again.recalibrate(since=1)
    with pytest.raises(ValueError, match="y must have a label for each of the 3 rows of X; got"):
        monitor.update_labels(scores[:3], [])


def test_the_mean_share_of_false_rows_is_over_all_batches(rng):
    """Of 2 000 streams: half of the days nothing is flagged, of the others half of it is false."""
    n_draws, n_days, limit = 2000, 200, 0.25
    promise = Promise(None, "fdr", limit, at_least=False)
    counted, left_out = (RateBets(limit, (n_draws,)) for _ in range(2))
    of_none, of_false, of_right = (
        np.log1p(_STAKES * promise.of_batch(np.array(each) - limit, np.ones(0))[0][0] / limit)
        for each in ([], [1.0], [0.0])
    )

    highest = np.zeros((2, n_draws))
    for _ in range(n_days):
        some, false = rng.random((2, n_draws, 1)) < 0.5
        played = np.where(some, np.where(false, of_false, of_right), of_none)
        counted.capital.multiply(played)
        left_out.capital.multiply(np.where(some, played, 0.0))
        np.maximum(highest, [counted.capital.log, left_out.capital.log], out=highest)
    alarms = np.mean(highest >= -np.log(DELTA), axis=1)
    assert within(alarms[0], n_draws)
    assert alarms[1] > 0.9


def test_a_desk_without_a_rate_watches_rows_and_needs_rows_to_compare_with(rng):
    X, y = make_classification(400, random_state=0)
    desk = BudgetClassifier(LogisticRegression(), budget=9, per="batch").fit(X[:200], y[:200])
    with pytest.raises(ValueError, match=r"monitor needs calibration rows .* pass reference"):
        desk.monitor()
    report = desk.monitor(X[200:300]).update(X[300:])
    assert list(report) == ["rows"]
    with pytest.raises(ValueError, match="decision promises no rate"):
        desk.monitor(X[200:300]).update_labels(X[300:], y[300:])
    assert desk.monitor(X[200:300]).update(X[300:] + 3)["rows"].e_value > 100


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, csr_array, list])
def test_sets_are_watched_in_any_container(make, rng, tmp_path):
    X, y = make_classification(
        3000, 6, n_informative=5, n_redundant=0, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    names = np.array(list("abcd"))[y]
    inner = FrozenEstimator(LogisticRegression().fit(X[:500], names[:500]))
    sets = SetClassifier(inner, method="lac", random_state=0).fit(X[500:1500], names[500:1500])
    sets = load(dump(sets, tmp_path / "sets"))
    quiet, loud = sets.monitor(random_state=0), sets.monitor(random_state=0)
    batches = np.arange(1500) // 100
    wrong = np.where(rng.random(3000) < 0.3, names[::-1], names)
    quiet.update(make(X[1500:]), groups=batches)
    report = quiet.update_labels(make(X[1500:]), names[1500:], groups=batches)
    assert [each.alarm for each in report.values()] == [None, None]
    loud.update(make(3 * X[1500:]), groups=batches)
    report = loud.update_labels(make(X[1500:]), wrong[1500:], groups=batches)
    assert report["rows"].alarm < 5
    assert report["promise"].alarm < 8
    # Labels that the classifier does not know are not covered.
    report = sets.monitor().update_labels(make(X[1500:1600]), np.full(100, "new"))
    assert report["promise"].alarm == 0
    again = loud.recalibrate(since=1)
    covered = again.predict_set(X[1500:]).toarray()[
        np.arange(1500), np.searchsorted(list("abcd"), wrong[1500:])
    ]
    assert 0.88 < covered.mean() < 0.93
    assert isinstance(again, SetClassifier)


def test_sets_without_a_coverage_of_all_rows_are_watched_by_rows(rng):
    X, y = make_classification(600, n_informative=5, n_classes=3, random_state=0)
    sets = SetClassifier(LogisticRegression(), method="lac", conditional="group", random_state=0)
    sets.fit(X, y, groups=np.arange(600) % 2)
    assert list(sets.monitor().report()) == ["rows"]
    sets.set_params(conditional="class").fit(X, y)
    assert list(sets.monitor().report()) == ["rows", "promise"]
    sets.set_params(conditional=None, method="topk", k=2).fit(X, y)
    with pytest.raises(ValueError, match="monitor needs rows to compare with"):
        sets.monitor()
    assert list(sets.monitor(X).report()) == ["rows"]


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_a_day_is_named_by_its_date(unit, rng):
    monitor = desk_of(rng).monitor(random_state=0)
    days = np.repeat(np.arange("2026-05-01", "2026-05-04", dtype="datetime64[D]"), 50)
    scores, _ = day(rng, 150, shift=5.0)
    report = monitor.update(scores, groups=pd.Series(days.astype(f"datetime64[{unit}]")))
    assert report["rows"].n_batches == 3
    assert report["rows"].alarm == "2026-05-01"


@pytest.mark.parametrize("max_size", [None, 1])
def test_sets_of_nodes_are_watched_as_those_of_labels_are(max_size, rng):
    X, y = make_classification(3000, n_informative=5, n_classes=4, random_state=0)
    above = {0: "even", 2: "even", 1: "odd", 3: "odd", "even": "any", "odd": "any"}
    inner = FrozenEstimator(LogisticRegression().fit(X[:500], y[:500]))
    sets = SetClassifier(inner, method="lac", hierarchy=above, max_size=max_size)
    sets.fit(X[500:1500], y[500:1500])
    assert sets.predict_set(X[1500:]).toarray().sum(axis=1).max() > 1
    batches = np.arange(1500) // 100
    report = sets.monitor().update_labels(X[1500:], y[1500:], groups=batches)["promise"]
    assert report.promise.startswith("coverage >= 0.8")
    assert report.alarm is None
    wrong = np.where(rng.random(1500) < 0.4, 3 - y[1500:], y[1500:])
    assert sets.monitor().update_labels(X[1500:], wrong, groups=batches)["promise"].alarm < 8
    # Cut without nodes to climb to, they promise nothing.
    sets.set_params(hierarchy=None, max_size=1).fit(X[500:1500], y[500:1500])
    assert list(sets.monitor().report()) == ["rows"]


def test_a_desk_calibrated_with_what_came_in_keeps_its_promise_again(rng, tmp_path):
    kept = []
    for _ in range(20):
        desk = desk_of(rng)
        monitor = desk.monitor(random_state=0)
        for number in range(12):
            scores, y = day(rng, shift=0.5 if number >= 4 else 0.0)
            queue = desk.predict_top(scores)
            monitor.update_labels(scores[queue], y[queue])
        again = monitor.recalibrate(since=4, random_state=0)
        scores, y = day(rng, 40_000, shift=0.5)
        precision = [y[scores > each.threshold_].mean() for each in (desk, again)]
        assert precision[0] < 0.6
        kept.append(precision[1] >= 0.6)
        assert precision[1] < 0.75
    assert np.mean(kept) >= 0.8
    assert again.constraint == "precision"
    assert desk.threshold_ < again.threshold_
    # Labels of flagged rows tell no share of all rows: there is none that new rows could break.
    assert list(again.rates_) == ["precision"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.predict(scores)
    kept_again = load(dump(again, tmp_path / "desk"))
    np.testing.assert_array_equal(kept_again.predict(scores), again.predict(scores))


def test_labels_by_propensity_calibrate_any_rate_and_those_of_flagged_rows_do_not(rng):
    desk = desk_of(rng, constraint="fpr", budget=0.2)
    monitor = desk.monitor(random_state=0)
    scores, y = day(rng, 6000, shift=0.5)
    flagged = scores > desk.threshold_
    monitor.update_labels(scores[flagged], y[flagged])
    with pytest.raises(ValueError, match="labels must be of some rows that were not flagged"):
        monitor.recalibrate()
    chance = np.where(flagged, 1.0, 0.25)
    known = rng.random(6000) < chance
    monitor.update_labels(scores, y, propensity=np.where(known, chance, np.nan))
    again = monitor.recalibrate(since=1, random_state=0)
    scores, y = day(rng, 100_000, shift=0.5)
    assert 0.13 < np.mean(scores[~y] > again.threshold_) < 0.2
    assert np.mean(scores[~y] > desk.threshold_) > 0.25


def test_a_pickled_monitor_goes_on(rng):
    desk = desk_of(rng)
    one = desk.monitor(random_state=0)
    days = [day(rng, 60, 0.3) for _ in range(6)]
    for scores, y in days[:3]:
        one.update(scores.round(1))
        one.update_labels(scores, y)
    other = pickle.loads(pickle.dumps(one))
    for monitor in (one, other):
        for scores, y in days[3:]:
            monitor.update(scores.round(1))
            monitor.update_labels(scores, y)
    assert one.report() == other.report()


def test_another_fit_of_the_desk_changes_nothing_that_is_watched(rng):
    scores, y = day(rng, 3000)
    desk = desk_of(rng)
    one, other = desk.monitor(random_state=0), desk.monitor(random_state=0)
    expected = one.update_labels(scores, y)
    desk.set_params(constraint="fpr", budget=0.1).fit(*day(rng, 3000, shift=1.0))
    assert other.update_labels(scores, y) == expected
    again = other.recalibrate()
    assert (again.constraint, again.budget) == ("precision", 0.6)
    assert desk.monitor().report()["promise"].promise == "fpr <= 0.1"


def test_a_monitor_watches_what_the_fit_promised(rng, tmp_path):
    X, y = make_classification(600, n_informative=5, n_classes=3, random_state=0)
    sets = SetClassifier(LogisticRegression(), method="lac", coverage=0.8, random_state=0)
    of_desks = {"precision": 0.6, "fpr": 0.2, "recall": 0.7, "count": 0.2}
    desks = [desk_of(rng, constraint=name, budget=budget) for name, budget in of_desks.items()]
    for decision in [sets.fit(X, y), *desks]:
        expected = decision.monitor().report()
        if decision is sets:
            decision.set_params(coverage=0.99)
        else:
            decision.set_params(constraint="recall", budget=0.3)
        for each in (decision, load(dump(decision, tmp_path / "decision"))):
            assert each.monitor().report() == expected
    # A budget that is kept by each prediction is that of the predictions.
    desk = desk_of(rng, constraint="fdr", budget=0.3).set_params(budget=0.1)
    assert desk.monitor().report()["promise"].promise == "fdr <= 0.1"


def test_a_desk_that_spends_money_promises_no_rate(rng):
    desk = desk_of(rng, constraint="cost", budget=0.5)
    assert list(desk.monitor().report()) == ["rows"]


WRONG = {
    "no decision": (lambda m, d: Monitor(LogisticRegression()), TypeError, "decision must be a"),
    "delta": (lambda m, d: d.monitor(delta=0), ValueError, "delta == 0"),
    "tolerance": (lambda m, d: d.monitor(tolerance=-1), ValueError, "tolerance == -1"),
    "all": (lambda m, d: d.monitor(tolerance=0.7), ValueError, "tolerance must leave precision"),
    "seed": (lambda m, d: d.monitor(random_state="a"), ValueError, "random_state must be"),
    "no rows": (lambda m, d: m.update(np.empty(0)), ValueError, "X must have at least one row"),
    "NaN": (lambda m, d: m.update([np.nan]), ValueError, "finite scores"),
    "stream": (lambda m, d: m.update(iter([1])), TypeError, "X must be a table"),
    "groups": (lambda m, d: m.update([1.0], groups=[1, 2]), ValueError, "groups must name"),
    "lengths": (lambda m, d: m.update_labels([1.0], [True, False]), ValueError, "inconsistent"),
    "label": (lambda m, d: m.update_labels([1.0, 2.0], [7, 8]), ValueError, "y must hold labels"),
    "propensity": (
        lambda m, d: m.update_labels([1.0, 2.0], [True, False], propensity=[0, 1]),
        ValueError,
        "propensity must be in",
    ),
    "since": (lambda m, d: m.recalibrate(since=4), ValueError, "since must be the name of a batch"),
    "labels": (lambda m, d: m.recalibrate(), ValueError, "since must be .* 0 batches"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused_by_name(case, rng):
    call, error, message = WRONG[case]
    desk = desk_of(rng)
    with pytest.raises(error, match=message):
        call(desk.monitor(random_state=0), desk)
