"""Types that `load` trusts, and checks of an archive before skops reads it."""

import io
import json
import math
import zipfile
from importlib import import_module

import numpy as np

import sktopk
from sktopk import __version__

# Types that a saved estimator can contain, by module.
_TYPES = {
    "sktopk": " ".join(key for key in sktopk.__all__ if key.endswith(("Classifier", "Pipeline"))),
    "sktopk._common._frames": "Categories",
    "sktopk._estimators.decisions._any_classifier": "GivenScores",
    "sktopk._estimators.decisions._conformal": "Conformity",
    "sktopk._estimators.decisions._guarantees": "Rate",
    "sktopk.callbacks": "TrueThreshold",
    "sktopk.metrics._scorer": "TopKScorer",
    "sktopk.metrics._top_scorer": "TopScorer",
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.metrics._scorer": "_CurveScorer _MultimetricScorer _PassthroughScorer _Scorer",
    "sklearn.utils._bunch": "Bunch",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
    "numpy": "dtype",
}
# Trusted types that skops creates by a call. In Python 3.13, path types are in pathlib._local.
CONSTRUCTED = {
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.PosixPath",
    "pathlib._local.WindowsPath",
    "torch.device",
}
_TRUSTED = CONSTRUCTED.union(
    *({f"{module}.{name}" for name in names.split()} for module, names in _TYPES.items())
)
# Modules with trusted public names, and required endings of these names ("" allows all names).
_PUBLIC = {
    "sktopk.losses": "",
    "sktopk.modules": "",
    "sklearn.metrics": ("_score", "_loss", "_error"),
    "sklearn.model_selection": ("Fold", "Split", "Out"),
}
# Increase this number if a version of sktopk cannot read the files of older or newer versions.
FORMAT = 1
_VERSION, _SCHEMA = "sktopk.json", "schema.json"
# Types of nodes that refer to a file in the archive, and the required ending of the file name.
_ENDINGS = {
    "NdArrayNode": ".npy",
    "SparseMatrixNode": ".npz",
    "BytesNode": ".bin",
    "BytearrayNode": ".bin",
}
# Limit of decompressed sparse matrices: _SPARSE_RATIO * archive size + _SPARSE_BYTES bytes.
_SPARSE_RATIO, _SPARSE_BYTES = 20, 1 << 24
_READ = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def trusted_among(names):
    """Return the full type names that `load` trusts, without importing untrusted modules."""
    return {name for name in names if name in _TRUSTED or _is_public(name)}


def _is_public(name):
    for module, endings in _PUBLIC.items():
        own = name.rpartition(".")[2]
        if name.startswith(f"{module}.") and own.endswith(endings):
            public = import_module(module)
            found = getattr(public, own, None) if own in public.__all__ else None
            return f"{getattr(found, '__module__', None)}.{own}" == name
    return False


def with_version(data):
    archive = io.BytesIO(data)
    with zipfile.ZipFile(archive, "a") as members:
        members.writestr(_VERSION, json.dumps({"format": FORMAT, "sktopk": __version__}))
    return archive.getvalue()


def names_in(data, constructed):
    """Check an archive, and return the full names of the types that it contains."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        stored = all(each.compress_type == zipfile.ZIP_STORED for each in archive.infolist())
        if not stored or len(sizes) < len(archive.infolist()) or sum(sizes.values()) > len(data):
            raise ValueError("archived files must be uncompressed, differ in name and not overlap")
        version = json.loads(archive.read(_VERSION)) if _VERSION in sizes else {}
        if version.get("format", FORMAT) != FORMAT:
            raise ValueError(f"the file's sktopk format must be {FORMAT}; got {version['format']}")
        for name in sizes:
            if name.endswith(".npy"):
                _check_array(archive, name)
            elif name.endswith(".npz"):
                _check_sparse(archive.read(name), len(data))
        return _check_nodes(json.loads(archive.read(_SCHEMA)), sizes, constructed)


def version_of(data):
    """Return the version of sktopk that wrote an archive, or None if the version is unknown."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return json.loads(archive.read(_VERSION))["sktopk"]
    except Exception:  # a damaged file can raise any type
        return None


def _check_array(archive, name):
    """Check that a .npy file has as many bytes as its header says."""
    with archive.open(name) as file:
        read = _READ.get(np.lib.format.read_magic(file))
        if read is None:
            raise ValueError(f"{name} must have version 1.0 or 2.0 of the .npy format")
        shape, _, dtype = read(file)
        n_bytes = archive.getinfo(name).file_size - file.tell()
    count, n_sides = math.prod(shape), math.prod(max(side, 1) for side in shape)
    # Arrays of 0 bytes can have huge shapes: if items are empty strings, or an axis has length 0.
    sizes = count <= 1 if dtype.itemsize == 0 else n_sides <= max(n_bytes, 1 << 20)
    if count * dtype.itemsize != n_bytes or not sizes:
        raise ValueError(f"{name} has {n_bytes} bytes, which do not fit shape {shape} of {dtype}")


def _check_sparse(data, n_bytes):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(each.file_size for each in archive.infolist())
        if size > (most := _SPARSE_RATIO * n_bytes + _SPARSE_BYTES):
            raise ValueError(f"a sparse matrix must decompress to at most {most} bytes; got {size}")
        for name in archive.namelist():
            _check_array(archive, name)


def _check_nodes(schema, sizes, constructed):
    """Check all nodes (stored objects) in the schema. Return the full names of their types."""
    names, reader, size_of, nodes = set(), {}, {}, []
    _count_values(schema, nodes)
    for node, n_values in nodes:
        name, number = f"{node.get('__module__')}.{node.get('__class__')}", node.get("__id__")
        names.add(name)
        loader = node["__loader__"]
        if loader == "ConstructorFromReduceNode" and name not in constructed:  # skops calls it
            raise ValueError(f"the file must not call {name}")
        if name == "numpy.void":  # could allocate any number of bytes
            raise ValueError(f"the file must not contain an object of type {name}")
        # skops replaces a node by the first node with the same `__id__`. If small nodes could stand
        # for large nodes, loading a small file could take exponential time.
        if number and size_of.setdefault(number, n_values) != n_values:
            raise ValueError(f"damaged file: objects with __id__ {number} must have equal content")
        file = node.get("file")
        if loader in _ENDINGS and (file is not None or node.get("type") != "json"):
            known = isinstance(file, str) and file.endswith(_ENDINGS[loader]) and file in sizes
            own = number or object()  # skops does not reuse nodes without `__id__`
            if not known or reader.setdefault(file, own) != own:
                must = f"name an archived {_ENDINGS[loader]} file that no other object uses"
                raise ValueError(f"damaged file: each {loader} must {must}; got {file!r:.40}")
    return names


def _count_values(value, nodes):
    """Return the number of JSON values in `value`. Append pairs (node, its number) to `nodes`."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    n_values = 1 + sum(_count_values(each, nodes) for each in parts)
    if isinstance(value, dict) and isinstance(value.get("__loader__"), str):
        nodes.append((value, n_values))
    return n_values
