"""How far one has to walk to read what a first fit does, up to the first backward."""

import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import torch

import sktopk
from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.modules import MLP

ROOT = Path(sktopk.__file__).parent
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((300, 5)), RNG.integers(0, 4, 300)


class Reached(Exception):
    """The first backward."""


def walk(clf, y, monkeypatch):
    """The files of the package in the order in which their functions are called."""
    files = []

    def note(frame, event, arg):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(ROOT)):
            files.append(Path(path).relative_to(ROOT).as_posix())

    def backward(*args, **kwargs):
        sys.setprofile(None)
        raise Reached

    monkeypatch.setattr(torch.Tensor, "backward", backward)
    sys.setprofile(note)
    try:
        with pytest.raises(Reached):
            clf.fit(X, y)
    finally:
        sys.setprofile(None)
    return files


# What it was when a fit visited 23 files in 115 stays says docs/architecture.rst.
@pytest.mark.parametrize(
    ("clf", "y", "n_files", "n_stays", "loss"),
    [
        (TopKClassifier(k=2, module=MLP), Y, 14, 60, "losses/_smooth_topk.py"),
        (DeepTopPushClassifier(module=MLP), Y > 2, 15, 66, "losses/_top_push.py"),
        # With a network of its own, folds, a warm-up, and members, each of which walks alike.
        (TopKClassifier(k=2, n_members=2), Y, 24, 130, "modules/_tabular_mlp.py"),
        (DeepTopPushClassifier(n_members=2), Y > 2, 26, 144, "modules/_tabular_mlp.py"),
    ],
    ids=["TopKClassifier", "DeepTopPushClassifier", "default", "ranker"],
)
def test_a_first_fit_is_a_short_walk(clf, y, n_files, n_stays, loss, monkeypatch):
    files = walk(clf, y, monkeypatch)
    assert loss in files
    assert len(set(files)) <= n_files, sorted(set(files))
    assert len([*groupby(files)]) <= n_stays
