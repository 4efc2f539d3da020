"""ONNX graphs of classifiers with a network, and of preceding pipeline steps."""
