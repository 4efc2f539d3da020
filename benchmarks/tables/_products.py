"""Seconds of a network's products of matrices alone: what no code around them can save."""

import time

import numpy as np
import torch


def of_training(estimator, n_rows, batch=256):
    """Seconds of the processor, forward and backward, of the training of a `TabularMLP`."""
    weights = _weights(estimator)
    n_steps = estimator.n_iter_ * n_rows / batch
    inputs = [torch.rand(len(w), batch, w.shape[2]) for w in weights]
    outputs = [torch.rand(len(w), batch, w.shape[1]) for w in weights]

    def step():
        for i, (weight, x, gradient) in enumerate(zip(weights, inputs, outputs, strict=True)):
            _scores(x, weight)
            torch.bmm(gradient.transpose(1, 2), x)
            if i:  # columns of the table ask for no gradient
                torch.bmm(gradient, weight)

    return n_steps * _seconds(step)


def of_predictions(estimator, n_rows, chunk=4096):
    """Seconds of the processor of the scores of rows, in chunks as the estimator takes them."""
    weights = _weights(estimator)
    inputs = [torch.rand(len(w), chunk, w.shape[2]) for w in weights]
    return n_rows / chunk * _seconds(lambda: list(map(_scores, inputs, weights)))


def _weights(estimator):
    return [layer.weight.detach() for layer in estimator.net_.network.layers]


def _scores(x, weight):
    return torch.bmm(x, weight.transpose(1, 2))


def _seconds(step):
    """The median of thirty."""
    seconds = []
    for _ in range(30):
        begin = time.process_time()
        step()
        seconds.append(time.process_time() - begin)
    return float(np.median(seconds))
