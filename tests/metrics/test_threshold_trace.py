from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.callbacks import TrueThreshold
from sktopk.metrics import ThresholdTraceDisplay
from sktopk.modules import MLP


@pytest.fixture(scope="module")
def data():
    return make_classification(320, weights=[0.9], flip_y=0.05, random_state=0)


def fit(data, cls=DeepTopPushClassifier, **params):
    defaults = {"module": MLP, "batch_size": 32, "max_epochs": 3, "callbacks": [TrueThreshold()]}
    return cls(random_state=0, **defaults | params).fit(*data)


@pytest.fixture
def recorded():
    """An object that is no estimator, of three epochs with 2, 3 and 1 steps."""
    history = [
        {"threshold": np.array([1.0, 2.0]), "true_threshold": np.array([2.0, 3.0])},
        {"threshold": np.array([3.0, 4.0, 5.0])},
        {"threshold": np.array([6.0]), "true_threshold": np.array([7.0])},
    ]
    return SimpleNamespace(history_=history)


@pytest.mark.parametrize(
    ("epoch", "step", "threshold", "true"),
    [
        (1, [1, 2], [1, 2], [2, 3]),
        (2, [3, 4, 5], [3, 4, 5], None),
        (3, [6], [6], [7]),
        ((2, 3), [3, 4, 5, 6], [3, 4, 5, 6], [np.nan, np.nan, np.nan, 7]),
        ([np.int64(1), 2], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [2, 3] + 3 * [np.nan]),
        (None, range(1, 7), range(1, 7), [2, 3, np.nan, np.nan, np.nan, 7]),
    ],
)
def test_steps_of_the_epochs_asked_for(recorded, epoch, step, threshold, true):
    display = ThresholdTraceDisplay.from_estimator(recorded, epoch=epoch)
    np.testing.assert_array_equal(display.step, step)
    np.testing.assert_array_equal(display.threshold, threshold)
    if true is None:
        assert display.true_threshold is None
        assert display.true_line_ is None
    else:
        np.testing.assert_array_equal(display.true_threshold, true)


def test_draws_what_it_holds():
    display = ThresholdTraceDisplay([4, 5], [0.5, 0.7], true_threshold=[0.6, 0.8], name="mine")
    assert display.plot() is display
    np.testing.assert_array_equal(display.line_.get_xydata(), [[4, 0.5], [5, 0.7]])
    np.testing.assert_array_equal(display.true_line_.get_xydata(), [[4, 0.6], [5, 0.8]])
    assert display.true_line_.get_color() == display.line_.get_color()
    assert display.true_line_.get_linestyle() != display.line_.get_linestyle()
    assert display.figure_ is display.ax_.figure
    ticks = display.ax_.get_xticks()
    np.testing.assert_array_equal(ticks, ticks.round())


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        *((epoch, ValueError) for epoch in (0, 4, (2, 1), (2, 4))),
        *((epoch, TypeError) for epoch in (1.0, True, (1, 2, 3))),
    ],
)
def test_epochs_that_are_not_there_are_refused(recorded, epoch, error):
    with pytest.raises(error, match=r"epoch must be .* got "):
        ThresholdTraceDisplay.from_estimator(recorded, epoch=epoch)


@pytest.mark.parametrize("log_loss_share", [0, 0.8, 1])
def test_all_epochs_have_thresholds(data, log_loss_share):
    clf = fit(data, log_loss_share=log_loss_share)
    display = ThresholdTraceDisplay.from_estimator(clf)
    assert len(display.threshold) == sum(row["train_batch_count"] for row in clf.history_)


MISSING = [
    (LogisticRegression(), "LogisticRegression, which has no history_"),
    (TopKClassifier(k=1, max_epochs=1), "TopKClassifier, which has no 'threshold'"),
    (make_pipeline(StandardScaler(), LogisticRegression()), "Pipeline, which"),
    (SimpleNamespace(), "SimpleNamespace, which has no history_"),
    (SimpleNamespace(history_=[]), "SimpleNamespace, which has no 'threshold'"),
]


@pytest.mark.parametrize(("estimator", "message"), MISSING, ids=lambda value: type(value).__name__)
def test_estimators_without_thresholds_are_refused(data, estimator, message):
    if hasattr(estimator, "fit"):
        estimator.fit(*data)
    with pytest.raises(TypeError, match=rf"DeepTopPushClassifier; got {message}"):
        ThresholdTraceDisplay.from_estimator(estimator)


def test_many_steps_are_smoothed_over_the_band_of_all_of_them():
    step = np.arange(1, 301)
    rng = np.random.default_rng(0)
    noisy, true = rng.normal(size=300), rng.normal(size=300)
    display = ThresholdTraceDisplay(step, noisy, true_threshold=true).plot()
    np.testing.assert_array_equal(display.line_.get_xdata(), step)
    # A mean is over a fiftieth of the steps: two before, the step itself and three after.
    for line, values in ((display.line_, noisy), (display.true_line_, true)):
        smooth = line.get_ydata()
        for i in (2, 100, 296):
            assert smooth[i] == pytest.approx(np.mean(values[i - 2 : i + 4]))
        assert smooth[0] == pytest.approx(np.mean([values[0]] * 2 + [*values[:4]]))
    (band,) = display.band_.get_paths()
    assert band.vertices[:, 1].min() == noisy.min()
    assert band.vertices[:, 1].max() == noisy.max()
    assert not display.line_.get_marker()
    few = ThresholdTraceDisplay(step[:99], noisy[:99]).plot()
    np.testing.assert_array_equal(few.line_.get_ydata(), noisy[:99])
    assert few.band_ is None
