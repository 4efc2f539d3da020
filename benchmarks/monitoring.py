"""How soon is a broken promise found, and how often is one found that is kept, beside MAPIE?

A desk promises a precision; from a day on the negatives score higher. `Monitor` sees all rows
and the labels of flagged ones, MAPIE's `RiskMonitoring` those labels with the same threshold on the
same risk; each test has the same level.

    pip install "mapie>=1.6"
    python benchmarks/monitoring.py
"""

import argparse
import time
import warnings
from itertools import chain

import numpy as np
from mapie.exchangeability_testing import RiskMonitoring
from scipy.stats import norm

from sktopk import BudgetClassifier
from sktopk._estimators.decisions._betting import RateBets, RowBets, ScoreBins

DELTA, PRECISION, N_ROWS = 0.05, 0.7, 200
SHIFTS = (0.15, 0.3, 0.6)
WHO = ("`Monitor`, rows", "`Monitor`, promise", "`RiskMonitoring`")


def day(rng, shift, n=N_ROWS):
    """Scores and labels: a quarter is positive, the others score higher by `shift`."""
    y = rng.random(n) < 0.25
    return rng.normal(size=n) + np.where(y, 2.0, shift), y


def precision_above(threshold, shift):
    """The precision of all rows above a threshold."""
    found, false = 0.25 * norm.sf(threshold - 2), 0.75 * norm.sf(threshold - shift)
    return found / (found + false)


def alarms(seed, shift, start, n_days):
    """Return by test the day of its alarm, infinite without one, and the precision at last."""
    rng = np.random.default_rng(seed)
    y_score, y = day(rng, 0.0, 2000)
    params = {"constraint": "precision", "budget": PRECISION, "delta": DELTA}
    desk = BudgetClassifier.from_scores(y_score, y, random_state=seed, **params)
    ours = desk.monitor(delta=DELTA, random_state=seed)
    # Half of its level is for reference data, which a threshold given takes the place of.
    theirs = RiskMonitoring("precision", test_level=DELTA, threshold=1 - PRECISION, warn=False)
    found, labels = dict.fromkeys(WHO, np.inf), []
    for number in range(n_days):
        y_score, y = day(rng, shift if number >= start else 0.0)
        flagged = y_score > desk.threshold_
        ours.update(y_score)
        report = ours.update_labels(
            y_score[flagged], y[flagged], groups=np.full(flagged.sum(), number)
        )
        labels.append(y[flagged])
    for name, test in zip(WHO, ("rows", "promise"), strict=False):
        found[name] = np.inf if report[test].alarm is None else report[test].alarm
    # Of its bound for each row, which does not depend on how many are given at once.
    y = np.concatenate(labels).astype(int)
    theirs.update(y, np.ones(len(y), dtype=int))
    above = theirs.online_risk_lower_bound_sequence_history > 1 - PRECISION
    if above.any():
        ends = np.cumsum([len(each) for each in labels])
        found[WHO[2]] = np.searchsorted(ends, np.argmax(above), side="right")
    return found, precision_above(desk.threshold_, shift)


def delays(n_draws, n_days):
    """Yield the lines of the table of delays."""
    yield f"\n### Days until a change is found: {n_draws} desks, at most {n_days} days\n"
    yield (
        "| change on day | scores of negatives | precision then | test | median days (quartiles) "
        "| found | before the change |"
    )
    yield "|---" * 7 + "|"
    for start in (0, 100):
        for shift in SHIFTS:
            each = [alarms(seed, shift, start, start + n_days) for seed in range(n_draws)]
            precision = np.mean([precision for _, precision in each])
            for name in WHO:
                days = np.array([found[name] for found, _ in each]) - start
                early, found = days < 0, np.isfinite(days)
                quartiles = np.quantile(days[~early], [0.5, 0.25, 0.75], method="lower")
                words = [f"{q:.0f}" if np.isfinite(q) else f"> {n_days}" for q in quartiles]
                yield (
                    f"| {start} | + {shift} | {precision:.2f} | {name} "
                    f"| {words[0]} ({words[1]} to {words[2]}) "
                    f"| {found[~early].mean():.0%} | {early.mean():.0%} |"
                )


def share_above(bets, level, n_draws, n_days, play):
    """Return the share of capitals that ever reach 1 / level."""
    highest = np.zeros(n_draws)
    for _ in range(n_days):
        play()
        np.maximum(highest, bets.capital.log, out=highest)
    return np.mean(highest >= -np.log(level))


def false_alarms(n_rows, n_rates, n_days, n_peers, n_peer_days):
    """Yield the lines of the table of false alarms, of streams in which nothing changes."""
    rng = np.random.default_rng(0)
    level = DELTA / 2
    yield f"\n### False alarms, level {level:g} each\n"
    yield (
        "| test | streams | days | rows a day | share with an alarm | seconds |\n"
        + "|---" * 6
        + "|"
    )
    mass = ScoreBins.of(rng.normal(size=500), rng).mass
    share = rng.dirichlet(mass, size=n_rows)
    rows, rate = RowBets(mass, (n_rows,)), RateBets(1 - PRECISION, (n_rates,))

    def play_rows():
        rows.update(rng.multinomial(N_ROWS, share).astype(float))

    def play_rate():
        n_good = rng.binomial(40, PRECISION, size=n_rates)
        rate.update_counts(40 - n_good, n_good, PRECISION)

    tests = (WHO[1], rate, play_rate, 40, n_rates), (WHO[0], rows, play_rows, N_ROWS, n_rows)
    for name, bets, play, n, n_draws in tests:
        begun = time.process_time()
        found = share_above(bets, level, n_draws, n_days, play)
        seconds = time.process_time() - begun
        yield f"| {name} | {n_draws} | {n_days} | {n} | {found:.4f} | {seconds:.0f} |"
    begun, found = time.process_time(), []
    for _ in range(n_peers):
        y = (rng.random(40 * n_peer_days) < PRECISION).astype(int)
        theirs = RiskMonitoring("precision", test_level=DELTA, threshold=1 - PRECISION, warn=False)
        # Its bounds of all times are those that it would have had, row by row.
        theirs.update(y, np.ones(len(y), dtype=int))
        bounds = theirs.online_risk_lower_bound_sequence_history
        found.append((bounds > 1 - PRECISION).any())
    seconds = time.process_time() - begun
    yield f"| {WHO[2]} | {n_peers} | {n_peer_days} | 40 | {np.mean(found):.4f} | {seconds:.0f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--row-streams", type=int, default=2000)
    parser.add_argument("--rate-streams", type=int, default=2000)
    parser.add_argument("--stream-days", type=int, default=10_000)
    parser.add_argument("--peers", type=int, default=40)
    parser.add_argument("--peer-days", type=int, default=50)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    streams = args.row_streams, args.rate_streams, args.stream_days, args.peers, args.peer_days
    for line in chain(delays(args.draws, args.days), false_alarms(*streams)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
