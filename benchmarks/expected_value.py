"""How much more than it finds a desk with constraint="cost" expects, by calibration rows.

python benchmarks/expected_value.py > benchmarks/results/expected_value.md
"""

from itertools import product

import numpy as np
from scipy.special import expit

from sktopk import BudgetClassifier
from sktopk._estimators.decisions import _knapsack

# The fewer calibration rows there are, the more draws the mean needs.
DRAWS = {250: 400, 1000: 200, 4000: 100, 16_000: 60}
DAYS, ROWS = 100, 60
# The probability of the positive class at a score, which is normal.
KINDS = {
    "rises with the score": lambda score: expit(1.5 * score - 2),
    "is .15 at every score": lambda score: np.full(len(score), 0.15),
}


def main():
    # Without the last per cent that integer programming finds, for which the draws are many.
    _knapsack._N_EXACT = 0
    rng = np.random.default_rng(0)
    print("# Expected value of flagged rows (`benchmarks/expected_value.py`)\n")
    print(
        f"Draws of calibration rows, and {DAYS} days of {ROWS} rows for each; 240 minutes a day\n"
    )
    print(
        "| probability | calibration rows | draws | expected over true value | standard error "
        "| 5 to 95 % of the draws |"
    )
    print("|---|---|---|---|---|---|")
    for kind, n in product(KINDS, DRAWS):
        ratio = np.array([expected_over_true(rng, KINDS[kind], n) for _ in range(DRAWS[n])])
        low, high = np.percentile(ratio - 1, [5, 95])
        error = ratio.std(ddof=1) / len(ratio) ** 0.5
        print(
            f"| {kind} | {n} | {len(ratio)} | {ratio.mean() - 1:+.1%} | {error:.1%} "
            f"| {low:+.1%} to {high:+.1%} |",
            flush=True,
        )


def expected_over_true(rng, probability, n):
    """Return it for the rows that a desk calibrated with n rows flags on all days."""
    scores = rng.normal(size=n)
    positive = rng.random(n) < probability(scores)
    new, days = rng.normal(size=ROWS * DAYS), np.repeat(np.arange(DAYS), ROWS)
    cost, value = rng.integers(5, 60, len(new)), rng.lognormal(4, 1, len(new))
    params = {"constraint": "cost", "budget": 240, "per": "group", "pos_label": True}
    desk = BudgetClassifier.from_scores(scores, positive, **params)
    flagged = desk.predict(new, groups=days, cost=cost, value=value)
    expected = desk.expected_value(new, value)[flagged].sum()
    return expected / (value * probability(new))[flagged].sum()


if __name__ == "__main__":
    main()
