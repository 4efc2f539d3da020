"""
Which molecules to order
========================

A laboratory can test 200 molecules of a library. A model selects the molecules by their
descriptors. A molecule is active if its activity is at least 5.5. The measured activity is a
number, so regression is a baseline: it predicts the activity and selects the highest predictions.

Result: classifiers and regressions find similar numbers of active molecules here, several times
more than a random choice. Always compare with a regression if your classes come from a threshold on
a number.

The molecules are generated: counts of substructures follow eight hidden properties, and two of
these properties determine the activity.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sktopk import RecallAtFPRClassifier, TopBoostClassifier, make_pipeline
from sktopk.metrics import EnrichmentDisplay, enrichment_factor_score, precision_at_k_score

ACTIVE, N_TO_TEST = 5.5, 200

# %%
# The molecules
# -------------

rng = np.random.default_rng(0)
n, n_columns = 5000, 800
properties = rng.normal(size=(n, 8))
rate = np.exp(0.5 * properties @ rng.normal(size=(8, n_columns)) - 4.0)
counts = csr_matrix(rng.poisson(rate).astype(np.float32))
# The activity increases with the first property. It is highest if the second property is 0.
activity = 4.7 + 0.8 * properties[:, 0] - 0.4 * properties[:, 1] ** 2
activity = np.maximum(activity + rng.normal(scale=0.3, size=n), 4.3)
train, library = np.arange(n) < 2000, np.arange(n) >= 2000
active = activity >= ACTIVE
print(f"{train.sum()} training molecules, {active[train].mean():.1%} of them active")

# %%
# Five models
# -----------
# Each model gets the first 50 components of a singular value decomposition of the counts.


def components():
    """Return the steps from counts to scaled components."""
    log = FunctionTransformer(np.log1p, accept_sparse=True)
    return log, TruncatedSVD(50, random_state=0), StandardScaler()


classifiers = {
    "RecallAtFPR": RecallAtFPRClassifier(random_state=0),
    "TopBoost": TopBoostClassifier(random_state=0),
    "logistic regression": LogisticRegression(max_iter=2000),
}
regressions = {
    "ridge regression": Ridge(),
    "extra trees, regression": ExtraTreesRegressor(200, random_state=0),
}
scores = {}
for name, model in classifiers.items():
    pipe = make_pipeline(*components(), model).fit(counts[train], active[train])
    scores[name] = pipe.decision_function(counts[library])
for name, model in regressions.items():
    pipe = make_pipeline(*components(), model).fit(counts[train], activity[train])
    scores[name] = pipe.predict(counts[library])
for name, y_score in scores.items():
    hits = N_TO_TEST * precision_at_k_score(active[library], y_score, k=N_TO_TEST)
    factor = enrichment_factor_score(active[library], y_score, fraction=0.01)
    print(f"{name:24s} {hits:.0f} of {N_TO_TEST} are active; enrichment factor at 1 % {factor:.1f}")
print(f"{'random choice':24s} {N_TO_TEST * active[library].mean():.0f} of {N_TO_TEST} are active")

# %%
# More or fewer tests
# -------------------
# The curves show the share of all active molecules that is found, for every number of tests.

figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for name, y_score in scores.items():
    EnrichmentDisplay.from_predictions(active[library], y_score, name=name, ax=ax)
plt.show()
