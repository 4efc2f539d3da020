"""
Which molecules to test next
============================

A laboratory can test 200 molecules of a library. A model chooses them by their descriptors.
`PatMatClassifier` with its default network trains for this share of the molecules. It is compared
with logistic regression, boosting and `DeepTopPushClassifier`, which trains for the molecules above
every inactive one.

The steps are those of section 4.6 of *DeepTopPush: Simple and Scalable Method for Accuracy at the
Top* (Adam, Mácha, Šmídl, 2020): sparse counts, 100 components, 50 and 25 hidden units. "Active"
means an activity above 5.5. The models are judged by the measured activity.

The example uses the Merck CYP 3A4 data if it finds ``merck_cyp3a4/merck_cyp.npz`` in the folder
that SKTOPK_DATA names. Otherwise it generates molecules. ``python examples/molecules.py
picture.png`` keeps the picture.
"""

import os
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import sktopk
from sktopk import DeepTopPushClassifier, PatMatClassifier, make_pipeline
from sktopk.metrics import (
    EnrichmentDisplay,
    enrichment_factor_score,
    make_top_scorer,
    positives_at_top_score,
    precision_at_k_score,
)
from sktopk.modules import MLP

ACTIVE = 5.5
N_TO_TEST = 200
GRID = {
    "deeptoppushclassifier__learning_rate": [1e-3, 3e-3],
    "deeptoppushclassifier__buffer_size": [0, 1],
}


def load():
    """Return descriptors (CSR) and activities of the molecules to train on and to test."""
    default = Path(sktopk.__file__).parents[2] / "shared" / "data"
    path = Path(os.environ.get("SKTOPK_DATA", default)) / "merck_cyp3a4" / "merck_cyp.npz"
    if not path.is_file():
        print(f"No {path}: generated molecules")
        return generate()
    print(f"Molecules of {path}")
    parts = []
    with np.load(path) as arrays:
        n_columns = len(arrays["feature"])
        for part in ("train", "test"):
            data, indices, indptr = (arrays[f"{part}_{x}"] for x in ("data", "indices", "indptr"))
            shape = len(indptr) - 1, n_columns
            X = csr_matrix((data.astype(np.float32), indices.astype(np.int32), indptr), shape)
            parts += [X, arrays[f"{part}_Act_3A4"].astype(np.float64)]
    return tuple(parts)


def generate(n_train=2000, n_test=3000, n_columns=800, seed=0):
    """Return counts that follow 8 hidden properties, and activities that follow 2 of them."""
    rng = np.random.default_rng(seed)
    properties = rng.normal(size=(n_train + n_test, 8))
    rate = np.exp(0.5 * properties @ rng.normal(size=(8, n_columns)) - 4.0)
    X = csr_matrix(rng.poisson(rate).astype(np.float32))
    # The more of the first the better; of the second there is a best amount.
    activity = 4.7 + 0.8 * properties[:, 0] - 0.4 * properties[:, 1] ** 2
    activity += rng.normal(scale=0.3, size=len(rate))
    # An assay cannot tell what lies below its range.
    activity = np.maximum(activity, 4.3)
    return X[:n_train], activity[:n_train], X[n_train:], activity[n_train:]


def components(n_components=100):
    """Steps from counts to standardised components; the logarithm tames large counts."""
    log = FunctionTransformer(np.log1p, accept_sparse=True)
    return log, TruncatedSVD(n_components, random_state=0), StandardScaler()


def deep_top_push(**params):
    """Return the paper's pipeline."""
    clf = DeepTopPushClassifier(
        pretrain=0,
        n_iter_no_change=None,
        n_estimators=1,
        module=MLP,
        hidden_layer_sizes=(50, 25),
        net_params={"module__batch_norm": True},
        random_state=0,
        **{"max_epochs": 50} | params,
    )
    return make_pipeline(*components(), clf)


def for_200(n_molecules, **params):
    """Return a pipeline that is trained for the first 200 of `n_molecules`."""
    clf = PatMatClassifier(tau=min(0.5, N_TO_TEST / n_molecules), random_state=0, **params)
    return make_pipeline(*components(), clf)


def n_active_of(activity, y_score):
    """How many of those to test are active."""
    return N_TO_TEST * precision_at_k_score(activity > ACTIVE, y_score, k=N_TO_TEST)


def report(name, activity, y_score):
    """Print a line of scores; the activity is continuous, enrichment is of active molecules."""
    active = activity > ACTIVE
    in_order = activity[np.argsort(-y_score, kind="stable")]
    means = [in_order[: round(share * len(activity))].mean() for share in (0.01, 0.05, 0.2)]
    print(
        f"{name:22s}{n_active_of(activity, y_score):8.0f}"
        f"{positives_at_top_score(active, y_score):12.3f}"
        f"{enrichment_factor_score(active, y_score, fraction=0.01):8.2f}"
        f"{enrichment_factor_score(active, y_score, fraction=0.05):8.2f}"
        + "".join(f"{mean:8.2f}" for mean in means)
    )


def draw(models, X, activity):
    """Activity against score of the first model, and the enrichment of all."""
    figure, (scores_ax, enrichment_ax) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    name, model = next(iter(models.items()))
    y_score = model.decision_function(X)
    scores_ax.scatter(y_score, activity, s=8, alpha=0.5)
    scores_ax.axhline(ACTIVE, color="0.45", linestyle="--", label="Active above")
    highest_inactive = y_score[activity <= ACTIVE].max()
    scores_ax.axvline(highest_inactive, color="0.45", linestyle=":", label="Highest inactive")
    scores_ax.set(xlabel=f"Score of {name}", ylabel="Measured activity", title="Test molecules")
    scores_ax.legend(loc="lower right", fontsize="small")
    for name, model in models.items():
        EnrichmentDisplay.from_estimator(model, X, activity > ACTIVE, name=name, ax=enrichment_ax)
    return figure


def main():
    # A grid has settings that do not settle.
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, activity, X_test, activity_test = load()
    active = activity > ACTIVE
    print(f"{X.shape[0]} molecules to learn from, {active.mean():.1%} of them active\n")

    search = GridSearchCV(
        deep_top_push(),
        GRID,
        # The share of the actives above all inactives hangs on one molecule of the fold.
        scoring=make_top_scorer("partial_auc_log"),
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    ).fit(X, active)
    for name, value in search.best_params_.items():
        print(f"{name.split('__')[1]}: {value}")

    logistic = make_pipeline(*components(), LogisticRegression(max_iter=2000))
    boosting = make_pipeline(*components(), HistGradientBoostingClassifier(random_state=0))
    models = {
        "PatMat": for_200(len(activity_test)).fit(X, active),
        "DeepTopPush": search.best_estimator_,
        "logistic regression": logistic.fit(X, active),
        "boosting": boosting.fit(X, active),
    }
    header = [
        ("", "active", "above every", "EF", "EF", "  mean activity of the first"),
        ("test molecules", f"of {N_TO_TEST}", "inactive", "1 %", "5 %", "1 %", "5 %", "20 %"),
    ]
    print()
    for first, *cells in header:
        line = f"{first:22s}{cells[0]:>8s}{cells[1]:>12s}"
        print(line + "".join(f"{cell:>8s}" for cell in cells[2:]))
    found = {}
    for name, model in models.items():
        y_score = model.decision_function(X_test)
        found[name] = n_active_of(activity_test, y_score)
        report(name, activity_test, y_score)
    report("any order", activity_test, np.zeros(len(activity_test)))

    best = max(found, key=found.get)
    order, share = models["PatMat"].predict_top(X_test, N_TO_TEST), np.mean(activity_test > ACTIVE)
    print(
        f"\nOf the {N_TO_TEST} to test {found['PatMat']:.0f} are active with PatMat, at most "
        f"{found[best]:.0f} ({best}); of any {N_TO_TEST} {share * N_TO_TEST:.0f} would be"
    )
    print(f"First: {', '.join(f'{i} ({activity_test[i]:.1f})' for i in order[:10])}")

    figure = draw(models, X_test, activity_test)
    if __name__ == "__main__" and len(sys.argv) > 1:
        figure.savefig(sys.argv[1], dpi=120)
    plt.show()


if __name__ == "__main__":
    main()
