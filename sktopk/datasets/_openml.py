"""Data that are downloaded once."""

import os
from pathlib import Path
from typing import Any

from sklearn.datasets import fetch_openml, get_data_home


def fetch_letter(
    *,
    data_home: str | os.PathLike | None = None,
    cache: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Fetch the letters: 20 000 rows, 16 features of their pixels, 26 classes.

    OpenML data set 6, through :func:`sklearn.datasets.fetch_openml`.

    Parameters
    ----------
    data_home : str or path, default=None
        Folder of the cache; None is that of scikit-learn, ``~/scikit_learn_data``.
    cache : bool, default=True
        Whether to keep what was downloaded, and to look there first.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether data and target are pandas objects.

    Returns
    -------
    data : Bunch or tuple
        As fetch_openml returns it: `data` (20000, 16), `target` (20000,) letters as
        strings.

    Raises
    ------
    OSError
        If the data are neither in the cache nor to be had; the message says what is missing,
        where it was looked for and how to bring it there.

    See Also
    --------
    load_pmlb : Reads the same letters from a folder.

    Examples
    --------
    >>> from sktopk.datasets import fetch_letter
    >>> X, y = fetch_letter(return_X_y=True)  # doctest: +SKIP
    """
    from_folder = "; or read the data from a folder with sktopk.datasets.load_pmlb('letter')"
    return _fetch("letter", 6, data_home, cache, return_X_y, as_frame, from_folder)


def fetch_fashion_mnist(
    *,
    data_home: str | os.PathLike | None = None,
    cache: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Fetch the images of clothes of Fashion-MNIST: 70 000 rows, 784 pixels, 10 classes.

    OpenML data set 40996, through :func:`sklearn.datasets.fetch_openml`. The first 60 000 rows
    are the training set. For a convolutional network, ``X.reshape(-1, 1, 28, 28) / 255``.

    Parameters
    ----------
    data_home, cache, return_X_y, as_frame
        As in :func:`fetch_letter`.

    Returns
    -------
    data : Bunch or tuple
        As fetch_openml returns it: `data` (70000, 784) from 0 to 255, `target` (70000,) the
        numbers 0 to 9 of the kinds of clothes.

    Raises
    ------
    OSError
        If the data are neither in the cache nor to be had; the message says what is missing,
        where it was looked for and how to bring it there.

    See Also
    --------
    fetch_cifar100 : Images with more classes.

    Examples
    --------
    >>> from sktopk.datasets import fetch_fashion_mnist
    >>> X, y = fetch_fashion_mnist(return_X_y=True)  # doctest: +SKIP
    """
    return _fetch("Fashion-MNIST", 40996, data_home, cache, return_X_y, as_frame)


def fetch_cifar100(
    *,
    data_home: str | os.PathLike | None = None,
    cache: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Fetch the images of CIFAR-100: 60 000 rows, 3 x 32 x 32 pixels, 100 classes.

    OpenML data set 41983, through :func:`sklearn.datasets.fetch_openml`.

    Parameters
    ----------
    data_home, cache, return_X_y, as_frame
        As in :func:`fetch_letter`.

    Returns
    -------
    data : Bunch or tuple
        As fetch_openml returns it: `data` (60000, 3072) from 0 to 255, `target` (60000,) the
        numbers 0 to 99 of the classes.

    Raises
    ------
    OSError
        If the data are neither in the cache nor to be had; the message says what is missing,
        where it was looked for and how to bring it there.

    See Also
    --------
    fetch_fashion_mnist : Smaller images of fewer classes.

    Examples
    --------
    >>> from sktopk.datasets import fetch_cifar100
    >>> X, y = fetch_cifar100(return_X_y=True)  # doctest: +SKIP
    """
    return _fetch("CIFAR-100", 41983, data_home, cache, return_X_y, as_frame)


def _fetch(name, data_id, data_home, cache, return_X_y, as_frame, from_folder=""):
    try:
        return fetch_openml(
            data_id=data_id,
            data_home=data_home,
            cache=cache,
            return_X_y=return_X_y,
            as_frame=as_frame,
            parser="pandas",
            # Numbered classes as integers: scikit-learn before 1.10 fails to read them as
            # categories with pandas 3.1 (scikit-learn issue 34892).
            read_csv_kwargs={"dtype": None},
        )
    except OSError as error:
        home = Path(get_data_home(data_home))
        looked = f"not in the cache {home / 'openml'}" if cache else "not cached (cache=False)"
        raise OSError(
            f"{name}, OpenML data set {data_id}, is {looked} and could not be downloaded from "
            f"www.openml.org ({error}). Call once where there is internet, with cache=True, and "
            f"copy the folder openml to {home}{from_folder}"
        ) from error
