"""Conversion of fitted classifiers to torch modules. Only this file reads classifier internals."""

import copy

import torch
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import nn

from sktopk._estimators._base import BaseNetClassifier
from sktopk._estimators.topk import TopKClassifier
from sktopk.modules._tabular_mlp import MemberLinear, mean_of_members


def pipeline_parts(estimator):
    """Return two values: the list of the steps before the classifier, and the classifier."""
    steps, inner = [], estimator
    while not isinstance(inner, BaseNetClassifier):
        if isinstance(inner, FrozenEstimator):
            inner = inner.estimator
        elif isinstance(inner, Pipeline):
            steps += [pair for pair in inner.steps[:-1] if pair[1] not in (None, "passthrough")]
            inner = inner.steps[-1][1]
        else:
            raise TypeError(
                "estimator must be a classifier of sktopk with a network, or a Pipeline that ends "
                f"with one; got {type(inner).__name__}. For a BudgetClassifier or SetClassifier, "
                "export its estimator_, and compute decisions from the outputs of the ONNX model"
            )
    check_is_fitted(inner)
    return steps, inner


class _OneByOne(nn.Module):
    """A `MemberLinear` as a loop: batched products crash ONNX Runtime if there are no samples."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        if x.dim() == 2:
            return self.layer(x)
        members = range(self.layer.n_members)
        return torch.stack([self.layer.of_member(x[m], m) for m in members])


class Outputs(nn.Module):
    """Module that returns scores, label indices and, if the classifier has them, probabilities."""

    def __init__(self, classifier):
        super().__init__()
        if hasattr(classifier, "categories_"):
            raise ValueError(
                "estimator must be fitted on numbers only; got categories in columns "
                f"{list(classifier.categories_.values)}. Encode them with a OneHotEncoder before "
                "the classifier, or save the estimator with joblib.dump or sktopk.io.dump"
            )
        net = classifier.net_
        self.module = copy.deepcopy(net.module_).cpu().eval().requires_grad_(False)
        for parent in list(self.module.modules()):
            for name, layer in list(parent.named_children()):
                if isinstance(layer, MemberLinear):
                    setattr(parent, name, _OneByOne(layer))
        self.dtype = net.settings.row_dtype
        self.row_shape = tuple(classifier.input_shape_)
        self.n_classes = len(classifier.classes_)
        self.k = int(classifier.k_) if isinstance(classifier, TopKClassifier) else None
        # Store the threshold as a tensor, because torch exports Python numbers as float32.
        threshold = float(getattr(classifier, "threshold_", 0.0))
        self.threshold = torch.tensor(threshold, dtype=torch.float64)
        # `decision_function` scores `classes_[1]`. If `classes_[0]` is positive, negate the scores.
        pos_label = getattr(classifier, "pos_label_", None)
        self.first_is_positive = pos_label is not None and bool(pos_label == classifier.classes_[0])
        self.has_proba = hasattr(classifier, "predict_proba")
        label = "label" if self.k is None else "topk_labels"
        self.names = ["scores", label, *(["proba"] if self.has_proba else [])]
        calibration = getattr(classifier, "calibration_", (1.0, 0.0))
        self.slope, self.intercept = torch.tensor(calibration, dtype=torch.float64)

    def forward(self, rows):
        of_net = mean_of_members(self.module(rows))
        of_net = of_net.reshape(of_net.shape[0], -1)  # `len` would fix the number of samples
        scores = self._decision(of_net)
        outputs = scores, self._index(of_net, scores)
        if not self.has_proba:
            return outputs
        calibrated = self.slope * of_net.double() + self.intercept
        if of_net.shape[1] > 1:
            return *outputs, calibrated.softmax(dim=1).to(self.dtype)
        proba = torch.cat([-calibrated, calibrated], dim=1).sigmoid().to(self.dtype)
        return *outputs, proba.flip(1) if self.first_is_positive else proba

    def _decision(self, of_classes):
        """Return the scores that `decision_function` of the classifier returns."""
        if of_classes.shape[1] == 1:
            # Subtract in float64, because float32 could round a small difference to 0.
            scores = (of_classes.flatten().double() - self.threshold).to(self.dtype)
            return -scores if self.first_is_positive else scores
        scores = of_classes if self.n_classes > 2 else of_classes[:, 1] - of_classes[:, 0]
        return scores.to(self.dtype)

    def _index(self, of_classes, scores):
        """Return the indices of the labels that `predict_topk` or `predict` returns."""
        if self.k is not None:
            return of_classes.topk(self.k, dim=1).indices
        # A score of 0 means the negative class. It has index 1 if the positive class has index 0.
        return (scores >= 0 if self.first_is_positive else scores > 0).long()
