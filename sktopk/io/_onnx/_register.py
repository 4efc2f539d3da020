"""Our classifiers among those that skl2onnx converts."""

import numpy as np

import sktopk
from sktopk._common._extras import import_extra

from ._graph import OPSETS, Graph, behind, kinds_of
from ._to_onnx import model_of

_PREFIX = "Sktopk"
OTHERS = sktopk.BudgetClassifier, sktopk.ExpectedCostClassifier


def register_onnx_converters(*subclasses: type) -> tuple[type, ...]:
    """Let skl2onnx convert the classifiers of this package, in any pipeline or ensemble.

    From then on, in this process, ``skl2onnx.to_onnx(make_pipeline(..., PatMatClassifier()), X)``
    gives what it gives of any classifier: a label and probabilities; scores where there are none,
    of two classes a column for each. So do classifiers inside of others, such as a
    ``CalibratedClassifierCV(PatMatClassifier())``, also where `to_onnx` meets them. All
    classifiers with a network, `BudgetClassifier` and
    `ExpectedCostClassifier` are registered.

    Parameters
    ----------
    *subclasses : type
        Subclasses of these to register as well: skl2onnx knows exact classes alone.

    Returns
    -------
    classes : tuple of type
        All classes that were registered.

    Raises
    ------
    ImportError
        If onnx or skl2onnx is missing: ``pip install "sktopk[onnx]"``.

    See Also
    --------
    to_onnx : Writes scores, sets and the k best labels as well, and needs no registration.

    Notes
    -----
    Labels are integers or texts there, as of all classifiers: True is 1. What has no graph is
    refused as by `to_onnx`. Graphs need opset 18 or later.

    Examples
    --------
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import register_onnx_converters
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=5, random_state=0)
    >>> clf = CalibratedClassifierCV(clf, cv=2).fit(X, y)
    >>> clf.predict_proba(X[:1]).shape
    (1, 3)

    Where the extra is installed:

    >>> registered = register_onnx_converters()  # doctest: +SKIP
    >>> graph = skl2onnx.to_onnx(clf, X[:1])  # doctest: +SKIP
    """
    skl2onnx = import_extra("skl2onnx", "register_onnx_converters", "onnx")
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
    from skl2onnx.operator_converters.pipelines import convert_pipeline
    from skl2onnx.shape_calculators.pipelines import pipeline_shape_calculator

    from sktopk.io._net_classes import NETS

    options = {"zipmap": [True, False, "columns"], "output_class_labels": [False, True]}
    options |= {"nocl": [True, False], "raw_scores": [False, True]}
    classes = (*NETS, *OTHERS, *subclasses)
    for each in classes:
        skl2onnx.update_registered_converter(
            each,
            _PREFIX + each.__name__,
            calculate_linear_classifier_output_shapes,
            _convert,
            options=options,
        )
    # Inside of an ensemble skl2onnx knows a pipeline by its class alone.
    skl2onnx.update_registered_converter(
        sktopk.Pipeline, "SktopkPipeline", pipeline_shape_calculator, convert_pipeline
    )
    return classes


def _convert(scope, operator, container):
    """Append the graph of a classifier to that of a pipeline."""
    onnx = import_extra("onnx", "register_onnx_converters", "onnx")
    if container.target_opset_any_domain("") < OPSETS[""]:
        raise ValueError(
            f"target_opset must be at least {OPSETS['']}; got {container.target_opset}"
        )
    from skl2onnx.common.data_types import DoubleTensorType

    is_double = isinstance(operator.outputs[1].type, DoubleTensorType)
    model = model_of(onnx, operator.raw_operator)
    model = _as_elsewhere(
        onnx,
        model,
        len(operator.raw_operator.classes_),
        np.float64 if is_double else np.float32,
        raw_scores=container.get_options(operator.raw_operator, {"raw_scores": False})[
            "raw_scores"
        ],
    )
    model = onnx.compose.add_prefix(model, scope.get_unique_variable_name("sktopk") + "_")
    container.initializers.extend(model.graph.initializer)
    container.nodes.extend(model.graph.node)
    for opset in model.opset_import:
        container.node_domain_version_pair_sets.add((opset.domain, opset.version))
    (taken,) = model.graph.input
    kind = taken.type.tensor_type.elem_type
    container.add_node("Cast", operator.inputs[0].full_name, taken.name, op_version=13, to=kind)
    for given, out in zip(model.graph.output, operator.outputs, strict=True):
        container.add_node("Identity", given.name, out.full_name, op_version=16)


def _as_elsewhere(onnx, model, n_classes, dtype, *, raw_scores):
    """The graph with a label, and probabilities or scores of each class in this dtype."""
    kinds, rows, several = kinds_of(onnx, model), ["n_samples"], n_classes > 2
    label = "label" if "label" in kinds else "topk_labels"
    values = "proba" if "proba" in kinds and not raw_scores else "scores"
    shapes = {"label": rows, "topk_labels": [*rows, None], "proba": [*rows, n_classes]}
    shapes["scores"] = [*rows, n_classes] if several else rows
    graph = Graph(onnx, "elsewhere", f"of_{label}")
    if label == "topk_labels":
        graph.add("Gather", graph.value, graph.constant(np.array(0)), axis=1)
    texts = kinds[label].kind == "O"
    if not texts:
        graph.cast(np.int64)
    graph.add("Identity", name="label")
    graph.value = f"of_{values}"
    if values == "scores" and not several:
        column = graph.add("Reshape", graph.value, graph.constant(np.array([-1, 1])))
        graph.add("Concat", graph.add("Neg", column), column, axis=1)
    graph.add("Cast", name="probabilities", to=graph.kind(dtype))
    outputs = [("label", object if texts else np.int64, rows)]
    outputs.append(("probabilities", dtype, [*rows, n_classes]))
    head = graph.model(
        [(f"of_{name}", kinds[name], shapes[name]) for name in (label, values)], outputs
    )
    return behind(onnx, model, head, (label, values))
