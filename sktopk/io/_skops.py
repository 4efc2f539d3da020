"""The functions `dump` and `load`, which save estimators in skops files.

skops is imported only when it is used, because it imports torch if torch is installed.
"""

import os
import sys
from collections.abc import Collection
from typing import Any

from sktopk._common._atomic_file import write_atomically
from sktopk._common._extras import import_extra

from ._loaded import check_values, reset_parameters
from ._paths import check_path
from ._trusted import TRUSTED


def dump(estimator: Any, path: str | os.PathLike) -> str:
    """Save an estimator in a file, without pickle.

    Parameters
    ----------
    estimator : estimator
        A classifier of this package, fitted or not, or a scikit-learn estimator with such
        classifiers, such as a Pipeline, a CalibratedClassifierCV or a GridSearchCV.
    path : str or path-like
        File to write. An existing file is replaced atomically: after a crash, the file has either
        its old or its new content.

    Returns
    -------
    path : str
        Path of the file.

    Raises
    ------
    ImportError
        If skops is missing: ``pip install "sktopk[io]"``.
    TypeError
        If `estimator` is not an estimator.
    ValueError
        If the estimator contains an object that skops cannot write, such as a lambda.
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Load an estimator from such a file.

    Notes
    -----
    The file has the format of :func:`skops.io.dump`. Network weights are stored as NumPy arrays.

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
    except Exception as error:  # the __reduce__ of an object can raise any type
        raise ValueError(
            f"estimator must have only objects that skops can write: {error}"
        ) from error
    # skops stores functions and classes by name. Check that these names can be imported.
    names = skops.get_untrusted_types(data=data)
    lost = [name for name in names if not _can_be_imported(name)]
    if lost:
        raise ValueError(
            f"estimator must have only functions and classes that can be imported; got "
            f"{', '.join(lost)}. Define it at the top level of a module"
        )
    write_atomically(path, [data])
    return path


def load(path: str | os.PathLike, trusted: Collection[str | type] = ()) -> Any:
    """Load an estimator from a file written by `dump`, without pickle.

    Like :func:`skops.io.load`, the function does not execute code of untrusted types. A file can
    still use much memory or time, and can set trusted types to any values.

    Parameters
    ----------
    path : str or path-like
        File to read.
    trusted : collection of str or type, default=()
        Additional types to trust, such as a custom `module` class: classes, functions, or their
        full names. Public estimators, losses and networks of this package and the defaults of
        skops are always trusted. Check each type that you add.

    Returns
    -------
    estimator : estimator
        Estimator with the same predictions as the saved one. The parameters `checkpoint`,
        `compile`, `memory`, `n_jobs` and `verbose` are reset to their defaults, also in nested
        estimators. Networks trained on a GPU are loaded to the CPU if there is no GPU.

    Raises
    ------
    ImportError
        If skops is missing: ``pip install "sktopk[io]"``.
    TypeError
        If `path` is not a path, or `trusted` is not a collection.
    ValueError
        If the file contains types that are not trusted (the message lists them), if it is damaged,
        or if it is not a skops file.
    OSError
        If the file cannot be read.

    See Also
    --------
    dump : Save an estimator.

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
        check_values(estimator)
        reset_parameters(estimator)
    except exceptions.UntrustedTypesFoundException as error:
        raise ValueError(
            f"{path} is not loaded. {error} If you trust these types and the source of the file, "
            "add them to trusted"
        ) from error
    except Exception as error:  # a damaged file can raise any type
        raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return estimator


def _can_be_imported(name):
    """Return whether a full name, such as "package.module.Class", can be imported."""
    module, _, attribute = name.rpartition(".")
    # Names in unknown modules count as importable: some builtins state a nonexistent module.
    return module not in sys.modules or hasattr(sys.modules[module], attribute)
