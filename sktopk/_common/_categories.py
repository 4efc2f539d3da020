"""Columns of a frame that hold categories, as numbers of these.

Without narwhals: what pandas and polars do differently here are eight lines.
"""

from dataclasses import dataclass
from numbers import Real

import numpy as np

from ._frames import holds_numbers
from ._warnings import warn

# Of a column of more categories, the rarer ones count as one.
MOST = 50
# How the dtypes of pandas, polars and pyarrow begin that stand for categories, and for texts.
_CATEGORIES = ("categor", "enum", "dictionary")
_TEXTS = ("object", "str", "large_string", "utf8")
# Kinds of values, as pandas calls them, that need no look at each.
_PLAIN = ("string", "empty", "integer", "floating", "boolean")


@dataclass(frozen=True)
class Categories:
    """The categories of the columns of a frame, as `fit` found them.

    Parameters
    ----------
    values : dict of {int: list}
        By the number of the column: its categories, the most frequent first. None, before all
        others, is a missing value.
    pooled : tuple of int
        The columns that had more: the rarer ones have the number ``len(values[column])``.
    """

    values: dict
    pooled: tuple

    @classmethod
    def of(cls, X, weight):
        """Find the categories of the columns of X that hold some; None if there are none.

        Those are columns of the dtype of categories, and of texts and missing values alone unless
        all the texts are numbers. `weight` is what the rows weigh: how often a category counts.
        """
        values, pooled = {}, []
        for j, name in enumerate(X.columns):
            column = X[name]
            if not _may_hold_categories(column):
                continue
            objects = _objects(column)
            if _is_text(column) and not _are_categories(objects):
                continue
            values[j] = _by_frequency(_plain(objects), weight)
            _check_one_kind(name, values[j])
            if len(values[j]) > MOST:
                if _is_text(column):
                    _warn_of_texts(name, values[j], np.count_nonzero(weight))
                del values[j][MOST - 1 :]
                pooled.append(j)
        return cls(values, tuple(pooled)) if values else None

    @property
    def sizes(self):
        """How many categories the columns have, by their number."""
        return {j: len(values) + (j in self.pooled) for j, values in self.values.items()}

    def encode(self, X):
        """Return a frame of pandas with the numbers of the categories in their place.

        A category that `fit` has not seen has the number of the rarer ones or, where there were
        none, -1: it is none. So is a missing value if there was none in `fit`.
        """
        import pandas as pd

        columns = dict(enumerate(X[name] for name in X.columns))
        numbers = {
            str(column.dtype).lower() for j, column in columns.items() if j not in self.values
        }
        # What the numbers are stored as is no reason for float64 beside columns of float32.
        dtype = np.float32 if numbers == {"float32"} else np.float64
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
        """Raise if a column has numbers in the place of texts, or texts in that of numbers."""
        import pandas as pd

        known = [each for each in self.values[j] if each is not None]
        kind = pd.api.types.infer_dtype(objects, skipna=True)
        if not known or kind == "empty" or (kind == "string" and _is_str(known[0])):
            return
        for each in objects:
            if each is not None and _is_str(each) != _is_str(known[0]):
                raise TypeError(
                    f"X must hold the columns of fit: column {name!r} held categories such as "
                    f"{known[0]!r} ({type(known[0]).__name__}); got {each!r} "
                    f"({type(each).__name__}), which is of another kind"
                )

    def _codes(self, j, objects):
        import pandas as pd

        known = pd.Index(self.values[j], dtype=object)
        codes = known.get_indexer(pd.Index(objects, dtype=object))
        if j in self.pooled:
            codes[(codes < 0) & ~pd.isna(objects)] = len(known)
        return codes


def _may_hold_categories(column):
    return str(column.dtype).lower().startswith(_CATEGORIES) or _is_text(column)


def _is_text(column):
    return str(column.dtype).lower().startswith(_TEXTS)


def _objects(column):
    """The values of a column as objects, None where they are missing."""
    import pandas as pd

    objects = np.array(column, dtype=object)
    objects[pd.isna(objects)] = None
    return objects


def _are_categories(objects):
    """Whether these are texts, of which one at least is no number, or nothing at all."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(objects, skipna=True)
    if kind != "string":
        return kind == "empty"
    return not holds_numbers(objects[~pd.isna(objects)])


def _is_str(value):
    return isinstance(value, str)


def _check_one_kind(name, values):
    """Raise if categories are texts and numbers: a new one would be of either kind."""
    texts = [each for each in values if _is_str(each)]
    numbers = [each for each in values if each is not None and not _is_str(each)]
    if texts and numbers:
        raise TypeError(
            f"X must hold columns of one kind: column {name!r} holds categories that are texts, "
            f"such as {texts[0]!r}, and others that are none, such as {numbers[0]!r}: make texts "
            "of all"
        )


def _warn_of_texts(name, values, n_rows):
    """Warn of many texts that are hardly categories: numbers but for some, or one for each row."""
    said = f"column {name!r} of X holds {len(values)} different texts"
    others = [each for each in values if each is not None and not holds_numbers(each)]
    if len(others) <= len(values) / 10:
        warn(
            f"{said}, most of them numbers but not {others[0]!r}, and is taken as categories: if "
            "it is one of numbers, make it so by pandas.to_numeric(errors='coerce'), for which the "
            "others are missing"
        )
    elif len(values) > n_rows / 2:
        warn(
            f"{said} in {n_rows} rows, such as {others[0]!r}, and is taken as categories: drop it "
            "if it names the rows, and make columns of what counts of dates and of sentences"
        )


def _plain(objects):
    """The same with the text of what is neither a text nor a number, such as an interval."""
    import pandas as pd

    if pd.api.types.infer_dtype(objects, skipna=True) in _PLAIN:
        return objects
    plain = [
        each if each is None or isinstance(each, str | Real | np.bool_) else str(each)
        for each in objects
    ]
    return np.array([*plain, None], dtype=object)[:-1]


def _by_frequency(objects, weight):
    """Categories by what their rows weigh, those that weigh something; a missing one is first."""
    import pandas as pd

    index, values = pd.factorize(objects)
    is_missing = index < 0
    total = np.bincount(index[~is_missing], weight[~is_missing], minlength=len(values))
    values = [each.item() if isinstance(each, np.generic) else each for each in values]
    # Ties have an order that is not that of the rows.
    order = sorted(np.flatnonzero(total), key=lambda i: (-total[i], str(values[i])))
    return [None] * bool(weight[is_missing].any()) + [values[i] for i in order]
