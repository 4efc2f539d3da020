"""How much more than it finds a desk with constraint="cost" expects, by calibration rows.

python benchmarks/expected_value.py > benchmarks/results/expected_value.md
"""

import numpy as np
from scipy.special import expit

from sktopk import BudgetClassifier
from sktopk._estimators.decisions import _knapsack

DRAWS, DAYS, ROWS = 60, 200, 60


def main():
    # Without the last per cent that integer programming finds, for which the draws are many.
    _knapsack._N_EXACT = 0
    rng = np.random.default_rng(0)
    print("# Expected value of flagged rows (`benchmarks/expected_value.py`)\n")
    print(
        f"{DRAWS} draws of calibration rows, {DAYS} days of {ROWS} rows each, 240 minutes a day\n"
    )
    print("| calibration rows | expected over true value | 5 to 95 % of the draws |")
    print("|---|---|---|")
    for n in (250, 1000, 4000, 16_000):
        sums = []
        for _ in range(DRAWS):
            odds = rng.normal(-2, 1.5, n)
            positive = rng.random(n) < expit(odds)
            new = rng.normal(-2, 1.5, ROWS * DAYS)
            days = np.repeat(np.arange(DAYS), ROWS)
            cost, value = rng.integers(5, 60, len(new)), rng.lognormal(4, 1, len(new))
            params = {"constraint": "cost", "budget": 240, "per": "group"}
            desk = BudgetClassifier.from_scores(odds, positive, **params)
            flagged = desk.predict(new, groups=days, cost=cost, value=value)
            expected = desk.expected_value(new, value)[flagged].sum()
            sums.append((expected, (value * expit(new))[flagged].sum()))
        expected, true = np.array(sums).T
        low, high = np.percentile(expected / true - 1, [5, 95])
        print(f"| {n} | {expected.sum() / true.sum() - 1:+.1%} | {low:+.1%} to {high:+.1%} |")


if __name__ == "__main__":
    main()
