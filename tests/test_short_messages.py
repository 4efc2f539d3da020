"""Errors name the parameter in one short line, whatever torch or Python would print."""

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback

from sktopk import TopKClassifier
from sktopk.losses import smooth_topk_loss

X, Y = np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 4
QUICK = {"k": 2, "n_estimators": 1, "max_epochs": 2, "random_state": 0}
CLF = TopKClassifier(**QUICK).fit(X, Y)
HUGE = 10**400
LOSS = {"scores": torch.zeros(2, 4), "target": torch.zeros(2, dtype=torch.long)}
CALLS = {
    "MPS that is missing": (lambda: TopKClassifier(device="mps").fit(X, Y), "device='mps' cannot"),
    "XLA that is missing": (lambda: TopKClassifier(device="xla").fit(X, Y), "device='xla' cannot"),
    "k of predict_topk": (lambda: CLF.predict_topk(X, k=HUGE), "k must be"),
    "negative k of predict_topk": (lambda: CLF.predict_topk(X, k=-HUGE), "k must be"),
    "k of a loss": (lambda: smooth_topk_loss(**LOSS, k=HUGE, tau=1.0), "k must be"),
}


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="has MPS")
@pytest.mark.parametrize("case", CALLS)
def test_a_message_is_one_short_line(case):
    call, start = CALLS[case]
    with pytest.raises(ValueError, match=f"^{start}") as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


class Stop(Callback):
    def on_epoch_end(self, net, **kwargs):
        raise RuntimeError("crash")


@pytest.mark.parametrize("seed", [-1, 2**31, HUGE])
def test_a_forged_seed_of_a_checkpoint_is_named(seed, tmp_path):
    clf = TopKClassifier(**QUICK, callbacks=[Stop()])
    with pytest.raises(RuntimeError, match="crash"):
        clf.fit(X, Y, checkpoint=tmp_path / "file")
    state = torch.load(tmp_path / "file", weights_only=True)
    torch.save(state | {"seed": seed}, tmp_path / "file")
    with pytest.raises(
        ValueError, match=r"checkpoint=.* is not a checkpoint: seed must be between"
    ):
        clf.fit(X, Y, checkpoint=tmp_path / "file")
