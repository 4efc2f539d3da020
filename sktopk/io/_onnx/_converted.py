"""What skl2onnx converts: steps of a pipeline, and classifiers that are not of this package."""

import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from sktopk._common._extras import import_extra

from ._graph import IR_VERSION, OPSETS, Graph, renamed

# Of the scores of such a graph, in float32, as a share: sums of a thousand trees round by less.
SLACK = 1e-6
# Rows that a graph is tried with, the share of them that has to agree, and to which digit.
_N_TRIED, _AGREEING, _TOLERANCE = 200, 0.95, 1e-4


def with_steps(onnx, steps, model, dtype):
    """The converted steps of a pipeline in front of a model."""
    converted = _convert(onnx, Pipeline(steps), dtype, {})
    (out,) = converted.graph.output
    cast = Graph(onnx, "cast", "rows")
    made = onnx.helper.tensor_dtype_to_np_dtype(out.type.tensor_type.elem_type)
    rows = ["n_samples", None]
    cast = cast.model([("rows", made, rows)], [(cast.cast(dtype), dtype, rows)])
    converted = onnx.compose.merge_models(converted, cast, io_map=[(out.name, "rows")])
    # Its input has the name of theirs, which is what the whole takes.
    model = onnx.compose.add_prefix(model, "then_", rename_outputs=False)
    io_map = [(converted.graph.output[0].name, "then_X")]
    return onnx.compose.merge_models(converted, model, io_map=io_map)


def converted_classifier(onnx, steps, classifier, output, missing=()):
    """The graph of a classifier behind its steps, with its "scores" or its "proba".

    In float32, whatever it was trained on: skl2onnx has trees that way alone. Columns that are
    `missing` somewhere are so in some of the rows that it is tried with.
    """
    options = {"raw_scores": True} if output == "scores" else {}
    if not isinstance(classifier, LinearSVC):  # which has no such option
        options["zipmap"] = False
    whole, dtype = Pipeline([*steps, ("classifier", classifier)]), np.float32
    model = _convert(onnx, whole, dtype, {id(classifier): options})
    _, made = model.graph.output
    n_classes = len(classifier.classes_)
    graph, shape = Graph(onnx, "out", "made"), ["n_samples"]
    if output == "scores" and n_classes == 2:
        # One column or two, the last of which is that of the second class.
        graph.add("Gather", "made", graph.constant(np.array(-1)), axis=1)
    else:
        shape.append(n_classes)
    graph.add("Cast", name=output, to=graph.kind(dtype))
    kind = onnx.helper.tensor_dtype_to_np_dtype(made.type.tensor_type.elem_type)
    out = graph.model([("made", kind, None)], [(output, dtype, shape)])
    io_map = [(made.name, "made")]
    model = onnx.compose.merge_models(model, out, io_map=io_map, outputs=[output])
    _try_out(model, whole, output, missing)
    return model


def given_scores(onnx, given):
    """The graph of scores that are there, in the place of X: one for each row, or its class."""
    graph, rows, dtype = Graph(onnx, "given", "X", np.float64), ["n_samples"], np.float64
    if hasattr(given, "pos_label_"):  # a desk: any scores of the positives, in the last column
        turned = given.pos_label_ == given.classes_[0]
        graph.add("Gather", "X", graph.constant(np.array(0 if turned else -1)), axis=1)
        graph.add("Neg" if turned else "Identity", name="scores")
        out = ("scores", dtype, rows)
    else:
        if len(given.classes_) == 2:  # one column has one in front, two columns stay
            last = graph.add("Gather", "X", graph.constant(np.array([-1])), axis=1)
            graph.add("Concat", graph.add("Sub", graph.number(1), last), "X", axis=1)
            starts, ends, axes = (graph.constant(np.array([i])) for i in (-2, 2**31, 1))
            graph.add("Slice", graph.value, starts, ends, axes)
        graph.add("Identity", name="proba")
        out = ("proba", dtype, [*rows, len(given.classes_)])
    return graph.model([("X", dtype, [*rows, None])], [out])


def _convert(onnx, estimator, dtype, options):
    """What skl2onnx makes of an estimator, with the versions that all parts of a graph name."""
    skl2onnx = import_extra("skl2onnx", "to_onnx of what is not of sktopk", "onnx")
    types = import_extra("skl2onnx.common.data_types", "to_onnx", "onnx")
    kind = types.FloatTensorType if dtype == np.float32 else types.DoubleTensorType
    try:
        converted = skl2onnx.convert_sklearn(
            estimator,
            initial_types=[("X", kind([None, estimator.n_features_in_]))],
            target_opset=OPSETS,
            options=options,
            custom_conversion_functions={HistGradientBoostingClassifier: _convert_boosting},
        )
        for out in converted.graph.output:  # as many columns as come, not as it declares
            for dimension in out.type.tensor_type.shape.dim:
                dimension.Clear()
        onnx.checker.check_model(converted, full_check=True)
    except Exception as error:  # a kind for each of its reasons
        names = ", ".join(type(step).__name__ for _, step in estimator.steps)
        raise ValueError(f"skl2onnx cannot convert the steps {names}: {error}") from error
    converted.ir_version = IR_VERSION
    # It names the oldest that would do; a merger wants all parts to name the same.
    for opset in converted.opset_import:
        opset.version = OPSETS.get(opset.domain, opset.version)
    return renamed(onnx, converted, "skl2onnx_")


def _convert_boosting(scope, operator, container):
    """The trees of histogram boosting: skl2onnx has booleans where protobuf takes integers."""
    trees = import_extra("skl2onnx.operator_converters.random_forest", "to_onnx", "onnx")
    add_node = container.add_node

    def add_plain_node(*names, **attributes):
        if "nodes_missing_value_tracks_true" in attributes:
            as_numbers = [int(value) for value in attributes["nodes_missing_value_tracks_true"]]
            attributes["nodes_missing_value_tracks_true"] = as_numbers
            attributes["base_values"] = np.ravel(attributes["base_values"]).tolist()
        return add_node(*names, **attributes)

    container.add_node = add_plain_node
    trees.convert_sklearn_random_forest_classifier(scope, operator, container)
    del container.add_node


def _try_out(model, classifier, output, missing):
    """Raise if the graph of a classifier says otherwise than it, of rows that are drawn."""
    runtime = import_extra("onnxruntime", "to_onnx of what is not of sktopk", "onnx")
    random, n_features = np.random.default_rng(0), classifier.n_features_in_
    scale = 10.0 ** random.uniform(-3, 3, (_N_TRIED, 1))
    X = (scale * random.normal(size=(_N_TRIED, n_features))).astype(np.float32)
    for column in missing:
        X[random.random(_N_TRIED) < 0.5, column] = np.nan
    method = "decision_function" if output == "scores" else "predict_proba"
    try:
        with warnings.catch_warnings():  # of names of columns, or of numbers so large
            warnings.simplefilter("ignore")
            expected = getattr(classifier, method)(X)
    except ValueError:  # a category that it does not know, say
        return
    (made,) = runtime.InferenceSession(model.SerializeToString()).run(None, {"X": X})
    error = np.abs(made - expected) / np.maximum(1, np.abs(expected))
    agreeing = (error < _TOLERANCE).reshape(len(X), -1).all(axis=1).mean()
    if agreeing < _AGREEING:
        name = type(classifier.steps[-1][1]).__name__
        gaps = ", some with missing values as in fit" if len(missing) else ""
        way = "impute in front, or " if len(missing) else ""
        raise ValueError(
            f"what skl2onnx makes of {name} has other {method} than it for {1 - agreeing:.0%} of "
            f"{_N_TRIED} rows that were drawn{gaps}: {way}hand its scores to a decision made by "
            "from_scores"
        )
