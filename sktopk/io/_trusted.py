"""Names of the types that `load` trusts, in addition to the types that skops trusts."""

from importlib import import_module

import sktopk

_ESTIMATORS = tuple(
    f"sktopk.{name}" for name in sktopk.__all__ if name == "Pipeline" or name.endswith("Classifier")
)
# Other classes of this package that a saved estimator can contain.
_PARTS = (
    "sktopk._common._frames.Categories",
    "sktopk._estimators.decisions._any_classifier.GivenScores",
    "sktopk._estimators.decisions._conformal.Conformity",
    "sktopk._estimators.decisions._guarantees.Rate",
    "sktopk.callbacks.TrueThreshold",
    "sktopk.metrics._scorer.TopKScorer",
    "sktopk.metrics._top_scorer.TopScorer",
)
# Types in fitted searches, calibrated classifiers, and voting and stacking ensembles.
_OF_SKLEARN = (
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._MultimetricScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)
# Types of parameters. In Python 3.13, the path types are in pathlib._local.
CONSTRUCTED = (
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.WindowsPath",
    "torch.device",
)
_TRUSTED = {*_ESTIMATORS, *_PARTS, *_OF_SKLEARN, *CONSTRUCTED, "numpy.dtype"}
# Modules whose public names are trusted, and the endings of these names.
_PUBLIC = {
    "sktopk.losses": "",
    "sktopk.modules": "",
    "sklearn.metrics": ("_score", "_loss", "_error"),
    "sklearn.model_selection": ("Fold", "Split", "Out"),
}


def trusted_among(names):
    """Return the trusted names among full names of types. No module of the names is imported."""
    return {name for name in names if name in _TRUSTED or _is_public(name)}


def _is_public(name):
    for module, endings in _PUBLIC.items():
        own = name.rpartition(".")[2]
        if name.startswith(f"{module}.") and own.endswith(endings):
            public = import_module(module)
            found = getattr(public, own, None) if own in public.__all__ else None
            return f"{getattr(found, '__module__', None)}.{own}" == name
    return False
