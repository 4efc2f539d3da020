"""Estimators as ONNX graphs: steps of a pipeline, network, threshold and labels in one."""

import copy
import os
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import nn

from sktopk import __version__
from sktopk._common._atomic_file import write_atomically
from sktopk._common._extras import import_extra
from sktopk._common._scalars import place_of
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators.decisions._budget import BudgetClassifier
from sktopk._estimators.decisions._expected_cost import ExpectedCostClassifier
from sktopk._estimators.decisions._sets import SetClassifier
from sktopk._estimators.labels._topk_classifier import TopKClassifier
from sktopk.modules import MLP, Members, NormalizedLinear, ScaledScores, TabularMLP
from sktopk.modules._members import mean_of_members
from sktopk.modules._tabular_mlp import FAR

OPSETS = {"": 18, "ai.onnx.ml": 3}
_IR_VERSION = 10
_DECISIONS = BudgetClassifier | ExpectedCostClassifier | SetClassifier


def to_onnx(estimator: Any, path: str | os.PathLike) -> str:
    """Write a classifier as an ONNX graph that gives scores and labels.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package with a network, a `BudgetClassifier` with
        ``per="fit"``, a `SetClassifier` or an `ExpectedCostClassifier` around one, any of them
        inside a FrozenEstimator, or as the last step of a Pipeline whose other steps skl2onnx
        converts from one table of numbers: scalers, PCA, TruncatedSVD and the like.
    path : str or path-like
        File to write; one that exists is replaced.

    Returns
    -------
    path : str
        The path. The graph has the input "X" of shape (n_samples, ...), with any number of rows,
        in the float type of the network (its `dtype`, that of the rows it was trained on for
        "auto"), and two outputs or three. The first is "scores", what `decision_function`
        returns, with any threshold subtracted. The second is, for a `TopKClassifier`,
        "topk_labels" of shape (n_samples, k) with the k of `k_`, best first, tied labels in the
        order of `classes_`; for a `SetClassifier` "set", the bool matrix (n_samples, n_classes) of
        `predict_set`; for all others "label", what `predict` returns. Labels are int64, bool,
        float64 or strings. The third is "proba", what `predict_proba` returns, calibrated where
        that is, and not there where the estimator has none.

    Raises
    ------
    ImportError
        If onnx, skl2onnx for a Pipeline, or onnxscript for a network other than `MLP` and
        `TabularMLP` is missing: ``pip install "sktopk[onnx]"``.
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If the estimator has no network of this package, or labels that a graph cannot hold.
    ValueError
        If a BudgetClassifier has no fixed threshold (per batch or group, "fdr" and "cost" look at
        a batch as a whole); if sets need more than the scores of a row: a draw (`randomized`), its
        group, or a `hierarchy`; if a step cannot be converted, or the network was trained on a
        frame with columns of categories: encode them in front.

    Notes
    -----
    `MLP` and `TabularMLP` are written layer by layer, any other `module` by ``torch.onnx.export``.
    Scores agree to rounding, about 1e-6 relative in float32; with ``precision="bfloat16"`` the
    graph is the more exact one.

    See Also
    --------
    dump : For Python programs, and for more training.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)

    Where the extra and ONNX Runtime are installed:

    >>> session = onnxruntime.InferenceSession(to_onnx(clf, "iris.onnx"))  # doctest: +SKIP
    >>> scores, labels = session.run(None, {"X": X[:1]})  # doctest: +SKIP
    >>> labels.tolist()  # doctest: +SKIP
    [[0, 1]]
    """
    onnx = import_extra("onnx", "to_onnx", "onnx")
    steps, net, decision = _parts(estimator)
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
    model = onnx.compose.merge_models(
        model, _head(onnx, net, dtype, decision), io_map=[(scores, "net_scores")]
    )
    if steps:
        model = _with_steps(onnx, steps, model, dtype)
    model.producer_name, model.producer_version = "sktopk", __version__
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, [model.SerializeToString()])
    return os.fspath(path)


def _parts(estimator):
    """Steps before the network, the estimator that has it, a decision around it."""
    steps, decision = [], None
    while not isinstance(estimator, NetClassifier):
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif isinstance(estimator, Pipeline):
            before = estimator.steps[:-1]
            steps += [(n, step) for n, step in before if step not in (None, "passthrough")]
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, _DECISIONS) and decision is None:
            check_is_fitted(estimator, "estimator_")
            if isinstance(estimator, SetClassifier):
                _refuse_what_sets_need(estimator)
            if isinstance(estimator, BudgetClassifier) and not estimator._has_threshold():
                is_per = estimator.constraint == "count"
                name = "per" if is_per else "constraint"
                value = estimator._per if is_per else estimator.constraint
                raise ValueError(
                    f"{name}={value!r} has no fixed threshold, as it looks at a batch as a whole; "
                    'a graph needs one, as per="fit" finds it'
                )
            estimator, decision = estimator.estimator_, estimator
        else:
            raise TypeError(
                "estimator must be a classifier of sktopk with a network, a BudgetClassifier, "
                "SetClassifier or ExpectedCostClassifier around one, or a Pipeline that ends in "
                "one; got "
                f"{type(estimator).__name__}"
            )
    check_is_fitted(estimator)
    return steps, estimator, decision


def _refuse_what_sets_need(sets):
    """Raise unless the probabilities of a row are all that its set is made of."""
    refused = {
        "randomized=True draws by a hash of each row": (
            sets.randomized and sets._conformity.method in ("aps", "raps")
        ),
        'conditional="group" has a threshold for the group of each row': hasattr(sets, "groups_"),
        "hierarchy makes sets of nodes": sets._conformity.hierarchy is not None,
    }
    for reason, is_so in refused.items():
        if is_so:
            raise ValueError(
                f"{reason}, and a graph gets the features of rows alone: export the classifier "
                "inside, and hand its probabilities to SetClassifier.from_scores"
            )


class _Graph:
    """Nodes in a row, each of which takes what the one before it gives."""

    def __init__(self, onnx, prefix, value, dtype=None):
        self.onnx, self.prefix, self.value, self.dtype = onnx, prefix, value, dtype
        self.nodes, self.constants = [], []

    def constant(self, array):
        """Name of a constant."""
        name = f"{self.prefix}_constant_{len(self.constants)}"
        array = np.array(array, order="C")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def number(self, value):
        """Name of a constant number in the float type of the network."""
        return self.constant(np.array(value, self.dtype))

    def add(self, kind, *inputs, n_outputs=1, name=None, **attributes):
        """Append a node; of its outputs the last goes on to the next."""
        names = [f"{self.prefix}_{len(self.nodes)}_{i}" for i in range(n_outputs)]
        if name is not None:
            names[-1] = name
        node = self.onnx.helper.make_node(kind, inputs or [self.value], names, **attributes)
        self.nodes.append(node)
        self.value = names[-1]
        return self.value

    def cast(self, dtype, *inputs):
        """Append a change of dtype."""
        return self.add("Cast", *inputs, to=self.kind(dtype))

    def kind(self, dtype):
        """The number that ONNX has for a dtype."""
        return self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def model(self, inputs, outputs):
        """A model with these inputs and outputs, ``(name, dtype, shape)``."""
        helper = self.onnx.helper
        infos = [
            [helper.make_tensor_value_info(n, self.kind(d), s) for n, d, s in each]
            for each in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, self.prefix, *infos, self.constants)
        opsets = [helper.make_opsetid("", OPSETS[""])]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


def _layers(onnx, module, shape, dtype):
    """The default network, layer by layer; None if it has a layer of another kind."""
    graph, each = _Graph(onnx, "net", "X", dtype), []
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
        parts.append(graph.cast(dtype, graph.add("Equal", values, own)))
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
    model.ir_version = _IR_VERSION
    return onnx.compose.add_prefix(model, "net_", rename_inputs=False)


def _head(onnx, net, dtype, decision):
    """From the scores of the network to those of `decision_function`, labels, probabilities."""
    budget = decision if isinstance(decision, BudgetClassifier) else None
    graph, classes = _Graph(onnx, "head", "net_scores", dtype), _labels(net.classes_)
    n_classes, turned = len(classes), _is_turned(net)
    several = net.net_.n_outputs > 1 and n_classes > 2
    in_order = graph.value
    if net.net_.k_ordered is not None:
        in_order = _add_order(graph, net.net_.k_ordered, n_classes)
    of_classes = graph.value
    # Of two classes the score of the positive one, which says above 0 where it is predicted.
    scores = of_classes if several else _binary_scores(graph, net, dtype)
    if isinstance(decision, ExpectedCostClassifier):
        return _costs_head(graph, net, decision, in_order, scores)
    if isinstance(decision, SetClassifier):
        return _sets_head(graph, net, decision, in_order, scores)
    if budget is not None:
        if turned != _is_turned(budget):
            graph.add("Neg")
        turned = _is_turned(budget)
        exact = graph.cast(np.float64)
        limit = graph.constant(np.array(budget.threshold_, np.float64))
        above = graph.add("Greater", exact, limit)
        scores = graph.cast(dtype, graph.add("Sub", exact, limit))
        name, index = "label", graph.cast(np.int64, above)
    elif isinstance(net, TopKClassifier):
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
    if budget is None and hasattr(net, "predict_proba"):
        _add_proba(graph, net, in_order if net.net_.n_outputs > 1 else None, scores)
        outputs.append(("proba", dtype, [*rows, n_classes]))
    return graph.model([("net_scores", dtype, [*rows, None])], outputs)


def _costs_head(graph, net, decision, of_classes, scores):
    """From scores to what each answer saves, and the label that saves most."""
    classes, dtype = _labels(decision.classes_), graph.dtype
    if _is_turned(net):
        scores = graph.add("Neg", scores)
    _add_proba(graph, net, of_classes if net.net_.n_outputs > 1 else None, scores)
    proba = graph.cast(np.float64)
    cost = graph.add("MatMul", proba, graph.constant(decision.cost_matrix_))
    index = graph.add("ArgMin", cost, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(classes), index, name="label")
    saved, rows = graph.add("Neg", cost), ["n_samples"]
    if len(classes) == 2:
        second, first = (
            graph.add("Gather", saved, graph.constant(np.array(c)), axis=1) for c in (1, 0)
        )
        saved = graph.add("Sub", second, first)
    graph.add("Cast", saved, name="scores", to=graph.kind(dtype))
    shape = rows if len(classes) == 2 else [*rows, len(classes)]
    outputs = [("scores", dtype, shape), ("label", classes.dtype, rows)]
    return graph.model([("net_scores", dtype, [*rows, None])], outputs)


def _sets_head(graph, net, decision, of_classes, scores):
    """From scores to the set of labels of each row, as a matrix."""
    n_classes, dtype, rows = len(decision.classes_), graph.dtype, ["n_samples"]
    several = n_classes > 2
    if not several and _is_turned(net):
        scores = graph.add("Neg", scores)
    scores = graph.add("Identity", scores, name="scores")
    outputs = [
        ("scores", dtype, [*rows, n_classes] if several else rows),
        ("set", bool, [*rows, n_classes]),
    ]
    if hasattr(net, "predict_proba"):
        _add_proba(graph, net, of_classes if net.net_.n_outputs > 1 else None, scores)
        outputs.append(("proba", dtype, [*rows, n_classes]))
        proba = graph.cast(np.float64)
    else:
        # As `predict_class_proba` has them, of two classes with a score of 0 for the first.
        exact = graph.cast(np.float64)
        if not several:
            exact = graph.add("Reshape", exact, graph.constant(np.array([-1, 1])))
            exact = graph.add("Concat", graph.add("Sub", exact, exact), exact, axis=1)
        proba = graph.add("Softmax", exact, axis=1)
    _add_sets(graph, decision, proba, n_classes)
    return graph.model([("net_scores", dtype, [*rows, None])], outputs)


def _add_sets(graph, sets, proba, n_classes):
    """Append what makes sets of probabilities in float64, see `Conformity`."""
    conformity = _add_conformity(graph, sets._conformity, proba, n_classes)
    threshold = graph.constant(np.asarray(sets.threshold_, np.float64))
    inside = graph.add("GreaterOrEqual", conformity, threshold)
    if sets.empty == "top1":
        size = graph.add("ReduceSum", graph.cast(np.int64), graph.constant(np.array([1])))
        is_empty = graph.add("Equal", size, graph.constant(np.array(0)))
        best = graph.add("ArgMax", conformity, axis=1, keepdims=1)
        best = graph.add("Equal", best, graph.constant(np.arange(n_classes)))
        inside = graph.add("Or", inside, graph.add("And", is_empty, best))
    max_size = sets._most_labels(n_classes)
    if max_size < n_classes:
        lowest = graph.constant(np.array(-np.inf))
        graph.add("Where", inside, conformity, lowest)
        most = graph.constant(np.array([max_size]))
        columns = graph.add("TopK", graph.value, most, axis=1, n_outputs=2)
        # True in these columns, in a matrix that is False.
        true = graph.add("GreaterOrEqual", columns, graph.constant(np.array(0)))
        nowhere = graph.add("Xor", inside, inside)
        kept = graph.add("ScatterElements", nowhere, columns, true, axis=1)
        inside = graph.add("And", inside, kept)
    graph.add("Identity", inside, name="set")


def _add_conformity(graph, conformity, proba, n_classes):
    """Append the conformity of each label."""
    if conformity.method == "pas":
        return graph.add("Div", proba, graph.constant(conformity.prevalence.astype(np.float64)))
    if conformity.method not in ("aps", "raps"):
        return proba
    count = graph.constant(np.array([n_classes]))
    order = graph.add("TopK", proba, count, axis=1, n_outputs=2)
    ranked = graph.nodes[-1].output[0]
    mass = graph.add("CumSum", ranked, graph.constant(np.array(1)), reverse=1)
    total = graph.add("Gather", mass, graph.constant(np.array([0])), axis=1)
    graph.add("Div", mass, total)
    if conformity.method == "raps":
        beyond = np.maximum(0, np.arange(1, n_classes + 1) - conformity.k)
        graph.add("Sub", graph.value, graph.constant(conformity.penalty * beyond))
    return graph.add("ScatterElements", proba, order, graph.value, axis=1)


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
        values = graph.value
        second, first = (
            graph.add("Gather", values, graph.constant(np.array(c)), axis=1) for c in (1, 0)
        )
        return graph.add("Sub", second, first)
    graph.add("Reshape", graph.value, graph.constant(np.array([-1])))
    # As decision_function does: in float64, where the difference of two scores cannot vanish.
    graph.cast(np.float64)
    graph.add("Sub", graph.value, graph.constant(np.array(net.threshold_, np.float64)))
    return graph.cast(dtype)


def _labels(classes):
    """Labels as a graph can hold them."""
    kinds = {"i": np.int64, "u": np.int64, "b": bool, "f": np.float64}
    if classes.dtype.kind in kinds:
        return classes.astype(kinds[classes.dtype.kind])
    if not all(isinstance(label, str) for label in classes.tolist()):
        raise TypeError(f"classes_ must be numbers, booleans or strings; got {classes.tolist()}")
    return classes.astype(object)


def _with_steps(onnx, steps, model, dtype):
    """The converted steps of a pipeline in front of a model."""
    skl2onnx = import_extra("skl2onnx", "to_onnx of a Pipeline", "onnx")
    types = import_extra("skl2onnx.common.data_types", "to_onnx of a Pipeline", "onnx")
    kind = types.FloatTensorType if dtype == np.float32 else types.DoubleTensorType
    before = Pipeline(steps)
    try:
        table = [("X", kind([None, before.n_features_in_]))]
        converted = skl2onnx.convert_sklearn(before, initial_types=table, target_opset=OPSETS)
        onnx.checker.check_model(converted, full_check=True)
    except Exception as error:  # a kind for each of its reasons
        names = ", ".join(type(step).__name__ for _, step in steps)
        raise ValueError(f"skl2onnx cannot convert the steps {names}: {error}") from error
    converted.ir_version = _IR_VERSION
    # It names the oldest that would do; a merger wants all parts to name the same.
    for opset in converted.opset_import:
        opset.version = OPSETS[opset.domain]
    converted = onnx.compose.add_prefix(converted, "steps_", rename_inputs=False)
    (out,) = converted.graph.output
    cast = _Graph(onnx, "cast", "rows")
    made = onnx.helper.tensor_dtype_to_np_dtype(out.type.tensor_type.elem_type)
    rows = ["n_samples", None]
    cast = cast.model([("rows", made, rows)], [(cast.cast(dtype), dtype, rows)])
    converted = onnx.compose.merge_models(converted, cast, io_map=[(out.name, "rows")])
    # Its input has the name of theirs, which is what the whole takes.
    model = onnx.compose.add_prefix(model, "then_", rename_outputs=False)
    io_map = [(converted.graph.output[0].name, "then_X")]
    return onnx.compose.merge_models(converted, model, io_map=io_map)
