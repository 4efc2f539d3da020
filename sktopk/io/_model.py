"""dump and load: an estimator in one file that holds no code."""

import os
from collections.abc import Collection
from typing import Any

from sktopk import Monitor
from sktopk._common._array_file import read_arrays, write_arrays
from sktopk._common._fingerprints import versions
from sktopk._common._values import NotPlainError

from ._decode import EstimatorDecoder
from ._encode import EstimatorEncoder, refusal

_FORMAT = "model", 2


def dump(estimator: Any, path: str | os.PathLike, *, omit: Collection[str] = ()) -> str:
    """Write an estimator into one file, without pickle.

    The file is a safetensors file: weights and other arrays, and as JSON in its metadata the
    parameters, the fitted state, the versions of all packages and a SHA-256 checksum of the
    whole. It is written beside `path` first and then renamed, so that a crash at any moment
    leaves the old file or the new one.

    Parameters
    ----------
    estimator : estimator
        One of this package, a scikit-learn Pipeline or FrozenEstimator around one, or a
        `BudgetClassifier`, `SetClassifier` or `ExpectedCostClassifier` around those; or a
        `Monitor` of one of these, with all it has seen. Other steps of scikit-learn must be in
        ``sktopk.io.STEPS``. Of a search, pass its ``best_estimator_``. The `memory` of a Pipeline
        is not kept, nor are requests of metadata routing. `TopBoostClassifier` and
        `TopVotingClassifier` are refused: LightGBM reads the text of its trees, scikit-learn
        follows the nodes of its own, without checking them.
    path : str or path-like
        File to write; one that exists is replaced, and keeps its mode.
    omit : collection of str, default=()
        Names of parameters to leave out where they hold code (`module`, `loss`, `callbacks`,
        ...), which no such file can hold. `load` then needs them again.

    Returns
    -------
    path : str
        The path.

    Raises
    ------
    TypeError
        If `estimator` is none, perhaps since the arguments are the wrong way round.
    ValueError
        If the estimator has a part that a file cannot hold, with its name and the way out.
    OSError
        If the file cannot be written; an older one is then as it was. If `path` is a folder, or
        lies in none.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import dump, load
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> path = dump(clf, Path(mkdtemp()) / "iris.sktopk")
    >>> load(path).predict_topk(X[:1])
    array([[0, 1]])
    """
    if isinstance(omit, str):
        raise TypeError(f"omit must be a collection of names; got the string {omit!r}")
    if isinstance(estimator, str | os.PathLike | type):
        raise TypeError(
            f"dump takes an estimator, then a path; got {estimator!r:.80} and {path!r:.80}"
        )
    encoder = EstimatorEncoder(omit)
    try:
        content = encoder.encode(estimator)
    except NotPlainError as error:
        raise ValueError(refusal("estimator", error.value)) from error
    unknown = sorted(encoder.omit - encoder.params)
    if unknown:
        raise ValueError(f"omit must have parameters of the estimators; got {unknown}")
    content = {"model": content, "omitted": sorted(encoder.omitted)}
    write_arrays(path, *_FORMAT, versions(), content, encoder.arrays)
    return os.fspath(path)


def load(path: str | os.PathLike, *, trusted: bool = False, **given: Any) -> Any:
    """Read an estimator from a file written by `dump`, without running code from it.

    Nothing in the file is executed: it names classes, from lists that are part of this package,
    and holds numbers and text. What it builds is checked against the arrays it brings, so that
    memory stays in proportion to the size of the file. The checksum finds damage; whoever forges
    a file can forge it too, and the rest does not rest on it. An estimator trained on a GPU is
    loaded on the CPU where there is none.

    Parameters
    ----------
    path : str or path-like
        File to read.
    trusted : bool, default=False
        Whether you know who wrote the file. Only then may its steps of texts read them from
        files, and cut them by a pattern of their own, which can take for ever on some texts.
    **given
        Values of the parameters that `dump` left out, by name, such as ``module=MyNetwork``; the
        weights are put into what it builds. `device` may always be given.

    Returns
    -------
    estimator : estimator
        Predicts as the one that was dumped, and trains on from there; a `Monitor` watches on.

    Raises
    ------
    TypeError
        If `path` is no path.
    ValueError
        If the file is of another kind, such as a pickle, is truncated or was altered, comes from
        another format, has an oversized header, holds a class that is not on the lists or arrays
        of wrong shapes; if a parameter that was left out is missing in `given`, or another one
        is there. The message says which.
    OSError
        If there is no such file.

    See Also
    --------
    dump : Writes such files.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import dump, load
    >>> from sktopk.modules import MLP
    >>> X, y = load_iris(return_X_y=True)
    >>> def network(n_features, n_outputs):
    ...     return MLP(n_features, n_outputs, hidden_layer_sizes=(8,))
    >>> clf = TopKClassifier(k=2, module=network, random_state=0).fit(X, y)
    >>> path = dump(clf, Path(mkdtemp()) / "iris.sktopk", omit=["module"])
    >>> bool((load(path, module=network).predict(X) == clf.predict(X)).all())
    True
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"load takes the path of a file; got {path!r:.80}")
    try:
        content, arrays, _ = read_arrays(path, *_FORMAT)
        _check_given(given, content["omitted"])
        decoder = EstimatorDecoder(arrays, given, trusted)
        estimator = decoder.decode(content["model"])
        if decoder.arrays or not (hasattr(estimator, "get_params") or type(estimator) is Monitor):
            raise ValueError("its arrays do not belong to its estimator")
    except OSError:
        raise
    except Exception as error:  # what a file that lies can make fail has many kinds
        reason = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{os.fspath(path)} cannot be loaded: {reason}") from error
    return estimator


def _check_given(given, omitted):
    missing = sorted(set(omitted) - set(given))
    if missing:
        call = ", ".join(f"{name}=..." for name in missing)
        raise ValueError(f"{', '.join(missing)} was left out of it: pass load(path, {call})")
    extra = sorted(set(given) - set(omitted) - {"device"})
    if extra:
        raise ValueError(f"{', '.join(extra)} was not left out of it: use set_params")
