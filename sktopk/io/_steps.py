"""Steps of scikit-learn as skops writes them, read from an explicit list of classes alone."""

import io
import json
import math
import zipfile
from importlib import import_module

from numpy.lib import format as npy

from sktopk._common._extras import import_extra

# Preprocessing and linear models whose fitted state is arrays and plain values. Where they could
# hold a function (of FunctionTransformer, say), the file cannot.
STEPS = {
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.decomposition": (
        "FactorAnalysis",
        "FastICA",
        "IncrementalPCA",
        "NMF",
        "PCA",
        "TruncatedSVD",
    ),
    "sklearn.discriminant_analysis": (
        "LinearDiscriminantAnalysis",
        "QuadraticDiscriminantAnalysis",
    ),
    "sklearn.dummy": ("DummyClassifier",),
    "sklearn.feature_extraction": ("DictVectorizer", "FeatureHasher"),
    "sklearn.feature_extraction.text": (
        "CountVectorizer",
        "HashingVectorizer",
        "TfidfTransformer",
        "TfidfVectorizer",
    ),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.impute": ("KNNImputer", "MissingIndicator", "SimpleImputer"),
    "sklearn.kernel_approximation": ("Nystroem", "RBFSampler"),
    "sklearn.linear_model": ("LogisticRegression", "RidgeClassifier"),
    "sklearn.naive_bayes": ("BernoulliNB", "ComplementNB", "GaussianNB", "MultinomialNB"),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing": (
        "Binarizer",
        "FunctionTransformer",
        "KBinsDiscretizer",
        "LabelBinarizer",
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "PolynomialFeatures",
        "PowerTransformer",
        "QuantileTransformer",
        "RobustScaler",
        "StandardScaler",
        "TargetEncoder",
    ),
    "sklearn.random_projection": ("GaussianRandomProjection",),
    "sklearn.svm": ("LinearSVC",),
}
_NUMBERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
_NUMBERS += ["bool", "bool_", "float16", "float32", "float64", "str_", "object_"]
_TYPES = {f"builtins.{name}" for name in ("bool", "float", "int", "object", "str", "NoneType")}
_TYPES |= {f"numpy.{name}" for name in _NUMBERS}
# What each kind of node of a skops file may be; other kinds call functions, or could, or (a
# RandomState at a position beyond its end) read memory that is not theirs.
_NODES = {
    "CachedNode": None,
    "DTypeNode": {"numpy.dtype"},
    "DictNode": {"builtins.dict"},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "NdArrayNode": {"numpy.ndarray"} | {f"numpy.{name}" for name in _NUMBERS},
    "SetNode": {"builtins.set"},
    "SliceNode": {"builtins.slice"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": _TYPES,
}


def write_step(step, name):
    """Return a fitted object of scikit-learn as bytes, if it can be read again."""
    skops = import_extra("skops.io", "dump of scikit-learn's estimators", "io")
    try:
        data = skops.dumps(step)
        _check(data)
    except Exception as error:
        raise ValueError(
            f"{name}={type(step).__name__} cannot be kept in a file: {error}. See sktopk.io.STEPS; "
            "of a search, dump best_estimator_"
        ) from error
    return data


def read_step(data):
    """Return what `write_step` wrote, and nothing that is not in `STEPS`."""
    skops = import_extra("skops.io", "load of scikit-learn's estimators", "io")
    return skops.loads(data, trusted=sorted(_check(data)))


def _check(data):
    """Raise unless skops, given these bytes, makes objects in `STEPS` and plain values only.

    skops has its own list of what it trusts, longer than ours and different in each version, and
    reads archives that grow when they are unpacked.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("its steps are compressed")
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        if sum(sizes.values()) > len(data):
            raise ValueError("the parts of its steps overlap")
        schema = json.loads(archive.read("schema.json").decode())
        found = _Nodes(archive, sizes)
        found.check(schema)
        return found.names


class _Nodes:
    """The nodes of a skops archive, each of which has to be of an allowed kind and class."""

    def __init__(self, archive, sizes):
        self.archive, self.unread = archive, sizes
        self.names = set()
        self.steps = {
            f"{step.__module__}.{step.__qualname__}": step
            for module, names in STEPS.items()
            for step in (getattr(import_module(module), name) for name in names)
        }

    def check(self, value):
        """Check a node and all below it."""
        if isinstance(value, list):
            for item in value:
                self.check(item)
        elif isinstance(value, dict):
            if "__loader__" in value:
                self._check_node(value)
            for item in value.values():
                self.check(item)

    def _check_node(self, node):
        loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        allowed = self.steps if loader == "ObjectNode" else _NODES.get(loader, ())
        if allowed is not None and name not in allowed:
            raise ValueError(f"{name} ({loader}) is not among what a file may hold")
        if loader == "ObjectNode" and name.endswith(".Pipeline"):
            # A cache of joblib is a folder of pickles.
            memory = node["content"]["content"]["memory"]
            if (memory["__loader__"], memory["content"]) != ("JsonNode", "null"):
                raise ValueError("the memory of a Pipeline inside another step must be None")
        if loader == "NdArrayNode":
            self._check_array(node)
        if loader != "CachedNode":
            self.names.add(name)

    def _check_array(self, node):
        if node["type"] != "numpy":
            return
        # Each part is read once: many nodes on one part would be a small file that grows.
        if node["file"] not in self.unread:
            raise ValueError(f"{node['file']} of its steps is missing or used twice")
        del self.unread[node["file"]]
        stream = io.BytesIO(self.archive.read(node["file"]))
        read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, _, dtype = read_header[npy.read_magic(stream)](stream)
        fits = math.prod(shape) * dtype.itemsize == len(stream.read())
        # Items of no bytes could be any number.
        if dtype.hasobject or not fits or (dtype.itemsize == 0 and math.prod(shape)):
            raise ValueError(f"an array of its steps does not have its shape {shape} of {dtype}")
