"""Tables in a data folder."""

import os
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from sktopk._common._scalars import check_option

from ._folders import SUBSETS, as_bunch, data_file

VIEWS = {"shape": "Sha", "margin": "Mar", "texture": "Tex"}
ASSAYS = ("3A4", "2C9", "2D6")


def load_pmlb(
    name: str,
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load a table of the Penn Machine Learning Benchmarks.

    Reads ``pmlb/NAME.tsv.gz``: tab-separated, one column of it named "target".

    Parameters
    ----------
    name : str
        Of the table, such as "letter" (20 000 letters, 26 classes).
    data_home : str or path, default=None
        The folder that has ``pmlb`` and the folders of the other data; None is the environment
        variable SKTOPK_DATA, and without it ``../shared/data``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether data and target are pandas objects.

    Returns
    -------
    data : Bunch or tuple
        With `data` (n_samples, n_features) float64, `target` (n_samples,), `feature_names`
        and `frame` (None without `as_frame`).

    Raises
    ------
    FileNotFoundError
        If the file is not there; the message says where it was looked for.

    See Also
    --------
    fetch_letter : Downloads the letters.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> from sktopk.datasets import load_pmlb
    >>> table = pd.DataFrame({"width": [1.0, 2.0], "height": [3.0, 4.0], "target": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as home:
    ...     pathlib.Path(home, "pmlb").mkdir()
    ...     table.to_csv(f"{home}/pmlb/boxes.tsv.gz", sep="\\t", index=False)
    ...     X, y = load_pmlb("boxes", data_home=home, return_X_y=True)
    >>> X.tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    table = pd.read_csv(data_file(data_home, "pmlb", f"{name}.tsv.gz"), sep="\t")
    X, y = table.drop(columns="target"), table["target"].to_numpy()
    names, X = X.columns, X.to_numpy(dtype=np.float64)
    return as_bunch(X, y, return_X_y=return_X_y, feature_names=names, as_frame=as_frame)


def load_adbench(
    name: str,
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load a table of ADBench, in which few rows are positive.

    Reads ``adbench/NAME.npz``, arrays X and y.

    Parameters
    ----------
    name : str
        Of the file, such as "5_campaign" (41 188 telephone calls of a bank, 11.3 % of them a
        success).
    data_home, return_X_y, as_frame
        As in :func:`load_pmlb`.

    Returns
    -------
    data : Bunch or tuple
        With `data` (n_samples, n_features) float64, `target` (n_samples,) 0 and 1,
        `feature_names` ("x0", "x1", ...) and `frame` (None without `as_frame`).

    Raises
    ------
    FileNotFoundError
        If the file is not there; the message says where it was looked for.

    See Also
    --------
    load_pmlb : Tables with many classes, and some with two.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from sktopk.datasets import load_adbench
    >>> with tempfile.TemporaryDirectory() as home:
    ...     pathlib.Path(home, "adbench").mkdir()
    ...     np.savez(f"{home}/adbench/0_rare.npz", X=np.eye(3), y=np.array([0, 0, 1]))
    ...     X, y = load_adbench("0_rare", data_home=home, return_X_y=True)
    >>> y.tolist()
    [0, 0, 1]
    """
    with np.load(data_file(data_home, "adbench", f"{name}.npz")) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"]
    names = [f"x{i}" for i in range(X.shape[1])]
    return as_bunch(X, y, return_X_y=return_X_y, feature_names=names, as_frame=as_frame)


def load_leaves100(
    view: str = "shape",
    *,
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the leaves of 100 species of plants, 16 of each.

    Reads ``leaves100/data_Sha_64.txt`` (or ``Mar``, ``Tex``): the species, then 64 numbers.

    Parameters
    ----------
    view : {"shape", "margin", "texture"}, default="shape"
        What the 64 features describe. The texture of one leaf is missing: 1 599 rows instead
        of 1 600.
    data_home, return_X_y, as_frame
        As in :func:`load_pmlb`.

    Returns
    -------
    data : Bunch or tuple
        With `data` (1600, 64) float64, `target` (1600,) strings, `feature_names` ("shape0",
        "shape1", ...) and `frame` (None without `as_frame`).

    Raises
    ------
    ValueError
        If there is no such view.
    FileNotFoundError
        If the file is not there; the message says where it was looked for.

    See Also
    --------
    load_pmlb : Other tables.

    Examples
    --------
    >>> from sktopk.datasets import load_leaves100
    >>> leaves = load_leaves100(data_home="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: leaves100/data_Sha_64.txt is not in nowhere: data_home, ...
    """
    check_option(view, "view", tuple(VIEWS))
    path = data_file(data_home, "leaves100", f"data_{VIEWS[view]}_64.txt")
    table = pd.read_csv(path, header=None)
    X = table.iloc[:, 1:].to_numpy()
    names = [f"{view}{i}" for i in range(X.shape[1])]
    y = table[0].to_numpy(dtype=str)
    return as_bunch(X, y, return_X_y=return_X_y, feature_names=names, as_frame=as_frame)


def load_merck_cyp3a4(
    subset: str = "train",
    *,
    assay: str = "3A4",
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load molecules as counts of substructures, with their activity on an enzyme.

    Reads ``merck_cyp3a4/merck_cyp.npz``: 4 652 molecules to train on and 1 542 to test,
    9 491 sparse counts, 3.5 % of them not zero. On CYP 3A4 11 % have an activity above 5.5.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Which molecules.
    assay : {"3A4", "2C9", "2D6"}, default="3A4"
        The enzyme, a cytochrome P450.
    data_home, return_X_y
        As in :func:`load_pmlb`.

    Returns
    -------
    data : Bunch or tuple
        With `data` (n_samples, 9491) CSR matrix of float32, `target` (n_samples,) the activity
        (pIC50: minus the decadic logarithm of a concentration in mol/l), float64, and
        `feature_names`.

    Raises
    ------
    ValueError
        If there is no such subset or assay.
    FileNotFoundError
        If the file is not there; the message says where it was looked for.

    See Also
    --------
    sktopk.metrics.mean_value_at_k_score : Judges a ranking by the activity itself.

    Examples
    --------
    >>> from sktopk.datasets import load_merck_cyp3a4
    >>> molecules = load_merck_cyp3a4(data_home="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: merck_cyp3a4/merck_cyp.npz is not in nowhere: data_home, ...
    """
    check_option(subset, "subset", SUBSETS)
    check_option(assay, "assay", ASSAYS)
    with np.load(data_file(data_home, "merck_cyp3a4", "merck_cyp.npz")) as arrays:
        names = arrays["feature"]
        data, indices, indptr = (arrays[f"{subset}_{x}"] for x in ("data", "indices", "indptr"))
        y = arrays[f"{subset}_Act_{assay}"].astype(np.float64)
    shape = len(indptr) - 1, len(names)
    X = csr_matrix((data.astype(np.float32), indices.astype(np.int32), indptr), shape)
    return (X, y) if return_X_y else as_bunch(X, y, return_X_y=False, feature_names=names)
