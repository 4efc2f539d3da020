"""ONNX graphs of classifiers with a network.

- ``_classifier``: the network and its decisions as one torch module; knows what is private.
- ``_graph``: the graph of a classifier by ``torch.onnx``, the steps in front of it by skl2onnx.
- ``_compare``: a graph in ONNX Runtime against the estimator.
"""
