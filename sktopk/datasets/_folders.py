"""Where data files are looked for, and what is returned of them."""

import os
from pathlib import Path

import pandas as pd
from sklearn.utils import Bunch

SUBSETS = ("train", "test")
# Beside the folder one works in.
DEFAULT_HOME = Path("..", "shared", "data")


def data_file(data_home, *parts):
    """Return the path of a file in the data folder, or say where it was looked for."""
    home = Path(data_home or os.environ.get("SKTOPK_DATA") or DEFAULT_HOME)
    path = home.joinpath(*parts)
    if not path.is_file():
        raise FileNotFoundError(
            f"{'/'.join(parts)} is not in {home}: data_home, or the environment variable "
            "SKTOPK_DATA, must name the folder that has it"
        )
    return path


def as_bunch(X, y, *, return_X_y, feature_names=None, as_frame=False, target="target", **more):
    """Return what scikit-learn's loaders return: a Bunch, or ``(X, y)``; frames if asked."""
    frame = None
    if as_frame:
        X, y = pd.DataFrame(X, columns=feature_names), pd.Series(y, name=target)
        frame = pd.concat([X, y], axis=1)
    if return_X_y:
        return X, y
    if feature_names is not None:
        more = {"feature_names": list(feature_names), "frame": frame} | more
    return Bunch(data=X, target=y, **more)
