"""ONNX graphs of estimators; what is written by hand, and why.

- ``_graph``: nodes in a row, by ``onnx.helper`` alone: it needs neither onnxscript nor torch.
- ``_network``: the default networks, as they are a few matrices; others by ``torch.onnx.export``,
  which needs onnxscript and has no threshold, calibration or label.
- ``_decisions``: thresholds, sets and costs, of which skl2onnx knows none.
- ``_converted``: all else by skl2onnx; by hand one mistake of it (booleans in boosted trees), and
  the rows that its graphs are tried with, as it is wrong for some classifiers without a word.
- ``_register``: hands all of these to skl2onnx, in the form that it asks for.
"""
