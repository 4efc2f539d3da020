"""The vote of a network and other classifiers as an ONNX graph. Loads torch."""

import numpy as np

from ._converted import converted_classifier
from ._graph import Graph, labels_in_graphs, renamed
from ._network import network_model


def voting_model(onnx, vote):
    """The graph of a `TopVotingClassifier`: the mean of the probabilities of all that vote.

    By hand, as skl2onnx knows no vote of classifiers of which each is a mean of its own. The other
    classifiers see the rows in float32.
    """
    dtype, classes = vote.estimator_._numpy_dtype(), labels_in_graphs(vote.classes_)
    graph = Graph(onnx, "vote", "X", dtype)
    rows = graph.cast(np.float32)
    missing = getattr(vote.estimator_, "_missing_", None) or ()
    network = renamed(onnx, network_model(onnx, vote.estimator_), "network_")
    parts, means = [network], [graph.cast(np.float64, _append(graph, network))]
    for j, fitted in enumerate(vote.others_):
        each = []
        for m, one in enumerate(fitted):
            part = converted_classifier(onnx, [], one, "proba", missing)
            part = onnx.compose.add_prefix(part, f"other_{j}_{m}_")
            graph.add("Identity", rows, name=part.graph.input[0].name)
            each.append(graph.cast(np.float64, _append(graph, part)))
            parts.append(part)
        total = graph.add("Sum", *each)
        means.append(graph.add("Div", total, graph.constant(np.float64(len(each)))))
    total = graph.add("Sum", *means)
    proba = graph.add("Div", total, graph.constant(np.float64(len(means))))
    index = graph.add("ArgMax", proba, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(classes), index, name="label")
    scores = graph.second_less_first(proba) if len(classes) == 2 else proba
    graph.add("Cast", scores, name="scores", to=graph.kind(dtype))
    graph.add("Cast", proba, name="proba", to=graph.kind(dtype))
    samples, of_classes = ["n_samples"], ["n_samples", len(classes)]
    outputs = [
        ("scores", dtype, samples if len(classes) == 2 else of_classes),
        ("label", classes.dtype, samples),
        ("proba", dtype, of_classes),
    ]
    model = graph.model([("X", dtype, ["n_samples", vote.n_features_in_])], outputs)
    opsets = {each.domain: each for part in parts for each in part.opset_import}
    model.opset_import.extend(each for domain, each in opsets.items() if domain)
    for part in parts:
        model.functions.extend(part.functions)
    return model


def _append(graph, model):
    """Append all nodes of a model, and return the name of its probabilities."""
    graph.nodes.extend(model.graph.node)
    graph.constants.extend(model.graph.initializer)
    return next(out.name for out in model.graph.output if out.name.endswith("_proba"))
