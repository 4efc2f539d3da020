"""Pickles and files of another version of sktopk give warnings or errors that name the version."""

import json
import pickle
import zipfile

import numpy as np
import pytest
import torch
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.linear_model import LogisticRegression

import sktopk
from sktopk import BudgetClassifier, SetClassifier, TopBoostClassifier, TopKClassifier
from sktopk.io import dump, load
from tests.crashing import X, Y, crashing, quick
from tests.io.archives import rewritten

ESTIMATORS = {
    "network": TopKClassifier(),
    "boosting": TopBoostClassifier(),
    "budget": BudgetClassifier(LogisticRegression()),
    "sets": SetClassifier(LogisticRegression()),
    "pipeline": sktopk.make_pipeline(LogisticRegression()),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_pickle_of_another_version_warns(name, recwarn):
    estimator = ESTIMATORS[name]
    assert str(pickle.loads(pickle.dumps(estimator))) == str(estimator)
    assert list(recwarn) == []
    old = pickle.dumps(estimator, protocol=0).replace(sktopk.__version__.encode(), b"0.1.9")
    match = rf"{type(estimator).__name__} of sktopk from version 0\.1\.9 when using version "
    with pytest.warns(InconsistentVersionWarning, match=match + sktopk.__version__):
        loaded = pickle.loads(old)
    assert str(loaded) == str(estimator)
    assert vars(loaded).keys() == vars(estimator).keys()


def test_a_state_without_a_version_warns():
    state = TopKClassifier().__getstate__()
    state.pop("_sktopk_version")
    with pytest.warns(InconsistentVersionWarning, match="from version before 0.3.0"):
        TopKClassifier().__setstate__(state)


@pytest.fixture
def old(tmp_path):
    pytest.importorskip("skops")
    return dump(quick().set_params(callbacks=None).fit(X, Y), tmp_path / "old")


def test_a_file_carries_its_versions_and_another_format_raises_an_error_with_the_version(old):
    with zipfile.ZipFile(old) as archive:
        found = json.loads(archive.read("sktopk.json"))
    assert found == {"format": 1, "sktopk": sktopk.__version__}
    versions = json.dumps({"format": 2, "sktopk": "9.0"}).encode()
    rewritten(old, lambda members: members.update({"sktopk.json": versions}))
    with pytest.raises(ValueError, match=r"format must be 1; got 2.* by sktopk 9\.0; this is"):
        load(old)


@pytest.mark.parametrize("version", ["0.1.9", None])
def test_an_unreadable_file_of_another_version_raises_an_error_with_the_version(version, old):
    def change(members):
        members["schema.json"] = members["schema.json"].replace(b'"dtypes"', b'"kinds"')
        members["sktopk.json"] = json.dumps({"format": 1, "sktopk": version}).encode()
        if version is None:
            del members["sktopk.json"]

    rewritten(old, change)
    writer = "sktopk 0.1.9" if version else "another program or an old sktopk"
    match = f"net_ must be the state of a network.*{writer}; this is sktopk {sktopk.__version__}"
    with pytest.raises(ValueError, match=match):
        load(old)


@pytest.mark.parametrize("of_format", [None, 1])
def test_a_checkpoint_of_other_versions_or_another_format_raises(of_format, tmp_path, monkeypatch):
    path = tmp_path / "file"
    with crashing(after=2):
        quick().fit(X, Y, checkpoint=path)
    with monkeypatch.context() as patched:
        patched.setattr(np, "__version__", "9.0")
        with pytest.raises(ValueError, match="with other versions"):
            quick().fit(X, Y, checkpoint=path)
    state = torch.load(path, weights_only=True)
    assert state["sktopk"] == sktopk.__version__
    state |= {"format": of_format, "sktopk": "9.0"}
    if of_format is None:
        del state["format"], state["sktopk"]
    torch.save(state, path)
    writer = r"9\.0" if of_format else "of an older version"
    with pytest.raises(ValueError, match=f"has the format of sktopk {writer}, not of"):
        quick().fit(X, Y, checkpoint=path)
