"""Baselines that `compare_losses` adds to the models of the user."""

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from sktopk._common._scalars import positive_label

from ._runs import VALIDATION_SHARE

# With more classes than this, omit boosting: one tree per class in each round would be slow.
MOST_CLASSES_TO_BOOST = 30
# Omit boosting for sparse data if the dense float64 array would need more bytes than this.
MOST_BYTES_TO_BOOST = 1 << 29
# Results of pandas' `infer_dtype` for columns of numbers, which can have dtype object.
NUMBERS = "floating", "integer", "boolean", "decimal", "mixed-integer-float"
# Both encoders merge the rarest categories. Histogram boosting accepts at most 255 categories.
ONEHOT = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=50, sparse_output=False)
CODES = OrdinalEncoder(
    handle_unknown="use_encoded_value",
    unknown_value=np.nan,
    encoded_missing_value=np.nan,
    max_categories=250,
)


def loss_baselines(with_loss, prefix, n_classes, scorer, is_weighted):
    """Return a dict of baselines: the network of a TopKClassifier with other losses."""
    weighted = with_loss("cross_entropy").set_params(**{f"{prefix}class_weight": "balanced"})
    # With sample weights, tuning the threshold would require metadata routing.
    of_labels = "response_method='predict'" in repr(scorer)
    if n_classes == 2 and of_labels and not is_weighted:
        weighted = TunedThresholdClassifierCV(weighted, scoring=scorer, cv=VALIDATION_SHARE)
    return {
        "cross_entropy": with_loss("cross_entropy"),
        "logit_adjusted": with_loss("logit_adjusted"),
        "weighted_cross_entropy": weighted,
    }


def other_baselines(estimator, n_classes, X, y):
    """Return two dicts: baseline models, and the reasons why other baselines are omitted."""
    last = estimator
    while isinstance(last, Pipeline):
        if len(last.steps) > 1:
            X = clone(last[:-1]).fit_transform(X, y)
        last = last.steps[-1][1]
    numbers = [*_encoding(X, ONEHOT), ("imputer", SimpleImputer(keep_empty_features=True))]
    # The encoding puts categories into the first columns.
    first = [*range(len(_categories(X)))]
    found = {
        "logistic_regression": [
            *numbers,
            ("scaler", StandardScaler(with_mean=not issparse(X))),
            ("linear", LogisticRegression(max_iter=1000)),
        ],
        "extra_trees": [
            *numbers,
            ("indices", FunctionTransformer(with_short_indices, accept_sparse=True)),
            ("trees", ExtraTreesClassifier()),
        ],
        "hist_gradient_boosting": [
            *_encoding(X, CODES),
            ("dense", DenseNumbers()),
            ("boosting", HistGradientBoostingClassifier(categorical_features=first)),
        ],
    }
    if get_config()["enable_metadata_routing"]:  # the requests decide which steps get weights
        found["logistic_regression"][-2][1].set_fit_request(sample_weight=False)
        for steps in found.values():
            steps[-1][1].set_fit_request(sample_weight=True)
    omitted = {}
    if reason := _reason_against(X):
        found, omitted = {}, dict.fromkeys(found, reason)
    elif reason := _reason_against_boosting(X, n_classes):
        del found["hist_gradient_boosting"]
        omitted["hist_gradient_boosting"] = reason
    found = {name: Pipeline(steps) for name, steps in found.items()}
    if place := last_step(estimator)[0].removesuffix("__"):
        found = {name: clone(estimator).set_params(**{place: each}) for name, each in found.items()}
    return found, omitted


def last_step(estimator):
    """Return the parameter prefix (such as "" or "clf__") and the last step of nested pipelines."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return prefix, estimator


def with_pos_label(estimator, scorer, estimators, y):
    """Replace each ``pos_label=None`` of the scorer and the estimators by the same label."""
    models = [scorer, estimator, *estimators.values()]
    names = [f"{last_step(each)[0]}pos_label" for each in models]
    params = [getattr(each, "get_params", dict)() for each in models]
    given = [own[name] for name, own in zip(names, params, strict=True) if name in own]
    if not given:
        return scorer, estimators
    known = (label for label in given if label is not None)
    pos_label = positive_label(next(known, None), *np.unique(y, return_counts=True))
    scorer, _, *others = (
        clone(each).set_params(**{name: pos_label}) if own.get(name, "") is None else each
        for each, name, own in zip(models, names, params, strict=True)
    )
    return scorer, dict(zip(estimators, others, strict=True))


def _reason_against(X):
    """Return the reason why no classifier of scikit-learn can be fitted to X, or None."""
    if hasattr(X, "columns") or issparse(X):
        return None
    X = np.asarray(X)
    if X.ndim != 2:
        return f"X must have 2 dimensions; got {X.ndim}"
    return None if X.dtype.kind in "fiub" else f"X must have numbers only; got dtype {X.dtype}"


def _reason_against_boosting(X, n_classes):
    """Return the reason why boosting would be too slow or large, or None."""
    if n_classes > MOST_CLASSES_TO_BOOST:
        return f"y must have at most {MOST_CLASSES_TO_BOOST} classes; got {n_classes}"
    if issparse(X) and (n_bytes := 8 * X.shape[0] * X.shape[1]) > MOST_BYTES_TO_BOOST:
        most = MOST_BYTES_TO_BOOST / 2**20
        return f"dense X must have at most {most:.3g} MiB; got {n_bytes / 2**20:.3g}"
    return None


def _categories(X):
    """Return the names of the non-numeric columns of a data frame."""
    return [*as_pandas(X).select_dtypes(exclude="number")] if hasattr(X, "columns") else []


def _encoding(X, encoder):
    """Return the steps that convert a data frame to numbers, with encoded categories first."""
    if not hasattr(X, "columns"):
        return []
    columns = [("categories", clone(encoder), _categories(X))]
    return [
        ("pandas", FunctionTransformer(as_pandas)),
        ("columns", ColumnTransformer(columns, remainder="passthrough")),
    ]


def as_pandas(X):
    """Return a data frame in pandas. Columns of numbers become float64, all others objects."""
    columns = []  # named 0, 1, ..., so that a ColumnTransformer finds columns by position
    for name in X.column_names if hasattr(X, "column_names") else X.columns:
        values = X[name] if isinstance(X[name], pd.Series) else np.asarray(X[name])
        column = pd.Series(values).reset_index(drop=True)
        if pd.api.types.infer_dtype(column) in NUMBERS:
            columns.append(column.astype(np.float64))
        else:
            columns.append(column.astype(object).where(column.notna(), None))
    return pd.DataFrame(dict(enumerate(columns)))


def with_short_indices(X):
    """Return X, with int32 instead of int64 indices if possible: trees need int32 for sparse X."""
    if issparse(X) and X.indices.dtype != np.int32 and max(*X.shape, X.nnz) < 2**31:
        X = X.copy()
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


class DenseNumbers(TransformerMixin, BaseEstimator):
    """Make X dense. All-NaN columns in `fit` become zeros, because boosting fails for them."""

    def fit(self, X, y=None):
        self.empty_ = np.isnan(self._dense(X)).all(axis=0)
        return self

    def transform(self, X):
        X = self._dense(X)
        return np.where(self.empty_, 0.0, X) if self.empty_.any() else X

    def _dense(self, X):
        return X.toarray() if issparse(X) else np.asarray(X)
