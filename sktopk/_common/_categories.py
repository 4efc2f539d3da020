"""Columns of a frame that hold categories, as numbers of these.

Without narwhals: pandas and polars differ in eight lines here.
"""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from ._frames import holds_numbers
from ._warnings import warn

# If a column has more categories, the rarest ones share a number.
MOST = 50
# First letters of the dtypes of categories and of strings, in pandas, polars and pyarrow.
_CATEGORIES = ("categor", "enum", "dictionary")
_STRINGS = ("object", "str", "large_string", "utf8")


@dataclass(frozen=True)
class Categories:
    """The categories of the columns of a frame, as `fit` found them.

    Parameters
    ----------
    values : dict of {int: list}
        The categories by the number of the column, the most frequent first. None, in front of all
        others, stands for missing values.
    pooled : tuple of int
        Columns with more categories: the rare ones have the number ``len(values[column])``.
    """

    values: dict
    pooled: tuple

    @classmethod
    def of(cls, X, weight):
        """Return the categories of X, or None if no column holds categories.

        Columns with a dtype of categories hold categories, and columns of strings of which at least
        one is no number. Categories count by the `weight` of their samples.
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
        """Number of categories by the number of the column."""
        return {j: len(values) + (j in self.pooled) for j, values in self.values.items()}

    def encode(self, X):
        """Return a pandas frame with numbers instead of categories.

        Unknown categories have the number of the rare ones, or -1 if there are none. Missing values
        are -1 if `fit` had none.
        """
        import pandas as pd

        columns = dict(enumerate(X[name] for name in X.columns))
        others = {str(each.dtype).lower() for j, each in columns.items() if j not in self.values}
        # The numbers of categories are no reason for float64 if all other columns are float32.
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
        """Raise if a column has numbers instead of strings, or strings instead of numbers."""
        known = next((each for each in self.values[j] if each is not None), None)
        for each in objects if known is not None else []:
            if each is not None and isinstance(each, str) != isinstance(known, str):
                raise TypeError(
                    f"X must hold the columns of fit: column {name!r} held categories such as "
                    f"{known!r} ({type(known).__name__}); got {each!r} ({type(each).__name__}), "
                    "which is of another kind"
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
    """The values of a column as objects, None where they are missing."""
    import pandas as pd

    objects = np.array(column, dtype=object)
    objects[pd.isna(objects)] = None
    return objects


def _are_categories(objects):
    """Whether all are missing, or all others strings, not all of which are numbers."""
    known = [each for each in objects if each is not None]
    return not known or (all(isinstance(v, str) for v in known) and not holds_numbers(known))


def _check_one_kind(name, values):
    strings = [each for each in values if isinstance(each, str)]
    numbers = [each for each in values if each is not None and not isinstance(each, str)]
    if strings and numbers:
        raise TypeError(
            f"X must hold columns of one kind: column {name!r} holds categories that are texts, "
            f"such as {strings[0]!r}, and others that are none, such as {numbers[0]!r}: make texts "
            "of all"
        )


def _warn_of_strings(name, values, n_samples):
    """Warn of many strings that are hardly categories: nearly all numbers, or one per sample."""
    said = f"column {name!r} of X holds {len(values)} different texts"
    others = [each for each in values if each is not None and not holds_numbers(each)]
    if len(others) <= len(values) / 10:
        warn(
            f"{said}, most of them numbers but not {others[0]!r}, and is taken as categories: if "
            "it is one of numbers, make it so by pandas.to_numeric(errors='coerce'), for which the "
            "others are missing"
        )
    elif len(values) > n_samples / 2:
        warn(
            f"{said} in {n_samples} rows, such as {others[0]!r}, and is taken as categories: drop "
            "it if it names the rows, and make columns of what counts of dates and of sentences"
        )


def _plain(objects):
    """Return strings for all but strings and numbers, for example for intervals."""
    plain = np.empty(len(objects), dtype=object)
    plain[:] = [
        each if each is None or isinstance(each, str | Real | np.bool_) else str(each)
        for each in objects
    ]
    return plain


def _by_frequency(objects, weight):
    """Return the categories of positive weight, the heaviest first, but a missing one in front."""
    import pandas as pd

    index, values = pd.factorize(objects)
    is_missing = index < 0
    total = np.bincount(index[~is_missing], weight[~is_missing], minlength=len(values))
    values = [each.item() if isinstance(each, np.generic) else each for each in values]
    # The order of ties does not depend on the order of the samples.
    order = sorted(np.flatnonzero(total), key=lambda i: (-total[i], str(values[i])))
    return [None] * bool(weight[is_missing].any()) + [values[i] for i in order]
