"""The steps of scikit-learn that a file may hold, and what makes one of them unsafe."""

import inspect
import numbers

import numpy as np

# Preprocessing and linear models whose fitted state is arrays and plain values. Where they could
# hold a function (of FunctionTransformer, say), the file cannot.
STEPS = {
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.decomposition": ("FactorAnalysis", "FastICA", "IncrementalPCA", "NMF", "PCA",
                              "TruncatedSVD"),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis",
                                      "QuadraticDiscriminantAnalysis"),
    "sklearn.dummy": ("DummyClassifier",),
    "sklearn.feature_extraction": ("DictVectorizer", "FeatureHasher"),
    "sklearn.feature_extraction.text": ("CountVectorizer", "HashingVectorizer",
                                        "TfidfTransformer", "TfidfVectorizer"),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.impute": ("KNNImputer", "MissingIndicator", "SimpleImputer"),
    "sklearn.kernel_approximation": ("Nystroem", "RBFSampler"),
    "sklearn.linear_model": ("LogisticRegression", "RidgeClassifier"),
    "sklearn.naive_bayes": ("BernoulliNB", "ComplementNB", "GaussianNB", "MultinomialNB"),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing": ("Binarizer", "FunctionTransformer", "KBinsDiscretizer",
                              "LabelBinarizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer",
                              "OneHotEncoder", "OrdinalEncoder", "PolynomialFeatures",
                              "PowerTransformer", "QuantileTransformer", "RobustScaler",
                              "StandardScaler", "TargetEncoder"),
    "sklearn.random_projection": ("GaussianRandomProjection",),
    "sklearn.svm": ("LinearSVC",),
}  # fmt: skip
# More than that no step makes of a row.
_MOST_FEATURES = 2**20
_TEXT = ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer")
_PATTERN = r"(?u)\b\w\w+\b"


def is_attribute(cls, name):
    """Tell whether a fitted step may have an attribute of its own by this name.

    Neither a method nor a parameter: that is set, and checked, before attributes are.
    """
    if name in inspect.signature(cls).parameters:
        return False
    return name.isidentifier() and not name.startswith("__") and not hasattr(cls, name)


def check_step(step, trusted):
    """Raise unless a step, whatever its attributes say, can only transform or fail.

    Scikit-learn writes and reads where some attributes say; others are times and files.

    Parameters
    ----------
    step : estimator
        Of a class in `STEPS`.
    trusted : bool
        Whether texts may be read from files and be cut by any pattern.
    """
    name = type(step).__name__
    n_jobs = getattr(step, "n_jobs", None)
    if n_jobs is not None and not (_is_int(n_jobs) and -64 <= n_jobs <= 64):
        raise ValueError(f"n_jobs of {name} must be None or from -64 to 64; got {n_jobs!r:.40}")
    if name in _TEXT and not trusted:
        _check_text(step)
    check = _CHECKS.get(name)
    if check is not None and not check(step):
        raise ValueError(f"the attributes of {name} do not belong together")


def _check_text(step):
    pattern = step.token_pattern
    if step.input != "content" or pattern not in (None, _PATTERN):
        raise ValueError(
            f"{type(step).__name__} has input={step.input!r:.40} and "
            f"token_pattern={pattern!r:.80}: it would read files, or may take for ever on some "
            "texts. If you know who wrote it, pass trusted=True"
        )


def _is_int(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _has_vocabulary(step):
    """Whether each word has a column of its own, from the first to the last."""
    if not hasattr(step, "vocabulary_"):
        return True
    columns = list(step.vocabulary_.values())
    return all(map(_is_int, columns)) and sorted(columns) == list(range(len(columns)))


def _has_categories(step):
    """Whether no category has a column beyond those there are."""
    if not hasattr(step, "categories_"):
        return True
    n_outs = step._n_features_outs
    mappings = getattr(step, "_default_to_infrequent_mappings", None) or [None] * len(n_outs)
    drop = step._drop_idx_after_grouping
    drop = [None] * len(n_outs) if drop is None else drop
    parts = zip(step.categories_, mappings, drop, n_outs, strict=True)
    for categories, mapping, dropped, n_out in parts:
        n_seen = len(categories)
        if mapping is not None:
            if np.shape(mapping) != (n_seen,) or mapping.dtype.kind != "i" or min(mapping) < 0:
                return False
            n_seen = min(n_seen, int(max(mapping)) + 1)
            if max(mapping) >= n_seen:
                return False
        if dropped is not None and dropped not in range(n_seen):
            return False
        if not _is_int(n_out) or n_out != n_seen - (dropped is not None):
            return False
    return step._infrequent_enabled in (True, False)


def _has_degree(step):
    """Whether it makes the polynomials of its degree, and not too many."""
    degree = step.degree if isinstance(step.degree, tuple) else (0, step.degree)
    if not all(map(_is_int, degree)) or max(degree) > 100:
        return False
    if not hasattr(step, "n_features_in_"):
        return True
    if not _is_int(step.n_features_in_) or not 1 <= step.n_features_in_ <= _MOST_FEATURES:
        return False
    # Its fit looks at the number of columns only.
    again = type(step)(**step.get_params()).fit(np.zeros((1, step.n_features_in_)))
    same = all(getattr(step, name, None) == value for name, value in vars(again).items())
    return same and step.n_output_features_ <= _MOST_FEATURES


def _has_room(step):
    return _is_int(step.n_features) and 1 <= step.n_features < 2**31


def _ends(step):
    return _is_int(step.max_iter) and step.max_iter <= 10_000


_CHECKS = {
    "CountVectorizer": _has_vocabulary,
    "TfidfVectorizer": _has_vocabulary,
    "DictVectorizer": _has_vocabulary,
    "OneHotEncoder": _has_categories,
    "PolynomialFeatures": _has_degree,
    "FeatureHasher": _has_room,
    "HashingVectorizer": _has_room,
    "NMF": _ends,
}
