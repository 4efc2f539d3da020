"""Data frames: errors that name the column, and encoding of categorical columns."""

import re
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from ._samples import is_significant
from ._scalars import refuse_times_and_complex
from ._warnings import warn

# End of error messages about input that only TabularMLP accepts.
TAKES_TABLES = "the default network accepts {what} (module=TabularMLP)"
MOST = 50  # columns with more categories are encoded by target statistics
# Number of parts of the training samples. Target statistics of a part come from the other parts.
N_PARTS = 5
# Prior weights m to try for target statistics, in multiples of the mean weight of a category.
_PRIOR_WEIGHTS = np.geomspace(1e-3, 1e3, 25)
# Warn that a column may be numeric if more than this number of its strings are numbers.
LEAST_NUMBERS = 12
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}\b")
# A prediction warns if a column has at least this number of values, all of unknown categories.
LEAST_UNKNOWN = 10
# Prefixes of the names of categorical dtypes, and of string dtypes (pandas, polars, pyarrow).
_CATEGORIES = ("categor", "enum", "dictionary")
_STRINGS = ("object", "str", "large_string", "utf8")


def check_columns(X):
    seen = set()
    for name in X.columns:
        if name in seen:
            raise ValueError(
                f"X must have distinct column names; got {name!r} more than once: rename or drop it"
            )
        seen.add(name)
        refuse_times_and_complex(X[name], "X", f" in column {name!r}")


def explain(X, error, takes_missing=False):
    """If a column of X has an invalid value, raise an error that names the column."""
    for name in X.columns:
        values = np.asarray(X[name])
        if values.dtype.kind in "fiub":
            missing, infinite = np.isnan(values), np.isinf(values)
        else:
            if X[name].dtype == object and any(type(v).__name__ == "NAType" for v in values):
                raise TypeError(
                    f"X must hold numbers; got pd.NA in column {name!r} (object): convert the "
                    "column, for example with .astype('Float64')"
                ) from error
            missing, infinite = _missing_objects(name, values, error, takes_missing), np.False_
        if missing.any() and not takes_missing:
            raise ValueError(_not_finite(name, missing, "NaN")) from error
        if infinite.any():
            raise ValueError(_not_finite(name, infinite, "infinity")) from error


def _missing_objects(name, values, error, takes_missing):
    """Return the mask of missing values. Raise an error if any other value is not a number."""
    missing = np.zeros(len(values), bool)
    for row, value in enumerate(values.tolist()):
        try:
            is_none = value is None or type(value).__name__ in ("NAType", "NaTType")
            missing[row] = is_none or np.isnan(float(value))
        except (OverflowError, TypeError, ValueError) as reason:
            kind = TypeError if isinstance(reason, TypeError) else ValueError
            advice = ""
            if isinstance(value, str) and value in ("True", "False"):
                advice = f". For a Boolean column, pass X[{name!r}] == 'True'"
            elif isinstance(value, str) and takes_missing:
                advice = (
                    ". A column of categories must have only strings in fit: convert all values to "
                    "numbers, or all values to strings"
                )
            elif isinstance(value, str):
                advice = (
                    ". Encode it first, for example with scikit-learn's OneHotEncoder in a "
                    f"ColumnTransformer; {TAKES_TABLES.format(what='columns of strings')}"
                )
            text = repr(value)
            text = text if len(text) <= 40 else f"{text[:37]}..."
            raise kind(
                f"X must hold numbers; got {text} in column {name!r}, row {row}: {reason}{advice}"
            ) from error
    return missing


def _not_finite(name, wrong, what):
    takes = TAKES_TABLES.format(what="missing values")
    advice = f"impute them first, or drop the rows; {takes}" if what == "NaN" else "clip them first"
    return (
        f"Input X contains {what}: {int(wrong.sum())} of {len(wrong)} rows of column {name!r}, "
        f"first row {int(wrong.argmax())}. X must hold finite numbers: {advice}"
    )


@dataclass(frozen=True)
class Categories:
    """Categories in the columns of the data frame that was passed to `fit`.

    `values` maps the index of each categorical column to the list of its categories, the most
    frequent first. If the column has missing values, the list begins with None.

    `statistics` maps the index of each column with more than 50 categories to an array of target
    statistics. The array has one row per category, then a row for unknown categories. It has one
    column per class (for two classes: only one column, of the second class).

    `only_cells` is True if all columns are categorical or Boolean. Then, equal samples do not count
    as copies, because many samples are equal by chance.
    """

    values: dict
    statistics: dict = field(default_factory=dict)
    only_cells: bool = False

    @classmethod
    def of(cls, X, weight):
        """Return the `Categories` of X, or None if X has no columns of categories or strings."""
        values, only_cells = {}, True
        for j, name in enumerate(X.columns):
            column = X[name]
            dtype = str(column.dtype).lower()
            is_categorical = dtype.startswith(_CATEGORIES + _STRINGS)
            objects = _objects(column) if is_categorical else []
            if dtype.startswith(_STRINGS):
                is_categorical = all(each is None or isinstance(each, str) for each in objects)
            if is_categorical:
                values[j] = _by_frequency(name, _plain(objects), weight)
            else:
                only_cells &= dtype.startswith("bool")
        return cls(values, only_cells=only_cells) if values else None

    @property
    def many(self):
        """Return the indices of the columns that are encoded by target statistics."""
        return [j for j, values in self.values.items() if len(values) > MOST]

    def columns_of_classes(self, n_columns):
        """List the statistics columns of each class or, with two classes, of the second class."""
        if not self.statistics:
            return []
        first = [*self.statistics]
        n_appended = len(self.statistics[first[0]][0]) - 1
        start = n_columns - n_appended * len(first)
        return [first, *(list(range(start + k, n_columns, n_appended)) for k in range(n_appended))]

    @property
    def sizes(self):
        """Return a dict {index: number of categories} of columns with at most `MOST` categories."""
        return {j: len(values) for j, values in self.values.items() if len(values) <= MOST}

    def encode(self, X):
        """Return a pandas data frame with categories as numbers. Unknown categories become -1."""
        import pandas as pd

        columns = dict(enumerate(X[name] for name in X.columns))
        others = {str(each.dtype).lower() for j, each in columns.items() if j not in self.values}
        # If all other columns are float32, use float32 for codes too, so that X stays float32.
        dtype = np.float32 if others == {"float32"} else np.float64
        for j, column in columns.items():
            if j in self.values:
                objects = _objects(column)
                try:
                    place, kinds = pd.factorize(objects, use_na_sentinel=False)
                except TypeError:  # values without a hash, such as lists
                    place, kinds = np.arange(len(objects)), objects
                self._check_kind(j, X.columns[j], kinds := _plain(_objects(kinds)))
                known = pd.Index(self.values[j], dtype=object)
                codes = known.get_indexer(pd.Index(kinds, dtype=object))[place]
                given = ~pd.isna(objects)
                if given.sum() >= LEAST_UNKNOWN and (codes[given] < 0).all():
                    warn(
                        f"column {X.columns[j]!r} of X has no category that fit has seen: all "
                        f"values, such as {objects[given][0]!r}, count as unknown"
                    )
                averages = None not in self.values[j][:1] and len(self.values[j]) <= MOST
                columns[j] = np.where(codes < 0, np.nan if averages else -1, codes).astype(dtype)
            else:
                is_pandas = isinstance(column, pd.Series)
                columns[j] = column.reset_index(drop=True) if is_pandas else np.asarray(column)
        return pd.DataFrame(columns).set_axis(list(X.columns), axis=1)

    def fit(self, rows, order):
        """Return two objects: the `Categories` with target statistics, and X with statistics.

        To hide the label of a sample, its statistics in the returned X come from the parts of the
        data without this sample, or are constant. Equal integers in `order` mark copies of a sample
        or, with groups, the samples of a group. A group is in a single part.
        """
        classes, target = np.unique(rows.y, return_inverse=True)
        n_classes = max(2, len(classes))
        statistics, encoded = {}, {}
        for j in self.many:
            code = rows.X[:, j].astype(np.intp)
            if rows.groups is None:
                part = deal_to_parts(code, order, target)
            else:
                part = np.unique(order, return_inverse=True)[1] % N_PARTS
            results = target_statistics(code, target, n_classes, rows.weight, part)
            statistics[j], encoded[j] = results
        return replace(self, statistics=statistics), _with_columns(rows.X, encoded)

    def with_statistics(self, X):
        """Return X after replacing the codes from `encode` by target statistics."""
        encoded = {}
        for j, statistics in self.statistics.items():
            encoded[j] = np.asarray(statistics)[X[:, j].astype(np.intp)]
        return _with_columns(X, encoded) if encoded else X

    def _check_kind(self, j, name, objects):
        known = next((each for each in self.values[j] if each is not None), None)
        for each in objects if known is not None else []:
            if each is not None and isinstance(each, str) != isinstance(known, str):
                raise TypeError(
                    f"X must have the same types as in fit: column {name!r} had categories such as "
                    f"{known!r} ({type(known).__name__}); got {each!r} ({type(each).__name__})"
                )


def _objects(column):
    """Return the values of a column as objects, with None for missing values."""
    import pandas as pd

    objects = np.array(column, dtype=object)
    objects[pd.isna(objects)] = None
    return objects


def _with_columns(X, encoded):
    """Replace column j of X by the first column of ``encoded[j]``, and append the other columns."""
    X = np.hstack([X, *(each[:, 1:] for each in encoded.values())], dtype=X.dtype)
    for j, each in encoded.items():
        X[:, j] = each[:, 0]
    return X


def _check_categories(name, values, total):
    """Check categories. Warn if they look like numbers, dates or identifiers."""
    known = [each for each in values if isinstance(each, str)]
    if 0 < len(known) < len(values):
        number = next(each for each in values if not isinstance(each, str))
        raise TypeError(
            f"X must have only strings or only numbers in a column; got {known[0]!r} and "
            f"{number!r} in column {name!r}: convert all values to strings"
        )
    numbers = list(filter(_is_decimal, known))
    others = [each for each in known if not _is_decimal(each)]
    # Do not warn about postal codes, which have equal lengths and no decimal points.
    varies = any("." in each for each in numbers) or len({*map(len, numbers)}) > 1
    has_comma = (s.count(",") == 1 and _is_decimal(s.replace(",", ".")) for s in known)
    if len(known) > 2 and all(has_comma):
        warn(
            f"column {name!r} of X has numbers with a decimal comma, such as {known[0]!r}, and is "
            "used as categories. Convert the column, for example with pandas.read_csv(decimal=',')"
        )
    elif len(known) > 2 and all(map(_DATE.match, known)):
        warn(
            f"column {name!r} of X has dates as strings, such as {known[0]!r}, and is used as "
            "categories. Convert them to numbers, for example with pandas.to_datetime(...).dt.month"
        )
    elif len(numbers) > LEAST_NUMBERS and len(others) <= len(known) / 10 and varies:
        but = f" but not {others[0]!r}" if others else f", such as {known[0]!r}"
        warn(
            f"column {name!r} of X has {len(known)} different strings, most of them numbers{but}, "
            "and is used as categories. If the column is numeric, convert it with "
            "pandas.to_numeric(errors='coerce')"
        )
    elif len(values) > total.sum() / 2:
        kind = "strings" if known else "categories"
        warn(
            f"column {name!r} of X has {len(values)} different {kind} in {total.sum()} samples, "
            f"such as {values[-1]!r}; {(total == 1).sum() / total.sum():.0%} of the samples have a "
            "category that occurs once and predicts nothing. Drop identifiers, and convert dates "
            "and text to numbers"
        )


def _is_decimal(text):
    """Return whether a string is a finite number without leading zeros."""
    try:
        is_finite = np.isfinite(float(text))
    except ValueError:
        return False
    digits = text.strip().lstrip("+-")
    return bool(is_finite) and not (digits[0] == "0" and digits[1:2].isdigit())


def _plain(objects):
    """Return an array of the objects. All except strings, numbers and None become strings."""
    kept = str | Real | np.bool_ | None
    plain = [each if isinstance(each, kept) else str(each) for each in objects]
    return np.array(plain, dtype=object)


def _by_frequency(name, objects, weight):
    """Return the categories by decreasing weight. If values are missing, None comes first."""
    import pandas as pd

    index, values = pd.factorize(objects)
    is_missing = index < 0
    total = np.bincount(index[~is_missing], weight[~is_missing], minlength=len(values))
    values = [each.item() if isinstance(each, np.generic) else each for each in values]
    # Sort equally frequent categories by name, so that the order of the samples has no effect.
    order = sorted(np.flatnonzero(total), key=lambda i: (-total[i], str(values[i])))
    there = index[~is_missing & (weight > 0)]
    known = [values[i] for i in order]
    _check_categories(name, known, np.bincount(there, minlength=len(values))[order])
    return [None] * bool(weight[is_missing].any()) + known


def deal_to_parts(code, order, target):
    """Assign each sample to a part at random. Each category is spread evenly over the parts.

    Copies of a sample have equal integers in `order`. By default, copies go to the same part. If
    any copies have different labels, all copies count as different samples. The same applies if
    categories have on average fewer than two different samples. Parts are not stratified by label,
    because the label of a sample could then be inferred from the class counts of the other parts.
    """
    part, ties = np.empty(len(code), dtype=np.intp), np.random.RandomState(0).permutation(len(code))
    at = np.lexsort([ties, order, code])
    is_new = np.diff(order[at], prepend=-1) | np.diff(code[at], prepend=-1) != 0
    cell = is_new.cumsum() - 1
    has_copies = np.array_equal(target[at][is_new][cell], target[at])
    if not has_copies or cell[-1] < 2 * code.max():
        cell = np.arange(len(code))
    part[at] = cell % N_PARTS
    return part


def target_statistics(code, target, n_classes, weight, part):
    """Return target statistics of the categories, and cross-fitted statistics of the samples.

    For a category c and a class k, the statistic is

        (S_ck + m p_k) / (W_c + m)

    W_c is the weight of all samples in category c. S_ck is the weight of samples of class k in
    category c, and p_k the share of class k. Each class has the prior weight m with the least
    squared error on held-out parts. If always predicting p_k is not significantly worse, all
    categories get p_k, because the later scaling of columns would amplify noise in other values.

    Both arrays have one column per class (for two classes: only the second class). The array of
    categories has a last row for unknown categories. scikit-learn's TargetEncoder is not used
    because it ignores sample weights.
    """
    shape = N_PARTS, code.max() + 1, n_classes
    cells = np.ravel_multi_index((part, code, target), shape)
    weight = weight / weight.max()
    own = np.bincount(cells, weight, np.prod(shape)).reshape(shape)
    total, own_total = own.sum(axis=0), own.sum(axis=2, keepdims=True)
    first = 1 if n_classes == 2 else 0
    own, columns = own[:, :, first:], total[:, first:]
    total = total.sum(axis=1, keepdims=True)
    unit = total.sum() / len(total)

    def errors(m):
        # One row per pair (held-out part, category), one column per class.
        found = []
        for mine, mine_total in zip(own, own_total, strict=True):
            p = _smoothed(columns - mine, total - mine_total, m)[:-1]
            found.append(mine - 2 * p * mine + p**2 * mine_total)
        return np.concatenate(found)

    error = np.array([errors(m * unit).sum(axis=0) for m in _PRIOR_WEIGHTS])
    # Use the largest prior weight m with the least error, so that single samples matter less.
    best = error <= error.min(axis=0) + 1e-9 * total.sum()
    m = np.where(best, _PRIOR_WEIGHTS[:, np.newaxis], 0.0).max(axis=0) * unit
    gain = errors(np.inf) - errors(m)
    alone = np.ones(len(gain)), np.arange(len(gain))
    tells = np.array([is_significant(of_class, *alone) for of_class in gain.T])
    encoded = np.empty((len(code), own.shape[2]))
    for number, (mine, mine_total) in enumerate(zip(own, own_total, strict=True)):
        inside = part == number
        encoded[inside] = _smoothed(columns - mine, total - mine_total, m)[code[inside]]
    found = _smoothed(columns, total, m)
    found[:, ~tells], encoded[:, ~tells] = found[-1, ~tells], found[-1, ~tells]
    return found, encoded


def _smoothed(columns, total, m):
    """Return the statistics of the categories and, in a last row, the shares of the classes."""
    prior = columns.sum(axis=0) / max(total.sum(), 1e-300)
    # `columns` and `total` may be differences. Replace negative rounding errors by 0.
    share = 1 / (1 + np.maximum(total, 0) / m)  # weight of the prior
    of_each = (1 - share) * np.maximum(columns, 0) / np.maximum(total, 1e-300) + share * prior
    return np.vstack([of_each, prior])
