"""ONNX graphs of classifiers with a network.

- ``_classifier``: converts a classifier, including its threshold and calibration, to a torch
  module. Only this file reads private attributes of the classifier.
- ``_graph``: exports the module with ``torch.onnx``, and preceding steps with skl2onnx.
- ``_compare``: compares the outputs of ONNX Runtime and of the estimator.
"""
