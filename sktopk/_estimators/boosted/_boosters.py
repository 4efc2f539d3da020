"""Training of LightGBM boosters."""

import numpy as np

from sktopk._common._frames import MOST
from sktopk._common._warnings import warn
from sktopk.metrics._ranking import Ranking

SMALLEST = 1e-35  # LightGBM treats numbers of X with a smaller magnitude as 0
# `lightgbm_params` must not contain these names, because a parameter of the estimator sets them.
MANAGED = {
    "loss": "objective objective_type app application loss boost_from_average",
    "y": "num_class num_classes",
    "X": "categorical_feature categorical_features cat_feature categorical_column cat_column",
    "n_estimators": "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds "
    "nrounds num_boost_round n_estimators max_iter",
    "learning_rate": "learning_rate shrinkage_rate eta",
    "num_leaves": "num_leaves num_leaf max_leaves max_leaf max_leaf_nodes",
    "min_child_samples": "min_data_in_leaf min_data_per_leaf min_data min_child_samples "
    "min_samples_leaf",
    "n_jobs": "num_threads num_thread nthread nthreads n_jobs",
    "random_state": "seed random_seed random_state",
    "n_iter_no_change": "metric metrics metric_types early_stopping_round early_stopping_rounds "
    "early_stopping early_stopping_min_delta n_iter_no_change",
    "class_weight": "class_weight scale_pos_weight is_unbalance unbalance unbalanced_sets",
}

# Parameters of LightGBM with one value per column, and their other names.
MONOTONE = {"monotone_constraints", "monotone_constraint", "monotonic_cst", "mc"}
PER_COLUMN = MONOTONE | {"interaction_constraints", "max_bin_by_feature", "feature_contri"}
PER_COLUMN |= {"feature_contrib", "feature_penalty", "fc", "fp"}


def check_columns(params, categories, n_features):
    for name, values in params.items():
        if name not in PER_COLUMN or values is None or not np.size(np.array(values, object)):
            continue
        if many := categories.many:
            raise ValueError(
                f"lightgbm_params must not set {name} if a column of X has over {MOST} categories, "
                f"because fit replaces such columns by statistics of y; got column {many[0]}. "
                "Encode this column as numbers before fit"
            )
        if name in MONOTONE and categories.sizes:  # LightGBM would end the Python process
            values = values.split(",") if isinstance(values, str) else np.ravel(values).tolist()
            if len(values) != n_features or any(float(values[j]) for j in categories.sizes):
                raise ValueError(
                    f"{name} must have one value per column ({n_features}), and the value 0 for "
                    f"the categorical columns {[*categories.sizes]}; got {values}"
                )


def grow(lightgbm, function, settings, rows, stop, *, init_score, n_rounds, categorical):
    """Train a LightGBM booster on `rows`. `function` returns the derivatives of the loss."""
    # `categorical` has the columns of X with integer categories. `stop` is None or a tuple:
    # held-out samples, a metric of their raw scores, and the number of rounds for early stopping.
    if not categorical and rows.X.min() >= -SMALLEST and rows.X.max() <= SMALLEST:
        raise ValueError(
            "X must have numbers other than 0 in the training samples of each ensemble member; got "
            f"only zeros. LightGBM reads numbers up to {SMALLEST:g} as 0: scale X"
        )

    def data(rows, reference=None):
        start = np.full((len(rows.y), *np.shape(init_score)), init_score)
        options = {"init_score": start, "categorical_feature": categorical}
        return lightgbm.Dataset(rows.X, rows.target, reference, **options)

    def gradients(scores, _):
        return tuple(each / unit for each in function(rows.target, scores, rows.weight, sizes))

    # LightGBM's limits, such as min_sum_hessian_in_leaf, are for weights of about 1.
    unit = 1.0 if 1 < (mean := rows.weight.mean()) < 1e20 else mean
    sizes = None if rows.groups is None else np.unique(rows.groups, return_counts=True)[1]
    train, early = data(rows), {}
    if stop is not None:
        held, quality, patience = stop
        early = {
            "valid_sets": [data(held, train)],
            "feval": lambda scores, _: ("quality", quality(scores), True),
            "callbacks": [lightgbm.early_stopping(patience, verbose=False)],
        }
    # With the feature filter, LightGBM fails if there are too few samples for two leaves.
    settings = {**settings, "objective": gradients, "feature_pre_filter": False}
    try:
        booster = lightgbm.train(settings, train, n_rounds, **early)
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot train; check lightgbm_params: {error}") from error
    booster.pandas_categorical = []  # predict rejects frames, whose category codes differ
    return booster


def constraints(statistics, direction, n_features):
    """Return the parameters that constrain how LightGBM uses columns of target statistics."""
    # `statistics` has a list of column indices for each class. Without constraints, trees fit the
    # noise of these columns. So scores may only increase with a statistic (direction 1) or decrease
    # (-1). With several classes, a path from root to leaf uses the statistics of one class only.
    if not statistics:
        return {}
    monotone = np.zeros(n_features, dtype=int)
    monotone[np.ravel(statistics)] = direction
    found = {"monotone_constraints": monotone.tolist()}
    if len(statistics) > 1:
        others = np.flatnonzero(monotone == 0).tolist()
        found["interaction_constraints"] = [own + others for own in statistics]
    return found


def have_splits(boosters, min_child_samples, n_samples):
    """Return whether at least one tree of the boosters has a split. Warn if no tree has one."""
    if any(booster.feature_importance().any() for booster in boosters):
        return True
    warn(
        "no tree has a split, so all samples have the same score. For a split, min_child_samples="
        f"{min_child_samples} requires {2 * min_child_samples} samples and a column that is not "
        f"constant; an ensemble member trains on {n_samples} samples. Set min_child_samples lower"
    )
    return False


def average_precision(positive, y_score, weight):
    # scikit-learn's `average_precision_score` can take longer than growing a tree.
    ranking = Ranking.from_values(positive, y_score, weight)
    if not ranking.total_value:
        return 0.0
    found = ranking.cumulative_value[1:]
    return float(ranking.value @ (found / ranking.cumulative_weight[1:]) / found[-1])
