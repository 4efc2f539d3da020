"""Names of the types that `load` trusts, in addition to the types that skops trusts."""

import sktopk

_ESTIMATORS = tuple(
    f"sktopk.{name}" for name in sktopk.__all__ if name == "Pipeline" or name.endswith("Classifier")
)
# Other classes of this package that a saved estimator can contain.
_PARTS = (
    "sktopk._common._categories.Categories",
    "sktopk._estimators.decisions._any_classifier.GivenScores",
    "sktopk._estimators.decisions._conformal.Conformity",
    "sktopk._estimators.decisions._guarantees.Rate",
    "sktopk.losses._thresholds.KthLargest",
    "sktopk.losses._thresholds.SurrogateQuantile",
    "sktopk.losses._thresholds.TopMean",
    "sktopk.metrics._scorer.TopKScorer",
    "sktopk.metrics._top_scorer.TopScorer",
    "sktopk.modules._mlp.MLP",
    "sktopk.modules._tabular_mlp.TabularMLP",
)
# Types of scikit-learn parameters. In Python 3.13, the path types are in pathlib._local.
_PLAIN = (
    "numpy.dtype",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.WindowsPath",
)
TRUSTED = _ESTIMATORS + _PARTS + _PLAIN
