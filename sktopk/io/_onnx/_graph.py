"""Graphs of classifiers and of the steps in front of them."""

import logging
import warnings
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.pipeline import Pipeline

from sktopk._common._extras import import_extra

OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 10
# What to do instead, for an estimator and for a pipeline.
RECIPE = "Keep the estimator with joblib.dump or sktopk.io.dump"
RECIPE_OF_STEPS = (
    "Leave such steps out of the pipeline and encode and impute in front of the graph, or keep the "
    "pipeline with joblib.dump or sktopk.io.dump"
)
# Unlike any name that torch makes.
_INDEX = "sktopk_index"


def labels_in_graphs(classes):
    """Labels as a graph can hold them: int64, bool, float64 or strings."""
    kinds = {"i": np.int64, "u": np.int64, "b": bool, "f": np.float64}
    if classes.dtype.kind in kinds:
        return classes.astype(kinds[classes.dtype.kind])
    if not all(isinstance(label, str) for label in classes.tolist()):
        raise TypeError(f"classes_ must be numbers, booleans or strings; got {classes.tolist()}")
    return classes.astype(object)


def classifier_graph(onnx, outputs, classes):
    """Return the graph of a classifier.

    Parameters
    ----------
    onnx : module
    outputs : Outputs
    classes : ndarray
        Labels, see `labels_in_graphs`.
    """
    operators = import_extra("onnxscript", "to_onnx", "onnx").opset18

    def stable_sort(x, stable=True, dim=-1, descending=False):
        # Torch has no translation. Of tied values TopK gives the first one first.
        size = operators.Gather(operators.Shape(x), operators.Constant(value_ints=[dim]))
        return operators.TopK(x, size, axis=dim, largest=int(descending))

    # Not one row, which torch would take for a constant of the graph.
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
                custom_translation_table={torch.ops.aten.sort.stable: stable_sort},
                verbose=False,
            )
    except Exception as error:  # of many types
        # The first cause says what it is about.
        while error.__cause__ is not None:
            error = error.__cause__
        raise ValueError(
            f"torch.onnx.export cannot convert the network ({error}). {RECIPE}"
        ) from error
    model = program.model_proto
    model.ir_version = IR_VERSION
    graph, helper = model.graph, onnx.helper
    # Torch has no strings, so that indices become labels behind what it has converted.
    graph.initializer.append(onnx.numpy_helper.from_array(classes, "sktopk_classes"))
    graph.node.append(helper.make_node("Gather", ["sktopk_classes", _INDEX], [label]))
    (info,) = (each for each in graph.output if each.name == _INDEX)
    info.name = label
    info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(classes.dtype)
    return model


def with_steps(onnx, steps, model, dtype):
    """Return the graph of the steps of a pipeline, followed by that of its classifier."""
    converted = _converted(onnx, Pipeline(steps), dtype)
    helper, (out,) = onnx.helper, converted.graph.output
    made = out.type.tensor_type.elem_type
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    cast = helper.make_model(
        helper.make_graph(
            [helper.make_node("Cast", ["made"], ["rows"], to=kind)],
            "cast",
            [helper.make_tensor_value_info("made", made, ["n_samples", None])],
            [helper.make_tensor_value_info("rows", kind, ["n_samples", None])],
        ),
        opset_imports=converted.opset_import,
        ir_version=IR_VERSION,
    )
    merge = onnx.compose.merge_models
    converted = merge(converted, cast, io_map=[(out.name, "made")])
    model = onnx.compose.add_prefix(model, "net_", rename_outputs=False)
    return merge(converted, model, io_map=[("rows", "net_X")])


def _converted(onnx, steps, dtype):
    """What skl2onnx makes of steps, with the versions that the other parts of the graph have."""
    skl2onnx = import_extra("skl2onnx", "to_onnx of a Pipeline", "onnx")
    types = import_extra("skl2onnx.common.data_types", "to_onnx of a Pipeline", "onnx")
    kind = types.FloatTensorType if dtype == np.float32 else types.DoubleTensorType
    try:
        with _quiet():
            converted = skl2onnx.convert_sklearn(
                steps,
                initial_types=[("X", kind([None, steps.n_features_in_]))],
                target_opset=OPSETS,
            )
        for out in converted.graph.output:  # as many columns as there are, not as it declares
            for dimension in out.type.tensor_type.shape.dim:
                dimension.Clear()
        onnx.checker.check_model(converted, full_check=True)
    except Exception as error:  # of many types
        names = ", ".join(type(step).__name__ for _, step in steps.steps)
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"skl2onnx cannot convert the steps {names} ({reason}). {RECIPE_OF_STEPS}"
        ) from error
    converted.ir_version = IR_VERSION
    # It declares the oldest versions that would do, and parts that are merged need the same.
    for opset in converted.opset_import:
        opset.version = OPSETS.get(opset.domain, opset.version)
    del converted.graph.value_info[:]  # hints, some of which are wrong
    return onnx.compose.add_prefix(converted, "steps_", rename_inputs=False)


@contextmanager
def _quiet():
    """Without what torch and skl2onnx warn of or log about themselves."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
