"""Out-of-fold scores of networks and trees, computed by slow loops."""

import numpy as np


def as_unseen_by_loops(scores, unseen, target, weight):
    moved = scores.copy()
    n, n_members = scores.shape
    for i in range(n):
        of_class = [j for j in range(n) if target[j] == target[i]]
        counts = [sum(unseen[j, m] and weight[j] > 0 for j in of_class) for m in range(n_members)]
        if min(counts) < 3:
            own = [scores[i, m] for m in range(n_members) if unseen[i, m]]
            moved[i] = sum(own) / len(own)
            continue
        for m in range(n_members):
            if unseen[i, m]:
                continue
            curves = []
            for left_out in (False, True):
                rows = [j for j in range(n) if target[j] == target[i] and unseen[j, m] == left_out]
                total = sum(weight[j] for j in rows)
                values = sorted({scores[j, m] for j in rows})
                ranks = []
                for value in values:
                    below = sum(weight[j] for j in rows if scores[j, m] < value)
                    at = sum(weight[j] for j in rows if scores[j, m] == value)
                    ranks.append((below + at / 2) / total)
                curves.append((ranks, values))
            (ranks, values), (other_ranks, others) = curves
            gaps = np.subtract(others, np.interp(other_ranks, ranks, values))
            moved[i, m] += np.interp(ranks[values.index(scores[i, m])], other_ranks, gaps)
    return moved.mean(axis=1)
