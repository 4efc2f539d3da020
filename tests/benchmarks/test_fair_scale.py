"""What the papers' experiments do to their data, and what they choose by."""

import importlib

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("PIL")


def test_a_part_of_one_half_is_removed(monkeypatch):
    halves = importlib.import_module("halves")
    X = np.arange(12_000.0).reshape(-1, 1, 1, 1)
    y = np.arange(12_000) % 2
    monkeypatch.setattr(halves, "images", lambda subset: (X, y, 0.0, 1.0))
    (train, y_train), (valid, y_valid), _ = halves.parts(0.9, 6000, 0)
    assert y_valid.mean() == pytest.approx(0.5, abs=0.05)
    n_negative, n_positive = np.bincount(y_train)
    assert n_positive == pytest.approx(0.1 * n_negative, rel=0.1)
    assert not set(train.ravel()) & set(valid.ravel())


def test_the_threshold_is_that_of_the_best_f1():
    halves = importlib.import_module("halves")
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.2).astype(int)
    score = rng.normal(size=200) + y

    def f1(cut):
        flagged = score > cut
        return 2 * (flagged & (y == 1)).sum() / (flagged.sum() + y.sum())

    best = max(map(f1, np.concatenate([score - 1e-9, score + 1e-9])))
    assert f1(halves.best_threshold(y, score)) == pytest.approx(best)


def test_settings_are_chosen_on_validation_rows_of_a_seed_that_is_not_judged():
    label_noise = importlib.import_module("label_noise")
    rows = [
        {
            "case": "c", "noise": 0.4, "method": "smooth, k=5", "score_scale": scale,
            "learning_rate": rate, "weight_decay": decay, "seed": seed,
            "valid_top5": scale / 10 + rate + decay - (seed == 0), "top5": -scale,
        }
        for scale in (1.0, 5.0)
        for rate in label_noise.RATES
        for decay in label_noise.DECAYS
        for seed in (0, label_noise.TUNING)
    ]  # fmt: skip
    runs = pd.DataFrame(rows)
    assert label_noise.chosen(runs, "c", 0.4, "smooth, k=5") == (5.0, 3e-3, 0.3)
    assert label_noise.chosen(runs[1:-1], "c", 0.4, "smooth, k=5") is None


def test_cutout_is_a_square_and_mixup_a_mean():
    top_curve = importlib.import_module("top_curve")
    generator = torch.Generator().manual_seed(0)
    images = torch.ones(40, 3, 16, 16)
    cut = top_curve.cut_out(images, generator)
    for image in cut:
        rows, columns = (image[0] == 0).nonzero(as_tuple=True)
        sides = [len(set(each.tolist())) for each in (rows, columns)]
        assert max(sides) <= 4
        assert len(rows) == sides[0] * sides[1] > 0
        assert torch.equal(image[0], image[2])
    labels = torch.arange(40)
    images = labels[:, None, None, None].float().expand(40, 3, 16, 16)
    mixed, target = top_curve.mixed_up(images, labels, generator)
    torch.testing.assert_close(target.sum(1), torch.ones(40))
    # The mean of labels by the weights of the target is what the pixels say.
    torch.testing.assert_close(target @ torch.arange(100.0), mixed[:, 0, 0, 0])
