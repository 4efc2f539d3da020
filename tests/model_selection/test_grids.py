"""What each loss may try."""

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.model_selection._grids import candidates_of


@pytest.mark.parametrize(
    ("loss", "own"), [("smooth_topk", "tau"), ("noised_topk", "sigma"), ("focal", "loss__gamma")]
)
def test_every_loss_has_as_many_settings(loss, own):
    estimators = {
        "cross_entropy": make_pipeline(StandardScaler(), TopKClassifier("cross_entropy")),
        loss: make_pipeline(StandardScaler(), TopKClassifier(loss)),
        "push": make_pipeline(StandardScaler(), DeepTopPushClassifier()),
        "plain": LogisticRegression(),
    }
    found = candidates_of(estimators, "default")
    assert {name: len(each) for name, each in found.items()} == {
        "cross_entropy": 4,
        loss: 4,
        "push": 4,
        "plain": 1,
    }
    assert {frozenset(each) for each in found[loss]} == {
        frozenset({"topkclassifier__learning_rate", f"topkclassifier__{own}"})
    }
    assert len({tuple(each.values()) for each in found[loss]}) == 4
    with pytest.raises(ValueError, match="as many settings"):
        candidates_of(estimators, {loss: {"topkclassifier__tau": [1.0, 2.0]}})
    with pytest.raises(ValueError, match="must name parameters"):
        candidates_of(estimators, {loss: {"tau": [1.0, 2.0, 3.0, 4.0]}})
