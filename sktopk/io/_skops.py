"""The functions `dump` and `load`, which save estimators in skops files."""

# skops is imported only when it is used, because it imports torch if torch is installed.

import errno
import os
import sys
from collections.abc import Collection
from typing import Any

from sktopk import __version__
from sktopk._common._atomic_file import read_file, write_atomically
from sktopk._common._extras import import_extra
from sktopk._common._warnings import warn

from ._archive import CONSTRUCTED, names_in, trusted_among, version_of, with_version
from ._loaded import check_and_reset, writable


def dump(estimator: Any, path: str | os.PathLike) -> str:
    """Save an estimator in a file, without pickle.

    Parameters
    ----------
    estimator : estimator
        A classifier of this package, or a scikit-learn estimator that contains such a classifier.
    path : str or path-like
        File to write. An existing file is replaced atomically.

    Returns
    -------
    path : str
        Path of the file. The file has the format of :func:`skops.io.dump`. For custom classes and
        other types that `load` does not trust, a warning shows a list. Pass it to `load` as
        `trusted`. Metadata requests (`set_fit_request`) are not saved, and a warning says so.

    Raises
    ------
    ImportError, OSError, TypeError, ValueError
        If skops is missing (``pip install "sktopk[io]"``), if the file cannot be written, if
        `estimator` is no estimator, or if it has an object that skops cannot write.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import dump, load
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> path = dump(clf, f"{mkdtemp()}/iris.skops")
    >>> load(path).predict_topk(X[:1])
    array([[0, 1]])
    """
    skops = import_extra("skops.io", "dump", "io")
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"estimator must be an estimator; got {estimator!r:.80}")
    path = check_path(path)
    try:
        data = skops.dumps(writable(estimator))
    except Exception as error:  # the __reduce__ of an object can raise any type
        raise ValueError(f"estimator must have only objects skops can write: {error}") from error
    # skops stores functions and classes by name. Check that these names can be imported.
    names = {*skops.get_untrusted_types(data=data)}
    names = sorted(names - trusted_among(names))
    if lost := [name for name in names if not _can_be_imported(name)]:
        raise ValueError(
            f"estimator must contain only functions and classes that can be imported; got "
            f"{', '.join(lost)}. Define them at the top level of a module"
        )
    write_atomically(path, [with_version(data)])
    if names:
        warn(f"load does not trust all types in {path}: use load(path, trusted={names})")
    return path


def load(path: str | os.PathLike, trusted: Collection[str | type] = ()) -> Any:
    """Load an estimator from a file written by `dump`, without pickle.

    Like :func:`skops.io.load`, this function executes no code of untrusted types. Loading a small
    file never needs much memory or time. But the model in an untrusted file can predict badly.

    Parameters
    ----------
    path : str or path-like
        File to read.
    trusted : collection of str or type, default=()
        Classes and functions to trust, or their full names. Check their code first. `load` always
        trusts sktopk, skops' defaults, and scikit-learn's searches, voting and calibration.

    Returns
    -------
    estimator : estimator
        Estimator that predicts like the saved one. The parameters `checkpoint`, `compile`,
        `memory`, `n_jobs` and `verbose` are reset to their defaults, also in nested estimators.
        Networks from a GPU are loaded to the CPU if there is no GPU.

    Raises
    ------
    ImportError, OSError, TypeError, ValueError
        If skops is missing (``pip install "sktopk[io]"``), or the file cannot be read, has the
        format of another version, or has types that are not trusted. The message lists these types.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from sktopk import RecallAtKClassifier
    >>> from sktopk.io import dump, load
    >>> path = dump(RecallAtKClassifier(k=50, verbose=1), f"{mkdtemp()}/ranker.skops")
    >>> load(path)
    RecallAtKClassifier(k=50)
    """
    skops = import_extra("skops.io", "load", "io")
    path = check_path(path)
    if isinstance(trusted, str | type) or not isinstance(trusted, Collection):
        raise TypeError(f"trusted must be a collection of types or names; got {trusted!r:.80}")
    own = [each if isinstance(each, str) else _full_name(each) for each in trusted]
    data = read_file(path)
    try:
        names = names_in(data, {*CONSTRUCTED, *own})
        estimator = skops.loads(data, trusted=[*trusted_among(names), *own])
        check_and_reset(estimator)
    except skops.exceptions.UntrustedTypesFoundException as error:
        raise ValueError(
            f"{path} is not loaded. {error} If you trust these types and the source of the file, "
            "add them to trusted"
        ) from error
    except Exception as error:  # a damaged file can raise any type
        reason = f"{type(error).__name__}: {error}"
        if (version := version_of(data)) != __version__:
            by = "another program or an old sktopk" if version is None else f"sktopk {version}"
            reason += f". It was written by {by}; this is sktopk {__version__}"
        raise ValueError(f"{path} cannot be loaded: {reason}") from error
    return estimator


def check_path(path):
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(f"path must be a str or an os.PathLike of str; got {path!r:.80}")
    if "\0" in text:
        raise ValueError(f"path must not contain NUL characters; got {text!r:.200}")
    if os.path.basename(text) in ("", os.curdir, os.pardir):
        raise IsADirectoryError(errno.EISDIR, "path must be the path of a file", text)
    return text


def _full_name(kind):
    """Return the full name of a class or function, as skops writes it."""
    if not hasattr(kind, "__module__") or not hasattr(kind, "__name__"):
        raise TypeError(f"trusted must have classes, functions or names; got {kind!r:.80}")
    return f"{kind.__module__}.{kind.__name__}"


def _can_be_imported(name):
    """Return whether a full name, such as "package.module.Class", can be imported."""
    module, _, attribute = name.rpartition(".")
    # Some builtins have a `__module__` that does not exist: accept modules that are not imported.
    return module not in sys.modules or hasattr(sys.modules[module], attribute)
