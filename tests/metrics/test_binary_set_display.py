"""Do the bars show which of its four sets each row got?"""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sktopk import SetClassifier
from sktopk.metrics import BinarySetDisplay, make_set_scorer, set_coverage_score

matplotlib = pytest.importorskip("matplotlib")
Y = np.array(["no"] * 4 + ["yes"] * 2)
SETS = np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 0], [0, 1]])
SHARE = [[0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.0, 0.5]]


@pytest.fixture(autouse=True)
def _close_figures():
    matplotlib.use("Agg")
    yield
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("make", [np.asarray, csr_array, lambda sets: sets == 1])
def test_shares_are_those_of_each_true_class(make):
    display = BinarySetDisplay.from_predictions(Y, make(SETS), labels=["no", "yes"])
    np.testing.assert_array_equal(display.share, SHARE)
    np.testing.assert_array_equal(
        [[bar.get_height() for bar in bars] for bars in display.bars_], np.transpose(SHARE)
    )


def test_weights_count_rows():
    weight = np.array([2, 0, 1, 1, 3, 1])
    display = BinarySetDisplay.from_predictions(Y, SETS, labels=["no", "yes"], sample_weight=weight)
    repeated = BinarySetDisplay.from_predictions(
        np.repeat(Y, weight), np.repeat(SETS, weight, axis=0), labels=["no", "yes"]
    )
    np.testing.assert_array_equal(display.share, repeated.share)


def test_bars_reach_their_coverage_with_the_sets_that_hold_the_label():
    display = BinarySetDisplay(SHARE, ["no", "yes"], target=0.7).plot()
    for own in range(2):
        parts = [(bars[own].get_y(), bars[own].get_height()) for bars in display.bars_]
        assert parts[own][0] == 0
        # Both on top of the label alone, none above, the wrong label at the end.
        assert parts[2][0] == parts[own][1]
        assert parts[3][0] == pytest.approx(parts[own][1] + parts[2][1])
        assert sum(parts[1 - own]) == pytest.approx(1)
    ticks = [each.get_text() for each in display.ax_.get_xticklabels()]
    assert ticks == ["no\n75.0% covered", "yes\n50.0% covered"]
    assert display.target_line_.get_ydata()[0] == 0.7
    names = [each.get_text() for each in display.ax_.get_legend().get_texts()]
    assert names == ["{no}", "{yes}", "both", "none", "Target 0.7"]


def test_class_without_rows_says_so():
    display = BinarySetDisplay.from_predictions(Y[:4], SETS[:4], labels=["no", "yes"])
    assert np.isnan(display.share[1]).all()
    assert display.ax_.get_xticklabels()[1].get_text() == "yes\nno row"
    assert display.target_line_ is None


def test_estimator_brings_its_sets_labels_and_target():
    X, y = make_classification(1200, weights=[0.8], random_state=0)
    groups = np.where(X[:, 0] > 0, "a", "b")
    for conditional, given in [("class", {}), ("group", {"groups": groups})]:
        clf = SetClassifier(LogisticRegression(), method="lac", conditional=conditional)
        clf.set_params(random_state=0).fit(X, y, **given)
        display = BinarySetDisplay.from_estimator(clf, X, y, **given, color="red")
        assert display.target == 0.9
        found = clf.predict_set(X, **given)
        share = BinarySetDisplay.from_predictions(y, found, labels=[0, 1]).share
        np.testing.assert_array_equal(display.share, share)
        covered = set_coverage_score(y, found, labels=[0, 1])
        assert make_set_scorer("coverage")(clf, X, y, **given) == covered
        assert covered == pytest.approx(
            np.average(share[[0, 1], [0, 1]] + share[:, 2], weights=np.bincount(y))
        )


def test_other_than_two_classes_are_refused():
    with pytest.raises(ValueError, match=r"a column for each of 2 classes; got 3\. SetSizeDisplay"):
        BinarySetDisplay.from_predictions([0], [[1, 0, 0]], labels=[0, 1, 2])
    with pytest.raises(
        ValueError, match=r"y_true must hold labels among \['no', 'yes'\]; got .*may"
    ):
        BinarySetDisplay.from_predictions(["may"], [[1, 0]], labels=["no", "yes"])
    with pytest.raises(TypeError, match="estimator must have predict_set"):
        BinarySetDisplay.from_estimator(LogisticRegression(), [[0]], [0])
