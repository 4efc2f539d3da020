"""What ONNX graphs of estimators are written with."""

import numpy as np

OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 10


class Graph:
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

    def second_less_first(self, values):
        """Append the difference of two columns, one number per row."""
        second, first = (
            self.add("Gather", values, self.constant(np.array(c)), axis=1) for c in (1, 0)
        )
        return self.add("Sub", second, first)

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
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def labels_in_graphs(classes):
    """Labels as a graph can hold them."""
    kinds = {"i": np.int64, "u": np.int64, "b": bool, "f": np.float64}
    if classes.dtype.kind in kinds:
        return classes.astype(kinds[classes.dtype.kind])
    if not all(isinstance(label, str) for label in classes.tolist()):
        raise TypeError(f"classes_ must be numbers, booleans or strings; got {classes.tolist()}")
    return classes.astype(object)


def renamed(onnx, model, prefix):
    """The model with a prefix to all names but that of what it takes."""
    del model.graph.value_info[:]  # hints, some of which name inputs
    return onnx.compose.add_prefix(model, prefix, rename_inputs=False)


def kinds_of(onnx, model):
    """The dtype of each output of a model, by its name."""
    to_dtype = onnx.helper.tensor_dtype_to_np_dtype
    return {out.name: to_dtype(out.type.tensor_type.elem_type) for out in model.graph.output}


def behind(onnx, model, head, names):
    """The model with another behind it, whose inputs "of_..." are outputs of the first."""
    io_map = [(f"inner_{name}", f"of_{name}") for name in names]
    outputs = [out.name for out in head.graph.output]
    inner = renamed(onnx, model, "inner_")
    return onnx.compose.merge_models(inner, head, io_map=io_map, outputs=outputs)
