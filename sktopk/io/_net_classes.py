"""Networks, and what they are made of and trained with. Loads torch."""

import dataclasses

import sktopk
from sktopk import losses
from sktopk._estimators._net_classifier import NetClassifier
from sktopk.modules import MLP, TabularMLP

# LightGBM reads the text of its trees without checking it, and scikit-learn follows the nodes of
# its own without checking them: no file that may lie can bring any.
REFUSED = {
    sktopk.TopBoostClassifier: "LightGBM reads",
}
NETS = tuple(
    each
    for each in (getattr(sktopk, name) for name in sktopk.__all__)
    if isinstance(each, type) and issubclass(each, NetClassifier)
)
# What `module` may be: of others the code would have to come along.
MODULES = MLP, TabularMLP
# Thresholds and the like, which are parameters of estimators.
RECORDS = tuple(
    each
    for each in (getattr(losses, name) for name in losses.__all__)
    if isinstance(each, type) and dataclasses.is_dataclass(each)
)
