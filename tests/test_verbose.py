"""The progress bar of a fit, alone and inside a pipeline."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from sktopk import Pipeline, TopKClassifier

X, Y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 4


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_fit_shows_one_bar(in_pipeline, capsys):
    clf = TopKClassifier(k=2, n_estimators=2, max_epochs=3, verbose=1, random_state=0)
    if in_pipeline:
        clf = Pipeline([("scale", StandardScaler()), ("classify", clf)])
    clf.fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.split("\r")[-1]
    for text in ("Training: 100%", "3/3", "train_loss=", "valid_score="):
        assert text in last
    assert shown.err.count("\n") == 1


def test_verbose_0_shows_nothing_and_2_a_table(capsys):
    clf = TopKClassifier(k=2, n_estimators=2, max_epochs=2, random_state=0).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    clf.set_params(verbose=2).fit(X, Y)
    assert "train_loss" in capsys.readouterr().out


def test_the_bar_is_full_after_early_stopping(capsys):
    params = {"k": 2, "n_estimators": 2, "max_epochs": 90, "n_iter_no_change": 1}
    clf = TopKClassifier(verbose=1, random_state=0, **params).fit(X, Y)
    last = capsys.readouterr().err.split("\r")[-1]
    assert clf.n_iter_ < 90
    assert f"{clf.n_iter_}/{clf.n_iter_}" in last
