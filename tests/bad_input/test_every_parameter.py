"""Whatever a parameter is set to, an estimator trains or says which parameter is not allowed."""

import contextlib
import io
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from skorch.callbacks import Callback, EpochScoring

import sktopk
from tests.bad_input.refusals import DECISIONS, NETS, X, labels, make

VALUES = {
    "a fraction": Fraction(1, 3),
    "a decimal": Decimal("0.3"),
    "a huge integer": 10**30,
    "beyond all floats": 10**400,
    "beyond float32": 1e308,
    "large": 1e30,
    "tiny": 1e-320,
    "zero": 0,
    "negative": -1,
    "a negative fraction": -0.5,
    "NaN": np.nan,
    "infinity": np.inf,
    "complex": 1j,
    "float32": np.float32(0.5),
    "int8": np.int8(3),
    "None": None,
    "True": True,
    "a word": "nonsense",
    "no letters": "",
    "bytes": b"a",
    "a list": [1, 2],
    "an empty list": [],
    "a dict": {"a": 1},
    "a set": {1, 2},
    "an array of none": np.array(1.5),
    "an array of one": np.array([1.0]),
    "an array of weights": np.ones(4),
    "an array of objects": np.array([None, 1], dtype=object),
    "a table": np.ones((2, 2)),
    "a tensor": torch.tensor(0.5),
    "a tensor with a gradient": torch.ones(3, requires_grad=True),
    "a class of estimators": LogisticRegression,
    "a class of callbacks": EpochScoring,
    "a function of one": lambda n: torch.nn.Linear(n, 4),
    "an object": object(),
    "a slice": slice(3),
}
TREES, VOTE = "TopBoostClassifier", "TopVotingClassifier"
OTHERS = (*DECISIONS, TREES, VOTE)
NAMES = (*NETS, "PrecisionAtRecallProgramClassifier", "ThresholdClassifier", *OTHERS)
# What all with a network share is asked of two of them.
SHARED = sktopk.TopKClassifier().get_params().keys() & sktopk.AUCClassifier().get_params().keys()
ASKED_ALL = ("TopKClassifier", "DeepTopPushClassifier", *OTHERS)


class OneEpoch(Callback):
    """Whatever `max_epochs` says."""

    def on_epoch_end(self, net, **kwargs):
        raise KeyboardInterrupt


def build(name):
    if name in DECISIONS:
        return make(name)
    if name == TREES:
        return sktopk.TopBoostClassifier(n_estimators=1, n_members=2)
    if name == VOTE:
        network = sktopk.TopKClassifier(max_epochs=1, warm_up=1, n_members=2, device="cpu")
        return sktopk.TopVotingClassifier(network, [LogisticRegression()], n_folds=2)
    if name not in NETS:
        params = {"max_epochs": 1, "hidden_layer_sizes": (), "device": "cpu"}
        more = {"threshold": sktopk.losses.KthLargest("negatives", k=1)}
        wanted = more if name == "ThresholdClassifier" else {}
        return getattr(sktopk, name)(**params, **wanted, callbacks=[OneEpoch()])
    return make(name, callbacks=[OneEpoch()])


def concerned(name):
    """The parameters to ask about."""
    parameters = build(name).get_params(deep=False)
    return parameters if name in ASKED_ALL else parameters.keys() - SHARED


def outcome(name, parameter, value):
    """The refusal, or None and scores or sets that are finite."""
    estimator = build(name).set_params(**{parameter: value})
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            estimator.fit(X, labels(name))
        except (ValueError, TypeError, OSError) as error:
            return str(error)
        if hasattr(estimator, "decision_function"):
            scores = estimator.decision_function(X)
            # A threshold that flags all or nothing is infinite.
            assert not np.isnan(scores).any(), (name, parameter, value)
        estimator.predict(X)
    return None


def test_all_estimators_are_asked():
    # Of a pipeline the parameters are scikit-learn's, and a monitor is no estimator.
    assert {*NAMES, "Monitor", "Pipeline", "make_pipeline"} == set(sktopk.__all__)


@pytest.mark.parametrize("case", VALUES)
def test_it_works_or_the_refusal_names_the_parameter(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some values are the names of files
    for name in NAMES:
        for parameter in concerned(name):
            if parameter == "compile" and VALUES[case] is True:
                continue  # allowed, and takes long
            said = outcome(name, parameter, VALUES[case])
            assert said is None or parameter in said, f"{name}({parameter}={case}): {said}"
