"""Networks as ONNX graphs: layers, thresholds, labels and probabilities. Loads torch."""

import copy
import warnings

import numpy as np
import torch
from torch import nn

from sktopk._common._extras import import_extra
from sktopk._common._scalars import place_of
from sktopk._estimators.labels._topk_classifier import TopKClassifier
from sktopk.modules import MLP, Members, NormalizedLinear, ScaledScores, TabularMLP
from sktopk.modules._members import mean_of_members
from sktopk.modules._tabular_mlp import FAR

from ._graph import IR_VERSION, OPSETS, Graph, labels_in_graphs, renamed


def network_model(onnx, net):
    """The graph of a classifier with a network: scores, labels, probabilities if it has them."""
    if hasattr(net, "categories_"):
        raise ValueError(
            f"X of fit was a frame with categories in columns {list(net.categories_.values)} (from "
            "0), and a graph takes one table of numbers: encode them by a step in front, in the "
            "program that calls the graph, or keep the estimator by dump"
        )
    dtype = net._numpy_dtype()
    module = copy.deepcopy(net.net_.module_).cpu().eval()
    shape = tuple(net.input_shape_)
    model = _layers(onnx, module, shape, dtype) or _traced(onnx, module, shape, net.net_.dtype)
    scores = model.graph.output[0].name
    return onnx.compose.merge_models(
        model, _head(onnx, net, dtype), io_map=[(scores, "net_scores")]
    )


def _layers(onnx, module, shape, dtype):
    """The default network, layer by layer; None if it has a layer of another kind."""
    graph, each = Graph(onnx, "net", "X", dtype), []
    scaled = type(module) is ScaledScores
    if type(network := module.module if scaled else module) is TabularMLP:
        each = _add_members(graph, network, module.scale if scaled else None, dtype)
    for member in () if each else module if type(module) is Members else [module]:
        graph.value = "X"
        if not _add_layers(graph, member, dtype):
            return None
        each.append(graph.value)
    if len(each) > 1:
        total = graph.add("Sum", *each)
        graph.add("Div", total, graph.constant(np.array(len(each), dtype)))
    out = (graph.value, dtype, ["n_samples", None])
    return graph.model([("X", dtype, ["n_samples", *shape])], [out])


def _add_layers(graph, module, dtype):
    """Append the layers of the default network; tell whether it is one."""
    scaled = type(module) is ScaledScores
    layers = module.module if scaled else module
    if type(layers) is not MLP:
        return False
    for layer in layers:
        if isinstance(layer, nn.Linear):
            weight, bias = (graph.constant(p.detach().numpy()) for p in (layer.weight, layer.bias))
            graph.add("Gemm", graph.value, weight, bias, transB=1)
        elif isinstance(layer, nn.BatchNorm1d):
            values = layer.weight, layer.bias, layer.running_mean, layer.running_var
            constants = [graph.constant(value.detach().numpy()) for value in values]
            graph.add("BatchNormalization", graph.value, *constants, epsilon=layer.eps)
        elif isinstance(layer, nn.ReLU):
            graph.add("Relu")
        elif isinstance(layer, NormalizedLinear):
            directions = nn.functional.normalize(layer.weight.detach(), eps=0.0).nan_to_num()
            rows = graph.value
            length = graph.add("ReduceL2", rows, graph.constant(np.array([1])), keepdims=1)
            zero, one = (graph.constant(np.array(value, dtype)) for value in (0, 1))
            length = graph.add("Where", graph.add("Equal", length, zero), one, length)
            unit = graph.add("Div", rows, length)
            graph.add("Gemm", unit, graph.constant(directions.numpy()), transB=1)
        elif not isinstance(layer, nn.Dropout):
            return False
    if scaled:
        graph.add("Mul", graph.value, graph.constant(np.array(module.scale, dtype)))
    return True


def _add_members(graph, network, scale, dtype):
    """Append a TabularMLP; return the scores of each member.

    They have layers of their own: of no rows, ONNX Runtime divides by zero in batched products.
    """
    number = graph.number

    def buffer(name):
        return graph.constant(getattr(network, name).numpy())

    z = graph.add("Mul", graph.add("Sub", "X", buffer("center")), buffer("scale"))
    z = graph.add("Where", graph.add("IsNaN", z), number(0), z)
    z = graph.add("Clip", z, number(-FAR), number(FAR))
    third = graph.add("Div", z, number(3))
    square = graph.add("Add", graph.add("Mul", third, third), number(1))
    parts = [graph.add("Div", z, graph.add("Sqrt", square))]
    if network.n_encoded:
        z = graph.add("Gather", z, buffer("bin_column"), axis=1)
        z = graph.add("Mul", graph.add("Sub", z, buffer("bin_start")), buffer("bin_slope"))
        parts.append(graph.add("Clip", z, number(0), number(1)))
    if len(network.missing_column):
        missing = graph.add("IsNaN", graph.add("Gather", "X", buffer("missing_column"), axis=1))
        parts.append(graph.cast(dtype, missing))
    if len(network.category_column):
        values = graph.add("Gather", "X", buffer("category_column"), axis=1)
        own = graph.constant(network.category_value.numpy().astype(dtype))
        is_there = graph.cast(dtype, graph.add("Equal", values, own))
        parts.append(graph.add("Mul", is_there, buffer("category_scale")))
    encoded, each = graph.add("Concat", *parts, axis=1), []
    for m in range(network.n_members):
        graph.value = encoded
        for i, layer in enumerate(network.layers):
            if i:
                graph.add("Relu")
            own = (graph.constant(p[m].detach().numpy()) for p in (layer.weight, layer.bias))
            graph.add("Gemm", graph.value, *own, transB=1)
        if scale is not None:
            graph.add("Mul", graph.value, number(scale))
        each.append(graph.value)
    return each


class _MeanOfMembers(nn.Module):
    """The mean of the scores of several members."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        """Return scores (n_samples, n_outputs)."""
        return mean_of_members(self.module(x))


def _traced(onnx, module, shape, dtype):
    """Any other network, by torch's own exporter."""
    import_extra("onnxscript", "to_onnx of a module", "onnx")
    rows = torch.zeros((2, *shape), dtype=dtype)
    with warnings.catch_warnings():  # of torch, about itself
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _MeanOfMembers(module),
            (rows,),
            dynamo=True,
            dynamic_shapes=({0: "n_samples"},),
            input_names=["X"],
            output_names=["scores"],
            opset_version=OPSETS[""],
            verbose=False,
        )
    model = program.model_proto
    model.ir_version = IR_VERSION
    return renamed(onnx, model, "net_")


def _head(onnx, net, dtype):
    """From the scores of the network to those of `decision_function`, labels, probabilities."""
    graph, classes = Graph(onnx, "head", "net_scores", dtype), labels_in_graphs(net.classes_)
    n_classes, turned = len(classes), _is_turned(net)
    several = net.net_.n_outputs > 1 and n_classes > 2
    in_order = graph.value
    if net.net_.k_ordered is not None:
        in_order = _add_order(graph, net.net_.k_ordered, n_classes)
    of_classes = graph.value
    # Of two classes the score of the positive one, which says above 0 where it is predicted.
    scores = of_classes if several else _binary_scores(graph, net, dtype)
    if isinstance(net, TopKClassifier):
        k = graph.constant(np.array([net.k_]))
        name, index = "topk_labels", graph.add("TopK", of_classes, k, axis=1, n_outputs=2)
    elif several:
        name, index = "label", graph.add("ArgMax", of_classes, axis=1, keepdims=0)
    else:
        above = graph.add("Greater", scores, graph.constant(np.array(0, dtype)))
        name, index = "label", graph.cast(np.int64, above)
    labels = graph.constant(classes[::-1] if turned else classes)
    graph.add("Gather", labels, index, name=name)
    scores = graph.add("Neg" if turned else "Identity", scores, name="scores")
    rows = ["n_samples"]
    outputs = [
        ("scores", dtype, [*rows, n_classes] if several else rows),
        (name, classes.dtype, [*rows, net.k_] if name == "topk_labels" else rows),
    ]
    if hasattr(net, "predict_proba"):
        _add_proba(graph, net, in_order if net.net_.n_outputs > 1 else None, scores)
        outputs.append(("proba", dtype, [*rows, n_classes]))
    return graph.model([("net_scores", dtype, [*rows, None])], outputs)


def _add_proba(graph, net, of_classes, decision):
    """Append probabilities from the scores of the classes, or of the second one of two.

    As `predict_proba` has them: in float64, with the softmax that ranks two classes alike.
    """
    dtype = graph.dtype
    if of_classes is None:
        column = graph.add("Reshape", decision, graph.constant(np.array([-1, 1])))
        half = graph.add("Mul", column, graph.number(0.5))
        of_classes = graph.add("Concat", graph.add("Neg", half), half, axis=1)
    elif isinstance(net, TopKClassifier):
        added = graph.constant(np.asarray(net._log_frequencies, dtype=dtype))
        of_classes = graph.add("Add", of_classes, added)
    method, slope, intercept = getattr(net, "calibration_", ("temperature", 1.0, 0.0))
    graph.cast(np.float64, of_classes)
    graph.add("Mul", graph.value, graph.constant(np.asarray(slope, np.float64)))
    graph.add("Add", graph.value, graph.constant(np.asarray(intercept, np.float64)))
    if method == "sigmoid":
        each = graph.add("Sigmoid")
        total = graph.add("ReduceSum", each, graph.constant(np.array([1])), keepdims=1)
        graph.add("Div", each, total)
    else:
        graph.add("Softmax", axis=1)
    graph.add("Cast", name="proba", to=graph.kind(dtype))


def _add_order(graph, k, n_classes):
    """Append what makes one vector of scores of two heads, and return those of the second.

    See `ordered_sets`.
    """
    axis = graph.constant(np.array([1]))
    sizes = graph.constant(np.array([n_classes, n_classes]))
    order = graph.add("Split", graph.value, sizes, axis=1, n_outputs=2)
    sets = graph.nodes[-1].output[0]
    columns = graph.add("TopK", sets, graph.constant(np.array([k])), axis=1, n_outputs=2)
    # Not OneHot: of no rows, ONNX Runtime divides by zero there.
    columns = graph.add("Unsqueeze", columns, graph.constant(np.array([2])))
    each = graph.add("Equal", columns, graph.constant(np.arange(n_classes)))
    each = graph.cast(np.int64, each)
    inside = graph.cast(bool, graph.add("ReduceSum", each, axis, keepdims=0))
    of_set = graph.add("Where", inside, order, graph.number(np.inf))
    lowest = graph.add("ReduceMin", of_set, axis, keepdims=1)
    others = graph.add("Where", inside, graph.number(-np.inf), order)
    highest = graph.add("ReduceMax", others, axis, keepdims=1)
    sizes = graph.add("Add", graph.add("Abs", lowest), graph.add("Abs", highest))
    room = graph.add("Mul", graph.add("Add", sizes, graph.number(1)), graph.number(2.0**-10))
    raised = graph.add("Add", graph.add("Sub", highest, lowest), room)
    raised = graph.add(
        "Where", graph.add("GreaterOrEqual", highest, lowest), raised, graph.number(0)
    )
    graph.add("Where", inside, graph.add("Add", order, raised), order)
    return order


def _is_turned(estimator):
    """Whether the first class is the positive one."""
    pos_label = getattr(estimator, "pos_label_", None)
    return pos_label is not None and place_of(pos_label, estimator.classes_) == 0


def _binary_scores(graph, net, dtype):
    """One score per row: above 0 the positive class, or the second."""
    if net.net_.n_outputs > 1:
        return graph.second_less_first(graph.value)
    graph.add("Reshape", graph.value, graph.constant(np.array([-1])))
    # As decision_function does: in float64, where the difference of two scores cannot vanish.
    graph.cast(np.float64)
    graph.add("Sub", graph.value, graph.constant(np.array(net.threshold_, np.float64)))
    return graph.cast(dtype)
