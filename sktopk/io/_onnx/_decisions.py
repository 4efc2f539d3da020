"""Decisions as ONNX graphs: what is done with the scores or probabilities of a classifier."""

import numpy as np

from sktopk._common._scalars import place_of
from sktopk._estimators.decisions._budget import BudgetClassifier
from sktopk._estimators.decisions._expected_cost import ExpectedCostClassifier
from sktopk._estimators.decisions._sets import SetClassifier

from ._graph import Graph, behind, kinds_of, labels_in_graphs

DECISIONS = BudgetClassifier | ExpectedCostClassifier | SetClassifier


def check_decision(decision):
    """Raise unless the scores of a row are all that the answer for it is made of."""
    if isinstance(decision, SetClassifier):
        _refuse_what_sets_need(decision)
    if isinstance(decision, BudgetClassifier) and not decision._has_threshold():
        is_per = decision.constraint == "count"
        name = "per" if is_per else "constraint"
        value = decision._per if is_per else decision.constraint
        raise ValueError(
            f"{name}={value!r} has no fixed threshold, as it looks at a batch as a whole; "
            'a graph needs one, as per="fit" finds it'
        )


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


def with_decision(onnx, model, decision, slack):
    """The graph of a decision behind that of its classifier, of scores, probabilities or both.

    Parameters
    ----------
    slack : float
        How far, as a share, scores of the graph may be from those that the threshold was found
        with. Many rows may score exactly as much as it, those of trees above all.
    """
    kinds = kinds_of(onnx, model)
    given = [name for name in ("scores", "proba") if name in kinds]
    n_classes, rows = len(decision.classes_), ["n_samples"]
    shapes = {"scores": rows if n_classes == 2 else [*rows, n_classes], "proba": [*rows, n_classes]}
    if isinstance(decision, BudgetClassifier):
        given, add = given[:1], _add_budget
    elif isinstance(decision, ExpectedCostClassifier):
        given, add = ["proba"], _add_costs
    else:
        add = _add_set
    graph = Graph(onnx, "decision", None, kinds[given[0]])
    outputs = add(graph, decision, {name: f"of_{name}" for name in given}, shapes, slack)
    inputs = [(f"of_{name}", kinds[name], shapes[name]) for name in given]
    return behind(onnx, model, graph.model(inputs, outputs), given)


def _add_budget(graph, budget, given, shapes, slack):
    """Append the threshold: rows above it are flagged."""
    classes, dtype = labels_in_graphs(budget.classes_), graph.dtype
    turned = place_of(budget.pos_label_, budget.classes_) == 0
    if "scores" in given:
        scores = graph.add("Neg" if turned else "Identity", given["scores"])
    else:
        column = graph.constant(np.array(0 if turned else 1))
        scores = graph.add("Gather", given["proba"], column, axis=1)
    exact = graph.cast(np.float64, scores)
    threshold = np.float64(budget.threshold_)
    # Rows that nearly tie with it, many of them in trees, are on the side that keeps the promise.
    slack *= max(1.0, abs(np.nan_to_num(threshold))) * (-1 if budget.constraint == "recall" else 1)
    limit = graph.constant(threshold + slack)
    above = graph.add("Greater", exact, limit)
    scores = graph.cast(dtype, graph.add("Sub", exact, limit))
    graph.add("Neg" if turned else "Identity", scores, name="scores")
    labels = graph.constant(classes[::-1] if turned else classes)
    graph.add("Gather", labels, graph.cast(np.int64, above), name="label")
    rows = shapes["scores"]
    return [("scores", dtype, rows), ("label", classes.dtype, rows)]


def _add_costs(graph, decision, given, shapes, slack):
    """Append what each answer saves, and the label that saves most."""
    classes, dtype = labels_in_graphs(decision.classes_), graph.dtype
    proba = graph.cast(np.float64, given["proba"])
    cost = graph.add("MatMul", proba, graph.constant(decision.cost_matrix_))
    index = graph.add("ArgMin", cost, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(classes), index, name="label")
    saved = graph.add("Neg", cost)
    if len(classes) == 2:
        saved = graph.second_less_first(saved)
    graph.add("Cast", saved, name="scores", to=graph.kind(dtype))
    return [("scores", dtype, shapes["scores"]), ("label", classes.dtype, ["n_samples"])]


def _add_set(graph, decision, given, shapes, slack):
    """Append the set of labels of each row, as a matrix, behind what it is made of."""
    outputs = [(name, graph.dtype, shapes[name]) for name in given]
    for name in given:
        graph.add("Identity", given[name], name=name)
    outputs.insert(1 if "scores" in given else 0, ("set", bool, shapes["proba"]))
    if "proba" in given:
        proba = graph.cast(np.float64, given["proba"])
    else:
        # As `predict_class_proba` has them, of two classes with a score of 0 for the first.
        exact = graph.cast(np.float64, given["scores"])
        if len(decision.classes_) == 2:
            exact = graph.add("Reshape", exact, graph.constant(np.array([-1, 1])))
            exact = graph.add("Concat", graph.add("Sub", exact, exact), exact, axis=1)
        proba, slack = graph.add("Softmax", exact, axis=1), 0.0  # these hardly ever tie
    _add_sets(graph, decision, proba, slack)
    return outputs


def _add_sets(graph, sets, proba, slack):
    """Append what makes sets of probabilities in float64, see `Conformity`."""
    n_classes = len(sets.classes_)
    conformity = _add_conformity(graph, sets._conformity, proba, n_classes)
    threshold = np.asarray(sets.threshold_, np.float64)
    threshold = graph.constant(threshold - slack * np.abs(np.nan_to_num(threshold)))
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
