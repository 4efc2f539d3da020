"""ONNX graphs of classifiers and of preceding pipeline steps."""

import logging
import warnings
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.pipeline import Pipeline

from sktopk._common._extras import import_extra

OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 10
# Advice at the end of error messages, for classifiers and for pipelines.
RECIPE = "Save the estimator with joblib.dump or sktopk.io.dump"
RECIPE_OF_STEPS = (
    "Apply these steps outside the graph, or save the pipeline with joblib.dump or sktopk.io.dump"
)
# Temporary name of the output with label indices.
_INDEX = "sktopk_index"


def labels_in_graphs(classes):
    """Return labels in a dtype that ONNX supports: int64, bool, float64 or strings."""
    kinds = {"i": np.int64, "u": np.int64, "b": bool, "f": np.float64}
    if classes.dtype.kind == "u" and classes[-1] >= 2**63:
        raise ValueError(f"classes_ must be less than 2**63 for ONNX; got {classes[-1]}")
    if classes.dtype.kind in kinds:
        return classes.astype(kinds[classes.dtype.kind])
    if not all(isinstance(label, str) for label in classes.tolist()):
        raise TypeError(f"classes_ must be numbers, booleans or strings; got {classes.tolist()}")
    return classes.astype(object)


def classifier_graph(onnx, outputs, classes):
    """Return the ONNX graph of a classifier. `classes` must come from `labels_in_graphs`."""
    import_extra("onnxscript", "to_onnx", "onnx")  # torch.onnx.export needs it
    # Trace with two samples, because torch treats a dimension of size 1 as constant.
    rows = torch.zeros((2, *outputs.row_shape), dtype=outputs.dtype)
    names = list(outputs.names)
    label, names[1] = names[1], _INDEX
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                outputs,
                (rows,),
                dynamo=True,
                dynamic_shapes=({0: "n_samples"},),
                input_names=["X"],
                output_names=names,
                opset_version=OPSETS[""],
                verbose=False,
            )
    except Exception as error:  # torch raises many types
        # The first error in the chain of causes states the reason.
        while error.__cause__ is not None:
            error = error.__cause__
        raise ValueError(
            f"torch.onnx.export cannot convert the network ({error}). {RECIPE}"
        ) from error
    model = program.model_proto
    model.ir_version = IR_VERSION
    graph, helper = model.graph, onnx.helper
    # The torch module returns label indices. Add a node that converts the indices to labels.
    graph.initializer.append(onnx.numpy_helper.from_array(classes, "sktopk_classes"))
    graph.node.append(helper.make_node("Gather", ["sktopk_classes", _INDEX], [label]))
    (info,) = (each for each in graph.output if each.name == _INDEX)
    info.name = label
    info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(classes.dtype)
    return model


def with_steps(onnx, steps, model, dtype, given):
    """Return a graph that applies `steps` to X (dtype `given`), casts to `dtype`, runs `model`."""
    steps = Pipeline(steps)
    skl2onnx = import_extra("skl2onnx", "to_onnx of a Pipeline", "onnx")
    types = import_extra("skl2onnx.common.data_types", "to_onnx of a Pipeline", "onnx")
    kind = types.FloatTensorType if given == np.float32 else types.DoubleTensorType
    try:
        inputs = [("X", kind([None, steps.n_features_in_]))]
        with _quiet():
            converted = skl2onnx.convert_sklearn(steps, initial_types=inputs, target_opset=OPSETS)
        for out in converted.graph.output:  # the declared number of columns can be wrong
            for dimension in out.type.tensor_type.shape.dim:
                dimension.Clear()
        onnx.checker.check_model(converted, full_check=True)
    except Exception as error:  # skl2onnx raises many types
        names = ", ".join(type(step).__name__ for _, step in steps.steps)
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"skl2onnx cannot convert the steps {names} ({reason}). {RECIPE_OF_STEPS}"
        ) from error
    converted.ir_version = IR_VERSION
    # onnx merges only graphs with equal opset versions, and skl2onnx declares older versions.
    for opset in converted.opset_import:
        opset.version = OPSETS.get(opset.domain, opset.version)
    del converted.graph.value_info[:]  # optional shapes, some of which are wrong
    converted = onnx.compose.add_prefix(converted, "steps_", rename_inputs=False)
    helper, (out,) = onnx.helper, converted.graph.output
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    converted.graph.node.append(helper.make_node("Cast", [out.name], ["rows"], to=kind))
    out.name, out.type.tensor_type.elem_type = "rows", kind
    model = onnx.compose.add_prefix(model, "net_", rename_outputs=False)
    return onnx.compose.merge_models(converted, model, io_map=[("rows", "net_X")])


@contextmanager
def _quiet():
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
