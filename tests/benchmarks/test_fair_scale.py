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


def test_who_is_trained_with_adam_is_compared_with_a_baseline_trained_with_adam():
    top_one = importlib.import_module("top_one")
    level = {"BaseLine": 50.0, "BaseLine, rate x 10": 60.0, "BaseLine, Adam": 70.0}
    level |= {"DeepTopPush": 65.0, "DeepTopPush, Adam": 65.0}
    rows = [
        {"part": "tables", "data": "d", "method": method, "seed": seed}
        | dict.fromkeys(top_one.METRICS, value + 0.1 * seed)
        for method, value in level.items()
        for seed in range(3)
    ]
    found = top_one.findings(pd.DataFrame(rows))
    said = {(f.setting, f.difference.split()[0], f.verdict) for f in found}
    assert said == {("one class of d", "+5.00", "won"), ("one class of d, Adam", "-5.00", "lost")}
    assert {f.loss for f in found} == {"DeepTopPush"}
    assert len(found) == 2 * len(top_one.METRICS)


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


def test_cutout_of_features_blanks_one_quarter_of_the_image():
    top_curve, features = map(importlib.import_module, ("top_curve", "_patch_features"))
    generator = torch.Generator().manual_seed(0)
    # What the filters find in the right lower quarter of an image that is empty elsewhere.
    images = torch.zeros(1, 3, 32, 32)
    images[..., 20:, 20:] = 1.0
    found = features._matched(images, torch.ones(2, 3, 6, 6), torch.zeros(2))
    assert (found[0] > 0).tolist() == [False, False, False, True] * 2
    cut = top_curve.cut_out(torch.ones(40, 8), generator)
    blank = cut.reshape(40, 2, 4) == 0
    assert (blank.sum(2) == 1).all()
    assert (blank[:, 0] == blank[:, 1]).all()
    assert blank.any(0).all()


def test_a_long_tail_chooses_on_a_seed_that_is_not_judged():
    long_tails = importlib.import_module("long_tails")
    losses = {loss: long_tails.choices(loss, "full") for loss in long_tails.CHOICES}
    for loss, each in losses.items():
        assert len(set(each)) == len(each) == 4 * len(long_tails.CHOICES[loss])
    rows = [
        dict(zip(long_tails.CHOSEN, each, strict=True))
        | {
            "data": "d",
            "k": 5,
            "loss": "ldam",
            "seed": seed,
            "valid macro": place - 99 * (seed == 0),
        }
        for place, each in enumerate(losses["ldam"])
        for seed in (0, long_tails.TUNING)
    ]
    runs = pd.DataFrame(rows)
    assert long_tails.chosen(runs, "d", 5, "ldam", "full") == (1.0, 0.2, 0.5, 40.0, 3e-3, 0.3)
    assert long_tails.chosen(runs[2:], "d", 5, "ldam", "full") is None


def test_the_tail_of_a_table_is_another_one_for_each_seed(monkeypatch):
    long_tails = importlib.import_module("long_tails")
    y = np.repeat([f"class {c}" for c in range(10)], 100)
    part = np.arange(1000.0)[:, None], y
    monkeypatch.setitem(long_tails.DATA, "made up", lambda: ([part, part, part], None))
    tails = [long_tails.table_of("made up", seed) for seed in (0, 1)]
    for (X, labels), valid, test in tails:
        counts = np.bincount(labels)
        assert counts[0] == 100
        assert counts[-1] == 1
        assert np.bincount(valid[1]).tolist() == np.bincount(test[1]).tolist() == [100] * 10
        # Labels still name the rows that they named: a class is a hundred rows in a row.
        for c in range(10):
            assert len(set(X[labels == c, 0] // 100) | set(valid[0][valid[1] == c, 0] // 100)) == 1
    assert tails[0][1][1].tolist() != tails[1][1][1].tolist()


def test_features_of_crops_are_those_of_the_images_cut_out():
    features = importlib.import_module("_patch_features")
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3, 3, 32, 32, generator=generator) - 0.5
    filters = torch.randn(4, 3, 6, 6, generator=generator), torch.randn(4, generator=generator)
    found = features._crops(images, *filters)
    expected = []
    for whole in (images, images.flip(3)):
        for top, left in [(2, 2), (0, 0), (0, 4), (4, 0), (4, 4)]:
            cut = whole[:, :, top : top + 28, left : left + 28]
            expected.append(features._matched(cut, *filters))
    torch.testing.assert_close(found, torch.stack(expected, 1))
    # The centre of the image and of its mirror image.
    assert features.CENTRE == 0


def test_the_temperature_falls_in_steps_and_not_in_validation():
    margin = importlib.import_module("margin")
    loss = margin.Annealed(2, 1.0, n_steps=4)
    scores, target = torch.zeros(2, 5), torch.tensor([0, 1])
    taus = []
    for _ in range(6):
        loss(scores.clone().requires_grad_(), target)
        taus.append(loss.tau)
        loss(scores, target)
    np.testing.assert_allclose(taus, [*np.geomspace(1, 0.1, 5)[1:], 0.1, 0.1])


def test_a_case_chooses_by_its_metric_among_its_own_runs():
    choosing = importlib.import_module("_choosing")
    case = choosing.Case({"data": "d"}, {"rate": (0.1, 0.2), "decay": (1, 2)}, {"epochs": 3}, "top")
    assert len(case.choices()) == 4
    rows = [
        {"data": data, "epochs": epochs, "seed": seed, **choice}
        | {"top": 10 * choice["rate"] - choice["decay"] - 9 * (seed == 0) + 99 * (data == "e")}
        for data in ("d", "e")
        for epochs in (3, 4)
        for seed in (0, choosing.TUNING)
        for choice in case.choices()
    ]
    # Others would choose otherwise.
    runs = pd.DataFrame(rows)
    other = (runs.data == "e") | (runs.epochs == 4) | (runs.seed == 0)
    runs.loc[other, "top"] += 50.0 * runs.decay[other]
    assert case.chosen(runs) == {"rate": 0.2, "decay": 1}
    judged, tuned = case.of(runs)
    assert len(judged) == len(tuned) == 4
