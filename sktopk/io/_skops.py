"""dump and load: an estimator in a file of skops.

skops is imported on demand: it imports all of scikit-learn and, where it is installed, torch.
"""

import inspect
import os
import sys
from collections.abc import Collection
from typing import Any

import numpy as np

from sktopk._common._atomic_file import write_atomically
from sktopk._common._extras import import_extra

from ._paths import check_path
from ._trusted import TRUSTED

# Parameters that name files, start processes or print.
DROPPED = ("checkpoint", "compile", "memory", "n_jobs", "verbose")
# Where the state of a fitted network keeps the parameters that the network was built from.
_PARAMS_OF_FIT = "_fit_params"


def dump(estimator: Any, path: str | os.PathLike) -> str:
    """Write an estimator to a file, without pickle.

    Parameters
    ----------
    estimator : estimator
        A classifier of this package, fitted or not. Also a scikit-learn estimator that holds
        such classifiers: a Pipeline, a CalibratedClassifierCV, a search.
    path : str or path-like
        File to write. An existing file is replaced. A crash at any moment leaves either the old
        file or the new one.

    Returns
    -------
    path : str
        The path.

    Raises
    ------
    ImportError
        If skops is missing: ``pip install "sktopk[io]"``.
    TypeError
        If `estimator` is not an estimator.
    ValueError
        If the estimator holds an object that skops cannot write, such as a lambda.
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Reads such files.

    Notes
    -----
    The file has the format of :func:`skops.io.dump`. Weights are NumPy arrays in it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import dump, load
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> path = dump(clf, Path(mkdtemp()) / "iris.skops")
    >>> load(path).predict_topk(X[:1])
    array([[0, 1]])
    """
    skops = import_extra("skops.io", "dump", "io")
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"estimator must be an estimator; got {estimator!r:.80}")
    path = check_path(path)
    try:
        data = skops.dumps(estimator)
    except Exception as error:  # of many types: whatever the __reduce__ of an object raises
        raise ValueError(f"estimator holds an object that skops cannot write: {error}") from error
    # skops writes a function or a class as its name, and finds out when it reads the file.
    names = skops.get_untrusted_types(data=data)
    lost = [name for name in names if not _can_be_imported(name)]
    if lost:
        raise ValueError(
            f"estimator holds {', '.join(lost)}, which cannot be imported by this name. Define it "
            "at the top level of a module"
        )
    write_atomically(path, [data])
    return path


def load(path: str | os.PathLike, trusted: Collection[str | type] = ()) -> Any:
    """Read an estimator from a file of `dump`, without pickle.

    No code of types that are not trusted runs. The guarantee is that of :func:`skops.io.load`,
    and no more than that: memory, time and the values inside of trusted types are not limited.

    Parameters
    ----------
    path : str or path-like
        File to read.
    trusted : collection of str or type, default=()
        Further types to trust, such as a `module` class of your own: classes and functions, or
        their full names. The public estimators, losses and networks of this package are always
        trusted, and so is what skops trusts by default. Check each type that you add.

    Returns
    -------
    estimator : estimator
        The estimator. It gives the same predictions as the one that was dumped. The parameters
        `checkpoint`, `compile`, `memory`, `n_jobs` and `verbose`, which name files, start
        processes or print, have the default values of their class, in nested estimators too. A
        network that was trained on a GPU is on the CPU if there is no GPU.

    Raises
    ------
    ImportError
        If skops is missing: ``pip install "sktopk[io]"``.
    TypeError
        If `path` is not a path or `trusted` not a collection.
    ValueError
        If the file holds a type that is not trusted, which the message names; if it is damaged
        or not a file of skops.
    OSError
        If the file cannot be read.

    See Also
    --------
    dump : Writes such files.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sktopk import RecallAtKClassifier
    >>> from sktopk.io import dump, load
    >>> path = dump(RecallAtKClassifier(k=50, verbose=1), Path(mkdtemp()) / "ranker.skops")
    >>> load(path)
    RecallAtKClassifier(k=50)
    """
    skops = import_extra("skops.io", "load", "io")
    exceptions = import_extra("skops.io.exceptions", "load", "io")
    path = check_path(path)
    if isinstance(trusted, str | type) or not isinstance(trusted, Collection):
        raise TypeError(f"trusted must be a collection of types or names; got {trusted!r:.80}")
    with open(path, "rb") as file:
        data = file.read()
    try:
        estimator = skops.loads(data, trusted=[*TRUSTED, *trusted])
        _reset_parameters(estimator)
    except exceptions.UntrustedTypesFoundException as error:
        raise ValueError(
            f"{path} is not loaded. {error} If you know these types and who wrote the file, name "
            "them in trusted"
        ) from error
    except Exception as error:  # of many types: a damaged file can fail anywhere
        raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return estimator


def _can_be_imported(name):
    """Whether a type that is in use has its name in its module."""
    module, _, attribute = name.rpartition(".")
    # Builtin functions and the like may have a module that is none.
    return module not in sys.modules or hasattr(sys.modules[module], attribute)


def _reset_parameters(loaded):
    """Reset the parameters in `DROPPED` of all estimators in `loaded` to their defaults."""
    # A stack, as deep nesting exceeds the recursion limit.
    stack, seen = [loaded], set()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set):
            stack.extend(value)
        elif isinstance(value, np.ndarray):
            stack.extend(value.flat if value.dtype == object else ())
        elif hasattr(value, "__dict__"):
            if hasattr(value, "get_params"):
                _reset_own(value)
            # Networks were built from parameters and have no others.
            stack.extend(each for name, each in vars(value).items() if name != "net_")


def _reset_own(estimator):
    parameters = inspect.signature(type(estimator)).parameters
    defaults = {name: parameters[name].default for name in DROPPED if name in parameters}
    for name, default in defaults.items():
        setattr(estimator, name, None if default is inspect.Parameter.empty else default)
    if isinstance(given := getattr(estimator, "net_params", None), dict):
        defaults["net_params"] = {k: v for k, v in given.items() if k not in DROPPED} or None
        estimator.net_params = defaults["net_params"]
    state = estimator.__getstate__() if hasattr(estimator, "net_") else {}
    of_fit = state.get(_PARAMS_OF_FIT, {})
    changed = {k: v for k, v in defaults.items() if k in of_fit and of_fit[k] != v}
    if changed:
        # Builds the network anew.
        estimator.__setstate__(state | {_PARAMS_OF_FIT: of_fit | changed})
