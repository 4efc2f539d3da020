"""Encoding of the categorical columns of pandas and polars data frames."""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from ._frames import holds_numbers
from ._warnings import warn

# Maximum number of codes per column. All rarer categories share one code.
MOST = 50
# Prefixes of the names of categorical and string dtypes in pandas, polars and pyarrow.
_CATEGORIES = ("categor", "enum", "dictionary")
_STRINGS = ("object", "str", "large_string", "utf8")


@dataclass(frozen=True)
class Categories:
    """Categories in the columns of the data frame that was passed to `fit`.

    Parameters
    ----------
    values : dict of {int: list}
        Maps the index of each categorical column to its categories, by decreasing frequency. None
        stands for missing values, and comes first in columns with missing values.
    pooled : tuple of int
        Columns in which all rare categories have one common code, ``len(values[column])``.
    """

    values: dict
    pooled: tuple

    @classmethod
    def of(cls, X, weight):
        """Return the categories of X, or None if no column is categorical.

        A column is categorical if it has a categorical dtype, or if it contains strings and some of
        these strings are not numbers. Categories are sorted by their total sample weight.
        """
        values, pooled = {}, []
        for j, name in enumerate(X.columns):
            column = X[name]
            if not str(column.dtype).lower().startswith(_CATEGORIES + _STRINGS):
                continue
            objects = _objects(column)
            if _is_of_strings(column) and not _are_categories(objects):
                continue
            values[j] = _by_frequency(_plain(objects), weight)
            _check_one_kind(name, values[j])
            if len(values[j]) > MOST:
                if _is_of_strings(column):
                    _warn_of_strings(name, values[j], np.count_nonzero(weight))
                del values[j][MOST - 1 :]
                pooled.append(j)
        return cls(values, tuple(pooled)) if values else None

    @property
    def sizes(self):
        """Return a dict that maps the index of each categorical column to its number of codes."""
        return {j: len(values) + (j in self.pooled) for j, values in self.values.items()}

    def encode(self, X):
        """Return a pandas data frame with categories encoded as numbers.

        Unknown categories get the code of rare categories, or -1 in columns without rare
        categories. Missing values get -1 in columns that had none in `fit`.
        """
        import pandas as pd

        columns = dict(enumerate(X[name] for name in X.columns))
        others = {str(each.dtype).lower() for j, each in columns.items() if j not in self.values}
        # If all other columns are float32, use float32 for codes too, so that X stays float32.
        dtype = np.float32 if others == {"float32"} else np.float64
        for j, column in columns.items():
            if j in self.values:
                objects = _plain(_objects(column))
                self._check_kind(j, X.columns[j], objects)
                columns[j] = self._codes(j, objects).astype(dtype)
            else:
                is_pandas = isinstance(column, pd.Series)
                columns[j] = column.reset_index(drop=True) if is_pandas else np.asarray(column)
        return pd.DataFrame(columns).set_axis(list(X.columns), axis=1)

    def _check_kind(self, j, name, objects):
        """Raise an error if a column had strings in `fit` but now has numbers, or vice versa."""
        known = next((each for each in self.values[j] if each is not None), None)
        for each in objects if known is not None else []:
            if each is not None and isinstance(each, str) != isinstance(known, str):
                raise TypeError(
                    f"X must have the same types as in fit: column {name!r} had categories such as "
                    f"{known!r} ({type(known).__name__}); got {each!r} ({type(each).__name__})"
                )

    def _codes(self, j, objects):
        import pandas as pd

        known = pd.Index(self.values[j], dtype=object)
        codes = known.get_indexer(pd.Index(objects, dtype=object))
        if j in self.pooled:
            codes[(codes < 0) & ~pd.isna(objects)] = len(known)
        return codes


def _is_of_strings(column):
    return str(column.dtype).lower().startswith(_STRINGS)


def _objects(column):
    """Return the values of a column as objects, with None for missing values."""
    import pandas as pd

    objects = np.array(column, dtype=object)
    objects[pd.isna(objects)] = None
    return objects


def _are_categories(objects):
    """Return whether all values except None are strings, and some strings are not numbers."""
    known = [each for each in objects if each is not None]
    return not known or (all(isinstance(v, str) for v in known) and not holds_numbers(known))


def _check_one_kind(name, values):
    strings = [each for each in values if isinstance(each, str)]
    numbers = [each for each in values if each is not None and not isinstance(each, str)]
    if strings and numbers:
        raise TypeError(
            f"X must have only strings or only numbers in a column; got {strings[0]!r} and "
            f"{numbers[0]!r} in column {name!r}: convert all values to strings"
        )


def _warn_of_strings(name, values, n_samples):
    """Warn if most strings in a column are numbers, or if too many are different."""
    said = f"column {name!r} of X has {len(values)} different strings"
    others = [each for each in values if each is not None and not holds_numbers(each)]
    if len(others) <= len(values) / 10:
        warn(
            f"{said}, most of them numbers but not {others[0]!r}, and is used as categories. For "
            "numbers, convert it with pandas.to_numeric(errors='coerce')"
        )
    elif len(values) > n_samples / 2:
        warn(
            f"{said} in {n_samples} rows, such as {others[0]!r}, and is used as categories. Drop "
            "identifiers, and convert dates and text to numbers"
        )


def _plain(objects):
    """Return an array in which other objects than strings, numbers and None become strings."""
    plain = np.empty(len(objects), dtype=object)
    plain[:] = [
        each if each is None or isinstance(each, str | Real | np.bool_) else str(each)
        for each in objects
    ]
    return plain


def _by_frequency(objects, weight):
    """Return a list of the categories by decreasing weight. None, for missing values, is first."""
    import pandas as pd

    index, values = pd.factorize(objects)
    is_missing = index < 0
    total = np.bincount(index[~is_missing], weight[~is_missing], minlength=len(values))
    values = [each.item() if isinstance(each, np.generic) else each for each in values]
    # Sort equally frequent categories by name, so that the order of the samples has no effect.
    order = sorted(np.flatnonzero(total), key=lambda i: (-total[i], str(values[i])))
    return [None] * bool(weight[is_missing].any()) + [values[i] for i in order]
