"""Short texts in a data folder."""

import json
import os
from typing import Any

import numpy as np

from sktopk._common._scalars import check_option

from ._folders import SUBSETS, as_bunch, data_file

TREC_FILES = {"train": "train_5500.label", "test": "TREC_10.label"}


def load_clinc150(
    subset: str = "train",
    *,
    version: str = "full",
    data_home: str | os.PathLike | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load requests to an assistant: 150 intents, 15 in each of 10 domains.

    Reads ``clinc150/data_full.json`` (or ``data_imbalanced.json``) and ``domains.json``.

    Parameters
    ----------
    subset : {"train", "test", "val"}, default="train"
        15 000, 4 500 or 3 000 texts, equally many of each intent.
    version : {"full", "imbalanced"}, default="full"
        With "imbalanced", the training set has 10 525 texts, 100 to 25 of each intent.
    data_home, return_X_y
        As in :func:`load_pmlb`.

    Returns
    -------
    data : Bunch or tuple
        With `data`, a list of texts, `target` (n_samples,) intents as strings, `target_names`
        and `groups`, a dict from intent to domain.

    Raises
    ------
    ValueError
        If there is no such subset or version.
    FileNotFoundError
        If a file is not there; the message says where it was looked for.

    See Also
    --------
    inject_label_noise : Takes the `groups`.

    Examples
    --------
    >>> from sktopk.datasets import load_clinc150
    >>> requests = load_clinc150(data_home="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: clinc150/data_full.json is not in nowhere: data_home, ...
    """
    check_option(subset, "subset", (*SUBSETS, "val"))
    check_option(version, "version", ("full", "imbalanced"))
    rows = json.loads(data_file(data_home, "clinc150", f"data_{version}.json").read_text("utf-8"))
    domains = json.loads(data_file(data_home, "clinc150", "domains.json").read_text("utf-8"))
    groups = {intent: domain for domain, intents in domains.items() for intent in intents}
    texts, labels = zip(*rows[subset], strict=True)
    return _texts(texts, labels, return_X_y, groups=groups)


def load_trec(
    subset: str = "train", *, data_home: str | os.PathLike | None = None, return_X_y: bool = False
) -> Any:
    """Load questions and what they ask for: 50 classes in 6 coarse ones, with a long tail.

    Reads ``trec/train_5500.label`` or ``trec/TREC_10.label``: a line per question, the coarse
    and the fine class before it, as in ``LOC:city``.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        5 452 questions, 962 to 4 of a class, or 500.
    data_home, return_X_y
        As in :func:`load_pmlb`.

    Returns
    -------
    data : Bunch or tuple
        With `data`, a list of texts, `target` (n_samples,) classes as strings, `target_names`
        and `groups`, a dict from class to coarse class.

    Raises
    ------
    ValueError
        If there is no such subset.
    FileNotFoundError
        If the file is not there; the message says where it was looked for.

    See Also
    --------
    load_clinc150 : More texts, more classes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sktopk.datasets import load_trec
    >>> with tempfile.TemporaryDirectory() as home:
    ...     folder = pathlib.Path(home, "trec")
    ...     folder.mkdir()
    ...     written = (folder / "TREC_10.label").write_text("LOC:city Where is it ?\\n")
    ...     questions = load_trec("test", data_home=home)
    >>> questions.data, questions.target, questions.groups
    (['Where is it ?'], array(['LOC:city'], dtype='<U8'), {'LOC:city': 'LOC'})
    """
    check_option(subset, "subset", SUBSETS)
    path = data_file(data_home, "trec", TREC_FILES[subset])
    lines = path.read_text(encoding="latin-1").splitlines()
    labels, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    groups = {label: label.split(":")[0] for label in sorted(set(labels))}
    return _texts(texts, labels, return_X_y, groups=groups)


def _texts(texts, labels, return_X_y, **more):
    target = np.array(labels, dtype=str)
    names = np.unique(target).tolist()
    return as_bunch(list(texts), target, return_X_y=return_X_y, target_names=names, **more)
