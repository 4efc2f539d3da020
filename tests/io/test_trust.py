"""What `load` reads without `trusted`, and what `dump` says about the rest."""

import inspect

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
)
from torch import nn

from sktopk import RecallAtKClassifier, TopBoostClassifier, TopKClassifier, losses, make_pipeline
from sktopk.io import dump, load
from sktopk.metrics import make_top_scorer, make_topk_scorer

pytest.importorskip("skops")
SMALL = {"hidden_layer_sizes": (4,), "n_estimators": 1, "max_epochs": 2, "random_state": 0}
LABELS, RANKER = TopKClassifier(k=2, **SMALL), RecallAtKClassifier(k=50, **SMALL)
LINEAR = LogisticRegression()
TWO = [("net", RANKER), ("linear", LINEAR)]
TAUS = {"tau": [0.1, 1.0]}
FITTED = {
    "search": (GridSearchCV(LABELS, TAUS, cv=2), "iris"),
    "search with a score": (GridSearchCV(LABELS, TAUS, cv=KFold(2), scoring="accuracy"), "iris"),
    "search with a loss": (
        RandomizedSearchCV(
            LABELS, TAUS, n_iter=2, cv=StratifiedShuffleSplit(2), scoring="neg_log_loss"
        ),
        "iris",
    ),
    "search with our score": (
        GridSearchCV(LABELS, TAUS, cv=2, scoring=make_topk_scorer(2)),
        "iris",
    ),
    "search for the top": (
        GridSearchCV(RANKER, {"k": [9, 50]}, cv=2, scoring=make_top_scorer("recall_at_k", k=9)),
        "cancer",
    ),
    "several scores": (
        GridSearchCV(
            RANKER, {"k": [9, 50]}, cv=2, scoring=["average_precision", "roc_auc"], refit="roc_auc"
        ),
        "cancer",
    ),
    "sigmoid": (CalibratedClassifierCV(RANKER, cv=2), "cancer"),
    "isotonic": (CalibratedClassifierCV(RANKER, cv=2, method="isotonic"), "cancer"),
    "voting": (VotingClassifier([("net", LABELS), ("linear", LINEAR)], voting="soft"), "iris"),
    "stacking": (StackingClassifier(TWO, cv=2), "cancer"),
    "threshold": (
        TunedThresholdClassifierCV(RANKER, cv=2, response_method="decision_function"),
        "cancer",
    ),
    "device": (clone(LABELS).set_params(device=torch.device("cpu")), "iris"),
}


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_estimator_is_loaded_without_trust(name, path, request):
    estimator, (X, y) = clone(FITTED[name][0]), request.getfixturevalue(FITTED[name][1])
    estimator.fit(X, y)
    loaded = load(dump(estimator, path))
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))
    if hasattr(estimator, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(X), estimator.predict_proba(X))


GIVEN = {
    "k": 2,
    "class_counts": torch.tensor([50.0, 30.0, 20.0]),
    "tau": 0.25,
    "recall": 0.5,
    "fpr": 0.1,
    "precision": 0.5,
    "threshold": losses.TopMean("negatives", k=2),
}
MODULES = [
    name
    for name in losses.__all__
    if inspect.isclass(getattr(losses, name)) and issubclass(getattr(losses, name), nn.Module)
]


def made(name):
    """A loss with the least parameters."""
    kind = getattr(losses, name)
    needed = inspect.signature(kind).parameters.values()
    return kind(**{p.name: GIVEN[p.name] for p in needed if p.default is p.empty})


# LinearProgramLoss takes a function of the user.
@pytest.mark.parametrize("name", [name for name in MODULES if name != "LinearProgramLoss"])
def test_every_loss_is_loaded_without_trust(name, path):
    loss = made(name)
    loaded = load(dump(TopKClassifier(loss=loss, k=1), path)).loss
    assert repr(loaded) == repr(loss)
    state = loss.state_dict()
    assert loaded.state_dict().keys() == state.keys()
    for key, value in loaded.state_dict().items():
        torch.testing.assert_close(value, state[key], rtol=0, atol=0)


def test_a_function_of_losses_is_loaded_without_trust(path):
    pytest.importorskip("lightgbm")
    loaded = load(dump(TopBoostClassifier(losses.top_push_loss), path))
    assert loaded.loss is losses.top_push_loss


class Mine(nn.Linear):
    """A network of one's own."""


class OldRanker(TopKClassifier):
    """An estimator of one's own."""


UNTRUSTED = {
    "network": (TopKClassifier(module=Mine), f"{__name__}.Mine", [Mine]),
    "estimator": (make_pipeline(OldRanker()), f"{__name__}.OldRanker", [OldRanker]),
    "loss of torch": (
        TopKClassifier(loss=nn.CrossEntropyLoss()),
        "torch.nn.modules.loss.CrossEntropyLoss",
        ["torch.nn.modules.loss.CrossEntropyLoss"],
    ),
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_dump_says_what_load_will_ask_for(name, path):
    estimator, full_name, trusted = UNTRUSTED[name]
    with pytest.warns(
        UserWarning, match=rf"does not trust .*load\(path, trusted=\['{full_name}'\]\)"
    ):
        dump(estimator, path)
    with pytest.raises(ValueError, match=full_name):
        load(path)
    assert type(load(path, trusted=trusted)) is type(estimator)


def test_dump_of_trusted_types_warns_of_nothing(path, recwarn):
    dump(make_pipeline(GridSearchCV(LABELS, TAUS)), path)
    assert list(recwarn) == []


@pytest.mark.parametrize(
    "name",
    [
        f"{losses.SmoothTopKLoss.__module__}.check_k",
        "sklearn.metrics._scorer.get_scorer",
        "sktopk.losses.os.system",
    ],
)
def test_what_only_looks_public_is_not_trusted(name, path, monkeypatch):
    # A function of a private module, of another kind, and of no module.
    def another():
        """Somebody's function."""

    another.__module__, _, another.__name__ = name.rpartition(".")
    monkeypatch.setattr(TopKClassifier, "__init__", lambda self, loss=None: None)
    clf = TopKClassifier()
    clf.loss = another
    with pytest.warns(UserWarning, match=name.rpartition(".")[2]):
        dump(clf, path)
