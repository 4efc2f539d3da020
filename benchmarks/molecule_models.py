"""The models that molecules.py searches over, and the changes it makes of them one at a time."""

from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import make_top_scorer

HIDDEN = (50, 25)
BATCH_NORM = {"module__batch_norm": True}
# The first one selects. The share above every negative hangs on one molecule of a fold; the
# partial area averages over how many negatives may come before.
SCORING = {
    "partial AUC, log": make_top_scorer("partial_auc_log"),
    "above every negative": make_top_scorer("positives_at_top"),
    "EF 5 %": make_top_scorer("enrichment_factor", fraction=0.05),
}


class SigmoidNetwork(nn.Sequential):
    """The network of the published code: a sigmoid before and after each batch normalisation."""

    def __init__(self, n_features, n_outputs):
        layers = []
        for n_in, n_out in zip((n_features, *HIDDEN[:-1]), HIDDEN, strict=True):
            layers += [nn.Linear(n_in, n_out), nn.Sigmoid(), nn.BatchNorm1d(n_out), nn.Sigmoid()]
        super().__init__(*layers, nn.Linear(HIDDEN[-1], n_outputs))


def cross_entropy(class_weight):
    return TopKClassifier(
        "cross_entropy",
        k=1,
        class_weight=class_weight,
        hidden_layer_sizes=HIDDEN,
        net_params=BATCH_NORM,
    )


# By name: the classifier, and what is searched.
CROSS_ENTROPY_GRID = {
    "learning_rate": [1e-3, 3e-3],
    "max_epochs": [12, 25, 50],
    "module__dropout": [0.0, 0.3],
}
MODELS = {
    "DeepTopPush": (
        DeepTopPushClassifier(hidden_layer_sizes=HIDDEN, net_params=BATCH_NORM, max_epochs=50),
        {
            "learning_rate": [3e-4, 1e-3, 3e-3],
            "surrogate": ["quadratic", "hinge", "logistic"],
            "buffer_size": [0, 1, 8],
        },
    ),
    "weighted cross-entropy": (cross_entropy("balanced"), CROSS_ENTROPY_GRID),
    "cross-entropy": (cross_entropy(None), CROSS_ENTROPY_GRID),
    "logistic regression": (
        LogisticRegression(max_iter=2000),
        {"C": [1e-3, 1e-2, 0.1, 1.0], "class_weight": [None, "balanced"]},
    ),
    "random forest": (RandomForestClassifier(300), {"min_samples_leaf": [1, 3]}),
    "gradient boosting": (HistGradientBoostingClassifier(), {"learning_rate": [0.03, 0.1]}),
}
DEFAULTS = {
    "DeepTopPush, defaults": DeepTopPushClassifier(),
    "cross-entropy, defaults": TopKClassifier("cross_entropy", k=1),
    "logistic regression, defaults": LogisticRegression(max_iter=2000),
}
# One change at a time of what the search selected: of the classifier, of the steps before it.
CHANGES = {
    "none": ({}, {}),
    "batch_size=32, max_epochs=25": ({"batch_size": 32, "max_epochs": 25}, {}),
    "batch_size=512, max_epochs=100": ({"batch_size": 512, "max_epochs": 100}, {}),
    "max_epochs=20": ({"max_epochs": 20}, {}),
    "max_epochs=100": ({"max_epochs": 100}, {}),
    "weight_decay=0.01": ({"weight_decay": 0.01}, {}),
    "weight_decay=0.1": ({"weight_decay": 0.1}, {}),
    "score_scale=0.1": ({"score_scale": 0.1}, {}),
    "score_scale=10": ({"score_scale": 10.0}, {}),
    "min_positives=64": ({"min_positives": 64}, {}),
    "dropout=0.3": ({"module__dropout": 0.3}, {}),
    "no batch normalisation": ({"module__batch_norm": False}, {}),
    "sigmoids, as published": ({"module": SigmoidNetwork, "net_params": None}, {}),
    "linear": ({"hidden_layer_sizes": (), "net_params": None}, {}),
    "early_stopping=True": (
        {
            "early_stopping": True,
            "scoring": SCORING["partial AUC, log"],
            "n_iter_no_change": 30,
            "max_epochs": 100,
        },
        {},
    ),
    "components not standardised": ({}, {"standardise": False}),
    "counts without logarithm": ({}, {"log": False}),
    "PCA": ({}, {"reduction": PCA}),
}
# Changes that let the network fit less.
HELD_BACK = ("dropout=0.3", "linear")
# One change at a time of the defaults.
DEFAULT_CHANGES = {
    "defaults": {},
    "learning_rate=3e-4": {"learning_rate": 3e-4},
    "learning_rate=3e-3": {"learning_rate": 3e-3},
    "learning_rate=1e-2": {"learning_rate": 1e-2},
    "score_scale=0.1": {"score_scale": 0.1},
    "score_scale=10": {"score_scale": 10.0},
    "batch_size=32": {"batch_size": 32},
    "batch_size=512": {"batch_size": 512},
    "max_epochs=50": {"max_epochs": 50},
    "buffer_size=0": {"buffer_size": 0},
    'surrogate="hinge"': {"surrogate": "hinge"},
}
