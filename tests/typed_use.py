"""Uses of the public names. `make lint` checks the types; the code is never run."""

from pathlib import Path
from typing import assert_type

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression

from sktopk import (
    BudgetClassifier,
    DeepTopPushClassifier,
    RecallAtKClassifier,
    SetClassifier,
    TopBoostClassifier,
    TopKClassifier,
    make_pipeline,
)
from sktopk.boosting import objective
from sktopk.datasets import inject_label_noise
from sktopk.io import dump, load, to_onnx
from sktopk.losses import KthLargest, SmoothTopKLoss, accuracy_at_top_loss, smooth_topk_loss
from sktopk.metrics import (
    BudgetCurveDisplay,
    budget_table,
    make_top_scorer,
    precision_at_k_score,
    topk_accuracy_score,
)
from sktopk.model_selection import LossComparison, compare_losses
from sktopk.modules import MLP
from sktopk.samplers import StratifiedBatchSampler


def labels(frame: pd.DataFrame, y: list[str]) -> None:
    clf = TopKClassifier("smooth_topk", k={1: 0.5, 3: 0.5}, hidden_layer_sizes=(64,))
    assert_type(clf.fit(frame, y), TopKClassifier)
    assert_type(clf.predict_topk(frame, k=2), np.ndarray)
    assert_type(clf.score(frame, y), float)
    pipe = make_pipeline(clf)
    assert_type(pipe.predict_topk(frame), np.ndarray)
    assert_type(compare_losses(clf, ["cross_entropy"], frame, y, cv=3), LossComparison)


def rankings(X: np.ndarray, y: np.ndarray) -> None:
    clf = DeepTopPushClassifier(pos_label="fraud", random_state=np.random.RandomState(0))
    assert_type(clf.fit(X, y, groups=y), DeepTopPushClassifier)
    assert_type(clf.predict_top(X, 100), np.ndarray)
    net_params = {"optimizer": torch.optim.SGD}
    RecallAtKClassifier(k=0.01, module=MLP, net_params=net_params).partial_fit(X, y, [0, 1])
    RecallAtKClassifier().fit(torch.utils.data.TensorDataset(torch.ones(3, 2), torch.ones(3)))
    TopBoostClassifier(k=3, n_jobs=2).fit(X, y).predict_topk(X)
    objective("top_push", log_loss_share=0.5)


def decisions(X: np.ndarray, y: np.ndarray) -> None:
    desk = BudgetClassifier(LogisticRegression(), budget=100, delta=0.1).fit(X, y)
    assert_type(desk, BudgetClassifier)
    assert_type(desk.predict_top(X, groups=y), np.ndarray)
    scores = SetClassifier.from_scores([[0.5, 0.5]], ["a"], method="lac", coverage=0.8)
    assert_type(scores, SetClassifier)
    assert_type(dump(desk, "desk.sktopk"), str)
    load(Path("desk.sktopk"))
    to_onnx(RecallAtKClassifier().fit(X, y), Path("ranker.onnx"), X)


def scores(y_true: list[int], y_score: list[float]) -> None:
    assert_type(precision_at_k_score(y_true, y_score, k=0.1, pos_label=1), float)
    assert_type(topk_accuracy_score(y_true, [[0.1, 0.9]], k=1, labels=["a", "b"]), float)
    assert_type(budget_table(y_true, y_score, budgets=50)["k"], np.ndarray)
    make_top_scorer("recall_at_k", k=20)(LogisticRegression(), [[1.0]], y_true)
    display = BudgetCurveDisplay.from_predictions(y_true, y_score, value=y_score)
    assert_type(display.plot(), BudgetCurveDisplay)


def tensors(scores: torch.Tensor, target: torch.Tensor) -> None:
    assert_type(smooth_topk_loss(scores, target, k=5, reduction="none"), torch.Tensor)
    SmoothTopKLoss(k=5, tau=0.5)(scores, target)
    threshold = KthLargest("negatives", tau=0.1)
    accuracy_at_top_loss(scores, target, threshold=threshold, errors={"false_positives": 1.0})
    for batch in StratifiedBatchSampler(target, 32, generator=torch.Generator()):
        assert_type(batch, list[int])
    assert_type(inject_label_noise([0, 1], groups=[0, 0], p=0.5, random_state=0), np.ndarray)
